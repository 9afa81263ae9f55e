//! An examination for people: made to be pasted into a ticket.

use std::fmt::Write as _;

use crate::examine::Examination;
use crate::finding::{Finding, Verdict};

/// How the report looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// With colours.
    pub colours: bool,
    /// With every finding, the good ones too.
    pub all: bool,
}

/// One examination.
#[must_use]
pub fn text(examination: &Examination, style: Style) -> String {
    let mut out = format!("{}   {}\n", examination.target, examination.server.name());
    for examined in &examination.examined {
        let _ =
            writeln!(out, "\n{}  {}: {}", painted(examined.verdict(), style), examined.id, examined.title);
        let worth = |finding: &&Finding| style.all || finding.verdict >= Verdict::Warning;
        let mut told: Vec<&Finding> = examined.findings.iter().filter(worth).collect();
        told.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
        if told.is_empty() {
            told.extend(examined.chief());
        }
        told.iter().for_each(|finding| tell(&mut out, finding, style));
    }
    let (connections, requests) = examination.spent;
    let _ = writeln!(
        out,
        "\n{} in {:.1} s, {connections} connections, {requests} requests",
        painted(examination.verdict(), style),
        examination.took.as_secs_f64(),
    );
    out
}

fn tell(out: &mut String, finding: &Finding, style: Style) {
    let mark =
        if style.all { format!("[{}] {}: ", finding.verdict.name(), finding.id) } else { String::new() };
    let _ = writeln!(out, "    {mark}{}", finding.evidence);
    if let Some(cost) = &finding.cost {
        let _ = writeln!(out, "    cost  {cost}");
    }
    if let Some(fix) = &finding.fix {
        let _ = writeln!(out, "    fix   {fix}");
    }
}

fn painted(verdict: Verdict, style: Style) -> String {
    let name = verdict.name();
    if !style.colours {
        return name.to_uppercase();
    }
    let colour = match verdict {
        Verdict::Good => 32,
        Verdict::Unknown => 36,
        Verdict::Warning => 33,
        Verdict::Bad => 31,
    };
    format!("\x1b[{colour}m{}\x1b[0m", name.to_uppercase())
}
