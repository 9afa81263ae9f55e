"""Why a server does what was found, in the words of its source, its manual or the RFC. A finding that is not explained here fails the matrix."""

# By the finding's id; where servers have reasons of their own, by (id, server).
WHY = {
    ("expect.continue", "Caddy"): (
        "**Caddy**: Go's `net/http` sends the 100 when a handler reads the body. If a handler never does (`file_server`, which responds with 405 here, or `respond`), the server reads and discards the "
        "body before the response leaves, without ever requesting it. The client's second is lost exactly where the body is not wanted. Behind `reverse_proxy`, which reads, the 100 comes at once: "
        "`--post PATH` checks the path that matters."
    ),
    ("expect.continue", "php -S"): "**php -S** ignores `Expect`: it waits for the body, the client waits for the 100, and `curl` gives up after a second.",
    ("expect.continue", "WEBrick"): "**WEBrick** has `request.continue`, and leaves it to the application; its Rack handler never calls it. This is the second that the article describes, still there.",
    ("expect.empty", "waitress"): (
        "**waitress** responds to `Expect: 100-continue` with a 100 whatever the length, and then considers the request incomplete (`send_continue` in `channel.py`). With `Content-Length: 0` nothing more "
        "completes it: no response ever comes. `curl -X OPTIONS -H 'Expect: 100-continue' -H 'Content-Length: 0'` hangs in the same way."
    ),
    ("expect.http10", "Puma"): "**Puma** 5.6 checks for `Expect` and not for the version, so an HTTP/1.0 client gets a 100, which it takes for the response (RFC 9110 §15.2).",
    ("expect.unread", "Granian"): (
        "**Granian** responds as soon as the application has, does not send `Connection: close`, and closes the connection when the unread body arrives: a client that was sending the body may lose its next "
        "request."
    ),
    "health.haproxy_default": (
        "**Envoy** rejects HTTP/1.0 with 426 unless `http_protocol_options` sets `accept_http_10`, so a check over HTTP/1.0 (HAProxy's `option httpchk` without a version, nginx's passive check) considers it "
        "unhealthy."
    ),
    "health.nginx": "**Envoy**: the same 426.",
    ("persistence.close", "Envoy"): (
        "**Envoy** sends `Connection: close` and then waits for the client to close first, for `delayed_close_timeout`, by default one second. This is meant to spare the client a reset that overtakes the "
        "response. A client that reads until the close, as an HTTP/1.0 client does, waits for that second: `ab` shows 1.0 s per request."
    ),
    ("persistence.http10", "Envoy"): "**Envoy**: see `persistence.close`; the 426 to HTTP/1.0 is followed by the same second.",
    ("persistence.http10_keep_alive", "Envoy"): "**Envoy**: see `persistence.close`.",
    "persistence.head": (
        "A body with HEAD comes from the application here: the hello page does not check the method, and WSGI and Rack apps need not when a framework does. Servers treat it differently: gunicorn, Granian, "
        "uvicorn, Puma and WEBrick drop it. **waitress** sends it on a connection that it keeps open: the next response begins with the page. **Unicorn**, **Paste** and **wsgiref** send it and then close "
        "the connection, so no client reads it: a warning. `use Rack::Head` helps with Rack."
    ),
    ("writes.nagle", "WEBrick"): (
        "**WEBrick** sends head and body with two writes, and leaves Nagle's algorithm on. On a persistent connection the body waits until the head is acknowledged, and the client's system delays that for "
        "40 ms: `curl`, requesting the same page eight times on one connection, takes 44 ms for each from the second on. On a new connection this does not show, because Linux acknowledges the first "
        "segments at once."
    ),
    ("writes.head", "wsgiref"): "**wsgiref** writes the lines of the head one by one (see `writes.segments`), so a checker that reads once sees only part of it: the fifth stall of the article.",
    ("writes.segments", "wsgiref"): (
        "**wsgiref** writes the status line, `Date`, `Server`, the application's headers and the body one by one, to an unbuffered file: five segments for 154 bytes. The article found the same in Paste, "
        "which has buffered them since."
    ),
    # With --intrusive
    "framing.bad_host": "An invalid `Host` is passed on unchanged; RFC 9112 §3.2 requires 400.",
    "framing.bare_cr": "RFC 9112 §2.2 lets a lone CR be replaced with a space, or rejected. Python's `http.server` and servers built on it end a line there.",
    "framing.bare_lf": "RFC 9112 §2.2 lets a lone LF end a line. Nearly all servers accept it; a server behind them must do so, too.",
    "framing.space_before_colon": (
        "RFC 9112 §5.1 requires 400, because one server reads the header and the next does not. Python's `email` parser, which reads heads for `http.server`, and `php -S` accept it."
    ),
    "framing.both_lengths": (
        "RFC 9112 §6.3 lets `Transfer-Encoding` win, and then requires the connection to close after the response. A server that closes gets a warning; **Caddy**, **Puma**, **WEBrick**, **uvicorn** (h11) "
        "and **waitress** continue, so the bytes after the message get a response as the next request: behind a server that lets `Content-Length` win, this is request smuggling."
    ),
    "framing.chunk_line_end": "RFC 9112 §7.1 requires CRLF there. nginx, HAProxy and WEBrick accept LF.",
    "framing.control_byte": "RFC 9110 §5.5 forbids NUL in values; a server that passes it on leaves it to the next one.",
    "framing.differing_lengths": (
        "RFC 9112 §6.3 requires 400. A server that closes the connection after each response cannot be made to read the hidden request; **WEBrick** keeps it open, and responds to the hidden request. "
        "**Unicorn** rejects differing lengths except where the first is 0."
    ),
    "framing.empty_line": "RFC 9112 §2.2: a server SHOULD ignore an empty line before a request (old clients sent one after a body). These do not.",
    "framing.folding": "RFC 9112 §5.2: a folded line is rejected, or replaced with a space. Here it was replaced, and no length in it was read.",
    "framing.http10_coding": (
        "RFC 9112 §6.1: `Transfer-Encoding` in HTTP/1.0 must be treated as faulty framing, and the connection closed. **Apache**, **Caddy**, **Puma**, **WEBrick** and **waitress** keep the connection open "
        "when the client sends keep-alive."
    ),
    "framing.length_syntax": "`+88` is not a valid length. Python's `int` and Ruby's `Integer` accept it.",
    "framing.name_syntax": "A name that contains a space is not a token (RFC 9110 §5.1).",
    "framing.no_host": "RFC 9112 §3.2: HTTP/1.1 without `Host` gets 400. Servers without virtual hosts do not check.",
    "framing.trace": "**Apache** responds to TRACE unless `TraceEnable off` is set: the request comes back, including its cookies.",
    "framing.transfer_coding": (
        "An unknown coding, or one that does not end in `chunked`, has no end that can be known: 400 or 501. Servers that close after it read no hidden request; **WEBrick** strips a vertical tab and continues."
    ),
    "framing.two_hosts": "RFC 9112 §3.2 requires 400. The application gets the first, the last, or both joined, and a check that chooses by the other is bypassed.",
    "framing.version": "A version with another major number requires 505 (RFC 9110 §15.6.6). These servers treat it as 1.1.",
}


def why(finding, server):
    return WHY.get((finding, server)) or WHY.get(finding)
