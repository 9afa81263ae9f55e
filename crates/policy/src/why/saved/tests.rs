//! What was saved comes back; what was changed does not.

use super::super::tests::{after_a_history, feed, ids, upstream};
use super::*;
use crate::why::{AppStep, RouteStep};
use std::time::Duration;

fn restored(why: &Why) -> Why {
    Why::restore(&why.save()).expect("it was just saved")
}

#[test]
fn the_hour_before_is_still_known() {
    let mut why = after_a_history();
    feed(&mut why, 3_605, |_, _| {});
    why.note("shop".into(), "reload, generation 2".to_owned());
    let mut back = restored(&why);
    assert_eq!(format!("{:?}", back.machine), format!("{:?}", why.machine));
    let all = |why: &Why| {
        let apps = why.apps.values().map(|app| (format!("{:?}", app.series), format!("{:?}", app.routes)));
        let upstreams = why.upstreams.values().map(|upstream| format!("{:?}", upstream.series));
        (why.now, apps.collect::<Vec<_>>(), upstreams.collect::<Vec<_>>(), why.events.clone())
    };
    assert!(all(&back) == all(&why), "histories and events");
    // What is usual continues from there, and that the workers and endpoints are there is no event.
    for history in [&mut why, &mut back] {
        feed(history, 25, |_, _| {});
    }
    let usual = |why: &Why| {
        (why.apps["shop"].series.usual().times, why.apps["shop"].routes["/search/*"].usual().times)
    };
    assert_eq!(usual(&back), usual(&why));
    assert_eq!((back.events.len(), ids(&back).len()), (1, 0), "{:?} {:?}", back.events, back.findings());
}

/// The time of three calls is three times the usual one, which only the history tells.
#[test]
fn a_slow_upstream_is_known_by_the_history_of_the_process_before() {
    let slow = |why: &mut Why| {
        feed(why, 12, |sample, _| sample.upstreams[0] = upstream(5, Duration::from_millis(300)));
    };
    let (mut back, mut new) = (restored(&after_a_history()), Why::default());
    slow(&mut back);
    slow(&mut new);
    assert_eq!((ids(&back), ids(&new)), (vec!["upstream_slow"], vec![]));
    // And it is the same verdict after another upgrade.
    let since = back.findings()[0].since;
    let mut again = restored(&back);
    slow(&mut again);
    assert_eq!(again.findings()[0].since, since);
}

#[test]
fn what_was_changed_cut_or_lengthened_is_refused() {
    let mut why = Why::default();
    feed(&mut why, 2, |_, _| {});
    let saved = why.save();
    for end in 0..saved.len() {
        assert!(Why::restore(&saved[..end]).is_err(), "cut at {end}");
    }
    for at in 0..saved.len() {
        let mut changed = saved.clone();
        changed[at] ^= 0x10;
        assert!(Why::restore(&changed).is_err(), "changed at {at}");
    }
    assert_eq!(Why::restore(&[saved.as_slice(), b"\0"].concat()).unwrap_err(), SavedError::Corrupt);
    assert_eq!(Why::restore(b"something else").unwrap_err(), SavedError::Foreign);
    let mut newer = saved;
    newer[MAGIC.len()] = 2;
    assert_eq!(Why::restore(&newer).unwrap_err(), SavedError::Version(2));
}

/// With a head that fits: the checksum does not keep a faulty writer off.
fn with_head(rest: &[u8]) -> Vec<u8> {
    let numbers = [VERSION, rest.len() as u64, checksum(rest)].map(u64::to_le_bytes);
    [MAGIC.as_slice(), numbers.as_flattened(), rest].concat()
}

#[test]
fn a_faulty_writer_is_refused_and_never_followed() {
    let mut why = Why::default();
    feed(&mut why, 2, |_, _| {});
    let rest = why.save().split_off(HEAD);
    for at in 0..rest.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = rest.clone();
            changed[at] = byte;
            // Either is right, and nothing that is taken over stops the next sample.
            if let Ok(mut back) = Why::restore(&with_head(&changed)) {
                feed(&mut back, 1, |_, _| {});
            }
        }
    }
    let mut long = Writer::new(SAVED_MAX);
    long.section(MACHINE, |out| {
        number(out, 10);
        number(out, 7);
        number(out, SECONDS as u64 + 1);
        out.resize(out.len() + 2 * SECONDS, 0);
    });
    assert_eq!(Why::restore(&long.finish()).unwrap_err(), SavedError::Corrupt, "more steps than there are");
    let mut endless = Writer::new(SAVED_MAX);
    endless.section(NOW, |out| out.extend([0xff; 10]));
    assert_eq!(Why::restore(&endless.finish()).unwrap_err(), SavedError::Corrupt, "a number of 70 bits");
}

/// The one byte of an empty step is 136 bytes in memory, an empty history takes hundreds.
#[test]
fn a_small_file_never_takes_much_memory() {
    const STEPS: usize = 10_000;
    let apps = |count: usize, steps: [usize; 3]| {
        let mut out = Writer::new(SAVED_MAX);
        for app in 0..count {
            out.section(APP, |out| {
                text(out, &app.to_string());
                number(out, 0);
                number(out, 0);
                for steps in steps {
                    number(out, steps as u64);
                    out.resize(out.len() + steps, 0);
                }
                out.extend([0, 0]);
            });
        }
        Why::restore_within(&out.finish(), STEPS).map(|why| why.apps.len())
    };
    let full = [SECONDS, TENS, FIVES];
    assert_eq!(apps(STEPS / 951, full), Ok(10));
    assert_eq!(apps(STEPS / 951 + 1, full).unwrap_err(), SavedError::Corrupt);
    assert_eq!(apps(STEPS / 3 + 1, [0; 3]).unwrap_err(), SavedError::Corrupt);
}

#[test]
fn what_is_saved_has_no_more_steps_than_are_read() {
    let none = Series::<AppStep>::default();
    let minute = Series::restored(
        [vec![RouteStep::default(); 60].into(), [].into(), [].into()],
        RouteStep::default(),
        RouteStep::default(),
        60,
    );
    let mut out = Writer { steps: 1_000, ..Writer::new(SAVED_MAX) };
    out.series(APP, &none, |out| write_named(out, &["app"], &none));
    for route in 0..100 {
        out.series(ROUTE, &minute, |out| write_named(out, &["app", &route.to_string()], &minute));
    }
    let back = Why::restore_within(&out.finish(), 1_000).unwrap();
    assert_eq!(back.apps["app"].routes.len(), (1_000 - 3) / 63);
}

/// Found by fuzzing: a rule multiplied a sum that had no room for it.
#[test]
fn the_largest_numbers_stop_no_rule() {
    let mut why = after_a_history();
    for app in why.apps.values_mut() {
        app.series.seconds.iter_mut().for_each(largest);
        app.routes.values_mut().for_each(|series| series.seconds.iter_mut().for_each(largest));
    }
    why.upstreams.values_mut().for_each(|upstream| {
        upstream.series.seconds.iter_mut().for_each(largest);
        upstream.series.tens.iter_mut().for_each(largest);
    });
    why.machine.seconds.iter_mut().for_each(largest);
    let mut back = restored(&why);
    feed(&mut back, 1, |_, _| {});
    assert_eq!(back.now, why.now + 1);
}

fn largest<T: Fields>(step: &mut T) {
    step.visit(&mut |field| *field = u64::MAX);
}

#[derive(Debug, Clone, Copy, Default)]
struct Newer(RouteStep, u64);

impl crate::why::Step for Newer {
    fn merge(&mut self, _: &Self) {}

    fn take_away(&mut self, _: &Self) {}
}

impl Fields for Newer {
    fn visit(&mut self, visit: &mut dyn FnMut(&mut u64)) {
        self.0.visit(visit);
        visit(&mut self.1);
    }
}

#[test]
fn another_version_may_have_more_sections_and_fields_or_fewer() {
    let step = RouteStep { failed: 7, ..RouteStep::default() };
    let mut newer = Series::<Newer>::default();
    (0..10).for_each(|_| newer.push(Newer(step, 9)));
    let mut saved = Vec::new();
    write_series(&mut saved, &newer);
    let read: Series<RouteStep> = read_series(&mut Reader(&saved)).unwrap();
    assert!(read.last(10).all(|step| step.failed == 7) && read.age() == 10);
    let mut older = Series::<RouteStep>::default();
    (0..10).for_each(|_| older.push(step));
    saved.clear();
    write_series(&mut saved, &older);
    let read: Series<Newer> = read_series(&mut Reader(&saved)).unwrap();
    assert!(read.last(10).all(|Newer(step, more)| (step.failed, *more) == (7, 0)));

    let mut out = Writer { out: after_a_history().save(), ..Writer::new(SAVED_MAX) };
    out.section(1000, |out| text(out, "what this version does not know"));
    out.section(VERDICT, |out| write_verdict(out, "no_such_rule", &Subject::default(), (1, 2)));
    let back = Why::restore(&out.finish()).unwrap();
    assert_eq!((back.now, back.given.len()), (300, 0));
}

#[test]
fn histories_beyond_the_bound_are_left_out_those_of_routes_first() {
    let why = after_a_history();
    let all = why.save();
    for most in [all.len() - 1, all.len() / 2, HEAD + 100, HEAD] {
        let saved = why.save_within(most);
        assert!(saved.len() <= most, "{} of {most}", saved.len());
        let back = Why::restore(&saved).unwrap();
        let routes = back.apps.values().map(|app| app.routes.len()).sum::<usize>();
        assert!(routes < 2, "{routes} of {most}");
        assert_eq!((back.apps.len(), back.upstreams.len()) == (1, 1), most > all.len() / 2, "{most}");
    }
}
