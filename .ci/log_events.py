#!/usr/bin/env python3
"""Generates docs/reference/log-events.md from the log records in the code: `.ci/log_events.py --write`. Without an option it checks that the page is
up to date and that each record has a stable name: `tracing::warn!(name: "breaker_opened", …)`. Standard library only.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/log-events.md"

# The sections of the page, and the sources of their records.
PARTS = [
    ("The process", ["crates/keepwarm/src"]),
    ("Connections and requests", ["crates/net/src", "crates/serve/src"]),
    ("Routes and files", ["crates/edge/src"]),
    ("Supervision of workers", ["crates/workers/src/supervisor"]),
    ("Requests to apps", ["crates/workers/src/dispatch"]),
    ("Upstreams and doors", ["crates/egress/src"]),
    ("Certificates", ["crates/acme/src"]),
    ("Logs, stalls and bugs", ["crates/telemetry/src"]),
]

HEAD = """# Log events

Generated from the log records in the code by `make docs`; `keepwarm explain EVENT` prints an entry.

Each record of [the log](../operate/logs.md) is an event with a stable name. With `format = "json"` the name is the
member `event`; a text record has the message only. `…` stands for a detail of the case. Fields are members of the JSON
object, or `name=value` in text; a field without a value is left out. Error responses have the event `error_response`
and a [reason](errors.md).
"""

CALL = re.compile(r"\b(?:tracing::(error|warn|info|debug|trace|event)|(log_worker)|(log_process))!\(")
# Fields that `log_worker!` adds.
WORKER_FIELDS = ["app", "worker", "pid", "generation"]
# Fields that `log_process!(level, subject, "name", …)` adds.
PROCESS_FIELDS = ["process", "number", "pid"]


def main():
    faults = []
    text = HEAD + "".join(part(title, directories, faults) for title, directories in PARTS)
    covered = {path for _, directories in PARTS for path in sources_of(directories)}
    for path in sources(ROOT / "crates"):
        if path not in covered and next(calls(path.read_text()), None):
            faults.append(f"{path.relative_to(ROOT)}: has log records, but no section of {PAGE.name} includes it; add it to PARTS in .ci/log_events.py")
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        faults.append(f"{PAGE.relative_to(ROOT)} is out of date; run .ci/log_events.py --write")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def sources(directory):
    """The shipped files, without tests."""
    files = sorted(directory.rglob("*.rs"))
    return [path for path in files if "tests" not in path.relative_to(ROOT).parts and path.name != "tests.rs"]


def sources_of(directories):
    return [path for directory in directories for path in sources(ROOT / directory)]


def part(title, directories, faults):
    """A section of the page, with a row for each event and message."""
    rows = {}
    for path in sources_of(directories):
        text = path.read_text()
        for line, level, args in calls(text):
            name, message, fields = read(args)
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                faults.append(f"{path.relative_to(ROOT)}:{line}: the log record has no stable name; start it with `name: \"…\"`")
            row = rows.setdefault((name, message), (set(), []))
            row[0].add(level)
            row[1].extend(field for field in fields if field not in row[1])
    out = f"\n## {title}\n\n| event | level | message | fields |\n|---|---|---|---|\n"
    for (name, message), (levels, fields) in sorted(rows.items()):
        names = ", ".join(f"`{field}`" for field in fields)
        out += f"| `{name}` | {', '.join(sorted(levels))} | {message} | {names} |\n"
    return out


def calls(text):
    """Line, level and arguments of each record."""
    for found in CALL.finditer(text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if before.lstrip().startswith("//") or "macro_rules" in before:
            continue
        args = arguments(text, found.end())
        line = text.count("\n", 0, found.start()) + 1
        if any("$" in arg and arg.startswith("name:") for arg in args):
            # The definition of one of our macros; its uses are found separately.
            continue
        if found[2]:
            args = [f"name: {args[2]}", *WORKER_FIELDS, *args[3:]]
        if found[3]:
            yield line, args[0], [f"name: {args[2]}", *PROCESS_FIELDS, *args[3:]]
            continue
        level = {"event": "error, warn, info"}.get(found[1], found[1]) or "info"
        yield line, level, args


def arguments(text, start):
    """The arguments of a macro, split at commas outside of brackets and strings."""
    args, depth, quoted, at, begin = [], 1, False, start, start
    while True:
        char = text[at]
        if char == "\\" and quoted:
            at += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "([{":
            depth += 1
        elif not quoted and char in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif not quoted and char == "," and depth == 1:
            args.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    args.append(text[begin:at].strip())
    return [" ".join(arg.split()) for arg in args if arg]


def read(args):
    """Name, message and names of fields."""
    name, message, fields = "", "", []
    for arg in args:
        if arg.startswith("name:"):
            name = arg.partition(":")[2].strip().strip('"')
        elif arg.startswith('"') and not message:
            message = re.sub(r"\{[^{}]*\}", "…", arg.strip('"').replace("\\ ", "").replace('\\"', '"')).replace("|", "\\|")
        elif not message and not arg.startswith(("target:", "$")):
            fields.append(re.split(r"\s*=", arg)[0].strip("%?"))
    return name, message, fields


if __name__ == "__main__":
    sys.exit(main())
