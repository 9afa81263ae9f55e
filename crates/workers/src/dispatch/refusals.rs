//! The errors that are sent in place of an app's response.

use std::time::Duration;

use keepwarm_serve::Exchange;

use super::app::SubmitError;

keepwarm_serve::error_responses! {
    /// `app.NAME.queue` requests already wait for a worker: add workers, or make the app faster.
    QUEUE_FULL = 503 "queue_full", "Too many requests are waiting for this application.", retry after 1 s;

    /// No worker became free within `app.NAME.queue_timeout`: add workers, or make the app faster.
    QUEUE_TIMEOUT = 503 "queue_timeout", "The application is busy: no worker became free in time.", retry after 1 s;

    /// Keepwarm gave up on the app, because its workers do not start; the log has the reason. Fix it, then reload.
    APP_FAILED = 503 "app_failed", "The application is not running: {}.", retry after 10 s;

    /// A reload is replacing the app with one of another kind.
    APP_CHANGED = 503 "app_changed", "The application is being replaced.", retry after 1 s;

    /// A watched app does not start with its current files, and a browser requested a page. The page shows what the app printed.
    NOT_STARTED = 500 "not_started",
        "The application does not start with its current files. Keepwarm tries again when one of them changes.";

    /// Requests of this route have killed workers repeatedly; the log names them. The route is tried again after the time in `Retry-After`.
    ROUTE_QUARANTINED = 503 "route_quarantined",
        "Requests like this one have crashed the application, and are refused for now.";

    /// Three workers in a row returned the request without starting it.
    WORKER_REFUSED = 503 "worker_refused", "No worker accepted the request.", retry after 1 s;

    /// The worker died while it had the request, which is not safe to retry; the log has its exit status or signal.
    WORKER_DIED = 502 "worker_died", "The process that handled this request died.";

    /// The worker was killed because another of its requests reached `request_timeout`.
    WORKER_TIMED_OUT = 502 "worker_timed_out",
        "The process that handled this request was killed because another request hung in it.";

    /// The worker was killed because it used more than `app.NAME.kill_memory`.
    WORKER_MEMORY = 502 "worker_memory",
        "The process that handled this request was killed because it used too much memory.";

    /// The app did not respond within `app.NAME.request_timeout`. The log has the worker and, where its language can show it, its stack.
    REQUEST_TIMEOUT = 504 "request_timeout", "The application did not respond in time.";

    /// The app failed with an error that it did not turn into a response; the log has it.
    APP_ERROR = 500 "app_error", "The application failed to respond to this request.";

    /// The app's response was shorter than its `Content-Length`, and nothing of it had been sent.
    BODY_TOO_SHORT = 500 "body_too_short", "The application failed to respond to this request.";

    /// The app's response has a header with an invalid name or value; the log names it.
    BAD_FIELD = 502 "bad_field", "The application's response has a header that cannot be sent.";

    /// The socket of `rack.hijack` could not be taken over from the worker; the log has the cause.
    HIJACK_FAILED = 502 "hijack_failed", "The socket on which the application responds could not be taken over.";

    /// The client did not send the body that the app had requested with `100 Continue`.
    BODY_TOO_SLOW = 408 "body_too_slow", "The request body did not arrive in time.";

    /// The headers fit `server.limits`, and not a frame of the worker wire (1 MiB) or a FastCGI record (64 KiB).
    TOO_LARGE_FOR_THE_WIRE = 431 "too_large_for_the_wire", "The request headers are too large.";

    /// A WebSocket opening with a version other than 13 (RFC 6455 §4.2.2).
    WEBSOCKET_VERSION = 426 "websocket_version", "Only version 13 of WebSocket is supported.";

    /// A WebSocket opening whose `Sec-WebSocket-Key` is not 16 bytes in base64.
    WEBSOCKET_KEY = 400 "websocket_key", "The request opens a WebSocket with an invalid key.";

    /// A WebSocket opening with a body.
    WEBSOCKET_BODY = 400 "websocket_body", "A request that opens a WebSocket must not have a body.";

    /// The app's server (`kind = "http"` or `"fastcgi"`) accepts no connections.
    NOT_CONNECTED = 502 "not_connected", "The application accepts no connections.";

    /// The server at `app.NAME.address` accepts no connections: start it, or correct the address.
    SERVER_NOT_CONNECTED = 503 "not_connected", "The application's server at {} accepts no connections.", retry after 1 s;

    /// The app's server closed the connection before it responded; the request is not safe to retry.
    CLOSED_WITHOUT_RESPONSE = 502 "closed_without_response",
        "The application closed the connection without a response.";

    /// The app's server has declined the request over HTTP/2 (REFUSED_STREAM, GOAWAY), and it could not be given to it again, or not once more.
    NOT_PROCESSED = 503 "refused_stream", "The application refused the request.", retry after 1 s;

    /// A client opens a WebSocket, and the app's server (`protocol = "http2"`) does not offer extended CONNECT (RFC 8441).
    NO_EXTENDED_CONNECT = 502 "no_extended_connect", "The application takes no WebSockets over HTTP/2.";

    /// The response of the app's server breaks the rules of its protocol. The reason is one of the faults below.
    BAD_RESPONSE = 502 "bad_response", "The application's response is invalid and cannot be passed on.";

    /// The app took the connection over with `rack.hijack` and sent no response on it, or an invalid one.
    HIJACKER_FAILED = 502 "closed_without_response",
        "The application did not respond on the connection that it had taken over.";

    /// The name of the script starts with a dot, or has an extension that hides it.
    FILE_HIDDEN = 403 "file_hidden", "Access to this script is not allowed.";

    /// No file of classic PHP has this path, and the app's `entry` is a directory, without a script that serves all other paths.
    NO_SCRIPT = 404 "no_script", "There is no such page.";

    /// The script could not be looked up: the log has the system's error.
    SCRIPT_FAILED = 500 "script_failed", "The server could not look up the script.";
}

/// The route of the request kills workers, and is refused for `time`.
pub(super) fn respond_quarantined(exchange: &mut Exchange<'_>, time: Duration) {
    let seconds = u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
    ROUTE_QUARANTINED.about(&[]).retry_after(seconds.max(1)).respond(exchange);
}

/// The app did not respond in time: that is the response, or what has begun is cut.
pub(super) fn respond_timed_out(exchange: &mut Exchange<'_>) {
    match exchange.responded() {
        true => exchange.abort(REQUEST_TIMEOUT.reason),
        false => REQUEST_TIMEOUT.respond(exchange),
    }
}

/// The app takes no request now.
pub(super) fn respond_not_submitted(exchange: &mut Exchange<'_>, error: &SubmitError) {
    match error {
        SubmitError::QueueFull => QUEUE_FULL.respond(exchange),
        SubmitError::Failed(reason) => APP_FAILED.about(&[reason]).respond(exchange),
    }
}
