//! An examination for people: made to be pasted into a ticket.

use std::fmt::Write as _;

use super::layout::{Colors, GUTTER, LabelledText, clean};
use crate::examine::{Examination, ProbeResult};
use crate::finding::{Finding, Verdict};

/// How the report looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// With colors.
    pub colors: bool,
    /// With every finding, the good ones too.
    pub all: bool,
}

/// One examination: what was examined, a paragraph for each probe, and the sum.
#[must_use]
pub fn text(examination: &Examination, style: Style) -> String {
    let paint = Colors(style.colors);
    let mut out = heading(examination);
    for result in &examination.results {
        out.push('\n');
        probe(&mut out, result, style, paint);
    }
    let _ = writeln!(out, "\n{}", summary(examination, paint));
    if let Some(worst) = worst(examination) {
        let _ = writeln!(
            out,
            "`keepwarm explain {}` says more about that finding; each finding has such a page",
            worst.id
        );
    }
    out
}

fn heading(examination: &Examination) -> String {
    let asked = examination.asked.to_string();
    let target = examination.target.to_string();
    let mut out = format!("{}\n", identity(examination));
    if asked != target {
        let _ = writeln!(out, "redirected from {}", clean(&asked));
    }
    out
}

/// The target, and what it says it is.
pub(super) fn identity(examination: &Examination) -> String {
    let label = examination.label.as_ref().map_or_else(String::new, |label| format!("{label}: "));
    let server = if examination.reached { examination.server.name() } else { "not checked" };
    clean(&format!("{label}{}   {server}", examination.target))
}

fn probe(out: &mut String, result: &ProbeResult, style: Style, paint: Colors) {
    let verdict = result.verdict();
    let name = paint.verdict(verdict, &loudly(verdict));
    let _ = writeln!(out, "{:GUTTER$}{name} ({})", result.id, result.title);
    // What is not known of the way to the server concerns everything else.
    let least = if result.id == "reach" { Verdict::Unknown } else { Verdict::Warning };
    let mut told: Vec<&Finding> =
        result.findings.iter().filter(|finding| style.all || finding.verdict >= least).collect();
    // The worst first; equally bad findings stay in the order in which the probe looked.
    told.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    if told.is_empty() {
        told.extend(result.chief());
    }
    told.iter().for_each(|finding| tell(out, finding, style, paint));
    rest(out, result, &told);
}

fn tell(out: &mut String, finding: &Finding, style: Style, paint: Colors) {
    // The id of a good finding is of interest only where everything is shown.
    let evidence = match finding.verdict {
        Verdict::Good if !style.all => finding.evidence.clone(),
        _ => format!("{}: {}", finding.id, finding.evidence),
    };
    let name = finding.verdict.name();
    LabelledText { label: name, shown: paint.verdict(finding.verdict, name), text: &evidence }.write(out);
    for (label, text) in [("cost", &finding.cost), ("fix", &finding.fix)] {
        if let Some(text) = text {
            LabelledText { label, shown: label.to_owned(), text }.write(out);
        }
    }
}

/// The findings not shown: good ones, and unknown ones.
fn rest(out: &mut String, result: &ProbeResult, told: &[&Finding]) {
    let left = |verdict| {
        let all = result.findings.iter().filter(|finding| finding.verdict == verdict).count();
        all - told.iter().filter(|finding| finding.verdict == verdict).count()
    };
    let parts: Vec<String> = [Verdict::Good, Verdict::Unknown]
        .into_iter()
        .filter(|&verdict| left(verdict) > 0)
        .map(|verdict| format!("{} {}", left(verdict), verdict.name()))
        .collect();
    if !parts.is_empty() {
        let text = format!("{} (-v shows them)", parts.join(", "));
        LabelledText { label: "and", shown: "and".to_owned(), text: &text }.write(out);
    }
}

/// The first of the worst findings that are a warning or worse.
fn worst(examination: &Examination) -> Option<&Finding> {
    let findings = examination.results.iter().flat_map(|result| &result.findings);
    let faults: Vec<&Finding> = findings.filter(|finding| finding.verdict >= Verdict::Warning).collect();
    let verdict = faults.iter().map(|finding| finding.verdict).max()?;
    faults.into_iter().find(|finding| finding.verdict == verdict)
}

/// The sum, in one line.
fn summary(examination: &Examination, paint: Colors) -> String {
    let mut parts = Vec::new();
    for (verdict, one, many) in [
        (Verdict::Bad, "bad", "bad"),
        (Verdict::Warning, "warning", "warnings"),
        (Verdict::Good, "good", "good"),
        (Verdict::Unknown, "could not tell", "could not tell"),
    ] {
        let count = examination.results.iter().filter(|result| result.verdict() == verdict).count();
        if count > 0 {
            let words = format!("{count} {}", if count == 1 { one } else { many });
            parts.push(paint.verdict(verdict, &words));
        }
    }
    let (connections, requests) = examination.spent;
    format!(
        "{}; {:.1} s, {}, {}",
        parts.join(", "),
        examination.took.as_secs_f64(),
        counted(connections, "connection"),
        counted(requests, "request"),
    )
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// So that it stands out without colors, too.
fn loudly(verdict: Verdict) -> String {
    match verdict {
        Verdict::Bad | Verdict::Warning => verdict.name().to_uppercase(),
        Verdict::Good | Verdict::Unknown => verdict.name().to_owned(),
    }
}
