"""A WebSocket of an ASGI application (spec/wire.md §7; ASGI WebSocket 2.5)."""

import asyncio
from collections import deque

from keepwarm import asgi_scope, fields, wire
from keepwarm.asgi_http import BODY, DONE, STARTED, WAITING, HttpStream
from keepwarm.errors import ClientDisconnected, Fault

_NORMAL, _NO_STATUS, _LOST, _INTERNAL_ERROR = 1000, 1005, 1006, 1011  # RFC 6455 §7.4.1
_NEVER_SENT = frozenset((_NO_STATUS, _LOST, 1015))  # codes that only tell what happened
_DENIAL = "websocket.http.response."


class WebSocketStream(HttpStream):
    """As `HttpStream`, for `websocket.…` messages. A denial with a response of its own is an HTTP response.

    Before the acceptance `open` is False and `stage` tells how far a denial is. `farewell` is the disconnect event that
    `receive` gives once `messages` are used up.
    """

    __slots__ = ("connected", "open", "messages", "kind", "farewell", "unpaid", "turn")

    def __init__(self, connection, number, flags, strings, body):
        super().__init__(connection, number, flags, strings, body)
        self.connected = self.open = False
        self.messages = deque()  # with the credit that each cost
        self.kind = None  # of the message whose frames are being collected in `parts`
        self.farewell = None
        self.turn = None  # a lock, once a message had to wait
        self.unpaid = 0  # cost of an unfinished message whose credit waits for the application to catch up

    def scope(self):
        return asgi_scope.websocket(self.strings, self.flags, self.connection.state)

    async def receive(self):
        """`websocket.connect`, then messages, then `websocket.disconnect` on every further call."""
        if not self.connected:
            self.connected = True
            return {"type": "websocket.connect"}
        while not self.messages:
            if self.farewell is not None:
                return dict(self.farewell)
            if self.gone or self.stage == DONE:
                return {"type": "websocket.disconnect", "code": _LOST, "reason": ""}
            await self._wait()
        cost, event = self.messages.popleft()
        if not self.messages:
            cost, self.unpaid = cost + self.unpaid, 0
        self.connection.consumed(self, cost)
        return event

    async def send(self, message):
        """A message to the client, or one of the opening."""
        kind = message["type"]
        if self.gone or (self.farewell is not None and not self.open):
            raise ClientDisconnected("the client disconnected")
        if kind == "websocket.send" and self.open:
            await self._send_message(message)
        elif kind == "websocket.close" and self.open:
            self._say_close(message.get("code", _NORMAL), message.get("reason") or "")
        elif kind == "websocket.accept" and not self.open and self.stage == WAITING:
            self._accept(message)
        elif kind == "websocket.close" and self.stage == WAITING:
            self._refuse()
        elif kind == _DENIAL + "start" and not self.open and self.stage == WAITING:
            self._start(message)
        elif kind == _DENIAL + "body" and not self.open and self.stage in (STARTED, BODY):
            await self._body(message)
        else:
            raise RuntimeError(f"{kind!r} is not allowed at this point")

    # -- from the client ----------------------------------------------------------------------------------------------

    def on_data(self, kind, payload, end):
        """A frame of a message."""
        if kind == wire.DATA:
            raise Fault("body_over", "DATA on a WebSocket")
        if not self.open:
            raise Fault("before_response", "a message before the WebSocket was accepted")
        if self.kind is None:
            self.kind = kind
        elif self.kind != kind:
            raise Fault("mixed_message", "interleaved messages on a WebSocket")
        cost = wire.message_cost(len(payload))
        self.allowance.spend(cost)
        if payload:
            self.parts.append(payload)
        if end:
            self._take_message(cost)
        elif self.messages:
            self.unpaid += cost
        else:  # the application waits for this message, which may be larger than the credit: let it come
            self.connection.consumed(self, cost)

    def on_close(self, code, reason):
        """The client closes the WebSocket, or is lost (1006)."""
        if not self.open:
            raise Fault("before_response", "a CLOSE before the WebSocket was accepted")
        if self.farewell is None:
            self.farewell = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self._say_close(_NORMAL if code in _NEVER_SENT else code, "")
        self.gone = True
        self.wake_senders()

    def on_reset(self, code):
        self.open = False
        super().on_reset(code)

    def _take_message(self, cost):
        body, kind = b"".join(self.parts), self.kind
        self.parts, self.kind = [], None
        event = {"type": "websocket.receive"}
        if kind == wire.TEXT:
            try:
                event["text"] = body.decode("utf-8")
            except UnicodeDecodeError:
                raise Fault("utf8", "a TEXT message that is not UTF-8") from None
        else:
            event["bytes"] = body
        self.messages.append((cost, event))
        self._wake_receiver()

    # -- to the client ------------------------------------------------------------------------------------------------

    def _accept(self, message):
        headers = list(message.get("headers") or ())
        subprotocol = message.get("subprotocol")
        if subprotocol is not None:
            headers.append((b"sec-websocket-protocol", subprotocol.encode("latin-1")))
        count, text, _, _ = fields.bytes_block(headers)
        self.open = True
        self.connection.send(wire.response(self.number, 0, 101, count, text))

    def _refuse(self):
        """Closed before it was accepted: the opening gets 403 (ASGI WebSocket, Close)."""
        self.farewell = {"type": "websocket.disconnect", "code": _LOST, "reason": ""}
        self.connection.send(wire.response(self.number, wire.END, 403, 0, b""))
        self._end()

    async def _send_message(self, message):
        text = message.get("text")
        if text is not None:
            kind, body = wire.TEXT, text.encode("utf-8")
        else:
            kind, body = wire.BINARY, message.get("bytes")
            if body is None:
                raise ValueError("'websocket.send' with neither 'text' nor 'bytes'")
        cost = wire.message_cost(len(body))
        if self.turn is None and self.connection.has_room(self, cost):
            self.connection.send_at_once(self, kind, body, cost)
            return
        if self.turn is None:
            self.turn = asyncio.Lock()
        async with self.turn:  # two tasks may send; their messages must not mix
            await self._send_slowly(kind, body)

    async def _send_slowly(self, kind, body):
        if not self.open:
            raise ClientDisconnected("the client disconnected")
        try:
            await self.connection.send_data(self, kind, memoryview(body), True)
            if self.gone or self.over:
                raise ClientDisconnected("the client disconnected" if self.gone else "the WebSocket has ended")
        except BaseException:  # cancelled with half a message sent, which nothing can follow but the end
            if self.open:
                self._say_close(_INTERNAL_ERROR, "")
            raise

    def _say_close(self, code, reason):
        self.open = False
        if self.farewell is None:
            self.farewell = {"type": "websocket.disconnect", "code": code, "reason": reason}
        self.connection.send(wire.close(self.number, code, reason))
        self._end()

    # -- the end ------------------------------------------------------------------------------------------------------

    def _returned(self):
        if self.open:
            self._say_close(_NORMAL, "")
        else:
            super()._returned()

    def _reset(self, code, reason):
        if self.open:
            self._say_close(_INTERNAL_ERROR, "")
        else:
            super()._reset(code, reason)
