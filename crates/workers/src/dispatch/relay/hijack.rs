//! Rack's full hijack: an application responds to one request itself, in HTTP/1.1, on a socket that its worker has passed (`spec/wire.md` §5). Keepwarm treats it as a
//! server that has just taken this request, and that may switch protocols: a WebSocket passes through as a tunnel.

use std::future::poll_fn;
use std::sync::Arc;

use keepwarm_net::{Call as HttpCall, Client, ClientError, Io, Lease, Socket};
use keepwarm_serve::{Exchange, poll_pump};

use super::super::app::App;
use super::super::call::Call;
use super::super::conversation::body::BodySource;
use super::super::link::Link;
use super::super::refusals;
use super::http::Http;
use super::worker_request::WorkerRequest;
use super::{Dialect, Relay};

/// Serves the rest of the request. `call`: what its worker had.
pub(in crate::dispatch) async fn hold_hijacked(
    app: &Arc<App>,
    exchange: &mut Exchange<'_>,
    call: Arc<Call>,
    socket: Socket,
) {
    let _guard = call.last_given().map(|(link, stream)| HijackGuard { link, stream });
    let mut relay = Relay::<Http>::new(app, exchange, ());
    relay.call = call;
    // Its body, if it had one, went to the worker.
    relay.source = BodySource::Frame(Vec::new());
    let connection = HttpCall::Http1(Lease::alone(Client::new(Io::new(socket))));
    let mut worker_request = WorkerRequest::hijacked(&mut relay, connection);
    worker_request.begin();
    poll_fn(|cx| poll_pump(&mut worker_request, cx)).await;
}

/// Tells the worker, until it is dropped, when the time of the hijacked request is over.
struct HijackGuard {
    link: Arc<Link>,
    stream: u32,
}

impl Drop for HijackGuard {
    fn drop(&mut self) {
        self.link.forget_hijacked(self.stream);
    }
}

impl<C: Dialect> Relay<'_, '_, C> {
    /// The application that responds by itself did not, or not to the end.
    pub(super) fn hijacker_failed(&mut self, error: &ClientError) {
        let responded = self.exchange.responded() && !self.exchange.take_back();
        tracing::error!(
            name: "request_failed",
            app = %self.app.name, id = %self.id(), responded, reason = error.name(),
            "request failed on a connection that the application had taken over (rack.hijack): {error}"
        );
        match responded {
            true if self.exchange.is_given() => self.exchange.end(),
            true => self.exchange.abort(error.name()),
            false => refusals::HIJACKER_FAILED.about(&[]).reason(error.name()).respond(self.exchange),
        }
    }
}
