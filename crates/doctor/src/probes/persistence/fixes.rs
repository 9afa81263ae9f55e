//! Fixes, by server where it has a directive for it.

use crate::server::Server;

pub(crate) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    Some(match finding {
        "persistence.http10" => http10(server),
        "persistence.http10_keep_alive" if server == Server::Envoy => DELAYED_CLOSE,
        "persistence.http10_keep_alive" => {
            "To HTTP/1.0 with keep-alive, respond with Connection: keep-alive and a Content-Length, and keep the connection open; or with Connection: close, and close it."
        }
        "persistence.http10_chunked" => {
            "Do not send Transfer-Encoding to HTTP/1.0 clients (RFC 9112 §6.1): send a Content-Length, or end the body with the close. Look for an application that writes chunks itself: it must leave that to its server."
        }
        "persistence.reuse" => reuse(server),
        "persistence.announced" => {
            "Send Connection: close with the last response on a connection, then close it, and do not close a connection without announcing it (RFC 9112 §9.6). Behind a proxy, find out which of the two closes."
        }
        "persistence.close" if server == Server::Envoy => DELAYED_CLOSE,
        "persistence.close" => {
            "Close the connection after the response to a request with Connection: close, and send Connection: close with that response (RFC 9112 §9.6)."
        }
        "persistence.close_in_capitals" | "persistence.close_in_a_list" => {
            "Read Connection as a case-insensitive list (RFC 9110 §7.6.1)."
        }
        "persistence.head" | "persistence.not_modified" => {
            "Send no body with a response to HEAD, or with 204 or 304 (RFC 9112 §6.3), whatever the application returns: end the response with the empty line after the head."
        }
        "persistence.pipelined" => {
            "Keep the bytes read after a request: they are the next one (RFC 9112 §9.3.2). Or announce with Connection: close that the response is the last."
        }
        "persistence.requests" => requests(server),
        "persistence.idle" => idle(server),
        _ => return None,
    })
}

const DELAYED_CLOSE: &str = "Set delayed_close_timeout of the HTTP connection manager to 0s or a few milliseconds (by default Envoy waits 1s for the client to close first), and accept_http_10: true where clients speak HTTP/1.0.";

fn http10(server: Server) -> &'static str {
    match server {
        Server::Envoy => DELAYED_CLOSE,
        Server::Apache | Server::PhpBuiltIn => {
            "Have the application leave the status line and Connection to the server, or send Connection: close with every response to HTTP/1.0 without keep-alive; in Apache: SetEnvIf Request_Protocol HTTP/1.0 nokeepalive."
        }
        Server::Nginx => {
            "nginx closes the connection itself unless an upstream's response ends with a close: set proxy_http_version 1.1 for upstreams, and have them send a Content-Length or chunks."
        }
        Server::HaProxy => {
            "Add option httpclose to the frontend that serves such clients, or have the server behind it close on HTTP/1.0."
        }
        _ => {
            "Close the connection after a response to HTTP/1.0 without keep-alive, and send Connection: close (RFC 9112 §9.3)."
        }
    }
}

fn reuse(server: Server) -> &'static str {
    match server {
        Server::Nginx => "Set keepalive_timeout above 0 (75s is the default) and keepalive_requests to 1000.",
        Server::Apache => {
            "Set KeepAlive On, MaxKeepAliveRequests 1000, and look for nokeepalive in SetEnvIf."
        }
        Server::HaProxy => {
            "Remove option httpclose, and set option http-keep-alive and timeout http-keep-alive."
        }
        Server::Envoy => {
            "Look for max_requests_per_connection: 1 and for a filter that sets Connection: close."
        }
        Server::Caddy => {
            "Remove keepalive_interval and idle settings of the servers option that close connections at once."
        }
        Server::Gunicorn => {
            "The sync worker never keeps connections open: use --worker-class gthread --threads 4 --keep-alive 75, or put a server in front that does (nginx with upstream keepalive, Keepwarm)."
        }
        Server::Puma => "Leave enable_keep_alives true (Puma 6.5 and later) and raise max_fast_inline.",
        Server::Unicorn | Server::PhpBuiltIn => {
            "By design, this server never keeps connections open: put one in front that does (nginx, HAProxy, Keepwarm)."
        }
        Server::PythonHttpServer | Server::WsgiRef | Server::Werkzeug | Server::Paste => {
            "Set protocol_version = \"HTTP/1.1\" on the request handler and send a Content-Length with every response; or put a server in front that keeps connections open."
        }
        Server::Node => "Set server.keepAliveTimeout above 0, and do not send Connection: close.",
        Server::Uvicorn => "Set --timeout-keep-alive above 0, and do not send Connection: close.",
        _ => {
            "Have the server keep connections open: give every response a length (or chunks), and do not send Connection: close. Until then, have clients connect through a proxy that keeps them open."
        }
    }
}

fn requests(server: Server) -> &'static str {
    match server {
        Server::Nginx => "Set keepalive_requests to 1000 (the default since 1.19.10) or more.",
        Server::Apache => "Set MaxKeepAliveRequests to 1000, or 0 for no limit.",
        Server::Envoy => "Raise common_http_protocol_options.max_requests_per_connection.",
        Server::Gunicorn | Server::Uvicorn => {
            "Check --max-requests (--limit-max-requests): a worker that exits closes its connections; set --max-requests-jitter, and put a server in front that retries."
        }
        Server::Node => "Set server.maxRequestsPerSocket to 0.",
        _ => {
            "Send Connection: close with the last response on a connection, and allow at least a hundred requests on each."
        }
    }
}

fn idle(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "Set keepalive_timeout to 75s; with a second value only if it is not above the first."
        }
        Server::Apache => "Set KeepAliveTimeout to 5 or more: the Keep-Alive header promises this time.",
        Server::HaProxy => {
            "Set timeout http-keep-alive to 10s or more, and make sure that timeout client is longer."
        }
        Server::Envoy => "Set common_http_protocol_options.idle_timeout to what clients expect, 60s or more.",
        Server::Caddy => "Set servers { timeouts { idle 5m } }.",
        Server::Gunicorn => "Set --keep-alive to 75, longer than the server in front keeps connections.",
        Server::Puma => "Set persistent_timeout to 65 or more.",
        Server::Uvicorn => "Set --timeout-keep-alive to 75.",
        Server::Node => "Set server.keepAliveTimeout to 75000, and server.headersTimeout above it.",
        Server::Waitress => "Set channel_timeout to 120 (the default) or more.",
        _ => {
            "Raise the idle timeout above that of every client and proxy in front (75 s is usual), and promise no more than it in Keep-Alive: timeout=."
        }
    }
}
