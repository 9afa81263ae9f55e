//! Caches the results of recent path lookups, so that a busy site's files are not looked up again for every request.
//!
//! An entry is valid for a second: a script that is new, gone or replaced by a link is noticed after that. PHP opens the script by its name
//! after our lookup, so that a lookup is always a statement about the past; the cache makes that past a second instead of a few microseconds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::script::ScriptLookup;

/// How long a look is believed.
const FRESH: Duration = Duration::from_secs(1);
/// Paths that are remembered, and the longest of them in bytes: at most a megabyte for a site, whatever its clients ask for. Both numbers are arbitrary.
const MAX_PATHS: usize = 1_024;
const MAX_LENGTH: usize = 512;

/// The paths of a site that were looked up lately. Shared by all threads.
#[derive(Debug, Default)]
pub(super) struct PathCache {
    paths: Mutex<Paths>,
}

/// What each led to, and when that was seen.
type Paths = HashMap<Box<[u8]>, (Instant, ScriptLookup)>;

impl PathCache {
    /// What the path led to when it was looked up, if that was lately.
    pub(super) fn find(&self, path: &[u8], now: Instant) -> Option<ScriptLookup> {
        let paths = self.lock();
        let (looked, resolved) = paths.get(path)?;
        is_fresh(*looked, now).then(|| resolved.clone())
    }

    /// Remembers what a path leads to.
    pub(super) fn note(&self, path: &[u8], resolved: &ScriptLookup, now: Instant) {
        if path.len() > MAX_LENGTH {
            return;
        }
        let mut paths = self.lock();
        if paths.len() >= MAX_PATHS {
            paths.retain(|_, (looked, _)| is_fresh(*looked, now));
            // More paths in a second than the cache holds: those that are requested most come back first.
            if paths.len() >= MAX_PATHS {
                paths.clear();
            }
        }
        paths.insert(path.into(), (now, resolved.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_fresh(looked: Instant, now: Instant) -> bool {
    now.saturating_duration_since(looked) < FRESH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_believed_for_a_second() {
        let (known, start) = (PathCache::default(), Instant::now());
        assert_eq!(known.find(b"/blog", start), None);
        known.note(b"/blog", &ScriptLookup::NeedsSlash, start);
        assert_eq!(known.find(b"/blog", start + FRESH / 2), Some(ScriptLookup::NeedsSlash));
        assert_eq!(known.find(b"/blog/", start), None);
        assert_eq!(known.find(b"/blog", start + FRESH), None);
    }

    #[test]
    fn no_client_makes_it_grow() {
        let (known, start) = (PathCache::default(), Instant::now());
        known.note(&[b'/'; MAX_LENGTH + 1], &ScriptLookup::NeedsSlash, start);
        assert_eq!(known.lock().len(), 0);
        for number in 0..3 * MAX_PATHS {
            known.note(format!("/{number}").as_bytes(), &ScriptLookup::NeedsSlash, start);
            assert!(known.lock().len() <= MAX_PATHS);
        }
        // What is out of date goes first.
        let later = start + FRESH;
        known.paths.lock().unwrap().clear();
        (0..MAX_PATHS).for_each(|n| known.note(format!("/{n}").as_bytes(), &ScriptLookup::NeedsSlash, start));
        known.note(b"/new", &ScriptLookup::NeedsSlash, later);
        assert_eq!(known.lock().len(), 1);
    }
}
