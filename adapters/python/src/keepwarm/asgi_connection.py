"""The strategy of a worker that serves many requests at once, on an asyncio loop."""

import asyncio
import sys
from collections import deque

from keepwarm import wire
from keepwarm.asgi_http import HttpStream
from keepwarm.connection import Connection
from keepwarm.errors import Fault
from keepwarm.wire import HEAD, MAX_CHUNK, MAX_PAYLOAD, REQUEST, REQUEST_FLAGS

STREAM_CREDIT = 131_072  # bytes of one request's body that may wait in this process
READ_SIZE = 65_536  # bytes read at once
CONNECTION_CREDIT = 2_097_152  # and of all of them; spec/wire.md §3 asks for 65,536 at least


class Asyncio(Connection, asyncio.BufferedProtocol):
    """Takes frames apart, and writes what the streams say, together.

    `streams` are those that Keepwarm waits for; `running` those whose application has not returned, which may be later.
    `finished` is done when the worker may leave: drained, lost, or at fault.
    """

    def __init__(self, loop, application, new_websocket, limit=1_000):
        super().__init__(limit, STREAM_CREDIT, CONNECTION_CREDIT)
        self.loop = loop
        self.application = application
        self.new_websocket = new_websocket
        self.state = {}
        self.streams = {}
        self.running = set()
        self.welcome = loop.create_future()
        self.finished = loop.create_future()
        self.wire_end = loop.create_future()
        self.transport = None
        self._read = memoryview(bytearray(READ_SIZE))
        self._buffer = b""
        self._out = []
        self._reading = False
        self._credit_waiters = deque()
        self._writable = None
        self._start = starter(loop)

    # -- asyncio.BufferedProtocol -------------------------------------------------------------------------------------

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, size_hint):
        """One buffer for all reads: with `Protocol`, asyncio makes 256 KiB for each, which the system maps and unmaps every time."""
        return self._read

    def buffer_updated(self, size):
        """So much was read."""
        self.data_received(bytes(self._read[:size]))

    def data_received(self, data):
        """Frames, in pieces of any size."""
        if self._buffer:
            data = self._buffer + data
        self._reading = True
        try:
            self._buffer = self._take(data)
        except Fault as fault:
            self.fail(fault)
        self._reading = False
        if self._out:
            self._flush()

    def eof_received(self):
        """Lets the transport close."""
        return False

    def connection_lost(self, error):
        """Keepwarm has gone: every client with it."""
        self.wire_end.set_result(None)
        if not self.welcome.done():
            self.welcome.set_result(None)
        self.lose()
        self.streams.clear()
        self.resume_writing()
        self._wake_all()
        self._leave_if_done()

    def pause_writing(self):
        if self._writable is None:
            self._writable = self.loop.create_future()

    def resume_writing(self):
        waiter, self._writable = self._writable, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- a forked child -----------------------------------------------------------------------------------------------

    def on_fork(self):
        """This is a child: the wire is not its own, and neither is the loop with the other requests."""
        self.forked = self.lost = True

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _take(self, data):
        """Does all whole frames in `data`; gives what is left over."""
        start, size = 0, len(data)
        while size - start >= 10:
            length, kind, flags, stream = HEAD.unpack_from(data, start)
            end = start + 10 + length
            if kind != REQUEST or length > MAX_PAYLOAD or length < 14 or flags not in REQUEST_FLAGS or not stream:
                wire.check_head(length, kind, flags, stream)
            if end > size:
                break
            if kind == REQUEST:
                _, strings, body = wire.request_parts(data, start + 10, end, flags)
                self._request(flags, stream, strings, body)
            else:
                self._frame(kind, flags, stream, data[start + 10 : end])
            start = end
        return data[start:] if start else data

    def _request(self, flags, number, strings, body):
        new = self.new_websocket if flags & wire.WEBSOCKET else HttpStream
        stream = new(self, number, flags, strings, body)
        self.open(stream)
        self.running.add(stream)
        stream.task = self._start(stream.run())

    def _frame(self, kind, flags, number, payload):
        if not self.first_credit:
            self.welcome.set_result(self.take_welcome(kind, payload))
            return
        said = self.handle(kind, flags, number, payload)
        if said:
            self.send(said)
        if kind == wire.DRAIN:
            self._leave_if_done()
        elif kind == wire.CREDIT and not number:
            self._wake_next()

    def close(self):
        """Ends the wire."""
        self.transport.abort()

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, frame):
        """Sends whole frames, together with the others of this turn of the loop."""
        out = self._out
        if not out and not self._reading:
            self.loop.call_soon(self._flush)
        out.append(frame)

    def _flush(self):
        out = self._out
        if out:
            self._out = []
            if not self.lost:
                self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    def say_hello(self, pairs):
        if self.limit > 1:
            # The only slot of a worker would be occupied for as long as one is open.
            pairs = [*pairs, ("websocket", "1")]
        super().say_hello(pairs)

    def ask_to_drain(self):
        """Asks Keepwarm for no more requests, once (§8)."""
        said = self.drain()
        if said:
            self.send(said)

    def over(self, stream):
        """The stream has ended for Keepwarm."""
        said = self.forget(stream)
        if said:
            self.send(said)

    def returned(self, stream):
        """The application has let go of the stream."""
        if self.forked:
            self.leave_child(0)
        self.running.discard(stream)
        if self.sampler.pending:
            self.send(self.sampler.take())
        if self.growth is not None and stream.number > self.growth.since:
            self._measure_soon(stream.number)
        if self.leaving or self.lost:
            self._leave_if_done()

    def _measure_soon(self, number):
        """Says what a request has left behind once its task and the callbacks of that are done."""
        growth, loop = self.growth, self.loop

        def measure():
            if self.growth is growth:
                self.send(growth.frame(number))

        loop.call_soon(loop.call_soon, measure)

    def is_idle(self):
        return not self.running

    def _leave_if_done(self):
        if not self.finished.done() and not self.running and (self.leaving or self.lost):
            self.finished.set_result(None)

    # -- credit -------------------------------------------------------------------------------------------------------

    def has_room(self, stream, cost):
        """Whether what costs so much credit can go out now, before anything else that waits."""
        return cost <= stream.credit and cost <= self.credit and self._writable is None and not self._credit_waiters

    def send_at_once(self, stream, kind, body, cost):
        """Sends a whole body or message for which `has_room` holds."""
        size = len(body)
        stream.credit -= cost
        self.credit -= cost
        if size <= MAX_CHUNK:
            self.send(HEAD.pack(size, kind, wire.END, stream.number) + body)
            return
        for start in range(0, size, MAX_CHUNK):
            part = body[start : start + MAX_CHUNK]
            self.send(wire.frame(kind, wire.END if start + MAX_CHUNK >= size else 0, stream.number, bytes(part)))

    async def send_data(self, stream, kind, body, end):
        """Sends `body` under credit, a frame at a time, in turn with other streams; END on the last frame if `end`. Stops where the stream ends."""
        start, size = 0, len(body)
        least = 1 if kind == wire.DATA else wire.MIN_MESSAGE_COST
        its_turn = not self._credit_waiters
        more = start < size or least > 1
        while more:
            room = self.take_credit(stream, min(size - start, MAX_CHUNK), least) if its_turn and self._writable is None else None
            if room is None:
                await self._turn(stream, least)
                if stream.gone or stream.over:
                    return
                its_turn = True
                continue
            part = body[start : start + room]
            start += room
            more = start < size
            flags = wire.END if end and not more else 0
            self.send(HEAD.pack(room, kind, flags, stream.number) + bytes(part))
            its_turn = not self._credit_waiters
            self._wake_next()
        if self._writable is not None:
            await asyncio.shield(self._writable)

    async def _turn(self, stream, least):
        """Waits until this stream may try again: for the socket, for its credit, or for the connection's in its turn."""
        if self._writable is not None:
            await asyncio.shield(self._writable)
            return
        waiter = self.loop.create_future()
        stream.senders.append(waiter)
        if stream.credit < least:
            await waiter
            return
        self._credit_waiters.append(waiter)
        self._wake_next()
        try:
            await waiter
        except BaseException:
            if waiter in self._credit_waiters:
                self._credit_waiters.remove(waiter)
            else:
                self._wake_next()  # it was this one's turn, which it cannot take
            raise
        if stream.gone or stream.over:
            self._wake_next()

    def _wake_next(self):
        """Gives the turn to the stream that has waited longest for the connection's credit."""
        while self.credit >= wire.MIN_MESSAGE_COST and self._credit_waiters:  # enough for any of them
            waiter = self._credit_waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self):
        waiters, self._credit_waiters = self._credit_waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def consumed(self, stream, size, more=True):
        """What cost so much has left this process; `more`: Keepwarm will need the stream's credit."""
        said = self.released(stream, size, more)
        if said:
            self.send(said)


def starter(loop):
    """A function that makes a task of a coroutine and runs it at once up to its first wait.

    Most requests never wait, and finish before the loop's next iteration. It is a task like any other: `current_task` is
    right, and so is its context. Python 3.12 has this as `eager_start`; before it, the task's first step, which stands last
    in the queue of asyncio's own loop, is taken from there.
    """
    if sys.version_info >= (3, 12):
        return lambda coroutine: asyncio.Task(coroutine, loop=loop, eager_start=True)
    ready = getattr(loop, "_ready", None)
    if type(ready) is not deque or loop.get_debug() or loop.get_task_factory() is not None:
        return loop.create_task

    def start(coroutine):
        before = len(ready)
        task = loop.create_task(coroutine)
        if len(ready) == before + 1 and asyncio.current_task(loop) is None:
            ready.pop()._run()
        return task

    return start
