//! One health check.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Method;
use keepwarm_http1::{Fields, RequestBody};
use keepwarm_net::{Call, CallHead, Calls, ConnectionNeed, ResponsePart};
use tokio::time::timeout;

use super::{HealthSettings, Probe};
use crate::{EndpointEntry, UpstreamSettings};

/// Why a check failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// A stable name, for counters and logs.
    pub name: &'static str,
    /// For people.
    pub sentence: String,
}

/// Checks an endpoint once. `None`: it could not be, for lack of descriptors or memory here, which says nothing about the endpoint.
pub(super) async fn check(
    calls: &Arc<Calls>,
    entry: &EndpointEntry,
    settings: &UpstreamSettings,
    health: &HealthSettings,
) -> Option<Result<(), CheckFailure>> {
    let endpoint = match settings.proxy {
        Some(version) => &entry.endpoint.proxied(version.own_header()),
        None => &entry.endpoint,
    };
    let asked = async {
        match calls.acquire(endpoint, ConnectionNeed::Any).await {
            Ok(call) => Some(ask(call, entry, settings, &health.probe).await),
            Err(error) if error.is_local() => None,
            Err(error) => {
                Some(Err(CheckFailure { name: error.name(), sentence: format!("cannot connect: {error}") }))
            }
        }
    };
    let asked = timeout(health.timeout, asked).await;
    // One of HTTP/2 would be used by the next check; one of HTTP/1.1 has ended with its call.
    calls.http2().forget(&entry.endpoint);
    asked.unwrap_or_else(|_| Some(Err(CheckFailure::late(health.timeout))))
}

async fn ask(
    mut call: Call,
    entry: &EndpointEntry,
    settings: &UpstreamSettings,
    probe: &Probe,
) -> Result<(), CheckFailure> {
    let Probe::Http { path, statuses } = probe else { return Ok(()) };
    let authority = settings.host.as_deref().unwrap_or(&entry.authority).as_bytes();
    begin(&mut call, settings, authority, path.as_bytes());
    let status = head(&mut call).await?;
    if !statuses.iter().any(|good| good.contains(&status)) {
        return Err(CheckFailure {
            name: "health_status",
            sentence: format!("it responds to {path} with {status}"),
        });
    }
    end(&mut call).await
}

fn begin(call: &mut Call, settings: &UpstreamSettings, authority: &[u8], target: &[u8]) {
    let about: [(&[u8], &[u8]); 2] = [
        (b"user-agent", concat!("keepwarm/", env!("CARGO_PKG_VERSION"), " (health)").as_bytes()),
        (b"accept", b"*/*"),
    ];
    call.begin(CallHead {
        method: &Method::GET,
        scheme: settings.scheme,
        authority,
        target,
        fields: about.into_iter(),
        framing: RequestBody::None,
        expect: false,
        te_trailers: false,
        upgrade: None,
        websocket_accept: None,
    });
    call.end(&Fields::new());
}

/// The status of the response.
async fn head(call: &mut Call) -> Result<u16, CheckFailure> {
    poll_fn(|cx| {
        // What became of the request shows in the response.
        let _ = call.poll_flush(cx);
        loop {
            match std::task::ready!(call.poll_response(cx)) {
                Ok(ResponsePart::Head(head)) => return Poll::Ready(Ok(head.status.as_u16())),
                Ok(ResponsePart::End) => {
                    return Poll::Ready(Err(CheckFailure::bad("its response has no head".to_owned())));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(CheckFailure::bad(error.to_string()))),
            }
        }
    })
    .await
}

/// The rest of the response is of no interest, but that it comes.
async fn end(call: &mut Call) -> Result<(), CheckFailure> {
    poll_fn(|cx| {
        loop {
            match std::task::ready!(call.poll_response(cx)) {
                Ok(ResponsePart::End) => return Poll::Ready(Ok(())),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(CheckFailure::bad(error.to_string()))),
            }
        }
    })
    .await
}

impl CheckFailure {
    fn late(limit: Duration) -> Self {
        Self { name: "health_timeout", sentence: format!("no complete response within {limit:?}") }
    }

    fn bad(sentence: String) -> Self {
        Self { name: "health_no_response", sentence }
    }
}
