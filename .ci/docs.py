#!/usr/bin/env python3
"""Checks the documentation: links within the repository lead somewhere, and every TOML example is a configuration that `keepwarm` accepts.

    .ci/docs.py BINARY

Standard library only. Ends with status 1 when something does not hold.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = {"target", ".venv", ".git", "node_modules"}
# Generated: its examples are single keys, tested where they are defined.
WITHOUT_EXAMPLES = {"docs/reference/configuration.md"}


def main(binary):
    faults = []
    for page in sorted(ROOT.rglob("*.md")):
        if SKIPPED & set(page.relative_to(ROOT).parts):
            continue
        text = page.read_text()
        faults += broken_links(page, text)
        if str(page.relative_to(ROOT)) not in WITHOUT_EXAMPLES:
            faults += wrong_examples(page, text, binary)
    for fault in faults:
        print(f"docs: {fault}", file=sys.stderr)
    return 1 if faults else 0


def broken_links(page, text):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page.relative_to(ROOT)}: {target} is not there"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"{page.relative_to(ROOT)}: {target} names no heading"


def anchors(text):
    """Headings as the usual renderers name them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ +(.*)$", text, re.M)}


def wrong_examples(page, text, binary):
    for match in re.finditer(r"^```toml\n(.*?)^```", text, re.M | re.S):
        line = text[: match.start()].count("\n") + 2
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "keepwarm.toml"
            file.write_text(match[1])
            # What an example names may be included; it need not hold anything.
            (pathlib.Path(folder) / "conf.d").mkdir()
            (pathlib.Path(folder) / "conf.d/empty.toml").touch()
            # What an example serves is there, and empty.
            for served in ["public/assets", "var/files"]:
                (pathlib.Path(folder) / served).mkdir(parents=True)
            for script in ["public/index.php", "keepwarm.php"]:
                (pathlib.Path(folder) / script).write_text("<?php\n")
            (pathlib.Path(folder) / "config.ru").touch()
            (pathlib.Path(folder) / "site").touch(mode=0o755)
            command = [binary, "run", "--config", file, "--dry-run"]
            result = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            yield f"{page.relative_to(ROOT)}:{line}: this example is refused:\n{result.stdout}{result.stderr}"


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
