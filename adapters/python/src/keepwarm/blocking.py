"""The wire on a blocking socket, for the strategies of WSGI: frames are read one after the other, and a reader sleeps until one arrives."""

import select
from socket import MSG_DONTWAIT

from keepwarm import wire
from keepwarm.connection import Connection
from keepwarm.errors import Lost

STREAM_CREDIT = 262_144  # bytes of a body that may wait in this process; spec/wire.md §3 asks for 65,536 at least
READ_SIZE = 65_536  # nearly every REQUEST in one call; below the size for which malloc maps and unmaps memory each time


def waiting_for(sock):
    """A function that waits until something can be read.

    A `recv` that waits is woken by Linux a second time, for nothing: when the other end has read the last response and there is room to write again
    (`unix_write_space`). A `poll` for reading is not.
    """
    if not hasattr(select, "poll"):  # `eventlet.monkey_patch` takes it away; its `select` lets what the application has left running go on
        return lambda: select.select((sock,), (), ())
    readable = select.poll()  # gevent's, if the application has put it there, which does the same
    readable.register(sock, select.POLLIN)
    return readable.poll


class BlockingConnection(Connection):
    """Nothing here raises because Keepwarm has gone: `lost` says so, and what is sent then is dropped.

    A strategy says in `rest` how it waits for bytes: where handlers of signals may run.
    """

    __slots__ = ("sock", "recv", "wait_for_bytes", "buffer")

    def __init__(self, sock, limit, connection_credit):
        super().__init__(limit, STREAM_CREDIT, connection_credit)
        self.sock = sock
        self.recv = sock.recv
        self.wait_for_bytes = waiting_for(sock)
        self.buffer = bytearray()  # the beginning of a frame whose end has not come

    def read_welcome(self):
        """Waits for WELCOME; gives its names. Raises `Fault` or `Lost`."""
        kind, _, _, payload = self.next_frame()
        return self.take_welcome(kind, payload)

    def next_frame(self):
        """Waits for a frame, whole. Raises `Lost` at the wire's end."""
        while True:
            frame = wire.take_frame(self.buffer)
            if frame is not None:
                return frame
            try:
                data = self.recv(READ_SIZE, MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                data = None  # the exception must not live on while this waits: `growth` counts what there is
            except OSError:
                data = b""
            if data is None:
                # Here, and only here, what the application has set up to end a wait may end it: no byte is lost by it.
                self.rest()
                continue
            if not data:
                raise Lost
            self.buffer += data
