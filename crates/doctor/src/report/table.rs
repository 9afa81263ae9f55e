//! Several examinations side by side.

use std::fmt::Write as _;

use super::layout::{Colors, GUTTER};
use super::text::{Style, identity};
use crate::examine::{Examination, ProbeResult};
use crate::finding::Verdict;

/// Columns of a URL: the longest verdict and a gap.
const COLUMN: usize = 17;

/// Columns side by side, so that a line stays as short as those of a report; more of them go below.
const COLUMNS: usize = 4;

/// A row for each probe, a column for each URL, which are numbered; the numbers are explained below.
#[must_use]
pub fn table(examinations: &[Examination], style: Style) -> String {
    let paint = Colors(style.colors);
    let ids = ids(examinations);
    let mut out = String::new();
    for (block, some) in examinations.chunks(COLUMNS).enumerate() {
        out.push_str(&" ".repeat(GUTTER));
        for index in 0..some.len() {
            let _ = write!(out, "{:<COLUMN$}", block * COLUMNS + index + 1);
        }
        end_line(&mut out);
        for id in &ids {
            let _ = write!(out, "{id:GUTTER$}");
            some.iter().for_each(|examination| cell(&mut out, examination, id, paint));
            end_line(&mut out);
        }
        out.push('\n');
    }
    for (index, examination) in examinations.iter().enumerate() {
        let _ = writeln!(out, "{}  {}", index + 1, identity(examination));
    }
    out
}

fn cell(out: &mut String, examination: &Examination, id: &str, paint: Colors) {
    let verdict = examination.results.iter().find(|result| result.id == id).map(ProbeResult::verdict);
    let name = verdict.map_or("-", Verdict::name);
    let shown = verdict.map_or_else(|| name.to_owned(), |verdict| paint.verdict(verdict, name));
    let _ = write!(out, "{shown}{}", " ".repeat(COLUMN.saturating_sub(name.len())));
}

/// The probes that ran anywhere, in the order of reports.
fn ids(examinations: &[Examination]) -> Vec<&'static str> {
    let mut ids: Vec<&'static str> = Vec::new();
    // A probe that not all of them have (`reach`) comes first in those that have it.
    let mut sorted: Vec<&Examination> = examinations.iter().collect();
    sorted.sort_by_key(|examination| std::cmp::Reverse(examination.results.len()));
    for id in sorted.iter().flat_map(|examination| &examination.results).map(|result| result.id) {
        if !ids.contains(&id) {
            match id {
                "reach" => ids.insert(0, id),
                _ => ids.push(id),
            }
        }
    }
    ids
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}
