//! Makes a failing plan small.

use crate::run::{Scenario, play};

/// Plans that are tried in all.
const TRIES: usize = 400;

/// The smallest plan found that fails in the same way, and how it fails.
pub(crate) fn shrink<S: Scenario>(seed: u64, plan: S, failure: String) -> (S, String) {
    let (mut plan, mut failure) = (plan, failure);
    let mut tries = 0;
    'again: loop {
        for smaller in plan.smaller() {
            tries += 1;
            if tries > TRIES {
                break 'again;
            }
            match play(seed, &smaller) {
                Err(same) if kind(&same) == kind(&failure) => {
                    (plan, failure) = (smaller, same);
                    continue 'again;
                }
                _ => {}
            }
        }
        break;
    }
    (plan, failure)
}

/// The part of a failure that must stay the same: its words, not its numbers.
fn kind(failure: &str) -> String {
    failure.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}
