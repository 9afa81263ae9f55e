//! Forwarding between a client and a server of ours, for any hop between them: fields, informational responses, tunnels.

use std::future::Future;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Method;
use keepwarm_http1::{BadField, Fields, HopByHop, RequestBody, ResponseHead};
use keepwarm_net::{ClientError, Codec, Lease, ResponsePart, SwitchTarget, WaitKind};

use crate::websocket::accept_key;
use crate::{BodyError, ClientLoss, Exchange, Request};

/// Unsent bytes to one side above which the other has to wait.
pub const UNSENT_ENOUGH: usize = 128 * 1024;
/// A declared body up to this size is waited for, and for this long.
const READ_FIRST: u64 = 16 * 1024;
const READ_FIRST_WAIT: Duration = Duration::from_millis(2);

/// The protocols that a client offers to switch to, as a list. None with a body: it would be unclear to which protocol the following bytes belong.
pub fn offered_protocols(exchange: &Exchange<'_>) -> Vec<u8> {
    let request = exchange.request();
    if !request.head.upgrade || !exchange.body_done() {
        return Vec::new();
    }
    request.head.upgrade_protocols().collect::<Vec<_>>().join(b", ".as_slice())
}

/// What a client that offers to switch protocols wants most: a WebSocket, where it opens one.
pub fn switch_target(exchange: &Exchange<'_>) -> SwitchTarget {
    match websocket_key(exchange) {
        Some(_) => SwitchTarget::WebSocket,
        None => SwitchTarget::Other,
    }
}

/// The `Sec-WebSocket-Accept` that the client expects, if the request opens a WebSocket.
pub fn websocket_accept(exchange: &Exchange<'_>) -> Option<String> {
    websocket_key(exchange).map(accept_key)
}

fn websocket_key<'e>(exchange: &'e Exchange<'_>) -> Option<&'e [u8]> {
    let head = &exchange.request().head;
    let opens = head.upgrade
        && head.method == Method::GET
        && exchange.body_done()
        && head.upgrade_protocols().any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"));
    head.fields.first("sec-websocket-key").filter(|_| opens)
}

/// Path and query as forwarded: normalized, without the prefix that the route stripped.
pub fn request_target(request: &Request) -> Vec<u8> {
    let path = request.path().get(request.mount()..).unwrap_or_default();
    let query = request.head.query();
    let mut target = Vec::with_capacity(path.len() + query.map_or(0, <[u8]>::len) + 2);
    if !path.starts_with(b"/") && path != b"*" {
        target.push(b'/');
    }
    target.extend_from_slice(path);
    if let Some(query) = query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

/// The fields of a server's response that are meant for its client.
pub fn response_fields(head: &ResponseHead) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    let kept = is_for_client(head);
    head.fields.iter().filter(move |(name, _)| kept(name))
}

/// Whether a field of a server's response is meant for its client, by its name in lower case.
pub fn is_for_client(head: &ResponseHead) -> impl Fn(&[u8]) -> bool + Clone {
    let hop_by_hop = HopByHop::of(&head.fields);
    // RFC 9110 §15.5.22: 426 MUST name the protocol.
    let says_protocol = head.status.as_u16() == 426;
    move |name: &[u8]| !hop_by_hop.removes(name) || (says_protocol && name == b"upgrade")
}

/// Whether a request's body is so small that it is read before the backend is called: then it leaves with the head, in one write, and can be retried.
pub fn is_read_first(request: &Request) -> bool {
    let small = matches!(request.head.body, RequestBody::Length(length) if length <= READ_FIRST);
    small && request.passing().buffer_request != Some(false)
}

/// Waits for all of such a body. A client that continues only after a reply from the server is not held up: bytes that have come by then are
/// forwarded, and the rest as it comes.
///
/// # Errors
/// Those of `whole`.
pub async fn read_first(whole: impl Future<Output = Result<(), BodyError>>) -> Result<(), BodyError> {
    tokio::time::timeout(READ_FIRST_WAIT, whole).await.unwrap_or(Ok(()))
}

/// Forwards a 1xx response, with `more` fields.
pub fn pass_informational<'a>(
    exchange: &mut Exchange<'_>,
    head: &'a ResponseHead,
    more: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) {
    exchange.informational(head.status.as_u16(), response_fields(head).chain(more));
}

/// A connection to a server with one request: its response, and the tunnel that it may become.
pub trait ServerExchange {
    /// The next part of the response. After [`ResponsePart::End`] and after an error there is none.
    ///
    /// # Errors
    /// No response will come, or only a part of it.
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>>;

    /// Bytes of the tunnel. `Ok(&[])` is its end.
    ///
    /// # Errors
    /// The connection is lost.
    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>>;

    /// Bytes into the tunnel; [`Self::poll_flush`] writes them.
    fn send_tunnel(&mut self, bytes: &[u8]);

    /// Bytes queued and not yet taken.
    fn unsent(&self) -> usize;

    /// Writes queued bytes.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Ends our side of the tunnel.
    fn shutdown_write(&mut self);
}

impl<C: Codec> ServerExchange for Lease<C> {
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>> {
        (**self).poll_response(cx)
    }

    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        (**self).poll_tunnel(cx)
    }

    fn send_tunnel(&mut self, bytes: &[u8]) {
        (**self).send_tunnel(bytes);
    }

    fn unsent(&self) -> usize {
        (**self).unsent()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_flush(cx)
    }

    fn shutdown_write(&mut self) {
        (**self).shutdown_write();
    }
}

/// A connection switched to another protocol: bytes both ways, until both sides have ended or nothing has moved for too long.
#[derive(Debug)]
pub struct Tunnel {
    client_ended: bool,
    server_ended: bool,
    /// The client's end was passed to the server.
    told: bool,
    idle: Duration,
    block: Vec<u8>,
    moved: TunnelBytes,
}

/// Bytes that a tunnel has moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TunnelBytes {
    /// From the client to the server.
    pub sent: u64,
    /// From the server to the client.
    pub received: u64,
}

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelEnd {
    /// The server has ended, and its client has all of it; or both have.
    Over,
    /// The client was lost.
    ClientLost(ClientLoss),
    /// Nothing moved for too long.
    Idle,
}

impl Tunnel {
    /// Its server has switched (`101`) to a protocol that the client offered: passes that on, with `more` fields.
    ///
    /// # Errors
    /// An invalid field.
    pub fn switch<'a>(
        exchange: &mut Exchange<'_>,
        head: &'a ResponseHead,
        more: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Self, BadField> {
        let mut fields = Fields::new();
        response_fields(head).chain(more).for_each(|(name, value)| fields.push(name, value));
        let protocol = head.fields.first("upgrade").unwrap_or(b"websocket");
        exchange.begin_tunnel(protocol, &fields)?;
        Ok(Self::of(exchange))
    }

    /// For a client that has already been switched.
    pub fn of(exchange: &Exchange<'_>) -> Self {
        let idle = exchange.limits().websocket.idle;
        exchange.deadlines().set_after(WaitKind::Response, idle);
        Self {
            client_ended: false,
            server_ended: false,
            told: false,
            idle,
            block: Vec::new(),
            moved: TunnelBytes::default(),
        }
    }

    /// What it has moved so far.
    pub fn moved(&self) -> TunnelBytes {
        self.moved
    }

    /// Moves all possible bytes. Ready when no more will come.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
        server: &mut impl ServerExchange,
    ) -> Poll<TunnelEnd> {
        loop {
            let down = self.poll_downwards(cx, exchange, server);
            let up = self.poll_upwards(cx, exchange, server);
            let flushed = match exchange.poll_flush(cx) {
                Poll::Ready(Err(gone)) => return Poll::Ready(TunnelEnd::ClientLost(gone)),
                flushed => flushed.is_ready(),
            };
            if self.server_ended && flushed {
                return Poll::Ready(TunnelEnd::Over);
            }
            if down == TransferResult::Moved || up == TransferResult::Moved {
                exchange.deadlines().set_after(WaitKind::Response, self.idle);
                continue;
            }
            // Room that the writes made: a side without room was not read, and so nothing there wakes us.
            if (down == TransferResult::Full && exchange.unsent() < UNSENT_ENOUGH)
                || (up == TransferResult::Full && server.unsent() < UNSENT_ENOUGH)
            {
                continue;
            }
            if exchange.deadlines().poll_passed(WaitKind::Response, cx) {
                exchange.request_mut().notes.reason.get_or_insert("tunnel_idle");
                return Poll::Ready(TunnelEnd::Idle);
            }
            return Poll::Pending;
        }
    }

    /// From the server to the client; the caller writes it.
    fn poll_downwards(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
        server: &mut impl ServerExchange,
    ) -> TransferResult {
        if self.server_ended {
            return TransferResult::Waiting;
        }
        if exchange.unsent() >= UNSENT_ENOUGH {
            return TransferResult::Full;
        }
        match server.poll_tunnel(cx) {
            Poll::Ready(Ok(bytes)) if !bytes.is_empty() => {
                self.moved.received += bytes.len() as u64;
                exchange.send_tunnel(bytes);
            }
            Poll::Ready(_) => self.server_ended = true,
            Poll::Pending => return TransferResult::Waiting,
        }
        TransferResult::Moved
    }

    /// From the client to the server.
    fn poll_upwards(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
        server: &mut impl ServerExchange,
    ) -> TransferResult {
        let mut flow = TransferResult::Waiting;
        if !self.client_ended && server.unsent() >= UNSENT_ENOUGH {
            flow = TransferResult::Full;
        } else if !self.client_ended {
            self.block.clear();
            if let Poll::Ready(got) = exchange.poll_tunnel(cx, &mut self.block) {
                flow = TransferResult::Moved;
                match got {
                    Ok(1..) => {
                        self.moved.sent += self.block.len() as u64;
                        server.send_tunnel(&self.block);
                    }
                    Ok(0) | Err(_) => self.client_ended = true,
                }
            }
        }
        if server.poll_flush(cx).is_ready() && self.client_ended && !self.told {
            self.told = true;
            server.shutdown_write();
            // Under TLS the end is also written: no other event would wake us when there is room for it.
            let _ = server.poll_flush(cx);
        }
        flow
    }
}

/// The result of one turn in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferResult {
    /// Bytes moved.
    Moved,
    /// Nothing was read: earlier bytes have to leave first.
    Full,
    /// Nothing has come, or nothing will.
    Waiting,
}
