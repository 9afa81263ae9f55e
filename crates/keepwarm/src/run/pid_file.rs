//! The file that names the process (`server.pid_file`).
//!
//! It is written beside its place and moved there: nobody reads half a number, and a symbolic link that somebody has put there is replaced, not followed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that holds this process's id.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

/// One that can be put in its place, and is not there yet. Dropped so, it leaves nothing.
#[derive(Debug)]
pub(super) struct Draft {
    place: PathBuf,
    how: How,
}

#[derive(Debug)]
enum How {
    /// This file is moved there.
    Move(PathBuf),
    /// Its folder takes no new file: this one is overwritten.
    Overwrite(File),
}

impl PidFile {
    /// Does what can fail.
    ///
    /// # Errors
    /// A sentence that says why it cannot be written.
    pub(super) fn draft(place: &Path) -> Result<Draft, String> {
        let failed = |error: io::Error| format!("cannot write the pid file {}: {error}", place.display());
        if place.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let how = match write_beside(place) {
            Ok(beside) => How::Move(beside),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let mut options = OpenOptions::new();
                let file = options.write(true).custom_flags(NO_FOLLOW).open(place);
                How::Overwrite(file.map_err(|_| failed(error))?)
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(Draft { place: place.to_path_buf(), how })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes it once more: a process that was to take over may have left its own id.
    pub(super) fn restore(&self) {
        if !self.is_ours()
            && let Err(message) = Self::draft(&self.0).and_then(Draft::put)
        {
            tracing::warn!("{message}");
        }
    }

    /// Removes it, unless another process has taken over.
    pub(super) fn remove(&self) {
        if self.is_ours() {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn is_ours(&self) -> bool {
        let mut text = String::new();
        let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(&self.0);
        file.and_then(|mut file| file.read_to_string(&mut text)).is_ok()
            && text.trim() == std::process::id().to_string()
    }
}

impl Draft {
    /// Puts it in its place.
    ///
    /// # Errors
    /// A sentence that says why that cannot be done.
    pub(super) fn put(mut self) -> Result<PidFile, String> {
        let done = match &mut self.how {
            How::Move(beside) => std::fs::rename(beside, &self.place),
            How::Overwrite(file) => file.set_len(0).and_then(|()| file.write_all(text().as_bytes())),
        };
        match done {
            Ok(()) => Ok(PidFile(self.place.clone())),
            Err(error) => Err(format!("cannot write the pid file {}: {error}", self.place.display())),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let How::Move(beside) = &self.how {
            // An error: it has been moved.
            let _ = std::fs::remove_file(beside);
        }
    }
}

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

fn text() -> String {
    format!("{}\n", std::process::id())
}

fn write_beside(place: &Path) -> io::Result<PathBuf> {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = place.with_file_name(name);
    // What a process with the same id has left.
    let _ = std::fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    file.write_all(text().as_bytes()).map(|()| beside)
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
        let (place, victim) = (folder.join("pid"), folder.join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &place).unwrap();
        let file = PidFile::draft(&place).unwrap().put().unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert!(std::fs::symlink_metadata(&place).unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&place).unwrap(), text());
        file.remove();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the victim alone");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn before_it_is_put_there_the_one_of_another_process_stays() {
        let folder = folder("draft");
        let place = folder.join("pid");
        std::fs::write(&place, "1\n").unwrap();
        drop(PidFile::draft(&place).unwrap());
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "1\n");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        PidFile(place.clone()).remove();
        assert!(place.exists(), "it is another's");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
