"""Signal handlers of the application, kept out of a write.

Python runs a handler as soon as the system call that the signal interrupted has returned, also in the middle of `sendall`. One that raises there, as
a time limit by `signal.alarm` does, would leave half a frame on the wire. So while a frame is written, handlers wait for its end.
"""

import signal
import sys

_signal, _getsignal = signal.signal, signal.getsignal


class Gate:
    """`closed`: a frame is being written, and handlers wait in `waiting`."""

    __slots__ = ("closed", "waiting")

    def __init__(self):
        self.closed = False
        self.waiting = []

    def watch(self):
        """From now on every handler that is set by `signal.signal` is under this rule."""
        signal.signal = self._set
        signal.getsignal = _get

    def open(self):
        """Runs what has waited."""
        while self.waiting:
            handler, number = self.waiting.pop(0)
            handler(number, sys._getframe(1))

    def _set(self, number, handler):
        return _its_own(_signal(number, _Handler(self, handler) if callable(handler) else handler))


class _Handler:
    __slots__ = ("gate", "handler")

    def __init__(self, gate, handler):
        self.gate = gate
        self.handler = handler

    def __call__(self, number, frame):
        if self.gate.closed:
            self.gate.waiting.append((self.handler, number))
        else:
            self.handler(number, frame)


def _get(number):
    return _its_own(_getsignal(number))


def _its_own(handler):
    """What the application set."""
    return handler.handler if isinstance(handler, _Handler) else handler


gate = Gate()
