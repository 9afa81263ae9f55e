//! The report: what was carried, what differs, what was dropped.

use std::fmt::Write as _;

use crate::ledger::{Entry, Outcome};

/// What became of the directives of the input.
#[derive(Debug)]
pub struct Report {
    entries: Vec<Entry>,
}

impl Report {
    pub(crate) fn new(entries: Vec<Entry>) -> Report {
        Report { entries }
    }

    /// Every directive, in the order in which it was read.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether something was dropped that is, or may be, an access rule, a limit, a rewrite or a certificate.
    pub fn is_grave(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.outcome(), Outcome::Dropped { grave: true, .. }))
    }

    /// The report as text. With `verbose`, every directive is listed.
    pub fn text(&self, verbose: bool) -> String {
        let mut out = String::new();
        let outcomes: Vec<(&Entry, Outcome)> =
            self.entries.iter().map(|entry| (entry, entry.outcome())).collect();
        let is = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(move |(_, outcome)| wanted(outcome));
        let lost = is(|outcome| matches!(outcome, Outcome::Dropped { grave: true, .. }));
        list(&mut out, "dropped, and may be an access rule, a limit, a rewrite or a certificate", lost);
        list(&mut out, "dropped", is(|outcome| matches!(outcome, Outcome::Dropped { grave: false, .. })));
        list(&mut out, "differs", is(|outcome| matches!(outcome, Outcome::Differs(_))));
        if verbose {
            list(&mut out, "carried", is(|outcome| *outcome == Outcome::Carried));
            list(&mut out, "without effect here", is(|outcome| matches!(outcome, Outcome::Ignored(_))));
        }
        let count = |wanted: fn(&Outcome) -> bool| is(wanted).count();
        let _ = writeln!(
            out,
            "{} carried, {} differ, {} dropped, {} without effect here",
            count(|outcome| *outcome == Outcome::Carried),
            count(|outcome| matches!(outcome, Outcome::Differs(_))),
            count(|outcome| matches!(outcome, Outcome::Dropped { .. })),
            count(|outcome| matches!(outcome, Outcome::Ignored(_))),
        );
        out
    }
}

fn list<'a>(out: &mut String, title: &str, entries: impl Iterator<Item = &'a (&'a Entry, Outcome)>) {
    let mut entries = entries.peekable();
    if entries.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "{title}:");
    for (entry, outcome) in entries {
        let _ = write!(out, "  {}:{}: {}", entry.file, entry.line, entry.text);
        let _ = match outcome {
            Outcome::Carried => writeln!(out),
            Outcome::Ignored(why) if why.is_empty() => writeln!(out),
            Outcome::Ignored(text) | Outcome::Differs(text) => writeln!(out, "\n    {text}"),
            Outcome::Dropped { why, todo, .. } if todo.is_empty() => writeln!(out, "\n    {why}"),
            Outcome::Dropped { why, todo, .. } => writeln!(out, "\n    {why}; {todo}"),
        };
    }
    out.push('\n');
}
