//! What to do, by server.

use super::rules::{CONTINUE, EMPTY, HTTP10, ONCE, OTHER, UNREAD};
use crate::server::Server;

pub(in crate::probes) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    match finding {
        CONTINUE => Some(continued(server)),
        ONCE => Some("Have one hop response the expectation, and remove it from what it forwards."),
        UNREAD => Some(
            "Say Connection: close on a response that comes before the body, or read the body and discard it.",
        ),
        HTTP10 => Some(
            "Send 100 only to HTTP/1.1 (RFC 9110 §15.2); where the server does not look at the version (Puma), have a proxy in front remove Expect.",
        ),
        EMPTY => Some("Ignore the expectation of a request without a body (RFC 9110 §10.1.1)."),
        OTHER => Some("Answer 417 to an expectation that is not known, or ignore it."),
        _ => None,
    }
}

fn continued(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "nginx responds with 100 by itself when it reads the body: what stands in front of it must not hold the expectation back; until then remove it in the client (curl -H 'Expect:')."
        }
        Server::Apache => {
            "With mod_proxy set Proxy100Continue Off, so that httpd responds with 100 by itself; until then remove the expectation in the client (curl -H 'Expect:')."
        }
        Server::HaProxy => {
            "option http-buffer-request has HAProxy respond with 100 by itself; or http-request del-header Expect where the server behind it never responds."
        }
        Server::Envoy => {
            "Leave proxy_100_continue of the HTTP connection manager off: then Envoy responds with 100 by itself."
        }
        Server::Caddy => {
            "Have the handler read the body, which is what sends the 100; in front of a server that never answers lower expect_continue_timeout of reverse_proxy's transport."
        }
        Server::PhpBuiltIn => {
            "php -S never answers the expectation: serve the app by php-fpm behind nginx or Apache, or by Keepwarm; until then remove it in the client (curl -H 'Expect:')."
        }
        Server::Unicorn => {
            "Unicorn leaves it to the app: for HTTP/1.1 return [100, {}, []] while env['HTTP_EXPECT'] says 100-continue, and it calls again with the body; or put nginx in front."
        }
        Server::WebRick => "Call request.continue before the servlet reads the body, or put nginx in front.",
        Server::WsgiRef | Server::PythonHttpServer | Server::Werkzeug | Server::Paste => {
            "Set protocol_version = 'HTTP/1.1' on the request handler: only then does http.server respond with 100; or put nginx in front."
        }
        Server::Node => {
            "A listener for checkContinue must call response.writeContinue(); without such a listener Node responds with 100 by itself."
        }
        Server::Uvicorn | Server::Granian => {
            "The app must receive the body (or answer) without waiting for anything else: the first receive() is what sends the 100."
        }
        _ => {
            "Answer 100 Continue, or the final status, as soon as the head is read; or put a server in front that does (nginx, Keepwarm). Until then remove the expectation in the client (curl -H 'Expect:')."
        }
    }
}
