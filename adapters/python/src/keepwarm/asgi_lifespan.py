"""The application's start-up and shut-down (ASGI lifespan 2.0)."""

import asyncio
import traceback

from keepwarm import log
from keepwarm.errors import LoadError


_LAST_WORDS = 0.5  # seconds that an application has to raise the exception after it reported a failure


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
        self._outcomes = {"startup": asyncio.Event(), "shutdown": asyncio.Event()}
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
            raise LoadError("the application's startup failed" + await self._reason("startup"))
        if self._outcomes["startup"].is_set():
            return
        self.supported = False  # the application left without a response: it raised, or returned
        if isinstance(self._error, SystemExit):
            log.exception(self._error, f"the application called sys.exit({self._error.code!r}) during startup")
            raise self._error
        if self.mode == "on":
            cause = "." if self._error is None else f"\n{log.formatted(self._error)}"
            raise LoadError(f'the application does not support the lifespan protocol, which lifespan = "on" requires{cause}')
        if self._error is None:
            return
        if self._taken:
            log.exception(self._error, 'the application raised an exception during startup and is served without lifespan; to treat this as an error, set lifespan = "on"')
        elif _knows_no_lifespan(self._error):
            log.write(f"the application does not support the lifespan protocol: called for it, it raised {_summary(self._error)}")
        else:
            # It may have meant to start up, and failed before it asked what for.
            log.exception(self._error, "the application raised an exception when called for startup, and is served without lifespan", log.warning)

    async def shutdown(self):
        """Tells the application that no request will come. What goes wrong is logged."""
        if not self.supported or self._task is None:
            return
        if not self._task.done():
            await self._ask("shutdown")
        if "shutdown" in self._failure:
            log.error("the application's shutdown failed" + await self._reason("shutdown"))

    async def _reason(self, phase):
        """The text after "failed": the exception that the application raises after it reported the failure, with its causes; else its message."""
        await asyncio.wait((self._task,), timeout=_LAST_WORDS)
        text = self._failure[phase].strip()
        if self._error is None:
            return (f"\n{text}" if "\n" in text else f": {text}") if text else "."
        said = f": {text}" if text and "\n" not in text and text not in str(self._error) else ""
        return f"{said}\n{log.formatted(self._error)}"

    async def _ask(self, phase):
        self._messages.put_nowait({"type": f"lifespan.{phase}"})
        responded = asyncio.ensure_future(self._outcomes[phase].wait())
        await asyncio.wait((responded, self._task), return_when=asyncio.FIRST_COMPLETED)
        responded.cancel()

    async def _run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.application(scope, self._receive, self._send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._error = error
            if self._outcomes["startup"].is_set() and not self._failure:
                log.exception(error)

    async def _receive(self):
        message = await self._messages.get()
        self._taken = True
        return message

    async def _send(self, message):
        kind = message["type"]
        prefix, _, rest = kind.partition(".")
        phase, _, outcome = rest.partition(".")
        if prefix != "lifespan" or phase not in self._outcomes or outcome not in ("complete", "failed"):
            raise RuntimeError(f"{kind!r} is not a message of the lifespan protocol")
        if outcome == "failed":
            self._failure[phase] = message.get("message", "")
        self._outcomes[phase].set()


def _knows_no_lifespan(error):
    """Whether it says so, by naming what it was called for, or by no more than an assertion or a key that it did not find."""
    text = str(error)
    if "lifespan" in text or "non-HTTP scope" in text:  # the second is asgiref's `WsgiToAsgi`
        return True
    return isinstance(error, (AssertionError, NotImplementedError, KeyError))


def _summary(error):
    """An exception in one line, with the line of the application that raised it."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", " ")
    frames = traceback.extract_tb(log.own_frames_removed(error.__traceback__))
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text
