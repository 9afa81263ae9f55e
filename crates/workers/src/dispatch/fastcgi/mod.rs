//! Classic PHP: scripts that are run for one request each, by servers that speak FastCGI.
//!
//! * `script`: which script serves a path.  `path_cache`: which did lately.  `params`: the request as a script sees it.
//! * `codec`: FastCGI as a protocol of `net`'s pools. The rest is [`super::relay`]'s.

mod codec;
mod params;
mod path_cache;
mod script;

use std::sync::Arc;

use keepwarm_http1::RequestBody;
use keepwarm_net::{AcquireError, Client, ConnectionNeed, Lease};
use keepwarm_serve::{Exchange, Request};

use super::app::App;
use super::refusals;
use super::relay::{self, Dialect, HeadContext, Relay, Server};
pub(super) use codec::FastCgi;
pub use script::ScriptRoot;
use script::{Script, ScriptLookup};

/// The script that a request is for, and its site.
pub(super) struct Destination {
    root: Arc<ScriptRoot>,
    script: Arc<Script>,
}

/// Serves one request.
pub(super) async fn hold(app: &Arc<App>, root: Arc<ScriptRoot>, exchange: &mut Exchange<'_>) {
    let request = exchange.request();
    let path = request.path().get(request.mount()..).unwrap_or_default();
    if path.is_empty() && request.mount() > 0 {
        // `/wiki` of a site at `/wiki/*` is a directory like any other: relative links of its index would lead out of it.
        return redirect_to_folder(exchange);
    }
    match root.resolve(path).await {
        Ok(ScriptLookup::Script(script)) if is_too_long(exchange.request(), &root, &script) => {
            refusals::TOO_LARGE_FOR_THE_WIRE.respond(exchange);
        }
        Ok(ScriptLookup::Script(script)) => {
            relay::hold::<FastCgi>(app, exchange, Destination { root, script }).await
        }
        Ok(ScriptLookup::NeedsSlash) => redirect_to_folder(exchange),
        Ok(ScriptLookup::Hidden) => refusals::FILE_HIDDEN.respond(exchange),
        Ok(ScriptLookup::Nothing) => refusals::NO_SCRIPT.respond(exchange),
        Err(error) => {
            tracing::error!(
                name: "script_lookup_failed",
                app = %app.name, root = %root.path().display(), %error, "cannot look up a script"
            );
            refusals::SCRIPT_FAILED.respond(exchange);
        }
    }
}

/// Whether a parameter of the request is longer than a record.
fn is_too_long(request: &Request, root: &ScriptRoot, script: &Script) -> bool {
    params::may_be_too_long(request)
        && params::encode_params(&mut Vec::new(), 1, request, (root, script), None).is_err()
}

/// `/blog` to `/blog/`, with the query.
fn redirect_to_folder(exchange: &mut Exchange<'_>) {
    let request = exchange.request();
    let path = request.path();
    // Two slashes in front would be a host of the client's choice.
    let slashes = path.iter().take_while(|&&byte| byte == b'/').count().saturating_sub(1);
    let mut location = path.get(slashes..).unwrap_or_default().to_vec();
    location.push(b'/');
    if let Some(query) = request.head.query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let fields: [(&[u8], &[u8]); 1] = [(b"Location", &location)];
    match exchange.head(301, Some(0), false, fields.into_iter()) {
        Ok(_) => exchange.end(),
        Err(_) => exchange.abort("bad_field_in_response"),
    }
}

impl Dialect for FastCgi {
    const BLOCKING: bool = true;
    const CLOSES_NEVER: bool = true;
    type Destination = Destination;
    type Connection = Lease<Self>;

    async fn connect(
        relay: &Relay<'_, '_, Self>,
        server: &Server,
        need: ConnectionNeed,
    ) -> Result<Lease<Self>, AcquireError> {
        relay.connect(server, need).await
    }

    fn begin(
        lease: &mut Lease<Self>,
        request: &Request,
        context: &HeadContext<'_>,
        destination: &Destination,
    ) {
        let length = match context.framing {
            RequestBody::Length(length) => Some(length),
            // Chunks are measured before (`Relay::collect`).
            RequestBody::None | RequestBody::Chunked => None,
        };
        lease.begin(|codec, out| {
            codec.begin(out, request, (&destination.root, &destination.script), length);
        });
    }

    /// With their names as the script has written them.
    fn response_fields(client: &Lease<Self>) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let kept = keepwarm_serve::is_for_client(client.head());
        let fields = client.head().fields.iter().zip(client.protocol().names());
        fields.filter(move |((lower, _), _)| kept(lower)).map(|((_, value), name)| (name, value))
    }
}

/// Checks that a server speaks FastCGI. The error is a phrase. The connection cannot be reused: PHP closes it.
pub(super) async fn ask(client: &mut Client<FastCgi>) -> Result<(), String> {
    client.begin(FastCgi::ask);
    relay::reach_end(client).await.map_err(|error| error.to_string())
}
