//! Directories for code that is run: ours, and beneath nothing that another user could move away.
//!
//! Workers load these files, often root's. So each step of the path, from the root on, belongs to us or to root, and only its owner may write to it, unless it
//! is sticky (`/tmp`), where others cannot touch what is not theirs. The last step is never a link, and belongs to us. A path whose steps all hold this can only
//! be changed by us or by root, so that later operations on its name reach the same directory.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A directory that may hold a cache.
pub(super) struct Candidate {
    /// As configured; it may lead through links.
    base: PathBuf,
    /// In it, of our making.
    name: String,
}

/// In the order in which they are tried.
pub(super) fn candidates() -> Vec<Candidate> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = |base: PathBuf| Candidate { base, name: "keepwarm".to_owned() };
    let own = absolute("XDG_CACHE_HOME").map(named);
    let system = is_root().then(|| named(PathBuf::from("/var/cache")));
    let home = absolute("HOME").map(|home| named(home.join(".cache")));
    let name = format!("keepwarm-{}", own_user());
    let temporary = Candidate { base: std::env::temp_dir(), name };
    own.into_iter().chain(system).chain(home).chain([temporary]).collect()
}

impl Candidate {
    #[cfg(test)]
    pub(super) fn new(base: &Path, name: &str) -> Self {
        Self { base: base.to_owned(), name: name.to_owned() }
    }

    /// Creates it, if it does not exist, and returns its path without links.
    ///
    /// # Errors
    /// It cannot be created; another user could change its content; root's workers of other users could not enter it.
    pub(super) fn secure(&self) -> io::Result<PathBuf> {
        // Missing parts of `~/.cache` and its like are created as their owner would.
        builder().recursive(true).create(&self.base)?;
        let base = std::fs::canonicalize(&self.base)?;
        for step in base.ancestors() {
            let about = std::fs::symlink_metadata(step)?;
            let shared = others_write(&about) && about.mode() & 0o1000 == 0;
            if !about.is_dir() || shared || !(about.uid() == 0 || about.uid() == own_user()) {
                return Err(refused(step, "another user can change its contents"));
            }
            if is_root() && about.mode() & 0o001 == 0 {
                return Err(refused(step, "workers that run as other users cannot enter it"));
            }
        }
        let folder = base.join(&self.name);
        make(&folder)?;
        match is_ours(&folder)? {
            true => Ok(folder),
            false => Err(refused(
                &folder,
                "it is a link, belongs to another user, or is writable by others; remove it",
            )),
        }
    }
}

/// Creates a directory, unless something of its name exists.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    match builder().create(folder) {
        // Whatever the mask is: workers read it, and root's may run as other users.
        Ok(()) if is_root() => std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn builder() -> std::fs::DirBuilder {
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(if is_root() { 0o755 } else { 0o700 });
    builder
}

/// Whether this is a directory or a file, not a link, that is ours and that no other user may write to.
pub(super) fn is_ours(path: &Path) -> io::Result<bool> {
    let about = std::fs::symlink_metadata(path)?;
    Ok(!about.is_symlink() && about.uid() == own_user() && !others_write(&about))
}

pub(super) fn is_root() -> bool {
    own_user() == 0
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn others_write(about: &Metadata) -> bool {
    about.mode() & 0o022 != 0
}

fn refused(folder: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("cannot use {}: {why}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    const STRANGER: u32 = 3_999_999_999;

    /// A directory of the test's own, as `/tmp` is: any user may create entries in it.
    struct Shared(PathBuf);

    impl Shared {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("keepwarm-cache-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            set(&path, 0o1777);
            Self(path)
        }

        fn secure(&self) -> io::Result<PathBuf> {
            Candidate::new(&self.0, "keepwarm-0").secure()
        }

        fn made(&self, mode: u32) -> PathBuf {
            let path = self.0.join("keepwarm-0");
            std::fs::create_dir(&path).unwrap();
            set(&path, mode);
            path
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_in_a_shared_one_is_made_and_found_again() {
        let shared = Shared::new("fresh");
        let folder = shared.secure().unwrap();
        assert_eq!(shared.secure().unwrap(), folder);
        assert!(is_ours(&folder).unwrap());
    }

    #[test]
    fn a_folder_that_another_user_made_before_is_refused() {
        let shared = Shared::new("owner");
        chown(shared.made(0o755), Some(STRANGER), None).unwrap();
        assert_eq!(shared.secure().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        for mode in [0o777, 0o775, 0o757, 0o1777] {
            let shared = Shared::new(&format!("mode-{mode:o}"));
            shared.made(mode);
            assert_eq!(shared.secure().unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
    }

    #[test]
    fn a_link_is_refused_though_it_leads_to_a_folder_of_ours() {
        let shared = Shared::new("link");
        let target = shared.0.join("ours");
        builder().create(&target).unwrap();
        symlink(&target, shared.0.join("keepwarm-0")).unwrap();
        assert_eq!(shared.secure().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_folder_beneath_one_of_another_user_is_refused_wherever_that_is() {
        let shared = Shared::new("above");
        let above = shared.made(0o755);
        let base = above.join("deep/er");
        std::fs::create_dir_all(&base).unwrap();
        let candidate = Candidate::new(&base, "keepwarm");
        candidate.secure().unwrap();
        for (owner, mode) in [(STRANGER, 0o755), (0, 0o777), (0, 0o775)] {
            chown(&above, Some(owner), None).unwrap();
            set(&above, mode);
            assert!(candidate.secure().is_err(), "{owner} {mode:o}");
        }
    }

    #[test]
    fn where_workers_of_other_users_could_not_enter_root_unpacks_nothing() {
        let shared = Shared::new("private");
        let base = shared.made(0o700);
        assert_eq!(Candidate::new(&base, "keepwarm").secure().is_err(), is_root());
    }
}
