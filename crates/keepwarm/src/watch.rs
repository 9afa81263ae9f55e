//! `watch`: source files that change reload the app (for development).

use std::path::{Path, PathBuf};
use std::time::Duration;

use keepwarm_config::Config;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// Changes that come together (an editor's, a checkout's) are one.
const SETTLE: Duration = Duration::from_millis(100);

/// Watches the files of all apps that want it. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
    changes: mpsc::UnboundedReceiver<PathBuf>,
}

/// Watches what the configuration says, if it says anything.
pub(crate) fn start(config: &Config) -> Option<Watch> {
    let patterns: Vec<(PathBuf, String)> = config
        .apps
        .iter()
        .flat_map(|app| {
            let directory = std::path::absolute(&app.directory).unwrap_or_else(|_| app.directory.clone());
            app.watch.iter().map(move |pattern| (directory.clone(), pattern.clone()))
        })
        .collect();
    if patterns.is_empty() {
        return None;
    }
    let (sender, changes) = mpsc::unbounded_channel();
    let wanted = patterns.clone();
    let report = move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        if let Some(path) = event.paths.into_iter().find(|path| is_watched(&wanted, path)) {
            let _ = sender.send(path);
        }
    };
    let started = notify::recommended_watcher(report).and_then(|mut watcher| {
        let mut directories: Vec<&PathBuf> = patterns.iter().map(|(directory, _)| directory).collect();
        directories.sort();
        directories.dedup();
        directories
            .into_iter()
            .try_for_each(|directory| watcher.watch(directory, RecursiveMode::Recursive))?;
        Ok(watcher)
    });
    match started {
        Ok(watcher) => Some(Watch { _watcher: watcher, changes }),
        Err(error) => {
            tracing::error!(%error, "files cannot be watched; changes need `keepwarm reload`");
            None
        }
    }
}

/// Waits for a change, and for the end of those that come with it.
pub(crate) async fn changed(watch: &mut Option<Watch>) {
    let Some(watch) = watch else { return std::future::pending().await };
    let Some(path) = watch.changes.recv().await else { return std::future::pending().await };
    while tokio::time::timeout(SETTLE, watch.changes.recv()).await.is_ok_and(|change| change.is_some()) {}
    tracing::info!(file = %path.display(), "changed");
}

fn is_watched(patterns: &[(PathBuf, String)], path: &Path) -> bool {
    patterns.iter().any(|(directory, pattern)| {
        let relative = path.strip_prefix(directory).ok().and_then(Path::to_str);
        relative.is_some_and(|relative| {
            let hidden = relative.split('/').any(|part| part.starts_with('.') || part == "__pycache__");
            !hidden && fits(pattern, relative)
        })
    })
}

/// `**` is any number of folders, `*` and `?` stay within one.
fn fits(pattern: &str, path: &str) -> bool {
    let (first, rest) = pattern.split_once('/').map_or((pattern, None), |(first, rest)| (first, Some(rest)));
    let (folder, below) = path.split_once('/').map_or((path, None), |(folder, below)| (folder, Some(below)));
    match (first, rest) {
        ("**", None) => true,
        ("**", Some(rest)) => fits(rest, path) || below.is_some_and(|below| fits(pattern, below)),
        (_, Some(rest)) => {
            crate::sources::wild(first.as_bytes(), folder.as_bytes())
                && below.is_some_and(|below| fits(rest, below))
        }
        (_, None) => below.is_none() && crate::sources::wild(first.as_bytes(), folder.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_watched_files() {
        for (pattern, path, expected) in [
            ("**/*.py", "a.py", true),
            ("**/*.py", "a/b/c.py", true),
            ("**/*.py", "a/b/c.pyc", false),
            ("src/**/*.php", "src/a.php", true),
            ("src/**/*.php", "lib/a.php", false),
            ("*.py", "a/b.py", false),
            ("a/?.py", "a/b.py", true),
            ("**", "a/b", true),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
        let patterns = [(PathBuf::from("/app"), "**/*.py".to_owned())];
        assert!(is_watched(&patterns, Path::new("/app/x.py")));
        assert!(!is_watched(&patterns, Path::new("/app/.venv/x.py")));
        assert!(!is_watched(&patterns, Path::new("/other/x.py")));
    }
}
