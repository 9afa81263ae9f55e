#!/usr/bin/env python3
"""Writes the vectors beside this file. Standard library only.

    python3 spec/vectors/generate.py            write them
    python3 spec/vectors/generate.py --check    fail when they are not fresh

The encoder below is written from spec/wire.md and from nothing else, so that the vectors are a second opinion on
every implementation. README.md describes the format.
"""

import json
import os
import struct
import sys

TYPES = {
    "HELLO": 0x01, "WELCOME": 0x02, "REQUEST": 0x10, "DATA": 0x11, "TRAILERS": 0x12, "RESPONSE": 0x13,
    "INFORM": 0x14, "WANT": 0x15, "CREDIT": 0x16, "RESET": 0x17, "TEXT": 0x20, "BINARY": 0x21, "CLOSE": 0x22,
    "PING": 0x30, "PONG": 0x31, "DRAIN": 0x32,
}
FLAGS = {
    "REQUEST": {"END": 1, "EXPECT": 2, "REPEATS": 4, "EARLY_HINTS": 8, "WEBSOCKET": 16, "TRAILERS": 32},
    "RESPONSE": {"END": 1, "CLOSE": 2},
    "DATA": {"END": 1}, "TEXT": {"END": 1}, "BINARY": {"END": 1},
}
FIXED = (
    "method", "protocol", "scheme", "path", "raw_path", "query", "script_name", "server_name", "server_port",
    "client_address", "client_port",
)
BODY, PAYLOAD = 65536, 131072
K, W = "keepwarm", "worker"


def many(text, times):
    """A body too long to write out."""
    return {"repeat": text, "times": times}


def body_bytes(body):
    if isinstance(body, dict):
        return body["repeat"].encode("latin-1") * body["times"]
    return body.encode("latin-1")


def raw(type_, flags, stream, payload=b"", length=None):
    """A frame of any bytes, right or wrong."""
    type_ = TYPES.get(type_, type_)
    return struct.pack(">IBBI", len(payload) if length is None else length, type_, flags, stream) + payload


def block(strings):
    text = b"\0".join(s.encode("latin-1") for s in strings)
    return struct.pack(">HI", len(strings), len(text)) + text


def flat(pairs):
    return [s for pair in pairs for s in pair]


def encode(f):
    """The bytes of a frame of the JSON form."""
    t = f["type"]
    flags = sum(FLAGS[t][name] for name in f.get("flags", ()))
    if t == "HELLO":
        p = struct.pack(">HIII", f["version"], f["streams"], f["stream_credit"], f["connection_credit"])
        p += block(flat(f["about"]))
    elif t == "WELCOME":
        p = struct.pack(">HHII", f["version_min"], f["version_max"], f["stream_credit"], f["connection_credit"])
        p += block(flat(f["about"]))
    elif t == "REQUEST":
        length = f["content_length"]
        p = struct.pack(">Q", 2**64 - 1 if length is None else length)
        p += block([f[name] for name in FIXED] + flat(f["fields"])) + body_bytes(f["body"])
    elif t == "RESPONSE":
        p = struct.pack(">H", f["status"]) + block(flat(f["fields"])) + body_bytes(f["body"])
    elif t == "INFORM":
        p = struct.pack(">H", f["status"]) + block(flat(f["fields"]))
    elif t == "TRAILERS":
        p = block(flat(f["fields"]))
    elif t in ("DATA", "TEXT", "BINARY"):
        p = body_bytes(f["body"])
    elif t == "CREDIT":
        p = struct.pack(">I", f["amount"])
    elif t in ("RESET", "CLOSE"):
        p = struct.pack(">H", f["code"]) + f["reason"].encode("utf-8")
    elif t in ("PING", "PONG"):
        p = bytes.fromhex(f["payload"])
    else:  # WANT, DRAIN
        p = b""
    return raw(t, flags, f["stream"], p)


# ---- frames in their JSON form


def hello(streams=1, stream_credit=65536, connection_credit=131072, about=None, version=1):
    if about is None:
        about = [["adapter", "python/0.1.0"], ["kind", "wsgi"], ["language", "CPython 3.11.7"]]
    return {"type": "HELLO", "stream": 0, "version": version, "streams": streams, "stream_credit": stream_credit,
            "connection_credit": connection_credit, "about": about}


def welcome(stream_credit=65536, connection_credit=131072, about=None, versions=(1, 1)):
    if about is None:
        about = [["app", "shop"], ["worker", "3"], ["workers", "4"], ["software", "keepwarm/0.1.0"]]
    return {"type": "WELCOME", "stream": 0, "version_min": versions[0], "version_max": versions[1],
            "stream_credit": stream_credit, "connection_credit": connection_credit, "about": about}


def request(stream=1, flags=("END",), content_length=0, fields=(("host", "shop.example:8080"),), body="", **fixed):
    f = {"type": "REQUEST", "stream": stream, "flags": list(flags), "content_length": content_length}
    f.update({"method": "GET", "protocol": "HTTP/1.1", "scheme": "http", "path": "/", "raw_path": "/", "query": "",
              "script_name": "", "server_name": "shop.example", "server_port": "8080",
              "client_address": "192.0.2.7", "client_port": "52144"})
    assert set(fixed) <= set(FIXED), fixed
    f.update(fixed)
    f.update({"fields": [list(pair) for pair in fields], "body": body})
    return f


def response(stream=1, status=200, flags=("END",), fields=(("Content-Type", "text/plain"),), body=""):
    return {"type": "RESPONSE", "stream": stream, "flags": list(flags), "status": status,
            "fields": [list(pair) for pair in fields], "body": body}


def inform(stream=1, status=103, fields=(("Link", "</a.css>; rel=preload"),)):
    return {"type": "INFORM", "stream": stream, "status": status, "fields": [list(pair) for pair in fields]}


def trailers(stream=1, fields=(("server-timing", "db;dur=3"),)):
    return {"type": "TRAILERS", "stream": stream, "fields": [list(pair) for pair in fields]}


def chunk(type_, stream=1, body="", end=False):
    return {"type": type_, "stream": stream, "flags": ["END"] if end else [], "body": body}


def data(stream=1, body="", end=False):
    return chunk("DATA", stream, body, end)


def text(stream=1, body="", end=True):
    """A text message or a part of one; `body` is the bytes of its UTF-8, as everywhere."""
    return chunk("TEXT", stream, body, end)


def binary(stream=1, body="", end=True):
    return chunk("BINARY", stream, body, end)


def credit(stream, amount):
    return {"type": "CREDIT", "stream": stream, "amount": amount}


def reset(stream=1, code=1, reason=""):
    return {"type": "RESET", "stream": stream, "code": code, "reason": reason}


def close(stream=1, code=1000, reason=""):
    return {"type": "CLOSE", "stream": stream, "code": code, "reason": reason}


def want(stream=1):
    return {"type": "WANT", "stream": stream}


def ping(payload="0001020304050607"):
    return {"type": "PING", "stream": 0, "payload": payload}


def pong(payload="0001020304050607"):
    return {"type": "PONG", "stream": 0, "payload": payload}


DRAIN = {"type": "DRAIN", "stream": 0}

# ---- bytes in their JSON form


def hexed(bytes_):
    """`hex`, and `pad` for a long run of one byte at the end."""
    tail = len(bytes_)
    while tail and bytes_[tail - 1] == bytes_[-1]:
        tail -= 1
    if len(bytes_) - tail < 512:
        return {"hex": bytes_.hex()}
    return {"hex": bytes_[:tail].hex(), "pad": {"hex": bytes_[-1:].hex(), "times": len(bytes_) - tail}}


def good(name, sender, frame):
    return {"name": name, "from": sender, **hexed(encode(frame)), "frame": frame}


def bad(name, sender, bytes_, fault):
    return {"name": name, "from": sender, **hexed(bytes_), "fault": fault}


def both(name, frame):
    return [good(name, K, frame), good(name, W, frame)]


def both_bad(name, bytes_, fault):
    return [bad(name, K, bytes_, fault), bad(name, W, bytes_, fault)]


def frames():
    utf8 = "gr\u00fc\u00df".encode().decode("latin-1")
    post = {"method": "POST", "fields": [["host", "shop.example"], ["content-type", "text/plain"],
                                         ["content-length", "5"]]}
    yield good("welcome", K, welcome())
    yield good("welcome with nothing about it", K, welcome(about=[]))
    yield good("welcome with a name nobody knows", K, welcome(about=[["app", "shop"], ["colour", "green"]]))
    yield good("welcome with an empty value", K, welcome(about=[["app", ""]]))
    yield good("welcome with several versions", K, welcome(versions=(1, 3)))
    yield good("welcome with the most credit", K, welcome(2**31 - 1, 2**31 - 1))
    yield good("hello of a blocking worker", W, hello())
    yield good("hello of a worker of many streams", W, hello(
        1000, 262144, 1048576, [["adapter", "python/0.1.0"], ["kind", "asgi"], ["language", "CPython 3.13.1"]]))
    yield good("hello with nothing about it", W, hello(about=[]))
    yield good("hello with the most of everything", W, hello(65535, 2**31 - 1, 2**31 - 1, version=65535))

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
        flags=["END", "EXPECT", "REPEATS", "EARLY_HINTS", "WEBSOCKET", "TRAILERS"]))
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


def faults():
    # The header.
    yield from both_bad("longer than any payload", raw("DATA", 0, 1, length=PAYLOAD + 1), "too_long")
    yield from both_bad("the longest length a header can say", raw("DATA", 0, 1, length=2**32 - 1), "too_long")
    yield from both_bad("too long goes before an unknown type", raw(0xEE, 0, 1, length=PAYLOAD + 1), "too_long")
    for byte in (0x00, 0x03, 0x0F, 0x18, 0x23, 0x2F, 0x33, 0x7F, 0xFF):
        yield from both_bad("type %#04x" % byte, raw(byte, 0, 0), "unknown_type")
    yield from both_bad("HTTP is not the wire", b"GET / HTTP/1.1\r\n", "too_long")
    for type_ in ("HELLO", "RESPONSE", "INFORM", "WANT", "PONG"):
        yield bad("%s from Keepwarm" % type_, K, raw(type_, 0, 1), "direction")
    for type_ in ("WELCOME", "REQUEST", "PING"):
        yield bad("%s from the worker" % type_, W, raw(type_, 0, 1), "direction")
    for sender, types in ((K, {"WELCOME": 1, "REQUEST": 0x40, "PING": 1}),
                          (W, {"HELLO": 1, "RESPONSE": 4, "INFORM": 1, "WANT": 1, "PONG": 1})):
        for type_, flag in types.items():
            stream = 0 if type_ in ("WELCOME", "HELLO", "PING", "PONG") else 1
            yield bad("flag %#04x on %s" % (flag, type_), sender, raw(type_, flag, stream), "flags")
            yield bad("flag 0x80 on %s" % type_, sender, raw(type_, 0x80, stream), "flags")
            yield bad("%s on the wrong stream" % type_, sender, raw(type_, 0, 1 - stream), "stream_id")
    for type_, flag in {"DATA": 2, "TRAILERS": 1, "CREDIT": 1, "RESET": 1, "TEXT": 2, "BINARY": 0x10, "CLOSE": 1,
                        "DRAIN": 1}.items():
        stream = 0 if type_ == "DRAIN" else 1
        yield from both_bad("flag %#04x on %s" % (flag, type_), raw(type_, flag, stream), "flags")
        if type_ != "CREDIT":
            yield from both_bad("%s on the wrong stream" % type_, raw(type_, 0, 1 - stream), "stream_id")
    # Lengths that the header alone shows to be wrong: the payload need not be there.
    for type_ in ("DATA", "TEXT", "BINARY"):
        yield from both_bad("%s of 65537 bytes" % type_, raw(type_, 0, 1, length=BODY + 1), "too_long")
    for type_, least, most in (("CREDIT", 4, 4), ("RESET", 2, 1026), ("CLOSE", 2, 125)):
        yield from both_bad("%s too short" % type_, raw(type_, 0, 1, length=least - 1), "too_short")
        yield from both_bad("%s empty" % type_, raw(type_, 0, 1), "too_short")
        yield from both_bad("%s too long" % type_, raw(type_, 0, 1, length=most + 1), "too_long")
    yield from both_bad("DRAIN with a payload", raw("DRAIN", 0, 0, length=1), "too_long")
    yield bad("WANT with a payload", W, raw("WANT", 0, 1, length=1), "too_long")
    for sender, type_ in ((K, "PING"), (W, "PONG")):
        yield bad("%s of 7 bytes" % type_, sender, raw(type_, 0, 0, length=7), "too_short")
        yield bad("%s of 9 bytes" % type_, sender, raw(type_, 0, 0, length=9), "too_long")
    for sender, type_, stream, least in ((K, "WELCOME", 0, 18), (W, "HELLO", 0, 20), (K, "REQUEST", 1, 24),
                                         (W, "RESPONSE", 1, 8), (W, "INFORM", 1, 8), (K, "TRAILERS", 1, 6),
                                         (W, "TRAILERS", 1, 6)):
        yield bad("%s too short to hold its numbers" % type_, sender, raw(type_, 0, stream, length=least - 1),
                  "too_short")
    # String blocks.
    for name, payload, fault in (
        ("count too high", struct.pack(">HI", 4, 3) + b"a\0b", "strings"),
        ("count too low: a NUL in a value", struct.pack(">HI", 2, 5) + b"a\0b\0c", "strings"),
        ("count 0 with text", struct.pack(">HI", 0, 1) + b"a", "strings"),
        ("count 0 with a NUL", struct.pack(">HI", 0, 1) + b"\0", "strings"),
        ("count 2 without text", struct.pack(">HI", 2, 0), "strings"),
        ("text ends too early", struct.pack(">HI", 2, 4) + b"a\0b", "too_short"),
        ("text length 2^32-1", struct.pack(">HI", 2, 2**32 - 1) + b"a\0b", "too_short"),
        ("bytes behind the text", struct.pack(">HI", 2, 3) + b"a\0bc", "too_long"),
        ("a name without a value", struct.pack(">HI", 1, 1) + b"a", "fields"),
        ("three strings", struct.pack(">HI", 3, 5) + b"a\0b\0c", "fields"),
    ):
        yield from both_bad("trailers: " + name, raw("TRAILERS", 0, 1, payload), fault)
        yield bad("inform: " + name, W, raw("INFORM", 0, 1, struct.pack(">H", 103) + payload), fault)
        yield bad("hello: " + name, W, raw("HELLO", 0, 0, struct.pack(">HIII", 1, 1, BODY, BODY) + payload), fault)
        yield bad("welcome: " + name, K,
                  raw("WELCOME", 0, 0, struct.pack(">HHII", 1, 1, BODY, BODY) + payload), fault)
        if not name.startswith("bytes behind"):
            yield bad("response: " + name, W, raw("RESPONSE", 1, 1, struct.pack(">H", 200) + payload), fault)
    # Numbers.
    for status in (0, 99, 100, 102, 103, 199, 1000, 65535):
        yield bad("response with status %d" % status, W, encode(response(status=status)), "status")
    for status in (0, 100, 101, 200, 404, 65535):
        yield bad("inform with status %d" % status, W, encode(inform(status=status)), "status")
    yield bad("101 with END", W, encode(response(status=101)), "flags")
    yield bad("101 with a body", W, encode(response(status=101, flags=[], body="x")), "too_long")
    yield bad("response with 65537 bytes of body", W, encode(response(body=many("a", BODY + 1))), "too_long")
    yield bad("hello with version 0", W, encode(hello(version=0)), "version")
    for streams in (0, 65536, 2**32 - 1):
        yield bad("hello with %d streams" % streams, W, encode(hello(streams)), "stream_count")
    for amount in (0, 65535, 2**31, 2**32 - 1):
        yield bad("hello with stream credit %d" % amount, W, encode(hello(1, amount)), "credit")
        yield bad("hello with connection credit %d" % amount, W, encode(hello(1, 65536, amount)), "credit")
        yield bad("welcome with stream credit %d" % amount, K, encode(welcome(amount)), "credit")
        yield bad("welcome with connection credit %d" % amount, K, encode(welcome(65536, amount)), "credit")
    yield bad("welcome with version 0", K, encode(welcome(versions=(0, 1))), "version")
    yield bad("welcome with an empty range of versions", K, encode(welcome(versions=(2, 1))), "version")
    for amount in (0, 2**31, 2**32 - 1):
        yield from both_bad("credit of %d" % amount, encode(credit(1, amount)), "credit")
        yield from both_bad("credit of %d for the connection" % amount, encode(credit(0, amount)), "credit")
    for type_ in ("RESET", "CLOSE"):
        for name, reason in (("a lone byte", b"a\xff"), ("half a character", b"gr\xc3"),
                             ("a surrogate", b"\xed\xa0\x80"), ("an overlong form", b"\xc0\x80")):
            yield from both_bad("%s whose reason is not UTF-8: %s" % (type_, name),
                                raw(type_, 0, 1, struct.pack(">H", 1) + reason), "utf8")
    # Requests.
    ten = struct.pack(">Q", 0) + block(["x"] * 10)
    yield bad("request with ten strings", K, raw("REQUEST", 1, 1, ten), "fields")
    yield bad("request with no string", K, raw("REQUEST", 1, 1, struct.pack(">Q", 0) + block([]) + b"x" * 16),
              "fields")
    yield bad("request with a name without a value", K,
              raw("REQUEST", 1, 1, struct.pack(">Q", 0) + block(["x"] * 12)), "fields")
    yield bad("request with a NUL in a value", K,
              raw("REQUEST", 1, 1, struct.pack(">Q", 0) + block(["x"] * 12 + ["a\0b"])), "strings")
    yield bad("request whose text ends too early", K,
              raw("REQUEST", 1, 1, struct.pack(">QHI", 0, 11, 22) + b"\0" * 10), "too_short")
    yield bad("request with 65537 bytes of body", K, encode(request(body=many("a", BODY + 1))), "too_long")
    yield bad("WebSocket without END", K, encode(request(flags=["WEBSOCKET"])), "flags")


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


# ---- transcripts


def step(sender, frame, **more):
    return {"from": sender, **hexed(encode(frame)), "frame": frame, **more}


def k(frame, **more):
    return step(K, frame, **more)


def w(frame, **more):
    return step(W, frame, **more)


def session(name, *steps, hello_=None, welcome_=None):
    """A transcript that begins with the usual handshake."""
    begin = [k(welcome_ or welcome()), w(hello_ or hello())]
    return {"name": name, "steps": begin + list(steps)}


def upload(stream=1, **more):
    return request(stream, flags=[], content_length=None, method="POST", **more)


def sessions():
    yield from sessions_good()
    yield from sessions_worker_faults()
    yield from sessions_keepwarm_faults()


def socket_request(stream=1):
    return request(stream, flags=["END", "WEBSOCKET"])


ACCEPT = response(status=101, flags=[], fields=[])


def sessions_good():
    many_streams = hello(3)
    yield session("a request and its answer", k(request()), w(response(body="pong")))
    yield session("one after the other", k(request()), w(response()), k(request(2)), w(response(2)))
    yield session("an answer in pieces", k(request()), w(response(flags=[], body="a")), w(data(1, "b")),
                  w(data(1, "", True)))
    yield session("an answer with trailers", k(request(flags=["END", "TRAILERS"])), w(response(flags=[])),
                  w(data(1, "b")), w(trailers()))
    yield session("a body in pieces", k(upload(body="a")), w(want()), k(data(1, "b")), k(data(1, "c", True)),
                  w(response()))
    yield session("a body with trailers", k(upload()), k(data(1, "b")), k(trailers()), w(response()))
    yield session("100 Continue", k(request(flags=["EXPECT"], content_length=1, method="POST")), w(want()),
                  k(data(1, "x", True)), w(response()))
    yield session("WANT twice, and without need, is harmless", k(request()), w(want()), w(want()), w(response()))
    yield session("early hints, twice", k(request(flags=["END", "EARLY_HINTS"])), w(inform()),
                  w(inform(status=102, fields=[])), w(response()))
    yield session("streams take turns", k(request(1)), k(request(2)), k(request(3)), w(response(2, flags=[])),
                  w(response(1, flags=[])), w(data(2, "b")), w(data(1, "a", True)), w(response(3)), k(request(4)),
                  w(data(2, "", True)), w(response(4)), hello_=many_streams)
    yield session("credit comes back in steps of a quarter", k(request()), w(response(flags=[])),
                  w(data(1, many("a", 32768))), k(credit(1, 32768)), k(credit(0, 32768)),
                  w(data(1, many("b", 65536))), k(credit(1, 65536)), k(credit(0, 65536)), w(data(1, "", True)))
    yield session("credit of the connection comes back for streams that are over", k(request()),
                  w(response(flags=[])), w(data(1, many("a", 40000), True)), k(credit(0, 40000)))
    yield session("a first body is not under credit", k(request()), w(response(flags=[], body=many("a", BODY))),
                  w(data(1, many("b", BODY))), k(credit(1, 65536)), k(credit(0, 65536)), w(data(1, "", True)))
    yield session("Keepwarm sends as far as the worker's credit", k(upload()), k(data(1, many("a", 65536))),
                  w(credit(1, 65536)), w(credit(0, 65536)), k(data(1, many("b", 65536), True)), w(response()))
    yield session("credit can reach 2^31-1", k(upload()), w(credit(1, 2**31 - 1 - 65536)),
                  w(credit(0, 2**31 - 1 - 131072)), w(response()))
    yield session("an answer before the whole body: the rest is ignored", k(upload()), w(response(status=413)),
                  k(data(1, many("a", 40000)), ignored=True), w(credit(0, 40000)),
                  k(data(1, "", True), ignored=True), k(request(2)), w(response(2)))
    yield session("frames for a stream that is over are ignored", k(upload()), w(response()),
                  k(credit(1, 16384), ignored=True), k(reset(), ignored=True), k(trailers(1), ignored=True))
    yield session("Keepwarm resets, the worker lets go", k(request()), k(reset(1, 1, "client has gone")),
                  w(reset(), dropped=True), k(request(2)), w(response(2)))
    yield session("what crosses a reset is dropped, and its credit comes back", k(request()),
                  w(response(flags=[])), w(data(1, many("a", 20000))), k(reset()),
                  w(data(1, many("a", 45536)), dropped=True), k(credit(0, 45536)), w(reset(), dropped=True))
    yield session("a whole answer can cross a reset", k(request()), k(reset()), w(inform(), dropped=True),
                  w(response(), dropped=True), k(request(2)), w(response(2)))
    yield session("the place of a reset stream is taken until the worker ends it", k(request(1)), k(request(2)),
                  k(reset(1, 2, "30 s are over")), w(response(2)), k(request(3)), w(reset(1), dropped=True),
                  k(request(4)), w(response(3)), w(response(4)), hello_=hello(2))
    yield session("the application fails before its answer", k(request()), w(reset(1, 3, "ValueError: x")),
                  k(request(2)), w(response(2)))
    yield session("the application fails within its answer", k(request()), w(response(flags=[])),
                  w(data(1, "ab")), w(reset(1, 4, "2 of 10 bytes")))
    yield session("a request's body ends too early", k(upload()), k(data(1, "ab")),
                  k(reset(1, 5, "the client closed")), w(reset(), dropped=True))
    yield session("a WebSocket", k(socket_request()), w(ACCEPT), w(text(1, "hello")), k(text(1, "hel", False)),
                  k(text(1, "lo")), k(binary(1, "\0")), w(binary(1, "a", False)), w(binary(1, "", False)),
                  w(binary(1, "b")), k(close()), w(close()))
    yield session("a WebSocket closed by the application", k(socket_request()), w(ACCEPT),
                  w(close(1, 4000, "bye")), k(request(2)), w(response(2)))
    yield session("a WebSocket lost", k(socket_request()), w(ACCEPT), w(text(1, "half", False)), k(close(1, 1006)),
                  w(close(1, 1006)))
    yield session("a WebSocket refused", k(socket_request()), w(response(status=403, flags=[])),
                  w(data(1, "no", True)))
    yield session("a WebSocket of which both spend their credit", k(socket_request()), w(ACCEPT),
                  w(binary(1, many("a", 65536))), k(credit(1, 65536)), k(credit(0, 65536)),
                  k(text(1, many("b", 65536))), w(credit(1, 65536)), w(credit(0, 65536)),
                  w(text(1, many("c", 65536))), k(text(1, many("d", 65536))), w(close()))
    yield session("ping and pong", k(ping()), w(pong()), k(ping("ffffffffffffffff")), w(pong("ffffffffffffffff")))
    yield session("Keepwarm drains an idle worker", k(DRAIN))
    yield session("Keepwarm drains a busy worker", k(request()), k(DRAIN), w(response(flags=[])),
                  w(data(1, "a", True)))
    yield session("the worker wants no more; what crossed is refused", k(request(1)), k(request(2)), w(DRAIN),
                  w(response(1)), w(reset(2, 6, "draining")), k(DRAIN), hello_=hello(2))


def sessions_worker_faults():
    def fault(name, kind, *steps, **more):
        steps = list(steps)
        last = dict(steps.pop(), fault=kind)
        return session(name, *steps, last, **more)

    socket = (k(socket_request()), w(ACCEPT))
    for name, frame in (("RESPONSE", response()), ("DRAIN", DRAIN), ("PONG", pong()), ("CREDIT", credit(0, 1))):
        yield {"name": name + " before HELLO", "steps": [k(welcome()), w(frame, fault="before_hello")]}
    yield {"name": "a version that was not offered",
           "steps": [k(welcome()), w(hello(version=2), fault="version")]}
    yield fault("a second HELLO", "second_hello", w(hello()))
    for frame in (response(1), data(1), want(1), credit(1, 1), reset(1), close(1)):
        yield fault("%s for a stream that was never opened" % frame["type"], "unknown_stream", w(frame))
    yield fault("an answer to the request after this one", "unknown_stream", k(request()), w(response(2)))
    for frame in (response(), data(1, "x"), trailers(), inform(), want(), credit(1, 1), reset(), text(), close()):
        yield fault("%s after END" % frame["type"], "stream_over", k(request()), w(response()), w(frame))
    yield fault("DATA after END of DATA", "stream_over", k(request()), w(response(flags=[])), w(data(1, "", True)),
                w(data(1, "x")))
    yield fault("DATA after TRAILERS", "stream_over", k(request()), w(response(flags=[])), w(trailers()),
                w(data(1, "x")))
    yield fault("RESPONSE after RESET", "stream_over", k(request()), w(reset()), w(response()))
    yield fault("RESET after RESET", "stream_over", k(request()), w(reset()), w(reset()))
    yield fault("TEXT after CLOSE", "stream_over", *socket, w(close()), w(text()))
    yield fault("a second RESET after Keepwarm's", "stream_over", k(request()), k(reset()), w(reset(), dropped=True),
                w(reset()))
    yield fault("an old stream", "stream_over", k(request()), w(response()), k(request(2)), w(response(1)))
    for frame in (data(1, "x"), trailers()):
        yield fault("%s before RESPONSE" % frame["type"], "before_response", k(request()), w(frame))
    for frame in (text(), binary(), close()):
        yield fault("%s before the 101" % frame["type"], "before_response", k(socket_request()), w(frame))
    yield fault("a second RESPONSE", "second_response", k(request()), w(response(flags=[])), w(response()))
    yield fault("a RESPONSE after the 101", "second_response", *socket, w(response()))
    yield fault("INFORM after RESPONSE", "late_inform", k(request()), w(response(flags=[])), w(inform()))
    yield fault("INFORM after the 101", "late_inform", *socket, w(inform()))
    yield fault("a 101 nobody asked for", "not_websocket", k(request()), w(ACCEPT))
    for frame in (text(), binary(), close()):
        yield fault("%s for a request" % frame["type"], "not_websocket", k(request()), w(response(flags=[])),
                    w(frame))
        yield fault("%s for a refused WebSocket" % frame["type"], "not_websocket", k(socket_request()),
                    w(response(status=403, flags=[])), w(frame))
    for frame in (data(1, "x"), trailers()):
        yield fault("%s on a WebSocket" % frame["type"], "websocket_body", *socket, w(frame))
    yield fault("BINARY within a text message", "mixed_message", *socket, w(text(1, "a", False)), w(binary(1, "b")))
    yield fault("TEXT within a binary message", "mixed_message", *socket, w(binary(1, "a", False)), w(text(1, "b")))
    yield fault("more than the stream's credit", "credit_spent", k(request()), w(response(flags=[])),
                w(data(1, many("a", 65536))), w(data(1, "a")))
    yield fault("more than the stream's credit in messages", "credit_spent", *socket, w(text(1, many("a", 65536))),
                w(binary(1, "a")))
    yield fault("more than the connection's credit", "credit_spent", k(request(1)), k(request(2)), k(request(3)),
                w(response(1, flags=[])), w(response(2, flags=[])), w(response(3, flags=[])),
                w(data(1, many("a", 65536))), w(data(2, many("a", 65536))), w(data(3, "a", True)), hello_=hello(3))
    yield fault("more than the credit that came back", "credit_spent", k(request()), w(response(flags=[])),
                w(data(1, many("a", 65536))), k(credit(1, 65536)), k(credit(0, 65536)),
                w(data(1, many("a", 65536))), w(data(1, "a")))
    yield fault("more than the credit of a stream that was reset", "credit_spent", k(request()),
                w(response(flags=[])), k(reset()), w(data(1, many("a", 65536)), dropped=True),
                k(credit(0, 65536)), w(data(1, "a")))
    yield fault("a reset does not excuse a wrong order", "before_response", k(request()), k(reset()),
                w(data(1, "a")))
    yield fault("a stream's credit above 2^31-1", "credit_overflow", k(upload()), w(credit(1, 2**31 - 65536)))
    yield fault("a connection's credit above 2^31-1", "credit_overflow", w(credit(0, 2**31 - 131072)))
    yield fault("PONG without PING", "pong", w(pong()))
    yield fault("a second PONG", "pong", k(ping()), w(pong()), w(pong()))
    yield fault("PONG with other bytes", "pong", k(ping()), w(pong("0001020304050608")))


def sessions_keepwarm_faults():
    def fault(name, kind, *steps, **more):
        steps = list(steps)
        last = dict(steps.pop(), fault=kind)
        return session(name, *steps, last, **more)

    socket = (k(socket_request()), w(ACCEPT))
    yield {"name": "a frame before WELCOME", "steps": [k(DRAIN, fault="before_welcome")]}
    yield {"name": "a REQUEST before HELLO", "steps": [k(welcome()), k(request(), fault="before_hello")]}
    yield fault("a second WELCOME", "second_welcome", k(welcome()))
    yield fault("a stream's id again", "stream_order", k(request()), w(response()), k(request(1)))
    yield fault("a stream's id that is lower", "stream_order", k(request(1)), k(request(2)), w(response(1)),
                k(request(1)), hello_=hello(2))
    yield fault("more streams than HELLO takes", "stream_limit", k(request(1)), k(request(2)))
    yield fault("a reset stream still has its place", "stream_limit", k(request(1)), k(reset()), k(request(2)))
    yield fault("a REQUEST after DRAIN", "after_drain", k(DRAIN), k(request()))
    for frame in (data(1, "x"), trailers(), credit(1, 1), reset(), text(), close()):
        yield fault("Keepwarm: %s for a stream that was never opened" % frame["type"], "unknown_stream", k(frame))
    yield fault("DATA for a body that is complete", "body_over", k(request()), k(data(1, "x")))
    yield fault("TRAILERS for a body that is complete", "body_over", k(upload()), k(data(1, "", True)),
                k(trailers()))
    yield fault("DATA for a body that has had its trailers", "body_over", k(upload()), k(trailers()),
                k(data(1, "", True)))
    yield fault("TEXT to a request", "not_websocket", k(request()), k(text()))
    yield fault("TEXT before the worker has accepted", "before_response", k(socket_request()), k(text()))
    yield fault("Keepwarm: BINARY within a text message", "mixed_message", *socket, k(text(1, "a", False)),
                k(binary(1, "b")))
    yield fault("Keepwarm: TEXT after CLOSE", "body_over", *socket, k(close()), k(text()))
    yield fault("Keepwarm: DATA after RESET", "body_over", k(upload()), k(reset()), k(data(1, "x")))
    yield fault("Keepwarm: more than the stream's credit", "credit_spent", k(upload()),
                k(data(1, many("a", 65536))), k(data(1, "a")))
    yield fault("Keepwarm: more than the connection's credit", "credit_spent", k(upload(1)), k(upload(2)),
                k(upload(3)), k(data(1, many("a", 65536))), k(data(2, many("a", 65536))), k(data(3, "a")),
                hello_=hello(3))
    yield fault("Keepwarm: a stream's credit above 2^31-1", "credit_overflow", k(request()),
                k(credit(1, 2**31 - 65536)))
    yield fault("Keepwarm: a connection's credit above 2^31-1", "credit_overflow", k(credit(0, 2**31 - 131072)))


FILES = {"frames.json": frames, "faults.json": faults, "partials.json": partials, "sessions.json": sessions}


def render(vectors):
    """One vector a line, so that a diff shows which one changed."""
    vectors = list(vectors)
    names = [(v["name"], v.get("from")) for v in vectors]
    doubled = {n for n in names if names.count(n) > 1}
    assert not doubled, doubled
    lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in vectors)
    return "[\n" + lines + "\n]\n"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    stale = []
    for name, vectors in FILES.items():
        path, fresh = os.path.join(here, name), render(vectors())
        if "--check" in sys.argv[1:]:
            with open(path, encoding="ascii") as file:
                if file.read() != fresh:
                    stale.append(name)
        else:
            with open(path, "w", encoding="ascii") as file:
                file.write(fresh)
    if stale:
        sys.exit("not fresh: %s; run python3 spec/vectors/generate.py" % ", ".join(stale))


if __name__ == "__main__":
    main()
