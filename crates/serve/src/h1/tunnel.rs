//! A connection switched to another protocol: bytes are passed as they are (RFC 9110 §7.8).

use std::task::{Context, Poll, ready};

use keepwarm_http1::{BadField, Fields};

use super::stream::Stream;
use crate::ClientLoss;

/// Bytes per read.
const READ: usize = 16 * 1024;

impl Stream {
    pub(crate) fn begin_tunnel(&mut self, protocol: &[u8], fields: &Fields) -> Result<(), BadField> {
        self.switch_protocols(protocol, fields)?;
        self.state.tunnel = true;
        Ok(())
    }

    pub(crate) fn begin_connected_tunnel(&mut self, via: &[u8]) -> Result<(), BadField> {
        let mut fields = Fields::new();
        fields.push(b"Via", via);
        self.accept_connect(&fields)?;
        self.state.tunnel = true;
        Ok(())
    }

    /// Bytes that came before the switch belong to the tunnel, too.
    pub(crate) fn poll_tunnel(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
    ) -> Poll<Result<usize, ClientLoss>> {
        if self.storage.read.is_empty() {
            let got = ready!(self.poll_fill(cx, READ))?;
            if got == 0 {
                return Poll::Ready(Ok(0));
            }
        }
        let unread = self.storage.read.unread();
        let count = unread.len();
        into.extend_from_slice(unread);
        self.storage.read.consume(count);
        Poll::Ready(Ok(count))
    }

    pub(crate) fn send_tunnel(&mut self, bytes: &[u8]) {
        self.state.body_sent += bytes.len() as u64;
        self.storage.out.body.extend_from_slice(bytes);
    }
}
