//! What slows an app down: one cause, in the order from that which explains the others to that which is left.

use std::sync::Arc;
use std::time::Duration;

use super::{WINDOW, is_slower, machine, mib, others, percent, queueing, time};
use crate::why::catalog::{
    APP_FAILING, BOOT_PER_REQUEST, CLIENT_WAITS, LEAK_AFTER_RELOAD, MEMORY_GROWTH, ROUTE_HOLDS_WORKERS,
    SLOW_CLIENTS, TOO_FEW_WORKERS, UPSTREAM_FAILING, WORKERS_CRASH,
};
use crate::why::history::{AppHistory, Moment};
use crate::why::memory::{Growth, WorkerMemory};
use crate::why::{AppStep, Finding, Subject, Why};

/// Seconds in which a route holds the workers, of those that are looked at.
const HOLDS: (usize, usize) = (4, 5);
const HELD_SHARE: f64 = 0.75;
const HELD_FOR: Duration = Duration::from_secs(1);
/// Seconds in which its oldest request is that old: a new one may just have taken the worker of another.
const OLD: usize = 2;
/// Seconds after a reload in which a leak is called its.
const AFTER_RELOAD: u64 = 2 * 60 * 60;

/// Crashes in a minute that are no accident.
const CRASHES_MIN: u32 = 3;
/// Seconds without a crash, after which they are over. A route that kills workers is tried again after 5 s, 10 s and so on.
const CRASHED_LATELY: usize = 20;
/// Failed requests in the last 10 s.
const FAILED_MIN: u32 = 5;
/// Reasons that are named: more do not fit a line.
const REASONS_NAMED: usize = 3;

/// The one cause of its queue, its slowness or its errors.
pub(super) fn cause(why: &Why, name: &Arc<str>, app: &AppHistory, causes: &[Finding]) -> Option<Finding> {
    if let Some(finding) = workers_crash(name, app) {
        return Some(finding);
    }
    // Workers that wait for clients fill the queue, too.
    if others::without_room(why) > 0 || is_held_by_upstream(why, app, causes) {
        return None;
    }
    if let Some(finding) = route_holds_workers(name, app) {
        return Some(finding);
    }
    if machine::is_throttled(why) {
        return None;
    }
    if let Some(wait) = queueing(app) {
        return queue_cause(why, name, app, wait);
    }
    let neighbour = is_slower(app).and_then(|(now, usual)| {
        let symptom = format!("requests of {name} take {}, usually {}", time(now), time(usual));
        machine::noisy_neighbour(why, &symptom)
    });
    neighbour.or_else(|| failing(why, name, app, causes))
}

fn workers_crash(name: &Arc<str>, app: &AppHistory) -> Option<Finding> {
    let crashes = app.crashes.iter().copied().fold(0, u32::saturating_add);
    let lately = app.crashes.iter().rev().take(CRASHED_LATELY).any(|count| *count > 0);
    // A process that ends after each response has a verdict of its own.
    if crashes < CRASHES_MIN || !lately || app.series.recent(60).boots > 0 {
        return None;
    }
    let last = app.last_crash.as_ref().map(|last| format!(", the last: {last}")).unwrap_or_default();
    let evidence = format!("{crashes} workers of {name} crashed in the last minute{last}");
    Some(Finding::new(&WORKERS_CRASH, Subject::app(name), evidence, &[("crashes", crashes.into())]))
}

/// What fails for no other reason that is known.
fn failing(why: &Why, name: &Arc<str>, app: &AppHistory, causes: &[Finding]) -> Option<Finding> {
    let recent = app.series.recent(WINDOW);
    let (failed, requests) = (recent.failed, recent.times.count());
    let share = f64::from(failed) / requests.max(1) as f64;
    let is_upstreams =
        causes.iter().filter(|finding| finding.rule.id == UPSTREAM_FAILING.id).any(|finding| {
            let upstream = finding.subject.upstream.as_ref().and_then(|name| why.upstreams.get(name));
            upstream.is_some_and(|upstream| upstream.series.recent(WINDOW).failed.saturating_mul(2) >= failed)
        });
    if failed < FAILED_MIN || share < 0.2 || is_upstreams || others::is_disk_failing(why) {
        return None;
    }
    let mut evidence = format!(
        "{} of the requests of {name} failed in the last {WINDOW} s ({failed} of {requests}: {})",
        percent(share),
        reasons(app, failed)
    );
    if let Some(route) = failing_route(app, failed) {
        evidence.push_str(&format!(", most of route {route}"));
    }
    let figures = [("failed", failed.into()), ("failed_share", share)];
    Some(Finding::new(&APP_FAILING, Subject::app(name), evidence, &figures))
}

/// `app_error 34, worker_died 2`: the sources and reasons of failed requests, the most first.
fn reasons(app: &AppHistory, failed: u32) -> String {
    let mut counts: Vec<(&str, u32)> = Vec::new();
    for (reason, count) in app.errors.iter().flatten() {
        match counts.iter_mut().find(|(known, _)| known == reason) {
            Some((_, sum)) => *sum = sum.saturating_add(*count),
            None => counts.push((reason, *count)),
        }
    }
    let ours = counts.iter().map(|(_, count)| *count).fold(0, u32::saturating_add);
    let its_own = failed.saturating_sub(ours);
    if its_own > 0 {
        counts.push(("by the app itself", its_own));
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named: Vec<String> =
        counts.iter().take(REASONS_NAMED).map(|(reason, count)| format!("{reason} {count}")).collect();
    named.join(", ")
}

/// The route that half of the failed requests had, of several.
fn failing_route(app: &AppHistory, failed: u32) -> Option<&Arc<str>> {
    let all = app.routes.iter().map(|(route, series)| (route, series.recent(WINDOW).failed));
    let (route, most) = all.max_by_key(|(_, failed)| *failed)?;
    (app.routes.len() > 1 && most.saturating_mul(2) >= failed).then_some(route)
}

/// Whether half of what its workers hold may be calls to an upstream that has a verdict.
fn is_held_by_upstream(why: &Why, app: &AppHistory, causes: &[Finding]) -> bool {
    let held = app.series.recent(WINDOW).held;
    let slow = causes.iter().filter_map(|finding| why.upstreams.get(finding.subject.upstream.as_ref()?));
    slow.map(|upstream| upstream.series.recent(WINDOW)).any(|calls| {
        // Calls that fail at once hold nobody.
        calls.in_flight > 0 && calls.in_flight.saturating_mul(2) >= held
    })
}

fn route_holds_workers(name: &Arc<str>, app: &AppHistory) -> Option<Finding> {
    let newest = app.moments.back()?.most.as_ref()?;
    // A single route holds all workers whatever happens. The one that holds them may never have ended a request.
    if !app.routes.keys().any(|route| *route != newest.route) {
        return None;
    }
    let is_so = |moment: &&Moment| {
        moment.waiting > 0
            && moment.most.as_ref().is_some_and(|most| {
                most.route == newest.route
                    && most.requests >= 2
                    && f64::from(most.requests) >= HELD_SHARE * f64::from(moment.held)
            })
    };
    let is_old = |moment: &&Moment| moment.most.as_ref().is_some_and(|most| most.oldest >= HELD_FOR);
    let holding = || app.moments.iter().rev().take(HOLDS.1).filter(is_so);
    if holding().count() < HOLDS.0 || holding().filter(is_old).count() < OLD {
        return None;
    }
    let (held, waiting) = app.moments.back().map(|moment| (moment.held, moment.waiting))?;
    let evidence = format!(
        "route {} holds {} of {held} requests at the workers of {name} while {waiting} wait; oldest {}, {name}/{}",
        newest.route,
        newest.requests,
        time(newest.oldest),
        newest.worker
    );
    let figures = [
        ("held_by_route", newest.requests.into()),
        ("held", held.into()),
        ("waiting", waiting.into()),
        ("oldest_seconds", newest.oldest.as_secs_f64()),
    ];
    Some(Finding::new(&ROUTE_HOLDS_WORKERS, Subject::app(name), evidence, &figures))
}

/// Too few workers, too few cores, or neighbours: by what the workers do with their processors.
fn queue_cause(why: &Why, name: &Arc<str>, app: &AppHistory, wait: Duration) -> Option<Finding> {
    let waiting = app.moments.back().map_or(0, |moment| moment.waiting);
    // Nothing is served: workers that start or have died are no matter of their number.
    if app.series.recent(WINDOW).held == 0 {
        return None;
    }
    let demand = demand(app)?;
    let busy = machine::busy(why);
    if demand < 0.5 || busy < 0.8 {
        let evidence = format!(
            "{waiting} requests of {name} wait for a worker, for {}; its workers want a processor for {} of the time, the machine is {} busy",
            time(wait),
            percent(demand),
            percent(busy)
        );
        let figures = [
            ("waiting", waiting.into()),
            ("wait_seconds", wait.as_secs_f64()),
            ("processor_demand", demand),
            ("machine_busy", busy),
        ];
        return Some(Finding::new(&TOO_FEW_WORKERS, Subject::app(name), evidence, &figures));
    }
    let symptom = format!("{waiting} requests of {name} wait for a worker, for {}", time(wait));
    match machine::is_taken_by_others(why) {
        true => machine::noisy_neighbour(why, &symptom),
        false => Some(machine::too_few_cores(why, &symptom, demand)),
    }
}

/// The share of their time for which workers want a processor; none before 3 s were measured.
fn demand(app: &AppHistory) -> Option<f64> {
    let measured: Vec<_> =
        app.moments.iter().filter_map(|moment| moment.processors).filter(|all| all.workers > 0).collect();
    let wanted: f64 = measured.iter().map(|all| (all.computing + all.delayed) / f64::from(all.workers)).sum();
    (measured.len() >= 3).then(|| wanted / measured.len() as f64)
}

/// What has no part in its queue.
pub(super) fn others(why: &Why, name: &Arc<str>, app: &AppHistory) -> Vec<Finding> {
    let minute = app.series.recent(60);
    // At the limit, and where the disk fails, that clients are slow is what these are about.
    let has_room = others::without_room(why) == 0 && !others::is_disk_failing(why);
    let slow = has_room.then(|| slow_clients(name, app)).flatten();
    let found = [slow, memory(name, app, why.now), boots(name, &minute), waits(name, &minute)];
    found.into_iter().flatten().collect()
}

fn slow_clients(name: &Arc<str>, app: &AppHistory) -> Option<Finding> {
    let recent = app.series.recent(WINDOW);
    let (ended, phases) = (recent.times.count(), recent.phases_us());
    let mean = recent.times.mean();
    let share = (recent.read_us + recent.write_us) as f64 / phases.max(1) as f64;
    if ended < 5 || mean < Duration::from_secs(1) || share < 0.7 {
        return None;
    }
    let evidence = format!(
        "clients of {name} take {} of the time of their requests ({} on average) to send them or to receive responses",
        percent(share),
        time(mean)
    );
    let figures = [("client_share", share), ("mean_seconds", mean.as_secs_f64())];
    Some(Finding::new(&SLOW_CLIENTS, Subject::app(name), evidence, &figures))
}

/// The worker that grows the most, and whether a reload brought it.
fn memory(name: &Arc<str>, app: &AppHistory, now: u64) -> Option<Finding> {
    let growing = app.memory.values().filter_map(|worker| Some((worker, worker.growth()?)));
    let (worker, growth) = growing.max_by_key(|(_, growth)| growth.bytes)?;
    let since_reload = is_since_reload(app, worker, growth, now);
    let rule = if since_reload { &LEAK_AFTER_RELOAD } else { &MEMORY_GROWTH };
    let reload = if since_reload {
        format!(" since reload to generation {}", worker.generation)
    } else {
        String::new()
    };
    let evidence = format!(
        "{name}/{} +{} MiB in {}{reload}{}",
        worker.number,
        mib(growth.bytes),
        time(growth.over),
        app.busiest(growth.over).map_or(String::new(), |route| format!(", mostly during {route}"))
    );
    let figures = [("growth_bytes", growth.bytes as f64), ("seconds", growth.over.as_secs_f64())];
    Some(Finding::new(rule, Subject::app(name), evidence, &figures))
}

fn is_since_reload(app: &AppHistory, worker: &WorkerMemory, growth: Growth, now: u64) -> bool {
    let is_recent = app.reloaded.is_some_and(|at| now <= at + AFTER_RELOAD);
    let is_new = app.rate_before.is_some_and(|before| before * 4.0 < growth.rate());
    is_recent && is_new && worker.generation == app.generation
}

fn boots(name: &Arc<str>, minute: &AppStep) -> Option<Finding> {
    let boots = minute.boots;
    (boots > 0).then(|| {
        let evidence = format!("processes of {name} end after one request: {boots} in the last minute");
        Finding::new(&BOOT_PER_REQUEST, Subject::app(name), evidence, &[("boots", boots.into())])
    })
}

fn waits(name: &Arc<str>, minute: &AppStep) -> Option<Finding> {
    let (closes, expectations) = (minute.close_added, minute.expectations);
    (closes > 0 || expectations > 0).then(|| {
        let evidence = format!(
            "in the last minute {expectations} clients of {name} waited for `100 Continue`, {closes} for the connection to close"
        );
        let figures = [("expectations", expectations.into()), ("close_added", closes.into())];
        Finding::new(&CLIENT_WAITS, Subject::app(name), evidence, &figures)
    })
}
