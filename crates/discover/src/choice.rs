//! Which of the applications in a directory is meant, by rules; equals are never guessed between.
//!
//! 1. A framework that lays out its whole directory (Django, Rails, Laravel, Symfony, WordPress, …) comes before everything else there: a `package.json`
//!    beside Rails builds its assets.
//! 2. A `web:` line of a Procfile says which of several is served. Where it names one that was found, or nothing else was, it decides.
//! 3. A static site (`index.html`) is what remains where nothing else serves.
//!
//! Whatever is left then is one application, or several equal ones.

use crate::framework::Rank;
use crate::procfile::WebCommand;
use crate::{Candidate, Start};

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// Nothing that is known.
    Nothing,
    /// An application.
    One {
        /// The application.
        chosen: Box<Candidate>,
        /// Those that a rule put after it.
        others: Vec<Candidate>,
    },
    /// Several, of which none comes before the others.
    Several(Vec<Candidate>),
}

impl Discovery {
    /// Everything that was found, the chosen one first.
    #[must_use]
    pub fn all(&self) -> Vec<&Candidate> {
        match self {
            Self::Nothing => Vec::new(),
            Self::One { chosen, others } => std::iter::once(&**chosen).chain(others).collect(),
            Self::Several(found) => found.iter().collect(),
        }
    }

    /// The one that a person means by a name: that of a framework, if only one has it, or a target, or a directory.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Candidate> {
        let all = self.all();
        let by = |is: &dyn Fn(&Candidate) -> bool| {
            let mut found = all.iter().filter(|candidate| is(candidate));
            found.next().filter(|_| found.next().is_none()).map(|candidate| (*candidate).clone())
        };
        by(&|candidate| candidate.framework.slug == name.to_ascii_lowercase())
            .or_else(|| by(&|candidate| matches!(&candidate.start, Start::Entry(entry) if entry == name)))
            .or_else(|| by(&|candidate| candidate.start.shown() == name))
            .or_else(|| {
                by(&|candidate| !name.is_empty() && candidate.directory == name.trim_end_matches('/'))
            })
    }

    /// The words for [`Discovery::named`], one for each.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let all = self.all();
        let count = |slug: &str| all.iter().filter(|candidate| candidate.framework.slug == slug).count();
        let name = |candidate: &&Candidate| match (&candidate.start, candidate.directory.as_str()) {
            _ if count(candidate.framework.slug) == 1 => candidate.framework.slug.to_owned(),
            (Start::Entry(entry), "") => entry.clone(),
            (start, "") => start.shown(),
            (_, directory) => directory.to_owned(),
        };
        all.iter().map(name).collect()
    }
}

pub(crate) fn choose(mut found: Vec<Candidate>, web: Option<WebCommand>) -> Discovery {
    let mut others = Vec::new();
    let best = found.iter().map(|candidate| candidate.framework.rank).max();
    match best {
        Some(Rank::Project) => {
            others.extend(split(&mut found, |candidate| candidate.framework.rank == Rank::Project))
        }
        Some(Rank::App) => {
            others.extend(split(&mut found, |candidate| candidate.framework.rank == Rank::App))
        }
        Some(Rank::Companion) | None => {}
    }
    if let Some(web) = web {
        let is_own = |candidate: &Candidate| candidate.framework.slug == "procfile";
        if found.iter().any(|candidate| web.names(candidate)) {
            others.extend(split(&mut found, |candidate| web.names(candidate)));
        } else if best == Some(Rank::Project) {
            // The Procfile starts it by a server of its own.
        } else if found.iter().any(is_own) {
            others.extend(split(&mut found, is_own));
        }
    }
    of(found, others)
}

/// Directories are equal, whatever is in them: only a static site comes after what runs.
pub(crate) fn choose_among_directories(mut found: Vec<Candidate>) -> Discovery {
    let mut others = Vec::new();
    let runs = |candidate: &Candidate| candidate.framework.rank != Rank::Companion;
    if found.iter().any(runs) {
        others.extend(split(&mut found, runs));
    }
    of(found, others)
}

fn of(mut found: Vec<Candidate>, others: Vec<Candidate>) -> Discovery {
    match found.len() {
        0 => Discovery::Nothing,
        1 => {
            let chosen = Box::new(found.remove(0));
            Discovery::One { chosen, others }
        }
        _ => Discovery::Several(found),
    }
}

/// Keeps what is `wanted`, and returns the rest.
fn split(found: &mut Vec<Candidate>, wanted: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
    let (kept, rest) = std::mem::take(found).into_iter().partition(wanted);
    *found = kept;
    rest
}
