//! A file as part of a response: the kernel copies it to the socket.

use std::fs::File;
use std::task::{Context, Poll, ready};

use keepwarm_http1::ResponseFraming;
use rustix::io::Errno;

use super::stream::{ResponseState, Stream};
use crate::ClientLoss;
use crate::exchange::FileProgress;

impl Stream {
    /// Whether the next bytes of the response can be a file's: it has a length, and what is sent is what the socket gets.
    pub(crate) fn sends_files(&self) -> bool {
        match &self.state.response {
            ResponseState::Started { plan, .. } => {
                plan.send_body && matches!(plan.framing, ResponseFraming::Length(_)) && self.io.sends_files()
            }
            _ => false,
        }
    }

    /// Writes what precedes a file, so that it leaves with it. What the socket does not take, and an error, is left to `poll_flush`.
    fn write_before_file(&mut self) {
        let (slices, _) = self.storage.out.slices();
        let [first, _] = slices;
        if first.is_empty() {
            return;
        }
        if let Ok(written) = self.io.write_before_file(&first) {
            self.storage.out.advance(written);
            self.note_written(written);
        }
    }

    pub(crate) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        at: u64,
        max: usize,
    ) -> Poll<Result<FileProgress, ClientLoss>> {
        self.write_before_file();
        ready!(self.poll_flush(cx))?;
        let ResponseState::Started { remaining, .. } = &mut self.state.response else {
            return Poll::Ready(Ok(FileProgress::Unsupported));
        };
        let max = usize::try_from(*remaining).unwrap_or(usize::MAX).min(max);
        match self.io.poll_send_file(cx, file, at, max) {
            Poll::Ready(Ok(0)) => Poll::Ready(Ok(FileProgress::End)),
            Poll::Ready(Ok(sent)) => {
                *remaining = remaining.saturating_sub(sent as u64);
                self.state.body_sent += sent as u64;
                self.note_written(sent);
                Poll::Ready(Ok(FileProgress::Sent(sent)))
            }
            Poll::Ready(Err(error)) => match Errno::from_io_error(&error) {
                Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::IO) => {
                    Poll::Ready(Ok(FileProgress::Unsupported))
                }
                _ => Poll::Ready(Err(self.lost(ClientLoss::Reset))),
            },
            Poll::Pending => self.poll_write_deadline(cx),
        }
    }
}
