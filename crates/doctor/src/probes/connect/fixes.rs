//! Fixes, by server where it has a directive for it.

use crate::server::Server;

pub(crate) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    Some(match finding {
        "connect.reuse" => reuse(server),
        "connect.tls" => tls(server),
        "connect.resumption" => resumption(server),
        "connect.lookup" => "Set the time to live of the name's records to a minute or more.",
        "connect.addresses" => {
            "Have the server listen on every address of its name (nginx: listen [::]:443), or remove the address from DNS."
        }
        "connect.certificate" => {
            "Install a certificate for this name, with its intermediates, from an authority that clients trust."
        }
        "connect.expiry" => "Renew the certificate, and automate the renewal (ACME).",
        "connect.chain" => {
            "Send only the server's certificate and its intermediates, without the root (RFC 8446 §4.4.2)."
        }
        "connect.http2" if server == Server::Nginx => "Set http2_max_concurrent_streams 128 (the default).",
        "connect.http2" => "Allow at least 100 concurrent streams (RFC 9113 §6.5.2).",
        _ => return None,
    })
}

/// How to configure each server to keep connections.
fn reuse(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "Set keepalive_timeout above 0 (75s is the default) and keepalive_requests above 1; for requests to it, use a pool in the client, or Keepwarm's back door in front of it."
        }
        Server::Apache => "Set KeepAlive On, with KeepAliveTimeout 5 and MaxKeepAliveRequests 0.",
        Server::Gunicorn => {
            "The sync worker keeps no connection open: use --worker-class gthread --threads 4, with --keep-alive 5; or put a server in front that does."
        }
        Server::Unicorn => "Unicorn keeps no connection open: put a server in front of it that does.",
        Server::Puma => "Set enable_keep_alives true (the default).",
        Server::HaProxy => "Set option http-keep-alive instead of httpclose or http-server-close.",
        Server::Uvicorn => "Set --timeout-keep-alive above 0 (5 is the default).",
        Server::Envoy => {
            "Remove max_requests_per_connection: 1 from common_http_protocol_options, and set idle_timeout above 0."
        }
        Server::Node => {
            "Set server.keepAliveTimeout above 0 (5000 is the default), and do not send Connection: close in the app."
        }
        Server::WsgiRef | Server::PythonHttpServer | Server::PhpBuiltIn => {
            "This server is made for development: use one that keeps connections open."
        }
        _ => {
            "Have the server keep connections open: no Connection: close, HTTP/1.1 responses with a length or chunked, an idle timeout above 0."
        }
    }
}

/// How to enable TLS 1.3.
fn tls(server: Server) -> &'static str {
    match server {
        Server::Nginx => "Set ssl_protocols TLSv1.2 TLSv1.3.",
        Server::Apache => "Set SSLProtocol -all +TLSv1.2 +TLSv1.3.",
        Server::HaProxy => {
            "Set ssl-default-bind-options ssl-min-ver TLSv1.2, without ssl-max-ver or no-tlsv13."
        }
        Server::Caddy => "Set tls { protocols tls1.2 tls1.3 } (the default).",
        Server::Envoy => "Set tls_params: { tls_maximum_protocol_version: TLSv1_3 }.",
        _ => "Enable TLS 1.3: it saves a round trip on every new connection.",
    }
}

/// How to enable session resumption.
fn resumption(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "Set ssl_session_tickets on and ssl_session_cache shared:TLS:10m; behind a load balancer, use the same ssl_session_ticket_key on every machine."
        }
        Server::Apache => "Set SSLSessionTickets on and SSLSessionCache shmcb:/run/ssl(512000).",
        Server::HaProxy => "Remove no-tls-tickets from the bind line, and set tune.ssl.cachesize above 0.",
        Server::Gunicorn => {
            "gunicorn makes a new TLS context for each connection: have a server in front of it terminate TLS."
        }
        _ => "Enable session tickets, with one key for all processes and machines behind the name.",
    }
}
