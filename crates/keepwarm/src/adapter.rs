//! Where the adapters are: the code inside the app's processes that speaks our wire.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

mod cache;

use self::cache::{is_ours, is_root, make};

/// One language's adapter.
pub(crate) struct Adapter {
    /// The name of its directory in `adapters/`.
    pub(crate) language: &'static str,
    /// The file that shows that an installed adapter is whole enough to be taken.
    pub(crate) marker: &'static str,
    /// Its files as this binary was built with them, by their path in the directory.
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
    /// The adapter's directory.
    ///
    /// In this order: `KEEPWARM_ADAPTERS/LANGUAGE`; `../share/keepwarm/adapters/LANGUAGE` beside the binary's directory, where an
    /// installation puts it; else the files that the binary carries, unpacked once per version into a cache: root's is readable by
    /// all, since workers may run as other users.
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
        let mut failure = io::Error::other("no directory for a cache");
        for candidate in cache::candidates() {
            match candidate.secure().and_then(|cache| self.unpack(&cache)) {
                Ok(folder) => return Ok(folder),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Writes the files, unless they exist; the directory's name identifies them. `cache` is secure (see [`cache`]).
    fn unpack(&self, cache: &Path) -> io::Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        let (language, version) = (self.language, env!("CARGO_PKG_VERSION"));
        let folder = cache.join(format!("{language}-{version}-{:016x}", hasher.finish()));
        if self.is_whole(&folder) {
            return Ok(folder);
        }
        self.remove_left_drafts(cache);
        // Beside its place, then moved there: a second Keepwarm never sees half of it.
        let draft = cache.join(format!(".{language}-{}", std::process::id()));
        make(&draft)?;
        for (name, text) in self.files {
            let file = draft.join(name);
            let above: Vec<&Path> = file.ancestors().skip(1).take_while(|above| *above != draft).collect();
            above.into_iter().rev().try_for_each(make)?;
            std::fs::write(&file, text)?;
            if is_root() {
                // Whatever the mask is: see above.
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
            }
        }
        let moved = std::fs::rename(&draft, &folder);
        if moved.is_err() {
            // Another process was faster, or the files there are damaged: replace them.
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::rename(&draft, &folder)?;
        }
        Ok(folder)
    }

    /// All files are as they should be, and no other user could have put others beside them.
    fn is_whole(&self, folder: &Path) -> bool {
        let ours = |path: &Path| is_ours(path).unwrap_or(false);
        ours(folder)
            && self.files.iter().all(|(name, text)| {
                let file = folder.join(name);
                let above = file.ancestors().take_while(|above| *above != folder);
                above.into_iter().all(ours)
                    && std::fs::read(&file).is_ok_and(|bytes| bytes == text.as_bytes())
            })
    }

    /// Removes what processes have left that were killed while they unpacked.
    fn remove_left_drafts(&self, cache: &Path) {
        let start = format!(".{}-", self.language);
        // An error: the directory does not exist yet.
        for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(&start)?.parse::<u32>().ok());
            if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adapter_is_unpacked_once_and_mended_when_damaged() {
        let cache = std::env::temp_dir().join(format!("keepwarm-adapter-test-{}", std::process::id()));
        make(&cache).unwrap();
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
        std::fs::set_permissions(folder.join("src"), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(folder.join("src/json.py"), "somebody else's").unwrap();
        assert_eq!(PYTHON.unpack(&cache).unwrap(), folder);
        assert!(!folder.join("src/json.py").exists());
        std::fs::remove_dir_all(cache).unwrap();
    }
}
