"""Runs `.phpt` suites of PHP's own source in a warm worker, twice each, beside php-cgi: `python3 -m phpt SOURCE [FOLDER or FILE ...]`.

Says which scripts differ, and ends with status 1 when one does that `known.txt` does not name, or one that it names does not.
"""

import collections
import concurrent.futures
import os
import pathlib
import sys

from phpt.runs import Place
from phpt.script import Script

KNOWN = pathlib.Path(__file__).with_name("known.txt")
FOLDERS = ("tests/basic", "tests/output", "tests/func", "ext/session/tests", "ext/filter/tests", "ext/standard/tests/general_functions")


def judge(path):
    """How far a script comes: what it is counted as, and why it fails."""
    script = Script(path)
    if not script.supported:
        return "unsupported", ""
    with Place(script) as place:
        if place.skipped():
            return "skipped", ""
        if not script.accepts(*place.under_cgi(wrapped=False)):
            return "fails in php-cgi", ""
        if not script.accepts(*place.under_cgi(wrapped=True)):
            return "wants to be the main script", ""
        responses = place.warm()
    if not script.accepts(*responses[0][:2]):
        return "first", shown(responses[0])
    if "a fatal error ended this worker" in responses[0][2]:
        return "ends by a fatal error", ""
    if len(responses) == 1:
        return "replaced", ""
    if any(text in responses[1][0].decode("latin-1") + responses[1][2] for text in ("Cannot redeclare", "Cannot declare", "already defined", "cannot be used twice")):
        return "declares", ""
    return ("same", "") if script.accepts(*responses[1][:2]) else ("second", shown(responses[1]))


def shown(response):
    return f"{response[0][-1500:].decode('latin-1')}\n   headers {response[1]}\n   log {response[2][-700:]}"


def main(source, folders):
    paths = [path for folder in folders for path in ([source / folder] if (source / folder).is_file() else sorted((source / folder).rglob("*.phpt")))]
    known = dict(line.split(None, 1) for line in KNOWN.read_text().splitlines() if line and not line.startswith("#"))
    counts = collections.Counter()
    differing = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, (kind, why) in zip(paths, pool.map(judge, paths)):
            counts[kind] += 1
            if kind in ("first", "second"):
                name = str(path.relative_to(source))
                differing[name] = kind
                print(f"{kind:7} {name}" + (f": {known[name]}" if name in known else f"\n{why}"))
    for kind, count in counts.most_common():
        print(f"{count:5} {kind}")
    ran = {str(path.relative_to(source)) for path in paths}
    new, gone = sorted(set(differing) - set(known)), sorted(name for name in known if name in ran and name not in differing)
    for name in new:
        print(f"not known to differ: {name} ({differing[name]})")
    for name in gone:
        print(f"no longer differs: {name}")
    return 1 if new or gone or not paths else 0


if __name__ == "__main__":
    arguments = [pathlib.Path(argument) for argument in sys.argv[1:]]
    sys.exit(main(arguments[0].resolve(), arguments[1:] or FOLDERS))
