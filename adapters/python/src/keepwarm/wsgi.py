"""The loop of a WSGI worker: a read, the application, a write."""

from contextvars import copy_context
from socket import MSG_DONTWAIT
from time import monotonic

from keepwarm import __version__, environ as environment, log, wire, wsgi_input
from keepwarm.blocking import RECV_SIZE, Connection
from keepwarm.errors import ClientDisconnected, Fault, Lost
from keepwarm.signals import elsewhere, gate
from keepwarm.wire import EARLY_HINTS, END, EXPECT, MAX_CHUNK, MAX_PAYLOAD, REQUEST, REQUEST_HEAD
from keepwarm.wsgi_response import Response


_BUSY = wire.frame(wire.BUSY, 0, 0)
_FREE = wire.frame(wire.BUSY, END, 0)
_QUICK = 0.001  # seconds: a `close` that takes no longer keeps nobody waiting
_TRUSTED = 16  # so many quick ones in a row, and the next is taken for quick


class Worker:
    """Serves one application over one connection, a request at a time.

    `serve_forever` returns the process's exit status, or raises the `SystemExit` of the application. One that a request raised is raised when
    Keepwarm says DRAIN: a replacement is asked for, and requests that are here already are completed, as by a worker with threads.
    """

    def __init__(self, connection: Connection, application, pairs, leaks, multithread=False):
        self.leaks = leaks
        self.connection = connection
        self.application = application
        self.response = None  # to the request in work
        self.base = environment.base(
            software=pairs.get("software", f"keepwarm/{__version__}"),
            multithread=multithread,
            multiprocess=pairs.get("workers", "1") != "1",
        )
        self.base["keepwarm.early_hints"] = lambda headers: None
        self.base["keepwarm.send_continue"] = lambda: None
        self.alone = not multithread
        self.gate = elsewhere if multithread else gate
        self.quick_closes = 0  # in a row
        self.body = None  # its body, when that did not come whole
        self.ending = None  # what an application's `sys.exit()` raised

    # -- the loop -----------------------------------------------------------------------------------------------------

    def serve_forever(self):
        """Takes requests until Keepwarm says DRAIN or goes away."""
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
                try:
                    data = connection.recv(RECV_SIZE, MSG_DONTWAIT)
                except BlockingIOError:
                    gate.rest(connection.wait_for_bytes)
                    continue
                except OSError:
                    return 0
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
            length, kind, flags, stream, _, count, text_length = REQUEST_HEAD.unpack_from(data, start)
            end = start + 10 + length
            text_end = start + 24 + text_length
            if kind != REQUEST or end > size or length > MAX_PAYLOAD or not 0 <= end - text_end <= MAX_CHUNK:
                break
            if flags > 0x3F or flags & 0x11 == wire.WEBSOCKET or not stream:
                break  # the other way finds the words for it
            strings = data[start + 24 : text_end].decode("latin-1").split("\0")
            if len(strings) != count:
                break
            wire.check_request(count)
            if end == size:
                self._serve(flags, stream, strings, data[text_end:end])
                return size
            connection.rest = data[end:]  # whoever reads on within this request finds it first
            self._serve(flags, stream, strings, data[text_end:end])
            if connection.rest is None or connection.lost:
                return size
            connection.rest = None
            start = end
        return start

    def _frame(self, kind, flags, stream, payload):
        """Does what any frame says."""
        if kind == REQUEST:
            _, strings, body = wire.request_parts(payload, 0, len(payload))
            self._serve(flags, stream, [one.decode("latin-1") for one in strings], body)
        else:
            self.connection.handle(kind, flags, stream, payload)

    # -- a request ----------------------------------------------------------------------------------------------------

    def _serve(self, flags, stream, strings, body):
        self._open(stream, flags & END)
        environ = self.base.copy()
        environment.fill(environ, strings, flags)
        self.response = response = Response(self.connection, stream, strings[0] == "HEAD", self.gate)
        if flags & EARLY_HINTS:
            environ["keepwarm.early_hints"] = response.early_hints
        if flags & END:
            environment.whole_body(environ, body)
            self.body = None
        else:
            self.body = wsgi_input.Body(self.connection, response, body, flags & EXPECT)
            environ["wsgi.input"] = self.body.buffered()
            environ["keepwarm.send_continue"] = self.body.send_continue
        try:
            copy_context().run(self._run, environ)  # what a request leaves in context variables goes with it
        except BaseException as error:
            self.gate.closed = True
            self._failed(error)
        response.end()
        self._close()

    def _open(self, stream, whole):
        self.connection.begin_stream(stream)
        if not whole:
            self.connection.expect_body()

    def _close(self):
        self.connection.end_stream()
        if self.leaks.noted:
            self.leaks.undo()

    def _run(self, environ):
        response, gate = self.response, self.gate
        gate.closed = False
        if gate.waiting:
            gate.open()
        result = self.application(environ, response.start_response)
        if response.text is not None and response.code == 100:
            result = self._run_again(environ, result)
        gate.closed = True
        close = getattr(result, "close", None)
        if close is None:
            response.deliver(result)
        else:
            self._deliver_and_close(result, close)

    def _deliver_and_close(self, result, close):
        """Nearly every framework gives something with a `close`, which nearly always has little to do.

        Behind a response it may do anything, so that it has to be said before the response ends that another worker is better for the
        next request (spec/wire.md §8): where the last ones were not quick.
        """
        said = self.alone and self.quick_closes < _TRUSTED
        if said:
            self.connection.send(_BUSY)
        try:
            self.response.deliver(result)
        finally:
            begun = monotonic()
            try:
                self.gate.open()
                close()
            finally:
                self.gate.closed = True
                if monotonic() - begun > _QUICK:
                    self.quick_closes = 0
                elif said:
                    self.quick_closes += 1
                if said:
                    self.connection.send(_FREE)

    def _run_again(self, environ, result):
        """The application returned 100, the convention of Unicorn: let the body come, and call it again."""
        response = self.response
        close = getattr(result, "close", None)
        if close is not None:
            close()
        environ["keepwarm.send_continue"]()
        environ.pop("HTTP_EXPECT", None)
        response.text = None
        result = self.application(environ, response.start_response)
        if response.code == 100:
            raise ValueError("the application returned 100 a second time, with the body on its way")
        return result

    def _failed(self, error):
        """The application, or its iterable, raised."""
        connection = self.connection
        if connection.forked:
            raise error
        if isinstance(error, ClientDisconnected) and connection.gone:
            self.response.abort(wire.CANCELLED, "")
            return
        log.exception(error)
        self.response.abort(wire.APP_ERROR, f"{type(error).__name__} in the application")
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            self._leave(error)
        if isinstance(error, MemoryError):
            connection.ask_to_drain()  # what is left of this process is not to be trusted with more

    def _leave(self, error):
        """A request ends the process: behind those that are here already."""
        self.ending = self.ending or error
        self.connection.ask_to_drain()
