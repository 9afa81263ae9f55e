#!/usr/bin/env python3
"""Writes the vectors beside this file. Standard library only.

    python3 spec/vectors/generate.py            write them
    python3 spec/vectors/generate.py --check    fail when they are not fresh

The encoder in generator/forms.py is written from spec/wire.md and from nothing else, so that the vectors are a second
opinion on every implementation. README.md describes the format.
"""

import json
import os
import sys

from generator import faults, frames, transcripts, transcripts_faulty


def sessions():
    yield from transcripts.good_sessions()
    yield from transcripts_faulty.worker_faults()
    yield from transcripts_faulty.keepwarm_faults()


FILES = {
    "frames.json": frames.frames,
    "faults.json": faults.faults,
    "partials.json": frames.partials,
    "sessions.json": sessions,
}


def render(vectors):
    """One vector a line, so that a diff shows which one changed."""
    vectors = list(vectors)
    names = [(v["name"], v.get("from")) for v in vectors]
    doubled = {n for n in names if names.count(n) > 1}
    assert not doubled, doubled
    lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in vectors)
    return "[\n" + lines + "\n]\n"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    stale = []
    for name, vectors in FILES.items():
        path, fresh = os.path.join(here, name), render(vectors())
        if "--check" in sys.argv[1:]:
            with open(path, encoding="ascii") as file:
                if file.read() != fresh:
                    stale.append(name)
        else:
            with open(path, "w", encoding="ascii") as file:
                file.write(fresh)
    if stale:
        sys.exit("not fresh: %s; run python3 spec/vectors/generate.py" % ", ".join(stale))


if __name__ == "__main__":
    main()
