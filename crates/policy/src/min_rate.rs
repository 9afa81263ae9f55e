//! Minimum rate at which a peer must send or take bytes.
//!
//! An idle timeout alone lets a client hold a connection for ever with a byte now and then (a slowloris attack
//! on bodies). A minimum average rate prevents that. Only time in which *we* wait for *the peer* counts: an
//! application that reads slowly is not the client's fault. A grace period at the start allows for slow starts and small
//! bodies.

use std::time::{Duration, Instant};

/// Watches one direction of one message.
#[derive(Debug, Clone, Copy)]
pub struct MinRate {
    /// Bytes a second; 0 turns the rule off.
    rate: u32,
    grace: Duration,
    bytes: u64,
    waited: Duration,
    waiting_since: Option<Instant>,
}

impl MinRate {
    /// At least `rate` bytes a second on average, once `grace` is used up.
    pub fn new(rate: u32, grace: Duration) -> Self {
        Self { rate, grace, bytes: 0, waited: Duration::ZERO, waiting_since: None }
    }

    /// We begin to wait for the peer (or still do). Returns the time at which it becomes too slow.
    pub fn handle_wait(&mut self, now: Instant) -> Option<Instant> {
        if self.rate == 0 {
            return None;
        }
        let since = *self.waiting_since.get_or_insert(now);
        let allowed =
            self.grace + Duration::from_millis(self.bytes.saturating_mul(1000) / u64::from(self.rate));
        since.checked_add(allowed.saturating_sub(self.waited))
    }

    /// The peer moved `bytes`; we no longer wait.
    pub fn handle_progress(&mut self, now: Instant, bytes: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn a_silent_peer_has_its_grace_and_no_more() {
        let start = Instant::now();
        let mut rate = MinRate::new(500, GRACE);
        assert_eq!(rate.handle_wait(start), Some(start + GRACE));
        assert_eq!(rate.handle_wait(start + Duration::from_secs(3)), Some(start + GRACE));
    }

    #[test]
    fn a_byte_a_second_does_not_buy_time() {
        let start = Instant::now();
        let mut rate = MinRate::new(500, GRACE);
        let mut now = start;
        for _ in 0..5 {
            rate.handle_wait(now);
            now += Duration::from_secs(1);
            rate.handle_progress(now, 1);
        }
        assert_eq!(rate.handle_wait(now), Some(now + Duration::from_millis(10)));
    }

    #[test]
    fn bytes_sent_quickly_buy_a_pause() {
        let start = Instant::now();
        let mut rate = MinRate::new(500, GRACE);
        rate.handle_wait(start);
        rate.handle_progress(start, 5_000);
        assert_eq!(rate.handle_wait(start), Some(start + Duration::from_secs(15)));
    }

    #[test]
    fn time_in_which_we_do_not_wait_is_free() {
        let start = Instant::now();
        let mut rate = MinRate::new(500, GRACE);
        rate.handle_wait(start);
        rate.handle_progress(start + Duration::from_secs(1), 0);
        let later = start + Duration::from_secs(3600);
        assert_eq!(rate.handle_wait(later), Some(later + Duration::from_secs(4)));
    }

    #[test]
    fn zero_turns_it_off() {
        assert_eq!(MinRate::new(0, GRACE).handle_wait(Instant::now()), None);
    }
}
