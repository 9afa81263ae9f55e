//! Connections under TLS.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::{AcceptFailure, Io, ServerTls, TlsError, accept_tls, now, thread_index};
use tokio::time::Instant;

use super::ListenerContext;
use crate::{ConnectionInfo, LocalAddress, h1};

/// The TLS of a listener.
#[derive(Debug, Clone)]
pub struct ListenerTls {
    /// Certificates and settings, which a reload replaces.
    pub tls: Arc<ServerTls>,
    /// Time limit of a handshake.
    pub handshake_timeout: Duration,
}

/// Makes a session with a client, and serves it.
pub(super) async fn serve(
    io: Io,
    client: Option<SocketAddr>,
    local: LocalAddress,
    context: Arc<ListenerContext>,
) {
    let Some(tls) = &context.tls else { return };
    let cells = &context.meter.of(thread_index()).handshakes;
    match accept_tls(io, &tls.tls, tls.handshake_timeout).await {
        Ok((transport, handshake)) => {
            cells.note_done(handshake.version == "TLSv1.3", handshake.resumed);
            if handshake.is_challenge {
                return;
            }
            h1::serve(transport, ConnectionInfo::over_tls(client, local, handshake), context).await;
        }
        Err(AcceptFailure { error, plaintext }) => {
            cells.note_failed(error.name);
            report(&error, client, &context.meter.name);
            if let Some(client) = plaintext {
                let _ = tokio::time::timeout(LINGER, client.respond(PLAINTEXT)).await;
            }
        }
    }
}

/// How long a client in plaintext may take to close its side.
const LINGER: Duration = Duration::from_secs(2);

/// To a client that speaks HTTP without TLS.
const PLAINTEXT: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 70\r\n\
Connection: close\r\n\r\nThis port requires TLS, and the request came without: use https://...\n";

/// Reports a client that speaks TLS to a listener without it, at most once in [`QUIET`] for each thread.
pub(crate) fn report_tls_on_plain(peer: &ConnectionInfo, listener: &str) {
    if is_due() {
        let client = peer.client_text().0;
        tracing::warn!(
            name: "tls_on_plaintext_listener",
            listener, client,
            "client speaks TLS, and this listener has none: should its URL begin with http://, or the listener have `tls`?"
        );
    }
}

/// Whether nothing was reported within [`QUIET`].
fn is_due() -> bool {
    let is_due = LAST_REPORT.get().is_none_or(|at| at + QUIET <= now());
    if is_due {
        LAST_REPORT.set(Some(now()));
    }
    is_due
}

/// Reports a failed handshake: what an operator can do something about, at most once in [`QUIET`] for each thread; the rest is the internet.
fn report(error: &TlsError, client: Option<SocketAddr>, listener: &str) {
    const ACTIONABLE: [&str; 7] = [
        "plaintext_http",
        "name_unknown",
        "certificate_untrusted",
        "certificate_expired",
        "client_crl_expired",
        "client_crl_missing",
        "limit",
    ];
    let client = client.map(|client| client.ip().to_canonical().to_string()).unwrap_or_default();
    let reason = error.name;
    if ACTIONABLE.contains(&reason) && is_due() {
        tracing::warn!(
            name: "tls_handshake_failed",
            listener, client, reason,
            "TLS handshake failed: {error}; logged at most once a minute, keepwarm_tls_handshake_failures_total counts all"
        );
    } else {
        tracing::debug!(name: "tls_handshake_failed", listener, client, reason, "TLS handshake failed: {error}");
    }
}

const QUIET: Duration = Duration::from_secs(60);

thread_local! {
    static LAST_REPORT: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_response_in_plaintext_has_the_length_it_says() {
        let text = std::str::from_utf8(super::PLAINTEXT).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
