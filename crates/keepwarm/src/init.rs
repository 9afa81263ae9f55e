//! `keepwarm init`: finds what is in a directory, says so, and writes the files that serve it.

mod compose;
mod configuration;
mod container;
mod report;
mod unit;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use keepwarm_discover::{Candidate, Discovery, Process, Project, discover, processes};

pub(crate) use self::report::what_is_here;
use self::write::NewFile;
use crate::{cli, complain, exit};

/// Finds, reports and writes. Nothing that exists is replaced, and on an error nothing is left.
pub(crate) fn init(options: &cli::Init) -> ExitCode {
    let root = options.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    match run(options, &root) {
        Ok(text) => crate::print(&text),
        Err(message) => {
            complain(&message);
            ExitCode::from(exit::FAILED)
        }
    }
}

fn run(options: &cli::Init, root: &Path) -> Result<String, String> {
    let project = Project::open(root)
        .map_err(|error| format!("cannot read the directory {}: {error}", root.display()))?;
    let found = discover(&project);
    let (chosen, others) = choose(options, &project, found)?;
    let plan = Plan {
        root: &absolute(root),
        app: app_name(root),
        chosen: &chosen,
        processes: processes(&project, &chosen),
    };
    let files = plan.files(options);
    write::all(root, &files)?;
    Ok(report::written(root, &plan, &others, &files))
}

fn choose(
    options: &cli::Init,
    project: &Project,
    found: Discovery,
) -> Result<(Candidate, Vec<Candidate>), String> {
    if let Some(name) = &options.app {
        let chosen = found.named(name).ok_or_else(|| report::unknown_name(name, &found))?;
        let others = found.all().into_iter().filter(|one| **one != chosen).cloned().collect();
        return Ok((chosen, others));
    }
    match found {
        Discovery::Nothing => Err(report::nothing(project)),
        Discovery::Several(_) => Err(report::several(&found)),
        Discovery::One { chosen, others } => Ok((*chosen, others)),
    }
}

/// What is written, and about what.
struct Plan<'a> {
    /// The directory, absolute.
    root: &'a Path,
    /// The NAME of `[app.NAME]`.
    app: String,
    chosen: &'a Candidate,
    /// The lines of its Procfile that serve no requests.
    processes: Vec<Process>,
}

impl Plan<'_> {
    fn files(&self, options: &cli::Init) -> Vec<NewFile> {
        let mut files = vec![NewFile::new("keepwarm.toml", configuration::text(self))];
        if let Some((name, text)) = &self.chosen.own_file {
            files.push(NewFile::new(&self.path(name), text.clone()));
        }
        if options.systemd {
            files.push(NewFile::new(&format!("{}.service", self.app), unit::text(self)));
        }
        let has_container =
            ["Containerfile", "Dockerfile"].into_iter().find(|name| self.root.join(name).exists());
        // A compose file needs one: that of the directory, or a new one.
        if options.container || (options.compose && has_container.is_none()) {
            files.push(NewFile::new("Containerfile", container::text(self)));
            if !self.root.join(".dockerignore").exists() {
                files.push(NewFile::new(".dockerignore", container::ignored(self)));
            }
        }
        if options.compose {
            let containerfile = has_container.filter(|_| !options.container).unwrap_or("Containerfile");
            files.push(NewFile::new("compose.yaml", compose::text(self, containerfile)));
        }
        files
    }

    /// A path in the application's directory, as seen from the one that is searched.
    fn path(&self, name: &str) -> String {
        match (self.chosen.directory.as_str(), name) {
            ("", name) => name.to_owned(),
            (directory, ".") => directory.to_owned(),
            (directory, name) => format!("{directory}/{name}"),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.root.join(self.path(name)).exists()
    }
}

/// The directory's name, as the NAME of a section.
fn app_name(root: &Path) -> String {
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let name = root.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let mut kept = String::new();
    for c in name.chars().take(64) {
        let c = if c.is_ascii_alphanumeric() { c } else { '-' };
        if c != '-' || !(kept.is_empty() || kept.ends_with('-')) {
            kept.push(c);
        }
    }
    match kept.trim_end_matches('-') {
        "" => "app".to_owned(),
        kept => kept.to_owned(),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// A TOML basic string.
fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    // `${` begins a variable.
    out.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{app_name, toml_string};

    #[test]
    fn texts_are_toml_and_never_variables() {
        for (text, expected) in [
            ("a b", "\"a b\""),
            ("say \"x\" \\", "\"say \\\"x\\\" \\\\\""),
            ("exec ./serve -p $PORT ${X}", "\"exec ./serve -p $PORT $${X}\""),
            ("\u{1}\n", "\"\\u0001\\u000a\""),
        ] {
            assert_eq!(toml_string(text), expected);
        }
    }

    #[test]
    fn apps_are_named_after_their_directory() {
        for (directory, expected) in [
            ("/srv/shop", "shop"),
            ("/srv/My Shop_2", "my-shop-2"),
            ("/srv/__x__", "x"),
            ("/srv/é", "app"),
            ("/", "app"),
        ] {
            assert_eq!(app_name(Path::new(directory)), expected);
        }
    }
}
