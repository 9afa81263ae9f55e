"""An ASGI worker: start-up, requests until Keepwarm says DRAIN, shut-down."""

import asyncio
import os
import signal
import sys

from keepwarm import log, process, profile, stacks, usual
from keepwarm.asgi_connection import Asyncio
from keepwarm.asgi_lifespan import Lifespan
from keepwarm.errors import LoadError
from keepwarm.asgi_websocket import WebSocketStream

_STREAMS = 1_000  # requests at once, unless told otherwise
_LOST_GRACE = 5.0  # seconds that requests have to finish once Keepwarm, which would otherwise end them, has gone


def run(sock, application, options, pairs):
    """Serves until the end; gives the process's exit status."""
    sock.setblocking(False)
    try:
        loop = _new_loop(options.loop)
        loop.set_debug(_is_debugging())
        if options.loop == "trio":
            from keepwarm import asgi_trio  # Trio, which few applications have
    except LoadError as error:
        log.error(error)
        return 1
    asyncio.set_event_loop(loop)
    try:
        serve = _serve if options.loop != "trio" else asgi_trio.serving(_serve)
        return loop.run_until_complete(serve(loop, sock, application, options, pairs))
    finally:
        _close(loop)


async def _serve(loop, sock, application, options, pairs):
    connection = Asyncio(loop, application, WebSocketStream, options.streams or _STREAMS)
    process.keep_from_children(sock.fileno(), connection)
    await loop.create_unix_connection(lambda: connection, sock=sock)
    if await connection.welcome is None:
        return connection.exit_status
    lifespan = Lifespan(application, options.lifespan)
    startup = loop.create_task(lifespan.startup())
    await asyncio.wait((startup, connection.wire_end), return_when=asyncio.FIRST_COMPLETED)
    if not startup.done():
        return connection.exit_status
    try:
        startup.result()
    except LoadError as error:
        log.error(error)
        return 1
    connection.state = lifespan.state
    loop.add_signal_handler(signal.SIGTERM, connection.ask_to_drain)
    process.on_quit(lambda: stacks.write_all(loop))
    profile.LoopProfile(connection)
    process.settle_memory()
    connection.say_hello(pairs)
    await _until_finished(connection)
    await lifespan.shutdown()
    return connection.exit_status


async def _until_finished(connection):
    await asyncio.wait((connection.finished, connection.wire_end), return_when=asyncio.FIRST_COMPLETED)
    if not connection.finished.done():
        await asyncio.wait((connection.finished,), timeout=_LOST_GRACE)


def _new_loop(choice):
    """uvloop's where it is installed, unless the choice is another."""
    if choice in ("auto", "uvloop"):
        try:
            import uvloop
        except ImportError:
            if choice == "uvloop":
                raise LoadError(f'loop = "uvloop" requires the package uvloop, which is not installed for {usual.interpreter()}') from None
        else:
            return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def _is_debugging():
    """As asyncio's own loop decides; uvloop's looks at one of the two."""
    return sys.flags.dev_mode or (not sys.flags.ignore_environment and bool(os.environ.get("PYTHONASYNCIODEBUG")))


def _close(loop):
    """What `asyncio.run` does at its end, which only newer versions offer for a loop of one's own."""
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
