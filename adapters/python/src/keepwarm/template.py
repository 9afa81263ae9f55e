"""The template of `preload`: loads the application once, and forks a worker for each order (spec/wire.md §9)."""

import os
import socket
import sys
import threading
import warnings

from keepwarm import hooks, log, process

_LINE = 4_096
_DESCRIPTORS = 3  # beside a fork: wire, standard output, standard error


def serve(control):
    """Forks workers on order. Returns only in each of them, with its wire's socket; the template itself exits.

    Refuses, with status 1, a process that a fork would not copy whole: one with more threads than this.
    """
    if not _python_threads():
        _end_threads_of_libraries()
    reason = threads()
    if reason:
        log.error(f"preload is not possible: {reason}; a fork copies one thread only: start the others in an `after_fork` hook, or turn `preload` off")
        raise SystemExit(1)
    process.settle_memory()
    _send(control, b"ready\n")
    buffer, descriptors = b"", []
    while True:
        try:
            data, received, _, _ = socket.recv_fds(control, _LINE, _DESCRIPTORS)
        except OSError:
            data = b""
        if not data:
            _leave()
        for descriptor in received:
            os.set_inheritable(descriptor, False)  # `recv_fds` takes no MSG_CMSG_CLOEXEC before Python 3.12
        descriptors += received
        buffer += data
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            word, _, number = line.partition(b" ")
            if word == b"fork":
                given, descriptors = descriptors[:_DESCRIPTORS], descriptors[_DESCRIPTORS:]
                wire = _fork(control, int(number), given)
                if wire is not None:
                    return wire
            elif word == b"reap":
                _send(control, _status(int(number)))
            else:
                log.error(f"unexpected message on the template's socket: {line!r}")
                os._exit(1)


def threads():
    """Why this process is not to be forked, in words; None when it may be."""
    others = _python_threads()
    if others:
        return f"the application started the {'thread' if len(others) == 1 else 'threads'} {', '.join(map(repr, sorted(others)))} while loading"
    count = _native_threads()
    if count:
        several = count > 1
        return f"a library of the application started {count} native thread{'s' if several else ''} while loading, and keeps {'them' if several else 'it'} at a fork"
    return None


def _python_threads():
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


def _native_threads():
    try:
        return len(os.listdir("/proc/self/task")) - 1
    except OSError:
        return 0


def _end_threads_of_libraries():
    """Forks a child for nothing: a library that knows of forks ends its threads before one, and starts them anew when it needs them.

    OpenBLAS does, whose threads begin with `import numpy`. What is left after that would be lost in a worker.
    """
    if not _native_threads():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside other threads
        pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def _fork(control, number, descriptors):
    """The wire's socket in the worker, None in the template."""
    try:
        hooks.before_fork.call()
        reason = threads()
        if reason:
            raise RuntimeError(f"preload: {reason}")
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
    except Exception as error:
        log.exception(error)
        _close(descriptors)
        _send(control, f"refused {type(error).__name__}: {error}".encode("utf-8", "replace")[: _LINE - 1].replace(b"\n", b" ") + b"\n")
        return None
    if pid:
        _close(descriptors)
        _send(control, b"forked %d\n" % pid)
        return None
    os.setsid()
    control.close()
    wire, stdout, stderr = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    _close((stdout, stderr))
    os.environ["KEEPWARM_WORKER"] = str(number)
    return socket.socket(fileno=wire)


def _status(pid):
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        core = " core" if os.WCOREDUMP(status) else ""
        return f"ended {pid} signal {os.WTERMSIG(status)}{core}\n".encode()
    return f"ended {pid} exit {os.WEXITSTATUS(status)}\n".encode()


def _send(control, line):
    try:
        control.sendall(line)
    except OSError:
        _leave()


def _leave():
    """Keepwarm has gone, or needs this process no more. What the application registered for its end belongs to its workers."""
    os._exit(0)


def _close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)
