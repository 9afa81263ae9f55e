"""A worker that speaks the wire by itself (spec/wire.md) and lies when asked to: `POST /lie/NAME`. Standard library only."""

import os
import socket
import struct
import sys
import time

HEAD = struct.Struct(">IBBI")
WELCOME, HELLO, REQUEST, DATA, TRAILERS, RESPONSE, INFORM, WANT, CREDIT, RESET = 0x02, 0x01, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17
TEXT, CLOSE, PING, PONG, DRAIN, END = 0x20, 0x22, 0x30, 0x31, 0x32, 0x01


def frame(kind, stream, payload=b"", flags=0):
    return HEAD.pack(len(payload), kind, flags, stream) + payload


def block(*strings):
    text = b"\0".join(strings)
    return struct.pack(">HI", len(strings), len(text)) + text


def response(stream, status=200, fields=(), body=b"", flags=END):
    return frame(RESPONSE, stream, struct.pack(">H", status) + block(*fields) + body, flags)


def hello(streams, version=1):
    kind = sys.argv[2].encode() if len(sys.argv) > 2 else b"wsgi"
    capabilities = (b"websocket", b"half_close") if kind == b"asgi" else (b"blocking", b"cgi_names")
    said = (string for name in capabilities for string in (name, b"1"))
    pairs = block(b"adapter", b"liar/1", b"kind", kind, b"language", b"lies", *said)
    return frame(HELLO, 0, struct.pack(">HIII", version, streams, 1 << 20, 1 << 20) + pairs)


# What the worker writes instead of a response, by name. `s` is the stream asked on.
LIES = {
    "garbage": lambda s: b"\xff" * 4096,
    "text": lambda s: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "too-long": lambda s: HEAD.pack(131073, RESPONSE, END, s),
    "huge": lambda s: HEAD.pack(0xFFFFFFFF, DATA, 0, s),
    "unknown-type": lambda s: frame(0x77, s),
    "foreign-type": lambda s: frame(REQUEST, s, b"\0" * 64),
    "bad-flags": lambda s: response(s, flags=0x80 | END),
    "foreign-stream": lambda s: response(s + 1000),
    "old-stream": lambda s: response(1) if s > 1 else response(2),
    "stream-zero": lambda s: response(0),
    "second-hello": lambda s: hello(1),
    "data-first": lambda s: frame(DATA, s, b"x", END),
    "trailers-first": lambda s: frame(TRAILERS, s, block(b"a", b"b")),
    "two-responses": lambda s: response(s, flags=0) + response(s),
    "after-end": lambda s: response(s, fields=(b"content-length", b"4"), body=b"good") + frame(DATA, s, b"more", END),
    "odd-strings": lambda s: frame(RESPONSE, s, struct.pack(">H", 200) + block(b"one"), END),
    "wrong-count": lambda s: frame(RESPONSE, s, struct.pack(">HHI", 200, 4, 3) + b"a\0b", END),
    "wrong-length": lambda s: frame(RESPONSE, s, struct.pack(">HHI", 200, 2, 4000) + b"a\0b", END),
    "short-payload": lambda s: frame(RESPONSE, s, b"\0", END),
    "status-0": lambda s: response(s, 0),
    "status-100": lambda s: response(s, 100),
    "status-1000": lambda s: response(s, 1000),
    "status-65535": lambda s: response(s, 65535),
    "unasked-101": lambda s: response(s, 101, flags=0),
    "inform-101": lambda s: frame(INFORM, s, struct.pack(">H", 101) + block()),
    "inform-200": lambda s: frame(INFORM, s, struct.pack(">H", 200) + block()),
    "zero-credit": lambda s: frame(CREDIT, s, struct.pack(">I", 0)),
    "much-credit": lambda s: frame(CREDIT, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
    "overspent": lambda s: response(s, flags=0) + frame(DATA, s, b"x" * 65536) * 2000,
    "long-data": lambda s: response(s, flags=0) + frame(DATA, s, b"x" * 65537, END),
    "websocket": lambda s: frame(TEXT, s, b"hi", END),
    "goodbye": lambda s: frame(CLOSE, s, struct.pack(">H", 1000)),
    "pong": lambda s: frame(PONG, 0, b"x"),
    "half-frame": lambda s: response(s)[:-3],
}
# What is no progress, however often it comes.
ENDLESS = {
    "nothing": lambda s: frame(DATA, s),
    "hints": lambda s: frame(INFORM, s, struct.pack(">H", 103) + block(b"link", b"</a.css>; rel=preload")),
}
# Streams whose body it has asked for: the rest of the response follows when that has come.
WANTED = set()
# The application's errors, not the wire's: 502, and the worker lives.
APP_ERRORS = {
    "crlf-value": (b"x-a", b"b\r\nset-cookie: stolen=1"),
    "lf-value": (b"x-a", b"b\nx-stolen: 1"),
    "bare-cr": (b"x-a", b"b\rc"),
    "empty-name": (b"", b"x"),
    "name-with-colon": (b"x-a: b\r\nx-stolen", b"1"),
    "name-with-blank": (b"x a", b"1"),
    "two-lengths": (b"content-length", b"2", b"content-length", b"3"),
    "bad-length": (b"content-length", b"+2"),
}


def main():
    wire = socket.socket(fileno=int(os.environ["KEEPWARM_FD"]))
    mode = sys.argv[1]
    if mode == "mute":
        time.sleep(60)
    if mode == "garbage-first":
        wire.sendall(b"\xff" * 64)
        time.sleep(60)
    if mode == "future":
        wire.sendall(hello(1, version=7))
        time.sleep(60)
    if mode == "no-streams":
        wire.sendall(hello(0))
        time.sleep(60)
    wire.sendall(hello(int(mode)))
    pending = b""
    while True:
        more = wire.recv(262144)
        if not more:
            return
        pending += more
        while len(pending) >= HEAD.size:
            length, kind, flags, stream = HEAD.unpack_from(pending)
            if len(pending) < HEAD.size + length:
                break
            payload, pending = pending[HEAD.size : HEAD.size + length], pending[HEAD.size + length :]
            if kind == REQUEST:
                respond(wire, stream, payload)
            elif kind == DATA and flags & END and stream in WANTED:
                WANTED.remove(stream)
                wire.sendall(frame(DATA, stream, b"whole", END))
            elif kind in (CLOSE, RESET):
                tell({CLOSE: "close", RESET: "reset"}[kind], *struct.unpack_from(">H", payload))
            elif kind == PING:
                wire.sendall(frame(PONG, 0, payload))
            elif kind == DRAIN:
                return


def tell(*what):
    """A line for the test."""
    with open(os.environ["COUNT_FILE"], "a") as file:
        print(*what, file=file)


def respond(wire, stream, payload):
    count, length = struct.unpack_from(">HI", payload, 8)
    path = payload[14 : 14 + length].split(b"\0")[3].decode()
    _, first, name = (path + "//").split("/")[:3]
    if first == "lie" and name == "close":
        sys.exit()
    elif first == "lie" and name == "hang":
        time.sleep(60)
    elif first == "lie" and name in ENDLESS:
        wire.sendall(response(stream, flags=0) if name == "nothing" else b"")
        while True:
            wire.sendall(ENDLESS[name](stream))
            time.sleep(0.05)
    elif first == "lie" and name == "die":
        os.kill(os.getpid(), 9)
    elif first == "lie" and name == "after-head":
        # Its own response is cut, since it had begun.
        wire.sendall(response(stream, fields=(b"content-length", b"10"), body=b"half ", flags=0) + b"\xff" * 64)
        time.sleep(60)
    elif first == "lie" and name == "half-frame":
        wire.sendall(LIES[name](stream))
        sys.exit()
    elif first == "lie":
        wire.sendall(LIES[name](stream))
        # What it does next is nobody's business any more: it is to be killed.
        time.sleep(60)
    elif first == "app":
        wire.sendall(response(stream, fields=APP_ERRORS[name], body=b"xx"))
    elif first == "want-and-respond":
        WANTED.add(stream)
        head = response(stream, fields=(b"content-length", b"5"), flags=0)
        wire.sendall(frame(WANT, stream) + head)
    elif first == "mute-socket":
        # Accepted, and never replies to a close.
        wire.sendall(response(stream, 101, flags=0))
    elif first == "refuse":
        wire.sendall(frame(RESET, stream, struct.pack(">H", 6) + b"not begun"))
    elif first == "reset":
        wire.sendall(frame(RESET, stream, struct.pack(">H", 3) + b"the app failed"))
    elif first == "reset-late":
        wire.sendall(response(stream, fields=(b"content-length", b"10"), body=b"half ", flags=0))
        wire.sendall(frame(RESET, stream, struct.pack(">H", 3) + b"the app failed"))
    elif first == "later":
        time.sleep(0.15)
        wire.sendall(response(stream, body=b"later"))
    else:
        pid = str(os.getpid()).encode()
        wire.sendall(response(stream, fields=(b"X-Path", path.encode()), body=pid))


main()
