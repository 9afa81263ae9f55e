#!/usr/bin/env python3
"""Checks the language of documentation, messages and comments: banned words and patterns, and the line width of Markdown.

Standard library only. Exits with status 1 if it has findings.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 120

# pattern -> what to write instead. Case-insensitive; applies to prose only, not to code blocks, `code` and link targets.
BANNED = {
    r"(?<!not )(?<!DNS )(?<!\")\banswer(s|ed|ing)?\b(?!\")(?! (a|to a|the) ping)(?! in \W| with PONG)": "response; to respond, to return (to answer: only of a process that replies to a ping)",
    r"\b(whoever|whom)\b": "the noun: the client, any caller",
    r"(?-i:(^|[.!?] )(Of (?!course)|Whoever\b|What is\b))": "subject, verb, object",
    r"(?<!there )\bis no (?!longer\b|more\b)[a-z]+": "is not a, there is no",
    r"\bso many\b|\bas many ([a-z]+ )?as (it|they) may\b": "N, up to N, the limit",
    r"\bgoes on\b|\bwent on\b": "continues, keeps running",
    r"\b(is|are|was|were) to be\b": "will, should, must; or the state's name",
    r"\bin clear\b": "in plaintext, unencrypted",
    r"\bfor a while\b": "the exact key or figure",
    r"\btime-outs?\b": "timeout",
    r"\banew\b": "again; reopened, recreated",
    r"\b(tidings|goodbye|bygone)\b": "close message",
    r"\bfolders?\b": "directory",
    r"\bsays nonsense|speaks nonsense\b": "sent an unexpected message",
    r"\bbehind (a|an|the|its|their) (response|request|end|head|answer)s?\b": "after",
    r"\bwithout a blank\b|\bwithout blanks\b": "without a space",
    r"\btakes? (it|them|this) up\b|\bis taken up\b": "loads, applies",
    r"\bhas had its time\b": "timed out",
    r"\bput back\b": "restored, reset",
    r"\b(seat|seats)\b": "slot",
    r"\bmended\b": "fixed, normalized",
}

# What users read: these pages, and the string literals of these sources.
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "docs/*.md", "docs/guide/*.md", "docs/operate/*.md", "docs/reference/*.md", "docs/start/*.md", "docs/coming-from/*.md", "docs/findings/*.md", "docs/recipes/*.md",
         "spec/*.md", "examples/*/README.md", "adapters/*/README.md", "packaging/README.md", "packaging/node/README.md", "bench/README.md", "fuzz/README.md", "simulation/README.md", "tests/README.md"]  # fmt: skip
SOURCES = ["crates/config/src/**/*.rs", "crates/convert/src/**/*.rs", "crates/keepwarm/src/**/*.rs", "crates/doctor/src/**/*.rs",
           "crates/workers/src/**/*.rs", "crates/egress/src/**/*.rs", "crates/net/src/**/*.rs", "crates/serve/src/**/*.rs", "crates/edge/src/**/*.rs",
           "crates/telemetry/src/**/*.rs", "crates/discover/src/**/*.rs"]  # fmt: skip
ADAPTERS = ["adapters/python/src/**/*.py", "adapters/ruby/lib/**/*.rb", "adapters/ruby/exe/*", "adapters/php/src/**/*.php", "adapters/php/bin/*.php", "adapters/php/composer/*.php"]

# Comments of these are read by developers.
COMMENTS = ["crates/**/*.rs", "simulation/src/**/*.rs", "tests/**/*.rs"]


def main():
    failed = False
    for path in sorted({page for pattern in PAGES for page in ROOT.glob(pattern)}):
        failed |= report(path, page_findings(path))
    for path in sorted({source for pattern in SOURCES for source in ROOT.glob(pattern)}):
        if "tests" not in path.parts and path.stem not in ("tests", "simulation"):
            failed |= report(path, source_findings(path))
    for path in sorted({source for pattern in ADAPTERS for source in ROOT.glob(pattern)}):
        failed |= report(path, python_findings(path) if path.suffix == ".py" else script_findings(path))
    for path in sorted({source for pattern in COMMENTS for source in ROOT.glob(pattern)}):
        if "target" not in path.parts:
            failed |= report(path, comment_findings(path))
    return 1 if failed else 0


def report(path, findings):
    """Prints the findings. Returns whether there are any."""
    found = False
    for number, text, advice in findings:
        found = True
        print(f"words: {name(path)}:{number}: {text!r}: write {advice}", file=sys.stderr)
    return found


def name(path):
    return str(path.relative_to(ROOT))


def page_findings(path):
    """(line, text, advice) for a Markdown page."""
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        if in_code:
            continue
        if len(line) > WIDTH and not line.startswith("|") and path.name != "configuration.md" and " " in line[:WIDTH].strip():
            yield number, line[:60] + "…", f"{len(line)} columns; lines end where a sentence ends, or at {WIDTH}"
        prose = re.sub(r"`[^`]*`", "`…`", line)
        prose = re.sub(r"\]\([^)]*\)", "]", prose)
        if line.startswith("#"):
            continue  # headings are links from elsewhere
        yield from banned(number, prose)


def source_findings(path):
    """(line, text, advice) for the string literals of a Rust source, except identifiers and single words."""
    text = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
    literal = re.compile(r'//[^\n]*|r#"(?:.|\n)*?"#|"(?:\\(?:.|\n)|[^"\\])*"|\'(?:\\.|[^\'\\\n])\'')
    for match in literal.finditer(text):
        value = match.group()
        if value.startswith(("//", "'")) or " " not in value:
            continue
        number = text.count("\n", 0, match.start()) + 1
        prose = re.sub(r"`[^`]*`|\{[^}]*\}|\\\"[^\"]*\\\"", "…", re.sub(r"\\\n\s*", "", value.strip('"')))
        yield from banned(number, prose)


def python_findings(path):
    """(line, text, advice) for the strings of a Python source, except docstrings and single words; an f-string is one string."""
    tree = ast.parse(path.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            value = "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            value = node.value
        else:
            continue
        if " " in value:
            yield from banned(node.lineno, re.sub(r"`[^`]*`", "…", value))


def script_findings(path):
    """(line, text, advice) for the string literals of a Ruby or PHP source, except single words. A literal ends with its line."""
    comment = "//" if path.suffix == ".php" else "#"
    literal = re.compile(comment + r"""[^\n]*|"(?:\\.|#\{(?:[^{}"]|"[^"]*")*\}|[^"\\])*"|'(?:\\.|[^'\\])*'""")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith((comment, "/*", "*")):
            continue
        for value in literal.findall(line):
            if " " in value and not value.startswith(comment):
                yield from banned(number, re.sub(r"`[^`]*`|#?\{[^}]*\}|\$\w+", "…", value[1:-1]))


def comment_findings(path):
    """(line, text, advice) of the comments of a Rust source, but for code in them."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        comment = re.search(r'(?<![:"])//[/!]?(.*)', line)
        if comment:
            yield from banned(number, re.sub(r"`[^`]*`", "`…`", comment.group(1)))


def banned(number, prose):
    for pattern, advice in BANNED.items():
        for match in re.finditer(pattern, prose, re.I):
            yield number, match.group(), advice


if __name__ == "__main__":
    sys.exit(main())
