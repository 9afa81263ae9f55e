//! The right target for a wrong one.

use crate::{Project, Start, discover, python};

/// The target in a directory that a person probably meant; `None`: none is similar, or it is the same.
#[must_use]
pub fn nearest_target(project: &Project, wrong: &str) -> Option<String> {
    let found = discover(project);
    let entries = found.all().into_iter().filter(|candidate| candidate.directory.is_empty());
    let entries = entries.filter_map(|candidate| match &candidate.start {
        Start::Entry(entry) => Some(entry.clone()),
        Start::Command { .. } | Start::Files(_) => None,
    });
    let known: Vec<String> = entries.chain(python::targets(project)).collect();
    if known.iter().any(|known| known.trim_end_matches("()") == wrong.trim_end_matches("()")) {
        return None;
    }
    let score = |known: &str| {
        strsim::jaro_winkler(wrong, known).max(strsim::jaro_winkler(&module(wrong), &module(known)))
    };
    let best = known.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    // One error in three letters; or it is the only one there is.
    let errors = strsim::damerau_levenshtein(wrong, best);
    let is_similar = errors * 3 <= wrong.chars().count().max(best.chars().count()) || score(best) >= 0.8;
    (is_similar || known.iter().all(|one| one == best)).then(|| best.clone())
}

fn module(target: &str) -> String {
    target.split(':').next().unwrap_or(target).trim_end_matches(".py").replace('/', ".")
}
