use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use crate::model::PemFile;

/// Files, users and environment for the configuration. The crate itself opens no file and reads no environment.
///
/// Paths are those of the configuration, resolved against the directory of the main file; they are relative if that
/// directory is.
pub trait Sources {
    /// The bytes of a file: the configuration, an include, an `env_file`, a `${file:…}`.
    ///
    /// # Errors
    /// The error of the file system, which is shown with the location of the path.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Paths that match a pattern with `*` and `?`, in any order (the crate sorts them).
    ///
    /// # Errors
    /// As [`Sources::read`].
    fn glob(&self, pattern: &str) -> io::Result<Vec<String>>;

    /// The kind of file at this path; symbolic links are followed.
    fn path_kind(&self, path: &str) -> PathKind;

    /// The user of this name or number. An unknown number is a user without a name, in the group of the same number.
    fn user(&self, name: &str) -> Option<Account>;

    /// The group of this name or number.
    fn group(&self, name: &str) -> Option<u32>;

    /// The credentials of this process.
    fn credentials(&self) -> Credentials;

    /// Whether the user may enter this directory and all directories above it.
    fn may_enter(&self, path: &str, user: &Account) -> bool;

    /// The highest value to which this process may set a limit. `None`: unlimited.
    fn hard_limit(&self, resource: Resource) -> Option<u64>;

    /// What a certificate says, and whether the key is its key.
    ///
    /// # Errors
    /// One of the two is invalid, or they are no pair.
    fn certificate(&self, cert: &PemFile, key: &PemFile) -> Result<CertificateSummary, CertificateFault>;

    /// The environment, for `${VAR}` and `KEEPWARM_SECTION__NAME__KEY`. Read once per load. Variables that are not
    /// UTF-8 are left out.
    fn env(&self) -> BTreeMap<String, String>;
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateSummary {
    /// The names it is for: DNS names in lower case, with wildcards, IDN names as A-labels; addresses.
    pub names: Vec<String>,
    /// The kind of its key: `RSA`, `ECDSA`.
    pub key_kind: &'static str,
    /// Its issuer.
    pub issuer: String,
    /// When it expired, if it has.
    pub expired: Option<String>,
    /// When it will begin to be valid, if it is not yet.
    pub not_before: Option<String>,
    /// The file has no certificate of its issuer, which clients need.
    pub lacks_chain: bool,
}

impl CertificateSummary {
    /// Whether it covers a host, literally or by a wildcard.
    pub fn covers(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.names
            .iter()
            .any(|name| name == host || name.strip_prefix("*.").is_some_and(|of| parent == Some(of)))
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFault {
    /// The fault is in `key`, not in `cert`.
    pub is_of_key: bool,
    /// A sentence that names the file.
    pub message: String,
}

/// A user of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name, or its number if it has none.
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
    /// A user that has only a number.
    pub fn from_uid(uid: u32) -> Account {
        Account { name: uid.to_string(), uid, gid: uid, groups: vec![uid], home: PathBuf::from("/") }
    }
}

/// The user and group of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Whether it may start processes as other users and groups (CAP_SETUID and CAP_SETGID, and a user namespace that lets them be used).
    pub may_change: bool,
    /// Whether it may signal processes of other users (CAP_KILL).
    pub may_signal: bool,
}

/// A resource limit of a process.
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
    /// CPU time in seconds, RLIMIT_CPU.
    Cpu,
}

/// The kind of file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    /// No file, or none that this user may see.
    Missing,
    /// A directory.
    Directory,
    /// A file, or anything else that is not a directory.
    File,
}
