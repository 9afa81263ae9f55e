//! What the last seconds had, so that the first snapshot of a stream has rates: of each route 10 s, of each worker the memory of a minute.

use std::collections::{HashMap, VecDeque};

use keepwarm_policy::why::{RouteStep, Step, WorkerSample};

/// The seconds that rates are of.
pub(super) const WINDOW: usize = 10;
/// Seconds from one look at memory to the next, and the looks that are kept: a minute.
const MEMORY_STEP: u64 = 10;
const MEMORY_LOOKS: usize = 7;

/// App and pattern.
pub(super) type RouteName = (&'static str, &'static str);

/// The last seconds: of routes that had requests in them up to 1 KiB each, of each worker 80 bytes.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By second, the newest last: the routes that had a request.
    seconds: VecDeque<HashMap<RouteName, RouteStep>>,
    memory: HashMap<u32, VecDeque<u64>>,
    passed: u64,
}

impl Recent {
    /// The next second.
    pub(crate) fn handle_second<'w>(
        &mut self,
        routes: HashMap<RouteName, RouteStep>,
        workers: impl Iterator<Item = &'w WorkerSample>,
    ) {
        if self.seconds.len() == WINDOW {
            self.seconds.pop_front();
        }
        self.seconds.push_back(routes);
        if self.passed.is_multiple_of(MEMORY_STEP) {
            self.look_at_memory(workers);
        }
        self.passed += 1;
    }

    fn look_at_memory<'w>(&mut self, workers: impl Iterator<Item = &'w WorkerSample>) {
        let mut before = std::mem::take(&mut self.memory);
        for worker in workers {
            let Some(memory) = worker.memory else { continue };
            let mut looks = before.remove(&worker.pid).unwrap_or_default();
            if looks.len() == MEMORY_LOOKS {
                looks.pop_front();
            }
            looks.push_back(memory);
            self.memory.insert(worker.pid, looks);
        }
    }

    /// How many seconds the rates are of.
    pub(super) fn window(&self) -> u64 {
        self.seconds.len() as u64
    }

    /// The sums of the window, of each route that had a request in it.
    pub(super) fn routes(&self) -> HashMap<RouteName, RouteStep> {
        let mut sums: HashMap<RouteName, RouteStep> = HashMap::new();
        for (name, step) in self.seconds.iter().flatten() {
            sums.entry(*name).or_default().merge(step);
        }
        sums
    }

    /// The memory of each worker about a minute ago, or when it was first measured.
    pub(super) fn memory_before(&self) -> HashMap<u32, u64> {
        self.memory.iter().filter_map(|(pid, looks)| Some((*pid, *looks.front()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn worker(pid: u32, memory: u64) -> WorkerSample {
        WorkerSample { number: 1, pid, generation: 1, age: Duration::ZERO, memory: Some(memory) }
    }

    #[test]
    fn rates_are_of_the_last_ten_seconds() {
        let mut recent = Recent::default();
        let step = RouteStep { failed: 1, ..RouteStep::default() };
        for second in 1..=25 {
            recent.handle_second(HashMap::from([(("app", "/*"), step)]), std::iter::empty());
            assert_eq!(recent.window(), second.min(10));
            assert_eq!(u64::from(recent.routes()[&("app", "/*")].failed), second.min(10));
        }
        for _ in 0..10 {
            recent.handle_second(HashMap::new(), std::iter::empty());
        }
        assert!(recent.routes().is_empty());
    }

    #[test]
    fn memory_is_compared_with_a_minute_ago_and_forgotten_with_its_worker() {
        let mut recent = Recent::default();
        for second in 0..=120 {
            recent.handle_second(HashMap::new(), [worker(7, 1000 + second)].iter());
        }
        assert_eq!(recent.memory_before()[&7], 1060);
        for _ in 0..10 {
            recent.handle_second(HashMap::new(), std::iter::empty());
        }
        assert!(recent.memory_before().is_empty());
    }
}
