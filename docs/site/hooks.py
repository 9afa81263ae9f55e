"""MkDocs hooks: what makes a site of pages that are written for a code host.

* Links out of docs/ (spec/, examples/, CHANGELOG.md) lead to pages that are made of those files.
* Headings get the anchors of a code host, which `.ci/docs.py` checks.
* Markdown that a code host reads and Python-Markdown does not is written in the form that both read.
* Nothing is loaded from another server.
"""

import pathlib
import posixpath
import re
import sys

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LANGUAGES = {".py": "python", ".rs": "rust", ".toml": "toml", ".lua": "lua", ".rb": "ruby", ".php": "php", ".js": "js", ".sh": "bash", ".yml": "yaml"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^( *)(```+)")
ITEM = re.compile(r"^( *)([*-]|\d+\.) +")


def on_config(config):
    sys.dont_write_bytecode = True
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify
    return config


def slugify(heading, _separator):
    """The anchor of a heading on a code host: as `anchors` of .ci/docs.py."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def on_files(files, config):
    """Adds the files outside of docs/ that pages link to, those that these link to, and so on."""
    waiting = [(file.src_uri, DOCS / file.src_uri) for file in files.documentation_pages() if (DOCS / file.src_uri).is_file()]
    known = set()
    while waiting:
        uri, path = waiting.pop()
        content = path.read_text() if path.suffix == ".md" else ""
        for target in outside(content, path):
            if target not in known:
                known.add(target)
                files.append(generated(config, page_of(target), page_content(target)))
                if (page := readme(target)) is not None:
                    waiting.append((page_of(target), page))
    config.nav = expanded(config.nav, files)
    return files


def generated(config, uri, content):
    return File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV)


def expanded(nav, files):
    """The navigation, with the pages that `DIRECTORY/*` stands for."""
    named = set(entries(nav))
    rest = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri not in named and not file.inclusion.is_not_in_nav())

    def expand(level):
        for entry in level:
            if isinstance(entry, dict):
                yield {title: below if isinstance(below, str) else list(expand(below)) for title, below in entry.items()}
            elif entry.endswith("/*"):
                yield from [uri for uri in rest if posixpath.dirname(uri) == entry[:-2]]
            else:
                yield entry

    return list(expand(nav))


def entries(nav):
    for entry in nav:
        for below in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [below] if isinstance(below, str) else entries(below)


def outside(text, page):
    """The files outside of docs/ that the page links to."""
    for match in LINK.finditer(prose(text)):
        target = local(match[2], page)
        if target is not None and DOCS not in target.parents and target != DOCS:
            yield target


def local(link, page):
    path = link.partition("#")[0]
    if not path or re.match(r"[a-z]+:", link):
        return None
    target = (page.parent / path).resolve()
    return target if target.exists() else None


def readme(target):
    """The Markdown that a file or directory is, or has."""
    if target.suffix == ".md":
        return target
    page = target / "README.md"
    return page if page.is_file() else None


def page_of(target):
    name = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        return f"source/{name}/README.md"
    if target.name == "README.md":
        return f"source/{name}"
    return f"source/{name}" if target.suffix == ".md" else f"source/{name}.md"


def page_content(target):
    page = readme(target)
    if page is not None:
        return page.read_text()
    name = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        return f"# {name}\n\n" + "\n".join(f"* `{entry.name}{'/' if entry.is_dir() else ''}`" for entry in sorted(target.iterdir())) + "\n"
    text = target.read_text()
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall(r"`+", text))]))
    return f"# {name}\n\n{fence}{LANGUAGES.get(target.suffix, 'text')}\n{text}\n{fence}\n"


def prose(text):
    """The text with what is code blanked out, at the same length."""
    return re.sub(r"```.*?```|`[^`\n]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), text, flags=re.S)


def on_page_markdown(markdown, page, config, files):
    return common(with_links(markdown, page))


def origin(page):
    """The file in the repository that a page is made of."""
    uri = page.file.src_uri
    if not uri.startswith("source/"):
        return DOCS / uri
    path = ROOT / uri.removeprefix("source/")
    if path.exists() or path.parent.is_dir():
        return path
    return path.with_suffix("")


def with_links(text, page):
    """Links that lead out of docs/, or from outside into it, as links between pages of the site."""
    here, directory = origin(page), posixpath.dirname(page.file.src_uri)
    marks = prose(text)

    def site_link(match):
        link = text[match.start(2) : match.end(2)]
        target = local(link, here)
        if target is None:
            return match[1] + link + match[3]
        anchor = link.partition("#")[2]
        if target == DOCS or DOCS in target.parents:
            uri = target.relative_to(DOCS).as_posix()
            if target.is_dir():
                uri = posixpath.join(uri, "README.md") if (target / "README.md").is_file() else f"{uri}/configuration.md"
        else:
            uri = page_of(target)
        path = posixpath.relpath(uri, directory or ".")
        return f"{match[1]}{path}{'#' + anchor if anchor else ''}{match[3]}"

    pieces, end = [], 0
    for match in LINK.finditer(marks):
        pieces += [text[end : match.start()], site_link(match)]
        end = match.end()
    return "".join(pieces) + text[end:]


def common(text):
    """Lists in the form that every Markdown reads: after an empty line, and nested by four columns."""
    lines, fenced, before, widths = [], None, "", []
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if fence and (fenced is None or line.strip() == fenced):
            fenced = fence[2] if fenced is None else None
        elif fenced is None:
            item = ITEM.match(line)
            if item:
                column = len(item[1])
                while widths and column < widths[-1]:
                    widths.pop()
                if not widths and before.strip() and not before.lstrip().startswith(("#", "|")):
                    lines.append("")
                widths.append(item.end())
                line = "    " * (len(widths) - 1) + line.lstrip()
                lines.append(line)
                before = line
                continue
            if line.strip() and not line.startswith(" ") and not before.strip():
                widths = []
        if widths and line.startswith(" "):
            depth = max((d for d, width in enumerate(widths, 1) if len(line) - len(line.lstrip()) >= width), default=len(widths))
            line = "    " * depth + line[min(widths[depth - 1], len(line) - len(line.lstrip())) :]
        lines.append(line)
        before = line
    return "\n".join(lines)


def on_post_build(config):
    """Fails if a page loads anything from another server."""
    loads = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\brel=\"?(?:stylesheet|preconnect|preload|icon)\b[^>]*\bhref=\"?(?:https?:)?//")
    for page in pathlib.Path(config.site_dir).rglob("*.html"):
        if match := loads.search(page.read_text()):
            raise PluginError(f"{page.relative_to(config.site_dir)} loads something from another server: {match[0]}")
