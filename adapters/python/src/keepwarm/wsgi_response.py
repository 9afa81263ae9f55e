"""The response of a WSGI application on its way to the wire (PEP 3333)."""

from keepwarm import fields, log, wire
from keepwarm.allowance import Allowance
from keepwarm.connection import Stream
from keepwarm.wire import END, MAX_CHUNK, RESPONSE, RESPONSE_HEAD

_MAX_REMEMBERED = 256  # status lines


class _Statuses(dict):
    """Status line -> its code; one met for the first time is checked."""

    def __missing__(self, status):
        if not isinstance(status, str):
            raise TypeError(f"the status is {type(status).__name__} instead of str: {status!r}")
        digits = status[:3]
        if not (digits.isascii() and digits.isdigit()) or status[3:4] not in ("", " "):
            raise ValueError(f"not a status line: {status!r}")
        code = int(digits)
        if code < 200 and code != 100:
            raise ValueError(f"{status!r} is not the status of a final response")
        if len(self) < _MAX_REMEMBERED:
            self[status] = code
        return code


_code_of = _Statuses().__getitem__


class Response(Stream):
    """A request on the wire, and the response to it. Objects that the application keeps of it raise after its end, so that they cannot write into another response.

    The application calls `start_response` (and `write`), then comes `deliver`, or `abort` when it fails.
    `text` is None until `start_response`, which sets what is known of the response. `begun`: its fields have left. `over`: the stream has ended. `ended`: the request is over.
    """

    __slots__ = ("head_only", "bodiless", "code", "count", "text", "length", "flags", "begun", "over", "ended", "sent")

    def __init__(self, connection, number, flags, head_only):
        """`head_only`: its method is HEAD, so that no body goes out."""
        self.connection = connection
        self.number = number
        self.head_only = head_only
        self.text = None
        self.begun = self.over = self.ended = self.gone = False
        self.credit = connection.first_credit
        self.held = 0
        self.body_ended = flags & END
        if not self.body_ended:
            self.parts = []  # payloads of DATA that the application has not read
            self.allowance = Allowance(connection.stream_credit)

    def start_response(self, status, headers, exc_info=None):
        """PEP 3333's `start_response`. Invalid arguments raise here, in the application."""
        if self.text is not None or self.ended:
            self._check_restart(exc_info)
        self.code = code = _code_of(status)
        self.count, text, self.length, close = fields.text_block(headers)
        self.text = text
        self.flags = wire.CLOSE_AFTER if close else 0
        self.bodiless = self.head_only or code == 204 or code == 304
        return self.write

    def _check_restart(self, exc_info):
        if self.ended:
            raise _late("start_response()")
        if not exc_info:
            raise AssertionError("start_response() was called a second time without exc_info")
        try:
            if self.begun:
                raise exc_info[1].with_traceback(exc_info[2])
        finally:
            exc_info = None  # the traceback refers to this frame: PEP 3333 wants the circle broken

    def deliver(self, result):
        """Sends what the application returned, each block as it comes. Does not call its `close`."""
        kind = type(result)
        if (kind is list or kind is tuple) and not self.begun:
            # Every block is here already, so that joining them holds nothing back.
            body = result[0] if len(result) == 1 else b"".join(result)
            if self.text is not None and self.length == len(body) and not self.bodiless:
                self._first(body, END)
            else:
                self._whole(body)
            return
        put, gate = self._put, self.connection.gate
        gate.closed = False
        if gate.waiting:
            gate.open()
        for block in result:
            gate.closed = True
            if block and not put(block):
                break
            gate.closed = False
            if gate.waiting:
                gate.open()
        gate.closed = True
        if not self.over:
            self._finish()

    def abort(self, code, reason):
        """Ends the stream without a complete response: 500 if its fields have not left, a cut connection otherwise."""
        if not self.over:
            self.over = True
            self.connection.send(wire.reset(self.number, code, reason))

    def write(self, data):
        """PEP 3333's `write`."""
        if self.ended:
            raise _late("write()")
        if data:
            gate = self.connection.gate
            before = gate.close()
            try:
                self._put(data)
            finally:
                gate.restore(before)

    def early_hints(self, headers):
        """`environ['keepwarm.early_hints'](headers)` of a client that would understand it: sends `103 Early Hints`."""
        if not self.begun and not self.over:
            count, text, _, _ = fields.text_block(headers)
            self.connection.send(wire.inform(self.number, 103, count, text))

    def _whole(self, body):
        """A body that is all here."""
        if self.text is None:
            raise _no_start()
        length = self.length
        if (length is None or length == len(body)) and not self.bodiless:
            if length is None and len(body) > MAX_CHUNK:
                # It takes several frames, so that nobody else can know its length when the fields leave.
                self.text += b"%scontent-length\0%d" % (b"\0" if self.count else b"", len(body))
                self.count += 2
            self._first(body, END)
            return
        if body:
            self._put(body)
        if not self.over:
            self._finish()

    def _put(self, block):
        """Sends a block at once. False when no further one is wanted."""
        if self.begun:
            return self._next(block)
        if self.text is None:
            raise _no_start()
        if self.bodiless:
            self._first(b"", END)
            return False
        length = self.length
        if length is None:
            self._first(block, 0)
        elif len(block) < length:
            self._first(block, 0)
        elif len(block) == length:
            self._first(block, END)
        else:
            self._first(memoryview(block)[:length], END)
            self._too_long()
        return not self.gone

    def _first(self, body, end):
        """The response's fields, and the beginning of its body or all of it."""
        text = self.text
        size = len(body)
        if size <= MAX_CHUNK:
            try:
                rest = text + body
            except TypeError:
                raise _no_bytes(body) from None
            self.begun = True  # only now: whatever fails before can still become a 500
            self.over = end != 0
            self.sent = size
            self.connection.send(
                RESPONSE_HEAD.pack(8 + len(rest), RESPONSE, end | self.flags, self.number, self.code, self.count, len(text)) + rest
            )
            return
        view = _view(body)
        self.begun = True
        self.sent = size
        self.connection.send(wire.response(self.number, self.flags, self.code, self.count, text, view[:MAX_CHUNK]))
        self._data(view[MAX_CHUNK:], end)

    def _next(self, block):
        if self.over:
            if not (self.bodiless or self.gone):
                self._too_long()
            return False
        self.connection.poll()
        length, end = self.length, 0
        view = _view(block)
        if length is not None:
            left = length - self.sent
            if len(view) >= left:
                end = END
                if len(view) > left:
                    view = view[:left]
                    self._too_long()
        self.sent += len(view)
        self._data(view, end)
        return not self.over or end != 0

    def _data(self, view, end):
        if self.gone or not self.connection.send_data(self, view, end):
            self.abort(wire.CANCELLED, "")
        elif end:
            self.over = True

    def _finish(self):
        """The application has no more blocks."""
        if self.gone:
            self.abort(wire.CANCELLED, "")
        elif not self.begun:
            if self.text is None:
                raise _no_start()
            if self.length and not self.bodiless:
                self._too_short(0)
            else:
                self._first(b"", END)
        elif self.length is not None and self.sent < self.length:
            self._too_short(self.sent)
        else:
            self.over = True
            self.connection.send(wire.frame(wire.DATA, END, self.number))

    def _too_short(self, sent):
        reason = f"the body ended after {sent} of the {self.length} bytes that Content-Length promised"
        log.error(f"the application's response is too short: {reason}")
        self.abort(wire.TOO_SHORT, reason)

    def _too_long(self):
        log.warn_once("too long", f"the application's response is longer than its Content-Length of {self.length}; the rest is cut off")


def _no_start():
    return AssertionError("the application returned a body without calling start_response")


def _late(what):
    return ValueError(f"{what} was called after the end of its response")


def _view(block):
    try:
        return memoryview(block)
    except TypeError:
        raise _no_bytes(block) from None


def _no_bytes(block):
    return TypeError(f"a block of the response is {type(block).__name__} instead of bytes")
