//! HTTP/1.1 to a worker: the request as it is sent.

use std::sync::Arc;

use keepwarm_http1::{HopByHop, RequestOptions};
use keepwarm_net::{Http1, Pool, RequestLine};
use keepwarm_serve::{
    Exchange, FieldNames, MAX_FORWARDS, Request, forwards_left, max_forwards, request_target,
    respond_as_final_recipient,
};

use super::super::app::App;
use super::{Dialect, HeadContext, hold};

/// Serves one request, unless it goes no further than here.
pub(in crate::dispatch) async fn hold_http(app: &Arc<App>, exchange: &mut Exchange<'_>) {
    if max_forwards(&exchange.request().head) == Some(0) {
        exchange.request_mut().notes.target = Some(Arc::clone(&app.name));
        return respond_as_final_recipient(exchange);
    }
    hold::<Http1>(app, exchange, ()).await;
}

impl Dialect for Http1 {
    const BLOCKING: bool = false;
    const CLOSES_NEVER: bool = false;
    type Destination = ();

    fn pool(app: &App) -> &Arc<Pool<Self>> {
        &app.servers.http
    }

    fn encode_request(&mut self, out: &mut Vec<u8>, request: &Request, context: &HeadContext<'_>, _aim: &()) {
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
        let options = RequestOptions {
            keep_alive: true,
            expect_continue: context.expects,
            te_trailers: head.fields.has_token("te", "trailers"),
            upgrade: context.upgrade,
        };
        let line = RequestLine { method: &head.method, target: &target, authority };
        let forwards = forwards.as_ref().map(|left| (MAX_FORWARDS, left.as_bytes()));
        let via = request.passing().via.then(|| request.via());
        let fields = theirs.chain(request.extra_fields.iter()).chain(prefix).chain(forwards).chain(via);
        self.encode_head(out, line, fields, context.framing, options);
    }
}

/// Where the route has stripped a prefix, what it was.
const PREFIX: &[u8] = b"x-forwarded-prefix";
