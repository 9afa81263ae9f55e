"""The wire for a worker that serves one request at a time, on a blocking socket.

The order of calls: `read_welcome`, `say_hello`, then for each request `begin_stream`, any of the `send_…` and `wait`,
and `end_stream`. Whoever calls `wait`, `poll`, `send_data` or `consumed` has closed the gate for signal handlers. Nothing here raises because
Keepwarm has gone: `lost` says so, and what is sent then is dropped.
"""

from select import POLLIN, poll
from socket import MSG_DONTWAIT

from keepwarm import log, wire
from keepwarm.allowance import Allowance, added
from keepwarm.errors import Fault, Lost
from keepwarm.signals import gate
from keepwarm.wire import HEAD, MAX_CHUNK

RECEIVE_CREDIT = 262_144  # bytes of a body that may wait in this process; spec/wire.md §3 asks for 65,536 at least
RECV_SIZE = 65_536  # nearly every REQUEST in one call; below the size for which malloc maps and unmaps memory each time
AHEAD = 3  # REQUESTs that may wait here behind the one in work (spec/wire.md §3)


def waiting_for(sock):
    """A function that waits until something can be read.

    A `recv` that waits is woken by Linux a second time, for nothing: when the other end has read the last response and there is room to write again
    (`unix_write_space`). A `poll` for reading is not.
    """
    readable = poll()
    readable.register(sock, POLLIN)
    return readable.poll


class Connection:
    """One worker's end of the wire.

    `stream` is the request being answered, 0 between requests. `gone`: nobody waits for its response any more.
    `lost`: the wire itself has ended. `leaving`: Keepwarm said DRAIN.
    `idle`: blocked, or about to block, in the read for a next request.
    """

    __slots__ = (
        "sock", "recv", "wait_for_bytes", "buffer", "stream", "last_stream", "gone", "lost", "forked", "faulty", "leaving", "idle",
        "drain_asked", "drain_said", "body", "body_ended", "body_lost", "first_credit", "stream_credit", "connection_credit",
        "stream_allowance", "allowance", "ahead", "waiting", "rest",
    )  # fmt: skip

    def __init__(self, sock):
        self.sock = sock
        self.recv = sock.recv
        self.wait_for_bytes = waiting_for(sock)
        self.buffer = bytearray()  # the beginning of a frame whose end has not come
        self.stream = self.last_stream = 0
        self.gone = self.lost = self.forked = self.faulty = self.leaving = self.idle = False
        self.drain_asked = self.drain_said = False
        self.ahead = 0  # how many REQUESTs may wait; set by `say_hello`
        self.waiting = []  # frames of REQUESTs that came while another was in work
        self.rest = None  # what stands behind the REQUEST in work in the read that brought it
        self.body = []  # payloads of DATA that the application has not read
        self.body_ended = True
        self.body_lost = False
        self.first_credit = self.stream_credit = self.connection_credit = 0  # what this worker may send
        self.stream_allowance = None
        self.allowance = Allowance(RECEIVE_CREDIT)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def read_welcome(self):
        """Waits for WELCOME; gives its names. Raises `Fault` or `Lost`."""
        kind, _, _, payload = self.next_frame()
        if kind != wire.WELCOME:
            raise Fault("before_welcome", f"a frame of type 0x{kind:02x} before WELCOME")
        self.first_credit, self.connection_credit, about = wire.read_welcome(payload)
        return about

    def say_hello(self, streams, pairs):
        """Tells Keepwarm that the application is ready."""
        self.ahead = AHEAD
        self.send(wire.hello(streams, RECEIVE_CREDIT, RECEIVE_CREDIT, [*pairs, ("ahead", str(AHEAD))]))

    # -- requests -----------------------------------------------------------------------------------------------------

    def begin_stream(self, stream):
        """A REQUEST has come. Raises `Fault` when its id was used before (§4)."""
        if stream <= self.last_stream:
            raise Fault("stream_order", f"stream {stream} after stream {self.last_stream}")
        self.stream = self.last_stream = stream
        self.stream_credit = self.first_credit
        self.gone = False

    def expect_body(self):
        """The body of this request did not come whole."""
        self.body = []
        self.body_ended = self.body_lost = False
        self.stream_allowance = Allowance(RECEIVE_CREDIT)

    def end_stream(self):
        """The response is over. What comes for it from now on is read and forgotten."""
        self.stream = 0
        self.body_ended = True
        if self.body:
            self.body = []
        if self.allowance.left < RECEIVE_CREDIT:
            # Whatever Keepwarm sent has been read or is dropped here.
            self._pay_connection(RECEIVE_CREDIT - self.allowance.left - self.allowance.owed)

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, data):
        """Sends whole frames."""
        if not gate.closed:
            self._send_from_outside(data)
            return
        try:
            self.sock.sendall(data)
        except OSError:
            self.lost = self.gone = True

    def _send_from_outside(self, data):
        """As `send`, for code of the application."""
        before = gate.close()
        try:
            self.send(data)
        finally:
            gate.restore(before)

    def send_data(self, stream, body, end):
        """Sends `body` (a memoryview) as DATA, under credit; END on the last frame if `end`. False: nobody waits."""
        start, size = 0, len(body)
        while start < size:
            if gate.waiting:
                gate.pass_through()
            room = min(self.stream_credit, self.connection_credit)
            if not room:
                self.wait()
                if self.gone:
                    return False
                continue
            pieces, spent = [], 0
            while start < size and spent < room and len(pieces) < 64:
                part = body[start : start + min(room - spent, MAX_CHUNK)]
                start += len(part)
                spent += len(part)
                pieces.append(HEAD.pack(len(part), wire.DATA, wire.END if end and start == size else 0, stream))
                pieces.append(part)
            self.stream_credit -= spent
            self.connection_credit -= spent
            self._send_pieces(pieces)
        return not self.gone

    def ask_to_drain(self):
        """Asks Keepwarm for no more requests, once (§8). Safe in a signal handler: never inside another frame."""
        self.drain_asked = True
        if self.idle:
            self._say_drain()

    def settle_drain(self):
        """Sends what `ask_to_drain` could not, because a request was being answered."""
        if self.drain_asked:
            self._say_drain()

    def _say_drain(self):
        if not self.drain_said and not self.leaving:
            self.drain_said = True
            self.send(wire.frame(wire.DRAIN, 0, 0))

    def _send_pieces(self, pieces):
        try:
            sent = self.sock.sendmsg(pieces)
            if sent < sum(map(len, pieces)):  # a signal came in between
                self.sock.sendall(b"".join(pieces)[sent:])
        except OSError:
            self.lost = self.gone = True

    # -- receiving ----------------------------------------------------------------------------------------------------

    def next_frame(self):
        """Waits for a frame, whole. Raises `Lost` at the wire's end."""
        self._take_rest()
        while True:
            frame = wire.take_frame(self.buffer)
            if frame is not None:
                return frame
            try:
                data = self.recv(RECV_SIZE, MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                # Here, and only here, what the application has set up to end a wait may end it: no byte is lost by it.
                gate.pass_through(self.wait_for_bytes)
                continue
            except OSError:
                data = b""
            if not data:
                raise Lost
            self.buffer += data

    def wait(self):
        """Waits for a frame and does what it says; for use within a request. At the wire's end `gone` is set."""
        try:
            self.handle(*self.next_frame())
        except Lost:
            self._end_of_wire()
        except Fault as fault:
            self.fail(fault)

    def poll(self):
        """Does what has come, without waiting."""
        self._take_rest()
        try:
            data = self.recv(RECV_SIZE, MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            if not self.buffer:
                return
            data = self.buffer[:0]
        except OSError:
            data = b""
        if not data and not self.buffer:
            self._end_of_wire()
            return
        self.buffer += data
        try:
            while True:
                frame = wire.take_frame(self.buffer)
                if frame is None:
                    return
                self.handle(*frame)
        except Fault as fault:
            self.fail(fault)

    def handle(self, kind, flags, stream, payload):
        """Does what a frame says; every type but REQUEST, which belongs between requests."""
        if kind == wire.DATA:
            self._data(flags, stream, payload)
        elif kind == wire.CREDIT:
            self._credit(stream, wire.decode_credit(payload))
        elif kind == wire.PING:
            self.send(wire.frame(wire.PONG, 0, 0, payload))
        elif kind == wire.RESET:
            wire.decode_reason(payload)
            if self._withdraw(stream):
                self.send(wire.reset(stream, wire.CANCELLED, ""))
            elif self._is_current(stream):
                self.gone = self.body_lost = self.body_ended = True
        elif kind == wire.TRAILERS:
            wire.decode_trailers(payload)  # WSGI has no place for them
            if self._is_current(stream):
                self._body_goes_on()
                self.body_ended = True
        elif kind == wire.DRAIN:
            self.leaving = True
        elif kind == wire.HALF_CLOSE:
            self._is_current(stream)  # a fault, if it was never opened; WSGI has no word for it
        elif kind in (wire.TEXT, wire.BINARY, wire.CLOSE):
            if self._is_current(stream):
                raise Fault("not_websocket", "a message on a stream that is no WebSocket")
        elif kind == wire.WELCOME:
            raise Fault("second_welcome", "a second WELCOME")
        elif kind == wire.REQUEST and len(self.waiting) < self.ahead:
            self.waiting.append((kind, flags, stream, payload))
        else:
            raise Fault("stream_limit", "a REQUEST within a request")

    def _take_rest(self):
        if self.rest is not None:
            self.buffer += self.rest
            self.rest = None

    def _withdraw(self, stream):
        """Forgets a REQUEST that waits; whether there was one."""
        for position, frame in enumerate(self.waiting):
            if frame[2] == stream:
                del self.waiting[position]
                return True
        return False

    def refuse_waiting(self):
        """Gives back the requests that wait here: this process takes no more (§5, REFUSED)."""
        self._take_rest()
        try:
            while True:
                frame = wire.take_frame(self.buffer)
                if frame is None:
                    break
                if frame[0] == wire.REQUEST:
                    self.waiting.append(frame)
        except Fault:
            return  # it ends the connection for Keepwarm anyway
        for _, _, stream, _ in self.waiting:
            self.send(wire.reset(stream, wire.REFUSED, "the process ends"))
        self.waiting = []

    def _data(self, flags, stream, payload):
        self.allowance.spend(len(payload))
        if self._is_current(stream):
            self._body_goes_on()
            self.stream_allowance.spend(len(payload))
            self.body.append(payload)
            self.body_ended = flags & wire.END != 0
        else:
            self._pay_connection(len(payload))

    def _is_current(self, stream):
        """Whether a frame is for the request in work. One for a stream that is over is ignored (§5)."""
        if stream > self.last_stream:
            raise Fault("unknown_stream", f"a frame for stream {stream}, which was never opened")
        return stream == self.stream

    def _body_goes_on(self):
        if self.body_ended:
            raise Fault("body_over", "more of a body that had ended")

    def fail(self, fault):
        """Ends the connection (§2). Keepwarm replaces this worker."""
        log.error(f"fault on the wire: {fault}")
        self.faulty = True
        self.sock.close()
        self._end_of_wire()

    def on_fork(self):
        """This is a child, to which the wire does not belong; it leaves when the application returns."""
        self.forked = True
        self._end_of_wire()

    def _end_of_wire(self):
        self.lost = self.gone = self.body_lost = self.body_ended = True

    # -- credit -------------------------------------------------------------------------------------------------------

    def _credit(self, stream, amount):
        if stream == 0:
            self.connection_credit = added(self.connection_credit, amount)
        elif self._is_current(stream):
            self.stream_credit = added(self.stream_credit, amount)

    def consumed(self, size):
        """`size` bytes of DATA have left this process: gives their credit back, in steps."""
        back = self.stream_allowance.pay(size)
        if back and not self.body_ended:
            self.send(wire.credit(self.stream, back))
        self._pay_connection(size)

    def _pay_connection(self, size):
        back = self.allowance.pay(size)
        if back:
            self.send(wire.credit(0, back))
