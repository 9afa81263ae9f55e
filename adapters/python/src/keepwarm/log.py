"""The worker's log: standard error, one record per write, which Keepwarm marks with the app's name and the worker's."""

import os
import sys
import traceback

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TRACEBACK = "Traceback (most recent call last)"
_CONTINUED = "\x1f"  # ends a line that the next one continues
_said = set()


def prepare_streams():
    """Makes what the application prints arrive line by line, its tracebacks as one record, and never fail for want of an encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, errors="backslashreplace")
            _mark_tracebacks(stream)


def _mark_tracebacks(stream):
    """What a logger writes in one go with a traceback in it is one record, whatever the message and the text of the exception are."""
    write = stream.write

    def marked(text):
        if isinstance(text, str) and _TRACEBACK in text and _CONTINUED not in text:
            record = text.rstrip("\n")
            write(record.replace("\n", _CONTINUED + "\n") + text[len(record) :])
            return len(text)
        return write(text)

    stream.write = marked


def write(text):
    """Writes one record. A log that cannot be written must not end the worker."""
    try:
        sys.stderr.write(text if text.endswith("\n") else text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # closed, replaced or full: there is nowhere left to say so


def error(text):
    """Writes one record of level error, whose text may have several lines."""
    write(_one_record(f"keepwarm: error: {text}"))


def warning(text):
    """Writes one record of level warning, whose text may have several lines."""
    write(_one_record(f"keepwarm: warning: {text}"))


def warn_once(key, text):
    """Writes one record of level warning for each `key` in the life of the worker."""
    if key not in _said:
        _said.add(key)
        warning(text)


def exception(error, said="", level=error):
    """Writes the application's traceback, as Python itself would print it, without the adapter's own frames; below `said`, if that is something."""
    trace = formatted(error)
    if said:
        level(f"{said}\n{trace}")
    else:
        write(_one_record(trace))


def formatted(error):
    """The application's traceback, with its causes."""
    trace = own_frames_removed(error.__traceback__)
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except Exception:  # an exception whose own `__str__` or source lines cannot be had
        return f"{type(error).__name__}\n"


def _one_record(text):
    """Each line but the last marked as continued (spec/wire.md §1). Not if the application has replaced standard error."""
    return text.rstrip("\n").replace("\n", _CONTINUED + "\n") if sys.stderr is sys.__stderr__ else text


def own_frames_removed(trace):
    """The part of a traceback that begins with the application.

    None when it never got so far, as with a module that is not there; all of it when the adapter itself failed.
    """
    first = last = trace
    while first is not None and _is_loading(first):
        first, last = first.tb_next, first
    failed_here = first is None and last is not None and last.tb_frame.f_code.co_filename.startswith(_PACKAGE)
    return trace if failed_here else first


def is_own(file):
    """Whether a source file is one of the adapter."""
    return file.startswith(_PACKAGE)


def _is_loading(trace):
    name = trace.tb_frame.f_code.co_filename
    return name.startswith((_PACKAGE, "<frozen importlib")) or name.endswith("importlib/__init__.py")
