#!/usr/bin/env python3
"""Checks the documentation: links within the repository resolve, and `keepwarm` accepts every TOML example.

    .ci/docs.py BINARY

Standard library only. Exits with status 1 if a check fails.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = {"target", ".venv", ".git", "node_modules"}
# Generated; its examples are single keys, which are tested where they are defined.
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
            yield f"{page.relative_to(ROOT)}: {target} does not exist"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"{page.relative_to(ROOT)}: {target} matches no heading"


def anchors(text):
    """Anchors of the headings, as the usual renderers generate them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            for heading in re.findall(r"^#+ +(.*)$", text, re.M)}


def wrong_examples(page, text, binary):
    for match in re.finditer(r"^```toml\n(.*?)^```", text, re.M | re.S):
        line = text[: match.start()].count("\n") + 2
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "keepwarm.toml"
            file.write_text(match[1])
            # Files that examples include; they may be empty.
            (pathlib.Path(directory) / "conf.d").mkdir()
            (pathlib.Path(directory) / "conf.d/empty.toml").touch()
            # Files and directories that examples serve; they may be empty.
            for served in ["public/assets", "var/files"]:
                (pathlib.Path(directory) / served).mkdir(parents=True)
            for script in ["public/index.php", "keepwarm.php"]:
                (pathlib.Path(directory) / script).write_text("<?php\n")
            (pathlib.Path(directory) / "errors").mkdir()
            for name in ["404.html", "5xx.html", "api.json"]:
                (pathlib.Path(directory) / "errors" / name).write_text("{}\n")
            (pathlib.Path(directory) / "config.ru").touch()
            (pathlib.Path(directory) / "site").touch(mode=0o755)
            command = [binary, "run", "--config", file, "--dry-run"]
            result = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            yield f"{page.relative_to(ROOT)}:{line}: this example is rejected:\n{result.stdout}{result.stderr}"


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
