"""Frames in their JSON form, and their bytes: an encoder written from spec/wire.md and from nothing else."""

import struct

TYPES = {
    "HELLO": 0x01, "WELCOME": 0x02, "REQUEST": 0x10, "DATA": 0x11, "TRAILERS": 0x12, "RESPONSE": 0x13,
    "INFORM": 0x14, "WANT": 0x15, "CREDIT": 0x16, "RESET": 0x17, "HALF_CLOSE": 0x18, "TEXT": 0x20, "BINARY": 0x21, "CLOSE": 0x22,
    "PING": 0x30, "HIJACK": 0x19, "PONG": 0x31, "DRAIN": 0x32, "BUSY": 0x33, "SAMPLES": 0x34, "LEAKS": 0x35,
    "GROWTH": 0x36,
}
FLAGS = {
    "REQUEST": {"END": 1, "EXPECT": 2, "REPEATS": 4, "EARLY_HINTS": 8, "WEBSOCKET": 16, "TRAILERS": 32, "USER": 64},
    "RESPONSE": {"END": 1, "CLOSE": 2},
    "BUSY": {"END": 1}, "LEAKS": {"END": 1}, "DATA": {"END": 1}, "TEXT": {"END": 1}, "BINARY": {"END": 1},
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


def user(f):
    return [f["auth_type"], f["user"]] if "user" in f else []


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
        p += block([f[name] for name in FIXED] + flat(f["fields"]) + user(f)) + body_bytes(f["body"])
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
    elif t == "SAMPLES":
        p = struct.pack(">II", f["request"], f["dropped"]) + block(flat(f["stacks"]))
    elif t == "GROWTH":
        p = struct.pack(">II", f["request"], f["microseconds"]) + block(flat(f["changes"]))
    else:  # WANT, HALF_CLOSE, HIJACK, DRAIN, BUSY, LEAKS
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
    assert set(fixed) <= {*FIXED, "user", "auth_type"}, fixed
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


def hijack(stream=1):
    return {"type": "HIJACK", "stream": stream}


def half_close(stream=1):
    return {"type": "HALF_CLOSE", "stream": stream}


def ping(payload="0001020304050607"):
    return {"type": "PING", "stream": 0, "payload": payload}


def pong(payload="0001020304050607"):
    return {"type": "PONG", "stream": 0, "payload": payload}


DRAIN = {"type": "DRAIN", "stream": 0}
BUSY = {"type": "BUSY", "stream": 0, "flags": []}
FREE = {"type": "BUSY", "stream": 0, "flags": ["END"]}


def samples(request=1, dropped=0, stacks=(("app;view (shop.py:3)", "10021"),)):
    return {"type": "SAMPLES", "stream": 0, "request": request, "dropped": dropped,
            "stacks": [list(pair) for pair in stacks]}


LEAKS = {"type": "LEAKS", "stream": 0, "flags": []}
NO_LEAKS = {"type": "LEAKS", "stream": 0, "flags": ["END"]}


def growth(request=1, microseconds=1500, changes=(("object;shop.Item", "1"),)):
    return {"type": "GROWTH", "stream": 0, "request": request, "microseconds": microseconds,
            "changes": [list(pair) for pair in changes]}


# ---- bytes in their JSON form


def hexed(bytes_):
    """`hex`, and `pad` for a long run of one byte at the end."""
    tail = len(bytes_)
    while tail and bytes_[tail - 1] == bytes_[-1]:
        tail -= 1
    if len(bytes_) - tail < 512:
        return {"hex": bytes_.hex()}
    return {"hex": bytes_[:tail].hex(), "pad": {"hex": bytes_[-1:].hex(), "times": len(bytes_) - tail}}
