"""One worker's end of the wire: what a frame of Keepwarm's changes, credit both ways, and when a stream is over (spec/wire.md §4-§8).

Without sockets, threads and event loops. Those belong to the strategies: `serial` (one request at a time), `threaded` and `asgi_connection` (several). A
strategy reads frames, gives REQUESTs to `open` and all others to `handle`, and waits and sends in its own way. The rules return the frames that
must be sent, so that a strategy with threads can release its lock before it writes.
"""

import os
import sys

from keepwarm import log, wire
from keepwarm.allowance import Allowance, added
from keepwarm.errors import Fault
from keepwarm.profile import Sampler


class Connection:
    """`streams`: those that are open, by number; at most `most`, which is 0 before HELLO and after DRAIN.

    `leaving`: Keepwarm said DRAIN. `lost`: the wire has ended. `faulty`: Keepwarm broke its rules. `forked`: this is a child that the application has
    forked, to which the wire does not belong. A strategy adds `send`, and `close`, which ends the wire.
    """

    __slots__ = (
        "limit", "most", "last_stream", "first_credit", "credit", "stream_credit", "allowance",
        "leaving", "lost", "faulty", "forked", "drain_said", "exit_status", "sampler", "growth",
    )  # fmt: skip

    def __init__(self, limit, stream_credit, connection_credit):
        """`limit`: requests at once. The credits are what Keepwarm may send on each stream, and on all of them together."""
        self.limit = limit
        self.most = 0
        self.last_stream = 0
        self.first_credit = self.credit = 0  # what this worker may send on a new stream, and on the connection; 0 before WELCOME
        self.stream_credit = stream_credit
        self.allowance = Allowance(connection_credit)
        self.leaving = self.lost = self.faulty = self.forked = self.drain_said = False
        self.exit_status = 0
        self.sampler = Sampler()
        self.growth = None  # while this worker is measured

    # -- handshake (§3) -----------------------------------------------------------------------------------------------

    def take_welcome(self, kind, payload):
        """The first frame, which has to be a WELCOME; gives its names."""
        if kind != wire.WELCOME:
            raise Fault("before_welcome", f"a frame of type 0x{kind:02x} before WELCOME")
        self.first_credit, self.credit, about = wire.read_welcome(payload)
        return about

    def say_hello(self, pairs):
        """Tells Keepwarm that the application is ready."""
        self.most = self.limit
        self.send(wire.hello(self.limit, self.stream_credit, self.allowance.left, pairs))

    # -- receiving ----------------------------------------------------------------------------------------------------

    def open(self, stream):
        """A REQUEST has come. Raises `Fault` where none may (§4)."""
        number = stream.number
        if number <= self.last_stream or len(self.streams) >= self.most:
            raise self.untimely_request(number)
        self.last_stream = number
        self.streams[number] = stream

    def untimely_request(self, number):
        if number <= self.last_stream:
            return Fault("stream_order", f"stream {number} after stream {self.last_stream}")
        if self.leaving:
            return Fault("after_drain", "a REQUEST after DRAIN")
        if not self.most:
            return Fault("before_hello", "a REQUEST before HELLO")
        if self.growth is not None:
            return Fault("stream_limit", "a second REQUEST while one is measured")
        return Fault("stream_limit", f"more than {self.limit} streams")

    def handle(self, kind, flags, number, payload):
        """Does what a frame says, of any type but REQUEST; gives what there is to say to it."""
        if number > self.last_stream:
            raise Fault("unknown_stream", f"a frame for stream {number}, which was never opened")
        if number:
            return self._handle_of_stream(kind, flags, self.streams.get(number), payload)
        if kind == wire.CREDIT:
            self.credit = added(self.credit, wire.decode_credit(payload))
        elif kind == wire.PING:
            return self.sampler.end() + wire.frame(wire.PONG, 0, 0, payload)
        elif kind == wire.DRAIN:
            self.leaving = True
            self.most = 0
        elif kind == wire.LEAKS:
            return self._handle_leaks(flags & wire.END)
        else:
            raise Fault("second_welcome", "a second WELCOME")
        return b""

    def _handle_leaks(self, end):
        """Begins to measure what requests leave behind, or stops (§11)."""
        if not self.most and not self.leaving:
            raise Fault("before_hello", "LEAKS before HELLO")
        if bool(end) != (self.growth is not None):
            raise Fault("leaks", "LEAKS with END, although nothing is measured" if end else "a second LEAKS")
        if end:
            self.growth.end(self.is_idle())
            self.most = 0 if self.leaving else self.growth.most
            self.growth = None
            return b""
        if self.is_serving():
            raise Fault("leaks", "LEAKS during a request")
        from keepwarm import growth  # which a worker that is never measured need not pay for

        self.growth = growth.Growth(self.last_stream, self.most)
        if self.most:
            self.most = len(self.streams) + 1
        return self.growth.begin_frame()

    def is_idle(self):
        """Whether the application is at no request."""
        return not self.streams

    def is_serving(self):
        """Whether a request is open for Keepwarm."""
        return bool(self.streams)

    def _handle_of_stream(self, kind, flags, stream, payload):
        """One for a stream that is over (None) is ignored (§5), and its bytes count as consumed (§6)."""
        if kind in (wire.DATA, wire.TEXT, wire.BINARY):
            cost = len(payload) if kind == wire.DATA else wire.message_cost(len(payload))
            self.allowance.spend(cost)
            if stream is None:
                return self._paid(cost)
            stream.held += cost
            stream.on_data(kind, payload, flags & wire.END)
        elif kind == wire.CREDIT:
            amount = wire.decode_credit(payload)
            if stream is not None:
                stream.on_credit(amount)
        elif kind == wire.RESET:
            code, _ = wire.decode_reason(payload)
            if stream is not None:
                stream.on_reset(code)
        elif kind == wire.TRAILERS:
            wire.decode_trailers(payload)  # neither WSGI nor ASGI has an API for them
            if stream is not None:
                stream.on_data(wire.DATA, b"", wire.END)
        elif kind == wire.HALF_CLOSE:
            if stream is not None:
                stream.on_half_close()
        else:
            code, reason = wire.decode_reason(payload)
            if stream is not None:
                stream.on_close(code, reason)
        return b""

    # -- credit (§6) --------------------------------------------------------------------------------------------------

    def take_credit(self, stream, wanted, least=1):
        """How much of `wanted` bytes may go out on `stream` now, None while there is less credit than `least`, which a frame costs in any case. It is spent."""
        credit = min(stream.credit, self.credit)
        if credit < least:
            return None
        size = min(wanted, credit)
        cost = max(size, least)
        stream.credit -= cost
        self.credit -= cost
        return size

    def released(self, stream, size, more=True):
        """Data of this size has left this process: the frames that return its credit, in steps. `more`: Keepwarm will need the stream's, too.

        Nothing, once the stream is settled: a thread or task of the application may keep reading after the end.
        """
        if not stream.held:
            return b""
        stream.held -= size
        frames = self._paid(size)
        back = stream.allowance.pay(size) if more else 0
        return frames + wire.credit(stream.number, back) if back else frames

    def settle(self, stream):
        """No more of what comes on this stream is of use: the connection gets back what it has not been given for it, read or not."""
        held, stream.held = stream.held, 0
        stream.parts = []
        return self._paid(held)

    def forget(self, stream):
        """The stream is over."""
        self.streams.pop(stream.number, None)
        return self.settle(stream) if stream.held else b""

    def _paid(self, size):
        back = self.allowance.pay(size)
        return wire.credit(0, back) if back else b""

    # -- the end ------------------------------------------------------------------------------------------------------

    def drain(self):
        """What asks Keepwarm for no more requests, the first time (§8)."""
        if self.drain_said or self.leaving:
            return b""
        self.drain_said = True
        return wire.frame(wire.DRAIN, 0, 0)

    def fail(self, fault):
        """Ends the connection (§2). Keepwarm replaces this worker."""
        log.error(f"fault on the wire: {fault}")
        self.faulty = True
        self.exit_status = 1
        self.close()

    def lose(self):
        """The wire has ended, and every client with it."""
        self.lost = True
        for stream in list(self.streams.values()):
            stream.on_reset(wire.CANCELLED)

    def leave_child(self, status):
        """Ends a child that came back from the application."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Stream:
    """A request for as long as it is open on the wire: what may be sent for it, and what of its body has come.

    `gone`: nobody waits for its response any more. `body_ended`: no more of its body comes. `held`: what the connection is to get back for frames
    of this stream. One has no `__init__`: a subclass sets all of this in its own, which is one call less for each request.
    """

    __slots__ = ("connection", "number", "gone", "parts", "body_ended", "held", "allowance", "credit")

    def on_data(self, kind, payload, end):
        """A part of the body has come, or its end."""
        if kind != wire.DATA:
            raise Fault("not_websocket", "a message on a stream that is not a WebSocket")
        if self.body_ended:
            raise Fault("body_over", "body data after the end of the body")
        if payload:
            self.allowance.spend(len(payload))
            self.parts.append(payload)
        self.body_ended = end

    def on_credit(self, amount):
        """So much more may be sent."""
        self.credit = added(self.credit, amount)

    def on_reset(self, code):
        """Nobody waits for the response any more."""
        self.gone = self.body_ended = True

    def on_half_close(self):
        """The client sends no more. Only ASGI has a word for it."""

    def on_close(self, code, reason):
        """Only a WebSocket is closed like this."""
        raise Fault("not_websocket", "a CLOSE on a stream that is not a WebSocket")
