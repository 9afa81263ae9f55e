use std::collections::BTreeMap;
use std::io;

/// What the configuration may ask of the world. The crate itself opens no file and reads no environment.
///
/// Paths are given as the configuration writes them, joined to the directory of the main file; they are relative
/// when that one is.
pub trait Sources {
    /// The bytes of a file: the configuration, an include, an `env_file`, a `${file:…}`.
    ///
    /// # Errors
    /// Whatever the file system says; it is shown to the user with the place that named the file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Paths that fit a pattern with `*` and `?`, in any order (the crate sorts them).
    ///
    /// # Errors
    /// As [`Sources::read`].
    fn glob(&self, pattern: &str) -> io::Result<Vec<String>>;

    /// What is at this path, symbolic links followed.
    fn look(&self, path: &str) -> Found;

    /// The environment: for `${VAR}` and for `KEEPWARM_SECTION__NAME__KEY`. Asked once per load. Variables that are
    /// not UTF-8 are left out.
    fn env(&self) -> BTreeMap<String, String>;
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or nothing this user may see.
    Nothing,
    /// A directory.
    Directory,
    /// A file, or anything else that is not a directory.
    File,
}
