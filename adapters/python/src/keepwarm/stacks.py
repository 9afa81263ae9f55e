"""Where the threads of a process and the tasks of an asyncio loop stand. Tasks that wait are on no thread's stack."""

import sys
import threading
import traceback

from keepwarm import log

_MOST = 50  # tasks that are shown; a worker may have a thousand, most of which are at the same line

# asyncio's task -> a function that gives `(title, coroutine)` of each task that it waits for in another event loop; the title is None where the stack continues
elsewhere = {}


def write_threads(doing=None):
    """Writes where every thread but this one stands. `doing`: what some are at, by thread id."""
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        at = f" is at {doing[ident]}" if doing and ident in doing else ""
        log.write(f"Thread 0x{ident:016x} ({threads.get(ident, 'not of Python')}){at}:\n{''.join(traceback.format_stack(frame))}")


def write_all(loop):
    """Writes where every other thread stands, and every task, as far as there is room for it."""
    import asyncio  # which a WSGI worker need not pay for

    write_threads()
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    for task in tasks[:_MOST]:
        write(task, f"Task {task.get_name()}")
    if len(tasks) > _MOST:
        log.write(f"... and {len(tasks) - _MOST} more tasks")


def write(task, title):
    """Writes where a task stands, the innermost call last, without the adapter's own."""
    text = [f"{title}:\n", *_formatted(task.get_coro())]
    others = elsewhere[task]() if task in elsewhere else []
    for title, coroutine in others[:_MOST]:
        if title is not None:
            text.append(f"{title}:\n")
        text += _formatted(coroutine)
    if len(others) > _MOST:
        text.append(f"... and {len(others) - _MOST} more tasks\n")
    log.write("".join(text))


def frames(task):
    """The frames of a task, the innermost last, with those of the tasks that it waits for in another loop."""
    yield from _frames(task.get_coro())
    for _, coroutine in elsewhere[task]() if task in elsewhere else ():
        yield from _frames(coroutine)


def _formatted(coroutine):
    frames = [frame for frame in _frames(coroutine) if not log.is_own(frame.f_code.co_filename)]
    return traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format()


def _frames(awaited):
    """The frames of a coroutine and of those that it waits for, down to the first awaitable that is not a coroutine."""
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            frame = getattr(awaited, f"{kind}_frame", None)
            if frame is not None:
                yield frame
                break
        else:
            return
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
