"""LEAKS, and the GROWTH that a worker sends for it and after each request (wire.md §11), for the tests of the adapters."""

import re
import struct
from collections import Counter

from wire_driver import END, pack, pairs, unblock

NAME = re.compile(r"memory|object;[^;]+|held;[^;]+|made;[^;]+:\d+", re.S)
CHANGE = re.compile(r"-?[1-9]\d*")
MOST = 200  # changes in one frame


class Growth:
    """A GROWTH: `request`, `microseconds`, and `changes`, a `Counter` by name. It fails where the frame breaks a rule of wire.md."""

    def __init__(self, frame):
        assert (frame.name, frame.stream, frame.flags) == ("GROWTH", 0, 0), frame
        self.request, self.microseconds = struct.unpack_from(">II", frame.payload)
        strings, rest = unblock(frame.payload[8:])
        assert rest == b""
        listed = pairs(strings)
        self.changes = Counter()
        for name, change in listed:
            name = name.encode("latin-1").decode()  # UTF-8
            assert NAME.fullmatch(name), name
            assert CHANGE.fullmatch(change), (name, change)
            assert name not in self.changes, f"{name} twice"
            self.changes[name] = int(change)
        assert len(listed) <= MOST, len(listed)

    def __repr__(self):
        return f"<Growth of {self.request}: {dict(self.changes)}>"

    def of(self, form):
        """The changes of one form, by what is after its `;`: `object`, `held`, `made`."""
        return of(self.changes, form)


def of(changes, form):
    """The changes of one form, by what is after its `;`."""
    start = form + ";"
    return {name[len(start) :]: change for name, change in changes.items() if name.startswith(start)}


def begin(worker):
    """Sends LEAKS; gives the response to it."""
    worker.send(pack("LEAKS"))
    growth = next_growth(worker)
    assert growth.request == 0, growth
    return growth


def end(worker):
    """Sends LEAKS with END."""
    worker.send(pack("LEAKS", flags=END))


def next_growth(worker):
    """The next GROWTH. What comes before it is filed."""
    while True:
        for frame in worker.held:
            if frame.name == "GROWTH":
                worker.held.remove(frame)
                return Growth(frame)
        frame = worker.read()
        assert frame is not None, f"the worker closed the wire; its log:\n{worker.log()}"
        worker.file(frame)


def measured(worker, path="/", status=200, **more):
    """A request, and the GROWTH of it, which must come after the response. `status` None: whatever comes."""
    stream = worker.request(path, **more)
    response = worker.response(stream)
    assert not any(frame.name == "GROWTH" for frame in worker.held), "a GROWTH before its response has ended"
    if status is not None:
        assert response.status == status, (response, worker.log())
    growth = next_growth(worker)
    assert growth.request == stream, (growth, stream)
    return growth


def kept(worker, path="/", requests=10, warm=3, **more):
    """What grew in more than half of `requests` requests, after `warm` that fill caches: a `Counter` of their sums by name."""
    for _ in range(warm):
        measured(worker, path, **more)
    sums, times = Counter(), Counter()
    for _ in range(requests):
        for name, change in measured(worker, path, **more).changes.items():
            sums[name] += change
            times[name] += change > 0
    return Counter({name: total for name, total in sums.items() if total > 0 and 2 * times[name] > requests})
