//! What a protocol adds to the relay.

use std::sync::Arc;

use keepwarm_http1::RequestBody;
use keepwarm_net::{Client, Codec, Pool};
use keepwarm_serve::Request;

use super::super::app::App;
use super::child::ChildGuard;

/// What a protocol adds to the relay.
pub(in crate::dispatch) trait Dialect: Codec + Sized {
    /// Its servers are not made to wait for clients: requests are read whole before, and responses are read faster than clients take them.
    const BLOCKING: bool;
    /// Its workers close no idle connection but by ending: any kept one will do for any request.
    const CLOSES_NEVER: bool;
    /// What a request is for, beyond its head.
    type Destination;

    /// The app's connections.
    fn pool(app: &App) -> &Arc<Pool<Self>>;

    /// Appends the head of a request.
    fn encode_request(
        &mut self,
        out: &mut Vec<u8>,
        request: &Request,
        context: &HeadContext<'_>,
        destination: &Self::Destination,
    );

    /// Appends a request that a process responds to by itself, without a script.
    fn encode_ping(&mut self, _out: &mut Vec<u8>) {}

    /// The process at the other end, of a server that keeps its own.
    fn child_guard(&self) -> Option<&ChildGuard> {
        None
    }

    /// This is the process at the other end.
    fn set_child_guard(&mut self, _line: ChildGuard) {}

    /// The fields of a response that are its client's.
    fn response_fields(client: &Client<Self>) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        keepwarm_serve::response_fields(client.head())
    }

    /// The path to serve in place of this response, whose head has come (RFC 3875 §6.2.2).
    fn local_redirect(&self) -> Option<Vec<u8>> {
        None
    }
}

/// What the relay adds to the head of the client's request.
pub(in crate::dispatch) struct HeadContext<'a> {
    /// How the body follows.
    pub(in crate::dispatch) framing: RequestBody,
    /// The body is held back until the server says that it wants it.
    pub(in crate::dispatch) expects: bool,
    /// The protocols that the client offers to switch to.
    pub(in crate::dispatch) upgrade: Option<&'a [u8]>,
}
