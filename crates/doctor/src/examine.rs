//! An examination, from its beginning to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::finding::{Finding, Verdict};
use crate::patient::Patient;
use crate::probes::Probe;
use crate::reach::{Reached, Unreached, reach};
use crate::report::time;
use crate::server::Server;
use crate::settings::Settings;
use crate::target::Target;

/// Who is told while an examination goes on.
pub trait Watcher: Send + Sync {
    /// A probe begins.
    fn begins(&self, probe: Probe);
    /// A probe has ended.
    fn ended(&self, examined: &Examined);
    /// Whether anybody reads what goes over the wire.
    fn wants_wire(&self) -> bool;
    /// A line of the transcript of a connection: `>` sent, `<` received, `*` happened.
    fn wire(&self, connection: u64, line: &str);
}

/// Tells nobody.
#[derive(Debug)]
pub struct Quiet;

/// What was found, by probe.
#[derive(Debug, Clone)]
pub struct Examination {
    /// What the caller calls it, besides its URL: nothing, unless they say.
    pub label: Option<String>,
    /// The URL that was asked for.
    pub asked: Target,
    /// The URL that was examined: where redirects led.
    pub target: Target,
    /// Which server it is, as far as it says.
    pub server: Server,
    /// By probe, in the order they ran. If the server was not reached, a single one, `reach`.
    pub examined: Vec<Examined>,
    /// Whether there was a server to examine.
    pub reached: bool,
    /// Connections opened and requests sent.
    pub spent: (u64, u64),
    /// How long it took.
    pub took: Duration,
}

/// What one probe found.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The probe's id.
    pub id: &'static str,
    /// What it checks, in words.
    pub title: &'static str,
    /// What it found, at least one thing.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

impl Examination {
    /// The worst verdict of all. What could not be told does not spoil what is good.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        worst(self.examined.iter().map(Examined::verdict))
    }
}

impl Examined {
    /// The worst of its findings'. What could not be told does not spoil what is good.
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
    let Reached { patient, remark } = match reach(target, settings, &watcher).await {
        Ok(reached) => reached,
        Err(why) => return unreached(target, why, begun.elapsed()),
    };
    let mut examined: Vec<Examined> =
        remark.map(|finding| reach_examined(finding, begun.elapsed())).into_iter().collect();
    for &probe in &settings.probes {
        watcher.begins(probe);
        let began = Instant::now();
        let within = longest(settings);
        let examining = tokio::time::timeout(within, probe.examine(&patient));
        let mut findings = examining.await.unwrap_or_else(|_| vec![unfinished(within)]);
        for finding in &mut findings {
            if finding.verdict > Verdict::Unknown && finding.fix.is_none() {
                finding.fix = probe.fix(finding.id, patient.server).map(str::to_owned);
            }
        }
        let one = Examined { id: probe.id(), title: probe.title(), findings, took: began.elapsed() };
        watcher.ended(&one);
        examined.push(one);
    }
    if patient.is_gone() {
        let finding = gone(&patient);
        match examined.first_mut().filter(|first| first.id == "reach") {
            Some(first) => first.findings.push(finding),
            None => examined.insert(0, reach_examined(finding, begun.elapsed())),
        }
    }
    Examination {
        label: None,
        asked: target.clone(),
        target: patient.target.clone(),
        server: patient.server,
        reached: true,
        examined,
        spent: patient.budget.spent(),
        took: begun.elapsed(),
    }
}

fn unreached(target: &Target, Unreached { finding, spent }: Unreached, took: Duration) -> Examination {
    Examination {
        label: None,
        asked: target.clone(),
        target: target.clone(),
        server: Server::Unknown,
        reached: false,
        examined: vec![reach_examined(finding, took)],
        spent,
        took,
    }
}

/// What was found on the way to the server; by the id of the probe whose matter it is.
fn reach_examined(finding: Finding, took: Duration) -> Examined {
    let probe = finding.id.split('.').next().and_then(Probe::named);
    let (id, title) = probe.map_or(("reach", "reachability"), |probe| (probe.id(), probe.title()));
    Examined { id, title, findings: vec![finding], took }
}

/// It answered at first, so that there was something to examine.
fn gone(patient: &Patient) -> Finding {
    let mut finding = Finding::bad(
        "reach.gone",
        format!(
            "the first request: {}; later requests repeatedly got no response within {}, and were given up",
            patient.first.words(),
            time(patient.settings.timeout)
        ),
    );
    finding.fix =
        Some("Check what the server was doing at that time: all of its workers may be stuck.".to_owned());
    finding
}

/// For so long a probe may go on. Each bounds its own waits; this is for a server that uses up every one of them.
fn longest(settings: &Settings) -> Duration {
    let waits = if settings.slow { Duration::from_secs(900) } else { Duration::ZERO };
    waits + Duration::from_secs(20) + settings.timeout * 8
}

fn unfinished(within: Duration) -> Finding {
    Finding::unknown("probe.unfinished", format!("the probe was stopped after {}", time(within)))
}

impl Watcher for Quiet {
    fn begins(&self, _: Probe) {}
    fn ended(&self, _: &Examined) {}
    fn wants_wire(&self) -> bool {
        false
    }
    fn wire(&self, _: u64, _: &str) {}
}
