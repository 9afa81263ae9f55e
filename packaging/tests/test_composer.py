"""The composer package: Slim and Symfony pages from a project that was empty before, and how the binary is fetched."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import unittest
import zipfile
from types import MappingProxyType

import serving
from serving import CLEAN, LIMIT, PACKAGING, Served, run

Entry, ROOT = serving.packages.Entry, serving.packages.ROOT
STUBS = "stubs/keepwarm.php"
RUNTIME = pathlib.Path("/usr/share/php/Symfony/Component/Runtime")
NOBODY = 65_534


def program():
    return pathlib.Path(serving.binary().partition("=")[2])


def built(out, base_url="https://keepwarm.invalid/releases"):
    """The ZIP; the binaries are beside it."""
    run([PACKAGING / "composer.py", "--binary", serving.binary(), "--base-url", base_url, "--out", out], cwd=out, env=CLEAN)
    (package,) = out.glob("*.zip")
    return package


class Origin:
    """A server on loopback that has the binary, or what `respond(handler, content)` makes of it. Counts its requests."""

    def __init__(self, respond=None, tls=None):
        self.paths = []
        self.respond = respond or whole
        self.content = program().read_bytes()
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                origin.paths.append(self.path)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    origin.respond(self, origin.content)

            def do_CONNECT(self):
                origin.paths.append(f"CONNECT {self.path}")
                tunnel(self)

            def log_message(self, *about):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *about: None  # clients that do not trust its certificate
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def tunnel(handler):
    """The proxy's side of CONNECT (RFC 9110 section 9.3.6), to where the request says."""
    host, _, port = handler.path.rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT) as upstream:
        handler.send_response(200)
        handler.end_headers()
        other = {handler.connection: upstream, upstream: handler.connection}
        while ready := select.select(list(other), [], [], LIMIT)[0]:
            for side in ready:
                piece = side.recv(65_536)
                if not piece:
                    return
                other[side].sendall(piece)


def head(handler, length, status=200):
    handler.send_response(status)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()


def whole(handler, content):
    head(handler, len(content))
    handler.wfile.write(content)


def wrong(handler, content):
    whole(handler, content[:-1] + bytes([content[-1] ^ 1]))


def longer(handler, content):
    head(handler, None)
    handler.wfile.write(content + b"more")


def truncated(handler, content):
    head(handler, len(content))
    handler.wfile.write(content[: len(content) // 2])


def truncated_without_length(handler, content):
    head(handler, None)
    handler.wfile.write(content[: len(content) // 2])


def missing(handler, content):
    head(handler, 0, 404)


def redirect(handler, content):
    if handler.path == "/elsewhere":
        return whole(handler, content)
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()


class Project(unittest.TestCase):
    """An empty project with an artifact repository."""

    def setUp(self):
        self.base = serving.directory(self.addCleanup)
        self.project, self.repository = self.base / "project", self.base / "repository"
        self.project.mkdir()
        self.repository.mkdir()
        self.env = {**CLEAN, "HOME": str(self.base / "home"), "COMPOSER_DISABLE_NETWORK": "1", "COMPOSER_ALLOW_SUPERUSER": "1"}
        (self.base / "home").mkdir()

    def require(self, *names, base_url="https://keepwarm.invalid/releases", config=None):
        """As a person does it, with repositories on this machine only. Gives the command."""
        out = self.base / "out"
        out.mkdir()
        shutil.copy(built(out, base_url), self.repository)
        repositories = [{"type": "artifact", "url": str(self.repository)}, {"packagist.org": False}]
        (self.project / "composer.json").write_text(json.dumps({"repositories": repositories, "config": config or {}}))
        run(["composer", "require", "--no-interaction", "keepwarm/keepwarm", *names], cwd=self.project, env=self.env)
        return self.project / "vendor/bin/keepwarm"

    def debian(self, name, classes, files=(), autoload=MappingProxyType({}), **more):
        """A framework's package, in the form of composer's, whose classes are Debian's."""
        about = {"name": name, "version": "5.4.0", "autoload": {"files": ["debian.php"], **autoload}, **more}
        loader = f"<?php require_once '{classes}';\n"
        entries = [Entry("composer.json", json.dumps(about).encode()), Entry("debian.php", loader.encode())]
        entries += [serving.packages.file_entry(file, str(file.relative_to(RUNTIME))) for file in files]
        (self.repository / f"{name.replace('/', '-')}.zip").write_bytes(serving.packages.zipped(entries))

    def served(self, *command, **env):
        return Served([*command, "run", "public/index.php", "--bind", "127.0.0.1:0"], cwd=self.project, env={**self.env, **env})


class Content(Project):
    def test_two_builds_are_the_same(self):
        first, second = self.base / "1", self.base / "2"
        first.mkdir()
        second.mkdir()
        self.assertEqual(built(first).read_bytes(), built(second).read_bytes())

    def test_the_binaries_are_pinned(self):
        package = built(self.base)
        with zipfile.ZipFile(package) as archive:
            pinned = json.loads(archive.read("binaries.json"))["binaries"]
        self.assertEqual(list(pinned), [os.uname().machine])
        for about in pinned.values():
            self.assertTrue(about["url"].startswith("https://keepwarm.invalid/releases/"), about)
            published = self.base / about["url"].rpartition("/")[2]
            self.assertEqual(about["sha256"], run(["sha256sum", published], cwd=self.base, env=CLEAN).split()[0])
            self.assertEqual(published.read_bytes(), program().read_bytes())

    def test_a_base_url_that_is_none_is_refused(self):
        for url in ("releases", "file:///releases", "https://host/?x", "https://host/a b"):
            command = [PACKAGING / "composer.py", "--binary", serving.binary(), "--base-url", url, "--out", self.project]
            self.assertIn(f"--base-url {url}: expected an http or https URL", run(command, cwd=self.base, env=CLEAN, status=1))
        self.assertEqual(list(self.project.iterdir()), [])

    def test_composer_accepts_the_definition(self):
        run(["composer", "validate", "--no-check-publish", "--no-interaction", ROOT / "adapters/php/composer.json"], cwd=self.project, env=self.env)


class Pages(Project):
    """Pages by `vendor/bin/keepwarm`."""

    def slim(self):
        self.debian("slim/slim", "Slim/autoload.php")
        command = self.require("slim/slim")
        shutil.copytree(ROOT / "examples/slim/public", self.project / "public")
        return command

    def check_slim(self, server):
        status, body = server.get()
        self.assertEqual((status, "<h1>Search</h1>" in body), (200, True), body)

    def test_slim(self):
        command = self.slim()
        with self.served(command, KEEPWARM_BIN=str(program())) as server:
            self.check_slim(server)

    def test_slim_with_a_php_that_cannot_become_another_program(self):
        command = self.slim()
        php = ["php", "-d", "disable_functions=pcntl_exec", command]
        with self.served(*php, KEEPWARM_BIN=str(program())) as server:
            self.check_slim(server)
            server.process.send_signal(signal.SIGTERM)  # PHP dies of it; Keepwarm must stop as well
            while server.read(LIMIT):
                pass
            self.assertEqual(server.process.wait(timeout=LIMIT), -signal.SIGTERM)
            self.assertEqual(server.left(), [], server.output)
            server.stop = lambda: None

    def test_slim_with_a_binary_that_is_fetched(self):
        origin = Origin()
        self.addCleanup(origin.close)
        self.debian("slim/slim", "Slim/autoload.php")
        command = self.require("slim/slim", base_url=f"http://{origin.address}")
        shutil.copytree(ROOT / "examples/slim/public", self.project / "public")
        for _ in range(2):
            with self.served(command) as server:
                self.check_slim(server)
        self.assertEqual(len(origin.paths), 1)

    def symfony(self, **runtime):
        """The example with composer's plugin of symfony/runtime, which writes vendor/autoload_runtime.php."""
        about = {"type": "composer-plugin", "require": {"composer-plugin-api": "^2"}, "extra": {"class": "Symfony\\Component\\Runtime\\Internal\\ComposerPlugin"}}
        autoload = {"psr-4": {"Symfony\\Component\\Runtime\\": ""}}
        files = [file for file in RUNTIME.rglob("*") if file.is_file()]
        self.debian("symfony/runtime", "Symfony/Component/Runtime/autoload.php", files, autoload, **about)
        self.debian("symfony/framework-bundle", "Symfony/Bundle/FrameworkBundle/autoload.php")
        command = self.require("symfony/runtime", "symfony/framework-bundle", config={"allow-plugins": {"symfony/runtime": True}})
        for part in ("public", "src"):
            shutil.copytree(ROOT / "examples/symfony" / part, self.project / part)
        cache = self.project / "var"
        cache.mkdir()
        if os.geteuid() == 0:
            shutil.chown(cache, NOBODY, NOBODY)  # the user that Keepwarm's workers have
        manifest = json.loads((self.project / "composer.json").read_text())
        manifest.update(autoload={"psr-4": {"App\\": "src/"}}, extra={"runtime": runtime})
        (self.project / "composer.json").write_text(json.dumps(manifest))
        run(["composer", "dump-autoload", "--no-interaction"], cwd=self.project, env=self.env)
        self.assertTrue((self.project / "vendor/autoload_runtime.php").is_file())
        return command

    def check_symfony(self, command, **env):
        with self.served(command, KEEPWARM_BIN=str(program()), APP_ENV="prod", **env) as server:
            status, body = server.get()
            self.assertEqual((status, "<h1>Shop</h1>" in body), (200, True), body)

    def test_symfony(self):
        self.check_symfony(self.symfony())

    def test_symfony_whose_project_sets_the_runtime(self):
        command = self.symfony(**{"class": "Keepwarm\\SymfonyRuntime"})
        self.check_symfony(command)
        self.check_symfony(command, APP_RUNTIME="Keepwarm\\SymfonyRuntime")
        self.check_elsewhere()

    def check_elsewhere(self):
        """The same project on another server, and its console: Symfony's own runner."""
        entry = "<?php\nrequire __DIR__ . '/vendor/autoload_runtime.php';\nreturn fn () => new Symfony\\Component\\HttpFoundation\\Response('elsewhere');\n"
        (self.project / "console.php").write_text(entry)
        self.assertEqual(run(["php", "console.php"], cwd=self.project, env=self.env), "elsewhere")
        call = "<?php $_SERVER['SCRIPT_FILENAME'] = 'public/index.php'; $_SERVER['REQUEST_URI'] = '/'; $_SERVER['APP_ENV'] = 'prod'; require 'public/index.php';\n"
        self.assertIn("<h1>Shop</h1>", subprocess.run(["php"], input=call, cwd=self.project, env=self.env, capture_output=True, text=True, timeout=LIMIT).stdout)


class Fetched(Project):
    """`vendor/bin/keepwarm --version`, with a binary from a server on loopback."""

    def setUp(self):
        super().setUp()
        self.version = run([program(), "--version"], cwd=self.base, env=CLEAN)

    def origin(self, respond=None):
        origin = Origin(respond)
        self.addCleanup(origin.close)
        return origin

    def installed(self, respond=None):
        self.server = self.origin(respond)
        self.command = self.require(base_url=f"http://{self.server.address}")
        self.binaries = self.project / "vendor/keepwarm/keepwarm/.binaries"

    def start(self, **options):
        options = {"env": self.env, **options}
        process = subprocess.Popen([self.command, "--version"], cwd=self.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        """Of a test that failed; the others have read it to its end."""
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def call(self, **options):
        process = self.start(**options)
        out, error = process.communicate(timeout=LIMIT)
        return process.returncode, out, error

    def stored(self):
        return sorted(file.name for file in self.binaries.iterdir() if file.name != ".lock") if self.binaries.exists() else []

    def check_works(self, **options):
        status, out, error = self.call(**options)
        self.assertEqual((status, out), (0, self.version), error)
        return error

    def check_refused(self, cause):
        status, out, error = self.call()
        self.assertEqual((status, out, self.stored()), (1, "", []), error)
        self.assertRegex(error.splitlines()[-1], f"^keepwarm: cannot fetch http://.*{cause}.*Nothing was stored.*KEEPWARM_BIN")

    def test_the_right_bytes_are_stored_and_run(self):
        self.installed()
        self.assertRegex(self.check_works(), r"^keepwarm: fetching http://\S+ \([\d.]+ MiB\), once\nkeepwarm: stored /\S+\n$")
        (name,) = self.stored()
        self.assertEqual((self.binaries / name).stat().st_mode & 0o777, 0o755)
        self.assertEqual(self.check_works(), "")
        self.assertEqual(len(self.server.paths), 1)

    def test_a_redirect_is_followed(self):
        self.installed(redirect)
        self.check_works()
        self.assertEqual(self.server.paths[-1], "/elsewhere")

    def test_wrong_bytes_are_refused(self):
        self.installed(wrong)
        self.check_refused("its SHA-256 is [0-9a-f]{64}, expected SHA-256 [0-9a-f]{64}")

    def test_more_bytes_are_refused(self):
        self.installed(longer)
        self.check_refused(r"it has more than \d+ bytes")

    def test_truncated_bytes_are_refused(self):
        self.installed(truncated)
        self.check_refused(r"the download ended after \d+ of \d+ bytes")
        self.server.respond = truncated_without_length
        self.check_refused(r"the download ended after \d+ of \d+ bytes")
        self.server.respond = whole
        self.check_works()

    def test_a_status_is_reported(self):
        self.installed(missing)
        self.check_refused("the server responded with status 404")

    def test_without_a_network(self):
        self.installed()
        self.server.close()
        self.server.close = lambda: None
        self.check_refused("Connection refused")
        # What the message says to do.
        error = self.call()[2]
        target = re.search(r"copy that file from elsewhere to (\S+) ", error)[1]
        shutil.copy(program(), target)
        os.chmod(target, 0o644)
        self.check_works()

    def test_a_damaged_copy_is_never_run(self):
        self.installed()
        self.check_works()
        (name,) = self.stored()
        with open(self.binaries / name, "r+b") as file:
            file.seek(1000)
            file.write(b"damage")
        self.server.respond = missing
        status, out, error = self.call()
        self.assertEqual((status, out), (1, ""), error)
        self.server.respond = whole
        self.check_works()

    def test_a_killed_download_leaves_nothing_in_the_way(self):
        half, killed = threading.Event(), threading.Event()

        def stuck(handler, content):
            head(handler, len(content))
            handler.wfile.write(content[: len(content) // 2])
            half.set()
            killed.wait(LIMIT)

        self.installed(stuck)
        process = self.start()
        self.addCleanup(killed.set)
        self.assertTrue(half.wait(LIMIT))
        process.kill()
        process.communicate(timeout=LIMIT)
        killed.set()
        self.assertEqual([name for name in self.stored() if not name.endswith(".part")], [])
        self.server.respond = whole
        self.check_works()
        self.assertEqual(len(self.stored()), 1)

    def test_two_at_once_fetch_once(self):
        begun, release = threading.Event(), threading.Event()

        def held(handler, content):
            begun.set()
            release.wait(LIMIT)
            whole(handler, content)

        self.installed(held)
        self.addCleanup(release.set)
        first = self.start()
        self.assertTrue(begun.wait(LIMIT))
        second = self.start()
        self.assertIn("waiting for another process", second.stderr.readline())
        release.set()
        for process in (first, second):
            out, error = process.communicate(timeout=LIMIT)
            self.assertEqual((process.returncode, out), (0, self.version), error)
        self.assertEqual(len(self.server.paths), 1)

    def test_a_proxy_variable(self):
        self.command = self.require(base_url="http://keepwarm.invalid/releases")
        self.binaries = self.project / "vendor/keepwarm/keepwarm/.binaries"
        seen = []

        def proxy(handler, content):
            seen.append(handler.headers["Proxy-Authorization"])
            whole(handler, content)

        self.server = self.origin(proxy)
        self.check_works(env={**self.env, "http_proxy": f"http://user:p%40ss@{self.server.address}"})
        self.assertRegex(self.server.paths[0], r"^http://keepwarm\.invalid/releases/keepwarm-\S+$")
        self.assertEqual(seen, ["Basic dXNlcjpwQHNz"])

    def test_a_proxy_with_an_exception(self):
        self.installed()
        dead = {"HTTP_PROXY": "http://127.0.0.1:9", "no_proxy": "example.org, 127.0.0.1"}
        self.check_works(env={**self.env, **dead})

    def test_a_proxy_that_is_none(self):
        self.installed()
        status, out, error = self.call(env={**self.env, "http_proxy": "socks5://127.0.0.1:9"})
        self.assertIn("the proxy variable is not the URL of an http or https proxy", error)
        self.assertEqual((status, out, self.server.paths), (1, "", []))

    def tls(self):
        """A server's certificate for `localhost`, which nobody trusts."""
        certificate, key = self.base / "certificate.pem", self.base / "key.pem"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        run(["openssl", "req", "-x509", *curve, "-days", "30", *names, "-keyout", key, "-out", certificate], cwd=self.base, env=CLEAN)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return certificate, context

    def test_https(self):
        certificate, context = self.tls()
        self.server = Origin(tls=context)
        self.addCleanup(self.server.close)
        port = self.server.server.server_port
        self.command = self.require(base_url=f"https://localhost:{port}")
        self.binaries = self.project / "vendor/keepwarm/keepwarm/.binaries"
        status, out, error = self.call()
        self.assertRegex(error, "cannot fetch https://.*certificate verify failed")
        self.assertEqual((status, out, self.stored(), self.server.paths), (1, "", [], []))
        proxy = self.origin()
        trusting = {**self.env, "SSL_CERT_FILE": str(certificate), "HTTPS_PROXY": f"http://{proxy.address}"}
        self.check_works(env=trusting)
        self.assertEqual(proxy.paths, [f"CONNECT localhost:{port}"])
        self.assertEqual(len(self.server.paths), 1)

    def other_user(self, home):
        """A user who can write neither the project nor their home."""
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        return {**user, "env": {**self.env, "HOME": str(home)}}

    def test_a_read_only_home(self):
        self.installed()
        self.project.joinpath("vendor/keepwarm/keepwarm").chmod(0o555)
        home = self.base / "read-only"
        home.mkdir(mode=0o555)
        status, out, error = self.call(**self.other_user(home))
        self.assertEqual((status, out, self.server.paths), (1, "", []), error)
        self.assertRegex(error, r"^keepwarm: cannot store \S+: \S+/\.binaries and \S+/\.cache/keepwarm cannot be written by this user; run .*, set XDG_CACHE_HOME")
        self.assertEqual(list(home.iterdir()), [])
        # What the message says to do.
        cache = self.base / "cache"
        cache.mkdir()
        if os.geteuid() == 0:
            shutil.chown(cache, NOBODY, NOBODY)
        options = self.other_user(home)
        options["env"]["XDG_CACHE_HOME"] = str(cache)
        self.check_works(**options)
        self.assertEqual(len(list((cache / "keepwarm").glob("keepwarm-*"))), 1)
        self.project.joinpath("vendor/keepwarm/keepwarm").chmod(0o755)

    def test_what_one_user_has_stored_in_the_package_serves_the_others(self):
        self.installed()
        self.check_works()
        self.check_works(**self.other_user("/nonexistent"))
        self.assertEqual(len(self.server.paths), 1)

    def test_a_directory_that_others_can_write_is_not_used(self):
        self.installed()
        self.binaries.mkdir()
        shutil.copy(program(), self.binaries)
        self.binaries.chmod(0o777)
        self.check_works()
        self.assertEqual(len(list((self.base / "home/.cache/keepwarm").glob("keepwarm-*"))), 1)

    def test_keepwarm_bin(self):
        self.installed(missing)
        self.check_works(env={**self.env, "KEEPWARM_BIN": str(program())})
        self.assertEqual(self.server.paths, [])
        for named, cause in ((self.project, "is not an executable file"), (self.command, "is this script"), ("keepwarm-none", "is not an executable file")):
            status, out, error = self.call(env={**self.env, "KEEPWARM_BIN": str(named)})
            self.assertEqual((status, out), (1, ""))
            self.assertEqual(error, f"keepwarm: KEEPWARM_BIN={named} {cause}; expected the path of a keepwarm binary\n")

    def test_exit_status_and_arguments(self):
        self.installed(missing)
        env = {**self.env, "KEEPWARM_BIN": str(program())}
        (self.project / "a b.toml").write_text("[listen.main]\nbnd = 1\n")
        arguments = ["run", "--dry-run", "--config", "a b.toml"]
        expected = subprocess.run([program(), *arguments], cwd=self.project, env=env, capture_output=True)
        for php in ([], ["php", "-d", "disable_functions=pcntl_exec"]):
            found = subprocess.run([*php, self.command, *arguments], cwd=self.project, env=env, capture_output=True, stdin=subprocess.DEVNULL)
            self.assertEqual((found.returncode, found.stdout, found.stderr), (expected.returncode, expected.stdout, expected.stderr))

    def test_a_machine_without_a_binary(self):
        self.installed()
        package = self.project / "vendor/keepwarm/keepwarm"
        manifest = json.loads((package / "binaries.json").read_text())
        manifest["binaries"] = {"riscv64": next(iter(manifest["binaries"].values()))}
        (package / "binaries.json").write_text(json.dumps(manifest))
        self.assertRegex(self.call()[2], r"^keepwarm: no binary for Linux on \w+; this package has one for Linux on riscv64")
        (package / "binaries.json").unlink()
        self.assertRegex(self.call()[2], r"binaries\.json not found: .* set KEEPWARM_BIN")


class Stubs(unittest.TestCase):
    """The stubs say what the adapter has: names, parameters, types, defaults."""

    LIST = """
        $describe = static function (ReflectionFunctionAbstract $function): string {
            return implode(', ', array_map(strval(...), $function->getParameters())) . ' -> ' . $function->getReturnType();
        };
        $found = [];
        foreach (['send_continue', 'early_hints', 'client_gone', 'request'] as $name) {
            $found["$name()"] = $describe(new ReflectionFunction("Keepwarm\\\\$name"));
        }
        foreach (['Request', 'ClientDisconnected'] as $name) {
            $class = new ReflectionClass("Keepwarm\\\\$name");
            $found[$name] = $class->getParentClass() ? $class->getParentClass()->getName() : '';
            foreach ($class->getProperties(ReflectionProperty::IS_PUBLIC) as $property) {
                $found["$name.{$property->getName()}"] = $property->getType() . ' ' . json_encode($property->getDefaultValue());
            }
            foreach ($class->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
                if ($method->getDeclaringClass()->getName() === $class->getName()) {
                    $found["$name.{$method->getName()}()"] = $describe($method);
                }
            }
        }
        echo json_encode($found);
    """

    def listed(self, load):
        done = subprocess.run(["php", "-r", load + self.LIST], cwd=ROOT / "adapters/php", check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    def test_php_accepts_them(self):
        run(["php", "-l", STUBS], cwd=ROOT / "adapters/php", env=CLEAN)

    def test_they_agree_with_the_adapter(self):
        # Symfony's class, which the last stub extends, is not loaded: it is declared here.
        stubs = self.listed(f"eval('namespace Symfony\\\\Component\\\\Runtime; class SymfonyRuntime {{}}'); require '{STUBS}';")
        real = self.listed("require 'src/autoload.php';")
        self.assertGreater(len(stubs), 20)
        self.assertEqual(stubs, {name: real.get(name) for name in stubs})

    def test_every_function_of_the_adapter_has_one(self):
        declared = re.findall(r"^function (\w+)\(", (ROOT / "adapters/php/src/api.php").read_text(), re.M)
        stubbed = re.findall(r"^function (\w+)\(", (ROOT / "adapters/php" / STUBS).read_text(), re.M)
        self.assertEqual(sorted(declared), sorted(stubbed))


if __name__ == "__main__":
    unittest.main()
