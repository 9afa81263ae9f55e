//! The histories in an upgrade: the old process writes them to a sealed file in memory, whose descriptor goes to the new one. Whatever fails there is logged,
//! and the new process begins without histories: it is not worth an upgrade. Neither side does it on the control thread.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use keepwarm_policy::why::{SAVED_MAX, Why};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;

use super::Diagnosis;

/// How long an upgrade waits for the file: the new process is told that it is the service only then. Writing the longest takes less than a second.
const LIMIT: Duration = Duration::from_secs(2);
/// A file that has them is in memory, and stays as it is.
const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW);

impl Diagnosis {
    /// What the new process gets. This one has no histories from then on.
    pub(crate) async fn bequeath(&self) -> Option<OwnedFd> {
        let histories = std::mem::take(&mut *self.lock());
        let saved = tokio::task::spawn_blocking(move || in_memory(&histories.save()));
        let saved = match tokio::time::timeout(LIMIT, saved).await {
            Ok(Ok(saved)) => saved,
            Ok(Err(failed)) => Err(io::Error::other(failed)),
            Err(_elapsed) => Err(io::Error::other(format!("not written within {LIMIT:?}"))),
        };
        let log = |error: &io::Error| {
            tracing::warn!(
                name: "why_histories_not_passed",
                %error, "`keepwarm why`: histories not passed to the new process; usual times are known there after 70 s"
            );
        };
        saved.inspect_err(log).ok()
    }

    /// Continues with the histories of the old process, once they are read. What this one has observed while it booted is in them.
    pub(crate) fn inherit(&self, passed: io::Result<OwnedFd>) {
        let diagnosis = self.clone();
        // Nobody waits for it: an upgrade does not depend on it.
        drop(tokio::task::spawn_blocking(move || diagnosis.continue_with(passed)));
    }

    fn continue_with(&self, passed: io::Result<OwnedFd>) {
        match passed.and_then(|file| read(&file.into())) {
            Ok(mut histories) => {
                histories.note("keepwarm".into(), format!("upgrade, process {}", std::process::id()));
                let own = std::mem::replace(&mut *self.lock(), histories);
                drop(own);
            }
            Err(error) => tracing::warn!(
                name: "why_histories_ignored",
                %error, "`keepwarm why` starts without the histories of the old process; usual times are known after 70 s"
            ),
        }
    }
}

fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(create()?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

/// Not executable, which `vm.memfd_noexec = 2` requires; kernels before 6.3 do not know that.
fn create() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create("keepwarm-why", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create("keepwarm-why", flags),
        created => created,
    }
}

/// Of any other file than a sealed one, reading could take as long as it likes, and what was read could change.
fn read(file: &File) -> io::Result<Why> {
    if !fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS)) {
        return Err(io::Error::other("not a sealed file in memory"));
    }
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if length > SAVED_MAX {
        return Err(io::Error::other(format!("{length} bytes, more than {SAVED_MAX}")));
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Why::restore(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> OwnedFd {
        in_memory(bytes).unwrap()
    }

    #[test]
    fn histories_go_from_one_process_to_the_other() {
        let (old, new) = (Diagnosis::default(), Diagnosis::default());
        old.lock().note("shop".into(), "reload, generation 2".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        new.continue_with(Ok(runtime.block_on(old.bequeath()).unwrap()));
        let why = new.lock();
        let events: Vec<_> = why.events().map(|event| event.text.as_str()).collect();
        assert_eq!(events, ["reload, generation 2", &format!("upgrade, process {}", std::process::id())]);
    }

    #[test]
    fn without_them_a_process_keeps_its_own() {
        let new = Diagnosis::default();
        new.lock().note("shop".into(), "4 → 2 endpoints".to_owned());
        new.continue_with(Err(io::Error::other("none")));
        new.continue_with(Ok(file(b"something else")));
        assert_eq!(new.lock().events().count(), 1);
    }

    #[test]
    fn anything_else_is_refused_and_holds_nothing_up() {
        let good = Diagnosis::default().lock().save();
        let error = |file: OwnedFd| read(&file.into()).unwrap_err().to_string();
        assert_eq!(error(file(b"")), "not a history");
        assert_eq!(error(file(&good[..good.len() - 1])), "incomplete or corrupt");
        let long = File::from(create().unwrap());
        long.set_len(SAVED_MAX as u64 + 1).unwrap();
        assert_eq!(error(long.try_clone().unwrap().into()), "not a sealed file in memory");
        fcntl_add_seals(&long, SEALS).unwrap();
        assert_eq!(error(long.into()), format!("{} bytes, more than {SAVED_MAX}", SAVED_MAX + 1));
        let (pipe, _open) = rustix::pipe::pipe().unwrap();
        assert_eq!(error(pipe), "not a sealed file in memory");
        assert_eq!(error(File::open("/dev/zero").unwrap().into()), "not a sealed file in memory");
        assert_eq!(error(File::open("/proc/self/exe").unwrap().into()), "not a sealed file in memory");
    }

    /// The position in the file is that of both processes.
    #[test]
    fn the_file_is_read_from_its_beginning_and_stays_as_it_is() {
        let histories = File::from(file(&Diagnosis::default().lock().save()));
        assert!(read(&histories).is_ok() && read(&histories).is_ok());
        assert!(histories.set_len(0).is_err() && histories.write_at(b"x", 0).is_err());
    }
}
