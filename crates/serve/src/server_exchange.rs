//! A call to an upstream as the far end of a tunnel.

use std::io;
use std::task::{Context, Poll};

use keepwarm_net::{Call, ClientError, ResponsePart};

use crate::ServerExchange;

impl ServerExchange for Call {
    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponsePart<'_>, ClientError>> {
        self.poll_response(cx)
    }

    fn poll_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        match self {
            Self::Http1(lease) => lease.poll_tunnel(cx),
            Self::Http2(call) => call.poll_tunnel(cx),
        }
    }

    fn send_tunnel(&mut self, bytes: &[u8]) {
        match self {
            Self::Http1(lease) => lease.send_tunnel(bytes),
            Self::Http2(call) => call.send(bytes),
        }
    }

    fn unsent(&self) -> usize {
        self.unsent()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_flush(cx)
    }

    fn shutdown_write(&mut self) {
        match self {
            Self::Http1(lease) => (**lease).shutdown_write(),
            Self::Http2(call) => call.shutdown_write(),
        }
    }
}
