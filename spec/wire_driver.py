"""Plays Keepwarm on the other end of a worker's wire, for the tests of the adapters.

Its codec is written from wire.md alone and shares nothing with an adapter's, so that the two check one another.
"""

import fcntl
import os
import re
import select
import socket
import struct
import subprocess
import tempfile
import termios
import time

PATIENCE = 10.0  # seconds: a worker that says nothing for so long has failed, however slow the machine

TYPES = {
    0x01: "HELLO", 0x02: "WELCOME", 0x10: "REQUEST", 0x11: "DATA", 0x12: "TRAILERS", 0x13: "RESPONSE", 0x14: "INFORM",
    0x15: "WANT", 0x16: "CREDIT", 0x17: "RESET", 0x18: "HALF_CLOSE", 0x20: "TEXT", 0x21: "BINARY", 0x22: "CLOSE", 0x30: "PING", 0x31: "PONG",
    0x32: "DRAIN", 0x33: "BUSY", 0x34: "SAMPLES", 0x35: "LEAKS", 0x36: "GROWTH",
}  # fmt: skip
NUMBERS = {name: number for number, name in TYPES.items()}
END, EXPECT, REPEATS, EARLY_HINTS, WEBSOCKET, TRAILERS, USER = 1, 2, 4, 8, 16, 32, 64
CHUNKED = 2**64 - 1


def pack(name, stream=0, payload=b"", flags=0):
    """A frame."""
    return struct.pack(">IBBI", len(payload), NUMBERS[name], flags, stream) + payload


def block(strings):
    """A string block."""
    raw = [one if isinstance(one, bytes) else one.encode("latin-1") for one in strings]
    text = b"\0".join(raw)
    return struct.pack(">HI", len(raw), len(text)) + text


def unblock(payload):
    """The strings of a block, and what follows it."""
    count, length = struct.unpack_from(">HI", payload)
    text, rest = payload[6 : 6 + length], payload[6 + length :]
    assert len(text) == length, "a string block longer than its frame"
    strings = text.split(b"\0") if count else []
    assert len(strings) == count, "a string block with another number of strings"
    return [one.decode("latin-1") for one in strings], rest


def pairs(strings):
    """Name and value in turn, as a list of pairs."""
    assert len(strings) % 2 == 0
    return list(zip(strings[::2], strings[1::2]))


class Frame:
    """A frame from the worker: `name`, `flags`, `stream`, `payload`."""

    def __init__(self, number, flags, stream, payload):
        self.name = TYPES[number]
        self.flags, self.stream, self.payload = flags, stream, payload

    def __repr__(self):
        return f"<{self.name} flags={self.flags} stream={self.stream} {self.payload[:60]!r}>"

    @property
    def end(self):
        return bool(self.flags & END)


class Response:
    """What a worker said on one stream, until it ended it."""

    def __init__(self):
        self.status = None
        self.fields = []
        self.body = b""
        self.frames = []
        self.informs = []
        self.trailers = None
        self.reset = None  # (code, reason)
        self.close_after = False
        self.wants = 0

    def __repr__(self):
        return f"<Response {self.status} {self.fields} {self.body[:80]!r} reset={self.reset}>"

    def field(self, name):
        """The values of a field."""
        return [value for one, value in self.fields if one.lower() == name.lower()]

    @property
    def names(self):
        """The types of the frames, in order."""
        return [frame.name for frame in self.frames]


class Worker:
    """A worker process on a wire that the test holds the other end of. Use it in a `with`, or call `stop`."""

    def __init__(
        self, command, *, cwd, env=None, hello=True, stream_credit=65_536, connection_credit=1 << 20, workers=1,
    ):  # fmt: skip
        self.mine, theirs = socket.socketpair()
        self.mine.settimeout(PATIENCE)
        self.log_file = tempfile.TemporaryFile()
        environment = dict(os.environ, KEEPWARM_FD=str(theirs.fileno()), **(env or {}))
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file, cwd=str(cwd), env=environment,
            pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.buffer = b""
        self.stream = 0
        self.responses = {}
        self.held = []  # frames read while waiting for others
        self.auto_credit = True
        about = block(["app", "test", "worker", "0", "workers", str(workers), "software", "keepwarm/0.0.1"])
        try:
            self.send(pack("WELCOME", payload=struct.pack(">HHII", 1, 1, stream_credit, connection_credit) + about))
        except (BrokenPipeError, ConnectionResetError):
            # One that does not start may have exited already.
            if hello:
                raise AssertionError(f"the worker has exited; its log:\n{self.log()}") from None
        self.hello = self.read() if hello else None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    # -- the wire -----------------------------------------------------------------------------------------------------

    def send(self, data):
        """Bytes as they are. What the worker writes meanwhile is read: it may have to write before it reads on."""
        data = memoryview(data)
        while data:
            readable, writable, _ = select.select([self.mine], [self.mine], [], PATIENCE)
            if writable:
                data = data[self.send_some(data) :]
            elif readable:
                self.buffer += self.receive()
            else:
                raise AssertionError(f"the worker reads no more; its log:\n{self.log()}")

    def send_some(self, data):
        try:
            return self.mine.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def receive(self):
        """What comes next; nothing at the wire's end."""
        try:
            return self.mine.recv(1 << 18)
        except ConnectionResetError:
            return b""

    def read(self):
        """The next frame; None at the wire's end."""
        while True:
            if len(self.buffer) >= 10:
                length, number, flags, stream = struct.unpack_from(">IBBI", self.buffer)
                if len(self.buffer) >= 10 + length:
                    payload, self.buffer = self.buffer[10 : 10 + length], self.buffer[10 + length :]
                    return Frame(number, flags, stream, payload)
            data = self.receive()
            if not data:
                return None
            self.buffer += data

    def request(
        self, path="/", method="GET", fields=(), body=b"", flags=END, length=None, query="", protocol="HTTP/1.1",
        scheme="http", script="", raw_path=None, server=("shop.example", "8080"), client=("192.0.2.7", "52144"), send=True,
    ):  # fmt: skip
        """Sends a REQUEST; gives its stream. `length` None: that of `body`."""
        self.stream += 1
        strings = [
            method, protocol, scheme, path, raw_path if raw_path is not None else script + path, query, script, *server, *client,
            *(part for pair in fields for part in pair),
        ]  # fmt: skip
        payload = struct.pack(">Q", len(body) if length is None else length) + block(strings) + body
        data = pack("REQUEST", self.stream, payload, flags)
        if send:
            self.send(data)
            return self.stream
        return self.stream, data

    def data(self, stream, body=b"", end=False):
        """Sends DATA."""
        self.send(pack("DATA", stream, body, END if end else 0))

    def reset(self, stream, code=1, reason=""):
        """Sends RESET."""
        self.send(pack("RESET", stream, struct.pack(">H", code) + reason.encode()))

    def credit(self, stream, amount):
        """Sends CREDIT."""
        self.send(pack("CREDIT", stream, struct.pack(">I", amount)))

    # -- responses ----------------------------------------------------------------------------------------------------

    def take(self, stream, until):
        """Reads frames, filing each with its stream, until `until(response)` holds for `stream`; gives that response."""
        response = self.responses.setdefault(stream, Response())
        while not until(response):
            frame = self.read()
            if frame is None:
                raise AssertionError(f"the worker closed the wire; its log:\n{self.log()}")
            self.file(frame)
        return response

    def response(self, stream):
        """The whole response on `stream`."""
        return self.take(stream, is_over)

    def get(self, path="/", **more):
        """A request and its whole response."""
        return self.response(self.request(path, **more))

    def file(self, frame):
        """Adds a frame to the response that it is part of."""
        if frame.stream == 0:
            self.held.append(frame)
            return
        response = self.responses.setdefault(frame.stream, Response())
        response.frames.append(frame)
        if frame.name == "RESPONSE":
            assert response.status is None, "a second RESPONSE"
            (response.status,) = struct.unpack_from(">H", frame.payload)
            strings, response.body = unblock(frame.payload[2:])
            response.fields = pairs(strings)
            response.close_after = bool(frame.flags & 2)
            assert len(response.body) <= 65_536
        elif frame.name == "DATA":
            assert len(frame.payload) <= 65_536
            response.body += frame.payload
            if self.auto_credit and frame.payload:
                self.credit(0, len(frame.payload))
                if not frame.end:
                    self.credit(frame.stream, len(frame.payload))
        elif frame.name == "INFORM":
            (status,) = struct.unpack_from(">H", frame.payload)
            response.informs.append((status, pairs(unblock(frame.payload[2:])[0])))
        elif frame.name == "TRAILERS":
            response.trailers = pairs(unblock(frame.payload)[0])
        elif frame.name == "RESET":
            response.reset = (struct.unpack_from(">H", frame.payload)[0], frame.payload[2:].decode())
        elif frame.name == "WANT":
            response.wants += 1

    # -- the process --------------------------------------------------------------------------------------------------

    def log(self):
        """What the worker has printed so far."""
        return os.pread(self.log_file.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def wait_for_log(self, text, count=1):
        """Until the worker has printed this, so often."""
        until = time.monotonic() + PATIENCE
        while self.log().count(text) < count:
            assert time.monotonic() < until, f"no {text!r} in\n{self.log()}"
            time.sleep(0.005)

    def log_of(self, action):
        """What the worker prints while `action()` runs and until it has served one more request."""
        before = len(self.log())
        action()
        self.get("/")
        return self.log()[before:]

    def sleeps(self, pings=20):
        """How often the worker went to sleep while it answered PINGs, each read when it slept again. It needs to once for each.

        The least of some attempts: other things make it wait, too, on a busy machine.
        """
        return min(self.sleeps_of_one_attempt(pings) for _ in range(3))

    def sleeps_of_one_attempt(self, pings):
        before = self.sleeps_so_far()
        for _ in range(pings):
            self.send(pack("PING", payload=b"12345678"))
            select.select([self.mine], [], [], PATIENCE)
            self.wait_until_asleep()
            assert self.read().name == "PONG"
            self.wait_until_asleep()
        return self.sleeps_so_far() - before

    def wait_until_asleep(self):
        """Until the main thread is blocked in a system call."""
        until = time.monotonic() + PATIENCE
        while "State:\tS" not in self.status():
            assert time.monotonic() < until, "the worker does not come to rest"

    def wait_until_full(self):
        """Until it has begun to respond, and can write no more."""
        until = time.monotonic() + PATIENCE
        before, sent = None, self.waiting_bytes()
        while sent == 0 or sent != before or "State:\tS" not in self.status():
            assert time.monotonic() < until, f"the worker does not fill its socket; its log:\n{self.log()}"
            time.sleep(0.005)
            before, sent = sent, self.waiting_bytes()

    def interrupted_when_full(self, path, number):
        """The response to a request that gets a signal while the worker waits for room to write it."""
        stream = self.request(path)
        self.wait_until_full()
        self.process.send_signal(number)
        return self.response(stream)

    def responses_among_signals(self, path, number, together=3, rounds=200):
        """The responses to so many requests at a time, with a signal at any moment."""
        for _ in range(rounds):
            sent = [self.request(path, send=False) for _ in range(together)]
            self.send(b"".join(data for _, data in sent))
            self.process.send_signal(number)
            yield from [self.response(stream) for stream, _ in sent]

    def waiting_bytes(self):
        """Bytes that it has written and nobody has read."""
        return struct.unpack("i", fcntl.ioctl(self.mine, termios.FIONREAD, bytes(4)))[0]

    def sleeps_so_far(self):
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", self.status(), re.M)[1])

    def status(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return file.read()

    def drain(self):
        """Sends DRAIN and waits for the end; gives the exit status."""
        self.send(pack("DRAIN"))
        return self.process.wait(PATIENCE)

    def stop(self):
        """Ends the worker, whatever it does."""
        self.mine.close()
        self.process.kill()
        self.process.wait()
        self.log_file.close()


def is_over(response):
    """Whether the worker has ended the stream."""
    if not response.frames:
        return False
    last = response.frames[-1]
    return last.name in ("RESET", "TRAILERS", "CLOSE") or (last.name in ("RESPONSE", "DATA") and last.end)
