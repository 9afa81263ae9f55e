"""Signal handlers of the application, kept out of the adapter's own code.

Python runs a handler between any two steps, and as soon as the system call that the signal interrupted has returned, also in the middle of `sendall`. One
that raises there, as a time limit by `signal.alarm` does, would leave half a frame on the wire, or a response without its end. So handlers run where code of
the application does, and where the adapter waits; elsewhere they wait for that.
"""

import signal
import sys

from keepwarm import log

_signal, _getsignal = signal.signal, signal.getsignal


def set_ungated(number, handler):
    """Sets a handler of the adapter, which runs wherever the signal comes: it raises nothing."""
    _signal(number, handler)


class Gate:
    """`closed`: handlers wait in `waiting`. `idle`: there is nobody to rescue what one raises."""

    __slots__ = ("closed", "idle", "waiting")

    def __init__(self):
        self.closed = self.idle = False
        self.waiting = []

    def watch(self):
        """From now on every handler that is set by `signal.signal` is under this rule."""
        signal.signal = self._set
        signal.getsignal = _get

    def open(self):
        """Code of the application follows. Runs what has waited first."""
        self.closed = False
        while self.waiting:
            handler, number = self.waiting.pop(0)
            handler(number, sys._getframe(1))

    def close(self):
        """Code of the application has ended, or been left. Gives what `restore` is to have."""
        before, self.closed = self.closed, True
        return before

    def restore(self, closed):
        """As it was before `close`."""
        self.closed = closed
        if self.waiting and not closed:
            self.open()

    def pass_through(self, until=None):
        """Opens it where nothing is half done, while `until()` waits if there is one."""
        before = self.closed
        try:
            self.open()
            if until is not None:
                until()
        finally:
            self.closed = before

    def rest(self, until=None):
        """As `pass_through`, while no request is in work: what a handler raises is a record in the log, unless it is to end the process."""
        self.idle = True
        try:
            self.closed = False
            if self.waiting:
                self.open()
            if until is not None:
                until()
        finally:
            self.closed = True  # first: in between, what a handler raises would come out of here
            self.idle = False

    def _set(self, number, handler):
        return _its_own(_signal(number, _Handler(self, handler) if callable(handler) else handler))


class _Handler:
    __slots__ = ("gate", "handler")

    def __init__(self, gate, handler):
        self.gate = gate
        self.handler = handler

    def __call__(self, number, frame):
        if self.gate.closed:
            self.gate.waiting.append((self, number))
        elif self.gate.idle:
            try:
                self.handler(number, frame)
            except Exception as error:
                log.exception(error)
        else:
            self.handler(number, frame)


def _get(number):
    return _its_own(_getsignal(number))


def _its_own(handler):
    """What the application set."""
    return handler.handler if isinstance(handler, _Handler) else handler


gate = Gate()
elsewhere = Gate()  # for threads other than the main one, in which no handler runs
