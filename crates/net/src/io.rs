//! A connected stream socket of this thread, TCP or Unix.
//!
//! Reading waits for readiness, writing is tried first: a socket that has just been accepted usually has its
//! request already, and one that is written to usually takes it. So a short connection costs `accept`, `recv`,
//! `send` and `close`, and is registered with the reactor only when it has to be waited for.

use std::fs::File;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::task::coop;

use crate::client::IdleState;
use crate::socket::{
    self, Socket, WatchedSocket, receive, receive_with_sockets, send, send_before_file, send_file,
};

/// A non-blocking stream socket.
#[derive(Debug)]
pub struct Io {
    state: IoState,
    /// Watches for a reset once the peer has shut its writing side: see [`Io::poll_reset`].
    hangup: Option<WatchedSocket>,
    /// Waits for room, while there is none: see [`Io::poll_writable`].
    writable: Option<WatchedSocket>,
    /// The reactor's interest in the socket: reading, and writing for good once a write found no room.
    interest: Interest,
    /// The last read emptied the socket: the next would most likely find nothing.
    drained: bool,
}

#[derive(Debug)]
enum IoState {
    /// Not yet known to the reactor.
    Fresh(Socket),
    Registered(WatchedSocket),
    /// Only while moving from one to the other.
    Moving,
}

impl Io {
    /// Takes a connected socket that is already non-blocking.
    pub fn new(fd: Socket) -> Self {
        // Watched for writing as well, each new socket would wake us at once: it is writable.
        Self {
            state: IoState::Fresh(fd),
            hangup: None,
            writable: None,
            interest: Interest::READABLE,
            drained: false,
        }
    }

    /// Appends what has arrived to `into`, at most its spare capacity (which must not be 0). `Ok(0)` is the
    /// end of the stream.
    ///
    /// Each read and write counts against the budget of the task, whether the socket had to be waited for or not: a peer that is never waited
    /// for does not hold the thread.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.poll_receive(cx, into, |socket, into| receive(socket, into).map(|got| (got, false)))
    }

    /// The same for a Unix socket whose peer passes sockets with its bytes; they are added to `sockets`.
    pub fn poll_read_with_sockets(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        sockets: &mut Vec<Socket>,
    ) -> Poll<io::Result<usize>> {
        self.poll_receive(cx, into, |socket, into| {
            let held = sockets.len();
            let got = receive_with_sockets(socket, into, sockets)?;
            Ok((got, sockets.len() > held))
        })
    }

    /// `receive` also returns whether there may be more, although it filled less than the room.
    #[inline]
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        mut receive: impl FnMut(&Socket, &mut Vec<u8>) -> io::Result<(usize, bool)>,
    ) -> Poll<io::Result<usize>> {
        if let IoState::Fresh(fd) = &self.state
            && !self.drained
        {
            let budget = ready!(coop::poll_proceed(cx));
            let room = into.capacity() - into.len();
            match receive(fd, into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    budget.made_progress();
                    self.drained = result.as_ref().is_ok_and(|(got, more)| *got > 0 && *got < room && !more);
                    return Poll::Ready(result.map(|(got, _)| got));
                }
            }
        }
        let fd = self.registered()?;
        loop {
            let mut guard = ready!(fd.poll_read_ready(cx))?;
            let room = into.capacity() - into.len();
            match receive(fd.get_ref(), into) {
                Ok((got, more)) => {
                    // Less than there was room for: the queue is empty, and the next byte will be an event
                    // of its own. Saves the read that would only show that.
                    if got > 0 && got < room && !more {
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
        self.poll_send(cx, |socket| send(socket, slices))
    }

    /// The same of a file's bytes from `at` on, at most `max`, which the kernel copies; `Ok(0)` at the end of the file. It tries at once in each call, so that the
    /// caller can make sure before each that the kernel has these bytes in memory.
    ///
    /// # Errors
    /// The socket's; those of the disk; `EINVAL`, if the file system does not support it.
    pub fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        at: u64,
        max: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx, |socket| send_file(socket, file, at, max))
    }

    #[inline]
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        send: impl Fn(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let budget = ready!(coop::poll_proceed(cx));
        match send(self.fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => {
                budget.made_progress();
                return Poll::Ready(result);
            }
        }
        drop(budget);
        self.watch_both(cx);
        let fd = self.registered()?;
        loop {
            let mut guard = ready!(fd.poll_write_ready(cx))?;
            match guard.try_io(|fd| send(fd.get_ref())) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    /// Waits until a write would succeed, by a registration of its own that is dropped once it fires.
    ///
    /// A Unix socket becomes "writable" each time its peer reads. If one that is nearly always writable were watched for that, every message would
    /// wake us twice: when the peer reads it, and when it replies.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let watch = match self.writable.take() {
            Some(watch) => watch,
            None => match self.watch_writable() {
                Ok(watch) => watch,
                // No descriptor is left for it.
                Err(_) => return self.poll_writable_here(cx),
            },
        };
        match watch.poll_write_ready(cx) {
            Poll::Ready(ready) => Poll::Ready(ready.map(drop)),
            Poll::Pending => {
                self.writable = Some(watch);
                Poll::Pending
            }
        }
    }

    fn watch_writable(&self) -> io::Result<WatchedSocket> {
        socket::watch(self.fd().try_clone()?, Interest::WRITABLE).map_err(|(_, error)| error)
    }

    /// The same by the existing registration, at the cost of needless wake-ups. Only after a write that would have blocked: the next edge is due then.
    fn poll_writable_here(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watch_both(cx);
        let mut guard = ready!(self.registered()?.poll_write_ready(cx))?;
        guard.clear_ready();
        Poll::Ready(Ok(()))
    }

    fn watch_both(&mut self, cx: &Context<'_>) {
        if !self.interest.is_writable() {
            self.interest = self.interest.add(Interest::WRITABLE);
            self.leave_reactor();
            // The task that waits to read was registered with the registration that is gone.
            cx.waker().wake_by_ref();
        }
    }

    /// Everything was written: stops waiting for room.
    pub fn forget_writable(&mut self) {
        self.writable = None;
    }

    /// One system call, now.
    pub fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        send(self.fd(), slices)
    }

    /// One system call, now, for bytes that [`Self::poll_send_file`] follows at once: they leave with the first bytes of the file.
    pub(crate) fn write_before_file(&self, bytes: &[u8]) -> io::Result<usize> {
        send_before_file(self.fd(), bytes)
    }

    /// Waits for a reset of a connection whose read side has already ended (when the end of the stream hides
    /// every later event from [`Io::poll_readable`]).
    pub fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.hangup.is_none() {
            // Without interest in writability the write side is ready only on EPOLLHUP.
            match self.fd().try_clone().map(|copy| socket::watch(copy, Interest::READABLE)) {
                Ok(Ok(watch)) => self.hangup = Some(watch),
                // No descriptor is left for it.
                Ok(Err(_)) | Err(_) => return self.poll_reset_here(cx),
            }
        }
        match &self.hangup {
            Some(watch) => watch.poll_write_ready(cx).map(drop),
            None => Poll::Pending,
        }
    }

    /// The same by the existing registration, at the cost of needless wake-ups. A writer tries before it waits, so no edge is lost.
    fn poll_reset_here(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A socket that cannot be watched at all is unusable.
        let Ok(watch) = self.registered() else { return Poll::Ready(()) };
        loop {
            match ready!(watch.poll_write_ready(cx)) {
                Ok(mut guard) if !socket::is_over(&guard) => guard.clear_ready(),
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// Enables or disables the sender's process id on bytes that arrive at a Unix socket.
    ///
    /// # Errors
    /// The socket's.
    pub fn name_senders(&self, wanted: bool) -> io::Result<()> {
        socket::name_senders(self.fd(), wanted)
    }

    /// Waits for the next byte, without taking it, and returns the process that sent it; `None`: unknown, or the end of the stream. Only after
    /// [`Self::name_senders`].
    pub fn poll_sender(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u32>>> {
        let watch = self.registered()?;
        loop {
            let mut guard = ready!(watch.poll_read_ready(cx))?;
            match socket::sender(guard.get_ref().get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                told => return Poll::Ready(told),
            }
        }
    }

    /// The state of an idle connection: takes nothing, and does not wait.
    pub fn look(&self) -> IdleState {
        socket::look(self.fd())
    }

    /// Waits until an idle connection has an event; `look` tells which.
    pub(crate) fn poll_noise(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&Socket) -> IdleState,
    ) -> Poll<IdleState> {
        let Ok(fd) = self.registered() else { return Poll::Ready(IdleState::Closed) };
        loop {
            let Ok(mut guard) = ready!(fd.poll_read_ready(cx)) else { return Poll::Ready(IdleState::Closed) };
            match look(fd.get_ref()) {
                // Left over from a read that took exactly what there was.
                IdleState::Quiet => guard.clear_ready(),
                noise => return Poll::Ready(noise),
            }
        }
    }

    /// Removes it from its thread's reactor, so that another thread can use it.
    pub(crate) fn leave_thread(&mut self) {
        self.hangup = None;
        self.writable = None;
        self.leave_reactor();
    }

    fn leave_reactor(&mut self) {
        self.drained = true;
        self.state = match std::mem::replace(&mut self.state, IoState::Moving) {
            IoState::Registered(fd) => IoState::Fresh(fd.into_inner()),
            state => state,
        };
    }

    /// Sends FIN; what was written before is still delivered.
    pub fn shutdown_write(&self) {
        socket::shutdown_write(self.fd());
    }

    /// Nothing is read any more: on a Unix socket the peer's next write fails. `false`: it is another socket, and nothing has changed.
    pub(crate) fn shutdown_read(&self) -> bool {
        socket::shutdown_read(self.fd())
    }

    /// Acknowledges what has been read at once. `false`: the socket has no acknowledgements.
    pub(crate) fn acknowledge(&self) -> bool {
        socket::acknowledge(self.fd())
    }

    /// Bytes written that the peer has not received, as far as the kernel knows.
    pub(crate) fn queued(&self) -> usize {
        socket::queued(self.fd())
    }

    /// Makes the close a reset, so that the peer cannot take a part for the whole message.
    pub fn reset_on_close(&self) {
        socket::reset_on_close(self.fd());
    }

    /// Whether it was never waited for, and may have something to read.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        matches!(self.state, IoState::Fresh(_)) && !self.drained
    }

    /// The socket.
    pub fn fd(&self) -> &Socket {
        match &self.state {
            IoState::Fresh(fd) => fd,
            IoState::Registered(fd) => fd.get_ref(),
            IoState::Moving => unreachable!("never left in this state"),
        }
    }

    fn registered(&mut self) -> io::Result<&WatchedSocket> {
        if let IoState::Fresh(_) = self.state
            && let IoState::Fresh(fd) = std::mem::replace(&mut self.state, IoState::Moving)
        {
            match socket::watch(fd, self.interest) {
                Ok(fd) => self.state = IoState::Registered(fd),
                Err((fd, error)) => {
                    self.state = IoState::Fresh(fd);
                    return Err(error);
                }
            }
        }
        match &self.state {
            IoState::Registered(fd) => Ok(fd),
            _ => unreachable!("registered above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A socket of ours, and its peer.
    fn pair() -> (Io, UnixStream) {
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Io::new(ours.into()), peer)
    }

    /// How often `each` is ready before it yields, though it need not wait; at most `most`.
    async fn turns(most: usize, mut each: impl FnMut(&mut Context<'_>) -> Poll<()>) -> usize {
        poll_fn(|cx| Poll::Ready((0..most).take_while(|_| each(cx).is_ready()).count())).await
    }

    const MANY: usize = 4096;

    #[tokio::test]
    async fn a_peer_that_is_never_waited_for_does_not_hold_the_thread() {
        let (mut io, mut peer) = pair();
        peer.write_all(&[b'x'; MANY]).unwrap();
        let mut into = Vec::with_capacity(1);
        let mut read = |cx: &mut Context<'_>| {
            into.clear();
            // Each read fills its room: the socket is never known to be empty, nor to the reactor.
            io.poll_read(cx, &mut into).map(|got| assert_eq!(got.unwrap(), 1))
        };
        let mut all = 0;
        while all < MANY {
            let before_yielding = turns(MANY, &mut read).await;
            assert!((1..MANY / 4).contains(&before_yielding), "{before_yielding}");
            all += before_yielding;
            tokio::task::yield_now().await;
        }
        let mut write = |cx: &mut Context<'_>| {
            io.poll_write(cx, &[IoSlice::new(b"x")]).map(|count| {
                assert_eq!(count.unwrap(), 1);
                peer.read_exact(&mut [0]).unwrap();
            })
        };
        assert!((1..MANY / 4).contains(&turns(MANY, &mut write).await));
    }

    /// Without a descriptor for its own registration, whatever the existing one watches for.
    #[tokio::test]
    async fn a_reset_is_seen_by_the_registration_that_there_is() {
        for blocked in [false, true] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            ours.set_nonblocking(true).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let mut io = Io::new(OwnedFd::from(ours));
            if blocked {
                fill_and_empty(&mut io, &mut peer).await;
            }
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            let mut into = Vec::with_capacity(1);
            assert_eq!(poll_fn(|cx| io.poll_read(cx, &mut into)).await.unwrap(), 0);
            let early = poll_fn(|cx| Poll::Ready(io.poll_reset_here(cx))).await;
            assert!(early.is_pending(), "the peer still reads");
            rustix::net::sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).unwrap();
            drop(peer);
            let reset = poll_fn(|cx| io.poll_reset_here(cx));
            tokio::time::timeout(std::time::Duration::from_secs(10), reset).await.unwrap();
        }
    }

    /// Writes until nothing is taken, so that room is watched for, and then has the peer take it all.
    async fn fill_and_empty(io: &mut Io, peer: &mut std::net::TcpStream) {
        let block = [b'x'; MANY];
        let mut all = 0;
        loop {
            match poll_fn(|cx| Poll::Ready(io.poll_write(cx, &[IoSlice::new(&block)]))).await {
                Poll::Ready(wrote) => all += wrote.unwrap(),
                // Not for lack of budget.
                Poll::Pending if io.interest.is_writable() => break,
                Poll::Pending => tokio::task::yield_now().await,
            }
        }
        let mut taken = vec![0; all];
        peer.read_exact(&mut taken).unwrap();
    }
}
