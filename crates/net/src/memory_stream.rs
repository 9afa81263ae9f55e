//! A connection within the process: two ends that behave as those of a stream socket do, without a descriptor and without a system call.

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::task::coop;

use crate::client::IdleState;

/// Bytes that one end has written and the other has not yet read, at most: about what a socket holds.
const ROOM: usize = 64 * 1024;

/// One end. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct MemoryStream {
    incoming: Arc<Direction>,
    outgoing: Arc<Direction>,
    /// A close is a reset.
    resets: bool,
}

/// The bytes from one end to the other.
#[derive(Debug, Default)]
struct Direction(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// The first of `bytes` that have been read.
    read: usize,
    /// No more are written.
    end: Option<End>,
    /// Nobody reads them.
    closed: bool,
    /// The reader, while there is nothing.
    reader: Option<Waker>,
    /// The writer, while there is no room.
    writer: Option<Waker>,
    /// The writer, until nobody reads any more.
    observer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Fin,
    Reset,
}

/// Two connected ends.
pub(crate) fn pair() -> (MemoryStream, MemoryStream) {
    let (there, back) = (Arc::new(Direction::default()), Arc::new(Direction::default()));
    let one = MemoryStream { incoming: Arc::clone(&back), outgoing: Arc::clone(&there), resets: false };
    (one, MemoryStream { incoming: there, outgoing: back, resets: false })
}

impl MemoryStream {
    /// As [`Io::poll_read`](crate::Io::poll_read).
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let budget = ready!(coop::poll_proceed(cx));
        let mut state = self.incoming.state();
        let room = into.capacity() - into.len();
        let got = ready!(state.poll_take(cx, into, room));
        let writer = state.writer.take_if(|_| got.is_ok());
        drop(state);
        budget.made_progress();
        wake(writer);
        Poll::Ready(got)
    }

    /// As [`Io::poll_readable`](crate::Io::poll_readable).
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.incoming.state();
        match state.is_readable() {
            true => Poll::Ready(()),
            false => register(&mut state.reader, cx),
        }
    }

    /// Whether a read would find something.
    pub(crate) fn is_readable(&self) -> bool {
        self.incoming.state().is_readable()
    }

    /// As [`Io::write`](crate::Io::write).
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.outgoing.state();
        let count = state.append(slices)?;
        let reader = state.reader.take_if(|_| count > 0);
        drop(state);
        wake(reader);
        Ok(count)
    }

    /// As [`Io::poll_write`](crate::Io::poll_write).
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let budget = ready!(coop::poll_proceed(cx));
        loop {
            match self.write(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_writable(cx)),
                result => {
                    budget.made_progress();
                    return Poll::Ready(result);
                }
            }
        }
    }

    /// As [`Io::poll_writable`](crate::Io::poll_writable).
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.outgoing.state();
        match state.closed || state.unread() < ROOM {
            true => Poll::Ready(()),
            false => register(&mut state.writer, cx),
        }
    }

    /// Everything was written: stops waiting for room.
    pub(crate) fn forget_writable(&self) {
        self.outgoing.state().writer = None;
    }

    /// Waits until the other end is closed.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.outgoing.state();
        match state.closed {
            true => Poll::Ready(()),
            false => register(&mut state.observer, cx),
        }
    }

    /// As [`Io::look`](crate::Io::look).
    pub(crate) fn look(&self) -> IdleState {
        let state = self.incoming.state();
        match (state.unread(), state.end) {
            (0, None) => IdleState::Quiet,
            (0, Some(_)) => IdleState::Closed,
            _ => IdleState::Noisy,
        }
    }

    /// Ends this direction; what was written before is still read.
    pub(crate) fn shutdown_write(&self) {
        self.outgoing.end(End::Fin);
    }

    /// Nothing is read any more: the other end's next write fails.
    pub(crate) fn shutdown_read(&self) {
        self.incoming.close();
    }

    /// Bytes written that the other end has not read.
    pub(crate) fn queued(&self) -> usize {
        self.outgoing.state().unread()
    }

    /// Makes the close a reset.
    pub(crate) fn reset_on_close(&mut self) {
        self.resets = true;
    }
}

/// Over unread bytes the other end sees a reset, behind what was written before: as with Linux's Unix sockets.
impl Drop for MemoryStream {
    fn drop(&mut self) {
        let left = self.incoming.close();
        self.outgoing.end(if self.resets || left > 0 { End::Reset } else { End::Fin });
    }
}

impl Direction {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, end: End) {
        let mut state = self.state();
        // A FIN may be followed by a reset.
        if state.end.is_none() || end == End::Reset {
            state.end = Some(end);
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }

    /// Nobody reads it any more. Returns how many bytes were left.
    fn close(&self) -> usize {
        let mut state = self.state();
        state.closed = true;
        let left = state.unread();
        (state.bytes, state.read) = (Vec::new(), 0);
        let waiting = [state.writer.take(), state.observer.take()];
        drop(state);
        waiting.into_iter().for_each(wake);
        left
    }
}

impl State {
    fn unread(&self) -> usize {
        self.bytes.len() - self.read
    }

    fn is_readable(&self) -> bool {
        self.unread() > 0 || self.end.is_some()
    }

    /// Appends up to `room` bytes to `into`; 0 is the end.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        let unread = self.bytes.get(self.read..).unwrap_or_default();
        match (unread.len(), self.end) {
            (0, None) => register(&mut self.reader, cx),
            (0, Some(End::Fin)) => Poll::Ready(Ok(0)),
            (0, Some(End::Reset)) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            (count, _) => {
                let count = count.min(room);
                into.extend_from_slice(unread.get(..count).unwrap_or_default());
                self.read += count;
                if self.unread() == 0 {
                    self.bytes.clear();
                    self.read = 0;
                }
                Poll::Ready(Ok(count))
            }
        }
    }

    /// Appends what there is room for.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.closed || self.end.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = ROOM - self.unread();
        if room == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // What has been read makes room before more is taken.
        self.bytes.drain(..self.read);
        self.read = 0;
        let mut count = 0;
        for slice in slices {
            let part = slice.get(..slice.len().min(room - count)).unwrap_or_default();
            self.bytes.extend_from_slice(part);
            count += part.len();
        }
        Ok(count)
    }
}

fn register<T>(place: &mut Option<Waker>, cx: &Context<'_>) -> Poll<T> {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
    Poll::Pending
}

/// Outside the lock: a waker may run what it wakes.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
