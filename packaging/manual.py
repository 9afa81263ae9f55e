#!/usr/bin/env python3
"""Makes the manual page keepwarm.toml(5) of docs/reference/configuration.md, which is generated from the definitions of keys.

It knows the Markdown of that page: headings, lists, code and paragraphs.
"""

import re
import sys

import packages
from packages import ROOT, PackagingError

PAGE = ROOT / "docs/reference/configuration.md"
NAME = "keepwarm.toml.5"
SEE_ALSO = ".SH SEE ALSO\n.BR keepwarm (1),\n.BR keepwarm\\-run (1),\n.BR keepwarm\\-explain (1)\n"


def page():
    """The text for man(7)."""
    lines = PAGE.read_text().splitlines()
    if lines[:1] != ["# Configuration"]:
        raise PackagingError(f"{PAGE.relative_to(ROOT)}:1: expected the heading `# Configuration`; write the page by `make docs`")
    head = f'.TH KEEPWARM.TOML 5 "" "keepwarm {packages.version()}" "Keepwarm"\n.SH NAME\nkeepwarm.toml \\- configuration of keepwarm\n.SH DESCRIPTION\n'
    return head + "".join(f"{line}\n" for line in body(lines[1:])) + SEE_ALSO


def body(lines):
    """The page's lines, without its comments."""
    text = "\n".join(line for line in lines if not re.fullmatch(r"<!--.*-->", line))
    for block in re.findall(r"^```(?s:.*?)^```$|(?:^.+\n?)+", text, re.MULTILINE):
        block = block.strip()
        if block.startswith("```"):
            yield from [".P", ".RS 4", ".EX", *map(literal, block.splitlines()[1:-1]), ".EE", ".RE"]
        elif found := re.fullmatch(r"(##+) (.*)", block):
            yield f"{'.SH' if len(found[1]) == 2 else '.SS'} {inline(found[2])}"
        elif block.startswith("* "):
            yield ".PD 0" if block.startswith("* Type:") else ".PD"
            for item in re.split(r"\n(?=\* )", block):
                yield from [".IP \\(bu 2", *prose(item.removeprefix("* "))]
            yield ".PD"
        else:
            # A section has its text and more lines of it in one block.
            yield from [".P", *prose(block)]


def prose(text):
    joined = " ".join(line.strip() for line in text.splitlines())
    return [started(inline(joined))]


def inline(text):
    """Code and emphasis in other fonts; a link is its text."""
    text = re.sub(r"\[([^\]`]+)\]\([^)\s]+\)", r"\1", text)
    parts = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*(?!\w))", text)
    return "".join(styled(part) for part in parts)


def styled(part):
    if part.startswith("`") and part.endswith("`") and len(part) > 2:
        return rf"\fB{escaped(part[1:-1]).replace('-', chr(92) + '-')}\fR"
    if part.startswith("**") and len(part) > 4:
        return rf"\fB{inline(part[2:-2])}\fR"
    if part.startswith("*") and part.endswith("*") and len(part) > 2:
        return rf"\fI{escaped(part[1:-1])}\fR"
    return escaped(part)


def escaped(text):
    return text.replace("\\", "\\e").replace("~", "\\(ti").replace("^", "\\(ha").replace("'", "\\(aq")


def literal(line):
    return started(escaped(line).replace("-", "\\-"))


def started(line):
    """A line of text that begins with a dot would be a request."""
    return f"\\&{line}" if line.startswith((".", "'")) else line


if __name__ == "__main__":
    sys.exit(packages.run(__doc__, lambda: {NAME: page().encode()}, binaries=False))
