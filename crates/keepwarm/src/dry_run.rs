//! The checks of an app by `--dry-run` without running it: whether the files that its workers are started from exist.

mod boot;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use keepwarm_config::{App, AppKind, Config, Program};

pub(crate) use self::boot::boot;
use crate::language::interpreter;

/// The faults of a configuration's apps, as text; empty where everything that can be checked is there.
pub(crate) fn faults(config: &Config) -> Vec<String> {
    config
        .apps
        .iter()
        .filter_map(|app| Some(format!("app {:?} cannot be started: {}", app.name, fault(app)?)))
        .collect()
}

/// The checks that were skipped, as text: only the app itself can say whether it loads.
pub(crate) fn unchecked(config: &Config) -> String {
    let started: Vec<_> =
        config.apps.iter().filter(|app| app.address.is_none()).map(crate::assemble::title).collect();
    match started.is_empty() {
        true => String::new(),
        false => format!("; not checked: whether the apps load ({}); --boot checks that", started.join(", ")),
    }
}

fn fault(app: &App) -> Option<String> {
    if app.address.is_some() {
        return None;
    }
    match &app.program {
        Program::Command(command) => {
            let program = Path::new(command.first()?);
            (!is_program(app, program)).then(|| format!("there is no program {}", program.display()))
        }
        Program::Entry(entry) => {
            let program = interpreter(app);
            if !is_program(app, &program) {
                return Some(format!("there is no interpreter {}", program.display()));
            }
            let file = app.directory.join(entry_file(app, entry)?);
            let file = std::path::absolute(&file).unwrap_or(file);
            // A site of scripts may have no front controller.
            let is_there = !is_missing(&file) || (app.kind == Some(AppKind::FastCgi) && file.is_dir());
            (!is_there).then(|| match crate::version::nearest_entry(app) {
                Some(near) => format!("there is no file {}; did you mean `{near}`?", file.display()),
                None => format!("there is no file {}", file.display()),
            })
        }
    }
}

/// The file that an entry names. `None`: a module of Python, which may be anywhere on its path.
fn entry_file<'a>(app: &App, entry: &'a str) -> Option<&'a str> {
    match app.kind {
        Some(AppKind::Rack | AppKind::Php | AppKind::FastCgi) => Some(entry),
        None | Some(AppKind::Wsgi | AppKind::Asgi | AppKind::Http) => {
            let file = entry.split(':').next()?;
            Path::new(file).extension().is_some_and(|ending| ending == "py").then_some(file)
        }
    }
}

/// Whether a worker finds it: a name in its `PATH`, a path from the app's directory.
fn is_program(app: &App, program: &Path) -> bool {
    if program.components().nth(1).is_some() || program.has_root() {
        return !is_missing(&app.directory.join(program));
    }
    let path = app.env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
    let mut folders = path.iter().flat_map(std::env::split_paths).collect::<Vec<PathBuf>>().into_iter();
    // The start of a worker passes over a directory that cannot be searched, as execvp(3) does.
    folders.any(|folder| app.directory.join(folder).join(program).is_file())
}

/// A file that only the workers' user may see counts as present.
fn is_missing(file: &Path) -> bool {
    match file.metadata() {
        Ok(about) => !about.is_file(),
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}
