"""`wsgi.input` of a body that did not come whole with its request."""

import io

from keepwarm import wire
from keepwarm.errors import ClientDisconnected


class Body(io.RawIOBase):
    """Reads DATA as the application asks for it. The first read is what sends `100 Continue` (spec/wire.md §4)."""

    def __init__(self, connection, response, first, expects):
        super().__init__()
        self.connection = connection
        self.response = response
        self.expects = expects
        self.part = memoryview(first)
        self.free = len(first)  # bytes that came with the REQUEST, which are not under credit (§6)

    def buffered(self):
        """The file-like object that the application gets: `read`, `readline`, `readlines`, iteration."""
        return io.BufferedReader(self, wire.MAX_CHUNK)

    def readable(self):
        return True

    def send_continue(self):
        """`environ['keepwarm.send_continue']()`: asks for the body now, before anything reads it; once."""
        if self.expects and not self.response.over:
            gate = self.connection.gate
            before = gate.close()
            try:
                self.expects = False
                self.connection.send(wire.frame(wire.WANT, 0, self.response.number))
            finally:
                gate.restore(before)

    def readinto(self, target):
        """The next bytes of the body into `target`; 0 at its end."""
        gate = self.connection.gate
        before = gate.close()
        try:
            part = self.part or self._next_part()
            size = min(len(part), len(target))
            target[:size] = part[:size]
            self.part = part[size:]
            if self.free:
                self.free -= size
            elif size:
                self.connection.consumed(self.response, size)
            return size
        finally:
            gate.restore(before)

    def _next_part(self):
        response = self.response
        if response.over:
            raise ValueError("wsgi.input was read after the response was complete")
        while True:
            ended = response.body_ended  # asked first: in a worker with threads, another adds to the body
            if response.parts:
                return memoryview(response.parts.pop(0))
            if response.gone:
                raise ClientDisconnected("the client disconnected before its body was complete")
            if ended:
                return memoryview(b"")
            self.send_continue()
            self.connection.wait(response)
