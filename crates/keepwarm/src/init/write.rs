//! Writes new files, all or none.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// A file that will be made.
#[derive(Debug)]
pub(super) struct NewFile {
    /// Relative to the directory.
    pub(super) name: String,
    pub(super) text: String,
}

impl NewFile {
    pub(super) fn new(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), text }
    }
}

/// Writes these files into a directory: first under other names, then each to its place, where nothing may be.
///
/// # Errors
/// In words: a file exists already, or cannot be written. None of these files is there then.
pub(super) fn all(root: &Path, files: &[NewFile]) -> Result<(), String> {
    let present: Vec<&str> =
        files.iter().map(|file| file.name.as_str()).filter(|name| exists(&root.join(name))).collect();
    if !present.is_empty() {
        let verb = if present.len() == 1 { "exists" } else { "exist" };
        return Err(format!(
            "{} {verb} already in {}; nothing was written: move it away, or edit it (`keepwarm explain` lists the keys)",
            present.join(" and "),
            root.display()
        ));
    }
    let mut made = Made::default();
    let written = files.iter().try_for_each(|file| made.draft(root, file)).and_then(|()| made.place());
    written.map_err(|(path, error)| match error.kind() {
        ErrorKind::AlreadyExists => format!("{} exists already; nothing was written", path.display()),
        _ => format!("cannot write {}: {error}; nothing was written", path.display()),
    })?;
    made.keep();
    Ok(())
}

/// A link that leads nowhere exists too.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The files that exist so far; removed on drop, unless they are kept.
#[derive(Default)]
struct Made {
    drafts: Vec<(PathBuf, PathBuf)>,
    placed: Vec<PathBuf>,
}

type WriteError = (PathBuf, io::Error);

impl Made {
    fn draft(&mut self, root: &Path, file: &NewFile) -> Result<(), WriteError> {
        let path = root.join(&file.name);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let write = || {
            let mut opened = std::fs::OpenOptions::new().write(true).create_new(true).open(&draft)?;
            opened.write_all(file.text.as_bytes())?;
            opened.sync_all()
        };
        let written = write();
        // Also of a draft that is written in part, but not of a file that was there.
        if !matches!(&written, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            self.drafts.push((draft.clone(), path));
        }
        written.map_err(|error| (draft, error))
    }

    fn place(&mut self) -> Result<(), WriteError> {
        for (draft, path) in &self.drafts {
            rename_to_new(draft, path).map_err(|error| (path.clone(), error))?;
            self.placed.push(path.clone());
        }
        Ok(())
    }

    fn keep(mut self) {
        self.placed.clear();
        self.drafts.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.placed.iter().chain(self.drafts.iter().map(|(draft, _)| draft)) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Renames without replacing. Some file systems cannot do that in one step; a link cannot replace either.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("keepwarm-init-write-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = folder("all");
        let two = [NewFile::new("a", "1".to_owned()), NewFile::new("b", "2".to_owned())];
        all(&folder, &two).unwrap();
        assert_eq!(names(&folder), ["a", "b"]);
        std::fs::remove_file(folder.join("a")).unwrap();
        std::fs::write(folder.join("b"), "mine").unwrap();
        let message = all(&folder, &two).unwrap_err();
        assert!(message.starts_with("b exists already in "), "{message}");
        assert_eq!(names(&folder), ["b"]);
        assert_eq!(std::fs::read_to_string(folder.join("b")).unwrap(), "mine");
        // The second cannot be written: the first is not left.
        std::fs::remove_file(folder.join("b")).unwrap();
        let missing = [NewFile::new("a", "1".to_owned()), NewFile::new("none/b", "2".to_owned())];
        let message = all(&folder, &missing).unwrap_err();
        assert!(message.contains("cannot write") && message.ends_with("nothing was written"), "{message}");
        assert_eq!(names(&folder), Vec::<String>::new());
        // A link that leads nowhere is not written through.
        std::os::unix::fs::symlink(folder.join("elsewhere"), folder.join("a")).unwrap();
        all(&folder, &two).unwrap_err();
        assert_eq!(names(&folder), ["a"]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_appears_meanwhile_stays() {
        let folder = folder("race");
        let (from, to) = (folder.join("draft"), folder.join("file"));
        std::fs::write(&from, "new").unwrap();
        std::fs::write(&to, "mine").unwrap();
        assert_eq!(rename_to_new(&from, &to).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "mine");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
