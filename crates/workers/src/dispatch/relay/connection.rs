//! A connection to a worker's server, or a stream of one, with one request.

use keepwarm_http1::{Fields, ResponseHead};
use keepwarm_net::{Call, Lease};
use keepwarm_serve::ServerExchange;

use super::super::fastcgi::FastCgi;
use super::child::ChildGuard;

/// A connection to a worker's server, with one request. Dropped before its end, it cancels the request.
pub(in crate::dispatch) trait ServerConnection: ServerExchange {
    /// Bytes of the request's body.
    fn send(&mut self, bytes: &[u8]);

    /// The request is complete.
    fn end(&mut self, trailers: &Fields);

    /// The latest head of the response.
    fn head(&self) -> &ResponseHead;

    /// Whether several reads were needed for a small head.
    fn head_came_in_pieces(&self) -> bool;

    /// A byte of the request was written. If not, no server has begun to process it.
    fn has_sent(&self) -> bool;

    /// It carried, or waited for, other requests before.
    fn was_kept(&self) -> bool;

    /// The response has come to its end: the connection is kept if possible.
    fn finish(self);

    /// The server may declare a request unprocessed after bytes of its body were sent (RFC 9113 §8.7).
    fn may_be_declined(&self) -> bool {
        false
    }

    /// Bytes of the request that the server has not read.
    fn unread(&self) -> usize {
        0
    }

    /// Nobody reads the rest of the response: a script notices when it prints more. The connection cannot be kept. `false`: it cannot be told.
    fn refuse_rest(&mut self) -> bool {
        false
    }

    /// What the server said beside its response, for the log.
    fn take_words(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// The process at the other end, of a server that keeps its own.
    fn child_guard(&self) -> Option<&ChildGuard> {
        None
    }

    /// The path to serve in place of this response, whose head has come (RFC 3875 §6.2.2).
    fn local_redirect(&self) -> Option<Vec<u8>> {
        None
    }
}

impl ServerConnection for Call {
    fn send(&mut self, bytes: &[u8]) {
        self.send(bytes);
    }

    fn end(&mut self, trailers: &Fields) {
        self.end(trailers);
    }

    fn head(&self) -> &ResponseHead {
        self.head()
    }

    fn head_came_in_pieces(&self) -> bool {
        self.head_came_in_pieces()
    }

    fn has_sent(&self) -> bool {
        self.has_sent()
    }

    fn was_kept(&self) -> bool {
        self.idle().is_some()
    }

    fn finish(self) {
        self.finish();
    }

    fn may_be_declined(&self) -> bool {
        matches!(self, Self::Http2(_))
    }
}

impl ServerConnection for Lease<FastCgi> {
    fn send(&mut self, bytes: &[u8]) {
        (**self).send(bytes);
    }

    fn end(&mut self, trailers: &Fields) {
        (**self).end(trailers);
    }

    fn head(&self) -> &ResponseHead {
        (**self).head()
    }

    /// PHP writes a head whole. What comes in several reads is what the script has logged before it.
    fn head_came_in_pieces(&self) -> bool {
        false
    }

    fn has_sent(&self) -> bool {
        (**self).has_sent()
    }

    fn was_kept(&self) -> bool {
        self.idle().is_some()
    }

    fn finish(self) {
        self.finish();
    }

    fn unread(&self) -> usize {
        (**self).unread()
    }

    fn refuse_rest(&mut self) -> bool {
        (**self).shutdown_read()
    }

    fn take_words(&mut self) -> Vec<u8> {
        keepwarm_net::Codec::take_words(self.codec())
    }

    fn child_guard(&self) -> Option<&ChildGuard> {
        self.protocol().child_guard.as_ref()
    }

    fn local_redirect(&self) -> Option<Vec<u8>> {
        self.protocol().named_path()
    }
}
