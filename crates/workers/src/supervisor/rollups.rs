//! What workers that were forked from a template hold for themselves, for a bounded share of a processor.
//!
//! Only the map of all its pages tells which of them a process shares (`smaps_rollup`): the kernel walks over them for 0.4 ms where they are
//! 15 MB and 3.3 ms where they are 200 MB, and a process that maps memory waits meanwhile. So that map is read of each process once it is new,
//! and then of those in turn that wait longest, for [`BUDGET`] in each round. In between, anonymous memory that is new is its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the walks of one round may take: a hundredth of a processor.
const BUDGET: Duration = Duration::from_millis(10);

/// The last walk over the pages of each process.
#[derive(Default)]
pub(super) struct Rollups {
    walks: BTreeMap<u32, Walk>,
    rounds: u64,
    /// What the last walk took beyond the budget, which the next rounds have less.
    debt: Duration,
}

struct Walk {
    /// Private anonymous memory, in bytes.
    own: u64,
    /// All anonymous memory then.
    anonymous: u64,
    round: u64,
}

impl Rollups {
    /// A round. `forked` are all processes that share memory with their parent, with their anonymous memory; `walk` returns what one has for
    /// itself, if the kernel tells, and what it took to find out.
    pub(super) fn refresh(
        &mut self,
        forked: &[(u32, u64)],
        mut walk: impl FnMut(u32) -> (Option<u64>, Duration),
    ) {
        self.rounds = self.rounds.wrapping_add(1);
        let alive: BTreeSet<u32> = forked.iter().map(|&(pid, _)| pid).collect();
        self.walks.retain(|pid, _| alive.contains(pid));
        let mut order: Vec<(Option<u64>, u32, u64)> = forked
            .iter()
            .map(|&(pid, anonymous)| (self.walks.get(&pid).map(|walk| walk.round), pid, anonymous))
            .collect();
        order.sort_unstable();
        let mut left = BUDGET.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(BUDGET);
        for (before, pid, anonymous) in order {
            if before.is_some() && left.is_zero() {
                break;
            }
            let (own, took) = walk(pid);
            self.walks.insert(
                pid,
                Walk { own: own.unwrap_or(anonymous).min(anonymous), anonymous, round: self.rounds },
            );
            // The first is part of what a start costs.
            if before.is_some() {
                self.debt += took.saturating_sub(left);
                left = left.saturating_sub(took);
            }
        }
    }

    /// What a process has for itself that has this much anonymous memory.
    pub(super) fn own(&self, pid: u32, anonymous: u64) -> u64 {
        let Some(walk) = self.walks.get(&pid) else { return anonymous };
        walk.own.saturating_add(anonymous).saturating_sub(walk.anonymous).min(anonymous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn round(rollups: &mut Rollups, forked: &[(u32, u64)], took: Duration) -> Vec<u32> {
        let mut walked = Vec::new();
        rollups.refresh(forked, |pid| {
            walked.push(pid);
            (Some(u64::from(pid) * MIB), took)
        });
        walked
    }

    #[test]
    fn new_processes_are_walked_at_once_and_then_all_in_turn_within_the_budget() {
        let forked: Vec<(u32, u64)> = (1..=10).map(|pid| (pid, 50 * MIB)).collect();
        let mut rollups = Rollups::default();
        let took = Duration::from_millis(4);
        assert_eq!(round(&mut rollups, &forked, took), (1..=10).collect::<Vec<_>>());
        // 12 ms, of which the next round has 2 less.
        assert_eq!(round(&mut rollups, &forked, took), [1, 2, 3]);
        assert_eq!(round(&mut rollups, &forked, took), [4, 5]);
        assert_eq!(round(&mut rollups, &forked, took), [6, 7, 8]);
        assert_eq!(round(&mut rollups, &forked, took), [9, 10]);
        assert_eq!(round(&mut rollups, &forked, took), [1, 2, 3]);
        let walked: usize = (0..100).map(|_| round(&mut rollups, &forked, took).len()).sum();
        assert!((249..=251).contains(&walked), "{walked} walks of 4 ms in 100 rounds of 10 ms");
    }

    #[test]
    fn a_walk_that_takes_longer_than_a_round_may_is_paid_by_the_next_rounds() {
        let forked = [(1, 900 * MIB), (2, 900 * MIB)];
        let mut rollups = Rollups::default();
        round(&mut rollups, &forked, Duration::ZERO);
        let walked: Vec<Vec<u32>> =
            (0..8).map(|_| round(&mut rollups, &forked, Duration::from_millis(35))).collect();
        assert_eq!(walked, [vec![1], vec![], vec![], vec![2], vec![], vec![], vec![], vec![1]]);
    }

    #[test]
    fn a_few_small_processes_are_walked_in_each_round() {
        let forked = [(1, MIB), (2, MIB)];
        let mut rollups = Rollups::default();
        for _ in 0..5 {
            assert_eq!(round(&mut rollups, &forked, Duration::from_micros(400)).len(), 2);
        }
    }

    #[test]
    fn between_two_walks_what_is_new_is_its_own() {
        let mut rollups = Rollups::default();
        round(&mut rollups, &[(3, 20 * MIB)], Duration::ZERO);
        assert_eq!(rollups.own(3, 20 * MIB), 3 * MIB);
        assert_eq!(rollups.own(3, 120 * MIB), 103 * MIB);
        assert_eq!(rollups.own(3, 18 * MIB), MIB);
        assert_eq!(rollups.own(3, 2 * MIB), 0);
        assert_eq!(rollups.own(4, 20 * MIB), 20 * MIB, "never walked");
    }

    #[test]
    fn where_the_kernel_does_not_tell_all_is_its_own() {
        let mut rollups = Rollups::default();
        rollups.refresh(&[(3, 20 * MIB)], |_| (None, Duration::ZERO));
        assert_eq!(rollups.own(3, 25 * MIB), 25 * MIB);
    }

    #[test]
    fn what_has_gone_is_forgotten() {
        let mut rollups = Rollups::default();
        round(&mut rollups, &[(3, 20 * MIB)], Duration::ZERO);
        round(&mut rollups, &[], Duration::ZERO);
        assert_eq!(rollups.own(3, 20 * MIB), 20 * MIB);
        assert_eq!(round(&mut rollups, &[(3, 20 * MIB)], Duration::ZERO), [3]);
    }
}
