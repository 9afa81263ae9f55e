"""The application's start-up and shut-down (ASGI lifespan 2.0)."""

import asyncio
import traceback

from keepwarm import log
from keepwarm.errors import LoadError


class Lifespan:
    """`startup` before the first request, `shutdown` after the last; `state` is what requests get a copy of.

    `mode`: `auto` takes an exception during start-up for "not supported", `on` for a failure, `off` does not ask.
    """

    def __init__(self, application, mode):
        self.application = application
        self.mode = mode
        self.state = {}
        self.supported = mode != "off"
        self._messages = asyncio.Queue()
        self._answers = {"startup": asyncio.Event(), "shutdown": asyncio.Event()}
        self._failure = {}
        self._error = None
        self._taken = False  # the application has begun with its start-up
        self._task = None

    async def startup(self):
        """Raises `LoadError` when the application says that it cannot start."""
        if not self.supported:
            return
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._ask("startup")
        if "startup" in self._failure:
            text = self._failure["startup"]
            raise LoadError("the application's start-up failed" + (f": {text}" if text else "."))
        if self._answers["startup"].is_set():
            return
        self.supported = False  # the application left without an answer: it raised, or returned
        if self.mode == "on":
            if self._error is not None:
                log.exception(self._error)
            raise LoadError("the application does not take part in the lifespan protocol, which --lifespan on asks for.")
        if isinstance(self._error, SystemExit):
            raise self._error
        if self._error is not None and not self._taken:
            # Most often it knows no lifespan; but it may have meant to start up, and failed before it asked what for.
            log.write(f"the application has no start-up: called for the lifespan protocol, it raised {_summary(self._error)}")
        if self._taken and self._error is not None:
            log.exception(self._error)
            log.write(
                "the application raised that in its start-up, and is served all the same, as ASGI has it: "
                "one that cannot be served says lifespan.startup.failed"
            )

    async def shutdown(self):
        """Tells the application that no request will come. What goes wrong is logged."""
        if not self.supported or self._task is None:
            return
        if not self._task.done():
            await self._ask("shutdown")
        if "shutdown" in self._failure:
            log.write(f"the application's shut-down failed: {self._failure['shutdown']}")

    async def _ask(self, phase):
        self._messages.put_nowait({"type": f"lifespan.{phase}"})
        answered = asyncio.ensure_future(self._answers[phase].wait())
        await asyncio.wait((answered, self._task), return_when=asyncio.FIRST_COMPLETED)
        answered.cancel()

    async def _run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.application(scope, self._receive, self._send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._error = error
            if self._answers["startup"].is_set():
                log.exception(error)

    async def _receive(self):
        message = await self._messages.get()
        self._taken = True
        return message

    async def _send(self, message):
        kind = message["type"]
        prefix, _, rest = kind.partition(".")
        phase, _, outcome = rest.partition(".")
        if prefix != "lifespan" or phase not in self._answers or outcome not in ("complete", "failed"):
            raise RuntimeError(f"{kind!r} is no message of the lifespan protocol")
        if outcome == "failed":
            self._failure[phase] = message.get("message", "")
        self._answers[phase].set()


def _summary(error):
    """An exception in one line, with the place in the application that raised it."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", " ")
    frames = traceback.extract_tb(log.own_frames_removed(error.__traceback__))
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text
