"""The strategy of a WSGI worker that serves several requests at once, each in a separate thread.

The main thread reads the wire and nothing else, so that PINGs are answered and disconnects noticed whatever the application does.

One lock, `changed`, guards all that the threads share; another, `writing`, keeps frames whole. A thread that holds one never takes the other.
"""

import signal
import threading
from queue import SimpleQueue

from keepwarm import log, process, profile, stacks, wire
from keepwarm.blocking import BlockingConnection
from keepwarm.errors import Fault, Lost, exit_status
from keepwarm.signals import elsewhere, gate
from keepwarm.wire import END, HEAD, MAX_CHUNK, REQUEST
from keepwarm.wsgi import Service
from keepwarm.wsgi_response import Response

_CONNECTION_CREDIT = 2_097_152  # bytes of all bodies that may wait in this process
_LOST_GRACE = 5.0  # seconds that requests have to finish once Keepwarm, which would otherwise end them, has gone


class Threaded(BlockingConnection):
    """`streams` are those that no thread has done with."""

    gate = elsewhere

    def __init__(self, sock, threads):
        super().__init__(sock, threads, _CONNECTION_CREDIT)
        self.changed = threading.Condition(threading.Lock())
        self.writing = threading.Lock()
        self.streams = {}
        self.requests = SimpleQueue()  # for the threads
        self.running = 0  # requests that a thread is at

    def say_hello(self, pairs):
        super().say_hello(pairs)
        self.most = 2 * self.limit  # those whose response has left, and which their thread has not let go of yet, are among them

    # -- the main thread ----------------------------------------------------------------------------------------------

    def read_forever(self):
        """Gives requests to the threads until Keepwarm says DRAIN and all requests are complete, or the wire ends."""
        try:
            while not self._is_done():
                self._frame(*self.next_frame())
        except Lost:
            pass
        except Fault as fault:
            self.fail(fault)
        with self.changed:
            self.lose()
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.streams, _LOST_GRACE)

    def _is_done(self):
        with self.changed:
            return self.leaving and not self.streams

    def rest(self):
        gate.rest(self.wait_for_bytes)

    def _frame(self, kind, flags, number, payload):
        if kind == REQUEST:
            self._request(flags, number, payload)
            return
        with self.changed:
            said = self.handle(kind, flags, number, payload)
            self.changed.notify_all()
        self._say(said)

    def _request(self, flags, number, payload):
        _, strings, body = wire.request_parts(payload, 0, len(payload), flags)
        response = Response(self, number, flags, strings[0] == b"HEAD")
        with self.changed:
            self.open(response)
        self.requests.put((flags, response, [one.decode("latin-1") for one in strings], body))

    def close(self):
        """Ends the wire. The reader tells the threads."""
        self.sock.close()

    def is_serving(self):
        """Nobody can say: the thread of a response that has left may not have noted it yet."""
        return False

    # -- any thread ---------------------------------------------------------------------------------------------------

    def send(self, data):
        """Sends whole frames."""
        if not self.forked:
            try:
                with self.writing:
                    self.sock.sendall(data)
            except OSError:
                self.lost = True

    def _say(self, frames):
        if frames:
            self.send(frames)

    def ask_to_drain(self):
        """Asks Keepwarm for no more requests, once (§8). For a signal handler, too, which may stand inside another frame: a thread says it."""
        said = self.drain()
        if said:
            process.start_thread(self.send, (said,))

    def end(self, response):
        """A thread has done with a request."""
        with self.changed:
            said = self.forget(response)
            last = self.leaving and not self.streams
            if self.lost:
                self.changed.notify_all()
        self._say(said)
        if self.sampler.pending:
            self.send(self.sampler.take())
        if last:
            self._wake_reader()

    def measure(self, number):
        """What a request has left behind, in the thread that has served it."""
        with self.changed:
            growth = self.growth
            said = growth.frame(number) if growth is not None and number > growth.since else b""
        self._say(said)

    def consumed(self, response, size):
        """`size` bytes of DATA have left this process."""
        with self.changed:
            said = self.released(response, size, not response.body_ended)
        self._say(said)

    def send_data(self, response, body, end):
        """Sends `body` (a memoryview) as DATA, under credit; END on the last frame if `end`. False: nobody waits."""
        start, size = 0, len(body)
        while start < size:
            with self.changed:
                self.changed.wait_for(lambda: response.gone or (response.credit and self.credit))
                if response.gone:
                    return False
                room = self.take_credit(response, min(size - start, MAX_CHUNK))
            part = body[start : start + room]
            start += room
            self.send(HEAD.pack(room, wire.DATA, END if end and start == size else 0, response.number) + bytes(part))
        return end or not response.gone  # nothing may follow END, not even the news of a disconnect that the main thread has just read

    def wait(self, response):
        """Waits for more of a body, or its end."""
        with self.changed:
            self.changed.wait_for(lambda: response.parts or response.body_ended)

    def poll(self):
        """Nothing to do: the main thread reads."""

    def _wake_reader(self):
        """Nothing more is read from the wire, and everything has been sent."""
        try:
            self.sock.shutdown(0)  # SHUT_RD
        except OSError:
            pass

    # -- a forked child -----------------------------------------------------------------------------------------------

    def on_fork(self):
        """Runs in a child process, in which only the forking thread continues. Locks held by other threads would never be released."""
        self.forked = True
        self.changed = threading.Condition(threading.Lock())
        self.writing = threading.Lock()
        self.lose()


class Pool:
    """The threads of a worker; used as `serial.Worker` is."""

    def __init__(self, connection, application, pairs, leaks):
        self.connection = connection
        self.workers = [Thread(connection, application, pairs, leaks) for _ in range(connection.limit)]

    def serve_forever(self):
        """Serves requests until Keepwarm sends DRAIN or closes the connection; returns the exit status."""
        connection = self.connection
        process.on_signals({signal.SIGTERM: connection.ask_to_drain, signal.SIGQUIT: self.show, signal.SIGURG: self.note_sample})
        signal.siginterrupt(signal.SIGURG, False)
        for number, worker in enumerate(self.workers, 1):
            thread = threading.Thread(target=worker.run, name=f"keepwarm-{number}", daemon=True)
            thread.start()
            worker.ident = thread.ident  # it may be long until the thread itself runs
        connection.read_forever()
        return 1 if connection.faulty else connection.exit_status

    def show(self):
        """Writes where each thread stands, and at which request."""
        doing = self._doing()
        stacks.write_threads({ident: f"{strings[0]} {strings[4]}" for ident, (_, strings) in doing.items()})

    def note_sample(self):
        """Notes where each thread is, for a profile."""
        sampler = self.connection.sampler
        requests = {ident: (response.number, response.over) for ident, (response, _) in self._doing().items()}
        idle = {worker.ident for worker in self.workers} - requests.keys()
        profile.note_threads(sampler, sampler.begin_sample(), requests, idle)
        if sampler.is_due():
            self.connection.send(sampler.take())

    def _doing(self):
        """By thread: the response that it works on, and the strings of its request."""
        doing = ((worker.ident, worker.doing) for worker in self.workers)
        return {ident: what for ident, what in doing if what is not None}


class Thread(Service):
    """Serves one request after the other in a thread. `doing`: the response and the request's strings, or None."""

    def __init__(self, connection, application, pairs, leaks):
        super().__init__(connection, application, pairs, leaks, multithread=True)
        self.ident = 0
        self.doing = None

    def run(self):
        """The thread."""
        connection = self.connection
        while True:
            flags, response, strings, body = connection.requests.get()
            if response.gone:
                connection.send(wire.reset(response.number, wire.CANCELLED, ""))
            else:
                self._begin()
                self.doing = response, strings
                self._one(flags, response, strings, body)
                if connection.forked:
                    connection.leave_child(0)
                self._end()
                self.doing = None
            connection.end(response)
            if connection.growth is not None:
                number = response.number
                flags = response = strings = body = None  # what this thread holds until its next request is not what that has left
                connection.measure(number)

    def _one(self, flags, response, strings, body):
        connection = self.connection
        try:
            self.serve(flags, response, strings, body)
        except BaseException as error:  # of a child, or one that ends the process; anything else the application raises gets a response
            status = exit_status(error)
            if not isinstance(error, (SystemExit, KeyboardInterrupt)):
                log.exception(error)
            if connection.forked:
                connection.leave_child(status)
            connection.exit_status = status
            connection.ask_to_drain()

    def _begin(self):
        with self.connection.changed:
            self.connection.running += 1

    def _end(self):
        """Resets what requests changed in the process when no request is running that might use it."""
        connection = self.connection
        with connection.changed:
            connection.running -= 1
            if not connection.running and self.leaks.noted:
                self.leaks.undo()

    def _leave(self, error):
        """`_one` does what there is to do."""
        raise error
