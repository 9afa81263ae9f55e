//! Finds the application in a directory: its framework, how to start it, and the files and lines that say so.
//!
//! Only files are read, within bounds ([`Project`]); nothing of the application runs. What takes precedence over what is in [`mod@choice`], and in
//! `docs/guide/init.md`.

pub mod choice;
mod deno;
mod framework;
mod go;
mod nearest;
mod node;
mod php;
mod procfile;
mod project;
mod python;
mod ruby;
mod rust;
mod site;
#[cfg(test)]
mod tests;

pub use choice::Discovery;
pub use framework::{Framework, Language, Rank};
pub use nearest::nearest_target;
pub use procfile::{Process, processes};
pub use project::Project;

/// A line that shows something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Relative to the directory that was searched.
    pub file: String,
    /// From 1; 0: the file itself.
    pub line: usize,
    /// The line, shortened.
    pub text: String,
}

impl Evidence {
    /// A file that is there.
    pub(crate) fn file(file: &str) -> Self {
        Self { file: file.to_owned(), line: 0, text: String::new() }
    }
}

/// How an application is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A target: `shop.wsgi:application`, `config.ru`, `public/index.php`.
    Entry(String),
    /// A program that listens on the port in `PORT`.
    Command {
        /// Its words.
        words: Vec<String>,
        /// What makes the program, if it has to be made first.
        build: Option<String>,
    },
    /// A directory of files.
    Files(String),
}

impl Start {
    /// As a person types it after `keepwarm run`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Entry(entry) => quoted(entry),
            Self::Command { words, .. } => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                format!("-- {}", words.join(" "))
            }
            Self::Files(directory) => format!("the files in {directory}"),
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// An application that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What it is written with.
    pub framework: &'static Framework,
    /// The directory it is in, relative to the one that was searched; empty: that one itself.
    pub directory: String,
    /// How it is started, from that directory.
    pub start: Start,
    /// How that is known.
    pub evidence: Vec<Evidence>,
    /// Directories of files that a route can serve without the application: the path, the directory.
    pub assets: Vec<(String, String)>,
    /// A directory whose files come before the application's own responses.
    pub try_files: Option<String>,
    /// Variables that it should have.
    pub env: Vec<(String, String)>,
    /// A file that must be written for it: its name and text.
    pub own_file: Option<(String, String)>,
    /// What a person should know.
    pub advice: Vec<String>,
}

impl Candidate {
    pub(crate) fn new(framework: &'static Framework, start: Start, evidence: Vec<Evidence>) -> Self {
        Self {
            framework,
            directory: String::new(),
            start,
            evidence,
            assets: Vec::new(),
            try_files: None,
            env: Vec::new(),
            own_file: None,
            advice: Vec::new(),
        }
    }

    /// The target as a path, with its directory, for people: `app.py`, `backend/manage.py`.
    #[must_use]
    pub fn first_file(&self) -> &str {
        self.evidence.first().map_or("", |evidence| evidence.file.as_str())
    }
}

/// What is in a directory; one level of its subdirectories is searched when it has nothing itself.
#[must_use]
pub fn discover(project: &Project) -> Discovery {
    let here = all(project);
    if !here.is_empty() {
        return choice::choose(here, procfile::web(project));
    }
    let mut beneath = Vec::new();
    for name in project.directories("") {
        let found = match choice::choose(all(&project.inner(&name)), procfile::web(&project.inner(&name))) {
            Discovery::One { chosen, .. } => vec![*chosen],
            Discovery::Several(found) => found,
            Discovery::Nothing => Vec::new(),
        };
        beneath.extend(found.into_iter().map(|candidate| moved(candidate, &name)));
    }
    choice::choose_among_directories(beneath)
}

fn all(project: &Project) -> Vec<Candidate> {
    let finders: [fn(&Project) -> Vec<Candidate>; 9] = [
        python::find,
        ruby::find,
        php::find,
        node::find,
        deno::find,
        go::find,
        rust::find,
        procfile::find,
        site::find,
    ];
    finders.iter().flat_map(|find| find(project)).collect()
}

/// What was found in a subdirectory, as seen from above.
fn moved(mut candidate: Candidate, directory: &str) -> Candidate {
    candidate.directory = directory.to_owned();
    for evidence in &mut candidate.evidence {
        evidence.file = format!("{directory}/{}", evidence.file);
    }
    candidate
}

/// The line of a Sinatra application that has no `config.ru` yet.
#[must_use]
pub fn sinatra_without_rackup(project: &Project) -> Option<Evidence> {
    ruby::without_rackup(project)
}

/// The files that are looked for, for a directory that has none of them.
pub const LOOKED_FOR: &[(&str, &str)] = &[
    ("Python", "manage.py; an application in a .py file: Flask, FastAPI, Starlette, any WSGI or ASGI"),
    ("Ruby", "config.ru: Rails, Sinatra, any Rack"),
    ("PHP", "public/index.php, web/index.php, index.php; artisan; wp-load.php; LocalSettings.php"),
    (
        "Node",
        "package.json with Express, Next.js or another server; a main file or server.js that listens; deno.json",
    ),
    ("Go", "go.mod with a main package that serves HTTP"),
    ("Rust", "Cargo.toml with axum, actix-web, rocket or another server"),
    ("any", "Procfile with a line `web:`"),
    ("files", "index.html, also in public/, dist/, build/, out/ or _site/"),
];
