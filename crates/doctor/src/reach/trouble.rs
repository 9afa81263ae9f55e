//! Why there is nothing to examine: judged by evidence, with a look at what may be meant instead.

use std::sync::Arc;
use std::time::Duration;

use keepwarm_http1::{FaultKind, ResponseHead};
use rustls::ALL_VERSIONS;

use super::peers;
use crate::client::{
    Authorities, Failure, Handshake, Outcome, Request, Response, TlsSettings, client_config,
};
use crate::context::{Connector, ProbeContext};
use crate::finding::Finding;
use crate::report::time;
use crate::settings::Settings;

/// How long to wait to learn which protocol a server speaks that did not respond as requested.
const LOOK: Duration = Duration::from_secs(2);

/// There is no connection.
pub(super) async fn unreachable(connector: &Connector<'_>, failure: &Failure) -> Finding {
    let target = connector.target;
    let mut evidence = format!("{target}: {failure}");
    let fix = match failure {
        Failure::Resolve { .. } => "Check the name, or pass --resolve HOST:PORT:ADDRESS.",
        Failure::Refused(_) => "Start the server, or check the port.",
        Failure::Gone(_) | Failure::Network(_) if target.socket.is_some() => {
            "Check the path of the socket, that its server is running, and that this user may open it."
        }
        Failure::NoRoute(_)
        | Failure::Gone(_)
        | Failure::Network(_)
        | Failure::TimedOut("connecting" | "resolving the name", _) => {
            "Check that this machine can reach that address (firewall, route), or raise --timeout."
        }
        // From here on there was a connection, and no TLS.
        Failure::NotTls(_) => CLEAR,
        Failure::Certificate(_) => CERTIFICATE,
        Failure::Tls(_) | Failure::Lost(_) | Failure::TimedOut(..) => match speaks_clear(connector).await {
            Some(line) => {
                evidence = format!("{evidence}; without TLS it responds \"{line}\"");
                CLEAR
            }
            None => match failure {
                Failure::Tls(why) if why.contains("UnrecognisedName") => NAME,
                Failure::Tls(why) if connector.settings.identity.is_some() && is_identity_refused(why) => {
                    IDENTITY
                }
                Failure::Tls(_) => {
                    "Enable TLS 1.2 or 1.3 (neither this check nor browsers support older versions), and HTTP/1.1 where ALPN is used; openssl s_client -connect HOST:PORT shows more."
                }
                Failure::Lost(_) => "Check the server's log: it accepts connections and drops them.",
                _ => {
                    "Check whether the server hangs: it accepts connections and sends nothing. Or raise --timeout."
                }
            },
        },
    };
    let id = match failure {
        Failure::Resolve { .. } => "reach.name",
        Failure::Certificate(_) => "reach.certificate",
        Failure::NotTls(_) | Failure::Tls(_) => "reach.tls",
        _ => "reach.connection",
    };
    Finding::bad(id, evidence).with_fix(fix)
}

const CERTIFICATE: &str = "Install a certificate for this name, with its intermediates (nginx: the full chain in ssl_certificate), and renew it in time; --ca FILE trusts a private authority, --insecure checks the rest anyway.";

const IDENTITY: &str = "The server does not accept the certificate of --cert: pass one that an authority it trusts has signed, followed by those in between, and that is valid now.";

/// The alert `unrecognized_name` (RFC 6066 §3).
const NAME: &str = "The server has no certificate for that name: use the name that it serves; if that name leads elsewhere, or nowhere, pass --resolve HOST:PORT:ADDRESS. With an address in the URL, the handshake has no name.";

const CLEAR: &str = "Use http:// for this port, or enable TLS on it (nginx: listen 443 ssl).";

/// What a server sends in a handshake without a request; `None` if there is none.
async fn handshake(connector: &Connector<'_>, within: Duration) -> Option<Handshake> {
    let authorities = Arc::new(Authorities::new(Vec::new()));
    let tls_settings =
        TlsSettings { insecure: true, versions: ALL_VERSIONS, alpn: Vec::new(), authorities, identity: None };
    let config = client_config(&tls_settings).ok()?;
    let settings = Settings { timeout: within.min(connector.settings.timeout), ..connector.settings.clone() };
    let connector = Connector { settings: &settings, ..*connector };
    let (_, peers) = peers(connector.target, &settings).await.ok()?;
    connector.connect(peers.first()?, Some(config), 0).await.ok()?.handshake
}

/// The first line of the response, if there is one in plaintext. Nothing is sent that should be encrypted.
async fn speaks_clear(connector: &Connector<'_>) -> Option<String> {
    let settings = Settings { timeout: LOOK.min(connector.settings.timeout), ..connector.settings.clone() };
    let connector = Connector { settings: &settings, ..*connector };
    let (_, peers) = peers(connector.target, &settings).await.ok()?;
    let mut connection = connector.connect(peers.first()?, None, 0).await.ok()?;
    let fields = vec![("Host".to_owned(), connector.target.authority())];
    let request = Request::new("HEAD", "/", fields);
    connector.budget.request().await;
    connection.begin(&request);
    connection.send(&request.bytes()).await.ok()?;
    let response = connection.read_response(settings.timeout).await;
    response.status().map(|status| format!("HTTP/1.1 {status}"))
}

/// There is a connection, and no response that could be examined. Nothing if there is one.
pub(super) async fn without_response(context: &ProbeContext, unread: &[u8]) -> Option<Finding> {
    let response = &context.first;
    let asked = format!("{} {}", context.settings.method, context.target);
    let suspect = !response.is_complete() || response.status() == Some(400);
    if suspect && let Some(finding) = speaks_tls(context, &asked, unread).await {
        return Some(finding);
    }
    if response.is_complete() {
        return None;
    }
    Some(judge(&asked, response, unread))
}

/// A server that speaks TLS got a plaintext request: it responds with an alert, a 400, or a close.
async fn speaks_tls(context: &ProbeContext, asked: &str, unread: &[u8]) -> Option<Finding> {
    let response = &context.first;
    let silent = response.head.is_none() && !matches!(response.outcome, Outcome::Endless);
    let is_alert = matches!(unread, [21, 3, ..]);
    let worth = is_alert || response.status() == Some(400) || (silent && unread.is_empty());
    if !worth || context.target.is_encrypted() || context.target.socket.is_some() {
        return None;
    }
    let connector = Connector {
        target: &context.target,
        settings: &context.settings,
        budget: &context.budget,
        watcher: &context.watcher,
    };
    let handshake = handshake(&connector, LOOK).await?;
    let evidence = format!("{asked}: {}; the port speaks {}", said(response, unread), handshake.version);
    Some(Finding::bad("reach.tls", evidence).with_fix("Use https:// for this port."))
}

/// What an incomplete response says about the server. A fault that plainly belongs to a probe is reported under its id.
fn judge(asked: &str, response: &Response, unread: &[u8]) -> Finding {
    let evidence = format!("{asked}: {}", said(response, unread));
    let Some(head) = &response.head else {
        // With TLS 1.3 a server reports it only after the handshake (RFC 8446 §4.4.2.4).
        if matches!(&response.outcome, Outcome::Broken(why) if why.contains("CertificateRequired")) {
            return Finding::bad(
                "reach.tls",
                format!("{evidence}: the server requires a client certificate"),
            )
            .with_fix("Pass --cert FILE and --key FILE.");
        }
        if matches!(&response.outcome, Outcome::Broken(why) if is_identity_refused(why)) {
            return Finding::bad(
                "reach.tls",
                format!("{evidence}: the server does not accept the client certificate"),
            )
            .with_fix(IDENTITY);
        }
        if is_http2(unread) {
            return Finding::bad("reach.response", format!("{evidence}: an HTTP/2 SETTINGS frame")).with_fix(
                "The server speaks only HTTP/2 on this port, which works only for clients that know this in advance: have it speak HTTP/1.1 as well, or check the server in front of it.",
            );
        }
        let is_http = unread.starts_with(b"HTTP/1.") && matches!(response.outcome, Outcome::Malformed(_));
        let id = if is_http { "framing.response" } else { "reach.response" };
        return Finding::bad(id, evidence).with_fix(
            "An ordinary request gets no complete response, so there is nothing to compare with: fix that first.",
        );
    };
    let length = response.field("content-length");
    let chunked = head.fields.first("transfer-encoding").is_some();
    let stalls = response.outcome == Outcome::Silence && !is_trickling(response);
    let says = match (&length, chunked) {
        (Some(length), false) => format!("Content-Length: {length}, {} bytes received", response.body_len),
        (_, true) => format!("chunked, {} bytes received, and no last chunk", response.body_len),
        (None, false) => format!("no length, {} bytes received, and no close", response.body_len),
    };
    let evidence = format!("{evidence} ({says})");
    match &response.outcome {
        _ if is_stream(head) => {
            Finding::unknown("reach.response", format!("{evidence}: a stream that does not end"))
                .with_fix("Check another path of this server.")
        }
        Outcome::Endless if length.is_some() && !chunked => {
            Finding::unknown("reach.response", format!("{evidence}: more than this check reads"))
                .with_fix("Check another path of this server, with a smaller response.")
        }
        Outcome::Endless => Finding::bad("reach.response", evidence).with_fix(
            "A response that does not end cannot be compared with anything: check another path.",
        ),
        Outcome::Silence if stalls && length.is_none() && !chunked => Finding::bad("persistence.unended", evidence)
            .costs(format!("more than {} on every such request", time(response.took)))
            .with_fix(
                "Send the response with a Content-Length, send it chunked, or send Connection: close and close the connection.",
            ),
        Outcome::Silence if stalls => Finding::bad("framing.unended", evidence)
            .costs(format!("more than {} on every such request", time(response.took)))
            .with_fix(
                "Have the app set no Content-Length, or the correct one; let the server frame the response.",
            ),
        Outcome::Closed | Outcome::Reset | Outcome::Malformed(_) => Finding::bad("framing.response", evidence).with_fix(
            "Have the app set no Content-Length, or the correct one; check the server's log for what broke off the response.",
        ),
        _ => Finding::bad("reach.response", evidence).with_fix(
            "A response that does not end cannot be compared with anything: check another path, or raise --timeout.",
        ),
    }
}

/// The response in words, and how the bytes begin that could not be understood.
fn said(response: &Response, unread: &[u8]) -> String {
    let shown = match &response.outcome {
        Outcome::Malformed(fault) if fault.kind == FaultKind::Unsolicited => String::new(),
        Outcome::Complete => String::new(),
        _ if unread.is_empty() => String::new(),
        _ => format!(", beginning with \"{}\"", unread.escape_ascii()),
    };
    format!("{}{shown}", response.words())
}

/// An alert of a server that has verified a client certificate (RFC 8446 §6.2); with TLS 1.3 it comes after the handshake.
fn is_identity_refused(why: &str) -> bool {
    const ALERTS: [&str; 6] = [
        "UnknownCA",
        "BadCertificate",
        "CertificateUnknown",
        "CertificateExpired",
        "CertificateRevoked",
        "AccessDenied",
    ];
    ALERTS.iter().any(|alert| why.contains(alert))
}

/// A frame of type SETTINGS, for the whole connection, and short: with it a server of HTTP/2 begins (RFC 9113 §3.4).
fn is_http2(unread: &[u8]) -> bool {
    matches!(unread, [0, 0, _, 4, 0, 0, 0, 0, 0, ..])
}

/// Whether bytes kept coming until the end of our patience.
fn is_trickling(response: &Response) -> bool {
    response.reads.last().is_some_and(|seen| seen.at > response.took / 2)
}

/// Media that never end by their nature.
fn is_stream(head: &ResponseHead) -> bool {
    let kind = head.fields.first("content-type").unwrap_or_default().to_ascii_lowercase();
    kind.starts_with(b"text/event-stream") || kind.starts_with(b"multipart/x-mixed-replace")
}
