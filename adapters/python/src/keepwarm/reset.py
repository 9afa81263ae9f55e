"""Resets what a request changed in the process and the language does not reset by itself.

Watching costs nothing: the few functions that change such things are replaced by ones that also leave a note, before the
application is imported. Context variables (and with them `decimal`'s context) need no watching: each request runs in a
context of its own.
"""

import functools
import locale
import os
import time

from keepwarm import log


class Leaks:
    """`watch` before the application is loaded, `settle` after: what holds then is normal. `undo` after each request.

    `noted` is empty unless there is something to undo.
    """

    __slots__ = ("noted", "_normal")

    def __init__(self):
        self.noted = set()
        self._normal = {}

    def watch(self):
        """Replaces the functions."""
        for module, names, what in (
            (os, ("chdir", "fchdir"), "directory"),
            (os, ("umask",), "umask"),
            (locale, ("setlocale",), "locale"),
            (time, ("tzset",), "time zone"),
        ):
            for name in names:
                setattr(module, name, self._noting(getattr(module, name), what))

    def settle(self):
        """The application is loaded; what it has set up is what each request begins with."""
        self._normal = {what: current() for what, current in _CURRENT.items()}
        self.noted.clear()

    def undo(self):
        """Restores everything that was noted, and says once what it was."""
        noted, normal = set(self.noted), self._normal
        try:
            for what in noted:
                if _CURRENT[what]() != normal[what]:
                    _RESTORE[what](normal[what])
                    log.warn_once(("leak", what), f"a request changed the {what} of its process; it is restored after each request")
        finally:
            self.noted.clear()

    def _noting(self, function, what):
        @functools.wraps(function)
        def noting(*args, **more):
            self.noted.add(what)
            return function(*args, **more)

        return noting


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _set_time_zone(name):
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()


_CURRENT = {
    "directory": os.getcwd,
    "umask": _umask,
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "time zone": lambda: os.environ.get("TZ"),
}
_RESTORE = {
    "directory": lambda path: os.chdir(path),
    "umask": lambda mask: os.umask(mask),
    "locale": lambda name: locale.setlocale(locale.LC_ALL, name),
    "time zone": _set_time_zone,
}
