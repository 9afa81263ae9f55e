"""`python -m keepwarm`: with `KEEPWARM_FD`, a worker of Keepwarm; otherwise the program `keepwarm` (see `launch`)."""

import os
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the application's directory, whose modules must not replace the adapter's, whatever their names

if __name__ == "__main__" and "KEEPWARM_FD" not in os.environ:
    from keepwarm import launch

    sys.exit(launch.main())

import argparse
import platform

from keepwarm import __version__, hooks, log, process, reset, signals, target
from keepwarm.errors import Fault, LoadError, Lost


def main(arguments=None):
    """Runs a worker until it is told to stop; gives the exit status."""
    options = _options(arguments)
    process.prepare_signals()
    log.prepare_streams()
    sock = process.take_socket()
    sys.argv = [sys.argv[0]]  # what is left are the application's arguments: none
    sys.path.insert(0, os.getcwd())
    leaks = reset.Leaks()
    leaks.watch()
    signals.gate.watch()
    application = _load(options.target)
    if application is None:
        return 1
    try:
        kind = options.kind or target.kind_of(application)
    except LoadError as error:
        log.error(error)
        return 1
    if kind == target.WSGI and options.streams:
        log.error("`concurrency` is for ASGI, and this is a WSGI application; set `threads`, the number of requests that a worker handles at once")
        return 1
    if kind == target.ASGI and options.threads > 1:
        log.error("`threads` is for WSGI, and this is an ASGI application; set `concurrency`, the number of requests that a worker handles at once")
        return 1
    if kind == target.WSGI and (options.loop or options.lifespan):
        key = "loop" if options.loop else "lifespan"
        log.error(f"`{key}` is for ASGI, and this is a WSGI application; remove it")
        return 1
    options.loop = options.loop or "auto"
    options.lifespan = options.lifespan or "auto"
    run = _runner(kind)  # what it imports is shared by all workers of a template
    if options.preload:
        from keepwarm import template

        sock = template.serve(sock)
    if not _after_fork():
        return 1
    return run(sock, application, options, leaks)


def _runner(kind):
    if kind == target.WSGI:
        from keepwarm import serial, threaded  # noqa: F401

        return _run_wsgi
    from keepwarm import asgi  # asyncio costs memory and time that a WSGI worker need not pay

    return lambda sock, application, options, leaks: asgi.run(sock, application, options, identity("asgi", "half_close", "user", "profile", *_leaks()))


def _after_fork():
    """Whether the application's hooks did what they had to."""
    try:
        hooks.after_fork.call()
    except BaseException as error:
        log.exception(error, "an `after_fork` hook of the application failed")
        return False
    return True


def identity(kind, *capabilities):
    """What a worker says about itself and what it can do, in HELLO (spec/wire.md §3)."""
    language = f"{platform.python_implementation()} {platform.python_version()}"
    about = [("adapter", f"python/{__version__}"), ("kind", kind), ("language", language)]
    return about + [(capability, "1") for capability in capabilities]


def _leaks():
    """Only CPython tells which objects there are and which line has made them."""
    return ("leaks",) if platform.python_implementation() == "CPython" else ()


def _load(name):
    """The application, or None when it cannot be had; the reason is in the log."""
    try:
        return target.load(name)
    except LoadError as error:
        log.error(error)
    except ModuleNotFoundError as error:
        log.exception(error, target.missing(name, error))
    except SystemExit as error:
        log.exception(error, f"{name!r} called sys.exit({error.code!r}) while loading")
    except BaseException as error:
        log.exception(error)
    return None


def _run_wsgi(sock, application, options, leaks):
    from keepwarm import serial, threaded

    threads = options.threads
    connection = serial.Serial(sock) if threads == 1 else threaded.Threaded(sock, threads)
    process.keep_from_children(sock.fileno(), connection)
    try:
        pairs = connection.read_welcome()
    except Lost:
        return 0
    except Fault as fault:
        connection.fail(fault)
        return 1
    worker = (serial.Worker if threads == 1 else threaded.Pool)(connection, application, pairs, leaks)
    process.on_terminate(connection.ask_to_drain)
    leaks.settle()
    process.settle_memory()
    signals.gate.close()
    try:
        connection.say_hello(identity("wsgi", "blocking", "cgi_names", "user", "profile", *_leaks()))
        return worker.serve_forever()
    finally:
        signals.gate.closed = False


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m keepwarm", description="A worker process of Keepwarm; `keepwarm run` starts it.")
    parser.add_argument("target", metavar="TARGET", help="module:attribute, module:factory(), module, or dir/file.py[:attribute]")
    parser.add_argument("--kind", choices=(target.WSGI, target.ASGI), help="kind of the application (default: detected from its signature)")
    parser.add_argument("--preload", action="store_true", help="load the application once and fork the workers from this process")
    parser.add_argument("--threads", type=_streams, default=1, metavar="N", help="limit on concurrent requests, each in a thread (WSGI; default 1)")
    parser.add_argument("--streams", type=_streams, metavar="N", help="limit on concurrent requests (ASGI; default 1000)")
    parser.add_argument("--loop", choices=("auto", "asyncio", "uvloop", "trio"), help="event loop (ASGI; default auto: uvloop if installed)")
    parser.add_argument("--lifespan", choices=("auto", "on", "off"), help="whether the application must support the lifespan protocol (ASGI; default auto)")
    return parser.parse_args(arguments)


def _streams(text):
    number = int(text)
    if not 1 <= number <= 65_535:
        raise argparse.ArgumentTypeError("must be from 1 to 65535")
    return number


if __name__ == "__main__":
    sys.exit(main())
