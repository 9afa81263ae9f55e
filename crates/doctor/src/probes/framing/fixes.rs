//! Fixes, by server where it has a directive for it.

use crate::server::Server;

pub(crate) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    Some(match finding {
        "framing.bytes_after_response" => {
            "Send exactly the length in Content-Length, or the sizes of the chunks: look for an application that ends its page with an extra line, or counts characters instead of bytes."
        }
        "framing.split_head" => {
            "Read until the empty line that ends the head, however many reads that takes: networks split requests anywhere."
        }
        "framing.field_names" => "Compare header names without regard to case (RFC 9110 §5.1).",
        "framing.unwanted_body" | "framing.chunked_body" => unread_body(server),
        "framing.absolute_form" => {
            "Accept a target with scheme and host (RFC 9112 §3.2.2): use its host instead of Host, and its path as the path."
        }
        "framing.asterisk" | "framing.unknown_method" => {
            "Respond to every method: with 501 if it is unknown, with 405 if it is not allowed (RFC 9110 §9.1)."
        }
        "framing.long_field" => long_field(server),
        "framing.empty_members" => "Skip empty members of lists (RFC 9110 §5.6.1.2).",
        "framing.empty_line" => "Skip an empty line before a request (RFC 9112 §2.2).",
        "framing.percent_encoding" => {
            "Decode needless percent-encoding before comparing paths (RFC 3986 §6.2.2.2)."
        }
        "framing.no_host" => "Respond with 400 to HTTP/1.1 without Host (RFC 9112 §3.2).",
        "framing.two_hosts" | "framing.bad_host" => {
            "Respond with 400 to more than one Host, and to an invalid one (RFC 9112 §3.2), here or in front."
        }
        "framing.trace" if server == Server::Apache => "Set TraceEnable off.",
        "framing.trace" => "Respond with 405 to TRACE: it shows a script what the script may not read.",
        malformed if malformed.starts_with("framing.") => strictness(server),
        _ => return None,
    })
}

fn unread_body(server: Server) -> &'static str {
    match server {
        Server::PythonHttpServer | Server::WsgiRef | Server::Paste | Server::Werkzeug => {
            "Read self.rfile to the end of every body, also for GET, before the handler returns; or respond with Connection: close when there is one, and set self.close_connection."
        }
        _ => {
            "Read every body to its end before the next request, whatever the method, and whether the application wants it or not; or close the connection after the response."
        }
    }
}

fn long_field(server: Server) -> &'static str {
    match server {
        Server::Nginx => "Set large_client_header_buffers 4 8k (the default) or more.",
        Server::Apache => "Set LimitRequestFieldSize 8190 (the default) or more.",
        Server::HaProxy => "Set tune.bufsize 16384 (the default) or more.",
        Server::Gunicorn => "Set --limit-request-field_size 8190 (the default) or more.",
        Server::Node => "Set --max-http-header-size 16384 (the default) or more.",
        _ => "Accept headers of at least 8,000 bytes: cookies and tokens grow.",
    }
}

fn strictness(server: Server) -> &'static str {
    match server {
        Server::Nginx => {
            "Update nginx (1.21.1 and later reject more), and set ignore_invalid_headers off only behind a strict server."
        }
        Server::Apache => "Set HttpProtocolOptions Strict (the default since 2.4.25), and update.",
        Server::HaProxy => {
            "Remove option accept-invalid-http-request (accept-unsafe-violations-in-http-request), and update."
        }
        Server::Envoy => {
            "Leave allow_chunked_length false, and stream_error_on_invalid_http_message false, and update."
        }
        Server::Node => "Remove --insecure-http-parser and insecureHTTPParser, and update.",
        Server::Gunicorn => {
            "Update to 23 or later, and remove --permit-obsolete-folding, --permit-unconventional-http-method and --permit-unconventional-http-version."
        }
        Server::Puma => "Update to the newest Puma of its series; put a strict server in front until then.",
        Server::Waitress => "Update to 3 or later.",
        _ => {
            "Respond with 400 and close (RFC 9112 §2.2, §5, §6.3, §7.1). Until the server does, put a strict server in front, and keep no connections open from it to this one."
        }
    }
}
