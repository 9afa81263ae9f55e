//! Fixes, by server.

use super::rules::{CONTINUE, EMPTY, HTTP10, ONCE, OTHER, UNREAD};
use crate::server::Server;

pub(in crate::probes) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    match finding {
        CONTINUE => Some(continued(server)),
        ONCE => Some(once(server)),
        UNREAD => Some(
            "Send Connection: close with a response that comes before the body, or read the body and discard it.",
        ),
        HTTP10 if server == Server::Caddy => Some(once(server)),
        HTTP10 => Some(
            "Send 100 only to HTTP/1.1 clients (RFC 9110 §15.2); if the server ignores the version (Puma), have a proxy in front remove Expect.",
        ),
        EMPTY => Some("Ignore Expect in a request without a body (RFC 9110 §10.1.1)."),
        OTHER => Some("Respond with 417 to an unknown expectation, or ignore it."),
        _ => None,
    }
}

fn once(server: Server) -> &'static str {
    match server {
        Server::Werkzeug => {
            "Werkzeug's server sends a second 100 beside that of http.server, on which it builds: use gunicorn or another production server."
        }
        Server::Caddy => {
            "Set header_up -Expect in reverse_proxy, so that Caddy alone responds to Expect, and not the server behind it, too."
        }
        _ => "Have one hop respond to Expect, and remove it from the requests that this hop forwards.",
    }
}

fn continued(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "nginx itself responds with 100 when it reads the body: a proxy in front of it must not hold Expect back; until then, remove Expect in the client (curl -H 'Expect:')."
        }
        Server::Apache => {
            "With mod_proxy, set Proxy100Continue Off, so that httpd itself responds with 100; until then, remove Expect in the client (curl -H 'Expect:')."
        }
        Server::HaProxy => {
            "Set option http-buffer-request, so that HAProxy itself responds with 100; or http-request del-header Expect if the server behind it never does."
        }
        Server::Envoy => {
            "Leave proxy_100_continue of the HTTP connection manager off: Envoy itself then responds with 100."
        }
        Server::Caddy => {
            "Have the handler read the body, which is what sends the 100; in front of a server that never responds to Expect, lower expect_continue_timeout of reverse_proxy's transport."
        }
        Server::PhpBuiltIn => {
            "php -S never responds to Expect: serve the app with php-fpm behind nginx or Apache, or with Keepwarm; until then, remove Expect in the client (curl -H 'Expect:')."
        }
        Server::Unicorn => {
            "Unicorn leaves this to the app: for HTTP/1.1, return [100, {}, []] while env['HTTP_EXPECT'] is 100-continue, and Unicorn calls the app again with the body; or put nginx in front."
        }
        Server::WebRick => "Call request.continue before the servlet reads the body, or put nginx in front.",
        Server::WsgiRef | Server::PythonHttpServer | Server::Werkzeug | Server::Paste => {
            "Set protocol_version = 'HTTP/1.1' on the request handler: only then does http.server respond with 100; or put nginx in front."
        }
        Server::Node => {
            "A listener for checkContinue must call response.writeContinue(); without such a listener, Node itself responds with 100."
        }
        Server::Uvicorn | Server::Granian => {
            "The app must receive the body (or respond) without waiting for anything else: the first receive() is what sends the 100."
        }
        _ => {
            "Respond with 100 Continue, or the final status, as soon as the head is read; or put a server in front that does (nginx, Keepwarm). Until then, remove Expect in the client (curl -H 'Expect:')."
        }
    }
}
