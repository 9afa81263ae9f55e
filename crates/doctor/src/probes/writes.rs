//! `writes`: packets per response, and whether one waits for another.
//!
//! What it looks for:
//! * a head that leaves in pieces, as when each field is a `send` of its own: a packet each, and a reader that reads once (an old health check) sees only the
//!   first of them;
//! * a small second write that waits for the acknowledgement of the first, which the client delays for 40 ms in the hope of something to send with it: Nagle's
//!   algorithm (RFC 9293 §3.7.4) with delayed acknowledgements (§3.8.6.3). Without TLS only kept connections have it, for a new one is acknowledged at once;
//!   with TLS a new one has it, too, where the response follows the session tickets in a write of its own;
//! * a stream that is held back.
//!
//! How it works: the kernel counts the segments received (`TCP_INFO`). A response to HEAD is all head; on new connections, where every segment is acknowledged
//! at once, a server's writes show even with Nagle's algorithm. On a kept connection the doctor acknowledges late and at once, in turns: a pause that appears
//! only with the first is the stall, any other is the server's own.
//!
//! What is ordinary: one segment (nginx, HAProxy, Granian, Puma, Node), or two, head and body apart (nginx with `sendfile` and without `tcp_nopush`, Envoy, gunicorn,
//! uvicorn, `php -S`), or three if the end of a chunked body goes by itself: a packet or two more, and nothing waits. Such a server is good.

mod observe;
mod rules;
mod stream;

#[cfg(test)]
mod tests;

use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::server::Server;

pub(super) async fn examine(context: &ProbeContext) -> Vec<Finding> {
    let seen = observe::observe(context).await;
    vec![rules::segments(&seen), rules::head(&seen), rules::nagle(&seen), stream::stream(&context.first)]
}

pub(super) fn fix(finding: &str, server: Server) -> Option<&'static str> {
    match finding {
        rules::NAGLE => Some(match server {
            Server::WebRick => {
                "WEBrick has no setting for it: call setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) on its listeners, or use Puma."
            }
            Server::PythonHttpServer | Server::WsgiRef | Server::Werkzeug | Server::Paste => {
                "Set disable_nagle_algorithm = True and wbufsize = -1 in the request handler's class, or use gunicorn or another production server."
            }
            Server::Nginx => "Set tcp_nodelay on (the default), and tcp_nopush on with sendfile.",
            Server::Apache => {
                "Look for a module that writes past httpd's filters: httpd itself sets TCP_NODELAY."
            }
            Server::Node => {
                "Leave socket.setNoDelay on (the default since Node 18), or send head and body with one res.end(body)."
            }
            _ => {
                "Set TCP_NODELAY on accepted connections, and write head and body with one writev (or under TCP_CORK)."
            }
        }),
        rules::HEAD => Some(match server {
            Server::WsgiRef | Server::PythonHttpServer => {
                "Set wbufsize = -1 in the request handler's class, so that writes are buffered, or use gunicorn or another production server."
            }
            _ => {
                "Collect the status line, headers and body in a buffer, and write it once; TCP_NODELAY without that makes it worse."
            }
        }),
        rules::SEGMENTS => Some(match server {
            Server::Nginx => {
                "Set tcp_nopush on together with sendfile on; for an application behind nginx, leave proxy_buffering (fastcgi_buffering) on."
            }
            Server::WsgiRef => {
                "Set wbufsize = -1 in the request handler's class (wsgiref writes each part of the head separately), or use gunicorn or another production server."
            }
            Server::PhpBuiltIn => {
                "Set output_buffering = 4096 in php.ini, so that the output of echo is buffered."
            }
            _ => {
                "Join the parts of a small body before they are returned, or buffer the output in the server."
            }
        }),
        stream::STREAM => Some(match server {
            Server::Nginx => {
                "Send X-Accel-Buffering: no with the response, or set proxy_buffering off (fastcgi_buffering off) and gzip off for that location."
            }
            Server::Apache => "Set flushpackets=on in ProxyPass, and do not use mod_deflate for that path.",
            _ => {
                "Flush after each event, in the application and in everything in front of it: output buffers, compression, buffering proxies."
            }
        }),
        _ => None,
    }
}
