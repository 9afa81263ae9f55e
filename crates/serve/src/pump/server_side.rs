//! The shared part of the two backends that act as clients, over HTTP or FastCGI: the parts of a response, a body that is held back, a tunnel.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use keepwarm_http1::{BadField, Fields, ResponseHead};
use keepwarm_telemetry::stalls::Stall;
use tokio::time::Sleep;

use crate::{Exchange, ResponseBuffer, ServerExchange, Tunnel, TunnelBytes, TunnelEnd};
use keepwarm_net::{ClientError, ResponsePart};

/// How long to wait for a server's reaction to an expectation (`spec/http.md` §2).
const EXPECT: Duration = Duration::from_millis(250);

/// The server's side of a request.
#[derive(Debug, Default)]
pub struct ServerSide {
    /// The body is held back: the time left for the server to request it.
    expectation: Option<Pin<Box<Sleep>>>,
    /// Rare, and so in a box: the future of a request should fit an allocator's cached size (glibc: 1,032 bytes).
    trailers: Option<Box<Fields>>,
    tunnel: Option<Box<Tunnel>>,
}

/// A part received from a server.
#[derive(Debug)]
pub enum ServerPart {
    /// Nothing yet.
    Waiting,
    /// `100 Continue`.
    Continue,
    /// Another informational response.
    Informational,
    /// The head of the response.
    Head,
    /// Bytes of its body, which were passed on.
    Data(usize),
    /// Its trailers, which wait for its end.
    Trailers,
    /// Its end; [`ServerSide::end`] passes it on.
    End,
    /// No response will come, or only a part of it.
    Failed(ClientError),
}

/// Whether a body that its client holds back until requested may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferedBody {
    /// Not yet.
    Held,
    /// It may.
    Released,
    /// It may, since the server has let the time pass.
    Ignored,
}

impl ServerSide {
    /// Holds the body back until the server requests it, or the time is over.
    pub fn hold_body(&mut self) {
        self.expectation = Some(Box::pin(tokio::time::sleep(EXPECT)));
    }

    /// Whether the body is held back.
    pub fn holds_body(&self) -> bool {
        self.expectation.is_some()
    }

    /// The server has requested the body. `true`: it was held back.
    pub fn release_body(&mut self) -> bool {
        self.expectation.take().is_some()
    }

    /// Whether the body may be sent: the server wants it, the client does not wait for that, or the time is over.
    pub fn poll_held_body(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange<'_>) -> BufferedBody {
        let Some(timer) = &mut self.expectation else { return BufferedBody::Released };
        let mut verdict = BufferedBody::Released;
        if exchange.poll_body_begun(cx).is_pending() {
            if timer.as_mut().poll(cx).is_pending() {
                return BufferedBody::Held;
            }
            exchange.request_mut().notes.stalls.insert(Stall::ExpectationIgnored);
            verdict = BufferedBody::Ignored;
        }
        self.expectation = None;
        exchange.want_body();
        verdict
    }

    /// Takes the next part of the response, and forwards those of its body.
    pub fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        server: &mut impl ServerExchange,
        exchange: &mut Exchange<'_>,
        response: &mut ResponseBuffer,
    ) -> ServerPart {
        match server.poll_response(cx) {
            Poll::Pending => ServerPart::Waiting,
            Poll::Ready(Err(error)) => ServerPart::Failed(error),
            Poll::Ready(Ok(ResponsePart::Informational(head))) if head.status.as_u16() == 100 => {
                ServerPart::Continue
            }
            Poll::Ready(Ok(ResponsePart::Informational(_))) => ServerPart::Informational,
            Poll::Ready(Ok(ResponsePart::Head(_))) => ServerPart::Head,
            Poll::Ready(Ok(ResponsePart::Data(bytes))) => {
                response.data(exchange, bytes);
                ServerPart::Data(bytes.len())
            }
            Poll::Ready(Ok(ResponsePart::Trailers(fields))) => {
                self.trailers = Some(Box::new(fields.clone()));
                ServerPart::Trailers
            }
            Poll::Ready(Ok(ResponsePart::End)) => ServerPart::End,
        }
    }

    /// The response has ended. `true`: all of it is with the client's connection.
    pub fn end(&mut self, exchange: &mut Exchange<'_>, response: &mut ResponseBuffer) -> bool {
        let trailers = self.trailers.take().unwrap_or_default();
        response.end(exchange, trailers.iter())
    }

    /// The server has switched protocols (`101`): passes that on, with `more` fields.
    ///
    /// # Errors
    /// An invalid field.
    pub fn switch<'a>(
        &mut self,
        exchange: &mut Exchange<'_>,
        head: &'a ResponseHead,
        more: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), BadField> {
        self.tunnel = Some(Box::new(Tunnel::switch(exchange, head, more)?));
        Ok(())
    }

    /// Whether the two sides have switched protocols.
    pub fn is_switched(&self) -> bool {
        self.tunnel.is_some()
    }

    /// Moves the bytes of the other protocol.
    pub fn poll_tunnel(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
        server: &mut impl ServerExchange,
    ) -> Poll<TunnelEnd> {
        match &mut self.tunnel {
            Some(tunnel) => tunnel.poll(cx, exchange, server),
            None => Poll::Ready(TunnelEnd::Over),
        }
    }

    /// Bytes of the other protocol, so far.
    pub fn tunnel_bytes(&self) -> TunnelBytes {
        self.tunnel.as_ref().map(|tunnel| tunnel.moved()).unwrap_or_default()
    }
}
