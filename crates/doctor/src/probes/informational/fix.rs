//! Fixes, by server.

use super::rules::{EARLY_HINTS, HTTP10, LOST_TRAILERS, TRAILERS, UPGRADE, VIA_HINTS, VIA_TRAILERS};
use crate::server::Server;

pub(in crate::probes) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    match finding {
        EARLY_HINTS => Some(
            "Send only 1xx responses that a client can use (103 with Link), without a body and without headers that announce one.",
        ),
        HTTP10 if server == Server::Nginx => Some(
            "nginx before 1.29 takes a 103 from the server behind it for the response: upgrade nginx, or have the app send none (proxy_set_header Sec-Fetch-Mode \"\";).",
        ),
        HTTP10 => Some(
            "Send 1xx only to HTTP/1.1 and later (RFC 9110 §15.2); a proxy in front that sends HTTP/1.0 requests (nginx's default) should use 1.1: proxy_http_version 1.1.",
        ),
        UPGRADE => Some(
            "Respond with 101 only to a supported protocol, and ignore every other Upgrade (RFC 9110 §7.8).",
        ),
        TRAILERS => Some(
            "Put headers that frame, authenticate or describe the content into the head; announce and send others as trailers only where every hop passes them on.",
        ),
        VIA_HINTS => Some(match server {
            Server::Nginx => {
                "nginx passes 103 on since 1.29: set proxy_http_version 1.1; and early_hints with a variable that a map of $http_sec_fetch_mode sets for navigate."
            }
            Server::Apache => {
                "Do not set proxy-interim-response to Suppress; for HTTP/2 clients, set H2EarlyHints on."
            }
            Server::Envoy => "Envoy passes 103 on since 1.22, but only the first of several 1xx.",
            _ => "Pass every 1xx on, in order (RFC 9110 §15.2), or send the 103 from the outermost server.",
        }),
        LOST_TRAILERS | VIA_TRAILERS => Some(match server {
            Server::Nginx => {
                "Since nginx 1.27.2: proxy_pass_trailers on; proxy_http_version 1.1; proxy_set_header Connection te; proxy_set_header TE trailers; for gRPC, grpc_pass."
            }
            Server::Envoy => {
                "Set http_protocol_options: {enable_trailers: true}, on the connection manager and on the cluster."
            }
            _ => {
                "Pass the trailers on in the trailer section, or have the app send the information in the head."
            }
        }),
        _ => None,
    }
}
