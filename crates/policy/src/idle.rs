//! The learnt keep-alive: how long a connection to a server may lie idle and still be used.
//!
//! The race: a server closes an idle connection while a request is on its way to it. The request is lost, and one that is not idempotent may not be
//! sent again (RFC 9112 §9.3.1). So an idle connection is not used up to its last moment.
//!
//! Two signals say when that moment is. What the server states (`Keep-Alive: timeout=5`), and what it does: a close (FIN) of a connection that lay
//! idle. One close says little, since a server that ends closes all its connections, however long they were idle. Two closes at different moments after about
//! the same idle time are a time-out. What was learnt is forgotten after [`FORGET`] without a further sign, so that a server that was changed is not held to
//! what it did before.
//!
//! Of what is known, 0.8 is used. As long as nothing is known, a request that cannot be repeated goes out only on a connection that was used within the
//! last second ([`FRESH`]); one that can be repeated may take any, for the race then costs a retry and no more.

use std::time::{Duration, Instant};

/// A connection this fresh carries any request: few servers close earlier. Apache's default is 5 s, Node's 5 s, gunicorn's 2 s.
const FRESH: Duration = Duration::from_secs(1);
/// What was learnt counts this long.
const FORGET: Duration = Duration::from_secs(30 * 60);
/// Closes nearer to one another are one event, such as the end of the process.
const ONE_EVENT: Duration = Duration::from_millis(100);

/// What is known of when one origin closes idle connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepAlive {
    /// What the last answer said.
    stated: Option<Duration>,
    /// What its closes show, and since when.
    learnt: Option<(Duration, Instant)>,
    /// The close before: after what idle time, and when.
    last: Option<(Duration, Instant)>,
}

impl KeepAlive {
    /// An answer came with `Keep-Alive: timeout=`, or (`None`) without.
    pub fn handle_stated(&mut self, timeout: Option<Duration>) {
        // Not every answer of a server repeats it.
        self.stated = timeout.or(self.stated);
    }

    /// The server has closed a connection that was idle for this long.
    pub fn handle_close(&mut self, idle: Duration, now: Instant) {
        let before = self.last.replace((idle, now));
        if let Some((learnt, since)) = &mut self.learnt
            && idle <= *learnt + *learnt / 4
        {
            *learnt = idle.min(*learnt);
            *since = now;
            return;
        }
        let Some((other, at)) = before else { return };
        let (short, long) = (idle.min(other), idle.max(other));
        if now.saturating_duration_since(at) >= ONE_EVENT && long <= short + short / 4 {
            self.learnt = Some((short, now));
        }
    }

    /// How long a connection may lie idle; `None` while nothing is known.
    pub fn limit(&self, now: Instant) -> Option<Duration> {
        let learnt = self.learnt.filter(|(_, since)| now.saturating_duration_since(*since) < FORGET);
        let known = learnt.map(|(idle, _)| idle).into_iter().chain(self.stated).min()?;
        Some(known * 4 / 5)
    }

    /// Whether a connection that was idle for this long may carry a request. `repeatable`: it may be sent again should the connection turn out to be closed.
    pub fn may_use(&self, idle: Duration, repeatable: bool, now: Instant) -> bool {
        match self.limit(now) {
            Some(limit) => idle < limit,
            None => repeatable || idle <= FRESH,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn while_nothing_is_known_only_what_can_be_repeated_takes_an_old_connection() {
        let (keep, now) = (KeepAlive::default(), Instant::now());
        assert!(keep.may_use(60 * SECOND, true, now));
        assert!(keep.may_use(SECOND, false, now));
        assert!(!keep.may_use(2 * SECOND, false, now));
    }

    #[test]
    fn what_the_server_states_is_used_up_to_four_fifths() {
        let (mut keep, now) = (KeepAlive::default(), Instant::now());
        keep.handle_stated(Some(5 * SECOND));
        keep.handle_stated(None);
        assert_eq!(keep.limit(now), Some(4 * SECOND));
        assert!(keep.may_use(3 * SECOND, false, now), "known, so that a POST may use it too");
        assert!(!keep.may_use(4 * SECOND, true, now));
    }

    #[test]
    fn two_closes_after_the_same_time_are_a_time_out_and_one_is_not() {
        let (mut keep, now) = (KeepAlive::default(), Instant::now());
        keep.handle_close(2 * SECOND, now);
        assert_eq!(keep.limit(now), None);
        keep.handle_close(Duration::from_millis(2_100), now + 3 * SECOND);
        assert_eq!(keep.limit(now + 3 * SECOND), Some(Duration::from_millis(1_600)));
    }

    #[test]
    fn a_server_that_ends_teaches_nothing() {
        let (mut keep, now) = (KeepAlive::default(), Instant::now());
        for idle in [100, 101, 2_000, 2_010, 40] {
            keep.handle_close(Duration::from_millis(idle), now);
        }
        assert_eq!(keep.limit(now), None);
    }

    #[test]
    fn an_earlier_close_lowers_it_and_silence_forgets_it() {
        let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
        for _ in 0..2 {
            keep.handle_close(10 * SECOND, now);
            now += SECOND;
        }
        keep.handle_close(5 * SECOND, now);
        assert_eq!(keep.limit(now), Some(4 * SECOND));
        assert_eq!(keep.limit(now + FORGET), None);
    }
}
