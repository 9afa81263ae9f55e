//! `connect`: what a new connection costs, and whether it has to be paid again and again.
//!
//! A call on a new connection waits for a lookup, a round trip of TCP and one or two of TLS before its first byte leaves, and a server that closes after each answer has
//! every call pay that. One fleet that stopped it went from 2.5 cores to 0.8 and saved 7 MB of certificates a second (RFC 9112 §9.3, RFC 8446 §2.2).

mod addresses;
mod certificate;
mod http2;
mod kept;
mod lookup;
mod tls;

use crate::finding::Finding;
use crate::patient::Patient;
use crate::server::Server;

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let calls = kept::ask(patient).await;
    let mut findings = vec![kept::judge(&calls)];
    if let Some(lookup) = lookup::ask(patient).await {
        findings.push(lookup::judge(&lookup));
    }
    findings.extend(addresses::judge(&addresses::ask(patient).await));
    if let Some(trust) = &patient.trust {
        findings.extend(tls::judge(&tls::ask(patient, trust).await));
        findings.extend(certificate::examine(patient, trust).await);
        findings.push(http2::judge(&http2::ask(patient, trust).await));
    }
    findings
}

pub(super) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    Some(match (finding, server) {
        ("connect.reuse", server) => keep(server),
        ("connect.lookup", _) => "Give the name's records a time to live of a minute or more.",
        ("connect.addresses", _) => {
            "Have the server listen on every address of its name (nginx: listen [::]:443), or take the address out of DNS."
        }
        ("connect.tls", Server::Nginx) => "ssl_protocols TLSv1.2 TLSv1.3;",
        ("connect.tls", Server::Apache) => "SSLProtocol -all +TLSv1.2 +TLSv1.3",
        ("connect.tls", Server::HaProxy) => {
            "ssl-default-bind-options ssl-min-ver TLSv1.2, without ssl-max-ver or no-tlsv13."
        }
        ("connect.tls", Server::Caddy) => "tls { protocols tls1.2 tls1.3 } (the default).",
        ("connect.tls", Server::Envoy) => "tls_params: { tls_maximum_protocol_version: TLSv1_3 }",
        ("connect.tls", _) => "Switch on TLS 1.3: it saves a round trip on every new connection.",
        ("connect.resumption", Server::Nginx) => {
            "ssl_session_tickets on; and ssl_session_cache shared:TLS:10m; behind a balancer the same ssl_session_ticket_key on every machine."
        }
        ("connect.resumption", Server::Apache) => {
            "SSLSessionTickets on and SSLSessionCache shmcb:/run/ssl(512000)."
        }
        ("connect.resumption", Server::HaProxy) => {
            "No no-tls-tickets on the bind line, and tune.ssl.cachesize above 0."
        }
        ("connect.resumption", Server::Gunicorn) => {
            "It makes a new TLS context for each connection: have a server in front of it end TLS."
        }
        ("connect.resumption", _) => {
            "Switch on session tickets, with one key for all processes and machines behind the name."
        }
        ("connect.certificate", _) => {
            "Install a certificate for this name, with its intermediates, of an authority that clients believe."
        }
        ("connect.expiry", _) => "Renew the certificate, and have that done by a machine (ACME) from now on.",
        ("connect.chain", _) => {
            "Send the server's certificate and its intermediates, nothing else: no root (RFC 8446 §4.4.2)."
        }
        ("connect.http2", Server::Nginx) => "http2_max_concurrent_streams 128; (the default)",
        ("connect.http2", _) => "Allow 100 streams or more at once (RFC 9113 §6.5.2).",
        _ => return None,
    })
}

/// How each server is told to keep connections.
fn keep(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "keepalive_timeout above 0 (75s is the default) and keepalive_requests above 1; for calls to it, a pool in the client, or Keepwarm's back door in front of it."
        }
        Server::Apache => "KeepAlive On, with KeepAliveTimeout 5 and MaxKeepAliveRequests 0.",
        Server::Gunicorn => {
            "The sync worker keeps no connection: --worker-class gthread --threads 4, with --keep-alive 5; or a server in front that keeps them."
        }
        Server::Unicorn => "Unicorn keeps no connection: put a server in front of it that does.",
        Server::Puma => "enable_keep_alives true (the default).",
        Server::HaProxy => "option http-keep-alive in place of httpclose or http-server-close.",
        Server::Uvicorn => "--timeout-keep-alive above 0 (5 is the default).",
        Server::Envoy => {
            "No max_requests_per_connection: 1 in common_http_protocol_options, and an idle_timeout above 0."
        }
        Server::Node => {
            "server.keepAliveTimeout above 0 (5000 is the default), and no Connection: close in the app."
        }
        Server::WsgiRef | Server::PythonHttpServer | Server::PhpBuiltIn => {
            "It is made for development: use a server that keeps connections."
        }
        _ => {
            "Have the server keep connections: no Connection: close, answers of HTTP/1.1 with a length or chunked, an idle time-out above 0."
        }
    }
}

/// The middle one; with an even number the earlier of the two.
fn median<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or_default()
}

/// A number of bytes as people read it.
fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    let count = count as f64;
    match count {
        few if few < 1e3 => format!("{few} bytes"),
        kilo if kilo < 1e6 => format!("{:.1} kB", kilo / 1e3),
        mega => format!("{:.1} MB", mega / 1e6),
    }
}
