#!/usr/bin/env python3
"""Checks the documentation: links within the repository resolve, `keepwarm` accepts every TOML example and every command line of its own, Bash can
parse blocks of shell, and in docs/coming-from the keys exist and `keepwarm convert` can read the examples of the other tools.

    .ci/docs.py BINARY

Standard library only. Exits with status 1 if a check fails.
"""

import functools
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = {"target", ".venv", ".cache", ".git", "node_modules"}
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
        faults += wrong_commands(page, text, binary)
        faults += wrong_scripts(page, text)
        if "coming-from" in page.parts:
            faults += unknown_keys(page, text, binary)
            faults += unreadable_examples(page, text, binary)
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


def completed(example, directory):
    """The example with what it leaves out: a reader of a section about headers need not read about addresses again."""
    before, after = [], []
    tables = set(re.findall(r"^\[+([\w.-]+)\]+", example, re.M))
    if "listen.public" not in tables and any(name.startswith("listen.public.") for name in tables):
        before.append('[listen.public]\nbind = "127.0.0.1:0"\n')
    if "listen.public.route" not in tables and any(name.startswith("listen.public.route.") for name in tables):
        before.append('[[listen.public.route]]\napp = "shop"\n')
    if "acme" in tables and not any(name.startswith("listen.") for name in tables):
        before.append('[listen.public]\ndomains = "shop.example"\n')
    text = "".join(before) + example
    if re.search(r"^\[+listen\.public\b", text, re.M) and not re.search(r"^(\[+(listen\.\w+\.(route|forward_proxy)|app\.)|route =|forward_proxy =)", text, re.M):
        after.append("\n[[listen.public.route]]\nrespond = 204\n")
    for kind, key, content in (("app", "app", 'entry = "shop.wsgi:application"'), ("upstream", "upstream", 'url = "http://127.0.0.1:9"'), ("rate_limit", "rate_limit", 'rate = "10/s"')):
        for name in dict.fromkeys(re.findall(rf'\b{key} = "([\w-]+)"', text)):
            if f"{kind}.{name}" not in tables:
                after.append(f"\n[{kind}.{name}]\n{content}\n")
    return (text + "".join(after)).replace("/etc/ssl/", f"{directory}/ssl/").replace('entry = "/srv/', f'entry = "{directory}/srv/')


def certificates(directory):
    """Files as examples name them: `/etc/ssl/NAME.pem` and its key."""
    (directory / "ssl").mkdir()
    for name, host in (("shop", "shop.example"), ("wild", "*.shop.example"), ("employees", "employees.example"), ("internal-ca", "ca.internal")):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", f"/CN={name}",
                   "-addext", f"subjectAltName=DNS:{host}", "-keyout", directory / f"ssl/{name}.key", "-out", directory / f"ssl/{name}.pem"]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    revoked(directory / "ssl")


def revoked(folder):
    """`/etc/ssl/revoked.pem`: the list of revoked certificates of `employees`."""
    (folder / "index.txt").touch()
    (folder / "ca.cnf").write_text("[ca]\ndefault_ca = ca1\n[ca1]\ndatabase = index.txt\ndefault_md = sha256\ndefault_crl_days = 30\ncrl_extensions = crl\n[crl]\nauthorityKeyIdentifier = keyid\n")
    command = ["openssl", "ca", "-gencrl", "-config", "ca.cnf", "-keyfile", "employees.key", "-cert", "employees.pem", "-out", "revoked.pem"]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wrong_examples(page, text, binary):
    for match in re.finditer(r"^```toml\n(.*?)^```", text, re.M | re.S):
        line = text[: match.start()].count("\n") + 2
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "keepwarm.toml"
            file.write_text(completed(match[1], directory))
            if "/etc/ssl/" in match[1]:
                certificates(pathlib.Path(directory))
            if '"htpasswd"' in match[1]:
                hashed = subprocess.run([binary, "hash-password", "--user", "alice"], input="secret\n", stdout=subprocess.PIPE, check=True, text=True)
                (pathlib.Path(directory) / "htpasswd").write_text(hashed.stdout)
            # Files that examples include; they may be empty.
            (pathlib.Path(directory) / "conf.d").mkdir()
            (pathlib.Path(directory) / "conf.d/empty.toml").touch()
            # Files and directories that examples serve; they may be empty.
            for served in ["public/assets", "var/files", "sites", "users", "srv/intranet"]:
                (pathlib.Path(directory) / served).mkdir(parents=True)
            for script in ["public/index.php", "keepwarm.php"]:
                (pathlib.Path(directory) / script).write_text("<?php\n")
            (pathlib.Path(directory) / "errors").mkdir()
            for name in ["404.html", "5xx.html", "api.json"]:
                (pathlib.Path(directory) / "errors" / name).write_text("{}\n")
            (pathlib.Path(directory) / "config.ru").touch()
            (pathlib.Path(directory) / "site.env").touch()
            (pathlib.Path(directory) / ".env").touch()
            (pathlib.Path(directory) / "site").touch(mode=0o755)
            command = [binary, "run", "--config", file, "--dry-run"]
            result = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            yield f"{page.relative_to(ROOT)}:{line}: this example is rejected:\n{result.stdout}{result.stderr}"


# What may stand in front of `keepwarm` in a command line: a prompt, variables, other commands that run it, its directory.
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:(?:sudo|exec|time|bundle exec|npx|python3? -m|uvx(?: --with \S+)?) )*(?:[\w./-]*/)?keepwarm((?: [a-z-].*)?)$")
# Languages of blocks that hold command lines.
SHELL = {"", "sh", "bash", "console", "text", "ini", "dockerfile"}


def wrong_commands(page, text, binary):
    """Command lines of `keepwarm`, in blocks and in the text, that its own parser rejects."""
    for number, command in commands(text):
        if said := rejected(binary, command):
            yield f"{page.relative_to(ROOT)}:{number}: this command is rejected: keepwarm {shlex.join(command)}\n{said}"


def wrong_scripts(page, text):
    """Blocks of shell that Bash cannot parse."""
    for match in re.finditer(r"^```(?:bash|sh)\n(.*?)^```", text, re.M | re.S):
        result = subprocess.run(["bash", "-n"], input=match[1], capture_output=True, text=True)
        if result.returncode:
            yield f"{page.relative_to(ROOT)}:{text[: match.start()].count(chr(10)) + 2}: {result.stderr}"


def commands(text):
    """(line, arguments) of each command line of `keepwarm`."""
    language = None
    for number, line in enumerate(text.splitlines(), 1):
        if fence := re.match(r" *```+(\w*)", line):
            language = fence[1] if language is None else None
        elif language is None:
            for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", line):
                yield from ((number, command) for command in arguments(code))
        elif language in SHELL:
            for part in re.split(r" && | \|\|? |; ", re.sub(r"^(web|worker|ExecStart(Pre)?) ?[:=] ?", "", line.strip())):
                yield from ((number, command) for command in arguments(part))


def arguments(line):
    """The arguments of a command line of `keepwarm`; a synopsis is one for each of its alternatives. Prose and output are none."""
    match = COMMAND.match(line)
    if not match or not match[1]:
        return
    synopsis = re.sub(r"\s\|\s", " ", re.sub(r"[\[\]…]", "", match[1])) if re.search(r"\[|…", match[1]) else match[1]
    try:
        yield tuple(word for word in shlex.split(re.sub(r" [0-9]?[<>].*|  .*", "", synopsis), comments=True))
    except ValueError:
        return


@functools.cache
def rejected(binary, command):
    """What the parser of the program says against the arguments. `--help` keeps it from running: arguments before it are parsed first."""
    if command[0] == "explain" and not re.search("KEY|REASON|SECTION|EVENT|FINDING", " ".join(command)):
        result = subprocess.run([binary, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return result.stderr if result.returncode else None
    end = command.index("--") if "--" in command else len(command)
    line = [binary, *command[:end], "--help", *command[end:]]
    result = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return result.stderr if result.returncode else None


def unknown_keys(page, text, binary):
    """Keys and sections in the second column of a table that do not exist."""
    keys = known_keys()
    for number, line in enumerate(text.splitlines(), 1):
        cells = re.split(r"(?<!\\)\|", line)
        if not line.startswith("|") or len(cells) < 4:
            continue
        for code in re.findall(r"`([^`]+)`", cells[2]):
            name = re.match(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?= =|$)", code)
            if name and not any(f".{key}".endswith(f".{name[1]}") for key in keys):
                yield f"{page.relative_to(ROOT)}:{number}: there is no key {name[1]}"
            section = re.match(r"\[(\w+)", code)
            if section and not explained(binary, section[1]) and section[1] not in keys:
                yield f"{page.relative_to(ROOT)}:{number}: there is no section {code}"


# What the blocks of the other tools are, by the page: the language, and the name by which `keepwarm convert` recognizes the file.
THEIRS = {
    "nginx-php-fpm": ("nginx", "site.conf"), "apache-php": ("apache", "site.conf"), "caddy": ("caddyfile", "Caddyfile"), "haproxy": ("haproxy", "haproxy.cfg"),
    "envoy": ("yaml", "envoy.yaml"), "nginx-unit": ("json", "unit.json"), "roadrunner": ("yaml", ".rr.yaml"), "supervisord": ("ini", "supervisord.conf"),
    "procfile": ("text", "Procfile"), "gunicorn": ("python", "gunicorn.conf.py"), "puma": ("ruby", "puma.rb"),
}  # fmt: skip


def unreadable_examples(page, text, binary):
    """The first block of the other tool, if it has an error that `keepwarm convert` sees: 2 is for errors of syntax."""
    language, name = THEIRS.get(page.stem, (None, None))
    block = re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    if language is None:
        return
    if block is None:
        yield f"{page.relative_to(ROOT)}: no example in {language}"
        return
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / name
        file.write_text(block[1])
        result = subprocess.run([binary, "convert", file], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if result.returncode == 2:
        yield f"{page.relative_to(ROOT)}: the example of the other tool cannot be read:\n{result.stderr}"


@functools.cache
def explained(binary, section):
    return subprocess.run([binary, "explain", section], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


@functools.cache
def known_keys():
    """Every key, without the names of sections: `listen.route.path`, and its last parts are what pages write."""
    headings = re.findall(r"^##+ `\[*([\w.]+)\]*`", (ROOT / "docs/reference/configuration.md").read_text(), re.M)
    return {heading.replace(".NAME", "") for heading in headings}


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
