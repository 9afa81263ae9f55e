//! The `.htaccess` files of a PHP site, reported once when it is first served: a user who comes from Apache wants to know which directives take effect.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use keepwarm_serve::Rules;

/// Directories that are searched, and how deep: enough for a site, and quick. Deeper files take effect all the same (`keepwarm_serve::AccessGuard`).
const MAX_FOLDERS: usize = 2_000;
const MAX_DEPTH: usize = 4;
/// Lines that are named.
const MAX_LINES: usize = 20;

/// Sites already reported, so that a reload does not repeat it.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

pub(super) fn tell(app: &str, root: &Path) {
    if !TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(root.to_owned()) {
        return;
    }
    let found = find(root);
    let denied: Vec<String> = found
        .iter()
        .filter(|(_, rules)| rules.denies_some())
        .map(|(folder, rules)| {
            let name = folder.strip_prefix(root).unwrap_or(folder).display();
            format!("/{name}{}", if rules.denies_all() { "" } else { " (in part)" })
        })
        .collect();
    if !denied.is_empty() {
        tracing::info!(
            name: "htaccess_denials",
            app, folders = %denied.join(", "), "paths denied by .htaccess files are neither served nor run"
        );
    }
    let ignored =
        found.iter().flat_map(|(folder, rules)| rules.ignored.iter().map(move |line| (folder, line)));
    for (folder, (line, text)) in ignored.take(MAX_LINES) {
        let file = folder.join(".htaccess");
        tracing::warn!(
            name: "htaccess_line_ignored",
            app, file = %file.display(), line, directive = %text,
            "unsupported line of an .htaccess file ignored; docs/guide/classic-php.md lists what is supported"
        );
    }
}

/// The directories with an `.htaccess`, the root first, and the rules of each.
fn find(root: &Path) -> Vec<(PathBuf, Rules)> {
    let mut found = Vec::new();
    let mut looked = 0;
    let mut level = vec![root.to_owned()];
    for _ in 0..=MAX_DEPTH {
        let mut below = Vec::new();
        for folder in level {
            looked += 1;
            if looked > MAX_FOLDERS {
                return found;
            }
            if let Ok(text) = std::fs::read(folder.join(".htaccess")) {
                found.push((folder.clone(), Rules::parse(&String::from_utf8_lossy(&text))));
            }
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            below.extend(folders.map(|entry| entry.path()));
        }
        below.sort();
        level = below;
    }
    found
}
