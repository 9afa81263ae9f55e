"""What the packages of systems have in common: the program and its files, by their places beneath the root."""

import os
import pathlib
import re

import manual as reference
import packages
from packages import ADAPTERS, EXECUTABLE, PLAIN, ROOT, Entry, PackagingError

SYSTEM = pathlib.Path(__file__).resolve().parent / "system"
MANUAL = ROOT / "docs/man"
COMPLETIONS = ROOT / "packaging/completions"
MONITORING = ROOT / "packaging/monitoring"
# What a worker needs of each adapter, as crates/keepwarm/build.rs has it: directories, and suffixes of their files.
ADAPTER_PARTS = {"python": (("src",), {".py"}), "php": (("bin", "src"), {".php"}), "ruby": (("exe", "lib"), {".rb", ""})}
# Files that belong to the administrator once they are installed.
CONFIGURATION = {"etc/keepwarm/keepwarm.toml": "keepwarm.toml", "etc/logrotate.d/keepwarm": "logrotate"}
FILES = {
    **CONFIGURATION,
    "usr/lib/systemd/system/keepwarm.service": "keepwarm.service",
    "usr/lib/sysusers.d/keepwarm.conf": "sysusers.conf",
    "usr/share/keepwarm/welcome/index.html": "welcome.html",
}
SUMMARY = "application server for Python, Ruby, PHP and HTTP applications"
DESCRIPTION = """\
Keepwarm runs in front of a PHP, Ruby or Python application, or of any program that serves HTTP, and keeps it warm. It accepts HTTP requests, passes each one to a \
long-lived worker process, and supervises the workers.

Calls of the application to other services share one pool of persistent, encrypted connections. "keepwarm check" examines any HTTP server for known stalls."""


def entries(binary, *, zsh):
    """The program, its adapters where it looks for them, its service, manual, completions, and files for Prometheus and Grafana. `zsh`: the directory for zsh's."""
    return [
        Entry("usr/bin/keepwarm", binary.content, EXECUTABLE),
        *adapters("usr/share/keepwarm/adapters/"),
        *(Entry(name, (SYSTEM / source).read_bytes()) for name, source in FILES.items()),
        *(Entry(f"usr/share/keepwarm/monitoring/{name}", (MONITORING / name).read_bytes()) for name in ("dashboard.json", "rules.yml")),
        *manual(),
        Entry("usr/share/bash-completion/completions/keepwarm", completion("keepwarm.bash")),
        Entry("usr/share/fish/vendor_completions.d/keepwarm.fish", completion("keepwarm.fish")),
        Entry(f"{zsh}/_keepwarm", completion("_keepwarm")),
    ]


def adapters(under):
    """Beneath `../share/keepwarm/adapters` of the program's directory, the program takes them from there and unpacks nothing."""
    return [
        entry
        for language, (folders, suffixes) in ADAPTER_PARTS.items()
        for folder in folders
        for entry in packages.tree(ADAPTERS / language / folder, f"{under}{language}/{folder}/", suffixes)
    ]


def manual():
    """The pages of the commands, and keepwarm.toml(5)."""
    pages = {page.name: page.read_bytes() for page in sorted(MANUAL.glob("*.1"))} | {reference.NAME: reference.page().encode()}
    return [Entry(f"usr/share/man/man{name[-1]}/{name}.gz", packages.gzipped(text, packages.BEST)) for name, text in pages.items()]


def completion(name):
    return (COMPLETIONS / name).read_bytes()


def changes():
    """The changelog, which must have the version that is packaged."""
    text = (ROOT / "CHANGELOG.md").read_text()
    if not re.search(rf"^## \[{re.escape(packages.version())}\]", text, re.MULTILINE):
        raise PackagingError(f"CHANGELOG.md: no heading `## [{packages.version()}]`, the version in Cargo.toml; add it")
    return text.encode()


def stage(folder, files):
    """Writes the files beneath a directory, with exactly their modes, and one time for everything."""
    for entry in files:
        path = folder / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(entry.content)
        path.chmod(entry.mode)
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        if path.is_dir():
            path.chmod(EXECUTABLE)
    for path in paths:
        os.utime(path, (packages.epoch(), packages.epoch()))


def text_entry(name, text, mode=PLAIN):
    return Entry(name, text.encode(), mode)
