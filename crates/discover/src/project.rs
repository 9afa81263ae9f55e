//! A directory, read within bounds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::Evidence;

/// Bytes to read of a file: sources are smaller, and what is larger is generated.
const MAX_LENGTH: u64 = 1024 * 1024;
/// Bytes to read of all files together: the sources of a large project. All of it may be held at once.
const MAX_TOTAL: usize = 64 * 1024 * 1024;
/// Bytes to read of a program: its notes are on its first page or on the second.
const PROGRAM_HEAD: u64 = 8 * 1024;
/// Entries to look at in a directory; the number is arbitrary.
const MAX_ENTRIES: usize = 2_000;
/// Directories that hold other people's code, tests, or what is generated.
const PASSED_OVER: &[&str] = &[
    "node_modules",
    "vendor",
    "venv",
    "env",
    "virtualenv",
    "site-packages",
    "__pycache__",
    "target",
    "test",
    "tests",
    "testing",
    "spec",
    "docs",
    "doc",
    "examples",
    "example",
    "migrations",
    "alembic",
    "fixtures",
    "static",
    "assets",
    "templates",
    "locale",
    "log",
    "logs",
    "tmp",
    "cache",
    "coverage",
    "bower_components",
    "storage",
];

/// A directory whose files are read, each once.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    texts: Rc<RefCell<HashMap<String, Option<Rc<str>>>>>,
    /// Bytes that may still be read, by all searches of one command.
    left: Rc<Cell<usize>>,
}

impl Project {
    /// The directory at `root`.
    ///
    /// # Errors
    /// It cannot be read, or is not a directory.
    pub fn open(root: &Path) -> std::io::Result<Self> {
        std::fs::read_dir(root)?;
        Ok(Self { root: root.to_owned(), texts: Rc::default(), left: Rc::new(Cell::new(MAX_TOTAL)) })
    }

    pub(crate) fn inner(&self, directory: &str) -> Self {
        Self { root: self.root.join(directory), texts: Rc::default(), left: Rc::clone(&self.left) }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is a file.
    #[must_use]
    pub fn is_file(&self, name: &str) -> bool {
        self.root.join(name).is_file()
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self, name: &str) -> bool {
        self.root.join(name).is_dir()
    }

    /// The text of a file; `None`: there is none, or it is not text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Rc<str>> {
        if let Some(text) = self.texts.borrow().get(name) {
            return text.clone();
        }
        let text = self.read(name);
        self.texts.borrow_mut().insert(name.to_owned(), text.clone());
        text
    }

    fn read(&self, name: &str) -> Option<Rc<str>> {
        let path = self.root.join(name);
        // A pipe or a device would wait, or never end.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let most = MAX_LENGTH.min(self.left.get() as u64);
        std::fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        self.left.set(self.left.get() - bytes.len());
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        (!bytes.contains(&0)).then(|| String::from_utf8_lossy(bytes).into())
    }

    /// The first bytes of a file that may be run.
    pub(crate) fn program(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.root.join(name);
        let about = path.metadata().ok()?;
        if !about.is_file() || about.permissions().mode() & 0o111 == 0 {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(PROGRAM_HEAD).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The names in a directory that are files, in order.
    pub(crate) fn files(&self, directory: &str) -> Vec<String> {
        self.entries(directory, |path| path.is_file())
    }

    /// The names in a directory that are directories of the project itself, in order.
    pub(crate) fn directories(&self, directory: &str) -> Vec<String> {
        let mut names = self.entries(directory, Path::is_dir);
        names.retain(|name| {
            let is_environment = self.is_file(&joined(directory, &format!("{name}/pyvenv.cfg")));
            !name.starts_with('.') && !PASSED_OVER.contains(&name.as_str()) && !is_environment
        });
        names
    }

    fn entries(&self, directory: &str, wanted: impl Fn(&Path) -> bool) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let wanted = entries.take(MAX_ENTRIES).filter(|entry| wanted(&entry.path()));
        let mut names: Vec<String> =
            wanted.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The first line of a file that is `wanted`.
    pub(crate) fn line(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Option<Evidence> {
        let text = self.text(name)?;
        let (number, line) = text.lines().enumerate().find(|(_, line)| wanted(line))?;
        Some(Evidence { file: name.to_owned(), line: number + 1, text: shortened(line) })
    }

    /// The first line that contains `part`.
    pub(crate) fn line_with(&self, name: &str, part: &str) -> Option<Evidence> {
        self.line(name, |line| line.contains(part))
    }

    /// A file that is there.
    pub(crate) fn there(&self, name: &str) -> Option<Evidence> {
        self.is_file(name).then(|| Evidence::file(name))
    }
}

/// `directory/name`, or `name` where the directory is the project's own.
pub(crate) fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// At most 72 characters of a line, none of which controls a terminal.
pub(crate) fn shortened(line: &str) -> String {
    let line: String = line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(72) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
