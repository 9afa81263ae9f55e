//! How another process of the same user, or of root, controls a running Keepwarm: an abstract Unix socket, which leaves no file behind.
//!
//! The name holds its user, its configuration and its process: `keepwarm/UID/HASH/PID`. One line comes in (`reload`, `restart NAME...`, `status`, `why`,
//! `stack WORKER`, `recycle WORKER`, `maintenance {…}`, `endpoint {…}`, `profile SECONDS HERTZ APP [ROUTE]`, `leaks REQUESTS SECONDS APP [ROUTE]`), one line of JSON goes out (of `leaks`, others with its progress before it); `events` is responded to with a line for each snapshot, once a second.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use keepwarm_net::{peer_user, restarted};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use crate::live::Subscription;
use crate::restart::RestartError;
use crate::status::view::View;
use crate::subjects::OwnTarget;
use crate::{endpoint, leaks, live, maintenance, profile, recycle, stack, status, why};

/// What the serving process is asked to do, and where the outcome goes.
#[derive(Debug)]
pub(crate) enum ControlRequest {
    Reload(oneshot::Sender<Result<String, String>>),
    /// Replace what has these names.
    Restart(Vec<String>, oneshot::Sender<Result<String, RestartError>>),
}

/// Of a request that is not performed any more.
pub(crate) const STOPPING: &str = "Keepwarm is stopping.";

/// Identifies the configuration that a Keepwarm serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    /// That of a configuration file.
    pub(crate) fn of_config(file: &Path) -> Self {
        Self::of("config", &file.canonicalize().unwrap_or_else(|_| file.to_path_buf()))
    }

    /// That of a target started in a directory.
    pub(crate) fn of_directory(directory: &Path) -> Self {
        Self::of("directory", &directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf()))
    }

    fn of(kind: &str, path: &Path) -> Self {
        let mut hasher = DefaultHasher::new();
        (kind, path).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The control socket; it accepts requests until it is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket(tokio::task::AbortHandle);

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes requests as long as the door is kept.
///
/// # Errors
/// The socket cannot be made.
pub(crate) fn listen(
    identity: Identity,
    requests: mpsc::UnboundedSender<ControlRequest>,
    view: Arc<View>,
) -> io::Result<ControlSocket> {
    let user = rustix::process::geteuid().as_raw();
    let name = format!("{PREFIX}{user}/{:016x}/{}", identity.0, std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let task = tokio::spawn(async move {
        restarted("control_socket", || accept(&listener, &requests, &view)).await;
    });
    Ok(ControlSocket(task.abort_handle()))
}

async fn accept(
    listener: &tokio::net::UnixListener,
    requests: &mpsc::UnboundedSender<ControlRequest>,
    view: &Arc<View>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        // An abstract socket has no permissions: check the peer's user.
        let user = stream.peer_cred().map(|peer| peer.uid());
        if user.is_ok_and(|user| user == 0 || user == rustix::process::geteuid().as_raw()) {
            tokio::spawn(serve(stream, requests.clone(), Arc::clone(view)));
        }
    }
}

async fn serve(
    stream: tokio::net::UnixStream,
    requests: mpsc::UnboundedSender<ControlRequest>,
    view: Arc<View>,
) {
    let mut stream = tokio::io::BufReader::new(stream);
    let mut line = String::new();
    if stream.read_line(&mut line).await.is_err() {
        return;
    }
    let (word, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
    if word == "events"
        && let Some(snapshots) = view.feed.subscribe()
    {
        return stream_lines(stream.into_inner(), snapshots).await;
    }
    let response = match word {
        "events" => {
            json!({ "ok": false, "message": format!("{} streams are open: that is the limit; end one", live::STREAMS) })
        }
        "status" => status::json::json(&view.look().await),
        "why" => why::respond(&view, rest).await,
        "subjects" => view.served().subjects.iter().map(OwnTarget::json).collect(),
        "maintenance" => maintenance::respond(&view, rest),
        "endpoint" => endpoint::respond(&view, rest),
        "stack" => stack::respond(&view, rest).await,
        "recycle" => recycle::respond(&view, rest).await,
        "profile" => profile::respond(&view, rest, &mut stream).await,
        "leaks" => leaks::respond(&view, rest, &mut stream).await,
        "reload" => {
            let (reply, outcome) = oneshot::channel();
            let _ = requests.send(ControlRequest::Reload(reply));
            match outcome.await {
                Ok(Ok(message)) => json!({ "ok": true, "message": message }),
                Ok(Err(message)) => json!({ "ok": false, "message": message }),
                Err(_) => json!({ "ok": false, "message": STOPPING }),
            }
        }
        "restart" => {
            let (reply, outcome) = oneshot::channel();
            let names = rest.split_ascii_whitespace().map(str::to_owned).collect();
            let _ = requests.send(ControlRequest::Restart(names, reply));
            match outcome.await {
                Ok(Ok(message)) => json!({ "ok": true, "message": message }),
                Ok(Err(RestartError::Failed(message))) => json!({ "ok": false, "message": message }),
                Ok(Err(RestartError::Unknown(message))) => {
                    json!({ "ok": false, "unknown": true, "message": message })
                }
                Err(_) => json!({ "ok": false, "message": STOPPING }),
            }
        }
        other => json!({ "ok": false, "message": format!("unknown request {other:?}") }),
    };
    let _ = stream.write_all(format!("{response}\n").as_bytes()).await;
}

/// Each snapshot as a line, to a reader that takes it within [`live::SNAPSHOT_TIMEOUT`].
async fn stream_lines(mut stream: tokio::net::UnixStream, mut snapshots: Subscription) {
    while let Some(snapshot) = snapshots.next().await {
        let write = async {
            stream.write_all(snapshot.as_bytes()).await?;
            stream.write_all(b"\n").await
        };
        if !matches!(tokio::time::timeout(live::SNAPSHOT_TIMEOUT, write).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// The process ids and sockets of the Keepwarms of this user that fit; for root, of every user.
pub(crate) fn find(identity: Option<Identity>, pid: Option<u32>) -> io::Result<Vec<(u32, String)>> {
    let sockets = std::fs::read_to_string("/proc/net/unix")?;
    let me = rustix::process::geteuid();
    let mut found: Vec<(u32, String)> = Vec::new();
    for name in sockets.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@')) {
        let Some((user, hash, process)) = parts(name) else { continue };
        if !me.is_root() && user != me.as_raw() {
            continue;
        }
        let fits = identity.is_none_or(|identity| hash == format!("{:016x}", identity.0))
            && pid.is_none_or(|pid| pid == process);
        if fits && !found.iter().any(|(seen, _)| *seen == process) {
            found.push((process, name.to_owned()));
        }
    }
    Ok(found)
}

/// Asks one of them.
pub(crate) fn ask(name: &str, request: &str) -> io::Result<Value> {
    let mut line = String::new();
    BufReader::new(open(name, request)?).read_line(&mut line)?;
    match line.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => serde_json::from_str(&line).map_err(io::Error::other),
    }
}

/// Sends a request to one of them.
pub(crate) fn open(name: &str, request: &str) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    // Anybody may give a socket this name.
    let owner = peer_user(&stream);
    if owner != Some(0) && parts(name).map(|(user, ..)| user) != owner {
        let owner = owner.map_or_else(|| "unknown".to_owned(), |owner| owner.to_string());
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its socket belongs to another user ({owner})"),
        ));
    }
    stream.write_all(format!("{request}\n").as_bytes())?;
    Ok(stream)
}

const PREFIX: &str = "keepwarm/";

/// User, hash of the identity, and process of the name of a socket.
fn parts(name: &str) -> Option<(u32, &str, u32)> {
    let (user, rest) = name.strip_prefix(PREFIX)?.split_once('/')?;
    let (hash, process) = rest.split_once('/')?;
    Some((user.parse().ok()?, hash, process.parse().ok()?))
}
