"""Transcripts in which each side says what it may."""

from .forms import *


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


def fault(name, kind, *steps, **more):
    """A transcript whose last step is a fault."""
    *before, last = steps
    return session(name, *before, dict(last, fault=kind), **more)


def socket_request(stream=1):
    return request(stream, flags=["END", "WEBSOCKET"])


ACCEPT = response(status=101, flags=[], fields=[])


def good_sessions():
    many_streams = hello(3)
    yield session("a request and its response", k(request()), w(response(body="pong")))
    yield session("one after the other", k(request()), w(response()), k(request(2)), w(response(2)))
    yield session("a response in pieces", k(request()), w(response(flags=[], body="a")), w(data(1, "b")),
                  w(data(1, "", True)))
    yield session("a response with trailers", k(request(flags=["END", "TRAILERS"])), w(response(flags=[])),
                  w(data(1, "b")), w(trailers()))
    yield session("a body in pieces", k(upload(body="a")), w(want()), k(data(1, "b")), k(data(1, "c", True)),
                  w(response()))
    yield session("a body with trailers", k(upload()), k(data(1, "b")), k(trailers()), w(response()))
    yield session("100 Continue", k(request(flags=["EXPECT"], content_length=1, method="POST")), w(want()),
                  k(data(1, "x", True)), w(response()))
    yield session("WANT twice, and without need, is harmless", k(request()), w(want()), w(want()), w(response()))
    yield session("a client that closes its writing side still gets its response", k(request()), k(half_close()), w(response()))
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
    yield session("a response before the whole body: the rest is ignored", k(upload()), w(response(status=413)),
                  k(data(1, many("a", 40000)), ignored=True), w(credit(0, 40000)),
                  k(data(1, "", True), ignored=True), k(request(2)), w(response(2)))
    yield session("frames for a stream that is over are ignored", k(upload()), w(response()),
                  k(credit(1, 16384), ignored=True), k(reset(), ignored=True), k(trailers(1), ignored=True))
    yield session("Keepwarm resets, the worker lets go", k(request()), k(reset(1, 1, "client has gone")),
                  w(reset(), dropped=True), k(request(2)), w(response(2)))
    yield session("what crosses a reset is dropped, and its credit comes back", k(request()),
                  w(response(flags=[])), w(data(1, many("a", 20000))), k(reset()),
                  w(data(1, many("a", 45536)), dropped=True), k(credit(0, 45536)), w(reset(), dropped=True))
    yield session("a whole response can cross a reset", k(request()), k(reset()), w(inform(), dropped=True),
                  w(response(), dropped=True), k(request(2)), w(response(2)))
    yield session("the place of a reset stream is taken until the worker ends it", k(request(1)), k(request(2)),
                  k(reset(1, 2, "30 s are over")), w(response(2)), k(request(3)), w(reset(1), dropped=True),
                  k(request(4)), w(response(3)), w(response(4)), hello_=hello(2))
    yield session("the application fails before its response", k(request()), w(reset(1, 3, "ValueError: x")),
                  k(request(2)), w(response(2)))
    yield session("the application fails within its response", k(request()), w(response(flags=[])),
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
    yield session("a short or empty message costs 64", k(socket_request()), w(ACCEPT),
                  w(binary(1, many("a", 65536 - 128))), w(text(1, "")), w(text(1, "a")), k(credit(1, 65536)),
                  k(credit(0, 65536)), k(binary(1, many("b", 65536 - 128))), k(text(1, "")), k(text(1, "b")),
                  w(credit(1, 65536)), w(credit(0, 65536)), k(text(1, "")), w(text(1, "")), w(close()))
    yield session("ping and pong", k(ping()), w(pong()), k(ping("ffffffffffffffff")), w(pong("ffffffffffffffff")))
    yield session("Keepwarm drains an idle worker", k(DRAIN))
    yield session("Keepwarm drains a busy worker", k(request()), k(DRAIN), w(response(flags=[])),
                  w(data(1, "a", True)))
    yield session("the worker sends samples of none, of a request and of one that is over", w(samples(0)), k(request()),
                  w(samples(1)), w(response()), w(samples(1)))
    yield session("the worker measures what requests leave", k(LEAKS), w(growth(0)), k(request(1)), w(response(1)),
                  w(growth(1)), k(request(2)), w(response(2, flags=[])), w(data(2, "a", True)), w(growth(2, changes=[])),
                  k(NO_LEAKS), k(request(3)), k(request(4)), w(response(3)), w(response(4)), hello_=hello(2))
    yield session("a request that fails, and one that is reset, are measured", k(LEAKS), w(growth(0)), k(request(1)),
                  w(reset(1, 3, "ValueError: x")), w(growth(1)), k(request(2)), k(reset(2)), w(reset(2), dropped=True),
                  w(growth(2)))
    yield session("what the app does after its response is measured, too", k(LEAKS), w(growth(0)), k(request(1)), w(BUSY),
                  w(response(1)), w(FREE), w(growth(1)))
    yield session("measuring ends within a request", k(LEAKS), w(growth(0)), k(request(1)), k(NO_LEAKS), w(response(1)),
                  k(LEAKS), w(growth(0)), k(NO_LEAKS))
    yield session("growth crosses the end of measuring", k(LEAKS), w(growth(0)), k(request(1)), w(response(1)), k(NO_LEAKS),
                  w(growth(1)), k(request(2)), w(response(2)))
    yield session("Keepwarm drains a worker that measures", k(LEAKS), w(growth(0)), k(DRAIN))
    yield session("the worker wants no more; what crossed is refused", k(request(1)), k(request(2)), w(DRAIN),
                  w(response(1)), w(reset(2, 6, "draining")), k(DRAIN), hello_=hello(2))
