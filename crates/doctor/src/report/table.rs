//! Several examinations side by side.

use std::fmt::Write as _;

use crate::examine::Examination;

/// A row for each probe, a column for each URL.
#[must_use]
pub fn table(examinations: &[Examination]) -> String {
    let mut out = String::new();
    for (index, examination) in examinations.iter().enumerate() {
        let _ = writeln!(out, "{}  {}   {}", index + 1, examination.target, examination.server.name());
    }
    out
}
