"""A WSGI worker that serves several requests at once, each in a thread of its own.

The main thread reads the wire and nothing else, so that a PING is answered and a lost client is heard of whatever the application does. Each
request is a `Stream`, which looks to the rest of the adapter as the connection of a worker that serves one at a time.

One lock, `changed`, guards all that the threads share; another, `writing`, keeps frames whole. A thread that holds one never takes the other.
"""

import os
import signal
import sys
import threading
import _thread
from queue import SimpleQueue
from socket import MSG_DONTWAIT

from keepwarm import log, process, stacks, wire
from keepwarm.allowance import Allowance, added
from keepwarm.blocking import RECEIVE_CREDIT, RECV_SIZE, waiting_for
from keepwarm.errors import Fault, Lost
from keepwarm.signals import gate
from keepwarm.wire import HEAD, MAX_CHUNK
from keepwarm.wsgi import Worker

_CONNECTION_CREDIT = 2_097_152  # bytes of all bodies that may wait in this process
_LOST_GRACE = 5.0  # seconds that requests have to end by themselves once Keepwarm, who would end them, has gone


class Connection:
    """The worker's end of the wire.

    `streams` are those that no thread has done with. `leaving`: Keepwarm said DRAIN. `lost`: the wire has ended.
    """

    def __init__(self, sock, threads):
        self.sock = sock
        self.wait_for_bytes = waiting_for(sock)
        self.threads = threads
        self.changed = threading.Condition(threading.Lock())
        self.writing = threading.Lock()
        self.requests = SimpleQueue()  # for the threads
        self.streams = {}
        self.running = 0  # requests that a thread is at
        self.last_stream = 0
        self.first_credit = self.credit = 0  # what this worker may send
        self.allowance = Allowance(_CONNECTION_CREDIT)
        self.leaving = self.lost = self.faulty = self.forked = self.drain_said = False
        self.exit_status = 0
        self.buffer = bytearray()

    # -- handshake ----------------------------------------------------------------------------------------------------

    def read_welcome(self):
        """Waits for WELCOME; gives its names. Raises `Fault` or `Lost`."""
        kind, _, _, payload = self._next_frame()
        if kind != wire.WELCOME:
            raise Fault("before_welcome", f"a frame of type 0x{kind:02x} before WELCOME")
        self.first_credit, self.credit, about = wire.read_welcome(payload)
        return about

    def say_hello(self, streams, pairs):
        """Tells Keepwarm that the application is ready."""
        self.send(wire.hello(streams, RECEIVE_CREDIT, _CONNECTION_CREDIT, pairs))

    # -- the main thread ----------------------------------------------------------------------------------------------

    def read_forever(self):
        """Gives requests to the threads until Keepwarm says DRAIN and all requests are complete, or the wire ends."""
        try:
            while not self._is_done():
                self._handle(*self._next_frame())
        except Lost:
            pass
        except Fault as fault:
            self.fail(fault)
        with self.changed:
            self.lost = True
            for stream in self.streams.values():
                stream.lose()
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.streams, _LOST_GRACE)

    def _is_done(self):
        with self.changed:
            return self.leaving and not self.streams

    def _next_frame(self):
        while True:
            frame = wire.take_frame(self.buffer)
            if frame is not None:
                return frame
            try:
                data = self.sock.recv(RECV_SIZE, MSG_DONTWAIT)
            except BlockingIOError:
                gate.rest(self.wait_for_bytes)
                continue
            except OSError:
                data = b""
            if not data:
                raise Lost
            self.buffer += data

    def _handle(self, kind, flags, number, payload):
        if kind == wire.REQUEST:
            self._request(flags, number, payload)
        elif kind == wire.PING:
            self.send(wire.frame(wire.PONG, 0, 0, payload))
        elif kind == wire.DRAIN:
            self.leaving = True
        elif kind == wire.WELCOME:
            raise Fault("second_welcome", "a second WELCOME")
        elif number > self.last_stream:
            raise Fault("unknown_stream", f"a frame for stream {number}, which was never opened")
        else:
            back = 0
            with self.changed:
                stream = self.streams.get(number)
                if kind == wire.DATA:
                    self.allowance.spend(len(payload))
                    if stream is None:
                        back = self.allowance.pay(len(payload))
                    else:
                        stream.held += len(payload)
                if kind == wire.CREDIT and not number:
                    self.credit = added(self.credit, wire.decode_credit(payload))
                elif stream is not None:
                    stream.handle(kind, flags, payload)
                self.changed.notify_all()
            self._give_back(0, back)

    def _request(self, flags, number, payload):
        if number <= self.last_stream:
            raise Fault("stream_order", f"stream {number} after stream {self.last_stream}")
        if self.leaving:
            raise Fault("after_drain", "a REQUEST after DRAIN")
        _, strings, body = wire.request_parts(payload, 0, len(payload))
        stream = Stream(self, number)
        with self.changed:
            # Those whose response has left, and which their thread has not let go of yet, are among them.
            if len(self.streams) >= 2 * self.threads:
                raise Fault("stream_limit", f"more than {self.threads} streams")
            self.last_stream = number
            self.streams[number] = stream
        if not flags & wire.END:
            stream.expect_body()
        self.requests.put((stream, flags, [one.decode("latin-1") for one in strings], body))

    # -- any thread ---------------------------------------------------------------------------------------------------

    def send(self, data):
        """Sends whole frames."""
        if not self.forked:
            try:
                with self.writing:
                    self.sock.sendall(data)
            except OSError:
                self.lost = True

    def ask_to_drain(self):
        """Asks Keepwarm for no more requests, once. For a signal handler, too, which may stand inside another frame: a thread says it."""
        if not self.drain_said and not self.leaving:
            self.drain_said = True
            _thread.start_new_thread(self.send, (wire.frame(wire.DRAIN, 0, 0),))

    def fail(self, fault):
        """Ends the connection (§2). Keepwarm replaces this worker."""
        log.error(f"fault on the wire: {fault}")
        self.faulty = True
        self.sock.close()

    def forget(self, stream):
        """A thread has done with a stream: the connection gets back what it has not been given for it, read or not (§6)."""
        with self.changed:
            self.streams.pop(stream.stream, None)
            held, stream.held = stream.held, 0
            back = self.allowance.pay(held)
            last = self.leaving and not self.streams
            if self.lost:
                self.changed.notify_all()
        self._give_back(0, back)
        if last:
            self._wake_reader()

    def consumed(self, stream, size):
        """`size` bytes of DATA have left this process."""
        with self.changed:
            if not stream.held:  # read by a thread of the application's behind the end
                return
            stream.held -= size
            ours = self.allowance.pay(size)
            its = stream.allowance.pay(size)
        self._give_back(0, ours)
        if not stream.body_ended:
            self._give_back(stream.stream, its)

    def _give_back(self, number, amount):
        if amount:
            self.send(wire.credit(number, amount))

    def _wake_reader(self):
        """Nothing more is wanted from the wire; what is to be said has been said."""
        try:
            self.sock.shutdown(0)  # SHUT_RD
        except OSError:
            pass

    # -- a forked child -----------------------------------------------------------------------------------------------

    def on_fork(self):
        """This is a child, in which only the thread that forked goes on. Locks that another held would never be free."""
        self.forked = self.lost = True
        self.changed = threading.Condition(threading.Lock())
        self.writing = threading.Lock()
        for stream in self.streams.values():
            stream.lose()

    def leave_child(self, status):
        """Ends a child that came back from the application."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Stream:
    """A request: what `wsgi`, `wsgi_response` and `wsgi_input` know as the connection.

    `gone`: nobody waits for its response any more.
    """

    __slots__ = ("connection", "stream", "gone", "body", "body_ended", "body_lost", "news", "stream_credit", "allowance", "held")

    def __init__(self, connection, number):
        self.connection = connection
        self.stream = number
        self.gone = self.body_lost = self.news = False
        self.body = []
        self.body_ended = True
        self.stream_credit = connection.first_credit
        self.allowance = Allowance(RECEIVE_CREDIT)
        self.held = 0  # what the connection is to get back for DATA of this stream

    @property
    def forked(self):
        """Whether this is a child that the application has forked."""
        return self.connection.forked

    # -- for the reader, under the lock -------------------------------------------------------------------------------

    def handle(self, kind, flags, payload):
        """A frame for this stream."""
        self.news = True
        if kind == wire.DATA:
            self._body_goes_on()
            self.allowance.spend(len(payload))
            self.body.append(payload)
            self.body_ended = flags & wire.END != 0
        elif kind == wire.CREDIT:
            self.stream_credit = added(self.stream_credit, wire.decode_credit(payload))
        elif kind == wire.RESET:
            wire.decode_reason(payload)
            self.lose()
        elif kind == wire.TRAILERS:
            wire.decode_trailers(payload)  # WSGI has no place for them
            self._body_goes_on()
            self.body_ended = True
        elif kind == wire.HALF_CLOSE:
            pass  # WSGI has no word for it
        else:
            raise Fault("not_websocket", "a message on a stream that is no WebSocket")

    def lose(self):
        """Nobody waits any more."""
        self.news = self.gone = self.body_lost = self.body_ended = True

    def expect_body(self):
        """The body does not come whole."""
        self.body_ended = False

    def _body_goes_on(self):
        if self.body_ended:
            raise Fault("body_over", "more of a body that had ended")

    # -- for the thread -----------------------------------------------------------------------------------------------

    def send(self, data):
        """Sends whole frames."""
        self.connection.send(data)

    def send_data(self, stream, body, end):
        """Sends `body` (a memoryview) as DATA, under credit; END on the last frame if `end`. False: nobody waits."""
        start, size = 0, len(body)
        while start < size:
            room = self._take_credit(min(size - start, MAX_CHUNK))
            if not room:
                return False
            part = body[start : start + room]
            start += room
            self.send(HEAD.pack(room, wire.DATA, wire.END if end and start == size else 0, stream) + bytes(part))
        return end or not self.gone  # behind END nothing may follow: not even that nobody waits, which the main thread has just heard

    def _take_credit(self, wanted):
        """Waits until something may be sent, and takes it; 0 when nobody waits for it."""
        connection = self.connection
        with connection.changed:
            connection.changed.wait_for(lambda: self.gone or (self.stream_credit and connection.credit))
            if self.gone:
                return 0
            room = min(wanted, self.stream_credit, connection.credit)
            self.stream_credit -= room
            connection.credit -= room
            return room

    def wait(self):
        """Waits for something new about this request."""
        with self.connection.changed:
            self.connection.changed.wait_for(lambda: self.news)
            self.news = False

    def poll(self):
        """Nothing to do: the main thread reads."""

    def consumed(self, size):
        """`size` bytes of the body have left this process: gives their credit back, in steps."""
        self.connection.consumed(self, size)

    def ask_to_drain(self):
        """Asks for a replacement of this process."""
        self.connection.ask_to_drain()


class Pool:
    """The threads of a worker; used as `wsgi.Worker` is."""

    def __init__(self, connection, application, pairs, leaks):
        self.connection = connection
        self.workers = [Thread(connection, application, pairs, leaks) for _ in range(connection.threads)]

    def serve_forever(self):
        """Takes requests until Keepwarm says DRAIN or goes away; gives the exit status."""
        connection = self.connection
        process.on_signals({signal.SIGTERM: connection.ask_to_drain, signal.SIGQUIT: self.show})
        for number, worker in enumerate(self.workers, 1):
            threading.Thread(target=worker.run, name=f"keepwarm-{number}", daemon=True).start()
        connection.read_forever()
        return 1 if connection.faulty else connection.exit_status

    def show(self):
        """Writes where each thread stands, and at which request."""
        doing = {worker.ident: worker.doing for worker in self.workers}
        stacks.write_threads({ident: what for ident, what in doing.items() if what is not None})


class Thread(Worker):
    """Serves one request after the other in a thread. `doing`: which, or None."""

    def __init__(self, connection, application, pairs, leaks):
        super().__init__(None, application, pairs, leaks, multithread=True)
        self.shared = connection
        self.ident = 0
        self.doing = None

    def run(self):
        """The thread."""
        shared = self.shared
        self.ident = threading.get_ident()
        while True:
            stream, flags, strings, body = shared.requests.get()
            if stream.gone:
                stream.send(wire.reset(stream.stream, wire.CANCELLED, ""))
            else:
                self._begin()
                self.doing = f"{strings[0]} {strings[4]}"
                self._one(stream, flags, strings, body)
                if shared.forked:
                    shared.leave_child(0)
                self._end()
                self.doing = None
            shared.forget(stream)

    def _one(self, stream, flags, strings, body):
        self.connection = stream
        try:
            self._serve(flags, stream.stream, strings, body)
        except BaseException as error:  # of a child, or one that ends the process; anything else the application raises gets a response
            status = exit_status(error)
            if not isinstance(error, (SystemExit, KeyboardInterrupt)):
                log.exception(error)
            if self.shared.forked:
                self.shared.leave_child(status)
            self.shared.exit_status = status
            self.shared.ask_to_drain()

    def _begin(self):
        with self.shared.changed:
            self.shared.running += 1

    def _end(self):
        """What requests changed in the process is put back when none is in work that might be using it."""
        shared = self.shared
        with shared.changed:
            shared.running -= 1
            if not shared.running and self.leaks.noted:
                self.leaks.undo()

    def _open(self, stream, whole):
        """The stream is open since it was read."""

    def _close(self):
        """It is let go of in `run`."""

    def _leave(self, error):
        """`_one` does what there is to do."""
        raise error


def exit_status(error):
    """The status with which Python leaves after a SystemExit or a KeyboardInterrupt."""
    code = getattr(error, "code", 1)
    return 0 if code is None else code if isinstance(code, int) else 1
