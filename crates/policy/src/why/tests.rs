//! Simulated incidents: a script of seconds in which exactly one rule has a verdict, and healthy ones in which none has.

use super::*;
use std::time::Duration;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A healthy second: `count` requests of 20 ms each, two routes, no queue, a machine with 4 cores at 40 %.
fn healthy() -> Sample {
    let mut sample = Sample { machine: machine(0.4, 0.3), apps: vec![app(50, MS(20))], ..Sample::default() };
    sample.upstreams.push(upstream(20, MS(4)));
    sample
}

fn machine(busy: f64, ours: f64) -> MachineStep {
    MachineStep {
        seconds: 1,
        cores: 4,
        busy,
        steal: 0.0,
        ours,
        pressure: Some(if busy > 0.9 { 0.6 } else { 0.02 }),
        throttled: 0.0,
        limit: 0,
    }
}

fn times(count: u32, each: Duration) -> Times {
    let mut times = Times::default();
    (0..count).for_each(|_| times.observe(each));
    times
}

fn app(count: u32, each: Duration) -> AppSample {
    let us = each.as_micros() as u64 * u64::from(count);
    let step = AppStep { times: times(count, each), app_us: us, held: 1, ..AppStep::default() };
    let route = |route: &str, count| RouteSample {
        route: route.into(),
        step: RouteStep { times: times(count, each), failed: 0 },
    };
    AppSample {
        name: "shop".into(),
        step,
        routes: vec![route("/*", count / 2), route("/search/*", count - count / 2)],
        held: vec![HeldRoute { route: "/*".into(), requests: 1, oldest: MS(10), worker: 1 }],
        generation: 1,
        workers: (1..=4).map(|number| worker(number, 1, 100)).collect(),
        ..AppSample::default()
    }
}

fn worker(number: u32, generation: u64, mib: u64) -> WorkerSample {
    WorkerSample {
        number,
        pid: number + 100 * generation as u32,
        generation,
        age: Duration::from_secs(3600),
        memory: Some(mib << 20),
    }
}

pub(super) fn upstream(count: u32, each: Duration) -> UpstreamSample {
    let step = UpstreamStep { calls: times(count, each), in_flight: 1, ..UpstreamStep::default() };
    UpstreamSample { name: "search".into(), step, endpoints: 2, available: 2, ..UpstreamSample::default() }
}

/// A healthy server of 5 minutes.
pub(super) fn after_a_history() -> Why {
    let mut why = Why::default();
    feed(&mut why, 300, |_, _| {});
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
    why
}

pub(super) fn feed(why: &mut Why, seconds: u32, change: impl Fn(&mut Sample, u32)) {
    for second in 0..seconds {
        let mut sample = healthy();
        change(&mut sample, second);
        why.handle_sample(&sample);
    }
}

pub(super) fn ids(why: &Why) -> Vec<&'static str> {
    why.findings().iter().map(|finding| finding.rule.id).collect()
}

/// Exactly this verdict after 15 s, no other on the way, and none 5 minutes after the incident.
#[track_caller]
fn expect(id: &str, change: impl Fn(&mut Sample, u32)) -> Finding {
    let mut why = after_a_history();
    for second in 0..15 {
        feed(&mut why, 1, |sample, _| change(sample, second));
        assert!(ids(&why).iter().all(|given| *given == id), "after {second} s: {:?}", why.findings());
    }
    assert_eq!(ids(&why), [id], "{:?}", why.findings());
    let finding = why.findings()[0].clone();
    assert!(finding.since > 300 && finding.since <= 315, "{finding:?}");
    feed(&mut why, 330, |_, _| {});
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
    finding
}

fn queue(sample: &mut Sample, waiting: u32, processors: (f64, f64)) {
    let app = &mut sample.apps[0];
    app.step.waiting = waiting;
    app.step.held = 4;
    app.held[0].requests = 4;
    app.processors = Some(Processors { workers: 4, computing: processors.0, delayed: processors.1 });
}

#[test]
fn a_healthy_server_has_no_verdict() {
    after_a_history();
}

#[test]
fn full_load_is_healthy_while_the_queue_is_short() {
    let mut why = Why::default();
    feed(&mut why, 600, |sample, _| {
        sample.machine = machine(1.0, 0.95);
        sample.apps[0] = app(2000, MS(2));
        // 60 connections that always have a request: 30 ms in the queue.
        queue(sample, 60, (2.0, 2.0));
    });
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
}

#[test]
fn an_idle_server_is_healthy() {
    let mut why = Why::default();
    feed(&mut why, 300, |sample, _| {
        sample.apps[0] = AppSample { name: "shop".into(), generation: 1, ..AppSample::default() };
        sample.upstreams[0].step = UpstreamStep::default();
    });
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
}

#[test]
fn a_burst_of_three_seconds_is_no_verdict() {
    let mut why = after_a_history();
    feed(&mut why, 3, |sample, _| queue(sample, 500, (0.1, 0.0)));
    feed(&mut why, 10, |_, _| {});
    assert!(ids(&why).is_empty());
}

#[test]
fn workers_that_wait_while_requests_queue_are_too_few() {
    let finding = expect("too_few_workers", |sample, _| queue(sample, 30, (0.2, 0.1)));
    assert!(finding.evidence.contains("30 requests of shop wait"), "{}", finding.evidence);
}

#[test]
fn workers_that_compute_beside_idle_cores_are_too_few() {
    expect("too_few_workers", |sample, _| {
        queue(sample, 30, (3.9, 0.0));
        sample.machine = machine(0.5, 0.5);
    });
}

#[test]
fn workers_that_compute_on_all_cores_have_too_few_cores() {
    let finding = expect("too_few_cores", |sample, _| {
        queue(sample, 30, (3.0, 1.0));
        sample.machine = machine(1.0, 0.95);
    });
    assert_eq!(finding.subject, Subject::default());
    // Nothing ran before: the idle seconds are not those of the queue.
    let mut why = Why::default();
    feed(&mut why, 10, |sample, _| sample.machine = machine(0.0, 0.0));
    for second in 0..12 {
        feed(&mut why, 1, |sample, _| {
            queue(sample, 30, (3.0, 1.0));
            sample.machine = machine(0.98, 0.93);
        });
        assert!(ids(&why).iter().all(|id| *id == "too_few_cores"), "after {second} s: {:?}", why.findings());
    }
    assert_eq!(ids(&why), ["too_few_cores"]);
}

/// Of idle cores and a queue, more workers would follow: but they share what the group may use.
#[test]
fn a_control_group_that_is_stopped_has_a_limit() {
    let stopped = |share| MachineStep { throttled: share, limit: 500, ..machine(0.15, 0.125) };
    let finding = expect("cpu_limit", |sample, _| {
        queue(sample, 30, (0.5, 0.1));
        sample.machine = stopped(0.9);
    });
    assert_eq!(
        finding.evidence,
        "the control group may use 0.5 of 4 cores, and is stopped in 90 % of its periods"
    );
    // Nothing queues, and requests take three times as long.
    expect("cpu_limit", |sample, _| {
        sample.apps[0] = app(50, MS(200));
        sample.machine = stopped(0.3);
    });
    // Before a history is there.
    let mut why = Why::default();
    feed(&mut why, 10, |sample, _| {
        queue(sample, 30, (0.5, 0.1));
        sample.machine = stopped(0.9);
    });
    assert_eq!(ids(&why), ["cpu_limit"]);
}

#[test]
fn a_control_group_that_is_stopped_now_and_then_or_that_nobody_waits_for_is_healthy() {
    let mut why = after_a_history();
    feed(&mut why, 60, |sample, second| {
        let throttled = if second % 4 == 0 { 0.9 } else { 0.2 };
        sample.machine = MachineStep { throttled, limit: 1500, ..machine(0.3, 0.3) };
    });
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
    let mut why = Why::default();
    feed(&mut why, 60, |sample, _| {
        sample.apps[0] = AppSample { name: "shop".into(), generation: 1, ..AppSample::default() };
        sample.machine = MachineStep { throttled: 0.9, limit: 1500, ..machine(0.3, 0.3) };
    });
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
}

#[test]
fn cores_that_others_use_are_a_noisy_neighbour() {
    expect("noisy_neighbour", |sample, _| {
        queue(sample, 30, (1.0, 3.0));
        sample.machine = machine(1.0, 0.3);
    });
    // Nothing queues, and requests take three times as long.
    expect("noisy_neighbour", |sample, _| {
        sample.apps[0] = app(50, MS(200));
        sample.machine = MachineStep { steal: 0.3, ..machine(1.0, 0.6) };
    });
}

#[test]
fn busy_neighbours_that_slow_nothing_down_are_no_verdict() {
    let mut why = after_a_history();
    feed(&mut why, 60, |sample, _| sample.machine = machine(1.0, 0.2));
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
}

#[test]
fn one_route_that_holds_the_workers_is_named() {
    let finding = expect("route_holds_workers", |sample, second| {
        queue(sample, 20, (0.1, 0.0));
        sample.apps[0].held = vec![
            HeldRoute {
                route: "/search/*".into(),
                requests: 3,
                oldest: MS(1000 * u64::from(second)),
                worker: 3,
            },
            HeldRoute { route: "/*".into(), requests: 1, oldest: MS(5), worker: 1 },
        ];
    });
    assert!(
        finding.evidence.contains("/search/* holds 3 of 4") && finding.evidence.contains("shop/3"),
        "{}",
        finding.evidence
    );
}

/// One request takes the place of another, so the oldest is young again every 3 s.
#[test]
fn a_route_whose_requests_end_and_come_again_holds_the_workers() {
    expect("route_holds_workers", |sample, second| {
        queue(sample, 20, (0.1, 0.0));
        let oldest = MS(200 + 1000 * u64::from(second % 3));
        sample.apps[0].held = vec![HeldRoute { route: "/search/*".into(), requests: 4, oldest, worker: 3 }];
    });
}

/// Requests of 300 ms that are many are no such route: its requests end, others are served between them.
#[test]
fn a_route_that_is_only_frequent_does_not_hold_the_workers() {
    let mut why = Why::default();
    feed(&mut why, 15, |sample, _| {
        queue(sample, 20, (0.1, 0.0));
        sample.apps[0].held =
            vec![HeldRoute { route: "/search/*".into(), requests: 4, oldest: MS(300), worker: 3 }];
    });
    assert_eq!(ids(&why), ["too_few_workers"], "{:?}", why.findings());
}

/// No other route has ever had a request, so there is none to be held up.
#[test]
fn the_only_route_of_an_app_has_too_few_workers() {
    let mut why = Why::default();
    feed(&mut why, 15, |sample, _| {
        queue(sample, 20, (0.1, 0.0));
        sample.apps[0].routes.truncate(1);
        sample.apps[0].held[0].oldest = MS(5000);
    });
    assert_eq!(ids(&why), ["too_few_workers"], "{:?}", why.findings());
}

#[test]
fn a_slow_upstream_is_named_and_not_the_queue_that_it_causes() {
    let finding = expect("upstream_slow", |sample, _| {
        queue(sample, 40, (0.1, 0.0));
        sample.apps[0].held[0].oldest = MS(3000);
        sample.apps[0].step.app_us = 50 * 900_000;
        sample.upstreams[0] = upstream(50, MS(860));
        sample.upstreams[0].step.in_flight = 4;
    });
    assert!(
        finding
            .evidence
            .contains("% of the time is spent in calls to upstream \"search\": 860 ms each, usually 4 ms"),
        "{}",
        finding.evidence
    );
}

/// With several apps an upstream has the share of each whose calls are known, and no other.
#[test]
fn the_share_of_an_upstream_is_given_for_apps_whose_calls_are_known() {
    let known = |app: &str, calls, each: Duration| AppCallSample {
        app: app.into(),
        calls,
        us: calls * each.as_micros() as u64,
    };
    for (by_app, expected) in [
        (vec![], "usually 4 ms"),
        (
            vec![known("shop", 30, MS(200)), known("blog", 1, MS(10))],
            "usually 4 ms; share of the time of app \"shop\" at least 60 %",
        ),
        (vec![known("gone", 30, MS(200))], "usually 4 ms"),
    ] {
        let mut why = after_a_history();
        feed(&mut why, 30, |sample, _| {
            let blog = AppSample { name: "blog".into(), ..app(50, MS(20)) };
            sample.apps = vec![app(50, MS(200)), blog];
            sample.upstreams[0] = UpstreamSample { by_app: by_app.clone(), ..upstream(50, MS(200)) };
        });
        let finding =
            why.findings().iter().find(|finding| finding.rule.id == "upstream_slow").expect("it is slow");
        assert!(finding.evidence.ends_with(expected), "{}", finding.evidence);
    }
}

#[test]
fn an_upstream_that_never_responds_is_slow_before_any_call_has_ended() {
    expect("upstream_slow", |sample, _| {
        sample.apps[0] = AppSample { held: vec![], ..app(0, MS(0)) };
        queue_all(sample);
        sample.upstreams[0] = upstream(0, MS(0));
        sample.upstreams[0].step.in_flight = 4;
    });
}

fn queue_all(sample: &mut Sample) {
    sample.apps[0].held =
        vec![HeldRoute { route: "/search/*".into(), requests: 4, oldest: MS(9000), worker: 1 }];
    queue(sample, 10, (0.0, 0.0));
}

#[test]
fn endpoints_that_are_away_for_4_s_are_no_verdict() {
    for (seconds, fails) in [(4, false), (5, true)] {
        let mut why = after_a_history();
        feed(&mut why, seconds, |sample, _| {
            sample.upstreams[0] = UpstreamSample { available: 0, ..upstream(0, MS(0)) };
        });
        assert_eq!(ids(&why) == ["upstream_failing"], fails, "{seconds}: {:?}", why.findings());
    }
}

#[test]
fn without_history_only_a_second_is_slow() {
    for (each, slow) in [(900, false), (1000, true)] {
        let mut why = Why::default();
        feed(&mut why, 12, |sample, _| sample.upstreams[0] = upstream(5, MS(each)));
        assert_eq!(ids(&why) == ["upstream_slow"], slow, "{each}");
    }
}

#[test]
fn an_upstream_that_is_always_slow_is_usual() {
    let mut why = Why::default();
    feed(&mut why, 600, |sample, _| sample.upstreams[0] = upstream(5, MS(2000)));
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
}

#[test]
fn failing_calls_are_named_from_a_fifth_on() {
    expect("upstream_failing", |sample, _| sample.upstreams[0].step.failed = 4);
    let mut why = after_a_history();
    feed(&mut why, 15, |sample, _| sample.upstreams[0].step.failed = 3);
    assert!(ids(&why).is_empty());
    expect("upstream_failing", |sample, _| sample.upstreams[0].available = 0);
    expect("upstream_failing", |sample, second| sample.upstreams[0].open = second == 12);
}

#[test]
fn a_handshake_for_each_call_is_named() {
    expect("handshakes_per_call", |sample, _| sample.upstreams[0].step.handshakes = 15);
}

#[test]
fn slow_clients_are_named_and_not_the_app() {
    expect("slow_clients", |sample, _| {
        sample.apps[0] = app(2, MS(3000));
        (sample.apps[0].step.app_us, sample.apps[0].step.write_us) = (40_000, 5_960_000);
    });
}

#[test]
fn memory_that_grows_at_each_look_is_named_and_caches_that_fill_are_not() {
    expect("memory_growth", |sample, second| {
        sample.apps[0].workers[1] = worker(2, 1, 100 + 10 * u64::from(second));
    });
    let mut why = after_a_history();
    feed(&mut why, 60, |sample, second| {
        sample.apps[0].workers[1] = worker(2, 1, 100 + u64::from(second.min(5)) * 10);
    });
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
}

/// Less than a verdict takes, more than nothing.
#[test]
fn the_worker_that_has_grown_the_most_is_known_with_its_busiest_route() {
    let mut why = after_a_history();
    assert_eq!(why.apps()["shop"].growth(), None);
    feed(&mut why, 200, |sample, second| {
        sample.apps[0].workers[2] = worker(3, 1, 100 + u64::from(second.min(100)) / 5);
        sample.apps[0].routes[1].step.times = times(30, MS(90));
    });
    assert!(ids(&why).is_empty(), "{:?}", why.findings());
    let growth = why.apps()["shop"].growth().unwrap();
    assert_eq!((growth.worker, growth.bytes), (3, 20 << 20));
    assert_eq!((growth.over, growth.route.as_deref()), (Duration::from_secs(500), Some("/search/*")));
}

#[test]
fn a_slow_leak_shows_within_the_hour() {
    let mut why = Why::default();
    feed(&mut why, 3600, |sample, second| {
        sample.apps[0].workers[0] = WorkerSample {
            age: Duration::from_secs(600 + u64::from(second)),
            ..worker(1, 1, 100 + u64::from(second) / 20)
        };
    });
    assert_eq!(ids(&why), ["memory_growth"]);
}

#[test]
fn a_leak_that_a_reload_brought_is_called_its() {
    let mut why = after_a_history();
    feed(&mut why, 40, |sample, second| {
        sample.apps[0].generation = 2;
        sample.apps[0].workers = (1..=4)
            .map(|number| WorkerSample {
                age: Duration::from_secs(second.into()),
                ..worker(number, 2, 100 + 10 * u64::from(second))
            })
            .collect();
    });
    assert_eq!(ids(&why), ["leak_after_reload"], "{:?}", why.findings());
    assert!(why.events().any(|event| event.text == "reload, generation 2" && event.at == 301));
}

#[test]
fn processes_that_serve_one_request_are_named() {
    let mut why = after_a_history();
    feed(&mut why, 1, |sample, _| sample.apps[0].step.boots = 1);
    assert_eq!(ids(&why), ["boot_per_request"]);
}

#[test]
fn calls_lost_again_and_again_are_a_ladder_and_once_are_a_restart() {
    let mut why = after_a_history();
    feed(&mut why, 10, |sample, second| sample.upstreams[0].step.lost = u32::from(second == 5) * 9);
    feed(&mut why, 60, |_, _| {});
    assert!(ids(&why).is_empty());
    feed(&mut why, 60, |sample, second| sample.upstreams[0].step.lost = u32::from(second % 20 == 5));
    assert_eq!(ids(&why), ["timeout_ladder"]);
}

#[test]
fn a_full_spill_is_named_and_a_client_that_waits_is_a_note() {
    let mut why = after_a_history();
    feed(&mut why, 1, |sample, _| sample.spill_full = 1);
    assert_eq!(ids(&why), ["spill_limit"]);
    let mut why = after_a_history();
    feed(&mut why, 1, |sample, _| sample.apps[0].step.expectations = 2);
    assert_eq!(ids(&why), ["client_waits"]);
    assert_eq!(why.findings()[0].rule.severity, Severity::Note);
}

#[test]
fn an_app_whose_requests_fail_is_named_with_the_reasons_and_the_route() {
    let failing = |sample: &mut Sample, _: u32| {
        sample.apps[0].step.failed = 20;
        sample.apps[0].routes[1].step.failed = 18;
        sample.apps[0].errors = vec![("worker_died", 3), ("app_error", 12)];
    };
    expect("app_failing", failing);
    let mut why = after_a_history();
    feed(&mut why, 10, failing);
    let evidence = "40 % of the requests of shop failed in the last 10 s (200 of 500: app_error 120, by the app itself 50, worker_died 30), \
                    most of route /search/*";
    assert_eq!(why.findings()[0].evidence, evidence);
    // Below a fifth, and where an upstream explains it, it is none.
    let mut why = after_a_history();
    feed(&mut why, 20, |sample, _| sample.apps[0].step.failed = 9);
    assert!(ids(&why).is_empty());
    expect("upstream_failing", |sample, _| {
        sample.apps[0].step.failed = 20;
        sample.upstreams[0].step.failed = 15;
    });
}

#[test]
fn workers_that_crash_are_named_and_not_what_follows_from_it() {
    let crash = |sample: &mut Sample, second: u32| {
        queue(sample, 30, (0.1, 0.0));
        sample.apps[0].step.failed = 25;
        sample.apps[0].crashes = u32::from(second.is_multiple_of(3));
        sample.apps[0].last_crash = Some("killed by signal 11 (SIGSEGV)".into());
    };
    let mut why = after_a_history();
    feed(&mut why, 10, crash);
    assert_eq!(ids(&why), ["workers_crash"]);
    let evidence = "4 workers of shop crashed in the last minute, the last: killed by signal 11 (SIGSEGV)";
    assert_eq!(why.findings()[0].evidence, evidence);
    feed(&mut why, 60, |_, _| {});
    assert!(ids(&why).is_empty());
    feed(&mut why, 2, crash);
    assert!(!ids(&why).contains(&"workers_crash"), "one is an accident");
}

#[test]
fn clients_that_wait_for_a_connection_are_named_unless_a_cause_keeps_connections_busy() {
    let blocked = |ms| Some(BlockedListener { listener: "main".into(), time: MS(ms), limit: 200 });
    let mut why = after_a_history();
    feed(&mut why, 8, |sample, _| sample.blocked = blocked(900));
    assert!(ids(&why).is_empty(), "a burst is over before");
    feed(&mut why, 10, |sample, _| sample.blocked = blocked(499));
    assert!(ids(&why).is_empty(), "idle ones make room");
    feed(&mut why, 9, |sample, _| sample.blocked = blocked(500));
    assert_eq!(ids(&why), ["connection_limit"]);
    let evidence = "new connections of listener \"main\" waited in 9 of the last 10 s: all 200 that may be open are in use";
    assert_eq!(why.findings()[0].evidence, evidence);
    feed(&mut why, 2, |_, _| {});
    assert!(ids(&why).is_empty());
    expect("too_few_workers", |sample, _| {
        queue(sample, 30, (0.1, 0.0));
        sample.blocked = blocked(1000);
    });
}

#[test]
fn a_disk_that_takes_no_spill_files_is_named_for_a_minute() {
    let failure = |lost, free| Some(SpillFailure { lost, folder: "/var/tmp".into(), free });
    let mut why = after_a_history();
    feed(&mut why, 1, |sample, _| sample.spill_failed = failure(4, Some(5 << 20)));
    feed(&mut why, 1, |sample, _| sample.spill_failed = failure(1, Some(3 << 20)));
    assert_eq!(ids(&why), ["spill_disk"]);
    let found = &why.findings()[0];
    let evidence = "5 request bodies and responses were lost in the last minute: spill files failed in /var/tmp, which has 3 MiB left";
    assert_eq!(found.evidence, evidence);
    assert_eq!(found.figures, [("lost", 5.0), ("free_bytes", 3_145_728.0)]);
    feed(&mut why, 58, |_, _| {});
    assert_eq!(ids(&why), ["spill_disk"]);
    feed(&mut why, 2, |_, _| {});
    assert!(ids(&why).is_empty());
    feed(&mut why, 1, |sample, _| sample.spill_failed = failure(1, None));
    assert!(why.findings()[0].evidence.ends_with("failed in /var/tmp"));
}

/// Workers wait for clients: more of them, or a limit for the route, would move that only.
#[test]
fn a_full_spill_is_named_and_not_the_queue_and_slow_responses_that_it_causes() {
    expect("spill_limit", |sample, second| {
        queue(sample, 30, (0.1, 0.0));
        sample.apps[0].held =
            vec![HeldRoute { route: "/search/*".into(), requests: 4, oldest: MS(3000), worker: 3 }];
        sample.apps[0].step.times = times(2, MS(3000));
        (sample.apps[0].step.app_us, sample.apps[0].step.write_us) = (40_000, 5_960_000);
        sample.spill_full = u32::from(second % 5 == 0);
    });
}

#[test]
fn endpoint_changes_are_events() {
    let mut why = after_a_history();
    feed(&mut why, 2, |sample, _| (sample.upstreams[0].endpoints, sample.upstreams[0].available) = (4, 4));
    let texts: Vec<&str> = why.events().map(|event| event.text.as_str()).collect();
    assert_eq!(texts, ["2 → 4 endpoints"]);
    for number in 0..2 * EVENTS_MAX {
        why.note("shop".into(), number.to_string());
    }
    assert_eq!(why.events().count(), EVENTS_MAX);
}

#[test]
fn a_verdict_keeps_its_beginning_while_it_flickers() {
    let mut why = after_a_history();
    let busy = |sample: &mut Sample, _: u32| sample.upstreams[0].step.handshakes = 15;
    feed(&mut why, 10, busy);
    let since = why.findings()[0].since;
    feed(&mut why, 20, |_, _| {});
    assert!(why.findings().is_empty());
    feed(&mut why, 10, busy);
    assert_eq!(why.findings()[0].since, since);
}

#[test]
fn subjects_that_are_gone_take_their_histories_along_and_routes_are_bounded() {
    let mut why = Why::default();
    feed(&mut why, 2, |sample, second| {
        let route = |number: u32| RouteSample {
            route: format!("/{second}/{number}").into(),
            step: RouteStep::default(),
        };
        sample.apps[0].routes = (0..200).map(route).collect();
    });
    assert_eq!(why.apps().values().map(|app| app.routes.len()).sum::<usize>(), ROUTES_MAX);
    why.handle_sample(&Sample::default());
    assert!(why.apps().is_empty() && why.upstreams().is_empty());
}

#[derive(Debug, Clone, Default)]
struct Count(u32);

impl Step for Count {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }

    fn take_away(&mut self, other: &Self) {
        self.0 -= other.0;
    }
}

#[test]
fn histories_have_their_bounds() {
    let mut series = Series::<Count>::default();
    (0..100_000).for_each(|_| series.push(Count(1)));
    assert_eq!(series.last(usize::MAX).count(), SECONDS);
    assert_eq!((series.last_tens(usize::MAX).count(), series.fives().count()), (TENS, FIVES));
    assert_eq!((series.recent(10).0, series.usual().0), (10, (TENS as u32 - 6) * 10));
    assert!(series.fives().all(|step| step.0 == 300));
}

/// What is added and taken away step by step is what the steps of the hour sum up to.
#[test]
fn what_is_usual_is_the_hour_before_the_last_minute() {
    for seconds in [9_u32, 10, 69, 70, 3_590, 3_600, 3_610, 9_999] {
        let mut series = Series::<Count>::default();
        (1..=seconds).for_each(|second| series.push(Count(second)));
        let expected: u32 = series.last_tens(TENS).skip(6).map(|step| step.0).sum();
        assert_eq!(series.usual().0, expected, "after {seconds} s");
        assert_eq!(series.usual().0 > 0, seconds >= 70, "after {seconds} s");
    }
}

/// A sum that has reached the limit of its type does not tell what was added.
#[test]
fn what_is_usual_recovers_from_counts_at_their_limit() {
    let mut series = Series::<RouteStep>::default();
    let step = |failed| RouteStep { failed, ..RouteStep::default() };
    (0..60).for_each(|_| series.push(step(u32::MAX)));
    (60..7_200).for_each(|_| series.push(step(1)));
    assert_eq!(series.usual().failed, 3_540);
}

#[test]
fn shares_are_never_negative() {
    let mut sum =
        MachineStep { pressure: Some(0.1), busy: 0.1, steal: 0.1, ours: 0.1, ..MachineStep::default() };
    let more =
        MachineStep { pressure: Some(0.2), busy: 0.2, steal: 0.2, ours: 0.2, ..MachineStep::default() };
    sum.merge(&more);
    // In binary fractions, 0.1 + 0.2 - 0.3 is not zero, and what is left is less than the next 0.3.
    (0..2).for_each(|_| {
        sum.take_away(&MachineStep { pressure: Some(0.3), busy: 0.3, steal: 0.3, ours: 0.3, ..more })
    });
    assert_eq!((sum.busy, sum.steal, sum.ours, sum.pressure), (0.0, 0.0, 0.0, Some(0.0)));
}

#[test]
fn a_quantile_lies_between_the_bounds_of_its_bucket() {
    assert_eq!(Times::default().quantile(500), None);
    let mut both = times(90, MS(2));
    both.merge(&times(10, MS(80)));
    assert_eq!((both.count(), both.mean()), (100, Duration::from_micros(9_800)));
    let (median, tail) = (both.quantile(500).unwrap(), both.quantile(990).unwrap());
    assert!(median > MS(1) && median <= MS(3) && tail > MS(50) && tail <= MS(100), "{median:?} {tail:?}");
}

#[test]
fn the_memory_is_what_is_written_down() {
    assert_eq!(size_of::<AppStep>(), 136);
    assert_eq!(size_of::<RouteStep>(), 88);
    assert_eq!(size_of::<UpstreamStep>(), 96);
}

#[test]
fn rules_are_found_by_name() {
    for expected in RULES {
        assert_eq!(rule(expected.id), Some(expected));
        assert!(!expected.remedy.is_empty() && expected.threshold.ends_with('.'));
    }
    assert_eq!(rule("nothing"), None);
}
