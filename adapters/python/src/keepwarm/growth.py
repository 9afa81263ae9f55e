"""What requests leave behind: how what this process holds has changed after each, while Keepwarm measures it (spec/wire.md §11).

Imported at the first LEAKS, so that a worker which is never measured has nothing of it. Nothing here keeps anything of the application alive: between two
measurements there are names and numbers.
"""

import gc
import os
import sys
import threading
import time
import tracemalloc
from collections import Counter

from keepwarm import held, log, wire
from keepwarm.profile import short_path

_MOST_OF_A_FORM = 66  # changes: the largest; with `memory`, at most 199
_NAME = 300  # characters
_SMALL = 512  # bytes: what pymalloc allocates by itself, and counts
_SWEEPS = 3  # of the collector at most, each for what the finalizers of the one before have let go of

# Whose memory is not the application's: what measures, and what loads modules, once each.
_NOT_MEASURED = (tracemalloc.__file__, held.__file__, "<frozen importlib", os.path.join(os.path.dirname(os.__file__), "importlib"), "<unknown>")


class Growth:
    """From LEAKS until its end.

    `since`: the last stream before it; later ones are measured. `most`: what the connection's was.
    """

    __slots__ = ("since", "most", "traces", "thaws", "memory", "counts", "made", "blocks", "small", "lengths", "local_lengths", "is_complete")

    def __init__(self, since, most):
        self.since = since
        self.most = most
        self.traces = not tracemalloc.is_tracing()  # or the application does, and goes on after the end
        if self.traces:
            tracemalloc.start(1)
        self.thaws = gc.get_freeze_count() > 0  # what was loaded before the first request: the collector does not say what of it is still there
        if self.thaws:
            gc.unfreeze()
        self.memory = self.blocks = self.small = 0
        self.counts, self.made, self.lengths = {}, {}, {}
        self.local_lengths = {}  # by thread
        self.is_complete = True

    def end(self, is_idle):
        """No more is measured. `is_idle`: no request is running, whose garbage would stay for ever."""
        if self.traces:
            tracemalloc.stop()
        if self.thaws and is_idle:
            gc.collect()
            gc.freeze()

    def begin_frame(self):
        """The response to LEAKS: nothing has changed yet."""
        begun = time.perf_counter_ns()
        self._changes_or_none()
        return wire.growth(0, _microseconds_since(begun), [])

    def frame(self, request):
        """What has changed since the last one."""
        begun = time.perf_counter_ns()
        changes = [(name.encode("utf-8", "replace"), b"%d" % change) for name, change in self._changes_or_none()]
        return wire.growth(request, _microseconds_since(begun), changes)

    def _changes_or_none(self):
        """What cannot be counted must not end the worker."""
        try:
            return self._changes()
        except Exception as error:
            log.exception(error, "what this request has left behind could not be counted", log.warning)
            return []

    def _changes(self):
        """Pairs of name and change, the largest of each form. Called with as many frames on the stack each time: those are objects, too."""
        _collect()
        blocks = sys.getallocatedblocks()
        found = held.Search()
        lengths, local_lengths, is_complete = found.lengths, found.local_lengths, found.is_complete
        del found
        counts = _counts()
        made, memory, small = _made()
        changes = _largest("object;", _difference(self.counts, counts))
        changes += _largest("held;", self._held_difference(lengths, local_lengths, is_complete))
        if not self._replaces(blocks, small):
            changes += [("memory", memory - self.memory)] if memory != self.memory else []
            changes += _largest("made;", _difference(self.made, made))
        self.memory, self.counts, self.made = memory, counts, made
        self.blocks, self.small = blocks, small
        return changes

    def _replaces(self, blocks, small):
        """Whether what was made has come in the place of what was made before anything was traced, whose memory is not known: there are more small blocks
        that are traced, and not more blocks."""
        more = small - self.small
        return more > 0 and blocks > 0 and 2 * (blocks - self.blocks) < more  # without pymalloc, no number of blocks is known

    def _held_difference(self, lengths, local_lengths, is_complete):
        """Where a search was not complete, a name that only one of the two has found says nothing. What is a thread's is compared with the same thread's."""
        both_complete = is_complete and self.is_complete
        changes = _difference(self.lengths, lengths, both_complete)
        ident = threading.get_ident()
        before = self.local_lengths.get(ident)
        if before is not None:
            changes.update(_difference(before, local_lengths, both_complete))
        self.lengths, self.is_complete = lengths, is_complete
        if before is not None or len(self.local_lengths) < held.MOST_THREADS:
            self.local_lengths[ident] = local_lengths
        return changes


def _microseconds_since(begun):
    return min((time.perf_counter_ns() - begun) // 1_000, 2**32 - 1)


# The interpreter keeps the names of attributes that were looked up last, up to 4,096: strings that code has put together as well.
_forget_names = getattr(sys, "_clear_internal_caches", None) or getattr(sys, "_clear_type_cache", None) or (lambda: None)


def _collect():
    _forget_names()
    for _ in range(_SWEEPS):
        if not gc.collect():
            return


def _counts():
    """How many objects there are of each type, by its name: of those that the collector knows, which are all that can refer to others."""
    counts = {}
    for kind, count in Counter(map(type, gc.get_objects())).items():
        name = held.type_name(kind)
        if not name.startswith("keepwarm."):
            counts[name] = counts.get(name, 0) + count
    return counts


def _made():
    """Bytes by the line that has made what takes them, of all together, and the number of small blocks."""
    lines, blocks = {}, {}
    for _, size, frames, *_ in tracemalloc.take_snapshot().traces._traces:
        line = frames[0]
        lines[line] = lines.get(line, 0) + size
        if size <= _SMALL:
            blocks[line] = blocks.get(line, 0) + 1
    theirs = [line for line in lines if not _is_ours(line[0])]
    made = {}
    for line in theirs:
        name = f"{short_path(line[0])}:{line[1]}"
        made[name] = made.get(name, 0) + lines[line]
    return made, sum(made.values()), sum(blocks.get(line, 0) for line in theirs)


def _is_ours(file):
    return log.is_own(file) or file.startswith(_NOT_MEASURED)


def _difference(before, after, both_complete=True):
    """What has changed, by name."""
    changes = {}
    for name, number in after.items():
        change = number - before.get(name, 0 if both_complete else number)
        if change:
            changes[name] = change
    if both_complete:
        for name, number in before.items():
            if number and name not in after:
                changes[name] = -number
    return changes


def _largest(form, changes):
    """Pairs of the largest changes; names in a form that can be sent."""
    largest = sorted(changes.items(), key=lambda pair: -abs(pair[1]))[:_MOST_OF_A_FORM]
    cleaned = {}
    for name, change in largest:
        name = form + held.cleaned(name)[:_NAME]
        cleaned[name] = cleaned.get(name, 0) + change  # two long names may have the same beginning
    return [(name, change) for name, change in cleaned.items() if change]
