"""Why a server does what was found, in the words of its source, its manual or the RFC. A finding that is not explained here fails the matrix."""

# By the finding's id; where servers have reasons of their own, by (id, server).
WHY = {
    ("expect.continue", "Caddy"): (
        "**Caddy**: Go's `net/http` sends the 100 when a handler reads the body; one that never does (`file_server`, which responds with 405 here, or `respond`) has the "
        "server read the body past before the response leaves, without ever asking for it. So the client's second is lost exactly where the body is not wanted. Behind "
        "`reverse_proxy`, which reads, the 100 comes at once: `--post PATH` asks the path that matters."
    ),
    ("expect.continue", "php -S"): "**php -S** knows no expectations: it waits for the body, the client for the 100, and `curl` gives up after a second.",
    ("expect.continue", "WEBrick"): "**WEBrick** has `request.continue`, and leaves it to the application; its Rack handler never calls it. This is the article's second, still there.",
    ("expect.empty", "waitress"): (
        "**waitress** answers `Expect: 100-continue` by a 100 whatever the length, and then takes the request for one that is not complete yet (`send_continue` in `channel.py`). With `Content-Length: 0` nothing more "
        "completes it: no response ever comes. "
        "`curl -X OPTIONS -H 'Expect: 100-continue' -H 'Content-Length: 0'` hangs in the same way."
    ),
    ("expect.http10", "Puma"): "**Puma** 5.6 looks for `Expect` and not for the version, so that a client of HTTP/1.0 gets a 100, which it takes for the response (RFC 9110 §15.2).",
    ("expect.unread", "Granian"): (
        "**Granian** answers as soon as the application has, does not say `Connection: close`, and closes when the body comes that nobody reads: a client that had it on its way may lose its next request."
    ),
    "health.haproxy_default": (
        "**Envoy** refuses HTTP/1.0 by 426 unless `http_protocol_options` says `accept_http_10`, so a check by HTTP/1.0 (HAProxy's `option httpchk` without a version, nginx' passive one) takes it for ill."
    ),
    "health.nginx": "**Envoy**: the same 426.",
    ("persistence.close", "Envoy"): (
        "**Envoy** sends `Connection: close` and then waits for the client to close first, for `delayed_close_timeout`, one second unless it is set: it means to spare the client a reset that overtakes the response. "
        "A client that reads up to the close, as one of HTTP/1.0 does, waits for that second: `ab` shows 1.0 s a request."
    ),
    ("persistence.http10", "Envoy"): "**Envoy**: see `persistence.close`; the 426 to HTTP/1.0 is followed by the same second.",
    ("persistence.http10_keep_alive", "Envoy"): "**Envoy**: see `persistence.close`.",
    "persistence.head": (
        "A body with HEAD is the application's doing here: the hello page does not look at the method, as WSGI and Rack apps need not when a framework does. What differs is what servers make of it: "
        "gunicorn, Granian, uvicorn, Puma and WEBrick drop it. **waitress** sends it, on a connection that it keeps: the next response begins with the page. **Unicorn**, **Paste** and **wsgiref** send it and close "
        "behind it, so that nobody reads it: a warning. `use Rack::Head` helps Rack's."
    ),
    ("writes.nagle", "WEBrick"): (
        "**WEBrick** writes head and body by two writes, and leaves Nagle's algorithm on. On a kept connection the body waits until the head is acknowledged, and the client's system delays that for 40 ms: "
        "`curl`, asked for the same page eight times on one connection, takes 44 ms each from the second on. On a new connection nothing is seen of it, since Linux acknowledges at once in its beginning."
    ),
    ("writes.head", "wsgiref"): (
        "**wsgiref** writes the lines of the head one by one (see `writes.segments`), so that a checker that reads once sees a part of it: the article's fifth."
    ),
    ("writes.segments", "wsgiref"): (
        "**wsgiref** writes the status line, `Date`, `Server`, the application's fields and the body one by one, to a file without a buffer: five segments for 154 bytes. It is what the article found in Paste, which gathers them since."
    ),
    # With --intrusive
    "framing.bad_host": "A `Host` that is no host is passed on as it is; RFC 9112 §3.2 wants 400.",
    "framing.bare_cr": "RFC 9112 §2.2 lets a CR alone be taken for a blank, or refused. Python's `http.server` and what is built on it ends a line there.",
    "framing.bare_lf": "RFC 9112 §2.2 lets an LF alone end a line. Nearly everybody does; what stands behind must do so, too.",
    "framing.blank_before_colon": "RFC 9112 §5.1 wants 400, since one reads the field and the next does not. Python's `email` parser, which reads heads for `http.server`, and `php -S` take it.",
    "framing.both_lengths": (
        "RFC 9112 §6.3 lets `Transfer-Encoding` win, and then wants the connection closed behind the response. Who closes gets a warning; **Caddy**, **Puma**, **WEBrick**, **uvicorn** (h11) and **waitress** "
        "go on, so that what stands behind is answered as the next request: behind a server that lets `Content-Length` win, request smuggling."
    ),
    "framing.chunk_line_end": "RFC 9112 §7.1 has CRLF there. nginx, HAProxy and WEBrick are content with LF.",
    "framing.control_byte": "RFC 9110 §5.5 forbids NUL in values; who passes it on leaves it to whoever is next.",
    "framing.differing_lengths": (
        "RFC 9112 §6.3 wants 400. Who closes behind each response cannot be made to read the hidden request; **WEBrick** keeps the connection, and answers it. **Unicorn** refuses differing lengths except where the first is 0."
    ),
    "framing.empty_line": "RFC 9112 §2.2: a server SHOULD ignore an empty line before a request (old clients sent one behind a body). These do not.",
    "framing.folding": "RFC 9112 §5.2: a folded line is refused, or becomes a blank. It became one, and no length in it was read.",
    "framing.http10_coding": (
        "RFC 9112 §6.1: `Transfer-Encoding` in HTTP/1.0 is to be treated as faulty framing, and the connection closed. **Apache**, **Caddy**, **Puma**, **WEBrick** and **waitress** keep it, when the client asks for keep-alive."
    ),
    "framing.length_syntax": "`+88` is no length. Python's `int` and Ruby's `Integer` read it.",
    "framing.name_syntax": "A blank within a name is no token (RFC 9110 §5.1).",
    "framing.no_host": "RFC 9112 §3.2: HTTP/1.1 without `Host` gets 400. Servers that know no virtual hosts do not look.",
    "framing.trace": "**Apache** answers TRACE unless `TraceEnable off`: the request comes back, cookies and all.",
    "framing.transfer_coding": (
        "An unknown coding, or one that does not end in `chunked`, has no end that can be known: 400 or 501. Those that close behind it read no hidden request; **WEBrick** strips a vertical tab and goes on."
    ),
    "framing.two_hosts": "RFC 9112 §3.2 wants 400. The application gets the first, the last, or both joined, and what chooses by the other is bypassed.",
    "framing.version": "A version of another major number wants 505 (RFC 9110 §15.6.6). Taken as 1.1.",
}


def why(finding, server):
    return WHY.get((finding, server)) or WHY.get(finding)
