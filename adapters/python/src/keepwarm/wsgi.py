"""A request of a WSGI application: its environment, the call, the response (PEP 3333)."""

from contextvars import copy_context
from io import BytesIO
from time import monotonic

from keepwarm import __version__, environ as environment, log, wire, wsgi_input
from keepwarm.errors import ClientDisconnected
from keepwarm.wire import EARLY_HINTS, END, EXPECT


_BUSY = wire.frame(wire.BUSY, 0, 0)
_FREE = wire.frame(wire.BUSY, END, 0)
_QUICK = 0.001  # seconds: a `close` that takes no longer keeps nobody waiting
_TRUSTED = 16  # after this number of quick ones in a row, the next is assumed to be quick


class Service:
    """Serves one application over one connection, a request at a time. `serial` and `threaded` say where the requests come from, and in `_leave` what becomes of a process that one of them ends."""

    def __init__(self, connection, application, pairs, leaks, multithread):
        self.connection = connection
        self.application = application
        self.leaks = leaks
        self.base = environment.base(
            software=pairs.get("software", f"keepwarm/{__version__}"),
            multithread=multithread,
            multiprocess=pairs.get("workers", "1") != "1",
        )
        self.base["keepwarm.early_hints"] = lambda headers: None
        self.base["keepwarm.send_continue"] = lambda: None
        self.alone = not multithread
        self.gate = connection.gate
        self.quick_closes = 0  # in a row

    def serve(self, flags, response, strings, body):
        """Calls the application and sees to it that the response ends."""
        environ = environment.of_request(self.base, flags, strings)
        if flags & EARLY_HINTS:
            environ["keepwarm.early_hints"] = response.early_hints
        if flags & END:
            environ["wsgi.input"] = BytesIO(body)
            if body:
                environment.add_length(environ, body)
        else:
            read_on = wsgi_input.Body(self.connection, response, body, flags & EXPECT)
            environ["wsgi.input"] = read_on.buffered()
            environ["keepwarm.send_continue"] = read_on.send_continue
        try:
            copy_context().run(self._run, environ, response)  # what a request leaves in context variables goes with it
        except BaseException as error:
            self.gate.closed = True
            self._failed(response, error)
        response.over = response.ended = True

    def _run(self, environ, response):
        gate = self.gate
        gate.closed = False
        if gate.waiting:
            gate.open()
        result = self.application(environ, response.start_response)
        if response.text is not None and response.code == 100:
            result = self._run_again(environ, response, result)
        gate.closed = True
        close = getattr(result, "close", None)
        if close is None:
            response.deliver(result)
        else:
            self._deliver_and_close(response, result, close)

    def _deliver_and_close(self, response, result, close):
        """Nearly every framework gives something with a `close`, which nearly always has little to do.

        After a response it may do anything, so Keepwarm must learn before the response ends that another worker is better for the
        next request (spec/wire.md §8): where the last ones were not quick.
        """
        said = self.alone and self.quick_closes < _TRUSTED
        if said:
            self.connection.send(_BUSY)
        try:
            response.deliver(result)
        finally:
            begun = monotonic()
            gate = self.gate
            try:
                gate.closed = False
                if gate.waiting:
                    gate.open()
                close()
            finally:
                gate.closed = True
                if monotonic() - begun > _QUICK:
                    self.quick_closes = 0
                elif said:
                    self.quick_closes += 1
                if said:
                    self.connection.send(_FREE)

    def _run_again(self, environ, response, result):
        """The application returned 100, the convention of Unicorn: let the body come, and call it again."""
        close = getattr(result, "close", None)
        if close is not None:
            close()
        environ["keepwarm.send_continue"]()
        environ.pop("HTTP_EXPECT", None)
        response.text = None
        result = self.application(environ, response.start_response)
        if response.code == 100:
            raise ValueError("the application returned 100 a second time, after it had requested the body")
        return result

    def _failed(self, response, error):
        """The application, or its iterable, raised."""
        connection = self.connection
        if connection.forked:
            raise error
        if isinstance(error, ClientDisconnected) and response.gone:
            response.abort(wire.CANCELLED, "")
            return
        log.exception(error)
        response.abort(wire.APP_ERROR, f"{type(error).__name__} in the application")
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            self._leave(error)
        if isinstance(error, MemoryError):
            connection.ask_to_drain()  # what is left of this process is not to be trusted with more
