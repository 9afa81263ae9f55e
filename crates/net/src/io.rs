//! A connected stream socket of this thread, TCP or Unix.
//!
//! Reading waits for readiness, writing is tried first: a socket that has just been accepted usually has its
//! request already, and one that is written to usually takes it. So a short connection costs `accept`, `recv`,
//! `send` and `close`, and is registered with the reactor only when it has to be waited for.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::client::Idleness;

/// A non-blocking stream socket.
#[derive(Debug)]
pub struct Io {
    state: State,
    /// Watches for a reset once the peer has shut its writing side: see [`Io::poll_reset`].
    hangup: Option<AsyncFd<OwnedFd>>,
    /// Waits for room, while there is none: see [`Io::poll_writable`].
    writable: Option<AsyncFd<OwnedFd>>,
    /// What the reactor watches the socket for: reading, and once it has taken nothing, writing for good.
    interest: Interest,
    /// The last read took all there was: the next would find nothing, most likely.
    drained: bool,
}

#[derive(Debug)]
enum State {
    /// Not yet known to the reactor.
    Fresh(OwnedFd),
    Registered(AsyncFd<OwnedFd>),
    /// Only while moving from one to the other.
    Moving,
}

impl Io {
    /// Takes a connected socket that is already non-blocking.
    pub fn new(fd: OwnedFd) -> Self {
        // Watched for writing as well, each new socket would wake us at once: it is writable.
        Self {
            state: State::Fresh(fd),
            hangup: None,
            writable: None,
            interest: Interest::READABLE,
            drained: false,
        }
    }

    /// Appends what has arrived to `into`, at most its spare capacity (which must not be 0). `Ok(0)` is the
    /// end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if let State::Fresh(fd) = &self.state
            && !self.drained
        {
            let room = into.capacity() - into.len();
            match receive(fd, into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.drained = result.as_ref().is_ok_and(|got| *got > 0 && *got < room);
                    return Poll::Ready(result);
                }
            }
        }
        let fd = self.registered()?;
        loop {
            let mut guard = ready!(fd.poll_read_ready(cx))?;
            let room = into.capacity() - into.len();
            match receive(fd.get_ref(), into) {
                Ok(got) => {
                    // Less than there was room for: the queue is empty, and the next byte will be an event
                    // of its own. Saves the read that would only say so.
                    if got > 0 && got < room {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(got));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Waits until a read would find something, without needing a buffer.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let fd = self.registered()?;
        fd.poll_read_ready(cx).map_ok(drop)
    }

    /// Writes what the socket takes now; waits only when it takes nothing.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.write(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        if !self.interest.is_writable() {
            self.interest = self.interest.add(Interest::WRITABLE);
            self.leave_reactor();
            // Who waits to read has waited at the registration that is gone.
            cx.waker().wake_by_ref();
        }
        let fd = self.registered()?;
        loop {
            let mut guard = ready!(fd.poll_write_ready(cx))?;
            match guard.try_io(|fd| send(fd.get_ref(), slices)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    /// Waits until a write would be taken, by a registration of its own that is given up when it has been met.
    ///
    /// A Unix socket becomes "writable" each time its peer reads. Were one that is nearly always writable watched for that, every message would
    /// wake us twice: when it is read, and when it is answered.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let watch = match self.writable.take() {
            Some(watch) => watch,
            None => crate::watch(self.fd().try_clone()?, Interest::WRITABLE).map_err(|(_, error)| error)?,
        };
        match watch.poll_write_ready(cx) {
            Poll::Ready(ready) => Poll::Ready(ready.map(drop)),
            Poll::Pending => {
                self.writable = Some(watch);
                Poll::Pending
            }
        }
    }

    /// Everything was written: room is not waited for any longer.
    pub fn forget_writable(&mut self) {
        self.writable = None;
    }

    /// One system call, now.
    pub fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.fd(), slices)
    }

    /// Waits for a reset of a connection whose read side has already ended (when the end of the stream hides
    /// every later event from [`Io::poll_readable`]).
    pub fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.hangup.is_none() {
            let Ok(copy) = self.fd().try_clone() else { return Poll::Pending };
            // Without interest in writability the write side is ready only on EPOLLHUP.
            let Ok(watch) = crate::watch(copy, Interest::READABLE) else { return Poll::Pending };
            self.hangup = Some(watch);
        }
        match &self.hangup {
            Some(watch) => watch.poll_write_ready(cx).map(drop),
            None => Poll::Pending,
        }
    }

    /// What an idle connection has to say: looks without taking anything, and without waiting.
    pub(crate) fn look(&self) -> Idleness {
        look(self.fd())
    }

    /// Waits until an idle connection has something to say; `look` tells what.
    pub(crate) fn poll_noise(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&OwnedFd) -> Idleness,
    ) -> Poll<Idleness> {
        let Ok(fd) = self.registered() else { return Poll::Ready(Idleness::Closed) };
        loop {
            let Ok(mut guard) = ready!(fd.poll_read_ready(cx)) else { return Poll::Ready(Idleness::Closed) };
            match look(fd.get_ref()) {
                // Left over from a read that took exactly what there was.
                Idleness::Quiet => guard.clear_ready(),
                noise => return Poll::Ready(noise),
            }
        }
    }

    /// Takes it off the reactor of its thread, so that another thread can use it.
    pub(crate) fn leave_thread(&mut self) {
        self.hangup = None;
        self.writable = None;
        self.leave_reactor();
    }

    fn leave_reactor(&mut self) {
        self.drained = true;
        self.state = match std::mem::replace(&mut self.state, State::Moving) {
            State::Registered(fd) => State::Fresh(fd.into_inner()),
            state => state,
        };
    }

    /// Sends FIN; what was written before is still delivered.
    pub fn shutdown_write(&self) {
        let _ = rustix::net::shutdown(self.fd(), Shutdown::Write);
    }

    /// Makes the close that follows a reset, so that a peer cannot take what it has for the whole message.
    pub fn reset_on_close(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.fd(), Some(std::time::Duration::ZERO));
    }

    /// Whether it was never waited for, and may have something to read.
    pub fn is_fresh(&self) -> bool {
        matches!(self.state, State::Fresh(_)) && !self.drained
    }

    /// The descriptor.
    pub fn fd(&self) -> &OwnedFd {
        match &self.state {
            State::Fresh(fd) => fd,
            State::Registered(fd) => fd.get_ref(),
            State::Moving => unreachable!("never left in this state"),
        }
    }

    fn registered(&mut self) -> io::Result<&AsyncFd<OwnedFd>> {
        if let State::Fresh(_) = self.state
            && let State::Fresh(fd) = std::mem::replace(&mut self.state, State::Moving)
        {
            match crate::watch(fd, self.interest) {
                Ok(fd) => self.state = State::Registered(fd),
                Err((fd, error)) => {
                    self.state = State::Fresh(fd);
                    return Err(error);
                }
            }
        }
        match &self.state {
            State::Registered(fd) => Ok(fd),
            _ => unreachable!("registered above"),
        }
    }
}

/// Appends what has arrived to `into`, at most its spare capacity (which must not be 0), now.
pub(crate) fn receive(fd: &impl AsFd, into: &mut Vec<u8>) -> io::Result<usize> {
    let (_, got) = rustix::net::recv(fd, rustix::buffer::spare_capacity(into), RecvFlags::empty())?;
    Ok(got)
}

pub(crate) fn look(fd: &impl AsFd) -> Idleness {
    let mut byte = [0_u8; 1];
    match rustix::net::recv(fd, byte.as_mut_slice(), RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Idleness::Quiet,
        Ok((_, 1..)) => Idleness::Noisy,
        Ok((_, 0)) | Err(_) => Idleness::Closed,
    }
}

/// What a socket takes now. SIGPIPE is ignored by the binary (Rust's runtime does so at start), so `writev` to a closed peer is EPIPE.
fn send(fd: &impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match slices {
        // What `writev` does besides is for files.
        [one] => Ok(rustix::net::send(fd, one, SendFlags::NOSIGNAL)?),
        _ => Ok(rustix::io::writev(fd, slices)?),
    }
}
