//! Addresses for workers that listen themselves: a free port on loopback, and a path for a Unix socket in a directory that only its user can enter. A worker
//! gets both (`PORT`, `KEEPWARM_SOCKET`), and listens at either.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a Unix socket's path that Linux takes: `sun_path` less its NUL.
const PATH_MAX: usize = 107;
/// The name of a worker's socket in its directory.
const SOCKET: &str = "app.sock";
/// Ports tried before the system is asked for one.
const TRIES: usize = 64;

/// Where one worker may listen. The directory of its socket is removed when this is dropped.
#[derive(Debug)]
pub struct Addresses {
    /// What `PORT` says, on loopback.
    pub tcp: SocketAddr,
    /// What `KEEPWARM_SOCKET` says.
    pub unix: PathBuf,
    used_ports: UsedPorts,
}

/// The ports that workers have.
type UsedPorts = Arc<Mutex<HashSet<u16>>>;

impl Addresses {
    /// The variables that tell the worker.
    pub(super) fn env(&self) -> [(&'static str, OsString); 2] {
        [("PORT", self.tcp.port().to_string().into()), ("KEEPWARM_SOCKET", self.unix.clone().into())]
    }
}

#[cfg(feature = "simulation")]
impl Addresses {
    /// Those of a script: nothing of them is in any file system, and nobody has handed them out.
    #[must_use]
    pub fn of_script(tcp: SocketAddr, unix: PathBuf) -> Self {
        Self { tcp, unix, used_ports: UsedPorts::default() }
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        if let Some(own) = self.unix.parent().filter(|_| !cfg!(feature = "simulation")) {
            // Most servers leave their socket there. An error leaves nothing to do.
            let _ = std::fs::remove_dir_all(own);
        }
        lock(&self.used_ports).remove(&self.tcp.port());
    }
}

/// Hands out addresses. One for a supervisor.
#[derive(Debug)]
pub(super) struct AddressBook {
    /// Created when the first is asked for, and removed at the end.
    folder: Option<PathBuf>,
    has_created_folder: bool,
    used_ports: UsedPorts,
    next: u64,
    seed: u64,
}

impl AddressBook {
    /// `seed` is any number.
    pub(super) fn new(seed: u64) -> Self {
        Self { folder: None, has_created_folder: false, used_ports: UsedPorts::default(), next: 0, seed }
    }

    /// Unused addresses, for a worker that runs as `owner` (user and group), or as we do.
    ///
    /// # Errors
    /// No port is free, the directory cannot be created, or its path is too long.
    pub(super) fn hand_out(&mut self, owner: Option<(u32, u32)>) -> io::Result<Addresses> {
        let number = self.next;
        self.next += 1;
        let own = self.folder()?.join(number.to_string());
        if !self.has_created_folder {
            // Passed through by every user, listed by none.
            make(self.folder()?, 0o711)?;
            self.has_created_folder = true;
        }
        let unix = own.join(SOCKET);
        check_length(&unix)?;
        make_private(&own, owner)?;
        let port = self.free_port()?;
        lock(&self.used_ports).insert(port);
        let tcp = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Addresses { tcp, unix, used_ports: Arc::clone(&self.used_ports) })
    }

    /// The directory of the sockets, which is created when the first address is asked for.
    ///
    /// # Errors
    /// Its path is too long.
    pub(super) fn folder(&mut self) -> io::Result<&Path> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => folder_path(self.seed)?,
        };
        Ok(self.folder.insert(folder))
    }

    /// A port that is free now. Between here and the worker's bind anybody may take it: so it is one that the system gives to nobody who does not ask for it
    /// by number, where there are such ports.
    fn free_port(&mut self) -> io::Result<u16> {
        let below = ephemeral_from().unwrap_or(0);
        let from = (below / 2).max(1024);
        for _ in 0..TRIES {
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let span = u64::from(below.saturating_sub(from));
            let Some(offset) = (self.seed >> 33).checked_rem(span) else { break };
            let Ok(port) = u16::try_from(u64::from(from) + offset) else { break };
            if !lock(&self.used_ports).contains(&port)
                && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            {
                return Ok(port);
            }
        }
        Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
    }
}

impl Drop for AddressBook {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.has_created_folder) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The first port that the system gives to those who ask for none.
fn ephemeral_from() -> Option<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range.split_whitespace().next()?.parse().ok()
}

/// Beneath the user's runtime directory where the system has one, else beneath the directory for temporary files.
fn folder_path(seed: u64) -> io::Result<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    // The workers of root may be another user's, who could not enter it.
    let parent = own.filter(|_| !rustix::process::geteuid().is_root());
    let parent = parent.unwrap_or_else(std::env::temp_dir);
    let folder = parent.join(format!("keepwarm-{}-{:04x}", std::process::id(), seed & 0xffff));
    check_length(&folder.join("4294967295").join(SOCKET))?;
    Ok(folder)
}

/// The directory of one worker's socket.
fn make_private(folder: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    make(folder, 0o700)?;
    match owner {
        Some((user, group)) => std::os::unix::fs::chown(folder, Some(user), Some(group)).map_err(|error| {
            told(
                &error,
                "cannot give the directory of its socket to its user, which takes the capability CAP_CHOWN",
            )
        }),
        None => Ok(()),
    }
}

fn make(folder: &Path, mode: u32) -> io::Result<()> {
    std::fs::create_dir(folder)
        // Whatever the mask is.
        .and_then(|()| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)))
        .map_err(|error| {
            told(&error, &format!("cannot create the directory {} for its socket", folder.display()))
        })
}

fn check_length(path: &Path) -> io::Result<()> {
    let length = path.as_os_str().as_bytes().len();
    if length <= PATH_MAX {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "the path of its Unix socket has {length} bytes, and the system accepts {PATH_MAX}: {}; \
             set XDG_RUNTIME_DIR or TMPDIR to a directory with a shorter path",
            path.display()
        ),
    ))
}

fn told(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn lock(set: &Mutex<HashSet<u16>>) -> std::sync::MutexGuard<'_, HashSet<u16>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_what_was_made_is_removed() {
        let mut book = AddressBook::new(u64::from(std::process::id()));
        let first = book.hand_out(None).unwrap();
        let second = book.hand_out(None).unwrap();
        assert_ne!(first.tcp, second.tcp);
        assert_ne!(first.unix, second.unix);
        std::fs::write(&first.unix, "").unwrap();
        let file = first.unix.clone();
        let own = file.parent().unwrap().to_owned();
        let folder = own.parent().unwrap().to_owned();
        let mode = |folder: &Path| std::fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&own)), (0o711, 0o700));
        drop(first);
        assert!(!own.exists());
        drop(book);
        assert!(!folder.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_in_words() {
        assert!(check_length(Path::new("/run/keepwarm/0.sock")).is_ok());
        let long = PathBuf::from(format!("/{}/0.sock", "x".repeat(PATH_MAX)));
        let message = check_length(&long).unwrap_err().to_string();
        assert!(message.contains("115 bytes") && message.contains("TMPDIR"), "{message}");
    }
}
