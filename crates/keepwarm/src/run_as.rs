//! The user that workers run as where Keepwarm is root and no user is configured: the owner of the app's files; for files of root, `nobody`. This is done only
//! where that user can do with the files what an app does; otherwise they run as root, and a warning says why and what to do.
//!
//! An app has files that it writes to, and nothing says which: those that its variables name, and those of the usual names. Others show
//! when they are written to, as a fault of the app's in its log.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use keepwarm_config::{Account, App, AppKind, Program};

use crate::language::{StartCommand, interpreter};
use crate::users::{self, Access};

/// Replaces root for files of root.
const NOBODY: &str = "nobody";
/// Directories that an app writes to, by the habits of frameworks.
const WRITTEN: [&str; 14] = [
    "bootstrap/cache",
    "cache",
    "data",
    "db",
    "instance",
    "log",
    "logs",
    "media",
    "sessions",
    "storage",
    "tmp",
    "uploads",
    "var",
    "var/cache",
];
/// Endings of files that are databases.
const DATABASES: [&str; 4] = ["db", "sqlite", "sqlite2", "sqlite3"];

/// The user that an app runs as.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UserChoice {
    /// As configured, or as Keepwarm itself, which is not root.
    Given,
    /// No user is configured: this one.
    Default(Account),
    /// No user is configured, and none is suitable: as root, for this reason.
    Root(String),
}

/// The user for the workers of an app that is started so.
pub(crate) fn choose(app: &App, start: &StartCommand) -> UserChoice {
    let process = users::credentials();
    if app.run_as.is_some() || process.uid != 0 {
        return UserChoice::Given;
    }
    if !process.may_change {
        return UserChoice::Root(
            "Keepwarm cannot change to another user (it lacks CAP_SETUID or CAP_SETGID, or its user namespace withholds them)"
                .to_owned(),
        );
    }
    if !process.may_signal {
        return UserChoice::Root(
            "Keepwarm could not stop the processes of another user (it lacks CAP_KILL)".to_owned(),
        );
    }
    let Some(account) = owner(app).or_else(|| users::user(NOBODY)) else {
        return UserChoice::Root(format!("there is no user `{NOBODY}`"));
    };
    if !users::is_mapped(&account) {
        return UserChoice::Root(format!(
            "`{}` has no number in the user namespace of Keepwarm (/proc/self/uid_map)",
            account.name
        ));
    }
    match obstacle(app, start, &account) {
        None => UserChoice::Default(account),
        Some(obstacle) => UserChoice::Root(format!("`{}` {obstacle}", account.name)),
    }
}

/// What a decision is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Section<'a> {
    App(&'a str),
    Process(&'a str),
}

/// Logs the decision where no user was configured; not again as long as it stays the same.
pub(crate) fn announce(section: Section<'_>, choice: &UserChoice) {
    static SAID: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let words = format!("{choice:?}");
    if said.insert(format!("{section:?}"), words.clone()) == Some(words) {
        return;
    }
    let app = match section {
        Section::App(app) => app,
        Section::Process(process) => return announce_process(process, choice),
    };
    match choice {
        UserChoice::Given => {}
        UserChoice::Default(account) => tracing::info!(
            name: "user_chosen",
            app, user = %account.name,
            "workers run as this user: no user is configured, and Keepwarm is root"
        ),
        UserChoice::Root(why) => tracing::warn!(
            name: "workers_run_as_root",
            app, why,
            "workers run as root: no user is configured; set app.{app}.user to a user who can read the app and write its data, or to \"root\" to keep it"
        ),
    }
}

fn announce_process(process: &str, choice: &UserChoice) {
    match choice {
        UserChoice::Given => {}
        UserChoice::Default(account) => tracing::info!(
            name: "process_user_chosen",
            process, user = %account.name,
            "processes run as this user: no user is configured, and Keepwarm is root"
        ),
        UserChoice::Root(why) => tracing::warn!(
            name: "processes_run_as_root",
            process, why,
            "processes run as root: no user is configured; set process.{process}.user to a user who can read the program and write its data, or to \"root\" to keep it"
        ),
    }
}

/// The owner of the app's entry, or else of its directory; `None`: root.
fn owner(app: &App) -> Option<Account> {
    let about = entry(app).and_then(|entry| std::fs::metadata(entry).ok());
    let about = about.or_else(|| std::fs::metadata(&app.directory).ok())?;
    (about.uid() != 0).then(|| users::user(&about.uid().to_string())).flatten()
}

/// The file that the app begins with, if it is known.
fn entry(app: &App) -> Option<PathBuf> {
    let Program::Entry(entry) = &app.program else { return None };
    if app.kind == Some(AppKind::FastCgi) {
        return Some(app.directory.join(entry));
    }
    let module = entry.split(':').next().unwrap_or(entry).replace('.', "/");
    let files = [entry.clone(), format!("{module}.py"), format!("{module}/__init__.py")];
    files.iter().map(|file| app.directory.join(file)).find(|file| file.is_file())
}

/// The reason why this user cannot run the app, if any.
fn obstacle(app: &App, start: &StartCommand, account: &Account) -> Option<String> {
    let may = |path: &Path, access: Access| users::may(path, account, access);
    let shown = |path: &Path, what: &str| Some(format!("cannot {what} {}", path.display()));
    for path in needed(app, start).iter().filter(|path| path.exists()) {
        // It may be a link that leads somewhere else.
        let around = path.parent().filter(|around| !may(around, Access::Enter));
        if let Some(around) = around {
            return shown(around, "enter");
        }
        match path.is_dir() {
            true if !may(path, Access::Enter) => return shown(path, "enter"),
            false if !may(path, Access::Read) => return shown(path, "read"),
            _ => {}
        }
    }
    let written = written(app).into_iter().find(|path| !may(path, Access::Write));
    written.and_then(|path| shown(&path, "write to"))
}

/// The files that a worker is started from.
fn needed(app: &App, start: &StartCommand) -> Vec<PathBuf> {
    let mut needed = vec![app.directory.clone()];
    needed.extend(entry(app));
    let lists = start.env.iter().map(|(_, value)| value);
    needed.extend(lists.flat_map(|value| std::env::split_paths(value).collect::<Vec<_>>()));
    needed.extend(start.command.iter().map(PathBuf::from));
    needed.extend([interpreter(app)]);
    needed.retain(|path| path.is_absolute());
    let program = start.command.first().map(PathBuf::from);
    // A name is looked up where the worker will.
    if let Some(name) = program.filter(|name| name.components().count() == 1) {
        let path = app.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
        let folders = path.iter().flat_map(std::env::split_paths);
        needed.extend(folders.map(|folder| folder.join(&name)).find(|file| file.is_file()));
    }
    needed
}

/// The paths it is likely to write to.
fn written(app: &App) -> Vec<PathBuf> {
    let named = app.env.values().map(PathBuf::from).filter(|path| path.is_absolute());
    // Missing directories are created; a path like `/shop`, which belongs to a URL, has no existing ancestor but the root.
    let there = |path: PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let mut written: Vec<PathBuf> = named.filter_map(there).filter(|path| path.parent().is_some()).collect();
    written.extend(WRITTEN.iter().map(|name| app.directory.join(name)).filter(|path| path.is_dir()));
    let entries = std::fs::read_dir(&app.directory).into_iter().flatten().flatten();
    let is_database = |path: &PathBuf| {
        path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| DATABASES.contains(&ending))
    };
    written.extend(entries.map(|entry| entry.path()).filter(is_database));
    written
}
