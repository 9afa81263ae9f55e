//! Where slow requests were in the code of their apps.

use std::time::Duration;

use super::{RequestTimeline, TIMELINES, Timelines, lock};
use crate::RequestId;

/// Requests whose samples wait for them. The number is arbitrary: responses that are being sent.
const EARLY: usize = 16;

/// Calls that were seen, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledStack {
    /// Phase and calls, outermost first, joined by `;`. `(waiting)` is last where it waited (`spec/wire.md` §10).
    pub calls: Box<str>,
    /// For so long, as far as samples tell.
    pub time: Duration,
}

impl Timelines {
    fn add_stacks(&mut self, id: RequestId, stacks: Vec<SampledStack>) {
        let all = self.slow.iter_mut().chain(&mut self.failed);
        match all.rev().find(|request: &&mut RequestTimeline| request.id == id) {
            Some(request) => request.stacks = stacks,
            None => {
                if self.early.len() == EARLY {
                    self.early.pop_front();
                }
                self.early.push_back((id, stacks));
            }
        }
    }

    /// The samples of a request that came before it.
    pub(super) fn take_early(&mut self, id: RequestId) -> Vec<SampledStack> {
        let found = self.early.iter().position(|(of, _)| *of == id);
        found.and_then(|at| self.early.remove(at)).map(|(_, stacks)| stacks).unwrap_or_default()
    }
}

/// Adds the samples of a request that is kept, or will be.
pub fn note_stacks(id: RequestId, stacks: Vec<SampledStack>) {
    lock(&TIMELINES).add_stacks(id, stacks);
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;
    use crate::timelines::Notable;

    fn stacks(calls: &str) -> Vec<SampledStack> {
        vec![SampledStack { calls: calls.into(), time: Duration::from_secs(1) }]
    }

    #[test]
    fn samples_come_before_or_after_their_request() {
        let mut lists = Timelines::default();
        lists.keep(Notable::Slow, request(1));
        lists.add_stacks(RequestId::new(1), stacks("after"));
        lists.add_stacks(RequestId::new(2), stacks("before"));
        lists.keep(Notable::Failed, request(2));
        lists.keep(Notable::Failed, request(3));
        assert_eq!(lists.slow[0].stacks, stacks("after"));
        assert_eq!((&lists.failed[0].stacks, lists.failed[1].stacks.len()), (&stacks("before"), 0));
        assert!(lists.early.is_empty());
    }

    #[test]
    fn what_nobody_comes_for_is_bounded() {
        let mut lists = Timelines::default();
        (0..100).for_each(|number| lists.add_stacks(RequestId::new(number), stacks("x")));
        assert_eq!(lists.early.len(), EARLY);
        assert!(lists.take_early(RequestId::new(0)).is_empty());
        assert_eq!(lists.take_early(RequestId::new(99)), stacks("x"));
    }
}
