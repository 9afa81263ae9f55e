//! Samples of one request that takes longer than is usual for its route: for `slow_log`, and for the lists of slow and failed requests.
//!
//! The worker gets the signals of a profile from then on until the request is over, at most [`AT_ONCE`] requests of an app at a time. Nothing of this happens to a
//! request that is not slow, nor where `slow_log` is off.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keepwarm_telemetry::timelines::{SampledStack, note_stacks};
use keepwarm_wire::frame::Samples;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Link, one_line};
use crate::dispatch::activity::RequestSummary;
use crate::dispatch::app::App;
use crate::supervisor::LinkEvent;

/// Requests of an app that are sampled at once: those that come later are slow for the same reasons. The number is arbitrary.
const AT_ONCE: u32 = 4;
/// Distinct stacks of a request; samples of more are not kept.
const STACKS: usize = 200;
/// Stacks that are shown of a request.
const SHOWN: usize = 5;
/// What a worker has to send what is left.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Microseconds by stack.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct RequestSamples(HashMap<String, u64>);

impl RequestSamples {
    pub(super) fn add(&mut self, samples: &Samples<'_>) {
        for (stack, time) in samples.stacks.pairs() {
            let time = std::str::from_utf8(time).ok().and_then(|digits| digits.parse::<u64>().ok());
            let (calls, has_room) = (one_line(stack), self.0.len() < STACKS);
            match (self.0.get_mut(&calls), time) {
                (Some(sum), Some(time)) => *sum = sum.saturating_add(time),
                (None, Some(time)) if has_room => drop(self.0.insert(calls, time)),
                _ => {}
            }
        }
    }

    /// The longest first.
    fn longest(self) -> Vec<SampledStack> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        // The name decides between equal ones, so that two looks see the same.
        all.sort_unstable_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
        all.truncate(SHOWN);
        let stack = |(calls, time): (String, _)| SampledStack {
            calls: calls.into(),
            time: Duration::from_micros(time),
        };
        all.into_iter().map(stack).collect()
    }
}

/// The sampling of a request, until it is over.
#[derive(Debug)]
pub(in crate::dispatch) struct Sampling {
    app: Arc<App>,
    link: Arc<Link>,
    stream: u32,
}

impl Sampling {
    /// Begins. `None`: the worker takes no part, or there are enough.
    pub(in crate::dispatch) fn begin(app: &Arc<App>, link: &Arc<Link>, stream: u32) -> Option<Self> {
        if !link.profiles() {
            return None;
        }
        let one_more = |sampled: u32| (sampled < AT_ONCE).then_some(sampled + 1);
        app.sampled.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        let is_first = {
            let mut inner = link.lock();
            inner.sampled.insert(stream, RequestSamples::default());
            inner.sampled.len() == 1
        };
        if is_first {
            link.report(LinkEvent::Sampled { worker: link.key.clone() });
        }
        Some(Self { app: Arc::clone(app), link: Arc::clone(link), stream })
    }

    /// The request is over, and was slow: waits for what the worker has not sent yet, says it, and keeps it for the lists. The PING also makes the worker forget when
    /// the last signal came.
    pub(in crate::dispatch) async fn finish(self, summary: RequestSummary) {
        let (responded, mut response) = mpsc::channel(1);
        self.link.ask(responded);
        // An error: it has ended, or does not respond. What has come is what there is.
        let _ = timeout(LAST_WORDS, response.recv()).await;
        let stacks = self.take().longest();
        if stacks.is_empty() {
            return;
        }
        let key = &self.link.key;
        tracing::warn!(
            name: "slow_request_sampled",
            app = %key.app, worker = key.number, pid = key.pid, id = %summary.id, route = %summary,
            stacks = %Shares(&stacks),
            "where the slow request was"
        );
        note_stacks(summary.id, stacks);
    }

    fn take(&self) -> RequestSamples {
        self.link.lock().sampled.remove(&self.stream).unwrap_or_default()
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.take();
        self.app.sampled.fetch_sub(1, Ordering::Relaxed);
        // However it ended: the time until the next signal is not a sample's.
        self.link.ping();
    }
}

/// `62% find (search.py:88) > recv (socket.py:12), waiting; 21% view (shop.py:3)`: the two innermost calls of each.
struct Shares<'s>(&'s [SampledStack]);

impl std::fmt::Display for Shares<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let total: Duration = self.0.iter().map(|stack| stack.time).sum();
        for (number, stack) in self.0.iter().enumerate() {
            let (calls, waiting) = stack
                .calls
                .strip_suffix(";(waiting)")
                .map_or((&*stack.calls, ""), |calls| (calls, ", waiting"));
            // The phase is the first.
            let mut innermost: Vec<&str> = calls.split(';').skip(1).collect();
            let shown = innermost.split_off(innermost.len().saturating_sub(2)).join(" > ");
            let share = stack.time.as_secs_f64() * 100.0 / total.as_secs_f64().max(f64::MIN_POSITIVE);
            let before = if number == 0 { "" } else { "; " };
            write!(f, "{before}{share:.0}% {shown}{waiting}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(calls: &str, milliseconds: u64) -> SampledStack {
        SampledStack { calls: calls.into(), time: Duration::from_millis(milliseconds) }
    }

    #[test]
    fn shares_name_the_two_innermost_calls() {
        let stacks = [
            stack("app;view (shop.py:3);recv (search.py:88);(waiting)", 750),
            stack("app;view (shop.py:3)", 250),
        ];
        assert_eq!(
            Shares(&stacks).to_string(),
            "75% view (shop.py:3) > recv (search.py:88), waiting; 25% view (shop.py:3)"
        );
    }

    #[test]
    fn the_longest_come_first_and_their_number_is_bounded() {
        let mut samples = RequestSamples::default();
        for number in 0..20 {
            samples.0.insert(format!("app;f{number:02}"), u64::from(number == 7) * 5 + 10);
        }
        let longest = samples.longest();
        assert_eq!(longest.len(), SHOWN);
        assert_eq!((&*longest[0].calls, longest[0].time), ("app;f07", Duration::from_micros(15)));
        assert_eq!(&*longest[1].calls, "app;f00");
    }
}
