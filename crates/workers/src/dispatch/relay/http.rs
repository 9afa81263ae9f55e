//! HTTP to a worker: the request as it is sent.

use std::sync::Arc;

use keepwarm_http1::HopByHop;
use keepwarm_net::{AcquireError, Call, CallHead, ConnectionNeed, Scheme};
use keepwarm_serve::{
    Exchange, FieldNames, MAX_FORWARDS, Request, forwards_left, max_forwards, request_target,
    respond_as_final_recipient, switch_target,
};

use super::super::app::App;
use super::server::Server;
use super::{Dialect, HeadContext, Relay, hold};

/// HTTP, of the version that the worker serves.
pub(super) enum Http {}

/// Serves one request, unless it goes no further than here.
pub(in crate::dispatch) async fn hold_http(app: &Arc<App>, exchange: &mut Exchange<'_>) {
    if max_forwards(&exchange.request().head) == Some(0) {
        exchange.request_mut().notes.target = Some(Arc::clone(&app.name));
        return respond_as_final_recipient(exchange);
    }
    hold::<Http>(app, exchange, ()).await;
}

impl Dialect for Http {
    const BLOCKING: bool = false;
    const CLOSES_NEVER: bool = false;
    type Destination = ();
    type Connection = Call;

    async fn connect(
        relay: &Relay<'_, '_, Self>,
        server: &Server,
        need: ConnectionNeed,
    ) -> Result<Call, AcquireError> {
        let calls = relay.app.servers.http(server.http_version());
        let request = relay.exchange.request();
        let endpoint = server.endpoint_for(request);
        match request.head.upgrade {
            true => calls.acquire_to_switch(&endpoint, need, switch_target(relay.exchange)).await,
            false => calls.acquire(&endpoint, need).await,
        }
    }

    fn begin(call: &mut Call, request: &Request, context: &HeadContext<'_>, _destination: &()) {
        let head = &request.head;
        let target = request_target(request);
        let authority = match head.authority() {
            // HTTP/1.0 may have none, and 1.1 must.
            b"" => b"localhost".as_slice(),
            authority => authority,
        };
        let hop_by_hop = HopByHop::of(&head.fields);
        let mounted = request.mount() > 0;
        let forwards = forwards_left(head);
        let counts = forwards.is_some();
        let dropped = move |name: &[u8]| {
            hop_by_hop.removes(name)
                || request.drops_field(name, FieldNames::Http)
                || (mounted && name == PREFIX)
                || (counts && name == MAX_FORWARDS)
        };
        let theirs = head.fields.iter().filter(move |(name, _)| !dropped(name));
        let prefix = request.path().get(..request.mount()).filter(|_| mounted).map(|prefix| (PREFIX, prefix));
        let forwards = forwards.as_ref().map(|left| (MAX_FORWARDS, left.as_bytes()));
        let via = request.passing().via.then(|| request.via());
        let fields = theirs.chain(request.extra_fields.iter()).chain(prefix).chain(forwards).chain(via);
        call.begin(CallHead {
            method: &head.method,
            scheme: Scheme::Http,
            authority,
            target: &target,
            fields,
            framing: context.framing,
            expect: context.expects,
            te_trailers: head.fields.has_token("te", "trailers"),
            upgrade: context.upgrade,
            websocket_accept: context.websocket_accept,
        });
    }
}

/// Where the route has stripped a prefix, what it was.
const PREFIX: &[u8] = b"x-forwarded-prefix";
