//! The directory that keeps accounts, orders and certificates.
//!
//! ```text
//!   STORAGE/AUTHORITY/account.json        the account and its key
//!   STORAGE/AUTHORITY/certificates/NAME.pem  key and chain, in one file so that they always belong together
//!   STORAGE/AUTHORITY/orders/NAME.json    an order under way, with the key of its certificate
//!   STORAGE/AUTHORITY/attempts/NAME.json  failed orders in a row, so that a restart does not forget them
//!   STORAGE/AUTHORITY/locks/NAME          held by the process that orders for this name
//!   STORAGE/AUTHORITY/on_demand/NAME      marks a name that a client requested, so that it is renewed after a restart
//! ```
//!
//! Files are written beside their place, synced, and renamed; they have mode 0600, directories 0700, and belong to the user that Keepwarm runs as. Workers,
//! which run as others, cannot read them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::settings::Authority;

/// The storage of one authority.
#[derive(Debug, Clone)]
pub struct Storage {
    folder: PathBuf,
}

/// Why the storage cannot be used. `Display` names the file.
#[derive(Debug)]
pub struct StorageError {
    file: PathBuf,
    what: String,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl std::error::Error for StorageError {}

/// An order under way.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedOrder {
    /// Its URL.
    pub(crate) url: String,
    /// The key of its certificate, in PEM.
    pub(crate) key: String,
}

/// Failed orders in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempts {
    pub(crate) failures: u32,
    /// Seconds since 1970: no attempt before this.
    pub(crate) not_before: u64,
    /// The last failure, in words.
    pub(crate) error: String,
}

impl Attempts {
    pub(crate) fn not_before(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(self.not_before))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Excludes other processes from ordering for a name. Released when dropped, and when the process ends.
#[derive(Debug)]
pub(crate) struct NameLock(#[expect(dead_code, reason = "held for its lock")] File);

const DIRECTORIES: [&str; 5] = ["certificates", "orders", "attempts", "locks", ON_DEMAND];
const ON_DEMAND: &str = "on_demand";

impl Storage {
    /// Opens the storage of an authority, and makes its directories.
    ///
    /// # Errors
    /// They cannot be made, or belong to another user, who could then read the keys.
    pub fn open(root: &Path, authority: &Authority) -> Result<Self, StorageError> {
        let folder = root.join(authority.folder());
        for directory in
            [root, &folder].into_iter().map(Path::to_owned).chain(DIRECTORIES.map(|name| folder.join(name)))
        {
            make_private(&directory)?;
        }
        Ok(Self { folder })
    }

    /// The storage of an authority as it is, which may not exist; nothing is made.
    pub fn at(root: &Path, authority: &Authority) -> Self {
        Self { folder: root.join(authority.folder()) }
    }

    /// Where the certificate of a name is, or will be; nothing is made.
    pub fn certificate_file(root: &Path, authority: &Authority, name: &str) -> PathBuf {
        Self::at(root, authority).file("certificates", name, ".pem")
    }

    /// A valid certificate of a name from any authority that was asked before: the one that expires last.
    pub fn other_certificate(root: &Path, name: &str) -> Option<Certificate> {
        let folders = fs::read_dir(root).ok()?.filter_map(Result::ok);
        let stored =
            folders.filter_map(|folder| Self { folder: folder.path() }.certificate(name).ok().flatten());
        let valid =
            stored.filter(|one| one.facts.has_name(name) && one.facts.validity.end > SystemTime::now());
        valid.max_by_key(|one| one.facts.validity.end)
    }

    /// The certificate of a name; `None` if there is none yet.
    ///
    /// # Errors
    /// It cannot be read, or is broken.
    pub fn certificate(&self, name: &str) -> Result<Option<Certificate>, StorageError> {
        let file = self.file("certificates", name, ".pem");
        let Some(text) = read(&file)? else { return Ok(None) };
        match Certificate::from_pem(&text) {
            Ok(certificate) => Ok(Some(certificate)),
            Err(what) => Err(StorageError { file, what }),
        }
    }

    pub(crate) fn save_certificate(&self, name: &str, certificate: &Certificate) -> Result<(), StorageError> {
        write(&self.file("certificates", name, ".pem"), certificate.pem.as_bytes())
    }

    pub(crate) fn order(&self, name: &str) -> Result<Option<SavedOrder>, StorageError> {
        read_json(&self.file("orders", name, ".json"))
    }

    pub(crate) fn save_order(&self, name: &str, order: &SavedOrder) -> Result<(), StorageError> {
        write_json(&self.file("orders", name, ".json"), order)
    }

    pub(crate) fn remove_order(&self, name: &str) -> Result<(), StorageError> {
        remove(&self.file("orders", name, ".json"))
    }

    /// Failed orders of a name in a row. A broken file counts as none.
    pub(crate) fn attempts(&self, name: &str) -> Attempts {
        read_json(&self.file("attempts", name, ".json")).ok().flatten().unwrap_or_default()
    }

    pub(crate) fn save_attempts(&self, name: &str, attempts: &Attempts) -> Result<(), StorageError> {
        let file = self.file("attempts", name, ".json");
        if *attempts == Attempts::default() { remove(&file) } else { write_json(&file, attempts) }
    }

    /// The names that have certificates because clients requested them, in order; none if nothing is stored.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn on_demand_names(&self) -> Result<Vec<String>, StorageError> {
        let folder = self.folder.join(ON_DEMAND);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&folder, &error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // A file beside one, of a process that was killed, has a name of its own.
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".new")).collect();
        names.sort();
        Ok(names)
    }

    pub(crate) fn note_on_demand(&self, name: &str) -> Result<(), StorageError> {
        write(&self.file(ON_DEMAND, name, ""), b"")
    }

    /// Removes all that is stored of a name, so that names that come and go do not fill the disk.
    pub(crate) fn forget_on_demand(&self, name: &str) -> Result<(), StorageError> {
        remove(&self.file(ON_DEMAND, name, ""))?;
        self.remove_order(name)?;
        self.save_attempts(name, &Attempts::default())?;
        remove(&self.file("certificates", name, ".pem"))
    }

    pub(crate) fn account<T: DeserializeOwned>(&self) -> Result<Option<T>, StorageError> {
        read_json(&self.folder.join("account.json"))
    }

    pub(crate) fn save_account(&self, account: &impl Serialize) -> Result<(), StorageError> {
        write_json(&self.folder.join("account.json"), account)
    }

    pub(crate) fn remove_account(&self) -> Result<(), StorageError> {
        remove(&self.folder.join("account.json"))
    }

    /// `None`: another process orders for this name now.
    pub(crate) fn lock(&self, name: &str) -> Result<Option<NameLock>, StorageError> {
        let path = self.file("locks", name, "");
        let file = open_private(&path, false).map_err(|error| at(&path, &error))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(NameLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(at(&path, &error.into())),
        }
    }

    /// Names are domain names and addresses; what else a file name could mean is replaced.
    fn file(&self, kind: &str, name: &str, suffix: &str) -> PathBuf {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c.to_ascii_lowercase() } else { '_' }
        };
        let name: String = name.trim_start_matches('.').chars().map(safe).collect();
        self.folder.join(kind).join(name + suffix)
    }
}

fn at(file: &Path, error: &io::Error) -> StorageError {
    StorageError { file: file.to_owned(), what: error.to_string() }
}

/// Makes a directory that no other user can read.
pub(crate) fn make_private(directory: &Path) -> Result<(), StorageError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| at(directory, &error))?;
    check_owner(directory)
}

fn check_owner(directory: &Path) -> Result<(), StorageError> {
    let about = fs::symlink_metadata(directory).map_err(|error| at(directory, &error))?;
    let own = rustix::process::geteuid().as_raw();
    let what = match () {
        () if !about.is_dir() => "it is not a directory".to_owned(),
        () if about.uid() != own => format!(
            "it belongs to user {}, and Keepwarm runs as user {own}: private keys are kept there, so change its owner (chown -R), or set acme.storage",
            about.uid()
        ),
        () if about.mode() & 0o022 != 0 => {
            "others may write in it: private keys are kept there (chmod go-w)".to_owned()
        }
        () => return Ok(()),
    };
    Err(StorageError { file: directory.to_owned(), what })
}

fn open_private(path: &Path, new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).create_new(new).mode(0o600);
    options.custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)).open(path)
}

fn read(file: &Path) -> Result<Option<String>, StorageError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(file, &error)),
    }
}

fn read_json<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, StorageError> {
    let Some(text) = read(file)? else { return Ok(None) };
    match serde_json::from_str(&text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(StorageError { file: file.to_owned(), what: error.to_string() }),
    }
}

fn write_json(file: &Path, value: &impl Serialize) -> Result<(), StorageError> {
    let text = serde_json::to_vec_pretty(value).map_err(|error| at(file, &error.into()))?;
    write(file, &text)
}

/// Replaces a file whole: after a crash it has its old content or its new one.
pub(crate) fn write(file: &Path, content: &[u8]) -> Result<(), StorageError> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let beside = beside(file);
    let replaced = || {
        // Left over from a process that was killed.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = open_private(&beside, true)?;
        new.write_all(content)?;
        new.sync_all()?;
        fs::rename(&beside, file)?;
        File::open(directory)?.sync_all()
    };
    replaced().map_err(|error| {
        let _ = fs::remove_file(&beside);
        at(file, &error)
    })
}

/// One process writes for a name, but the account is written by any.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}

fn remove(file: &Path) -> Result<(), StorageError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(file, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("keepwarm-acme-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn open(root: &Path) -> Result<Storage, StorageError> {
        Storage::open(root, &Authority { directory: "https://ca.test/dir".to_owned(), ca: None })
    }

    #[test]
    fn what_is_saved_is_private_and_found_again() {
        let root = folder("saved");
        let storage = open(&root).unwrap();
        assert!(storage.certificate("a.test").unwrap().is_none());
        let certificate = Certificate::self_signed("a.test").unwrap();
        storage.save_certificate("a.test", &certificate).unwrap();
        storage.save_certificate("a.test", &certificate).unwrap();
        let again = open(&root).unwrap().certificate("a.test").unwrap().unwrap();
        assert_eq!(again.facts, certificate.facts);
        let file = root.join("ca.test-dir/certificates/a.test.pem");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_it() {
        let root = folder("broken");
        let storage = open(&root).unwrap();
        fs::write(root.join("ca.test-dir/certificates/a.test.pem"), "garbage").unwrap();
        let error = storage.certificate("a.test").unwrap_err().to_string();
        assert!(error.contains("a.test.pem: it has no certificate"), "{error}");
        fs::write(root.join("ca.test-dir/orders/a.test.json"), "{").unwrap();
        assert!(storage.order("a.test").is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_write_in_is_refused() {
        let root = folder("open");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open(&root).unwrap_err().to_string().contains("others may write"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn another_authority_s_certificate_is_better_than_none() {
        let root = folder("other");
        assert!(Storage::other_certificate(&root, "a.test").is_none());
        let storage = open(&root).unwrap();
        let certificate = Certificate::self_signed("a.test").unwrap();
        storage.save_certificate("a.test", &certificate).unwrap();
        storage.save_certificate("b.test", &certificate).unwrap();
        assert_eq!(Storage::other_certificate(&root, "a.test").unwrap().facts, certificate.facts);
        assert!(Storage::other_certificate(&root, "b.test").is_none(), "it is for another name");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_lock_excludes_and_ends_with_its_holder() {
        let root = folder("lock");
        let storage = open(&root).unwrap();
        let held = storage.lock("a.test").unwrap().unwrap();
        assert!(storage.lock("a.test").unwrap().is_none());
        assert!(storage.lock("b.test").unwrap().is_some(), "another name is free");
        drop(held);
        assert!(storage.lock("a.test").unwrap().is_some());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn no_name_leaves_its_directory() {
        let root = folder("names");
        let storage = open(&root).unwrap();
        for name in ["../../../etc/passwd", "..", "a/b", "::1", "*.a.test"] {
            let file = storage.file("orders", name, ".json");
            assert_eq!(file.parent(), Some(&*root.join("ca.test-dir/orders")), "{name}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn names_on_demand_are_marked_until_they_are_forgotten() {
        let root = folder("on-demand");
        let authority = Authority { directory: "https://ca.test/dir".to_owned(), ca: None };
        assert!(
            Storage::at(&root, &authority).on_demand_names().unwrap().is_empty(),
            "there is no directory"
        );
        let storage = open(&root).unwrap();
        for name in ["b.test", "a.test"] {
            storage.note_on_demand(name).unwrap();
            storage.note_on_demand(name).unwrap();
        }
        // Left over from a process that was killed.
        fs::write(root.join("ca.test-dir/on_demand/c.test.1.new"), "").unwrap();
        assert_eq!(storage.on_demand_names().unwrap(), ["a.test", "b.test"]);
        storage.save_certificate("a.test", &Certificate::self_signed("a.test").unwrap()).unwrap();
        storage.forget_on_demand("a.test").unwrap();
        storage.forget_on_demand("a.test").unwrap();
        assert_eq!(storage.on_demand_names().unwrap(), ["b.test"]);
        assert!(storage.certificate("a.test").unwrap().is_none());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn failures_are_remembered_until_a_success() {
        let root = folder("attempts");
        let storage = open(&root).unwrap();
        let failed = Attempts { failures: 3, not_before: 1000, error: "no".to_owned() };
        storage.save_attempts("a.test", &failed).unwrap();
        assert_eq!(storage.attempts("a.test"), failed);
        storage.save_attempts("a.test", &Attempts::default()).unwrap();
        assert_eq!(storage.attempts("a.test"), Attempts::default());
        fs::remove_dir_all(root).unwrap();
    }
}
