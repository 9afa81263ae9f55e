#![expect(clippy::disallowed_methods, reason = "tests need some instant to count from")]

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn without_samples_only_repeatable_requests_use_an_old_connection() {
    let (keep, now) = (KeepAlive::default(), Instant::now());
    assert!(keep.may_use(60 * SECOND, true, now));
    assert!(keep.may_use(SECOND, false, now));
    assert!(!keep.may_use(2 * SECOND, false, now));
    assert_eq!((keep.limit(), keep.keep_for()), (None, None));
}

#[test]
fn the_stated_timeout_is_used_up_to_four_fifths() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_header(Some(5 * SECOND));
    keep.handle_header(None);
    assert_eq!((keep.limit(), keep.keep_for()), (Some(4 * SECOND), Some(4 * SECOND)));
    assert!(keep.may_use(3 * SECOND, false, now), "known, so that a POST may use it too");
    assert!(!keep.may_use(4 * SECOND, true, now));
}

#[test]
fn the_first_close_lowers_the_limit_and_the_second_confirms_it() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_close(5 * SECOND, now);
    assert_eq!(keep.limit(), Some(4 * SECOND));
    assert!(keep.may_use(millis(3_999), true, now));
    assert!(!keep.may_use(4 * SECOND, true, now));
    assert!(keep.may_use(SECOND, false, now));
    assert!(!keep.may_use(2 * SECOND, false, now), "it may have been the end of the server");
    keep.handle_close(millis(5_010), now + 9 * SECOND);
    assert!(keep.may_use(millis(3_999), false, now));
    assert!(!keep.may_use(4 * SECOND, false, now));
}

#[test]
fn a_response_proves_an_idle_time_that_a_single_close_leaves_open() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_success(3 * SECOND, now);
    assert!(keep.may_use(millis(2_700), false, now));
    assert!(!keep.may_use(millis(2_701), false, now));
    keep.handle_close(5 * SECOND, now);
    assert!(keep.may_use(millis(2_700), false, now));
    keep.handle_close(2 * SECOND, now + SECOND);
    assert!(!keep.may_use(millis(1_600), false, now), "never more than four fifths of a close");
}

/// All connections close at one moment, however long they were idle. The next that lives longer shows that the closes were not a timeout.
#[test]
fn a_restart_is_forgotten_once_a_connection_stays_open_longer() {
    let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
    for idle in [40, 2_000, 39, 2_010, 100] {
        keep.handle_close(millis(idle), now);
    }
    assert_eq!(keep.limit(), Some(millis(80)));
    now += 10 * SECOND;
    keep.handle_open(SECOND, now);
    assert_eq!(keep.limit(), None);
    assert!(keep.may_use(SECOND, false, now) && keep.may_use(60 * SECOND, true, now));
}

#[test]
fn a_longer_timeout_is_adopted_once_the_old_one_is_stale() {
    let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
    for _ in 0..3 {
        keep.handle_close(5 * SECOND, now);
        now += 10 * SECOND;
    }
    keep.handle_close(60 * SECOND, now);
    assert_eq!(keep.limit(), Some(4 * SECOND), "another server behind the same address may close earlier");
    now += FORGET_AFTER;
    keep.handle_close(60 * SECOND, now);
    assert_eq!(keep.limit(), Some(48 * SECOND));
}

/// Each restart closes idle connections; two closes after about the same time are soon disregarded, once a connection shows that they were not a timeout.
#[test]
fn restarts_that_agree_by_chance_are_soon_forgotten() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_close(millis(300), now);
    keep.handle_close(millis(300), now + 2 * SECOND);
    keep.handle_open(20 * SECOND, now + 22 * SECOND);
    assert_eq!(keep.limit(), Some(millis(240)));
    keep.handle_open(60 * SECOND, now + 62 * SECOND);
    assert_eq!(keep.limit(), None);
}

#[test]
fn a_close_that_comes_sooner_counts_at_once() {
    let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
    for _ in 0..9 {
        keep.handle_close(60 * SECOND, now);
        now += 70 * SECOND;
    }
    keep.handle_close(5 * SECOND, now);
    assert_eq!(keep.limit(), Some(4 * SECOND));
}

#[test]
fn after_a_loss_only_idle_times_proven_since_are_safe() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_success(8 * SECOND, now);
    keep.handle_loss(10 * SECOND, now);
    assert_eq!(keep.limit(), Some(8 * SECOND));
    assert!(!keep.may_use(SECOND, false, now), "it may be less than a second");
    assert!(keep.may_use(TIMEOUT_MIN, false, now));
    keep.handle_success(2 * SECOND, now);
    assert!(keep.may_use(millis(1_800), false, now));
    assert!(!keep.may_use(2 * SECOND, false, now));
}

#[test]
fn immediate_losses_teach_nothing_about_idle_times() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_loss(millis(99), now);
    assert_eq!(keep.limit(), None);
    assert!(keep.may_use(SECOND, false, now));
}

/// It does not announce the close, and a request that meets it is lost: only responses show that a connection stays open at all.
#[test]
fn a_server_that_closes_after_each_response_gets_only_repeatable_requests_on_idle_connections() {
    let (mut it, start) = (KeepAlive::default(), Instant::now());
    it.handle_success(millis(900), start);
    it.handle_close(millis(5), start + millis(1000));
    // The closes of a busy pool come in quick succession, and are one event.
    it.handle_close(millis(5), start + millis(1010));
    assert!(it.may_use(millis(2), false, start + millis(1020)));
    it.handle_loss(millis(2), start + millis(2000));
    assert!(it.may_use(millis(2), true, start + millis(2000)));
    assert!(!it.may_use(millis(2), false, start + millis(2000)));
    it.handle_success(millis(3), start + millis(3000));
    assert!(it.may_use(millis(2), false, start + millis(3000)));
}

/// Two reloads of a busy server close connections that were idle for a moment, and for about the same time. That is not a timeout, and must not empty the pool.
#[test]
fn immediate_closes_are_refuted_by_a_connection_that_stays_open() {
    let (mut keep, now) = (KeepAlive::default(), Instant::now());
    keep.handle_close(millis(2), now);
    keep.handle_close(millis(2), now + SECOND);
    keep.handle_idle(millis(99));
    assert!(!keep.may_use(millis(20), true, now + SECOND), "it may be what the server does");
    keep.handle_idle(TIMEOUT_MIN);
    assert!(keep.may_use(millis(20), true, now + SECOND) && keep.may_use(millis(20), false, now + SECOND));
    // A plausible timeout is not dropped for that.
    keep.handle_close(5 * SECOND, now + 10 * SECOND);
    keep.handle_idle(20 * SECOND);
    assert_eq!(keep.limit(), Some(4 * SECOND));
}

#[test]
fn successful_tries_end_the_distrust_and_lost_ones_make_tries_rare() {
    let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
    keep.handle_loss(2 * SECOND, now);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let begin = now;
        while !keep.may_use(5 * SECOND, true, now) {
            assert!(!keep.may_use(5 * SECOND, false, now));
            now += SECOND;
        }
        waits.push((now - begin).as_secs());
        keep.handle_use(5 * SECOND, now);
        assert!(!keep.may_use(5 * SECOND, true, now), "one at a time");
        keep.handle_loss(5 * SECOND, now);
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]);
    now += TRY_INTERVAL_MAX;
    for _ in 0..TRIES_MIN {
        assert!(keep.may_use(5 * SECOND, true, now) && !keep.may_use(3 * SECOND, false, now));
        keep.handle_use(5 * SECOND, now);
        keep.handle_success(5 * SECOND, now);
    }
    assert_eq!(keep.limit(), None);
    assert!(keep.may_use(4 * SECOND, false, now), "proven");
}

#[test]
fn agreeing_closes_explain_a_loss_and_each_relapse_needs_more() {
    let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
    for needed in [3, 6, 12, 24, 48, 48] {
        keep.handle_loss(4 * SECOND, now);
        keep.handle_loss(millis(2_900), now);
        for closes in 0..needed {
            assert!(!keep.may_use(SECOND, false, now), "{closes} of {needed}");
            now += 60 * SECOND;
            keep.handle_close(5 * SECOND, now);
        }
        assert!(keep.may_use(3 * SECOND, false, now), "{needed}");
    }
}

/// In whichever order they are seen: the request that was on its way, and the connections that lay idle.
#[test]
fn a_restart_of_the_server_is_not_mistaken_for_a_timeout() {
    for loss_first in [true, false] {
        let (mut keep, mut now) = (KeepAlive::default(), Instant::now());
        keep.handle_success(3 * SECOND, now);
        now += SECOND;
        match loss_first {
            true => {
                keep.handle_loss(SECOND, now);
                assert!(!keep.may_use(SECOND, false, now));
                keep.handle_close(9 * SECOND, now + millis(1));
            }
            false => {
                keep.handle_close(9 * SECOND, now);
                keep.handle_loss(SECOND, now + millis(1));
            }
        }
        assert!(keep.may_use(SECOND * 2, false, now + SECOND), "{loss_first}");
        assert!(keep.may_use(SECOND * 6, true, now + SECOND), "{loss_first}");
    }
}
