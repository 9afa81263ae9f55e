//! The calls of the data plane on sockets, as `crate::socket` has them, over this thread's [`kernel`](super::kernel).

use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::Interest;

use super::events::Event;
use super::file::{Kind, Registration};
use super::kernel::{Kernel, try_with, turn, with};
use crate::Endpoint;
use crate::client::IdleState;

/// A descriptor of a simulated socket.
#[derive(Debug)]
pub struct Socket {
    pub(super) file: u64,
}

impl Socket {
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        with(|kernel| {
            kernel.lack_of_descriptors(Errno::MFILE)?;
            let (chance, watched) = (kernel.settings.faults.no_copy, kernel.is_watched(self.file));
            if watched && kernel.rng.chance(chance) {
                return Err(Errno::MFILE.into());
            }
            if let Some(file) = kernel.files.get_mut(&self.file) {
                file.descriptors += 1;
            }
            Ok(Self { file: self.file })
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        try_with(|kernel| {
            let Some(file) = kernel.files.get_mut(&self.file) else { return };
            file.descriptors -= 1;
            if file.descriptors == 0 {
                kernel.close(self.file);
            }
        });
    }
}

/// A socket that the reactor watches.
#[derive(Debug)]
pub struct WatchedSocket {
    socket: Option<Socket>,
    id: u64,
}

/// Registers a socket.
///
/// # Errors
/// The reactor has no room.
pub fn watch(socket: Socket, interest: Interest) -> Result<WatchedSocket, (Socket, io::Error)> {
    let id = with(|kernel| {
        kernel.lack_of_descriptors(Errno::NOSPC)?;
        kernel.refuse_watch(socket.file)?;
        let id = kernel.new_id();
        kernel.watches.insert(
            id,
            Registration {
                file: socket.file,
                interest,
                readable: false,
                writable: false,
                read_closed: false,
                write_closed: false,
                reader: None,
                writer: None,
                waiting: Vec::new(),
            },
        );
        kernel.schedule_after(std::time::Duration::ZERO, Event::Registered(id));
        Ok::<_, io::Error>(id)
    });
    match id {
        Ok(id) => Ok(WatchedSocket { socket: Some(socket), id }),
        Err(error) => Err((socket, error)),
    }
}

impl Drop for WatchedSocket {
    fn drop(&mut self) {
        // Its wakers may hold values that access the kernel again.
        drop(try_with(|kernel| kernel.watches.remove(&self.id)));
    }
}

/// Readiness, as AsyncFd gives it.
pub struct Guard<'w> {
    watch: &'w WatchedSocket,
    reads: bool,
}

/// Whether it is ready for writing because both sides have ended, or it was reset.
pub(crate) fn is_over(guard: &Guard<'_>) -> bool {
    guard.watch.change(|it| it.write_closed)
}

impl Guard<'_> {
    /// The socket has shown that it is not ready.
    pub fn clear_ready(&mut self) {
        self.watch.change(|it| match self.reads {
            true => it.readable = false,
            false => it.writable = false,
        });
    }

    /// It stays ready.
    pub fn retain_ready(&mut self) {}

    /// Tries a call; the outer error: it would block, and the socket is no longer taken to be ready.
    pub fn try_io<T>(
        &mut self,
        call: impl FnOnce(&WatchedSocket) -> io::Result<T>,
    ) -> Result<io::Result<T>, ()> {
        match call(self.watch) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.clear_ready();
                Err(())
            }
            result => Ok(result),
        }
    }

    /// The socket.
    pub fn get_ref(&self) -> &WatchedSocket {
        self.watch
    }
}

impl WatchedSocket {
    fn change<T>(&self, change: impl FnOnce(&mut Registration) -> T) -> T {
        with(|kernel| change(kernel.watches.get_mut(&self.id).expect("registered for as long as it lives")))
    }

    /// The socket.
    pub fn get_ref(&self) -> &Socket {
        self.socket.as_ref().expect("taken with the watch only")
    }

    /// The socket, no longer watched.
    pub fn into_inner(mut self) -> Socket {
        self.socket.take().expect("taken once")
    }

    /// As AsyncFd has it: one waker, the last.
    ///
    /// # Errors
    /// None.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Guard<'_>>> {
        turn();
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        let ready = self.change(|it| {
            let ready = it.readable || it.read_closed;
            if !ready {
                it.reader = Some(cx.waker().clone());
            }
            ready
        });
        if !ready {
            return Poll::Pending;
        }
        coop.made_progress();
        Poll::Ready(Ok(Guard { watch: self, reads: true }))
    }

    /// As AsyncFd has it: one waker, the last.
    ///
    /// # Errors
    /// None.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Guard<'_>>> {
        turn();
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        let ready = self.change(|it| {
            let ready = it.writable || it.write_closed;
            if !ready {
                it.writer = Some(cx.waker().clone());
            }
            ready
        });
        if !ready {
            return Poll::Pending;
        }
        coop.made_progress();
        Poll::Ready(Ok(Guard { watch: self, reads: false }))
    }

    /// Waits until it is readable, beside other waiters.
    ///
    /// # Errors
    /// None.
    pub async fn readable(&self) -> io::Result<Guard<'_>> {
        self.wait(|it| it.readable || it.read_closed).await;
        Ok(Guard { watch: self, reads: true })
    }

    /// Waits until it is writable, beside other waiters.
    ///
    /// # Errors
    /// None.
    pub async fn writable(&self) -> io::Result<Guard<'_>> {
        self.wait(|it| it.writable || it.write_closed).await;
        Ok(Guard { watch: self, reads: false })
    }

    async fn wait(&self, is_ready: impl Fn(&Registration) -> bool) {
        std::future::poll_fn(|cx| {
            turn();
            self.change(|it| {
                if is_ready(it) {
                    return Poll::Ready(());
                }
                it.waiting.push(cx.waker().clone());
                Poll::Pending
            })
        })
        .await;
    }
}

impl std::ops::Deref for WatchedSocket {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        self.get_ref()
    }
}

impl Kernel {
    /// Decides whether the call lacks a descriptor.
    pub(super) fn lack_of_descriptors(&mut self, errno: Errno) -> io::Result<()> {
        let chance = self.settings.faults.no_descriptor;
        if self.rng.chance(chance) { Err(errno.into()) } else { Ok(()) }
    }

    /// Whether the registration is one of those to refuse.
    fn refuse_watch(&mut self, file: u64) -> io::Result<()> {
        let unix = self.stream(file).is_some_and(|stream| stream.unix);
        match unix.then(|| self.refuses.checked_sub(1)).flatten() {
            Some(left) => {
                self.refuses = left;
                Err(Errno::NOSPC.into())
            }
            None => Ok(()),
        }
    }

    fn is_watched(&self, file: u64) -> bool {
        self.watches.values().any(|watch| watch.file == file)
    }

    /// Decides whether the connection breaks.
    fn maybe_reset(&mut self, file: u64) {
        let chance = self.settings.faults.reset;
        if chance > 0 && self.rng.chance(chance) {
            let Some(stream) = self.stream(file) else { return };
            if stream.unix {
                // There is no network in between: only a close over unread bytes resets, which shows that they were not read.
                return;
            }
            let peer = stream.peer;
            for end in [file, peer] {
                if let Some(stream) = self.stream(end) {
                    stream.reset_comes = true;
                    self.send_off(end);
                }
            }
        }
    }
}

/// Appends what has arrived.
pub(crate) fn receive(socket: &Socket, into: &mut Vec<u8>) -> io::Result<usize> {
    turn();
    let room = into.capacity() - into.len();
    assert!(room > 0, "a read without room cannot tell the end from nothing");
    with(|kernel| {
        kernel.maybe_reset(socket.file);
        let stream = kernel.stream(socket.file).expect("a stream that is open");
        let count = room.min(stream.incoming.len());
        if count == 0 {
            return match (stream.error.take(), stream.ended || stream.broken) {
                (Some(error), _) => Err(error.into()),
                (None, true) => Ok(0),
                (None, false) => Err(Errno::AGAIN.into()),
            };
        }
        into.extend(stream.incoming.drain(..count));
        kernel.note(socket.file << 20 ^ count as u64);
        kernel.made_room(socket.file);
        Ok(count)
    })
}

/// Nothing of the simulation passes sockets.
pub(crate) fn receive_with_sockets(
    socket: &Socket,
    into: &mut Vec<u8>,
    _sockets: &mut Vec<Socket>,
) -> io::Result<usize> {
    receive(socket, into)
}

/// Nobody in the simulation has a process.
#[expect(clippy::unnecessary_wraps, reason = "a socket may refuse it")]
pub(crate) fn name_senders(_socket: &Socket, _wanted: bool) -> io::Result<()> {
    Ok(())
}

/// Nobody in the simulation has a process.
#[expect(clippy::unnecessary_wraps, reason = "a socket may have nothing to look at yet")]
pub(crate) fn sender(_socket: &Socket) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Whether something has arrived, without taking it.
pub(crate) fn look(socket: &Socket) -> IdleState {
    turn();
    with(|kernel| match kernel.stream(socket.file) {
        Some(stream) if !stream.incoming.is_empty() => IdleState::Noisy,
        Some(stream) if stream.error.is_some() || stream.ended || stream.broken => IdleState::Closed,
        Some(_) => IdleState::Quiet,
        None => IdleState::Closed,
    })
}

/// Writes bytes that a file follows. That both leave together is not simulated.
pub(crate) fn send_before_file(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    send(socket, &[IoSlice::new(bytes)])
}

/// Sends bytes of a file: read and sent in one, as the kernel does.
pub(crate) fn send_file(socket: &Socket, file: &File, at: u64, max: usize) -> io::Result<usize> {
    let mut block = vec![0; max.min(64 * 1024)];
    let got = file.read_at(&mut block, at)?;
    match block.get(..got) {
        Some(block) if got > 0 => send(socket, &[IoSlice::new(block)]),
        _ => Ok(0),
    }
}

/// Writes what the socket takes now.
///
/// # Errors
/// Those of a socket.
pub fn send(socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    turn();
    let whole: usize = slices.iter().map(|slice| slice.len()).sum();
    with(|kernel| {
        kernel.maybe_reset(socket.file);
        let faults = kernel.settings.faults;
        let stream = kernel.stream(socket.file).expect("a stream that is open");
        if let Some(error) = stream.error.take() {
            return Err(error.into());
        }
        if stream.shut || stream.broken || (stream.peer_gone && stream.unix) {
            return Err(Errno::PIPE.into());
        }
        let peer = stream.peer;
        if stream.peer_gone {
            // TCP takes it.
            kernel.meet_closed(socket.file);
            return Ok(whole);
        }
        if kernel.rng.chance(faults.no_buffers) {
            return Err(Errno::NOBUFS.into());
        }
        let short = kernel.rng.chance(faults.short_send);
        let room = kernel.stream(peer).map_or(0, |peer| peer.room());
        let mut count = whole.min(room);
        if short && count > 1 {
            count = 1 + kernel.rng.below(count - 1);
        }
        if count < whole
            && let Some(stream) = kernel.stream(socket.file)
        {
            stream.no_room = true;
        }
        if count == 0 && whole > 0 {
            return Err(Errno::AGAIN.into());
        }
        if let Some(peer) = kernel.stream(peer) {
            let mut left = count;
            for slice in slices {
                let part = slice.len().min(left);
                peer.wire.extend(&slice[..part]);
                left -= part;
            }
        }
        if let Some(stream) = kernel.stream(socket.file) {
            stream.sent += count;
        }
        kernel.note(socket.file << 24 ^ count as u64);
        kernel.send_off(peer);
        if short {
            // There is room: the edge that the sender now waits for comes anyway.
            kernel.schedule(Event::Room(socket.file));
        }
        Ok(count)
    })
}

/// Bytes that were written and that the peer has not read.
pub(crate) fn queued(socket: &Socket) -> usize {
    with(|kernel| {
        let peer = kernel.stream(socket.file).map(|stream| stream.peer);
        peer.and_then(|peer| kernel.stream(peer)).map_or(0, |peer| peer.wire.len() + peer.incoming.len())
    })
}

/// Sends FIN.
pub(crate) fn shutdown_write(socket: &Socket) {
    with(|kernel| {
        let Some(stream) = kernel.stream(socket.file) else { return };
        if std::mem::replace(&mut stream.shut, true) {
            return;
        }
        let peer = stream.peer;
        if let Some(peer) = kernel.stream(peer) {
            peer.end_comes = true;
        }
        kernel.send_off(peer);
    });
}

/// Nothing is read any more: what the peer of a Unix socket writes fails (unix(7)). `false`: another socket, which stays as it is.
pub(crate) fn shutdown_read(socket: &Socket) -> bool {
    with(|kernel| {
        let Some(stream) = kernel.stream(socket.file).filter(|stream| stream.unix) else { return false };
        stream.end_comes = true;
        let peer = stream.peer;
        if let Some(peer) = kernel.stream(peer) {
            peer.shut = true;
        }
        kernel.send_off(socket.file);
        kernel.touch(peer);
        true
    })
}

/// Acknowledges what has been read. That the kernel delays it is not simulated.
pub(crate) fn acknowledge(socket: &Socket) -> bool {
    with(|kernel| kernel.stream(socket.file).is_some_and(|stream| !stream.unix))
}

/// Makes the close a reset.
pub(crate) fn reset_on_close(socket: &Socket) {
    with(|kernel| {
        if let Some(stream) = kernel.stream(socket.file) {
            stream.resets = true;
        }
    });
}

/// The error that ended the handshake.
pub(crate) fn take_error(socket: &Socket) -> io::Result<()> {
    with(|kernel| match kernel.stream(socket.file).and_then(|stream| stream.error.take()) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    })
}

/// The result of starting to connect.
pub(crate) enum ConnectStart {
    Connected(Socket),
    UnderWay(Socket),
    /// The queue of a Unix socket is full.
    Full,
}

/// Begins to connect.
pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<ConnectStart> {
    turn();
    let endpoint = endpoint.server();
    with(|kernel| {
        kernel.lack_of_descriptors(Errno::MFILE)?;
        let faults = kernel.settings.faults;
        let unix = matches!(endpoint, Endpoint::Unix(_));
        let listener = kernel.listeners.get(endpoint).copied().filter(|_| !kernel.rng.chance(faults.refused));
        if unix && listener.is_none() {
            return Err(Errno::CONNREFUSED.into());
        }
        if unix && kernel.rng.chance(faults.refused) {
            return Ok(ConnectStart::Full);
        }
        let (client, server) = kernel.new_pair(unix);
        let socket = Socket { file: client };
        match listener {
            Some(listener) => {
                kernel.schedule_connected(client, listener, server, unix);
                if unix {
                    return Ok(ConnectStart::Connected(socket));
                }
            }
            None => {
                kernel.close(server);
                kernel.schedule(Event::Connected(client, None));
            }
        }
        if let Some(stream) = kernel.stream(client) {
            stream.connecting = true;
            stream.end_comes &= listener.is_some();
        }
        Ok(ConnectStart::UnderWay(socket))
    })
}

impl Kernel {
    pub(super) fn schedule_connected(&mut self, client: u64, listener: u64, server: u64, at_once: bool) {
        let event = Event::Connected(client, Some((listener, server)));
        let silent = self.settings.faults.silent;
        if !at_once && self.rng.chance(silent) {
            self.files.remove(&server);
            return;
        }
        self.schedule(event);
    }
}

/// Whether a connection waits to be accepted.
pub fn has_waiting(listener: &Socket) -> bool {
    turn();
    with(|kernel| match kernel.files.get(&listener.file).map(|file| &file.kind) {
        Some(Kind::Listener { queue, .. }) => !queue.is_empty(),
        _ => false,
    })
}

/// Processes of the simulation have no sockets of their own.
pub fn peer_process(_socket: &Socket) -> Option<u32> {
    None
}

/// Accepts one connection.
pub fn accept(listener: &Socket) -> io::Result<(Socket, Option<SocketAddr>)> {
    turn();
    with(|kernel| {
        kernel.lack_of_descriptors(Errno::MFILE)?;
        let Some(Kind::Listener { queue, .. }) =
            kernel.files.get_mut(&listener.file).map(|file| &mut file.kind)
        else {
            return Err(Errno::INVAL.into());
        };
        let Some(file) = queue.pop_front() else { return Err(Errno::AGAIN.into()) };
        Ok((Socket { file }, Some(SocketAddr::from(([192, 0, 2, 1], 40_000)))))
    })
}

/// The address that its client connected to.
pub fn local_address(_: &Socket) -> Option<SocketAddr> {
    None
}

/// Nothing of this process is adopted here.
///
/// # Panics
/// Always: sockets of the simulation come from [`pair`](super::pair), [`listen`](super::listen) and [`connect`](super::connect).
pub fn adopt(_: OwnedFd) -> Socket {
    panic!("a real descriptor in the simulation")
}
