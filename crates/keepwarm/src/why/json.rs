//! The verdicts and their evidence as JSON: what `keepwarm why --json` gives. docs/operate/why.md describes it; members are added, never renamed.

use std::time::{Duration, SystemTime};

use keepwarm_policy::why::{
    AppCallSample, AppHistory, Event, Finding, RouteStep, Series, Severity, Times, UpstreamHistory, Why,
};
use keepwarm_telemetry::timestamp;
use serde_json::{Map, Value, json};

use crate::status::view::{CertificateStatus, View};

/// The seconds that figures of now are of.
const WINDOW: usize = 10;
/// Routes of an app that are shown, those with the most time first.
const ROUTES: usize = 10;
/// A certificate that ends sooner was not renewed: tools renew at a third of 90 days.
const SOON: Duration = Duration::from_secs(14 * 86400);

/// Responds to `why [APP]`.
pub(crate) async fn respond(view: &View, subject: &str) -> Value {
    let certificates = view.look().await.certificates;
    let why = view.diagnosis.lock();
    let is_known = why.apps().contains_key(subject) || why.upstreams().contains_key(subject);
    if !subject.is_empty() && !is_known {
        let known: Vec<&str> = why.apps().keys().chain(why.upstreams().keys()).map(|name| &**name).collect();
        let message = match known.is_empty() {
            true => format!(
                "no app or upstream {subject:?}: this instance was started less than 2 s ago, or has none; try again"
            ),
            false => format!("no app or upstream {subject:?}; use one of: {}", known.join(", ")),
        };
        return json!({ "ok": false, "message": message });
    }
    about(&why, Some(subject).filter(|subject| !subject.is_empty()), expiring(&certificates))
}

/// All of it.
pub(crate) fn json(view: &View, certificates: &[CertificateStatus]) -> Value {
    about(&view.diagnosis.lock(), None, expiring(certificates))
}

/// Those that will expire soon.
fn expiring(certificates: &[CertificateStatus]) -> Value {
    let now = SystemTime::now();
    let soon = |expires: SystemTime| expires.duration_since(now).unwrap_or_default() < SOON;
    let expiring = certificates.iter().filter(|certificate| soon(certificate.facts.not_after));
    expiring
        .map(|certificate| {
            let left = certificate.facts.not_after.duration_since(now).unwrap_or_default();
            json!({ "names": certificate.facts.names, "expires_in_seconds": left.as_secs() })
        })
        .collect()
}

/// `subject`: the app or upstream that is meant; `None`: all.
fn about(why: &Why, subject: Option<&str>, certificates: Value) -> Value {
    let is_meant = |name: &str| subject.is_none_or(|subject| subject == name);
    let findings: Vec<&Finding> =
        why.findings().iter().filter(|finding| concerns(finding, why, subject)).collect();
    let machine = why.machine().recent(WINDOW);
    json!({
        "healthy": !findings.iter().any(|finding| finding.rule.severity == Severity::Fault),
        "observed_seconds": why.now(),
        "findings": findings.iter().map(|found| finding(found, why.now())).collect::<Vec<_>>(),
        "apps": why.apps().iter().filter(|(name, _)| is_meant(name)).map(|(name, history)| app(name, history)).collect::<Vec<_>>(),
        "upstreams": why.upstreams().iter().filter(|(name, _)| is_meant(name)).map(|(name, history)| upstream(why, name, history)).collect::<Vec<_>>(),
        "machine": {
            "cores": machine.cores,
            "busy": machine.share(machine.busy),
            "stolen": machine.share(machine.steal),
            "pressure": machine.pressure.map(|sum| machine.share(sum)),
            "throttled": machine.share(machine.throttled),
            "limit_cores": (machine.limit > 0).then(|| f64::from(machine.limit) / 1e3),
        },
        "events": why.events().filter(|event| is_meant(&event.subject)).map(|one| event(one, why.now())).collect::<Vec<_>>(),
        "certificates": certificates,
    })
}

/// An app is also concerned by the machine and by any upstream: whose calls are slow is not known.
fn concerns(finding: &Finding, why: &Why, subject: Option<&str>) -> bool {
    let Some(subject) = subject else { return true };
    let about = &finding.subject;
    match (&about.app, &about.upstream) {
        (Some(app), _) => **app == *subject,
        (None, Some(upstream)) => **upstream == *subject || why.apps().contains_key(subject),
        (None, None) => true,
    }
}

fn finding(finding: &Finding, now: u64) -> Value {
    let severity = match finding.rule.severity {
        Severity::Fault => "fault",
        Severity::Note => "note",
    };
    let figures: Map<String, Value> =
        finding.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "id": finding.rule.id,
        "severity": severity,
        "app": finding.subject.app.as_deref(),
        "upstream": finding.subject.upstream.as_deref(),
        "since": time(now.saturating_sub(finding.since)),
        "seconds": now.saturating_sub(finding.since),
        "evidence": finding.evidence,
        "figures": figures,
        "meaning": finding.rule.meaning,
        "remedy": finding.rule.remedy,
    })
}

fn event(event: &Event, now: u64) -> Value {
    let ago = now.saturating_sub(event.at);
    json!({ "time": time(ago), "seconds_ago": ago, "subject": &*event.subject, "text": event.text })
}

fn app(name: &str, history: &AppHistory) -> Value {
    let (recent, usual) = (history.series.recent(WINDOW), history.series.usual());
    let last = history.series.recent(1);
    let each = |sum_us: u64| sum_us as f64 / 1e6 / recent.times.count().max(1) as f64;
    json!({
        "name": name,
        "now": figures(&recent.times, recent.failed, seconds(&history.series)),
        "usual": figures(&usual.times, usual.failed, usual_seconds(&history.series)),
        "mean_seconds": {
            "read": each(recent.read_us),
            "queue": each(recent.queue_us),
            "app": each(recent.app_us),
            "write": each(recent.write_us),
        },
        "waiting": last.waiting,
        "held": last.held,
        "most": history.most().map(|most| json!({
            "route": &*most.route,
            "requests": most.requests,
            "oldest_seconds": most.oldest.as_secs_f64(),
            "worker": most.worker,
        })),
        "memory": history.growth().map(|growth| json!({
            "worker": growth.worker,
            "growth_bytes": growth.bytes,
            "seconds": growth.over.as_secs(),
            "route": growth.route.as_deref(),
        })),
        "routes": routes(history),
    })
}

fn routes(history: &AppHistory) -> Vec<Value> {
    let mut routes: Vec<_> =
        history.routes.iter().map(|(route, series)| (route, series, series.recent(WINDOW))).collect();
    routes.retain(|(_, _, recent)| recent.times.count() > 0);
    routes.sort_by_key(|(_, _, recent)| std::cmp::Reverse(recent.times.sum_us));
    let route = |(route, series, recent): (&std::sync::Arc<str>, &Series<RouteStep>, RouteStep)| {
        let usual = series.usual();
        json!({
            "route": &**route,
            "now": figures(&recent.times, recent.failed, seconds(series)),
            "usual": figures(&usual.times, usual.failed, usual_seconds(series)),
        })
    };
    routes.into_iter().take(ROUTES).map(route).collect()
}

fn upstream(why: &Why, name: &str, history: &UpstreamHistory) -> Value {
    let known = |known: AppCallSample| {
        json!({
            "name": &*known.app,
            "calls": known.calls,
            "call_seconds": known.us as f64 / 1e6,
            "share": why.share_of(&known.app, known.us),
        })
    };
    let (recent, usual) = (history.series.recent(WINDOW), history.series.usual());
    json!({
        "name": name,
        "now": figures(&recent.calls, recent.failed, seconds(&history.series)),
        "usual": figures(&usual.calls, usual.failed, usual_seconds(&history.series)),
        "in_flight": history.series.recent(1).in_flight,
        "apps": history.by_app().into_iter().map(known).collect::<Vec<_>>(),
    })
}

/// Null without a request.
pub(crate) fn figures(times: &Times, failed: u32, seconds: u64) -> Value {
    let count = times.count();
    if count == 0 {
        return Value::Null;
    }
    let quantile = |per_mille| times.quantile(per_mille).map(|time| time.as_secs_f64());
    json!({
        "per_second": count as f64 / seconds.max(1) as f64,
        "mean_seconds": times.mean().as_secs_f64(),
        "p50_seconds": quantile(500),
        "p90_seconds": quantile(900),
        "p99_seconds": quantile(990),
        "failed": f64::from(failed) / count as f64,
    })
}

/// How many seconds the window has.
fn seconds<T: keepwarm_policy::why::Step>(series: &Series<T>) -> u64 {
    series.age().min(WINDOW as u64)
}

/// How many seconds are usual: up to an hour less the last minute.
fn usual_seconds<T: keepwarm_policy::why::Step>(series: &Series<T>) -> u64 {
    (series.age() / 10 * 10).min(3600).saturating_sub(60)
}

fn time(seconds_ago: u64) -> String {
    let at = SystemTime::now() - Duration::from_secs(seconds_ago);
    String::from_utf8_lossy(&timestamp(at)).into_owned()
}
