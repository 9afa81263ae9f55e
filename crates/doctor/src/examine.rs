//! An examination, from its beginning to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::context::ProbeContext;
use crate::finding::{Finding, Verdict};
use crate::probes::Probe;
use crate::reach::{Destination, ReachError, of_later, reach};
use crate::report::time;
use crate::server::Server;
use crate::settings::Settings;
use crate::target::Target;

/// Receives progress of a running examination.
pub trait Watcher: Send + Sync {
    /// A probe begins.
    fn begins(&self, probe: Probe);
    /// A probe has ended.
    fn ended(&self, result: &ProbeResult);
    /// Whether anybody reads what goes over the wire.
    fn wants_wire(&self) -> bool;
    /// A line of the transcript of a connection: `>` sent, `<` received, `*` happened.
    fn wire(&self, connection: u64, line: &str);
}

/// A watcher that ignores everything.
#[derive(Debug)]
pub struct SilentWatcher;

/// The results, by probe.
#[derive(Debug, Clone)]
pub struct Examination {
    /// The caller's label for it, besides its URL, if any.
    pub label: Option<String>,
    /// The requested URL.
    pub asked: Target,
    /// The URL that was examined: where redirects led.
    pub target: Target,
    /// The server software, if it reveals it.
    pub server: Server,
    /// By probe, in the order they ran. If the server was not reached, a single one, `reach`.
    pub results: Vec<ProbeResult>,
    /// Whether there was a server to examine.
    pub reached: bool,
    /// Connections opened and requests sent.
    pub spent: (u64, u64),
    /// How long it took.
    pub took: Duration,
}

/// The findings of one probe.
#[derive(Debug, Clone)]
pub struct ProbeResult {
    /// The probe's id.
    pub id: &'static str,
    /// The subject of the check, in words.
    pub title: &'static str,
    /// The findings, at least one.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

impl Examination {
    /// The worst verdict of all. An unknown one does not spoil a good one.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        worst(self.results.iter().map(ProbeResult::verdict))
    }
}

impl ProbeResult {
    /// The worst verdict of its findings. An unknown one does not spoil a good one.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        worst(self.findings.iter().map(|finding| finding.verdict))
    }

    /// The finding that decides the verdict: the first of the worst.
    #[must_use]
    pub fn chief(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.verdict == self.verdict())
    }
}

fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts.filter(|verdict| *verdict != Verdict::Unknown).max().unwrap_or(Verdict::Unknown)
}

/// Examines a target.
pub async fn examine(target: &Target, settings: &Settings, watcher: Arc<dyn Watcher>) -> Examination {
    let begun = Instant::now();
    let Destination { context, remarks } = match reach(target, settings, &watcher).await {
        Ok(reached) => reached,
        Err(why) => return unreached(target, why, begun.elapsed()),
    };
    let reached_after = begun.elapsed();
    let mut results = Vec::new();
    for &probe in &settings.probes {
        watcher.begins(probe);
        let began = Instant::now();
        let within = longest(settings);
        let examining = tokio::time::timeout(within, probe.examine(&context));
        let mut findings = examining.await.unwrap_or_else(|_| vec![unfinished(within)]);
        for finding in &mut findings {
            if finding.verdict > Verdict::Unknown && finding.fix.is_none() {
                finding.fix = probe.fix(finding.id, context.server).map(str::to_owned);
            }
        }
        let one = ProbeResult { id: probe.id(), title: probe.title(), findings, took: began.elapsed() };
        watcher.ended(&one);
        results.push(one);
    }
    let gone = context.is_gone().then(|| gone(&context));
    let findings: Vec<Finding> = remarks.into_iter().chain(of_later(&context)).chain(gone).collect();
    if !findings.is_empty() {
        let title = "reachability";
        results.insert(0, ProbeResult { id: "reach", title, findings, took: reached_after });
    }
    Examination {
        label: None,
        asked: target.clone(),
        target: context.target.clone(),
        server: context.server,
        reached: true,
        results,
        spent: context.budget.spent(),
        took: begun.elapsed(),
    }
}

fn unreached(target: &Target, ReachError { finding, spent }: ReachError, took: Duration) -> Examination {
    Examination {
        label: None,
        asked: target.clone(),
        target: target.clone(),
        server: Server::Unknown,
        reached: false,
        results: vec![reach_result(finding, took)],
        spent,
        took,
    }
}

/// A finding on the way to the server, under the id of the probe it belongs to.
fn reach_result(finding: Finding, took: Duration) -> ProbeResult {
    let probe = finding.id.split('.').next().and_then(Probe::named);
    let (id, title) = probe.map_or(("reach", "reachability"), |probe| (probe.id(), probe.title()));
    ProbeResult { id, title, findings: vec![finding], took }
}

/// It responded at first, so there was something to examine.
fn gone(context: &ProbeContext) -> Finding {
    Finding::bad(
        "reach.gone",
        format!(
            "the first request: {}; later requests repeatedly got no response within {}, and were given up",
            context.first.words(),
            time(context.settings.timeout)
        ),
    )
    .with_fix("Check what the server was doing at that time: all of its workers may be stuck.")
}

/// How long a probe may run. Each bounds its own waits; this is for a server that uses up every one of them.
fn longest(settings: &Settings) -> Duration {
    let waits = if settings.slow { Duration::from_secs(900) } else { Duration::ZERO };
    waits + Duration::from_secs(20) + settings.timeout * 8
}

fn unfinished(within: Duration) -> Finding {
    Finding::unknown("probe.unfinished", format!("the probe was stopped after {}", time(within)))
}

impl Watcher for SilentWatcher {
    fn begins(&self, _: Probe) {}
    fn ended(&self, _: &ProbeResult) {}
    fn wants_wire(&self) -> bool {
        false
    }
    fn wire(&self, _: u64, _: &str) {}
}
