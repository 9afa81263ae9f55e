//! The file that names the process (`server.pid_file`).
//!
//! It is written under another name and then moved: no reader sees half a number, and a symbolic link at its path is replaced, not followed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that holds this process's id.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

/// A pid file that is ready to be put in its place. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(super) struct PreparedPidFile {
    path: PathBuf,
    method: WriteMethod,
}

/// How the pid file is written.
#[derive(Debug)]
enum WriteMethod {
    /// This file is moved there.
    Move(PathBuf),
    /// Its directory takes no new file: this one is overwritten.
    Overwrite(File),
}

impl PidFile {
    /// The files that come and go while it is written: its own, and the one that is moved there.
    pub(super) fn files(path: &Path) -> [PathBuf; 2] {
        [path.to_path_buf(), beside(path)]
    }

    /// Does what can fail.
    ///
    /// # Errors
    /// A sentence that says why it cannot be written.
    pub(super) fn prepare(path: &Path) -> Result<PreparedPidFile, String> {
        let failed = |error: io::Error| format!("cannot write the pid file {}: {error}", path.display());
        if path.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let method = match write_beside(path) {
            Ok(beside) => WriteMethod::Move(beside),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let mut options = OpenOptions::new();
                let file = options.write(true).custom_flags(NO_FOLLOW).open(path);
                WriteMethod::Overwrite(file.map_err(|_| failed(error))?)
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(PreparedPidFile { path: path.to_path_buf(), method })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes it, unless another process has taken over.
    pub(super) fn remove(&self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Whether no other process has taken over.
    pub(super) fn is_ours(&self) -> bool {
        let mut text = String::new();
        let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(&self.0);
        file.and_then(|mut file| file.read_to_string(&mut text)).is_ok()
            && text.trim() == std::process::id().to_string()
    }
}

impl PreparedPidFile {
    /// Its path, once it is put there.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// A sentence that says why that cannot be done.
    pub(super) fn put(mut self) -> Result<PidFile, String> {
        let done = match &mut self.method {
            WriteMethod::Move(beside) => std::fs::rename(beside, &self.path),
            WriteMethod::Overwrite(file) => file.set_len(0).and_then(|()| file.write_all(text().as_bytes())),
        };
        match done {
            Ok(()) => Ok(PidFile(self.path.clone())),
            Err(error) => Err(format!("cannot write the pid file {}: {error}", self.path.display())),
        }
    }
}

impl Drop for PreparedPidFile {
    fn drop(&mut self) {
        if let WriteMethod::Move(beside) = &self.method {
            // An error: it has been moved.
            let _ = std::fs::remove_file(beside);
        }
    }
}

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

fn text() -> String {
    format!("{}\n", std::process::id())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

fn write_beside(path: &Path) -> io::Result<PathBuf> {
    let beside = beside(path);
    // A file left by a process with the same id.
    let _ = std::fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    match file.write_all(text().as_bytes()) {
        Ok(()) => Ok(beside),
        Err(error) => {
            // The disk is full.
            let _ = std::fs::remove_file(&beside);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("keepwarm-pid-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let folder = folder("link");
        let (path, victim) = (folder.join("pid"), folder.join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let file = PidFile::prepare(&path).unwrap().put().unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text());
        file.remove();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the victim alone");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn before_it_is_put_there_the_one_of_another_process_stays() {
        let folder = folder("draft");
        let path = folder.join("pid");
        std::fs::write(&path, "1\n").unwrap();
        drop(PidFile::prepare(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        PidFile(path.clone()).remove();
        assert!(path.exists(), "it is another's");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
