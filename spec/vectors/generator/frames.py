"""Frames that are right, and bytes that end within one."""

from .forms import *


def good(name, sender, frame):
    return {"name": name, "from": sender, **hexed(encode(frame)), "frame": frame}


def both(name, frame):
    return [good(name, K, frame), good(name, W, frame)]


def frames():
    utf8 = "gr\u00fc\u00df".encode().decode("latin-1")
    post = {"method": "POST", "fields": [["host", "shop.example"], ["content-type", "text/plain"],
                                         ["content-length", "5"]]}
    yield good("welcome", K, welcome())
    yield good("welcome with nothing about it", K, welcome(about=[]))
    yield good("welcome with a name nobody knows", K, welcome(about=[["app", "shop"], ["color", "green"]]))
    yield good("welcome with an empty value", K, welcome(about=[["app", ""]]))
    yield good("welcome with several versions", K, welcome(versions=(1, 3)))
    yield good("welcome with the most credit", K, welcome(2**31 - 1, 2**31 - 1))
    yield good("hello of a blocking worker", W, hello(
        about=[["adapter", "python/0.1.0"], ["kind", "wsgi"], ["language", "CPython 3.11.7"], ["blocking", "1"],
               ["cgi_names", "1"], ["ahead", "3"]]))
    yield good("hello of a worker of many streams", W, hello(
        1000, 262144, 1048576, [["adapter", "python/0.1.0"], ["kind", "asgi"], ["language", "CPython 3.13.1"],
                                ["websocket", "1"], ["half_close", "1"]]))
    yield good("hello of a worker that hijacks", W, hello(
        16, about=[["adapter", "ruby/0.1.0"], ["kind", "rack"], ["language", "ruby 3.4.1"], ["blocking", "1"],
                   ["cgi_names", "1"], ["hijack", "1"], ["user", "1"]]))
    yield good("hello with nothing about it", W, hello(about=[]))
    yield good("hello with the most of everything", W, hello(65535, 2**31 - 1, 2**31 - 1, version=65535))

    yield good("half close", K, half_close(9))
    yield good("request, GET", K, request())
    yield good("request, with every string", K, request(
        stream=7, scheme="https", protocol="HTTP/2", path="/a b/c", raw_path="/app/a%20b/c", query="x=1&y=",
        script_name="/app", server_port="443", fields=[["host", "shop.example"], ["accept", "*/*"]]))
    yield good("request, without a field", K, request(protocol="HTTP/1.0", fields=[]))
    yield good("request, from a Unix socket", K, request(client_address="", client_port=""))
    yield good("request, OPTIONS *", K, request(method="OPTIONS", path="", raw_path="*"))
    yield good("request, path is the script name", K, request(path="", raw_path="/app", script_name="/app"))
    yield good("request, path in UTF-8", K, request(path="/" + utf8, raw_path="/gr%C3%BC%C3%9F"))
    yield good("request, path with bytes that are not UTF-8", K, request(path="/\u00ff\u00fe", raw_path="/%FF%FE"))
    yield good("request, path with a line break", K, request(path="/a\r\nb", raw_path="/a%0D%0Ab"))
    yield good("request, bytes above 127 in a value", K, request(fields=[["x", "\u0080\u00ff caf\u00e9"]]))
    yield good("request, empty values", K, request(fields=[["a", ""], ["b", ""]]))
    yield good("request, repeated fields in order", K, request(
        flags=["END", "REPEATS"], fields=[["x", "1"], ["y", "2"], ["x", "3"], ["x", ""]]))
    yield good("request, 128 fields", K, request(fields=[["x-%d" % i, "v" * i] for i in range(128)]))
    yield good("request, early hints and trailers", K, request(flags=["END", "EARLY_HINTS", "TRAILERS"]))
    yield good("request, every flag", K, request(
        flags=["END", "EXPECT", "REPEATS", "EARLY_HINTS", "WEBSOCKET", "TRAILERS", "USER"], user="jo", auth_type=""))
    yield good("request, of a user with a password", K, request(
        flags=["END", "USER"], user="gr\u00fc\u00df dich", auth_type="Basic"))
    yield good("request, of a user and without a field", K, request(
        flags=["END", "USER"], fields=[], user="jo", auth_type=""))
    yield good("request, POST with its whole body", K, request(content_length=5, body="hello", **post))
    yield good("request, POST with the first bytes of its body", K, request(
        flags=[], content_length=100000, body="hel", **post))
    yield good("request, POST with its body to come", K, request(flags=[], content_length=5, **post))
    yield good("request, the client waits for 100 Continue", K, request(
        flags=["EXPECT"], content_length=5, **post))
    yield good("request, chunked, whole", K, request(content_length=None, method="PUT", body="abc"))
    yield good("request, chunked, to come", K, request(flags=[], content_length=None, method="PUT"))
    yield good("request, body with NULs", K, request(content_length=4, body="\0a\0\0", method="PUT"))
    yield good("request, longest first bytes", K, request(
        content_length=BODY, method="PUT", body=many("a", BODY)))
    yield good("request, content length 2^63-1", K, request(flags=[], content_length=2**63 - 1, method="PUT"))
    yield good("request, WebSocket", K, request(
        flags=["END", "WEBSOCKET"], fields=[["host", "shop.example"], ["sec-websocket-protocol", "chat, log"]]))
    yield good("request, last stream there can be", K, request(stream=2**32 - 1))
    name = "x" * (PAYLOAD - len(encode(request(fields=[["", ""]]))) + 10)
    yield good("request, longest payload there can be", K, request(fields=[["", name]]))

    yield good("response, whole", W, response(body="pong"))
    yield good("response, no field and no body", W, response(status=204, fields=[]))
    yield good("response, close", W, response(flags=["END", "CLOSE"]))
    yield good("response, body to come", W, response(flags=[]))
    yield good("response, first bytes of its body", W, response(flags=[], body="data: 1\n\n"))
    yield good("response, several cookies", W, response(
        fields=[["Set-Cookie", "a=1"], ["set-cookie", "b=2; Path=/"], ["SET-COOKIE", "c=3"]]))
    yield good("response, bytes above 127 in a value", W, response(fields=[["X", "\u00fc\u00ff"]]))
    yield good("response, empty name and value: Keepwarm answers 502", W, response(fields=[["", ""]]))
    yield good("response, CR and LF in a value: Keepwarm answers 502", W, response(fields=[["a", "b\r\nc: d"]]))
    yield good("response, body with NULs", W, response(body="\0\0"))
    yield good("response, longest first bytes", W, response(body=many("\0", BODY)))
    yield good("response, status 999", W, response(status=999))
    yield good("response, accepts a WebSocket", W, response(
        status=101, flags=[], fields=[["sec-websocket-protocol", "chat"]]))
    yield good("response, accepts a WebSocket, no field", W, response(status=101, flags=[], fields=[]))
    yield good("inform, early hints", W, inform())
    yield good("inform, 102 without fields", W, inform(status=102, fields=[]))
    yield good("inform, 199", W, inform(status=199))
    yield good("want", W, want(2))

    yield from both("data", data(1, "hello"))
    yield from both("data, end", data(1, "hello", True))
    yield from both("data, empty end", data(1, "", True))
    yield from both("data, empty", data(3))
    yield from both("data, looks like a frame", data(1, encode(DRAIN).decode("latin-1")))
    yield from both("data, longest", data(2**32 - 1, many("a", BODY)))
    yield from both("trailers", trailers())
    yield from both("trailers, none", trailers(fields=[]))
    yield from both("trailers, repeated", trailers(fields=[["a", "1"], ["a", ""], ["b", "2"]]))
    yield from both("credit, stream", credit(1, 16384))
    yield from both("credit, connection", credit(0, 65536))
    yield from both("credit, least", credit(1, 1))
    yield from both("credit, most", credit(1, 2**31 - 1))
    yield from both("reset, no reason", reset())
    for code, word in enumerate(("cancelled", "timeout", "app_error", "too_short", "incomplete", "refused"), 1):
        yield from both("reset, " + word, reset(9, code, "it was " + word))
    yield from both("reset, a code without a name", reset(9, 65535, "?"))
    yield from both("reset, reason in UTF-8", reset(9, 3, "\u00fcber \u2713 \U0001f600"))
    yield from both("reset, longest reason", reset(9, 3, "a" * 1024))
    yield from both("text, whole message", text(1, utf8))
    yield from both("text, part", text(1, "hel", False))
    yield from both("text, part that ends within a character", text(1, utf8[:3], False))
    yield from both("text, empty message", text(1))
    yield from both("text, longest", text(1, many("a", BODY)))
    yield from both("binary, whole message", binary(1, "\0\u00ff\u0080"))
    yield from both("binary, part", binary(1, "ab", False))
    yield from both("binary, empty end", binary(1))
    yield from both("close", close())
    yield from both("close, with a reason", close(1, 4001, "gute Nacht \u2713"))
    yield from both("close, lost", close(1, 1006))
    yield from both("close, longest reason", close(1, 1011, "a" * 123))
    yield good("ping", K, ping())
    yield good("ping, other bytes", K, ping("ffffffff00000000"))
    yield good("pong", W, pong())
    yield from both("drain", DRAIN)
    yield good("hijack", W, hijack(7))
    yield good("busy", W, BUSY)
    yield good("busy no more", W, FREE)
    yield good("samples, of a request", W, samples())
    yield good("samples, of none, none kept", W, samples(0, 2**32 - 1, []))
    yield good("samples, several stacks", W, samples(7, 2, [["app;a;b", "1"], ["app;a;" + utf8 + ";(waiting)", "20000"]]))
    yield good("leaks", K, LEAKS)
    yield good("leaks no more", K, NO_LEAKS)
    yield good("growth, of a request", W, growth())
    yield good("growth, the response to LEAKS, nothing to say", W, growth(0, 2**32 - 1, []))
    yield good("growth, of every form, down too", W, growth(7, 0, [
        ["memory", "-4096"], ["object;App\\Cart", "-1"], ["held;App\\Cart::$all", "3"],
        ["held;shop." + utf8, "1"], ["made;shop/cart.py:41", "1024"]]))


def partials():
    """Bytes that end within a frame, and several frames in one read."""
    get, answer = encode(request()), encode(response(body="pong"))
    for sender, whole in ((K, get), (W, answer)):
        yield {"name": "nothing", "from": sender, "hex": "", "frames": [], "need_more": None}
        for size in (1, 4, 5, 9):
            yield {"name": "%d bytes of a header" % size, "from": sender, "hex": whole[:size].hex(), "frames": [],
                   "need_more": None}
        for size in (10, 11, 20, len(whole) - 1):
            yield {"name": "%d bytes of a frame" % size, "from": sender, "hex": whole[:size].hex(), "frames": [],
                   "need_more": len(whole)}
    several = [response(1, flags=[]), data(1, "a"), want(2), data(1, "b", True), pong(), DRAIN]
    joined = b"".join(map(encode, several))
    yield {"name": "six frames", "from": W, "hex": joined.hex(), "frames": several, "need_more": None}
    yield {"name": "six frames and some of the next", "from": W, "hex": (joined + answer[:15]).hex(),
           "frames": several, "need_more": len(answer)}
    yield {"name": "a frame and then a fault", "from": W, "hex": (answer + raw(0xEE, 0, 1)).hex(),
           "frames": [response(body="pong")], "fault": "unknown_type"}
    two = [welcome(), request(), ping(), DRAIN]
    yield {"name": "four frames", "from": K, "hex": b"".join(map(encode, two)).hex(), "frames": two,
           "need_more": None}
    yield {"name": "two frames and then a fault whose payload is not there", "from": K,
           "hex": (get + encode(ping()) + raw("DATA", 0, 1, length=BODY + 1)).hex(),
           "frames": [request(), ping()], "fault": "too_long"}
