//! `watch`: source files that change recycle their app (for development).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keepwarm_config::Config;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Changes that come together (an editor's, a checkout's) are one.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest that changes which do not end are waited for.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// Watches the files of all apps that want it. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
    changes: mpsc::UnboundedReceiver<FileChange>,
    /// Changes that wait for the end of those that come with them.
    pending: Vec<(Instant, FileChange)>,
    watched: WatchList,
}

/// A change of a watched file.
#[derive(Debug)]
enum FileChange {
    /// Something happened to this path.
    Path(PathBuf),
    /// This directory is new here: its content may have come before the kernel was told to watch it, too.
    Folder(PathBuf),
    /// The kernel has lost events.
    Unknown,
}

/// What the names of processes begin with, which no name of an app does.
pub(crate) const PROCESS: &str = "process.";

/// The watched apps and processes, with their directories and patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WatchList(Vec<(String, PathBuf, Vec<String>)>);

/// Watches what the configuration says, if it says anything.
pub(crate) fn start(config: &Config) -> Option<Watch> {
    let watched = WatchList::of(config);
    if watched.0.is_empty() {
        return None;
    }
    let (sender, changes) = mpsc::unbounded_channel();
    let wanted = watched.clone();
    let report = move |event: notify::Result<notify::Event>| {
        // An error: the kernel could not report what has happened.
        let Ok(event) = event else { return drop(sender.send(FileChange::Unknown)) };
        if event.need_rescan() {
            let _ = sender.send(FileChange::Unknown);
        }
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        for path in event.paths {
            let is_folder = std::fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir());
            let is_new = matches!(
                event.kind,
                EventKind::Create(_) | EventKind::Modify(notify::event::ModifyKind::Name(_))
            );
            let change = match (is_folder, is_new) {
                (true, true) => FileChange::Folder(path),
                (false, _) if wanted.concerns(&path) => FileChange::Path(path),
                _ => continue,
            };
            let _ = sender.send(change);
        }
    };
    let started = notify::recommended_watcher(report).and_then(|mut watcher| {
        let directories: BTreeSet<&PathBuf> = watched.0.iter().map(|(_, directory, _)| directory).collect();
        directories
            .into_iter()
            .try_for_each(|directory| watcher.watch(directory, RecursiveMode::Recursive))?;
        Ok(watcher)
    });
    match started {
        Ok(watcher) => Some(Watch { _watcher: watcher, changes, pending: Vec::new(), watched }),
        Err(error) => {
            tracing::error!(
                name: "watch_failed",
                %error, "cannot watch files; run `keepwarm reload` after a change"
            );
            None
        }
    }
}

/// Whether this watches what the configuration says.
pub(crate) fn is_same(watch: Option<&Watch>, config: &Config) -> bool {
    let watched = WatchList::of(config);
    watch.map_or(watched.0.is_empty(), |watch| watch.watched == watched)
}

/// Waits for a change, and for the end of those that come with it; returns the apps whose files they are.
///
/// May be dropped at any time: observed changes are kept.
pub(crate) async fn changed(watch: &mut Option<Watch>) -> Vec<String> {
    let Some(watch) = watch else { return std::future::pending().await };
    loop {
        let change = match watch.pending.first() {
            None => watch.changes.recv().await,
            Some((first, _)) => {
                let limit = (Instant::now() + SETTLE).min(*first + SETTLE_LIMIT);
                match tokio::time::timeout_at(limit, watch.changes.recv()).await {
                    Ok(change) => change,
                    Err(_elapsed) => {
                        let apps = watch.apps();
                        if apps.is_empty() {
                            continue;
                        }
                        return apps;
                    }
                }
            }
        };
        match change {
            Some(change) => watch.pending.push((Instant::now(), change)),
            None => std::future::pending().await,
        }
    }
}

impl Watch {
    /// The apps whose files have changed, by the observed changes.
    fn apps(&mut self) -> Vec<String> {
        let mut apps = BTreeSet::new();
        for (_, change) in self.pending.drain(..) {
            for (app, path) in self.watched.apps_of(&change) {
                if apps.insert(app.to_owned()) {
                    match path {
                        Some(file) => tracing::info!(
                            name: "file_changed",
                            app, file = %file.display(), "file changed"
                        ),
                        None => tracing::info!(
                            name: "file_changed",
                            app, "files changed; the kernel does not report which"
                        ),
                    }
                }
            }
        }
        apps.into_iter().collect()
    }
}

impl WatchList {
    fn of(config: &Config) -> Self {
        let apps = config.apps.iter().map(|app| (app.name.clone(), &app.directory, &app.watch));
        let of_process = |one: &keepwarm_config::Process| format!("{PROCESS}{}", one.name);
        let processes = config.processes.iter().map(|one| (of_process(one), &one.directory, &one.watch));
        let watched = apps.chain(processes).filter(|(_, _, watch)| !watch.is_empty());
        Self(
            watched
                .map(|(name, directory, watch)| {
                    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
                    (name, directory, watch.clone())
                })
                .collect(),
        )
    }

    /// The apps that a change concerns, each with a path that shows it.
    fn apps_of(&self, change: &FileChange) -> Vec<(&str, Option<PathBuf>)> {
        let mut apps = Vec::new();
        for (app, directory, patterns) in &self.0 {
            let found = match change {
                FileChange::Unknown => Some(None),
                FileChange::Path(path) => is_watched(directory, patterns, path).then(|| Some(path.clone())),
                FileChange::Folder(path) => find_watched(directory, patterns, path, FOLDERS).map(Some),
            };
            if let Some(path) = found {
                apps.push((app.as_str(), path));
            }
        }
        apps
    }

    fn concerns(&self, path: &Path) -> bool {
        self.0.iter().any(|(_, directory, patterns)| is_watched(directory, patterns, path))
    }
}

/// How deep a new directory is searched.
const FOLDERS: usize = 32;

/// A watched file in a directory or below.
fn find_watched(directory: &Path, patterns: &[String], folder: &Path, depth: usize) -> Option<PathBuf> {
    if depth == 0 || is_hidden(folder.strip_prefix(directory).ok()?.to_str()?) {
        return None;
    }
    // An error: it has gone again.
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        // Links to directories are not followed, nor does the kernel's watch.
        let found = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => find_watched(directory, patterns, &path, depth - 1),
            false => is_watched(directory, patterns, &path).then_some(path),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn is_watched(directory: &Path, patterns: &[String], path: &Path) -> bool {
    let relative = path.strip_prefix(directory).ok().and_then(Path::to_str);
    relative.is_some_and(|relative| {
        !is_hidden(relative) && patterns.iter().any(|pattern| fits(pattern, relative))
    })
}

fn is_hidden(relative: &str) -> bool {
    relative.split('/').any(|part| part.starts_with('.') || part == "__pycache__" || part == "node_modules")
}

/// `**` is any number of directories, `*` and `?` stay within one.
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
        let patterns = ["**/*.py".to_owned()];
        let watched = |path: &str| is_watched(Path::new("/app"), &patterns, Path::new(path));
        assert!(watched("/app/x.py"));
        assert!(!watched("/app/.venv/x.py"));
        assert!(!watched("/other/x.py"));
    }

    #[test]
    fn a_change_concerns_the_apps_whose_file_it_is() {
        let app = |name: &str, directory: &str| {
            (name.to_owned(), PathBuf::from(directory), vec!["**/*.py".to_owned()])
        };
        let watched = WatchList(vec![app("a", "/a"), app("b", "/b"), app("in-a", "/a/in")]);
        let names = |change| watched.apps_of(&change).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(FileChange::Path("/a/x.py".into())), ["a"]);
        assert_eq!(names(FileChange::Path("/a/in/x.py".into())), ["a", "in-a"]);
        assert!(names(FileChange::Path("/a/x.txt".into())).is_empty());
        assert_eq!(names(FileChange::Unknown), ["a", "b", "in-a"]);
    }

    #[test]
    fn a_new_folder_is_looked_through() {
        let root = std::env::temp_dir().join(format!("keepwarm-watch-{}", std::process::id()));
        let deep = root.join("new/deep");
        std::fs::create_dir_all(&deep).unwrap();
        let patterns = ["**/*.py".to_owned()];
        assert_eq!(find_watched(&root, &patterns, &root.join("new"), FOLDERS), None);
        std::fs::write(deep.join("x.py"), "").unwrap();
        assert_eq!(find_watched(&root, &patterns, &root.join("new"), FOLDERS), Some(deep.join("x.py")));
        std::fs::remove_dir_all(root).unwrap();
    }
}
