//! Adapts a transport to the `h2` crate, and reports the frames that pass.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep};

use super::frames::{FrameEvent, Frames, PREFACE};
use crate::ReadBuffer;
use crate::transport::{Transport, WriteProgress};

/// Read at a time; while much comes, more.
const READ: usize = 16 * 1024;
const READ_LARGE: usize = 64 * 1024;
/// How long a client may take to close its side after ours, or to receive more of what was written.
const LINGER: Duration = Duration::from_secs(2);
/// The limit in total: a slow reader holds a connection no longer than this.
const LINGER_MOST: Duration = Duration::from_secs(30);

/// Observes the frames that pass.
pub trait FrameObserver {
    /// Bytes came; none: the end.
    ///
    /// # Errors
    /// They end the connection.
    fn handle_read(&self, bytes: &[u8]) -> io::Result<()>;

    /// A frame passes to the `h2` crate. `false`: hold back what follows it.
    fn handle_received(&self, passed: FrameEvent) -> bool;

    /// A frame of ours, or its front, was taken by the socket.
    fn handle_sent(&self, passed: FrameEvent);

    /// The peer is in the middle of a head, or of another frame but DATA (`Frames::is_in_head`), or no longer is.
    fn handle_in_head(&self, _in_head: bool) {}

    /// Whether nothing passes to the `h2` crate for now. The caller that lifts this wakes the connection's task.
    fn holds_back(&self) -> bool;

    /// The socket took bytes; 0: they have to wait.
    fn handle_written(&self, _count: usize) {}

    /// Whether the peer has taken nothing for too long: the connection ends with a reset, or the system would keep what the peer does not take.
    fn gives_up(&self) -> bool {
        false
    }
}

/// What carries an HTTP/2 connection.
#[derive(Debug)]
pub struct FrameTransport<W> {
    transport: Transport,
    read: ReadBuffer,
    large: bool,
    inbound: Frames,
    outbound: Frames,
    /// As last reported to the observer.
    in_head: bool,
    /// Our side has ended; until when the client's may stay open.
    lingers: Option<Linger>,
    is_server: bool,
    watch: Arc<W>,
}

/// The wait for the client's end.
#[derive(Debug)]
struct Linger {
    look: Pin<Box<Sleep>>,
    over: Instant,
    /// Bytes the client had not received at the last look.
    queued: usize,
}

impl Linger {
    fn new(transport: &Transport) -> Self {
        let (look, over) = (Box::pin(sleep(LINGER)), Instant::now() + LINGER_MOST);
        Self { look, over, queued: transport.queued() }
    }

    /// Whether the client's time is over. A client that still receives gets more time: it also sends, if only WINDOW_UPDATE, and a closed socket
    /// would respond with a reset, which destroys what has not arrived.
    fn poll_over(&mut self, cx: &mut Context<'_>, transport: &Transport) -> Poll<()> {
        loop {
            ready!(self.look.as_mut().poll(cx));
            let (before, now) = (std::mem::replace(&mut self.queued, transport.queued()), Instant::now());
            if self.queued == 0 || self.queued >= before || now >= self.over {
                return Poll::Ready(());
            }
            self.look.as_mut().reset(self.over.min(now + LINGER));
        }
    }
}

impl<W: FrameObserver> FrameTransport<W> {
    /// The client's role.
    pub(super) fn client(transport: Transport, watch: Arc<W>) -> Self {
        let (inbound, outbound) = (Frames::default(), Frames::after(PREFACE.len()));
        let read = ReadBuffer::default();
        let (large, in_head, lingers, is_server) = (false, true, None, false);
        Self { transport, read, large, inbound, outbound, in_head, lingers, is_server, watch }
    }

    /// The server's role; `read` has already arrived.
    pub fn server(transport: Transport, read: ReadBuffer, watch: Arc<W>) -> Self {
        let (inbound, outbound) = (Frames::after(PREFACE.len()), Frames::default());
        let (large, in_head, lingers, is_server) = (false, true, None, true);
        Self { transport, read, large, inbound, outbound, in_head, lingers, is_server, watch }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = if self.large { READ_LARGE } else { READ };
        let got = ready!(self.transport.poll_read(cx, self.read.storage(room)))?;
        self.large = got >= READ;
        Poll::Ready(self.watch.handle_read(self.read.unread()).map(|()| got))
    }

    /// Waits until something of `slices` is taken.
    fn poll_send(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            match self.transport.write(slices) {
                Ok(WriteProgress { taken: taken @ 1.., .. }) => {
                    // Under TLS, it may leave only later: assuming that it left errs on the safe side.
                    self.follow(slices, taken);
                    return Poll::Ready(Ok(taken));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.watch.handle_written(0);
                    if self.watch.gives_up() {
                        self.transport.reset_on_close();
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    ready!(self.transport.poll_writable(cx))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(WriteProgress { taken: 0, .. }) if slices.iter().all(|slice| slice.is_empty()) => {
                    return Poll::Ready(Ok(0));
                }
                // Bytes taken before went first.
                Ok(WriteProgress { taken: 0, .. }) => {}
            }
        }
    }

    /// Waits for the client to close, and discards its bytes: a close over unread bytes is a reset, and destroys what the client has not read.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let linger = self.lingers.get_or_insert_with(|| Linger::new(&self.transport));
        if linger.poll_over(cx, &self.transport).is_ready() {
            return Poll::Ready(());
        }
        loop {
            self.read.consume(self.read.unread().len());
            if !matches!(ready!(self.transport.poll_read(cx, self.read.storage(READ))), Ok(1..)) {
                return Poll::Ready(());
            }
        }
    }

    fn follow(&mut self, slices: &[IoSlice<'_>], mut sent: usize) {
        let watch = &self.watch;
        watch.handle_written(sent);
        for slice in slices {
            let (taken, _) = slice.split_at(sent.min(slice.len()));
            sent -= taken.len();
            self.outbound.feed(taken, |passed| {
                watch.handle_sent(passed);
                true
            });
        }
    }
}

impl<W: FrameObserver> AsyncRead for FrameTransport<W> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.watch.holds_back() {
            return Poll::Pending;
        }
        match wire.read.is_empty() {
            true if ready!(wire.poll_fill(cx))? == 0 => return Poll::Ready(Ok(())),
            true => {}
            // The socket counts each read against the task's budget. Frames are counted here: one read may hold many small ones.
            false => ready!(coop::poll_proceed(cx)).made_progress(),
        }
        let bytes = wire.read.unread();
        let (bytes, _) = bytes.split_at(into.remaining().min(bytes.len()));
        let watch = &wire.watch;
        let passed = wire.inbound.feed(bytes, |passed| watch.handle_received(passed));
        let in_head = wire.inbound.is_in_head();
        if in_head != std::mem::replace(&mut wire.in_head, in_head) {
            watch.handle_in_head(in_head);
        }
        let (bytes, _) = bytes.split_at(passed);
        into.put_slice(bytes);
        wire.read.consume(passed);
        Poll::Ready(Ok(()))
    }
}

impl<W: FrameObserver> AsyncWrite for FrameTransport<W> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().transport.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.lingers.is_none() {
            // What the client still sends is not read as frames.
            wire.watch.handle_in_head(false);
            wire.transport.shutdown_write();
            ready!(wire.transport.poll_flush(cx))?;
        }
        match wire.is_server {
            true => wire.poll_linger(cx).map(Ok),
            false => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};

    use super::*;
    use crate::Io;

    struct NoObserver;

    impl FrameObserver for NoObserver {
        fn handle_read(&self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn handle_received(&self, _: FrameEvent) -> bool {
            true
        }

        fn handle_sent(&self, _: FrameEvent) {}

        fn holds_back(&self) -> bool {
            false
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_still_gets_what_was_written_has_time_to_end() {
        let (ours, mut client) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut wire =
            FrameTransport::server(Io::new(ours.into()).into(), ReadBuffer::default(), Arc::new(NoObserver));
        // Linux counts what a write gave to a Unix socket until all of it is read.
        for _ in 0..16 {
            let write = poll_fn(|cx| Pin::new(&mut wire).poll_write(cx, &[0; 1024]));
            assert_eq!(write.await.unwrap(), 1024);
        }
        let mut is_over =
            async || poll_fn(|cx| Poll::Ready(Pin::new(&mut wire).poll_shutdown(cx).is_ready())).await;
        for kilobyte in 0..8 {
            assert!(!is_over().await, "{kilobyte}");
            client.read_exact(&mut [0; 1024]).unwrap();
            // As it frees room.
            client.write_all(&[0; 13]).unwrap();
            tokio::time::advance(LINGER - Duration::from_millis(100)).await;
        }
        assert!(!is_over().await);
        tokio::time::advance(LINGER + Duration::from_millis(100)).await;
        assert!(is_over().await, "it has got nothing for two seconds");
    }

    #[tokio::test]
    async fn what_one_read_brought_is_not_taken_apart_in_one_turn() {
        let (ours, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        peer.write_all(&[0; READ]).unwrap();
        let mut wire =
            FrameTransport::server(Io::new(ours.into()).into(), ReadBuffer::default(), Arc::new(NoObserver));
        let mut small = [0; 9];
        let reads = poll_fn(|cx| {
            let mut read = || Pin::new(&mut wire).poll_read(cx, &mut ReadBuf::new(&mut small));
            Poll::Ready((0..READ / 9).take_while(|_| read().is_ready()).count())
        });
        assert!((2..READ / 90).contains(&reads.await));
    }
}
