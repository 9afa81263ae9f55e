//! What became of each directive of the input.
//!
//! A reader opens an entry for every directive that it sees, and settles it. A directive that is never settled
//! was not understood, and is reported as dropped: nothing is lost silently.

/// A directive of the input: the number of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin(usize);

impl Origin {
    /// That of nothing in the input.
    pub(crate) fn hidden() -> Origin {
        Origin(usize::MAX)
    }
}

/// What became of a directive. Ordered: what is settled several times keeps the gravest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It has no meaning for Keepwarm, or it is what Keepwarm does anyway.
    Ignored(String),
    /// Its meaning is in the output.
    Carried,
    /// Its meaning is in the output, but for what the text says.
    Differs(String),
    /// It is not in the output.
    Dropped {
        /// Why.
        why: String,
        /// What to do instead.
        todo: String,
        /// Whether it may have been an access rule, a limit, a rewrite or a certificate.
        grave: bool,
    },
}

/// A directive and what became of it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The directive, shortened.
    pub text: String,
    /// `None`: it is not known yet.
    outcome: Option<Outcome>,
}

impl Entry {
    /// What became of it.
    pub fn outcome(&self) -> Outcome {
        self.outcome.clone().unwrap_or_else(|| Outcome::Dropped {
            why: "`keepwarm convert` does not know it".to_owned(),
            todo: "find out what it does, and whether Keepwarm needs it".to_owned(),
            grave: true,
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

/// Longer directives are shortened in the report.
const TEXT_LIMIT: usize = 100;

impl Ledger {
    pub(crate) fn open(&mut self, file: &str, line: usize, text: &str) -> Origin {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() > TEXT_LIMIT {
            text = text.chars().take(TEXT_LIMIT - 1).chain(['…']).collect();
        }
        self.entries.push(Entry { file: file.to_owned(), line, text, outcome: None });
        Origin(self.entries.len() - 1)
    }

    /// A directive that is not reported, for it is a part of another.
    pub(crate) fn open_hidden(&mut self) -> Origin {
        Origin::hidden()
    }

    pub(crate) fn carried(&mut self, origin: Origin) {
        self.settle(origin, Outcome::Carried);
    }

    pub(crate) fn ignored(&mut self, origin: Origin, why: impl Into<String>) {
        self.settle(origin, Outcome::Ignored(why.into()));
    }

    pub(crate) fn differs(&mut self, origin: Origin, how: impl Into<String>) {
        self.settle(origin, Outcome::Differs(how.into()));
    }

    /// It is not an access rule, a limit, a rewrite or a certificate.
    pub(crate) fn dropped(&mut self, origin: Origin, why: impl Into<String>, todo: impl Into<String>) {
        self.settle(origin, Outcome::Dropped { why: why.into(), todo: todo.into(), grave: false });
    }

    /// It is, or may be, an access rule, a limit, a rewrite or a certificate.
    pub(crate) fn lost(&mut self, origin: Origin, why: impl Into<String>, todo: impl Into<String>) {
        self.settle(origin, Outcome::Dropped { why: why.into(), todo: todo.into(), grave: true });
    }

    pub(crate) fn settle(&mut self, origin: Origin, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(origin.0) else { return };
        entry.outcome = Some(match (entry.outcome.take(), outcome) {
            (None, new) => new,
            (Some(Outcome::Differs(old)), Outcome::Differs(new)) if !old.contains(&new) => {
                Outcome::Differs(format!("{old}; {new}"))
            }
            (Some(old @ Outcome::Differs(_)), Outcome::Differs(_)) => old,
            (Some(Outcome::Dropped { why, todo, grave: false }), Outcome::Dropped { grave: true, .. }) => {
                Outcome::Dropped { why, todo, grave: true }
            }
            (Some(old @ Outcome::Dropped { .. }), Outcome::Dropped { .. }) => old,
            (Some(old), new) => old.max(new),
        });
    }

    pub(crate) fn is_settled(&self, origin: Origin) -> bool {
        self.entries.get(origin.0).is_some_and(|entry| entry.outcome.is_some())
    }

    /// Opens an entry at the place of another.
    pub(crate) fn open_beside(&mut self, origin: Origin, text: &str) -> Origin {
        let place = self.entries.get(origin.0).map(|entry| (entry.file.clone(), entry.line));
        let (file, line) = place.unwrap_or_default();
        self.open(&file, line, text)
    }

    /// `site.conf:31`
    pub(crate) fn place(&self, origin: Origin) -> String {
        self.entries.get(origin.0).map(|entry| format!("{}:{}", entry.file, entry.line)).unwrap_or_default()
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }
}
