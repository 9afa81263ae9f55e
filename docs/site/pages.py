"""MkDocs hook: a page for each finding of `keepwarm check`, each reason of an error response and each log event.

They are made of docs/findings, docs/reference/fixes.md, errors.md and log-events.md, which have all of them in tables and sections.
"""

import collections
import pathlib
import re

from mkdocs.structure.files import File, InclusionLevel

DOCS = pathlib.Path(__file__).resolve().parents[1]
REASONS, EVENTS = "reference/errors", "reference/events"


def on_files(files, config):
    for uri, content in [*findings(), *reasons(), *events()]:
        files.append(File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if re.fullmatch(r"findings/[a-z]+\.md", uri):
        # The pages of the findings have the same text.
        page.meta.setdefault("search", {})["exclude"] = True
    if uri == "reference/errors.md":
        return linked_rows(markdown, "errors")
    if uri == "reference/log-events.md":
        return linked_rows(markdown, "events")
    return re.sub(r"\]\(((?:\.\./)*(?:findings/)?)([a-z]+)\.md#([a-z]+[a-z0-9_]*)\)", lambda link: finding_link(link, uri), markdown)


def finding_link(link, uri):
    """`PROBE.md#anchor` as a link to the page of the finding."""
    prefix, probe, anchor = link[1], link[2], link[3]
    here = uri.startswith("findings/")
    if here == ("findings/" in prefix) or not anchor.startswith(probe) or probe not in PROBES:
        return link[0]
    thing = anchor.removeprefix(probe)
    return f"]({prefix}{probe}.{thing}.md)" if thing else link[0]


def sections(text, level="## "):
    """(heading, text) of each section."""
    for part in re.split(rf"^{level}", text, flags=re.M)[1:]:
        heading, _, rest = part.partition("\n")
        yield heading.strip(), rest.strip()


def rows(text):
    """(heading, cells) of each row of the tables."""
    for heading, part in sections(text):
        for line in part.splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if line.startswith("| `"):
                yield heading, cells


PROBES = {path.stem for path in (DOCS / "findings").glob("*.md")} - {"README"}


def findings():
    """One for each section of docs/findings/PROBE.md, with the fixes for each server in place of the link to them."""
    fixes = dict(sections((DOCS / "reference/fixes.md").read_text()))
    for probe in sorted(PROBES):
        for heading, text in sections((DOCS / f"findings/{probe}.md").read_text()):
            name = heading.strip("`")
            text = re.sub(r"\*\*Fix\*\*: \[[^]]*\]\([^)]*\)", lambda _: f"**Fix**:\n\n{fixes[heading]}", text)
            text = re.sub(rf"\]\(#{probe}(\w+)\)", rf"]({probe}.\1.md)", text)
            head = f"# `{name}`\n\nA finding of [`keepwarm check`](../guide/check.md), of the probe [`{probe}`]({probe}.md).\n\n"
            tail = f"\n\nTo check for it alone:\n\n```\nkeepwarm check --only {probe} http://127.0.0.1:8080/\n```\n" if probe not in ("reach", "probe") else "\n"
            yield f"findings/{name}.md", head + text + tail


def reasons():
    found = collections.defaultdict(list)
    for heading, cells in rows((DOCS / "reference/errors.md").read_text()):
        found[cells[0].strip("`")].append((heading, cells[1:]))
    for name, cases in found.items():
        text = f"# `{name}`\n\nThe reason of an [error response](../errors.md). It is in the body of the response, in the [log](../../operate/logs.md), in the access log and in `keepwarm_refusals_total`.\n"
        for heading, (*status, why) in cases:
            if not status:
                text = f"# `{name}`\n\nA reason in the [access log](../../operate/logs.md).\n\n## {heading}\n\n{with_links(why, name)}\n"
                continue
            status, *response = status
            # Faults of syntax have one response for all, which that section says.
            response = f"**Response**: {response[0]}\n\n**When, and what to do**" if response else "**The client, the app's server or the upstream**"
            text += f"\n## {heading}\n\n**Status**: {status}\n\n{response}: {with_links(why, name)}\n"
        yield f"{REASONS}/{name}.md", text + f"\nIn a terminal:\n\n```\nkeepwarm explain {name}\n```\n"


def events():
    found = collections.defaultdict(list)
    for heading, cells in rows((DOCS / "reference/log-events.md").read_text()):
        found[cells[0].strip("`")].append((heading, cells[1:]))
    for name, cases in found.items():
        text = f"# `{name}`\n\nAn [event of the log](../log-events.md). With `format = \"json\"` the name is the member `event`; see [Logs](../../operate/logs.md).\n"
        for heading, (level, message, fields) in cases:
            text += f"\n## {heading}: {level}\n\n**Message**: {with_links(message, name)}\n\n"
            text += f"**Fields**: {fields}\n" if fields else "It has no fields of its own.\n"
        yield f"{EVENTS}/{name}.md", text


def with_links(text, own):
    """Names of keys, reasons and events in the text as links to their pages. Two directories below docs/."""

    def link(code):
        name = code[1]
        if name == own:
            return code[0]
        if name in NAMES["errors"]:
            return f"[`{name}`](../errors/{name}.md)"
        if name in NAMES["events"]:
            return f"[`{name}`](../events/{name}.md)"
        for key in (name, f"server.{name}", f"listen.NAME.{name}", f"listen.NAME.route.{name}"):
            if key in KEYS:
                return f"[`{name}`](../configuration.md#{key.lower().replace('.', '')})"
        return code[0]

    text = re.sub(r"\(see `docs/([\w/-]+\.md)`\)", r"(see [there](../../\1))", text)
    return re.sub(r"(?<!\[)`([\w.]+)`", link, text)


def linked_rows(markdown, directory):
    return re.sub(r"^\| `(\w+)` \|", rf"| [`\1`]({directory}/\1.md) |", markdown, flags=re.M)


NAMES = {
    directory: {cells[0].strip("`") for _, cells in rows((DOCS / f"reference/{page}.md").read_text())}
    for directory, page in [("errors", "errors"), ("events", "log-events")]
}
KEYS = set(re.findall(r"^### `([\w.]+)`", (DOCS / "reference/configuration.md").read_text(), re.M))
