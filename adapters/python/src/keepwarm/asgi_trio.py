"""An ASGI application that runs in Trio, on a wire that asyncio reads.

Trio runs as a guest of the asyncio loop (`trio.lowlevel.start_guest_run`): both in the main thread, by turns. Each call of the application is a task of
Trio's; what it receives and sends is a task of asyncio's, for whose end Trio's waits. A cancellation passes either way.
"""

import asyncio
import functools

from keepwarm import stacks, usual
from keepwarm.errors import LoadError

try:
    import trio
except ImportError:
    raise LoadError(f'loop = "trio" requires the package trio, which is not installed for {usual.interpreter()}') from None


def serving(serve):
    """`serve(loop, sock, application, …)`, with the application in Trio."""

    async def serve_in_trio(loop, sock, application, *rest):
        host = _Host(loop, application)
        await host.started
        try:
            return await serve(loop, sock, host, *rest)
        finally:
            await host.stop()

    return serve_in_trio


class _Host:
    """Runs Trio, and is the application for asyncio."""

    def __init__(self, loop, application):
        self._loop = loop
        self._application = application
        self._token = self._nursery = None
        self._stopping = False
        self._ended = loop.create_future()
        self.started = loop.create_future()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=self._ended.set_result,
            restrict_keyboard_interrupt_to_checkpoints=True,
        )

    async def __call__(self, scope, receive, send):
        """Called by asyncio: the application's end is its end."""
        end = self._loop.create_future()
        cancelling = trio.CancelScope()
        caller, called = asyncio.current_task(), []
        stacks.elsewhere[caller] = lambda: _standing(called)
        self._token.run_sync_soon(self._nursery.start_soon, self._call, called, cancelling, end, scope, receive, send)
        try:
            error = await asyncio.shield(end)
        except asyncio.CancelledError:
            self._token.run_sync_soon(cancelling.cancel)
            error = await end or asyncio.CancelledError()
        finally:
            stacks.elsewhere.pop(caller, None)
        if error is not None:
            raise error

    async def stop(self):
        """Ends Trio, and with it what the application has left running."""
        self._stopping = True
        self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
        outcome = await self._ended
        outcome.unwrap()

    async def _main(self):
        async with trio.open_nursery() as nursery:
            self._token, self._nursery = trio.lowlevel.current_trio_token(), nursery
            self.started.set_result(None)
            await trio.sleep_forever()

    async def _call(self, called, cancelling, end, *arguments):
        """In Trio: gives `end` what the application has raised, or None. `called`: a list for its task."""
        called.append(trio.lowlevel.current_task())
        scope, receive, send = arguments
        error = None
        try:
            with cancelling:
                await self._application(scope, functools.partial(self._asyncio, receive), functools.partial(self._asyncio, send))
            if cancelling.cancelled_caught:
                error = asyncio.CancelledError()
        except BaseException as raised:
            error = raised
            if self._stopping:
                raise
        finally:
            end.set_result(error)

    async def _asyncio(self, function, *arguments):
        """In Trio: calls a coroutine function of asyncio's."""
        await trio.lowlevel.checkpoint_if_cancelled()
        waiting = trio.lowlevel.current_task()
        called = self._loop.create_task(function(*arguments))
        called.add_done_callback(lambda _: self._token.run_sync_soon(trio.lowlevel.reschedule, waiting))

        def abort(_):
            called.cancel()
            return trio.lowlevel.Abort.FAILED  # it is rescheduled once that has ended

        await trio.lowlevel.wait_task_rescheduled(abort)
        if called.cancelled():
            await trio.lowlevel.checkpoint_if_cancelled()
        return called.result()


def _standing(called):
    """As in `stacks.elsewhere`: these tasks of Trio, then those that they have started."""
    found = [(None, task.coro) for task in called]
    tasks = list(called)
    while tasks:
        task = tasks.pop(0)
        children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        found += [(f"Task {child.name}, started by it", child.coro) for child in children]
        tasks += children
    return found
