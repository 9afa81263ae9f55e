"""The WSGI environment of a request (PEP 3333, RFC 3875 §4.1)."""

import os
import stat
import sys
from io import BytesIO
from wsgiref.util import FileWrapper as _FileWrapper

from keepwarm import wire
from keepwarm.wire import EXPECT, REPEATS, USER

# Where the fixed strings of a REQUEST go, in their order (spec/wire.md §4). REQUEST_URI gets its query added.
FIXED_KEYS = (
    "REQUEST_METHOD",
    "SERVER_PROTOCOL",
    "wsgi.url_scheme",
    "PATH_INFO",
    "REQUEST_URI",
    "QUERY_STRING",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "REMOTE_ADDR",
    "REMOTE_PORT",
)
_UNUSUAL = EXPECT | REPEATS | USER
_MAX_REMEMBERED = 1_024  # names; clients choose them, so they must not fill the memory


class CgiNames(dict):
    """Field name -> its key in the environment: `HTTP_` and so on, each worked out once."""

    def __init__(self):
        # RFC 3875 §4.1.2-3: these two have names of their own.
        super().__init__({"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"})

    def __missing__(self, name):
        key = "HTTP_" + name.upper().replace("-", "_")
        if len(self) < _MAX_REMEMBERED:
            self[name] = key
        return key


_key_of = CgiNames().__getitem__


class FileWrapper(_FileWrapper):
    """`wsgi.file_wrapper`. Reads blocks as large as a frame, whatever size is suggested (PEP 3333): frameworks suggest 4 or 8 KiB."""

    def __init__(self, filelike, blksize=wire.MAX_CHUNK):
        super().__init__(filelike, max(blksize, wire.MAX_CHUNK) if _is_at_hand(filelike) else blksize)


def _is_at_hand(filelike):
    """Whether reading it waits for nobody: a file, or memory."""
    if isinstance(filelike, BytesIO):
        return True
    try:
        return stat.S_ISREG(os.fstat(filelike.fileno()).st_mode)
    except (AttributeError, OSError, TypeError, ValueError):
        return False


def base(software, multithread, multiprocess):
    """What is the same in every request's environment.

    The fixed keys stand in it too, so that a copy already has its final size when they are filled in.
    """
    environ = dict.fromkeys(FIXED_KEYS, "")
    environ.update({
        "wsgi.version": (1, 0),
        "wsgi.errors": sys.stderr,
        "wsgi.input": None,
        "wsgi.input_terminated": True,
        "wsgi.multithread": multithread,
        "wsgi.multiprocess": multiprocess,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        "GATEWAY_INTERFACE": "CGI/1.1",
        "SERVER_SOFTWARE": software,
    })
    return environ


def of_request(base, flags, strings):
    """A REQUEST's strings (latin-1 text) in a copy of the base."""
    environ = base.copy()
    environ.update(zip(FIXED_KEYS, strings))
    if flags & _UNUSUAL:
        _add_unusual(environ, flags, strings)
    else:
        environ.update(zip(map(_key_of, strings[11::2]), strings[12::2]))
    if strings[5]:
        environ["REQUEST_URI"] = f"{strings[4]}?{strings[5]}"
    if not strings[7] or not strings[8]:  # PEP 3333: never empty
        environ["SERVER_NAME"] = strings[7] or "localhost"
        environ["SERVER_PORT"] = strings[8] or ("443" if strings[2] == "https" else "80")
    return environ


def add_length(environ, body):
    """Of a body that is all here and was chunked: RFC 3875 §4.1.2 wants it all the same."""
    if "CONTENT_LENGTH" not in environ:
        environ["CONTENT_LENGTH"] = str(len(body))


def _add_unusual(environ, flags, strings):
    if flags & USER:  # RFC 3875 §4.1.1, §4.1.11
        *strings, auth_type, environ["REMOTE_USER"] = strings
        if auth_type:
            environ["AUTH_TYPE"] = auth_type
    if flags & REPEATS:
        _add_repeated(environ, strings)
    else:
        environ.update(zip(map(_key_of, strings[11::2]), strings[12::2]))
    if flags & EXPECT:
        environ["HTTP_EXPECT"] = "100-continue"


def _add_repeated(environ, strings):
    """Joins the values of a field that comes more than once (RFC 9110 §5.3; cookies: RFC 9113 §8.2.3)."""
    seen = {}
    for name, value in zip(strings[11::2], strings[12::2]):
        seen.setdefault(name, []).append(value)
    for name, values in seen.items():
        environ[_key_of(name)] = ("; " if name == "cookie" else ",").join(values)
