"""Frames that are wrong."""

import struct

from .forms import *


def bad(name, sender, bytes_, fault):
    return {"name": name, "from": sender, **hexed(bytes_), "fault": fault}


def both_bad(name, bytes_, fault):
    return [bad(name, K, bytes_, fault), bad(name, W, bytes_, fault)]


def faults():
    # The header.
    yield from both_bad("longer than any payload", raw("DATA", 0, 1, length=PAYLOAD + 1), "too_long")
    yield from both_bad("the longest length a header can say", raw("DATA", 0, 1, length=2**32 - 1), "too_long")
    yield from both_bad("too long goes before an unknown type", raw(0xEE, 0, 1, length=PAYLOAD + 1), "too_long")
    for byte in (0x00, 0x03, 0x0F, 0x1A, 0x23, 0x2F, 0x37, 0x7F, 0xFF):
        yield from both_bad("type %#04x" % byte, raw(byte, 0, 0), "unknown_type")
    yield from both_bad("HTTP is not the wire", b"GET / HTTP/1.1\r\n", "too_long")
    for type_ in ("HELLO", "RESPONSE", "INFORM", "WANT", "HIJACK", "PONG", "SAMPLES", "GROWTH"):
        yield bad("%s from Keepwarm" % type_, K, raw(type_, 0, 1), "direction")
    for type_ in ("WELCOME", "REQUEST", "HALF_CLOSE", "PING", "LEAKS"):
        yield bad("%s from the worker" % type_, W, raw(type_, 0, 1), "direction")
    for sender, types in ((K, {"WELCOME": 1, "REQUEST": None, "HALF_CLOSE": 1, "PING": 1, "LEAKS": 2}),
                          (W, {"HELLO": 1, "RESPONSE": 4, "INFORM": 1, "WANT": 1, "HIJACK": 1, "PONG": 1, "SAMPLES": 1,
                               "GROWTH": 1})):
        for type_, flag in types.items():
            stream = 0 if type_ in ("WELCOME", "HELLO", "PING", "PONG", "SAMPLES", "LEAKS", "GROWTH") else 1
            if flag:
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
    yield bad("HALF_CLOSE with a payload", K, raw("HALF_CLOSE", 0, 1, length=1), "too_long")
    yield bad("HIJACK with a payload", W, raw("HIJACK", 0, 1, length=1), "too_long")
    yield bad("LEAKS with a payload", K, raw("LEAKS", 0, 0, length=1), "too_long")
    yield bad("WANT with a payload", W, raw("WANT", 0, 1, length=1), "too_long")
    for sender, type_ in ((K, "PING"), (W, "PONG")):
        yield bad("%s of 7 bytes" % type_, sender, raw(type_, 0, 0, length=7), "too_short")
        yield bad("%s of 9 bytes" % type_, sender, raw(type_, 0, 0, length=9), "too_long")
    for sender, type_, stream, least in ((K, "WELCOME", 0, 18), (W, "HELLO", 0, 20), (K, "REQUEST", 1, 14),
                                         (W, "RESPONSE", 1, 8), (W, "INFORM", 1, 8), (K, "TRAILERS", 1, 6),
                                         (W, "TRAILERS", 1, 6), (W, "SAMPLES", 0, 14), (W, "GROWTH", 0, 14)):
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
        yield bad("growth: " + name, W, raw("GROWTH", 0, 0, struct.pack(">II", 1, 1) + payload), fault)
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
    yield bad("request of a user who is not in it", K,
              raw("REQUEST", 0x41, 1, struct.pack(">Q", 0) + block(["x"] * 11)), "fields")
    yield bad("request with no string", K, raw("REQUEST", 1, 1, struct.pack(">Q", 0) + block([])),
              "fields")
    yield bad("request with a name without a value", K,
              raw("REQUEST", 1, 1, struct.pack(">Q", 0) + block(["x"] * 12)), "fields")
    yield bad("request with a NUL in a value", K,
              raw("REQUEST", 1, 1, struct.pack(">Q", 0) + block(["x"] * 12 + ["a\0b"])), "strings")
    yield bad("request whose text ends too early", K,
              raw("REQUEST", 1, 1, struct.pack(">QHI", 0, 11, 22) + b"\0" * 10), "too_short")
    yield bad("request with 65537 bytes of body", K, encode(request(body=many("a", BODY + 1))), "too_long")
    yield bad("WebSocket without END", K, raw("REQUEST", FLAGS["REQUEST"]["WEBSOCKET"], 1, length=100), "flags")
