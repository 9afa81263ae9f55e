//! Names that were refused, each until a time: the next clients that request them cost nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Names of up to 253 bytes: 3 MiB. With the rate of questions, no flood fills it.
const MOST: usize = 10_000;

/// Refused names, each until a time. When there are too many, the oldest is forgotten.
#[derive(Default)]
pub(super) struct Refusals {
    until: HashMap<Arc<str>, Instant>,
    /// The same names, the oldest first.
    order: VecDeque<Arc<str>>,
}

impl Refusals {
    pub(super) fn insert(&mut self, name: &str, until: Instant) {
        if let Some(known) = self.until.get_mut(name) {
            *known = until;
            return;
        }
        if self.order.len() >= MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.until.remove(&oldest);
        }
        let name: Arc<str> = name.into();
        self.until.insert(Arc::clone(&name), until);
        self.order.push_back(name);
    }

    pub(super) fn refuses(&self, name: &str, now: Instant) -> bool {
        self.until.get(name).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_refusal_ends_in_time_and_can_be_renewed() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert!(!refusals.refuses("a.test", now));
        refusals.insert("a.test", now + second);
        assert!(refusals.refuses("a.test", now));
        assert!(!refusals.refuses("b.test", now));
        assert!(!refusals.refuses("a.test", now + second));
        refusals.insert("a.test", now + 3 * second);
        assert!(refusals.refuses("a.test", now + 2 * second));
    }

    #[test]
    fn their_number_is_bounded_and_the_oldest_is_forgotten() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        for at in 0..=MOST {
            refusals.insert(&format!("{at}.test"), later);
        }
        assert_eq!((refusals.until.len(), refusals.order.len()), (MOST, MOST));
        assert!(!refusals.refuses("0.test", now));
        assert!(refusals.refuses("1.test", now) && refusals.refuses(&format!("{MOST}.test"), now));
    }
}
