//! Where the adapters are: the code inside the app's processes that speaks our wire.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// One language's adapter.
pub(crate) struct Adapter {
    /// Of its folder in `adapters/`.
    pub(crate) language: &'static str,
    /// The file that shows that an installed adapter is whole enough to be taken.
    pub(crate) marker: &'static str,
    /// Its files as this binary was built with them, by their path in the folder.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

pub(crate) const PYTHON: Adapter = Adapter {
    language: "python",
    marker: "src/keepwarm/__main__.py",
    files: include!(concat!(env!("OUT_DIR"), "/python_adapter.rs")),
};

pub(crate) const RUBY: Adapter = Adapter {
    language: "ruby",
    marker: "exe/keepwarm-worker",
    files: include!(concat!(env!("OUT_DIR"), "/ruby_adapter.rs")),
};

pub(crate) const PHP: Adapter = Adapter {
    language: "php",
    marker: "bin/worker.php",
    files: include!(concat!(env!("OUT_DIR"), "/php_adapter.rs")),
};

impl Adapter {
    /// The adapter's folder.
    ///
    /// In this order: `KEEPWARM_ADAPTERS/LANGUAGE`; `../share/keepwarm/adapters/LANGUAGE` beside the binary's folder, where an
    /// installation puts it; else the files that the binary carries, unpacked once per version into a cache: root's is for everybody to
    /// read, since workers may run as other users.
    ///
    /// # Errors
    /// They could not be unpacked.
    pub(crate) fn folder(&self) -> io::Result<PathBuf> {
        if let Some(adapters) = std::env::var_os("KEEPWARM_ADAPTERS").filter(|folder| !folder.is_empty()) {
            return Ok(Path::new(&adapters).join(self.language));
        }
        let installed = std::env::current_exe().ok().and_then(|binary| {
            Some(binary.parent()?.parent()?.join("share/keepwarm/adapters").join(self.language))
        });
        if let Some(installed) = installed.filter(|folder| folder.join(self.marker).is_file()) {
            return Ok(installed);
        }
        let mut failure = io::Error::other("there is no folder for a cache");
        for cache in cache_folders() {
            match self.unpack(&cache) {
                Ok(folder) => return Ok(folder),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Writes the files, unless they are there; the folder's name tells which they are.
    fn unpack(&self, cache: &Path) -> io::Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        let (language, version) = (self.language, env!("CARGO_PKG_VERSION"));
        let folder = cache.join(format!("{language}-{version}-{:016x}", hasher.finish()));
        let whole = self
            .files
            .iter()
            .all(|(name, text)| std::fs::read(folder.join(name)).is_ok_and(|bytes| bytes == text.as_bytes()));
        if whole && is_ours(&folder)? {
            return Ok(folder);
        }
        self.remove_left_drafts(cache);
        // Beside its place, then moved there: a second Keepwarm never sees half of it.
        let draft = cache.join(format!(".{language}-{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(if is_root() { 0o755 } else { 0o700 });
        builder.create(&draft)?;
        for (name, text) in self.files {
            let file = draft.join(name);
            if let Some(parent) = file.parent() {
                builder.create(parent)?;
            }
            std::fs::write(&file, text)?;
            if is_root() {
                // Whatever the mask is: see above.
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
            }
        }
        let moved = std::fs::rename(&draft, &folder);
        if moved.is_err() {
            // Somebody else was faster, or what stood there is damaged: take its place.
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::rename(&draft, &folder)?;
        }
        Ok(folder)
    }

    /// Removes what processes have left that were killed while they unpacked.
    fn remove_left_drafts(&self, cache: &Path) {
        let start = format!(".{}-", self.language);
        // An error: there is no such folder yet.
        for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(&start)?.parse::<u32>().ok());
            if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Code from a folder that another user can write to is not run.
fn is_ours(folder: &Path) -> io::Result<bool> {
    let about = std::fs::metadata(folder)?;
    Ok(about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// In the order in which they are tried.
fn cache_folders() -> Vec<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = absolute("XDG_CACHE_HOME").map(|cache| cache.join("keepwarm"));
    let system = is_root().then(|| PathBuf::from("/var/cache/keepwarm"));
    let home = absolute("HOME").map(|home| home.join(".cache/keepwarm"));
    let user = rustix::process::geteuid().as_raw();
    let temporary = std::env::temp_dir().join(format!("keepwarm-{user}"));
    own.into_iter().chain(system).chain(home).chain([temporary]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adapter_is_unpacked_once_and_mended_when_damaged() {
        let cache = std::env::temp_dir().join(format!("keepwarm-adapter-test-{}", std::process::id()));
        let folder = PYTHON.unpack(&cache).unwrap();
        assert_eq!(PYTHON.unpack(&cache).unwrap(), folder);
        std::fs::write(folder.join("src/keepwarm/wire.py"), "damaged").unwrap();
        assert_eq!(PYTHON.unpack(&cache).unwrap(), folder);
        assert_ne!(std::fs::read_to_string(folder.join("src/keepwarm/wire.py")).unwrap(), "damaged");
        // The number is above every process's.
        let left = cache.join(".python-4999999");
        std::fs::create_dir(&left).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(PYTHON.unpack(&cache).unwrap(), folder);
        assert!(!left.exists());
        std::fs::remove_dir_all(cache).unwrap();
    }
}
