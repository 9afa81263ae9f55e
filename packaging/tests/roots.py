"""For the tests of packages of systems: a root of its own for each package, and what each must do there."""

import pathlib
import re

import serving

import packages

# Any free port; the configuration of the packages has a fixed one.
FREE_PORT = {"KEEPWARM_LISTEN__PUBLIC__BIND": "127.0.0.1:0"}
SITE = "srv/hello"
APPS = {
    "app.py": "import keepwarm\n\ndef app(environ, start_response):\n    start_response('200 OK', [])\n    return [keepwarm.__file__.encode()]\n",
    "config.ru": "run ->(env) { [200, {}, [$LOADED_FEATURES.grep(%r{keepwarm/wire}).first]] }\n",
    "index.php": "<?php\nreturn function () { return current(preg_grep('~/Wire.php$~', get_included_files())); };\n",
}


class Overlay:
    """A root that shows this machine's files, and keeps what is written: `folder/upper`. Each command has its own mounts."""

    SCRIPT = """
        set -e
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
        mount --rbind /proc "$1/root/proc"
        mount --rbind /dev "$1/root/dev"
        root=$1/root
        shift
        exec /usr/sbin/chroot "$root" "$@"
    """

    def __init__(self, folder):
        self.folder = folder
        self.upper = folder / "upper"
        for name in ("upper", "work", "root"):
            (folder / name).mkdir(mode=0o755)

    def command(self, line):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", self.SCRIPT, "sh", self.folder, *line]

    def run(self, line, status=0, env=None):
        return serving.run(self.command(line), cwd="/", env=env or {**serving.CLEAN, "PATH": f"{serving.CLEAN['PATH']}:/usr/sbin:/sbin"}, status=status)

    def served(self, line, *, user="root", directory="/", env=None):
        """Keepwarm in this root, as a user."""
        start = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", f"--chdir={directory}"]
        return serving.Served(self.command([*start, *line]), cwd="/", env={**serving.CLEAN, **(env or {})})

    def write(self, name, text):
        path = self.upper / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def installed(add_cleanup):
    """A new overlay, until the clean-up."""
    return Overlay(serving.directory(add_cleanup))


class Installed:
    """What every package of a system must do, once `cls.root` has it installed."""

    def test_the_service_serves_the_welcome_page_as_its_user(self):
        line = ["/usr/bin/keepwarm", "run", "--config", "/etc/keepwarm/keepwarm.toml"]
        with self.root.served(line, user="keepwarm", env=FREE_PORT) as served:
            status, body = served.get()
            self.assertEqual((status, "<h1>Keepwarm is running</h1>" in body), (200, True), body)
            self.assertEqual(served.get("/nothing")[0], 404)
        log = self.root.run(["cat", "/var/log/keepwarm/access.log"])
        self.assertRegex(log, r"GET / .*200")

    def test_workers_of_each_language_run_the_packages_adapters(self):
        for name, text in APPS.items():
            self.root.write(f"{SITE}/{name}", text)
        places = {
            "app:app": "/usr/share/keepwarm/adapters/python/src/keepwarm/__init__.py",
            "config.ru": "/usr/share/keepwarm/adapters/ruby/lib/keepwarm/wire.rb",
            "index.php": "/usr/share/keepwarm/adapters/php/src/Wire.php",
        }
        for target, place in places.items():
            with self.root.served(["keepwarm", "run", target, "--bind", "127.0.0.1:0", "--workers", "1"], directory=f"/{SITE}") as served:
                self.assertEqual(served.get(), (200, place), served.output)

    def test_the_adapters_are_those_that_the_program_carries(self):
        """A program elsewhere does not see the directory of the package, and unpacks its own."""
        for name, text in APPS.items():
            self.root.write(f"{SITE}/{name}", text)
        self.root.run(["sh", "-c", f"mkdir -p /{SITE}/cache && cp /usr/bin/keepwarm /{SITE}/alone"])
        for target, language in (("app:app", "python"), ("config.ru", "ruby"), ("index.php", "php")):
            script = f"cd /{SITE} && exec ./alone run {target} --dry-run --boot"
            self.root.run(["env", f"XDG_CACHE_HOME=/{SITE}/cache", "sh", "-c", script])
            difference = self.root.run(["sh", "-c", f"diff -r --exclude __pycache__ /{SITE}/cache/keepwarm/{language}-* /usr/share/keepwarm/adapters/{language}"])
            self.assertEqual(difference, "")

    def test_the_program_is_whole(self):
        self.assertEqual(self.root.run(["keepwarm", "--version"]), f"keepwarm {packages.version()}\n")
        self.root.run(["keepwarm", "run", "--dry-run", "--config", "/etc/keepwarm/keepwarm.toml"])

    def test_every_manual_page_is_well_formed(self):
        """As mandb reads them: without a warning."""
        names = self.root.run(["sh", "-c", "ls /usr/share/man/man1/keepwarm*.gz /usr/share/man/man5/keepwarm*.gz"]).split()
        self.assertLess({"/usr/share/man/man1/keepwarm-run.1.gz", "/usr/share/man/man5/keepwarm.toml.5.gz"}, set(names))
        for name in names:
            self.assertEqual(self.root.run(["sh", "-c", f"zcat {name} | groff -K utf8 -man -Tutf8 -ww -z 2>&1"]), "", name)
        text = self.root.run(["sh", "-c", "zcat /usr/share/man/man5/keepwarm.toml.5.gz | groff -K utf8 -man -Tutf8 -P-c | col -bx"])
        self.assertIn("app.NAME.workers", text)

    def test_rules_and_dashboard_are_there(self):
        for name in ("rules.yml", "dashboard.json"):
            text = (packages.ROOT / "packaging/monitoring" / name).read_text()
            self.assertEqual(self.root.run(["cat", f"/usr/share/keepwarm/monitoring/{name}"]), text)

    def test_shells_complete(self):
        script = 'source /usr/share/bash-completion/completions/keepwarm; COMP_WORDS=(keepwarm rel); COMP_CWORD=1; _keepwarm keepwarm rel keepwarm; echo "${COMPREPLY[@]}"'
        self.assertEqual(self.root.run(["bash", "-c", script]), "reload\n")
        self.assertIn("--dry-run\t", self.root.run(["fish", "--private", "-c", 'complete -C "keepwarm run --dry"']))
        self.root.run(["zsh", "-n", self.zsh])
        said = self.root.run(["zsh", "-fc", f"fpath=({pathlib.Path(self.zsh).parent} $fpath); autoload -Uz compinit; compinit -D -u -d /tmp/zcompdump; echo $_comps[keepwarm]"])
        self.assertEqual(said, "_keepwarm\n")

    def test_the_service_is_confined(self):
        """`systemd-analyze security`, of 10 (nothing is) to 0: below 4."""
        unit = self.root.upper / "usr/lib/systemd/system/keepwarm.service"
        said = serving.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], cwd="/", env=serving.CLEAN)
        exposure = re.search(r"Overall exposure level for keepwarm.service: (\d+\.\d)", said)
        self.assertLess(float(exposure[1]), 4, said)
        said = self.root.run(["systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/keepwarm.service"])
        self.assertNotIn("keepwarm", said)

    def test_the_logs_are_rotated(self):
        self.root.run(["sh", "-c", "echo line >/var/log/keepwarm/rotated.log && chown keepwarm /var/log/keepwarm/rotated.log && logrotate --force --state /tmp/state /etc/logrotate.d/keepwarm"])
        self.assertEqual(self.root.run(["cat", "/var/log/keepwarm/rotated.log.1"]), "line\n")
