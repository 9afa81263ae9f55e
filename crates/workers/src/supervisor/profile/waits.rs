//! Which signals of a profile a worker of PHP gets.
//!
//! PHP handles a signal when the call that it interrupts has ended. One signal in each wait of a request is therefore enough: it is handled right after, and its sample weighs the
//! whole wait. More would do harm: PHP begins the time limit of a read again after each signal, so that at a hundred signals a second no limit would ever be
//! reached. `sleep()` and `usleep()` end early at a signal (the manual says so), so there is none meanwhile.

use std::fs;

use crate::supervisor::file_rights::as_its_user;

/// The waits of one worker.
#[derive(Debug, Default)]
pub struct Waits {
    /// How often it had been given a processor when it got its last signal in a wait.
    signalled: Option<u64>,
}

impl Waits {
    /// Whether it may get a signal now, which it then does. Where the system does not tell what it does, it may not.
    #[must_use]
    pub fn takes_signal(&mut self, pid: u32) -> bool {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // To others than its user it says that it does not wait.
        let wchan = || match read("wchan") {
            place if place == "0" => as_its_user(pid, || read("wchan")).unwrap_or_default(),
            place => place,
        };
        self.decide(&read("stat"), || read("schedstat"), wchan)
    }

    fn decide(
        &mut self,
        stat: &str,
        schedstat: impl FnOnce() -> String,
        wchan: impl FnOnce() -> String,
    ) -> bool {
        // The name before it may contain anything (proc_pid_stat(5)).
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')) {
            return true;
        }
        let turns = schedstat().split_whitespace().nth(2).and_then(|turns| turns.parse::<u64>().ok());
        // The signal itself gave it a turn.
        let is_same = self.signalled.zip(turns).is_some_and(|(before, now)| now <= before + 1);
        let place = wchan();
        if turns.is_none() || is_same || place.is_empty() || place == "0" || place.contains("nanosleep") {
            return false;
        }
        self.signalled = turns;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In this state, after this number of turns, in this function of the kernel.
    fn decide(waits: &mut Waits, state: char, turns: &str, place: &str) -> bool {
        waits.decide(
            &format!("17 (a) S (b) {state} 1 17"),
            || format!("5000 600 {turns}\n"),
            || place.to_owned(),
        )
    }

    #[test]
    fn one_that_runs_gets_every_signal() {
        let mut waits = Waits::default();
        assert!((0..3).all(|_| decide(&mut waits, 'R', "7", "0")));
    }

    #[test]
    fn one_that_waits_gets_one_in_each_wait() {
        let mut waits = Waits::default();
        assert!(decide(&mut waits, 'S', "7", "do_sys_poll"));
        assert!(!decide(&mut waits, 'S', "8", "do_sys_poll"), "the turn that the signal gave it");
        assert!(!decide(&mut waits, 'S', "8", "do_sys_poll"));
        assert!(decide(&mut waits, 'S', "9", "do_sys_poll"), "another wait");
        assert!(decide(&mut waits, 'R', "10", "0"));
    }

    #[test]
    fn one_that_sleeps_or_says_nothing_gets_none() {
        let mut waits = Waits::default();
        for (turns, place) in [("7", "hrtimer_nanosleep"), ("7", "0"), ("7", ""), ("", "do_sys_poll")] {
            assert!(!decide(&mut waits, 'S', turns, place), "{turns} {place}");
        }
        assert!(!waits.decide("", String::new, String::new), "it has ended");
    }
}
