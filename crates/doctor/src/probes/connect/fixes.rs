//! What to do, by server where it has a directive for it.

use crate::server::Server;

pub(crate) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    Some(match finding {
        "connect.reuse" => reuse(server),
        "connect.tls" => tls(server),
        "connect.resumption" => resumption(server),
        "connect.lookup" => "Give the name's records a time to live of a minute or more.",
        "connect.addresses" => {
            "Have the server listen on every address of its name (nginx: listen [::]:443), or take the address out of DNS."
        }
        "connect.certificate" => {
            "Install a certificate for this name, with its intermediates, of an authority that clients believe."
        }
        "connect.expiry" => "Renew the certificate, and have that done by a machine (ACME) from now on.",
        "connect.chain" => {
            "Send the server's certificate and its intermediates, nothing else: no root (RFC 8446 §4.4.2)."
        }
        "connect.http2" if server == Server::Nginx => "http2_max_concurrent_streams 128; (the default)",
        "connect.http2" => "Allow 100 streams or more at once (RFC 9113 §6.5.2).",
        _ => return None,
    })
}

/// How each server is told to keep connections.
fn reuse(server: Server) -> &'static str {
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

/// TLS 1.3 is spoken.
fn tls(server: Server) -> &'static str {
    match server {
        Server::Nginx => "ssl_protocols TLSv1.2 TLSv1.3;",
        Server::Apache => "SSLProtocol -all +TLSv1.2 +TLSv1.3",
        Server::HaProxy => "ssl-default-bind-options ssl-min-ver TLSv1.2, without ssl-max-ver or no-tlsv13.",
        Server::Caddy => "tls { protocols tls1.2 tls1.3 } (the default).",
        Server::Envoy => "tls_params: { tls_maximum_protocol_version: TLSv1_3 }",
        _ => "Switch on TLS 1.3: it saves a round trip on every new connection.",
    }
}

/// Sessions are taken up again.
fn resumption(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "ssl_session_tickets on; and ssl_session_cache shared:TLS:10m; behind a balancer the same ssl_session_ticket_key on every machine."
        }
        Server::Apache => "SSLSessionTickets on and SSLSessionCache shmcb:/run/ssl(512000).",
        Server::HaProxy => "No no-tls-tickets on the bind line, and tune.ssl.cachesize above 0.",
        Server::Gunicorn => {
            "It makes a new TLS context for each connection: have a server in front of it end TLS."
        }
        _ => "Switch on session tickets, with one key for all processes and machines behind the name.",
    }
}
