"""What can end a request or a worker, each with whose doing it is."""


def exit_status(error):
    """The status with which Python leaves after a SystemExit or a KeyboardInterrupt."""
    code = getattr(error, "code", 1)
    return 0 if code is None else code if isinstance(code, int) else 1


class ClientDisconnected(OSError):
    """The client has gone: nobody waits for this response, or the rest of the body will not come.

    Raised by `send` and `receive` (ASGI) and by reads of `wsgi.input`. It is not an error of the application: when it
    comes back out of the application, nothing is logged.
    """


class Fault(Exception):
    """Keepwarm broke the wire's rules (spec/wire.md §2). The connection cannot go on.

    `name` is one of those in spec/vectors/README.md; the text says what was seen.
    """

    def __init__(self, name, text):
        super().__init__(text)
        self.name = name


class Lost(Exception):
    """The wire has reached its end: Keepwarm is gone, or gave this worker up (spec/wire.md §1)."""


class LoadError(Exception):
    """The target does not name an application that can be served. The text is one whole sentence for the user."""
