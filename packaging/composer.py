#!/usr/bin/env python3
"""Builds the composer package: a ZIP for an `artifact` repository, with the adapter, `vendor/bin/keepwarm`, and stubs.

The package holds no binary. It names the URL and the SHA-256 of one for each architecture; `vendor/bin/keepwarm` fetches
it once. The binaries are written beside the ZIP, under the names that they must have beneath `--base-url`.
"""

import json
import re
import sys

import packages
from packages import ADAPTERS, Entry, PackagingError

PHP = ADAPTERS / "php"
# Files of the adapter that the package has. The worker's program is in the binary too, which starts that one.
FOLDERS = {"src": {".php"}, "bin": {".php"}, "stubs": {".php"}, "composer": None}


def build(binaries, base_url):
    """{file name: content} of the ZIP and of the binaries that it names."""
    version = packages.version()
    published = {f"keepwarm-{version}-{binary.arch}": binary.content for binary in binaries}
    pinned = {binary.arch: pin(base_url, f"keepwarm-{version}-{binary.arch}", binary.content) for binary in binaries}
    entries = [
        *(entry for folder, suffixes in FOLDERS.items() for entry in packages.tree(PHP / folder, f"{folder}/", suffixes)),
        packages.file_entry(PHP / "README.md", "README.md"),
        *packages.licence_entries(""),
        # An artifact repository takes the version from the package.
        json_entry("composer.json", {"version": version, **json.loads((PHP / "composer.json").read_text())}),
        json_entry("binaries.json", {"version": version, "binaries": pinned}),
    ]
    return {f"keepwarm-keepwarm-{version}.zip": packages.zipped(entries), **published}


def pin(base_url, name, content):
    """What the package says about a binary (`adapters/php/composer/Binary.php` reads it)."""
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", base_url):
        raise PackagingError(f"--base-url {base_url}: expected an http or https URL without a query, beneath which the binaries will be")
    return {"url": f"{base_url.rstrip('/')}/{name}", "sha256": packages.sha256(content), "size": len(content)}


def json_entry(name, value):
    return Entry(name, (json.dumps(value, indent=4, ensure_ascii=False) + "\n").encode())


def main():
    return packages.run(__doc__, build, options={"base_url": "URL of the directory that the binaries will be published in"})


if __name__ == "__main__":
    sys.exit(main())
