//! A script's end of a connection as `AsyncRead` and `AsyncWrite`, for libraries that want those: slow, cut off, or with its frames changed on their way.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::frames::Frames;
use crate::line::Line;
use crate::response::Pace;

/// How the bytes pass.
#[derive(Debug, Clone)]
pub(crate) struct PipePlan {
    pub(crate) reads: Pace,
    pub(crate) writes: Pace,
    /// After this many bytes written, nothing more of it comes.
    pub(crate) cut: Option<(usize, Cut)>,
    /// After this many bytes read, it reads nothing for this long.
    pub(crate) stall: Option<(usize, Duration)>,
}

/// How a connection is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Closes,
    Resets,
    HalfCloses,
    /// It stays open, and silent.
    Stops,
}

/// One end of a connection.
pub(crate) struct Pipe {
    /// `None`: it was cut.
    peer: Option<Box<dyn Line>>,
    plan: PipePlan,
    frames: Option<Frames>,
    out: Vec<u8>,
    sent: usize,
    sent_since: usize,
    writing_pauses: Option<Pin<Box<Sleep>>>,
    got: usize,
    got_since: usize,
    reading_pauses: Option<Pin<Box<Sleep>>>,
    is_cut: bool,
    serves: bool,
    waits: bool,
}

/// As much as it takes before its peer does.
const ROOM: usize = 16 * 1024;

impl Pipe {
    pub(crate) fn new(peer: Box<dyn Line>, plan: PipePlan, frames: Option<Frames>) -> Self {
        Self {
            peer: Some(peer),
            plan,
            frames,
            out: Vec::new(),
            sent: 0,
            sent_since: 0,
            writing_pauses: None,
            got: 0,
            got_since: 0,
            reading_pauses: None,
            is_cut: false,
            serves: false,
            waits: false,
        }
    }

    /// Of a server, which reads whatever becomes of its writes: it takes all that the library writes, as much as the client's windows have room for. Its end waits for the client's: a close
    /// over what that still sends would be a reset, and lose what the client has not read.
    pub(crate) fn serving(self) -> Self {
        Self { serves: true, ..self }
    }

    /// Nothing is read while something waits to be written.
    pub(crate) fn waiting(self, waits: bool) -> Self {
        Self { waits, ..self }
    }

    /// Writes what waits. Ready: nothing does.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(frames) = &mut self.frames {
            frames.poll_late(cx, &mut self.out);
        }
        while !self.out.is_empty() {
            ready!(poll_pause(&mut self.writing_pauses, cx));
            let left = self.plan.cut.map_or(usize::MAX, |(at, _)| at.saturating_sub(self.sent));
            if left == 0 {
                return self.poll_cut();
            }
            let Some(peer) = &self.peer else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
            let most = self.out.len().min(self.plan.writes.piece.max(1)).min(left);
            let count = ready!(peer.poll_write(cx, &self.out[..most]))?;
            self.out.drain(..count);
            self.sent += count;
            self.sent_since += count;
            if self.sent_since >= self.plan.writes.every {
                self.sent_since = 0;
                self.writing_pauses = Some(Box::pin(sleep(self.plan.writes.pause)));
            }
        }
        match &self.peer {
            Some(peer) => peer.poll_flush(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_cut(&mut self) -> Poll<io::Result<()>> {
        let first = !std::mem::replace(&mut self.is_cut, true);
        match self.plan.cut {
            Some((_, Cut::Closes)) => self.peer = None,
            Some((_, Cut::Resets)) => {
                if let Some(peer) = self.peer.take() {
                    peer.reset();
                }
            }
            // It keeps reading; what it writes goes nowhere.
            Some((_, Cut::HalfCloses | Cut::Stops)) | None => {
                let closes = first && matches!(self.plan.cut, Some((_, Cut::HalfCloses)));
                if let Some(peer) = self.peer.as_ref().filter(|_| closes) {
                    peer.shutdown_write();
                }
                self.out.clear();
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }
}

fn poll_pause(pause: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
    if let Some(sleep) = pause {
        ready!(sleep.as_mut().poll(cx));
        *pause = None;
    }
    Poll::Ready(())
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // What was held back leaves, whatever the library is at.
        match this.poll_drain(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending if this.waits => return Poll::Pending,
            _ => {}
        }
        ready!(poll_pause(&mut this.reading_pauses, cx));
        if let Some((_, pause)) = this.plan.stall.take_if(|(at, _)| this.got >= *at) {
            this.reading_pauses = Some(Box::pin(sleep(pause)));
            ready!(poll_pause(&mut this.reading_pauses, cx));
        }
        let Some(peer) = &this.peer else { return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())) };
        let mut bytes = Vec::new();
        let most = into.remaining().min(this.plan.reads.piece.max(1));
        let count = ready!(peer.poll_read(cx, &mut bytes, most))?;
        into.put_slice(&bytes);
        this.got += count;
        this.got_since += count;
        if this.got_since >= this.plan.reads.every {
            this.got_since = 0;
            this.reading_pauses = Some(Box::pin(sleep(this.plan.reads.pause)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.out.len() >= ROOM && !this.serves {
            ready!(this.poll_drain(cx))?;
        }
        match &mut this.frames {
            Some(frames) => frames.take(bytes, &mut this.out),
            None => this.out.extend_from_slice(bytes),
        }
        match this.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.poll_drain(cx) {
            Poll::Pending if this.serves => Poll::Ready(Ok(())),
            drained => drained,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        if let Some(peer) = this.peer.as_ref().filter(|_| !this.is_cut) {
            peer.shutdown_write();
            ready!(peer.poll_flush(cx))?;
        }
        while let Some(peer) = this.peer.as_ref().filter(|_| this.serves && !this.is_cut) {
            if !matches!(ready!(peer.poll_read(cx, &mut Vec::new(), ROOM)), Ok(1..)) {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
