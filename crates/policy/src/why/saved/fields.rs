//! The fields of each step as numbers: one list for writing and for reading. New fields come last, and no field leaves: another version counts on it.

use super::super::sample::{AppStep, MachineStep, RouteStep, UpstreamStep};
use super::super::series::Step;
use super::super::times::Times;

/// Time of requests in one step, so that rules can add a history of them up: 100,000 requests at once for 5 minutes are a tenth of it.
const MICROS_MAX: u64 = 1 << 48;
/// The seconds of a day.
const SHARES_MAX: f64 = 86_400.0;

/// A step that can be saved.
pub(super) trait Fields: Step + Copy {
    /// Calls `visit` with each field, which takes over what that leaves.
    fn visit(&mut self, visit: &mut dyn FnMut(&mut u64));
}

impl Fields for AppStep {
    fn visit(&mut self, visit: &mut dyn FnMut(&mut u64)) {
        times(&mut self.times, visit);
        [&mut self.read_us, &mut self.queue_us, &mut self.app_us, &mut self.write_us]
            .into_iter()
            .for_each(|time| micros(time, visit));
        let counts = [&mut self.failed, &mut self.waiting, &mut self.held];
        let more = [&mut self.boots, &mut self.close_added, &mut self.expectations];
        counts.into_iter().chain(more).for_each(|count| narrow(count, visit));
    }
}

impl Fields for RouteStep {
    fn visit(&mut self, visit: &mut dyn FnMut(&mut u64)) {
        times(&mut self.times, visit);
        narrow(&mut self.failed, visit);
    }
}

impl Fields for UpstreamStep {
    fn visit(&mut self, visit: &mut dyn FnMut(&mut u64)) {
        times(&mut self.calls, visit);
        [&mut self.failed, &mut self.handshakes, &mut self.lost, &mut self.in_flight]
            .into_iter()
            .for_each(|count| narrow(count, visit));
    }
}

impl Fields for MachineStep {
    fn visit(&mut self, visit: &mut dyn FnMut(&mut u64)) {
        narrow(&mut self.seconds, visit);
        narrow(&mut self.cores, visit);
        [&mut self.busy, &mut self.steal, &mut self.ours].into_iter().for_each(|share| bits(share, visit));
        let mut is_known = u64::from(self.pressure.is_some());
        visit(&mut is_known);
        let mut pressure = self.pressure.unwrap_or_default();
        bits(&mut pressure, visit);
        self.pressure = (is_known == 1).then_some(pressure);
        bits(&mut self.throttled, visit);
        narrow(&mut self.limit, visit);
    }
}

fn times(times: &mut Times, visit: &mut dyn FnMut(&mut u64)) {
    times.counts.iter_mut().for_each(|count| narrow(count, visit));
    micros(&mut times.sum_us, visit);
}

fn micros(field: &mut u64, visit: &mut dyn FnMut(&mut u64)) {
    visit(field);
    *field = (*field).min(MICROS_MAX);
}

fn narrow(field: &mut u32, visit: &mut dyn FnMut(&mut u64)) {
    let mut wide = u64::from(*field);
    visit(&mut wide);
    *field = u32::try_from(wide).unwrap_or(u32::MAX);
}

/// What is not a share of some seconds is zero.
fn bits(field: &mut f64, visit: &mut dyn FnMut(&mut u64)) {
    let mut bits = field.to_bits();
    visit(&mut bits);
    *field =
        Some(f64::from_bits(bits)).filter(|share| (0.0..=SHARES_MAX).contains(share)).unwrap_or_default();
}
