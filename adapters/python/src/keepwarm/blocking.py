"""The wire for a worker that serves one request at a time, on a blocking socket.

The order of calls: `read_welcome`, `say_hello`, then for each request `begin_stream`, any of the `send_…` and `wait`,
and `end_stream`. Nothing here raises because Keepwarm has gone: `lost` says so, and what is sent then is dropped.
"""

from socket import MSG_DONTWAIT

from keepwarm import log, wire
from keepwarm.errors import Fault, Lost
from keepwarm.wire import HEAD, MAX_CHUNK

RECEIVE_CREDIT = 262_144  # bytes of a body that may wait in this process; spec/wire.md §3 asks for 65,536 at least
_STEP = RECEIVE_CREDIT // 4  # §6: credit goes back in steps of a quarter
RECV_SIZE = 131_072 + 4_096  # one REQUEST with the longest head and first part of a body, in one call


class Connection:
    """One worker's end of the wire.

    `stream` is the request being answered, 0 between requests. `gone`: nobody waits for its answer any more.
    `lost`: the wire itself has ended. `draining`: Keepwarm will send no further request.
    `idle`: blocked, or about to block, in the read for a next request.
    """

    __slots__ = (
        "sock", "recv", "buffer", "stream", "last_stream", "gone", "lost", "faulty", "draining", "idle",
        "drain_asked", "body", "body_ended", "body_lost", "first_credit", "stream_credit", "connection_credit",
        "owed_stream", "owed_connection",
    )  # fmt: skip

    def __init__(self, sock):
        self.sock = sock
        self.recv = sock.recv
        self.buffer = bytearray()  # the beginning of a frame whose end has not come
        self.stream = self.last_stream = 0
        self.gone = self.lost = self.faulty = self.draining = self.idle = self.drain_asked = False
        self.body = []  # payloads of DATA that the application has not read
        self.body_ended = self.body_lost = False
        self.first_credit = self.stream_credit = self.connection_credit = 0
        self.owed_stream = self.owed_connection = 0

    # -- handshake ----------------------------------------------------------------------------------------------------

    def read_welcome(self):
        """Waits for WELCOME; gives its names. Raises `Fault` or `Lost`."""
        kind, _, _, payload = self.next_frame()
        if kind != wire.WELCOME:
            raise Fault(f"a frame of type 0x{kind:02x} before WELCOME")
        least, most, self.first_credit, self.connection_credit, pairs = wire.decode_welcome(payload)
        if not least <= wire.VERSION <= most:
            raise Fault(f"Keepwarm speaks versions {least} to {most} of the wire, this adapter {wire.VERSION}")
        return pairs

    def say_hello(self, streams, pairs):
        """Tells Keepwarm that the application is ready."""
        self.send(wire.hello(streams, RECEIVE_CREDIT, RECEIVE_CREDIT, pairs))

    # -- requests -----------------------------------------------------------------------------------------------------

    def begin_stream(self, stream):
        """A REQUEST has come. Raises `Fault` when its id was used before (§4)."""
        if stream <= self.last_stream:
            raise Fault(f"stream {stream} after stream {self.last_stream}")
        self.stream = self.last_stream = stream
        self.stream_credit = self.first_credit
        self.gone = False

    def expect_body(self, first):
        """The body of this request did not come whole; `first` is its beginning."""
        self.body = [first] if first else []
        self.body_ended = self.body_lost = False
        self.owed_stream = -len(first)  # a body's part in REQUEST is not under credit (§6)
        self.owed_connection -= len(first)

    def end_stream(self):
        """The answer is over. What comes for it from now on is read and forgotten."""
        unread = sum(map(len, self.body))
        if unread:
            self.body = []
            self._owe_connection(unread)
        self.stream = 0

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, data):
        """Sends whole frames."""
        try:
            self.sock.sendall(data)
        except OSError:
            self.lost = self.gone = True

    def send_data(self, body, end):
        """Sends `body` (a memoryview) as DATA, under credit; END on the last frame if `end`. False: nobody waits."""
        stream, start, size = self.stream, 0, len(body)
        while start < size:
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
        if not self.draining:
            self.draining = True
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
        while True:
            frame = wire.take_frame(self.buffer)
            if frame is not None:
                return frame
            try:
                data = self.recv(RECV_SIZE)
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
        try:
            data = self.recv(RECV_SIZE, MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
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
        """Does what a frame says; every type but REQUEST and DRAIN, which the worker's loop does."""
        if kind == wire.DATA:
            wire.check_chunk(payload)
            if stream == self.stream and not self.body_ended:
                self.body.append(payload)
                self.body_ended = flags & wire.END != 0
            else:
                self._owe_connection(len(payload))
        elif kind == wire.CREDIT:
            self._credit(stream, wire.decode_credit(payload))
        elif kind == wire.PING:
            self.send(wire.frame(wire.PONG, 0, 0, wire.decode_ping(payload)))
        elif kind == wire.RESET:
            wire.decode_reset(payload)
            if stream == self.stream:
                self.gone = self.body_lost = self.body_ended = True
        elif kind == wire.TRAILERS:
            wire.decode_trailers(payload)  # WSGI has no place for them
            if stream == self.stream:
                self.body_ended = True
        else:
            raise Fault(f"a frame of type 0x{kind:02x} that does not belong here")

    def fail(self, fault):
        """Ends the connection (§2). Keepwarm replaces this worker."""
        log.write(f"fault on the wire: {fault}")
        self.faulty = True
        self.sock.close()
        self._end_of_wire()

    def _end_of_wire(self):
        self.lost = self.gone = self.body_lost = self.body_ended = True

    # -- credit -------------------------------------------------------------------------------------------------------

    def _credit(self, stream, amount):
        if stream == 0:
            self.connection_credit += amount
        elif stream == self.stream:
            self.stream_credit += amount
        if self.connection_credit > wire.MAX_CREDIT or self.stream_credit > wire.MAX_CREDIT:
            raise Fault("a credit above 2^31-1")

    def consumed(self, size):
        """`size` bytes of the body have left this process: gives their credit back, in steps."""
        self.owed_stream += size
        self.owed_connection += size
        frames = b""
        if self.owed_stream >= _STEP and not self.body_ended:
            frames = wire.credit(self.stream, self.owed_stream)
            self.owed_stream = 0
        if self.owed_connection >= _STEP:
            frames += wire.credit(0, self.owed_connection)
            self.owed_connection = 0
        if frames:
            self.send(frames)

    def _owe_connection(self, size):
        self.owed_connection += size
        if self.owed_connection >= _STEP:
            self.send(wire.credit(0, self.owed_connection))
            self.owed_connection = 0
