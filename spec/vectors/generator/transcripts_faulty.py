"""Transcripts that end in a fault of one side."""

from .forms import *
from .transcripts import ACCEPT, fault, k, socket_request, upload, w


def worker_faults():
    socket = (k(socket_request()), w(ACCEPT))
    for name, frame in (("RESPONSE", response()), ("DRAIN", DRAIN), ("PONG", pong()), ("CREDIT", credit(0, 1))):
        yield {"name": name + " before HELLO", "steps": [k(welcome()), w(frame, fault="before_hello")]}
    yield {"name": "a version that was not offered",
           "steps": [k(welcome()), w(hello(version=2), fault="version")]}
    yield fault("a second HELLO", "second_hello", w(hello()))
    for frame in (response(1), data(1), want(1), credit(1, 1), reset(1), close(1), samples(1)):
        yield fault("%s for a stream that was never opened" % frame["type"], "unknown_stream", w(frame))
    yield fault("a response to the request after this one", "unknown_stream", k(request()), w(response(2)))
    for frame in (response(), data(1, "x"), trailers(), inform(), want(), hijack(), credit(1, 1), reset(), text(), close()):
        yield fault("%s after END" % frame["type"], "stream_over", k(request()), w(response()), w(frame))
    yield fault("DATA after END of DATA", "stream_over", k(request()), w(response(flags=[])), w(data(1, "", True)),
                w(data(1, "x")))
    yield fault("DATA after TRAILERS", "stream_over", k(request()), w(response(flags=[])), w(trailers()),
                w(data(1, "x")))
    yield fault("HIJACK within a response", "second_response", k(request()), w(response(flags=[])), w(hijack()))
    yield fault("RESPONSE after HIJACK", "stream_over", k(request()), w(hijack()), w(response()))
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
    yield fault("an empty message with less than 64 left", "credit_spent", *socket, w(binary(1, many("a", 65536 - 63))),
                w(text(1, "")))
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
    yield fault("GROWTH without LEAKS", "growth", w(growth(0)))
    yield fault("GROWTH of a request without LEAKS", "growth", k(request()), w(response()), w(growth(1)))
    yield fault("a second GROWTH to one LEAKS", "growth", k(LEAKS), w(growth(0)), w(growth(0)))
    yield fault("a second GROWTH of a request", "growth", k(LEAKS), w(growth(0)), k(request()), w(response()),
                w(growth(1)), w(growth(1)))
    yield fault("GROWTH during its request", "growth", k(LEAKS), w(growth(0)), k(request()), w(response(flags=[])),
                w(growth(1)))
    yield fault("GROWTH of another request", "growth", k(LEAKS), w(growth(0)), k(request()), w(response()), w(growth(2)))
    yield fault("PONG with other bytes", "pong", k(ping()), w(pong("0001020304050608")))


def keepwarm_faults():
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
    yield {"name": "LEAKS before HELLO", "steps": [k(welcome()), k(LEAKS, fault="before_hello")]}
    yield fault("LEAKS twice", "leaks", k(LEAKS), w(growth(0)), k(LEAKS))
    yield fault("LEAKS during a request", "leaks", k(request()), k(LEAKS))
    yield fault("LEAKS with END and no LEAKS before it", "leaks", k(NO_LEAKS))
    yield fault("LEAKS with END twice", "leaks", k(LEAKS), w(growth(0)), k(NO_LEAKS), k(NO_LEAKS))
    yield fault("a second request while one is measured", "stream_limit", k(LEAKS), w(growth(0)), k(request(1)),
                k(request(2)), hello_=hello(2))
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
    yield fault("Keepwarm: an empty message with less than 64 left", "credit_spent", *socket,
                k(binary(1, many("a", 65536 - 63))), k(text(1, "")))
    yield fault("Keepwarm: more than the connection's credit", "credit_spent", k(upload(1)), k(upload(2)),
                k(upload(3)), k(data(1, many("a", 65536))), k(data(2, many("a", 65536))), k(data(3, "a")),
                hello_=hello(3))
    yield fault("Keepwarm: a stream's credit above 2^31-1", "credit_overflow", k(request()),
                k(credit(1, 2**31 - 65536)))
    yield fault("Keepwarm: a connection's credit above 2^31-1", "credit_overflow", k(credit(0, 2**31 - 131072)))
