"""Where the time of requests goes: stacks, noted at each SIGURG while Keepwarm profiles this worker (spec/wire.md §10).

Nothing runs between profiles: no thread, no timer, only a handler that is never called. Keepwarm sets the rate, and a sample weighs the time since the last
one, so that a signal which came late, or was one with the next, costs nothing.
"""

import os
import signal
import sys
import threading
import time

from keepwarm import log, signals, stacks, wire

_DEPTH = 200  # frames of a stack; of a deeper one, the innermost
_STACKS = 1_000  # distinct ones that may wait here; the samples of more are counted and dropped
_NAME = 200  # characters of a frame
_SEND_EVERY = 250_000_000  # nanoseconds: of a request that goes on
_FRAME_SIZE = 100_000  # bytes of stacks in one frame, whose limit is 128 KiB
_CODES = 20_000  # whose names are remembered
_TASKS = 20  # of a loop that wait, for each sample; of more, these stand for all, others each time
_WAITING = "(waiting)"

# The adapter's functions below which a request is in a phase of its own: by file, or by file and function. The innermost of them counts.
_PHASES = {
    "wsgi_input.py": "request body",
    "wsgi_response.py": "response",
    ("wsgi.py", "_deliver_and_close"): "after response",
    ("asgi_http.py", "receive"): "request body",
    ("asgi_http.py", "send"): "response",
    "asgi_websocket.py": "websocket",
}
# Where a request begins: what is above is not the application's.
_ROOTS = frozenset((("wsgi.py", "_run"), ("asgi_http.py", "run"), ("asgi_websocket.py", "run")))


class Sampler:
    """What has been noted and not been sent. `pending`: nothing but while Keepwarm profiles, which is all that a request looks at."""

    __slots__ = ("pending", "kept", "dropped", "last", "sent", "clocks")

    def __init__(self):
        self.pending = {}  # request -> stack -> nanoseconds
        self.kept = 0  # distinct stacks in it
        self.dropped = 0
        self.last = None  # when the last signal came
        self.sent = 0
        self.clocks = {}  # thread -> _Clock

    def begin_sample(self):
        """A signal has come. Gives the nanoseconds that a sample of it weighs; 0: it is the first."""
        now = time.monotonic_ns()
        weight = 0 if self.last is None else now - self.last
        self.last = now
        return weight

    def add(self, request, stack, weight):
        """The request was there for so long."""
        of_request = self.pending.get(request)
        if of_request is None:
            of_request = self.pending[request] = {}
        if stack in of_request:
            of_request[stack] += weight
        elif self.kept < _STACKS:
            self.kept += 1
            of_request[stack] = weight
        else:
            self.dropped += 1

    def is_computing(self, weight, ident, native):
        """Whether the thread used a processor, or would have had there been one, for half of the time since the last sample."""
        clock = self.clocks.get(ident)
        if clock is None:
            clock = self.clocks[ident] = _Clock(ident, native)
        return 2 * clock.ran() >= weight

    def is_due(self):
        """Whether it is time to send, although no request has ended."""
        return bool(self.pending) and time.monotonic_ns() - self.sent >= _SEND_EVERY

    def take(self):
        """All that has been noted, as frames."""
        pending, self.pending = self.pending, {}
        dropped, self.dropped, self.kept = self.dropped, 0, 0
        self.sent = time.monotonic_ns()
        frames = []
        for request, of_request in list(pending.items()):
            for part in _parts(list(of_request.items())):
                frames.append(wire.samples(request, dropped, part))
                dropped = 0
        return b"".join(frames)

    def end(self):
        """The profile may be over: the time until the next signal is not a sample's. Gives what has not been sent."""
        self.last = None
        clocks, self.clocks = self.clocks, {}
        for clock in clocks.values():
            clock.close()
        _labels.clear()
        return self.take() if self.pending else b""


def _parts(of_request):
    """Pairs for frames that are not too long."""
    part, size = [], 0
    for stack, nanoseconds in of_request:
        stack = stack.encode("utf-8", "replace")
        if size + len(stack) > _FRAME_SIZE and part:
            yield part
            part, size = [], 0
        part.append((stack, b"%d" % (nanoseconds // 1_000)))
        size += len(stack) + 24
    if part:
        yield part


class _Clock:
    """The time that a thread has run, or waited for a processor: on a busy machine, waiting for one is no less the thread's own doing."""

    __slots__ = ("cpu", "file", "last")

    def __init__(self, ident, native):
        self.cpu = time.pthread_getcpuclockid(ident)
        try:
            self.file = os.open(f"/proc/self/task/{native}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.file = None  # a kernel without it, or a sandbox
        self.last = None

    def ran(self):
        """Nanoseconds since this was asked last."""
        now = self._now()
        ran = 0 if self.last is None else now - self.last
        self.last = now
        return ran

    def _now(self):
        try:
            cpu = time.clock_gettime_ns(self.cpu)
            return cpu if self.file is None else cpu + int(os.pread(self.file, 100, 0).split()[1])
        except (OSError, IndexError, ValueError):
            return self.last or 0  # the thread has ended

    def close(self):
        if self.file is not None:
            os.close(self.file)


class _Labels(dict):
    """Code -> its name in a stack (empty: the adapter's own), the phase that it begins, and whether it is where a request begins."""

    def __missing__(self, code):
        file = code.co_filename
        if log.is_own(file):
            place = os.path.basename(file), code.co_name
            label = "", _PHASES.get(place) or _PHASES.get(place[0]), place in _ROOTS
        else:
            name = getattr(code, "co_qualname", code.co_name)
            label = _cleaned(f"{name} ({short_path(file)}:{code.co_firstlineno})"), None, False
        if len(self) < _CODES:
            self[code] = label
        return label


_labels = _Labels()


def _cleaned(name):
    """Without what has a meaning between frames."""
    return name[:_NAME].replace(";", ",").replace("\n", " ").replace("\0", " ")


def short_path(file):
    """A path as a person would say it: below the directory of the application, or of the packages."""
    for directory in ("site-packages/", "dist-packages/"):
        start = file.rfind(directory)
        if start >= 0:
            return file[start + len(directory) :]
    for directory in (_directory, _library):
        if file.startswith(directory):
            return file[len(directory) :]
    return file


_directory = os.getcwd().rstrip("/") + "/"
_library = os.path.dirname(os.__file__) + "/"


def frames_of(frame):
    """The frames of a thread, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def stack(frames, is_waiting, after_response=False):
    """A stack as the wire has it, of frames with the innermost first; and whether a request is in it."""
    names, phase, outer = [], None, None
    for frame in frames:
        label, its_phase, is_root = _labels[frame.f_code]
        if label:
            names.append(label)
        else:
            phase = phase or its_phase
            outer = len(names)
            if is_root:
                break
    else:
        is_root = False
    if outer is not None:
        del names[outer:]  # what calls the adapter
    if len(names) > _DEPTH:
        names[_DEPTH:] = ["..."]
    names.append("after response" if after_response else phase or "app")
    names.reverse()
    if is_waiting:
        names.append(_WAITING)
    return ";".join(names), is_root


def note_threads(sampler, weight, requests, idle=()):
    """Notes where every thread is: those of `requests` (by thread: the number, and whether its response has ended), and others that do something.

    `idle`: threads that wait for a request, which is the adapter's doing.
    """
    known = {thread.ident: thread for thread in threading.enumerate()}
    own = threading.get_ident()
    for ident, frame in sys._current_frames().items():
        thread = known.get(ident)
        if ident == own or thread is None or ident in idle:
            continue
        computing = sampler.is_computing(weight, ident, thread.native_id)
        if not weight:
            continue
        request, ended = requests.get(ident, (0, False))
        if request or computing or _is_of_application(frame):
            sampler.add(request, stack(frames_of(frame), not computing, ended)[0], weight)


def _is_of_application(frame):
    """Whether a thread that waits does so for the application: threads of a pool wait for work below the standard library's code alone."""
    for one in frames_of(frame):
        file = one.f_code.co_filename
        if file.startswith(_directory) and "-packages/" not in file and not log.is_own(file):
            return True
    return False


def on_signal(sampler, action):
    """Calls `action(frame)` at each signal of a profile, in the main thread: `frame` is where that is.

    System calls that the signal interrupts begin again where the system allows it, so that a library which does not expect signals sees none.
    """

    def handle(number, frame):
        try:
            action(frame)
        except Exception:  # it would be raised in the application's code
            sampler.dropped += 1

    signals.set_ungated(signal.SIGURG, handle)
    signal.siginterrupt(signal.SIGURG, False)


class SerialProfile:
    """Of a worker that serves one request at a time, in the main thread, which is where the signal is handled."""

    __slots__ = ("connection", "sampler")

    def __init__(self, connection):
        self.connection = connection
        self.sampler = connection.sampler
        on_signal(self.sampler, self.note)

    def note(self, frame):
        """A signal has come."""
        connection, sampler = self.connection, self.sampler
        weight = sampler.begin_sample()
        current = connection.current
        main = threading.main_thread()
        computing = sampler.is_computing(weight, main.ident, main.native_id)
        if weight and current is not None:
            name, _ = stack(frames_of(frame), not computing, current.over)
            sampler.add(current.number, name, weight)
        if threading.active_count() > 1:
            note_threads(sampler, weight, {})
        if not connection.gate.closed and sampler.is_due():  # nothing is half sent
            connection.send(sampler.take())


class LoopProfile:
    """Of a worker that serves many requests on an event loop. The signal is handled in the loop's thread."""

    __slots__ = ("connection", "sampler", "asyncio", "turn")

    def __init__(self, connection):
        import asyncio  # which a WSGI worker need not pay for

        self.asyncio = asyncio
        self.turn = 0
        self.connection = connection
        self.sampler = connection.sampler
        on_signal(self.sampler, self.note)

    def note(self, frame):
        """A signal has come."""
        sampler = self.sampler
        weight = sampler.begin_sample()
        main = threading.main_thread()
        computing = sampler.is_computing(weight, main.ident, main.native_id)
        running = list(self.connection.running)
        if weight:
            current = self.asyncio.current_task(self.connection.loop)
            self._note_running(frame, weight, current, running, computing)
            self._note_waiting(weight, current, running)
        if threading.active_count() > 1:
            note_threads(sampler, weight, {})
        if sampler.is_due():
            self.connection.loop.call_soon_threadsafe(self.send)

    def send(self):
        """Sends what has been noted."""
        if self.sampler.pending:
            self.connection.send(self.sampler.take())

    def _note_running(self, frame, weight, current, running, computing):
        """What the loop is at. A task that a request has started is the request's only if no other may be meant."""
        its = next((stream for stream in running if stream.task is current), None) if current is not None else None
        name, in_request = stack(frames_of(frame), not computing, its is not None and its.over)
        if its is None and in_request:
            its = next((stream for stream in running if stream.task is None), None)  # its first step, before it has a task
        if its is None and current is None and not computing:
            return  # the loop waits
        if its is None and len(running) == 1:
            its = running[0]
        self.sampler.add(its.number if its is not None else 0, name, weight)

    def _note_waiting(self, weight, current, running):
        waiting = [stream for stream in running if stream.task is not None and stream.task is not current and not stream.task.done()]
        if len(waiting) > _TASKS:
            step = len(waiting) // _TASKS + 1
            self.turn += 1
            weight *= step
            waiting = waiting[self.turn % step :: step]
        for stream in waiting:
            frames = list(stacks.frames(stream.task))
            frames.reverse()
            name, _ = stack(frames, True, stream.over)
            self.sampler.add(stream.number, name, weight)
