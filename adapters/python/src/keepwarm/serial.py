"""The strategy of a worker that serves one request at a time: a waiting function reads the wire itself, and so does the loop between requests."""

from socket import MSG_DONTWAIT

from keepwarm import profile, wire
from keepwarm.blocking import READ_SIZE, STREAM_CREDIT, BlockingConnection
from keepwarm.errors import Fault, Lost
from keepwarm.signals import gate
from keepwarm.wire import END, FIXED_STRINGS, HEAD, MAX_CHUNK, MAX_PAYLOAD, REQUEST, REQUEST_FLAGS, REQUEST_HEAD, USER
from keepwarm.wsgi import Service
from keepwarm.wsgi_response import Response

AHEAD = 3  # REQUESTs that may wait here after the current one (spec/wire.md §3)
_MOST_AT_ONCE = 32 * MAX_CHUNK  # of a body, in one call


class Serial(BlockingConnection):
    """The order of calls: `read_welcome`, `say_hello`, then for each request any of the sending ones and `wait`; at its end `current` is None again.

    A caller of `wait`, `poll`, `send_data` or `consumed` has closed the gate for signal handlers.
    `idle`: blocked, or about to block, in the read for a next request.
    """

    __slots__ = ("current", "idle", "drain_asked", "ahead", "waiting", "rest_of_read")
    gate = gate

    def __init__(self, sock):
        self.current = None  # the request in work
        super().__init__(sock, 1, STREAM_CREDIT)
        self.idle = self.drain_asked = False
        self.ahead = 0  # how many REQUESTs may wait; set by `say_hello`
        self.waiting = []  # frames of REQUESTs that came while another was in work
        self.rest_of_read = None  # the bytes after the current REQUEST in the read that delivered it

    def say_hello(self, pairs):
        self.ahead = AHEAD
        super().say_hello([*pairs, ("ahead", str(AHEAD))])

    @property
    def streams(self):
        """What every connection has: here of one or none, so that none need be kept up for each request."""
        return {} if self.current is None else {self.current.number: self.current}

    def is_serving(self):
        return self.current is not None or bool(self.waiting)

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, data):
        """Sends whole frames."""
        if not gate.closed:
            self._send_from_outside(data)
            return
        try:
            self.sock.sendall(data)
        except OSError:
            self.lose()

    def _send_from_outside(self, data):
        """As `send`, for code of the application."""
        before = gate.close()
        try:
            self.send(data)
        finally:
            gate.restore(before)

    def say(self, frames):
        """Sends what a rule has given, which may be nothing."""
        if frames:
            self.send(frames)

    def send_data(self, response, body, end):
        """Sends `body` (a memoryview) as DATA, under credit; END on the last frame if `end`. False: nobody waits."""
        start, size = 0, len(body)
        while start < size:
            if gate.waiting:
                gate.pass_through()
            room = self.take_credit(response, min(size - start, _MOST_AT_ONCE))
            if room is None:
                self.wait(response)
                if response.gone:
                    return False
                continue
            pieces, stop = [], start + room
            while start < stop:
                part = body[start : min(stop, start + MAX_CHUNK)]
                start += len(part)
                pieces.append(HEAD.pack(len(part), wire.DATA, END if end and start == size else 0, response.number))
                pieces.append(part)
            self._send_pieces(pieces)
        return end or not response.gone

    def _send_pieces(self, pieces):
        try:
            sent = self.sock.sendmsg(pieces)
            if sent < sum(map(len, pieces)):  # a signal came in between
                self.sock.sendall(b"".join(pieces)[sent:])
        except OSError:
            self.lose()

    def consumed(self, response, size):
        """`size` bytes of DATA have left this process."""
        self.say(self.released(response, size, not response.body_ended))

    def ask_to_drain(self):
        """Asks Keepwarm for no more requests, once (§8). Safe in a signal handler: never inside another frame."""
        self.drain_asked = True
        if self.idle:
            self.settle_drain()

    def settle_drain(self):
        """Sends what `ask_to_drain` could not, because a request was in work."""
        if self.drain_asked:
            self.say(self.drain())

    # -- receiving ----------------------------------------------------------------------------------------------------

    def rest(self):
        gate.pass_through(self.wait_for_bytes)

    def next_frame(self):
        self._take_rest_of_read()
        return super().next_frame()

    def wait(self, response):
        """Waits for a frame and does what it says; for use within a request. At the wire's end it is `gone`."""
        try:
            self.say(self.handle(*self.next_frame()))
        except Lost:
            self.lose()
        except Fault as fault:
            self.fail(fault)

    def poll(self):
        """Does what has come, without waiting."""
        self._take_rest_of_read()
        try:
            data = self.recv(READ_SIZE, MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            if not self.buffer:
                return
            data = self.buffer[:0]
        except OSError:
            data = b""
        if not data and not self.buffer:
            self.lose()
            return
        self.buffer += data
        try:
            while True:
                frame = wire.take_frame(self.buffer)
                if frame is None:
                    return
                self.say(self.handle(*frame))
        except Fault as fault:
            self.fail(fault)

    def handle(self, kind, flags, number, payload):
        """As every connection's, and keeps REQUESTs that come within another."""
        if kind == REQUEST:
            if len(self.waiting) >= self.ahead or self.growth is not None:
                said = "a REQUEST during a request" if self.growth is None else "a second REQUEST while one is measured"
                raise Fault("stream_limit", said)
            self.waiting.append((kind, flags, number, payload))
            return b""
        if kind == wire.RESET and self.waiting and self._withdraw(number):
            wire.decode_reason(payload)
            return wire.reset(number, wire.CANCELLED, "")
        return super().handle(kind, flags, number, payload)

    def _take_rest_of_read(self):
        if self.rest_of_read is not None:
            self.buffer += self.rest_of_read
            self.rest_of_read = None

    def _withdraw(self, number):
        """Forgets a REQUEST that waits; whether there was one."""
        for position, frame in enumerate(self.waiting):
            if frame[2] == number:
                del self.waiting[position]
                return True
        return False

    def refuse_waiting(self):
        """Gives back the requests that wait here: this process takes no more (§5, REFUSED)."""
        self._take_rest_of_read()
        try:
            while True:
                frame = wire.take_frame(self.buffer)
                if frame is None:
                    break
                if frame[0] == REQUEST:
                    self.waiting.append(frame)
        except Fault:
            return  # it ends the connection for Keepwarm anyway
        for _, _, number, _ in self.waiting:
            self.send(wire.reset(number, wire.REFUSED, "the process exits"))
        self.waiting = []

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self):
        """Ends the wire."""
        self.sock.close()
        self.lose()

    def on_fork(self):
        """This is a child, to which the wire does not belong; it leaves when the application returns."""
        self.forked = True
        self.lose()


class Worker(Service):
    """Takes requests from the wire and serves each to its end.

    `serve_forever` returns the process's exit status, or raises the `SystemExit` of the application. One that a request raised is raised when
    Keepwarm says DRAIN: a replacement is asked for, and requests that are here already are completed, as by a worker with threads.
    """

    def __init__(self, connection, application, pairs, leaks):
        super().__init__(connection, application, pairs, leaks, multithread=False)
        profile.SerialProfile(connection)
        self.ending = None  # what an application's `sys.exit()` raised

    def serve_forever(self):
        """Serves requests until Keepwarm sends DRAIN or closes the connection."""
        status = self._serve_all()
        if self.ending is not None:
            raise self.ending
        return status

    def _serve_all(self):
        connection = self.connection
        try:
            while not (connection.lost or connection.leaving):
                connection.idle = True
                if gate.waiting:
                    gate.rest()
                if connection.drain_asked:
                    connection.settle_drain()
                if connection.waiting:
                    connection.idle = False
                    self._frame(*connection.waiting.pop(0))
                    continue
                if connection.buffer:
                    frame = connection.next_frame()
                    connection.idle = False
                    self._frame(*frame)
                    continue
                data = _at_hand(connection.recv)
                if data is None:
                    gate.rest(connection.wait_for_bytes)
                    continue
                connection.idle = False
                if not data:
                    return 0
                used = self._fast(data)
                if used < len(data):
                    connection.buffer += data[used:]
        except SystemExit:
            connection.refuse_waiting()
            raise
        except Lost:
            pass
        except Fault as fault:
            connection.fail(fault)
        return 1 if connection.faulty else 0

    def _fast(self, data):
        """Serves the whole REQUESTs at the front of a read, which nearly all reads are; gives how many bytes were used."""
        connection, size, start = self.connection, len(data), 0
        while size - start > 24:
            length, kind, flags, number, _, count, text_length = REQUEST_HEAD.unpack_from(data, start)
            end = start + 10 + length
            text_end = start + 24 + text_length
            if kind != REQUEST or end > size or length > MAX_PAYLOAD or not 0 <= end - text_end <= MAX_CHUNK:
                break
            if flags not in REQUEST_FLAGS or not number or count < FIXED_STRINGS + (flags & USER) // 32 or not count & 1:
                break  # the other way finds the words for it
            strings = data[start + 24 : text_end].decode("latin-1").split("\0")
            if len(strings) != count:
                break
            if end == size:
                self._request(flags, number, strings, data[text_end:end])
                return size
            connection.rest_of_read = data[end:]  # later reads within this request get it first
            self._request(flags, number, strings, data[text_end:end])
            if connection.rest_of_read is None or connection.lost:
                return size
            connection.rest_of_read = None
            start = end
        return start

    def _frame(self, kind, flags, number, payload):
        """Does what any frame says."""
        if kind == REQUEST:
            _, strings, body = wire.request_parts(payload, 0, len(payload), flags)
            self._request(flags, number, [one.decode("latin-1") for one in strings], body)
            return
        self.connection.say(self.connection.handle(kind, flags, number, payload))

    def _request(self, flags, number, strings, body):
        connection = self.connection
        response = Response(connection, number, flags, strings[0] == "HEAD")
        if number <= connection.last_stream:
            raise connection.untimely_request(number)
        connection.last_stream = number
        connection.current = response  # what `open` does for the others, without a call
        self.serve(flags, response, strings, body)
        connection.current = None
        if response.held:
            connection.say(connection.settle(response))
        if connection.sampler.pending:
            connection.send(connection.sampler.take())
        if self.leaks.noted:
            self.leaks.undo()
        if connection.growth is not None:
            connection.send(connection.growth.frame(number))

    def _leave(self, error):
        """A request ends the process, after those that have already arrived."""
        self.ending = self.ending or error
        self.connection.ask_to_drain()


def _at_hand(recv):
    """What can be read without waiting: None if there is nothing, empty at the wire's end.

    A function of its own because an exception costs as much as the code before it is long: CPython goes through that for the number of its line.
    """
    try:
        return recv(READ_SIZE, MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""
