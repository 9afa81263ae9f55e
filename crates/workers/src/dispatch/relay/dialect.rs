//! What a protocol adds to the relay.

use keepwarm_http1::RequestBody;
use keepwarm_net::{AcquireError, ConnectionNeed};
use keepwarm_serve::Request;

use super::Relay;
use super::connection::ServerConnection;
use super::server::Server;

/// What a protocol adds to the relay.
pub(in crate::dispatch) trait Dialect: Sized + 'static {
    /// Its servers are not made to wait for clients: requests are read whole before, and responses are read faster than clients take them.
    const BLOCKING: bool;
    /// Its workers close no idle connection but by ending: any kept one will do for any request.
    const CLOSES_NEVER: bool;
    /// What a request is for, beyond its head.
    type Destination;
    /// A connection to a server, with one request.
    type Connection: ServerConnection + 'static;

    /// A connection to this server, for the relay's request.
    ///
    /// # Errors
    /// There is none.
    async fn connect(
        relay: &Relay<'_, '_, Self>,
        server: &Server,
        need: ConnectionNeed,
    ) -> Result<Self::Connection, AcquireError>;

    /// Begins the request.
    fn begin(
        connection: &mut Self::Connection,
        request: &Request,
        context: &HeadContext<'_>,
        destination: &Self::Destination,
    );

    /// The fields of a response that are its client's.
    fn response_fields(connection: &Self::Connection) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        keepwarm_serve::response_fields(connection.head())
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
    /// What a client that opens a WebSocket expects as `Sec-WebSocket-Accept`.
    pub(in crate::dispatch) websocket_accept: Option<&'a str>,
}
