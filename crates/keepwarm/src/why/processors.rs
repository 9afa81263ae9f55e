//! What workers do with their processors: of some of each app, because that costs two files for each worker.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use keepwarm_policy::why::Processors;
use keepwarm_workers::supervisor::{Snapshot, WorkerSnapshot};

use super::machine::{self, ProcessTotals};

/// Workers that are measured, in equal parts from all apps, at least one of each: 2,000 take 50 ms, these 1 ms.
const MEASURED: usize = 32;

/// The workers of each app.
pub(super) type Workers<'s> = BTreeMap<Arc<str>, Vec<&'s WorkerSnapshot>>;

pub(super) fn by_app(snapshot: &Snapshot) -> Workers<'_> {
    let mut apps = Workers::new();
    for worker in &snapshot.workers {
        apps.entry(Arc::clone(&worker.app)).or_default().push(worker);
    }
    apps
}

/// Of each app, and how much all workers computed, in seconds: those that were not measured as much as the others of their app.
pub(super) type Measure = (BTreeMap<Arc<str>, Processors>, f64);

/// The totals of the second before, by process.
#[derive(Default)]
pub(super) struct MeasuredWorkers(HashMap<u32, ProcessTotals>);

impl MeasuredWorkers {
    /// Since the second before, of those that were measured then, too.
    pub(super) fn measure(&mut self, workers: &Workers<'_>) -> Measure {
        let before = std::mem::take(&mut self.0);
        let (mut all, mut computing) = (BTreeMap::new(), 0.0);
        let share = (MEASURED / workers.len().max(1)).max(1);
        for (app, workers) in workers {
            let pids: Vec<u32> = workers.iter().filter_map(|worker| worker.pid).collect();
            let count = pids.len() as f64;
            let measured = self.measure_app(chosen(pids, &before, share), &before);
            if measured.workers > 0 {
                computing += measured.computing / f64::from(measured.workers) * count;
                all.insert(Arc::clone(app), measured);
            }
        }
        (all, computing)
    }

    /// Nobody asks in this second.
    pub(super) fn forget(&mut self) -> Measure {
        self.0.clear();
        Measure::default()
    }

    fn measure_app(&mut self, pids: Vec<u32>, before: &HashMap<u32, ProcessTotals>) -> Processors {
        let mut measured = Processors::default();
        for pid in pids {
            let Some(now) = machine::process(pid) else { continue };
            self.0.insert(pid, now);
            let Some(before) = before.get(&pid) else { continue };
            measured.workers += 1;
            measured.computing += (now.computing - before.computing).max(0.0);
            measured.delayed += (now.delayed - before.delayed).max(0.0);
        }
        measured
    }
}

/// Those of an app's workers to measure, at most `share`: first those that were measured before, since a measure takes two looks; then others from all over.
fn chosen(pids: Vec<u32>, before: &HashMap<u32, ProcessTotals>, share: usize) -> Vec<u32> {
    let (mut chosen, others): (Vec<u32>, Vec<u32>) =
        pids.into_iter().partition(|pid| before.contains_key(pid));
    chosen.truncate(share);
    let room = share.saturating_sub(chosen.len());
    let step = others.len().div_ceil(room.max(1)).max(1);
    chosen.extend(others.into_iter().step_by(step).take(room));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_were_measured_are_measured_again() {
        let measured = |pids: &[u32]| pids.iter().map(|pid| (*pid, ProcessTotals::default())).collect();
        assert_eq!(chosen((1..=100).collect(), &measured(&[]), 4), [1, 26, 51, 76]);
        // One has ended, and another comes in its place.
        assert_eq!(chosen((2..=101).collect(), &measured(&[1, 26, 51, 76]), 4), [26, 51, 76, 2]);
        assert_eq!(chosen(vec![7, 8, 9], &measured(&[8]), 4), [8, 7, 9]);
        assert_eq!(chosen((1..=100).collect(), &measured(&[1, 26]), 1), [1]);
        assert!(chosen(vec![], &measured(&[1]), 4).is_empty());
    }
}
