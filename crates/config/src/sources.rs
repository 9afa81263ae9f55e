use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

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
    fn path_kind(&self, path: &str) -> PathKind;

    /// The user of this name or number. A number that no user has is one without a name, in the group of the same number.
    fn user(&self, name: &str) -> Option<Account>;

    /// The group of this name or number.
    fn group(&self, name: &str) -> Option<u32>;

    /// What this process is, and whether it may become others.
    fn credentials(&self) -> Credentials;

    /// Whether the user may enter this directory and those above it.
    fn may_enter(&self, path: &str, user: &Account) -> bool;

    /// The highest that this process may set a limit to; `None`: as high as it likes.
    fn hard_limit(&self, resource: Resource) -> Option<u64>;

    /// The environment: for `${VAR}` and for `KEEPWARM_SECTION__NAME__KEY`. Asked once per load. Variables that are
    /// not UTF-8 are left out.
    fn env(&self) -> BTreeMap<String, String>;
}

/// A user, as the system knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name, or its number when it has none.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
    /// Its home directory.
    pub home: PathBuf,
}

impl Account {
    /// One that has nothing but a number.
    pub fn from_uid(uid: u32) -> Account {
        Account { name: uid.to_string(), uid, gid: uid, groups: vec![uid], home: PathBuf::from("/") }
    }
}

/// What a process is, as far as others can be started by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// It may become other users, and be in other groups.
    pub may_change: bool,
}

/// What can be limited for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Open files, RLIMIT_NOFILE.
    Files,
    /// Address space in bytes, RLIMIT_AS.
    Memory,
    /// Processes of the user, RLIMIT_NPROC.
    Processes,
    /// Bytes of a core file, RLIMIT_CORE.
    Core,
    /// CpuSeconds of processor time, RLIMIT_CPU.
    Cpu,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing, or nothing this user may see.
    Missing,
    /// A directory.
    Directory,
    /// A file, or anything else that is not a directory.
    File,
}
