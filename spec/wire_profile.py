"""Signals of a profile, and the samples that a worker sends at them (wire.md §10), for the tests of the adapters."""

import signal
import struct
import threading
from collections import Counter

from wire_driver import pack, pairs, unblock

HERTZ = 100


class Ticks:
    """Signals at a rate, while a `with` lasts. `count`: how many."""

    def __init__(self, worker, hertz=HERTZ):
        self.process = worker.process
        self.period = 1 / hertz
        self.count = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.wait(self.period):
            self.process.send_signal(signal.SIGURG)
            self.count += 1

    def __enter__(self):
        self.process.send_signal(signal.SIGURG)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()


class Samples:
    """What a worker has sent: by request, seconds of each stack."""

    def __init__(self, frames):
        self.seconds = {}
        self.dropped = 0
        for frame in frames:
            if frame.name != "SAMPLES":
                continue
            request, dropped = struct.unpack_from(">II", frame.payload)
            self.dropped += dropped
            strings, rest = unblock(frame.payload[8:])
            assert rest == b""
            for stack, microseconds in pairs(strings):
                self.seconds.setdefault(request, Counter())[stack] += int(microseconds) / 1e6

    def of(self, request, *names):
        """Seconds of the stacks of a request in which these are, in this order."""

        def has(stack):
            parts = iter(stack.split(";"))
            return all(any(part == name or part.startswith(f"{name} (") for part in parts) for name in names)

        return sum(seconds for stack, seconds in self.seconds.get(request, {}).items() if has(stack))


def collected(worker):
    """All samples of a worker, once there are no more."""
    worker.send(pack("PING", payload=b"12345678"))
    while not any(frame.name == "PONG" for frame in worker.held):
        frame = worker.read()
        assert frame is not None, worker.log()
        worker.file(frame)
    frames, worker.held = worker.held, []
    return Samples(frames)


def profiled(worker, path, signals=10, **more):
    """A request while signals come; gives its stream, and the samples. Where a busy machine let fewer than `signals` be sent meanwhile, another request."""
    worker.get("/")
    while True:
        with Ticks(worker) as ticks:
            stream = worker.request(path, **more)
            assert worker.response(stream).status == 200, worker.log()
            worker.get("/")  # what comes after the response is over, too
        samples = collected(worker)
        if ticks.count >= signals:
            return stream, samples
