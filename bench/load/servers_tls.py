"""The servers of the groups of TLS, HTTP/2 and files: Keepwarm, nginx, Caddy and HAProxy, one thread each, with the same certificate and their logs on."""

import atexit
import functools
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile

import servers

# Each connection may carry as many requests as it likes: what is compared is not how often a server closes.
REQUESTS = 1_000_000_000
# Sizes of files, by the names of their steps.
SIZES = {"1 KiB": 1 << 10, "100 KiB": 100 << 10, "10 MiB": 10 << 20}

KEEPWARM = """
[server]
threads = 1
limits = {{ connection_requests = {requests}, idle_timeout = "{idle_timeout}" }}

[listen.public]
bind = "127.0.0.1:{port}"
{tls}
[[listen.public.route]]
{route}
"""
KEEPWARM_TLS = 'tls = {{ cert = "{cert}", key = "{key}" }}'
KEEPWARM_HELLO = 'respond = { status = 200, content_type = "text/plain", body = "Hello, world!" }'

NGINX = """
    default_type text/plain;
    keepalive_requests {requests};
    keepalive_timeout {keepalive_timeout};
    sendfile on;
    tcp_nopush on;
    {tls}
    server {{
        listen 127.0.0.1:{port}{listen};
        {route}
    }}
"""
NGINX_TLS = """ssl_certificate {cert};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:bench:10m;
"""

CADDY = """{{
    admin off
    auto_https off
    storage file_system {folder}/caddy
    servers {{
        protocols h1 h2
    }}
}}
{scheme}://127.0.0.1:{port} {{
    bind 127.0.0.1
    log {{
        output stdout
    }}
    {tls}
    {route}
}}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 2000
defaults
    mode http
    timeout client 60s
    timeout http-request 60s
    log stdout format raw local0
    option httplog
frontend public
    bind 127.0.0.1:{port} ssl crt {pem} alpn h2,http/1.1
    http-request return status 200 content-type text/plain string "Hello, world!"
"""


@functools.cache
def identity():
    """A certificate for localhost by an authority of its own, with ECDSA keys: its file, its key's, and both in one."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="keepwarm-bench-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    cert, key, both = folder / "cert.pem", folder / "key.pem", folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    both.write_text(cert.read_text() + key.read_text())
    return cert, key, both


def site(folder):
    """A directory with a file of each size, which no server could compress."""
    root = folder / "files"
    root.mkdir()
    root.chmod(0o755)
    content = random.Random(7)
    for size in SIZES.values():
        (root / str(size)).write_bytes(content.randbytes(size))
    (root / "index.html").write_bytes(servers.BODY)
    return root


def keepwarm(tls=True, files=False, idle_timeout="75s"):
    def command(keepwarm_binary, port, folder, _target):
        cert, key, _ = identity()
        route = f'files = "{site(folder)}"\nindex = ["index.html"]' if files else KEEPWARM_HELLO
        file = folder / "keepwarm.toml"
        file.write_text(KEEPWARM.format(port=port, requests=REQUESTS, idle_timeout=idle_timeout, route=route, tls=KEEPWARM_TLS.format(cert=cert, key=key) if tls else ""))
        return [keepwarm_binary, "run", "--config", file]

    return command


def nginx(tls=True, files=False, connections=1024, keepalive_timeout="75s"):
    def command(_keepwarm_binary, port, folder, _target):
        cert, key, _ = identity()
        route = f"root {site(folder)};" if files else 'location / { return 200 "Hello, world!"; }'
        secured = NGINX_TLS.format(cert=cert, key=key) if tls else ""
        http = NGINX.format(port=port, requests=REQUESTS, keepalive_timeout=keepalive_timeout, route=route, listen=" ssl http2" if tls else "", tls=secured)
        return servers.nginx_with(folder, http, connections=connections)

    return command


def caddy(tls=True, files=False):
    def command(_keepwarm_binary, port, folder, _target):
        cert, key, _ = identity()
        route = f"root * {site(folder)}\n    file_server" if files else 'respond "Hello, world!" 200'
        file = folder / "Caddyfile"
        file.write_text(CADDY.format(port=port, folder=folder, scheme="https" if tls else "http", route=route, tls=f"tls {cert} {key}" if tls else ""))
        return ["env", "GOMAXPROCS=1", f"HOME={folder}", servers.BIN / "caddy", "run", "--adapter", "caddyfile", "--config", file]

    return command


def haproxy():
    def command(_keepwarm_binary, port, folder, _target):
        file = folder / "haproxy.cfg"
        file.write_text(HAPROXY.format(port=port, pem=identity()[2]))
        return ["env", f"PATH={servers.PATH}", "haproxy", "-db", "-f", file]

    return command


def raise_file_limit():
    """To what the system allows: for this process and the servers that it starts."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
