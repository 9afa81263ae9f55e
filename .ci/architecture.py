#!/usr/bin/env python3
"""Checks the architecture: which crate may depend on which, that every dependency has a reason, and that the map names existing paths.

Reads `cargo metadata` and ARCHITECTURE.md; standard library only. Prints its findings and exits with status 1 if a rule is broken.
The lengths of files and functions are reported for reviewers and never fail the check.
"""

import ast
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The five crates that take bytes and `now`, and return events and decisions.
SANS_IO = {"http1", "wire", "proxy-protocol", "policy", "config"}
# Sisters: only the binary combines them.
SISTERS = {"edge", "workers", "egress"}
# Crates that a sans-IO crate must not reach, at any depth.
IO_CRATES = {"tokio", "mio", "socket2", "rustix", "libc", "nix", "async-std", "smol", "hyper"}

# The allowed dependencies within the workspace; all others are forbidden.
ALLOWED = {
    "http1": set(),
    "wire": set(),
    "proxy-protocol": set(),
    "policy": set(),
    "config": set(),
    "telemetry": set(),
    "net": {"http1", "policy", "telemetry"},
    # The server's side, above `net`: sockets, TLS and the pool never depend on a request.
    "serve": {"net", "http1", "policy", "proxy-protocol", "telemetry"},
    "edge": {"net", "serve", "http1", "policy", "telemetry"},
    "workers": {"net", "serve", "http1", "wire", "policy", "telemetry"},
    "egress": {"net", "serve", "http1", "policy", "telemetry"},
    # On the control thread only; what listeners need of it, the binary gives them.
    "acme": {"policy"},
    # Uses `net` alone, without `serve`.
    "doctor": {"net", "http1"},
    # Files are read by it alone: what is found does not depend on how it is served.
    "discover": set(),
    # Texts of other servers in, a text out: it knows nothing of the running server.
    "convert": set(),
    "keepwarm": {
        "acme", "config", "convert", "discover", "doctor", "edge", "egress", "http1", "net", "policy", "serve", "telemetry", "workers",
    },
    # End to end, through the binary and nothing else.
    "tests": set(),
    # The work of one message, without a server.
    "bench-micro": {"edge", "http1", "wire"},
    "bench-relay": set(),
}

# Not part of the product: their other dependencies need no reason.
OUTSIDE = {"tests", "bench-micro", "bench-relay"}

# Modules outside the standard library that an adapter may import, and why.
OPTIONAL_MODULES = {
    "uvloop": "the event loop, used when the application's environment has it",
    "trio": "what an application of Trio runs in, when `loop = \"trio\"` says so",
}

LONG_FILE = 400
LONG_FUNCTION = 60


def main():
    metadata = cargo_metadata()
    faults = []
    faults += check_directions(metadata)
    faults += check_sans_io(metadata)
    faults += check_unsafe(metadata)
    faults += check_reasons(metadata)
    faults += check_places()
    faults += check_adapters()
    report_lengths()
    for fault in faults:
        print(f"architecture: {fault}", file=sys.stderr)
    return 1 if faults else 0


def cargo_metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def members(metadata):
    """The workspace's packages by their short names (`keepwarm-net` is `net`)."""
    inside = set(metadata["workspace_members"])
    return {short(p["name"]): p for p in metadata["packages"] if p["id"] in inside}


def short(name):
    return name.removeprefix("keepwarm-")


def check_directions(metadata):
    packages = members(metadata)
    for name, package in packages.items():
        if name not in ALLOWED:
            yield f"crate {name} is not in the table of .ci/architecture.py; add what it may depend on"
            continue
        for dependency in package["dependencies"]:
            target = short(dependency["name"])
            # A crate's tests may use crates next to it, but not a sister.
            if dependency["kind"] == "dev" and not (name in SANS_IO or {name, target} <= SISTERS):
                continue
            if target in packages and target not in ALLOWED[name]:
                yield f"{name} must not depend on {target} ({dependency['kind'] or 'normal'} dependency)"


def check_sans_io(metadata):
    """Follows the resolved graph, so that IO does not come in through a third crate."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    packages = members(metadata)
    for name in sorted(SANS_IO & packages.keys()):
        seen, waiting = set(), [packages[name]["id"]]
        while waiting:
            for dependency in nodes[waiting.pop()]["deps"]:
                normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
                if normal and dependency["pkg"] not in seen:
                    seen.add(dependency["pkg"])
                    waiting.append(dependency["pkg"])
        for reached in sorted(names[each] for each in seen):
            if reached in IO_CRATES:
                yield f"{name} is sans-IO and must not reach {reached}"
        lints = pathlib.Path(packages[name]["manifest_path"]).with_name("clippy.toml")
        if not lints.exists() or "disallowed-methods" not in lints.read_text():
            yield f"{name} is sans-IO and has no clippy.toml that bans clocks, sockets and files"


def check_unsafe(metadata):
    """`unsafe` is forbidden everywhere except in `net`, which may allow it in one named module."""
    for name, package in members(metadata).items():
        manifest = pathlib.Path(package["manifest_path"])
        text = manifest.read_text()
        forbidden = re.search(r"^\[lints\]\nworkspace = true", text, re.M) or 'unsafe_code = "forbid"' in text
        if not forbidden and not (name == "net" and 'unsafe_code = "deny"' in text):
            yield f"{name} does not forbid unsafe code"
        if name == "net":
            opened = [p.name for p in manifest.parent.rglob("*.rs") if re.search(r"(expect|allow)\(\s*unsafe_code", p.read_text())]
            if len(opened) > 1:
                yield f"net allows unsafe code in more than one module: {', '.join(sorted(opened))}"


def check_reasons(metadata):
    """Every direct normal dependency has a row `| `name` | reason |` in ARCHITECTURE.md, and no row is left over."""
    document = ROOT / "ARCHITECTURE.md"
    section = re.search(r"^## Dependencies\n(.*?)(?=^## |\Z)", document.read_text(), re.M | re.S)
    if not section:
        yield "ARCHITECTURE.md has no section `Dependencies`"
        return
    rows = dict(re.findall(r"^\| `([^`]+)` \|(.*)\|$", section[1], re.M))
    packages = members(metadata)
    used = {
        dependency["name"]
        for name, package in packages.items() if name not in OUTSIDE
        for dependency in package["dependencies"]
        if dependency["kind"] in (None, "build") and short(dependency["name"]) not in packages
    }
    for name in sorted(used):
        if not rows.get(name, "").strip(" |"):
            yield f"dependency {name} has no reason in ARCHITECTURE.md"
    for name in sorted(rows.keys() - used):
        yield f"ARCHITECTURE.md gives a reason for {name}, which nothing depends on"


def check_places():
    """Every path in backticks in the table `Where do I change …` of ARCHITECTURE.md exists. A path is a word with a slash inside."""
    section = re.search(r"^## Where do I change[^\n]*\n(.*?)(?=^## |\Z)", (ROOT / "ARCHITECTURE.md").read_text(), re.M | re.S)
    rows = re.findall(r"^\|.*\|$", section[1] if section else "", re.M)
    if not rows:
        yield "ARCHITECTURE.md has no table `Where do I change …`"
        return
    for path in re.findall(r"`(\w[^`\s]*/[^`\s]*|\.\w[^`\s]*/[^`\s]*)`", "\n".join(rows)):
        where = ROOT / path
        if not where.exists() or path.endswith("/") != where.is_dir():
            yield f"ARCHITECTURE.md says to change {path}, which does not exist"


def check_adapters():
    """An adapter imports its language's standard library and itself."""
    for source in sorted((ROOT / "adapters/python/src").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(), str(source))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported = [node.module]
            else:
                continue
            for module in (name.partition(".")[0] for name in imported):
                if module not in sys.stdlib_module_names and module != "keepwarm" and module not in OPTIONAL_MODULES:
                    yield f"{source.relative_to(ROOT)}:{node.lineno} imports {module}, which is not in the standard library"


def report_lengths():
    """Lists long files and functions: tables and tests may be long, logic rarely should be."""
    files, functions = [], []
    for source in sorted([*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("adapters/*/src/**/*.py")]):
        lines = source.read_text().splitlines()
        where = source.relative_to(ROOT)
        if source.name == "tests.rs":
            continue
        if len(lines) > LONG_FILE:
            files.append((len(lines), str(where)))
        functions += [(length, f"{where}:{line} {name}") for line, name, length in function_lengths(source, lines)
                      if length > LONG_FUNCTION]
    for kind, limit, found in (("files", LONG_FILE, files), ("functions", LONG_FUNCTION, functions)):
        print(f"{kind} over {limit} lines: {len(found)}")
        for length, name in sorted(found, reverse=True):
            print(f"  {length:5} {name}")


def function_lengths(source, lines):
    if source.suffix == ".py":
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.lineno, node.name, node.end_lineno - node.lineno + 1
        return
    # rustfmt puts the closing brace of a function at the indentation of its `fn`.
    opened = None
    for number, line in enumerate(lines, 1):
        head = re.match(r"( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?fn (\w+)", line)
        if head and not line.rstrip().endswith((";", "}")):
            opened = (len(head[1]), number, head[2])
        elif opened and line.rstrip() == " " * opened[0] + "}":
            yield opened[1], opened[2], number - opened[1] + 1
            opened = None


if __name__ == "__main__":
    sys.exit(main())
