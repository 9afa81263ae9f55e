//! Growth of a worker's memory: its own bytes each second for 12 s, each minute for an hour. At most 600 bytes a worker.

use std::collections::VecDeque;
use std::time::Duration;

use super::sample::WorkerSample;
use super::series::push;

const MIB: u64 = 1024 * 1024;
/// Seconds in which a fast leak shows.
const FAST_WINDOW: usize = 12;
const FAST_GROWTH: u64 = 64 * MIB;
const FAST_STEPS: usize = 4;
/// Minutes in which a slow leak shows.
const SLOW_WINDOW: usize = 60;
const SLOW_GROWTH: u64 = 100 * MIB;
/// Before this age a worker still loads what it needs.
const BOOT: Duration = Duration::from_secs(20);

/// The memory of one worker over time.
#[derive(Debug, Default)]
pub(super) struct WorkerMemory {
    pub(super) number: u32,
    pub(super) generation: u64,
    seconds: VecDeque<u64>,
    minutes: VecDeque<u64>,
    /// Its memory when it was first old enough, and the seconds since.
    settled: Option<(u64, u32)>,
    age: Duration,
}

/// How a worker grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Growth {
    pub(super) bytes: u64,
    pub(super) over: Duration,
}

impl Growth {
    /// Bytes a second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / self.over.as_secs_f64().max(1.0)
    }
}

impl WorkerMemory {
    pub(super) fn handle_sample(&mut self, worker: &WorkerSample) {
        (self.number, self.generation) = (worker.number, worker.generation);
        let minute = worker.age.as_secs() / 60 != self.age.as_secs() / 60;
        self.age = worker.age;
        let Some(memory) = worker.memory.filter(|_| worker.age >= BOOT) else { return };
        let settled = self.settled.get_or_insert((memory, 0));
        settled.1 = settled.1.saturating_add(1);
        push(&mut self.seconds, memory, FAST_WINDOW + 1);
        if minute {
            push(&mut self.minutes, memory, SLOW_WINDOW + 1);
        }
    }

    /// The growth that a rule names; none for a worker that is well.
    pub(super) fn growth(&self) -> Option<Growth> {
        self.fast().or_else(|| self.slow())
    }

    /// By how much it has grown in the last hour, or since it was old enough.
    pub(super) fn lately(&self) -> Option<Growth> {
        let (settled, seconds) = self.settled?;
        let (first, over) = match self.minutes.front() {
            Some(first) if self.minutes.len() > SLOW_WINDOW => (*first, 60 * SLOW_WINDOW as u64),
            _ => (settled, u64::from(seconds)),
        };
        let bytes = self.seconds.back()?.saturating_sub(first);
        Some(Growth { bytes, over: Duration::from_secs(over) })
    }

    /// Bytes a second, over its life; none while it is too young to tell.
    pub(super) fn rate(&self) -> Option<f64> {
        let (first, seconds) = self.settled?;
        let last = *self.seconds.back()?;
        (seconds as usize > FAST_WINDOW).then(|| last.saturating_sub(first) as f64 / f64::from(seconds))
    }

    fn fast(&self) -> Option<Growth> {
        let (first, last) = (*self.seconds.front()?, *self.seconds.back()?);
        let steps = rises(&self.seconds);
        let grows = last.saturating_sub(first) >= FAST_GROWTH && steps >= FAST_STEPS && !falls(&self.seconds);
        grows.then(|| Growth { bytes: last - first, over: seconds(self.seconds.len()) })
    }

    fn slow(&self) -> Option<Growth> {
        let (first, last) = (*self.minutes.front()?, *self.minutes.back()?);
        let steps = self.minutes.len().saturating_sub(1);
        let bytes = last.saturating_sub(first);
        let grows = steps >= SLOW_WINDOW / 2
            && bytes >= SLOW_GROWTH
            && bytes >= first / 2
            && rises(&self.minutes) * 10 >= steps * 8;
        grows.then(|| Growth { bytes, over: Duration::from_secs(60 * steps as u64) })
    }
}

fn seconds(looks: usize) -> Duration {
    Duration::from_secs(looks.saturating_sub(1) as u64)
}

fn rises(looks: &VecDeque<u64>) -> usize {
    looks.iter().zip(looks.iter().skip(1)).filter(|(before, after)| after > before).count()
}

fn falls(looks: &VecDeque<u64>) -> bool {
    looks.iter().zip(looks.iter().skip(1)).any(|(before, after)| after < before)
}
