"""A request of an ASGI application, and its response on the way to the wire."""

import asyncio
import inspect
import os

from keepwarm import asgi_scope, fields, log, stacks, wire
from keepwarm.allowance import Allowance
from keepwarm.connection import Stream
from keepwarm.errors import ClientDisconnected, exit_status
from keepwarm.wire import END, MAX_CHUNK, RESPONSE, RESPONSE_HEAD

# Where the response is: nothing yet, its start is known (and held until the body begins), its body has begun, only
# trailers are missing, the application has said all.
WAITING, STARTED, BODY, TRAILERS, DONE = range(5)

_SOCKET_CLOSED = "WebSocketDisconnect"
_FRAMEWORKS_OWN = frozenset(("ClientDisconnect", _SOCKET_CLOSED))  # Starlette's


class HttpStream(Stream):
    """`run` calls the application; `receive` and `send` are what it gets.

    `gone`: nobody waits for the response. `over`: the stream has ended for Keepwarm (spec/wire.md §5).
    """

    __slots__ = (
        "flags", "strings", "task", "stage", "over", "bodiless", "body_given", "wanted", "free", "receiver", "senders", "code", "count", "text",
        "length", "response_flags", "trailers", "trailer_fields", "sent", "half_closed", "told", "__weakref__",
    )  # fmt: skip

    def __init__(self, connection, number, flags, strings, body):
        self.connection = connection
        self.number = number
        self.flags = flags
        self.strings = strings
        self.parts = [body] if body else []
        self.body_ended = flags & END
        self.stage = WAITING
        self.gone = self.over = self.body_given = self.half_closed = self.told = False
        self.wanted = not flags & wire.EXPECT
        self.bodiless = strings[0] == b"HEAD"
        self.held = 0
        self.free = len(body)  # bytes that came with the REQUEST, which are not under credit (§6)
        self.allowance = Allowance(connection.stream_credit) if not self.body_ended or flags & wire.WEBSOCKET else None
        self.receiver = self.task = None
        self.senders = []  # what waits for credit
        self.credit = connection.first_credit

    # -- the application ----------------------------------------------------------------------------------------------

    async def run(self):
        """Calls the application and sees to it that the stream ends."""
        connection = self.connection
        try:
            scope = self.scope()
            error = None
            try:
                await connection.application(scope, self.receive, self.send)
            except Exception as failed:
                if not self._has_lost_file(scope):
                    raise
                error = failed
            if not self.over and self._has_lost_file(scope):
                await self._without_pathsend(error)
        except BaseException as error:
            self._failed(error)
        else:
            if not self.over:
                self._returned()
        connection.returned(self)

    def _has_lost_file(self, scope):
        """Whether nothing has been sent of a file that the application may have left to `http.response.pathsend`, and the request can be repeated."""
        extensions = scope.get("extensions")
        return (
            type(extensions) is asgi_scope.Extensions
            and extensions.asked
            and self.stage in (WAITING, STARTED)
            and not (self.gone or self.over)
            and self.body_ended
            and self.strings[0] in (b"GET", b"HEAD")
            and "http.response.pathsend" in extensions
        )

    async def _without_pathsend(self, error):
        """Middleware that does not know `http.response.pathsend` drops it, or fails (Gradio's, Starlette's own up to 0.37): calls the application again without it."""
        asgi_scope.offer_pathsend(False)
        self.stage = WAITING
        self.body_given = False
        try:
            await self.connection.application(self.scope(), self.receive, self.send)
        except BaseException:
            asgi_scope.offer_pathsend(True)  # it was something else
            raise
        if self.over:
            why = "is lost" if error is None else f"fails ({type(error).__name__})"
            log.warn_once("pathsend", f"`http.response.pathsend` {why} in a middleware of the application; it is not offered any more")
        else:
            asgi_scope.offer_pathsend(True)

    def scope(self):
        """What the application learns about the request."""
        return asgi_scope.http(self.strings, self.flags, self.connection.state)

    async def receive(self):
        """The next part of the body, then `http.disconnect` once the client has closed or there is nothing to respond to any more."""
        while True:
            if self.gone or self.stage == DONE:
                return {"type": "http.disconnect"}
            if self.parts or (self.body_ended and not self.body_given):
                return self._next_part()
            if self.half_closed and self.body_given:
                self.told = True
                return {"type": "http.disconnect"}
            if not self.wanted:
                self.wanted = True
                self.connection.send(wire.frame(wire.WANT, 0, self.number))
            await self._wait()

    async def send(self, message):
        """A message of the response. Waits while Keepwarm cannot take more; raises `ClientDisconnected` once it is gone."""
        kind = message["type"]
        if self.gone:
            raise ClientDisconnected("the client disconnected")
        if kind == "http.response.body":
            if self.stage == STARTED:
                body = message.get("body", b"")
                size = len(body)
                if (
                    not message.get("more_body", False)
                    and size <= MAX_CHUNK
                    and (self.length is None or self.length == size)
                    and not (self.bodiless or self.trailers)
                ):
                    self._whole(body, size)
                    return
            await self._body(message)
        elif kind == "http.response.start" and self.stage == WAITING:
            self._start(message)
        elif kind == "http.response.trailers" and self.stage == TRAILERS:
            self._trailers(message)
        elif kind == "http.response.pathsend" and self.stage == STARTED:
            await self._path(message["path"])
        elif kind == "http.response.early_hint" and self.stage == WAITING:
            self._early_hint(message.get("links", ()))
        else:
            raise self._out_of_place(kind)

    # -- the body of the request --------------------------------------------------------------------------------------

    def on_data(self, kind, payload, end):
        super().on_data(kind, payload, end)
        self._wake_receiver()

    def on_credit(self, amount):
        super().on_credit(amount)
        self.wake_senders()

    def on_reset(self, code):
        """Nobody waits for the response any more. Once its time is over, the others of this worker go on."""
        super().on_reset(code)
        said = self.connection.settle(self)
        if said:
            self.connection.send(said)
        self._wake_receiver()
        self.wake_senders()
        if code == wire.TIMEOUT:
            self.give_up()

    def on_half_close(self):
        """Wakes the task that waits for the client's disconnect. Further output may still reach the client (§5)."""
        self.half_closed = True
        self._wake_receiver()

    def give_up(self):
        """Shows where the application stands, and cancels it."""
        if not self.task.done():
            strings = self.strings
            stacks.write(self.task, f"{strings[0].decode()} {strings[4].decode('latin-1')} timed out; it is cancelled here")
            begun = inspect.getcoroutinestate(self.task.get_coro()) != inspect.CORO_CREATED
            self.task.cancel()
            if not begun:  # it never will: `run` cannot see to the end
                self._reset(wire.CANCELLED, "")
                self.connection.returned(self)

    def _next_part(self):
        parts = self.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self.parts = []
        more = not self.body_ended
        self.body_given = not more
        self._let_go(len(body), more)
        return {"type": "http.request", "body": body, "more_body": more}

    def _let_go(self, size, more):
        """`size` bytes of the body leave; `more`: Keepwarm will need the stream's credit."""
        counted, self.free = size - self.free, 0
        if counted > 0:
            self.connection.consumed(self, counted, more)

    async def _wait(self):
        waiter = self.receiver
        if waiter is None or waiter.done():
            waiter = self.receiver = self.connection.loop.create_future()
        await asyncio.shield(waiter)

    def _wake_receiver(self):
        waiter, self.receiver = self.receiver, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def wake_senders(self):
        """There is credit again, or no use in waiting."""
        if self.senders:
            waiters, self.senders = self.senders, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    # -- the response ---------------------------------------------------------------------------------------------------

    def _start(self, message):
        code = message["status"]
        if not isinstance(code, int) or not 200 <= code <= 999:
            raise ValueError(f"{code!r} is not the status of a final response")
        self.count, text, self.length, close = fields.bytes_block(message.get("headers", ()))
        self.code, self.text = int(code), text
        self.response_flags = wire.CLOSE_AFTER if close else 0
        self.trailers = bool(message.get("trailers", False))
        self.trailer_fields = []
        if code == 204 or code == 304:
            self.bodiless = True
        self.sent = 0
        self.stage = STARTED

    def _whole(self, body, size):
        """A body that came in one piece: one frame."""
        text = self.text
        try:
            rest = text + body
        except TypeError:
            raise _no_bytes(body) from None
        self._end()  # only now: an earlier failure can still become a 500
        self.connection.send(
            RESPONSE_HEAD.pack(8 + len(rest), RESPONSE, END | self.response_flags, self.number, self.code, self.count, len(text))
            + rest
        )

    async def _body(self, message):
        if self.stage not in (STARTED, BODY):
            raise self._out_of_place("http.response.body")
        more, body = message.get("more_body", False), message.get("body", b"")
        try:
            view = memoryview(body)
        except TypeError:
            raise _no_bytes(body) from None
        await self._send_body(view, more)

    async def _send_body(self, view, more):
        """A part of the body; `more` says that it is not the last."""
        if self.bodiless:
            if not self.over:
                self.over = True
                self._first(b"", END)
                self.connection.over(self)
            view = view[:0]
        if self.length is not None and not self.over and self.sent + len(view) > self.length:
            view = view[: self.length - self.sent]
            log.warn_once("too long", f"the application's response is longer than its Content-Length of {self.length}; the rest is cut off")
        self.sent += len(view)
        last = not more
        short = last and not self.bodiless and self.length is not None and self.sent < self.length
        end = last and not short and not self.trailers
        if not self.over:
            await self._frames(view, end)
            if self.gone or self.over:
                raise ClientDisconnected("the client disconnected" if self.gone else "the response has ended")
        self.stage = BODY
        if not last:
            return
        if short:
            self._too_short()
        elif self.trailers and not self.over:
            self.stage = TRAILERS
            return
        self._end()

    def _out_of_place(self, kind):
        """The error for a message that may not come here. Once the application knows that its client has gone, it is no fault of the application."""
        if self.told:
            return ClientDisconnected("the client disconnected")
        return RuntimeError(f"{kind!r} is not allowed at this point")

    async def _frames(self, view, end):
        flag = END if end else 0
        if self.stage == STARTED:
            first, view = view[:MAX_CHUNK], view[MAX_CHUNK:]
            if end and not view:
                self._first(first, flag)
                return
            if first or not end:
                self._first(first, 0)
            if not view:
                return
        if view:
            await self.connection.send_data(self, wire.DATA, view, end)
        elif end:
            self.connection.send(wire.frame(wire.DATA, END, self.number))

    def _first(self, body, flags):
        self.stage = BODY
        self.connection.send(
            wire.response(self.number, flags | self.response_flags, self.code, self.count, self.text, bytes(body))
        )

    def _trailers(self, message):
        self.trailer_fields.extend(message.get("headers", ()))
        if message.get("more_trailers", False):
            return
        count, text, _, _ = fields.bytes_block(self.trailer_fields)
        self.connection.send(wire.trailers(self.number, count, text))
        self._end()

    async def _path(self, path):
        """`http.response.pathsend`: the file is the whole body. It is read beside the loop."""
        loop = self.connection.loop
        file = await loop.run_in_executor(None, open, path, "rb")
        try:
            size = os.fstat(file.fileno()).st_size
            if self.bodiless:
                await self._send_body(memoryview(b""), False)
                return
            while not self.gone:
                part = await loop.run_in_executor(None, file.read, MAX_CHUNK)
                size -= len(part)
                more = bool(part) and size > 0
                await self._send_body(memoryview(part), more)
                if not more:
                    return
        finally:
            file.close()
        raise ClientDisconnected("the client disconnected")

    def _early_hint(self, links):
        if self.flags & wire.EARLY_HINTS:
            count, text, _, _ = fields.bytes_block([(b"link", bytes(link)) for link in links])
            self.connection.send(wire.inform(self.number, 103, count, text))

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self):
        """The response is complete."""
        self.stage = DONE
        if not self.over:
            self.over = True
            self.connection.over(self)
        if self.parts:
            self.parts = []
        if self.receiver is not None:
            self._wake_receiver()
        if self.senders:
            self.wake_senders()

    def _reset(self, code, reason):
        if not self.over:
            self.connection.send(wire.reset(self.number, code, reason))
        self._end()

    def _too_short(self):
        reason = f"the body ended after {self.sent} of the {self.length} bytes that Content-Length promised"
        log.error(f"the application's response is too short: {reason}")
        self._reset(wire.TOO_SHORT, reason)

    def _returned(self):
        """The application is done and its response is not."""
        if self.gone or self.told:
            self._reset(wire.CANCELLED, "")
            return
        said = "without a response" if self.stage in (WAITING, STARTED) else "before its response was complete"
        log.error(f"the application returned {said}")
        self._reset(wire.APP_ERROR, f"the application returned {said}")

    def _failed(self, error):
        connection = self.connection
        if connection.forked and isinstance(error, SystemExit):
            connection.leave_child(exit_status(error))
        lost = self.gone or self.half_closed or self.stage == DONE
        if lost and tells_of_the_client(error):
            if type(error).__name__ == _SOCKET_CLOSED:
                log.write(f"the application did not catch {_SOCKET_CLOSED}: its client has closed the WebSocket")
            self._reset(wire.CANCELLED, "")
            return
        log.exception(error)
        self._reset(wire.APP_ERROR, f"{type(error).__name__} in the application")
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            connection.exit_status = exit_status(error)
            connection.ask_to_drain()
        elif isinstance(error, MemoryError):
            connection.ask_to_drain()


def tells_of_the_client(error):
    """Whether the application only passes on that its client has gone, by itself, as its framework's own exception, or from a group of tasks."""
    group = getattr(error, "exceptions", None)
    if isinstance(group, tuple) and group:  # BaseExceptionGroup, and its namesakes before Python 3.11
        return all(map(tells_of_the_client, group))
    return isinstance(error, (ClientDisconnected, asyncio.CancelledError)) or type(error).__name__ in _FRAMEWORKS_OWN


def _no_bytes(body):
    return TypeError(f"the body of 'http.response.body' is {type(body).__name__} instead of bytes")
