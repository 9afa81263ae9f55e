"""The servers that are compared: how each is started, and which processes it consists of."""

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
APPS = HERE / "apps"
BIN = pathlib.Path(sys.executable).parent
BODY = b"Hello, world!"
# Where cargo puts what it builds.
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# CPU of Keepwarm beside an earlier state of it, at most.
NO_SLOWER = 1.02
START_TIMEOUT = 20.0
STOP_TIMEOUT = 15.0

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
# The benchmark's own certificate is known to nobody.
ANY_CERTIFICATE = ssl._create_unverified_context()

# What every nginx here is told; `http` is what it serves.
NGINX_FRAME = """
daemon off;
worker_processes {processes};
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections {connections}; }}
http {{
    access_log {access_log};
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{http}}}
"""

NGINX = """
    default_type text/plain;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "Hello, world!"; }}
    }}
"""

KEEPWARM_FIXED = """
[server]
threads = 1

[listen.public]
bind = "127.0.0.1:{port}"

[[listen.public.route]]
respond = {{ status = 200, content_type = "text/plain", body = "Hello, world!" }}
"""

KEEPWARM_PAGE = """
[server]
threads = 1

[listen.public]
bind = "127.0.0.1:{port}"
compress = {{ codings = ["{coding}"], level = "{level}" }}

[[listen.public.route]]
files = "{site}"
"""

NGINX_PAGE = """
    default_type text/html;
    gzip on;
    gzip_comp_level {level};
    open_file_cache max=100;
    server {{
        listen 127.0.0.1:{port};
        root {site};
    }}
"""


def arguments_with_keepwarm(parser):
    """The arguments of a benchmark, with the Keepwarm that it measures, which must be built."""
    parser.add_argument("--keepwarm", type=pathlib.Path, metavar="BINARY", default=TARGET / "release/keepwarm")
    options = parser.parse_args()
    options.keepwarm = options.keepwarm.resolve()
    if not options.keepwarm.exists():
        parser.error(f"{options.keepwarm} is missing: cargo build --release -p keepwarm")
    return options


def keepwarm(keepwarm_binary, port, folder, target):
    return [keepwarm_binary, "run", target, "--bind", f"127.0.0.1:{port}", "--workers", "1"]


def keepwarm_fixed(keepwarm_binary, port, folder, _target):
    file = folder / "keepwarm.toml"
    file.write_text(KEEPWARM_FIXED.format(port=port))
    return [keepwarm_binary, "run", "--config", file]


def shop_page():
    """A page of 60 KiB such as shops have: markup that repeats, and text and numbers that do not."""
    chosen = random.Random(7)
    words = re.findall(r"[A-Za-z]{3,12}", (ROOT / "LICENSE-APACHE").read_text())
    page = "<!doctype html><html lang=en><head><meta charset=utf-8><title>Shop</title></head><body>\n"
    while len(page.encode()) < 60 * 1024:
        text = [" ".join(chosen.choice(words) for _ in range(count)) for count in (3, 4, 22)]
        number = chosen.randrange
        page += (
            f'<article class="product card" id="p{number(10**7)}"><a href="/products/{chosen.choice(words).lower()}-{number(10**5)}">'
            f'<img src="/assets/img/{number(16**12):x}.webp" width="320" height="240" alt="{text[0]}" loading="lazy"></a>'
            f'<h2 class="product__title">{text[1]}</h2><p class="product__text">{text[2]}</p><span class="price">{number(100)}.{number(100):02} €</span></article>\n'
        )
    return page.encode()[: 60 * 1024]


def page_folder(folder):
    site = folder / "site"
    site.mkdir()
    site.chmod(0o755)
    (site / "index.html").write_bytes(shop_page())
    return site


def keepwarm_page(coding, level):
    """Keepwarm with that page as a file, compressed for each request."""

    def command(keepwarm_binary, port, folder, _target):
        file = folder / "keepwarm.toml"
        file.write_text(KEEPWARM_PAGE.format(port=port, site=page_folder(folder), coding=coding, level=level))
        return [keepwarm_binary, "run", "--config", file]

    return command


def nginx_page(level):
    """nginx with the same page, and gzip of that level."""

    def command(_keepwarm_binary, port, folder, _target):
        return nginx_with(folder, NGINX_PAGE.format(port=port, site=page_folder(folder), level=level))

    return command


def bare(_keepwarm_binary, port, _folder, _target):
    """No server, but what the kernel asks of any that has its workers in processes of their own."""
    return [built("keepwarm-bench-bare"), "server", f"127.0.0.1:{port}"]


def built(program):
    """A program of bench/relay: of `KEEPWARM_BENCH_PROGRAMS`, a directory, or built for release."""
    if directory := os.environ.get("KEEPWARM_BENCH_PROGRAMS"):
        return pathlib.Path(directory).resolve() / program
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "keepwarm-bench-relay"], cwd=ROOT, check=True)
    return TARGET / "release" / program


def granian(_keepwarm_binary, port, folder, target):
    interface = target.partition(":")[2]
    return [BIN / "granian", "--interface", interface, "--workers", "1", "--port", str(port), target]


def gunicorn(_keepwarm_binary, port, folder, target):
    return [BIN / "gunicorn", "--workers", "1", "--bind", f"127.0.0.1:{port}", target]


def uvicorn(_keepwarm_binary, port, folder, target):
    return [BIN / "uvicorn", "--workers", "1", "--port", str(port), target]


def puma(_keepwarm_binary, port, folder, target):
    return ["puma", "--environment", "production", "--bind", f"tcp://127.0.0.1:{port}", target]


def unicorn(_keepwarm_binary, port, folder, target):
    return ["unicorn", "--env", "deployment", "--listen", f"127.0.0.1:{port}", target]


def nginx(_keepwarm_binary, port, folder, _target):
    return nginx_with(folder, NGINX.format(port=port))


def nginx_with(folder, http, access_log="/dev/null combined", processes=1, connections=1024):
    """The command of an nginx that serves `http`, the inside of that block."""
    file = folder / "nginx.conf"
    file.write_text(NGINX_FRAME.format(folder=folder, http=http.lstrip("\n"), access_log=access_log, processes=processes, connections=connections))
    return [shutil.which("nginx", path=PATH) or "nginx", "-p", folder, "-c", file]


class Server:
    """A running server. Its standard output goes to /dev/null, as its peers' does; its standard error is kept for a failed start."""

    def __init__(self, name, command, target, keepwarm_binary, expected_body=BODY, scheme="http"):
        self.name = name
        self.expected_body = expected_body
        self.port = free_port()
        self.origin = f"{scheme}://127.0.0.1:{self.port}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="keepwarm-bench-"))
        # nginx changes to another user when it is started as root, and must still reach its folder.
        self.folder.chmod(0o755)
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", VIRTUAL_ENV=str(BIN.parent))
        self.log = self.folder / "stderr"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command(keepwarm_binary, self.port, self.folder, target),
                cwd=APPS, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )
        try:
            self.wait_until_it_responds()
        except BaseException:
            self.stop()
            raise

    def wait_until_it_responds(self):
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with urllib.request.urlopen(f"{self.origin}/", timeout=2, context=ANY_CERTIFICATE) as response:
                    body = response.read()
                if self.expected_body not in body:
                    raise SystemExit(f"{self.name} responds with {body!r}")
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log = self.log.read_text(errors="replace")
                    raise SystemExit(f"{self.name} does not serve ({error}):\n{log}") from error
                time.sleep(0.05)

    def cpu(self):
        """Seconds of CPU, user and system, that each of the server's processes has used: pid -> seconds."""
        return {pid: used for pid, used in processes_below(self.process.pid).items()}

    def stop(self):
        below = processes_below(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                kill(below)
                self.process.wait()
        # A shell that started two servers can be gone before them.
        kill(pid for pid in below if session(pid) == self.process.pid)
        shutil.rmtree(self.folder, ignore_errors=True)


def threads(pid):
    """Nanoseconds on a processor, of each thread by its name and number (/proc/PID/task/TID/schedstat)."""
    spent = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            spent[(task / "comm").read_text().strip(), task.name] = int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # It has just ended.
    return spent


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def session(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def processes_below(root):
    """The process `root` and all its descendants, with the CPU seconds each has used."""
    tick = os.sysconf("SC_CLK_TCK")
    parents, used = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue  # it ended while we looked
        # The name stands in brackets and may hold anything: count from its end (proc(5)).
        fields = stat[stat.rindex(b")") + 2:].split()
        parents[int(entry)] = int(fields[1])
        used[int(entry)] = (int(fields[11]) + int(fields[12])) / tick
    tree = {root}
    while True:
        found = {pid for pid, parent in parents.items() if parent in tree} - tree
        if not found:
            return {pid: used[pid] for pid in tree if pid in used}
        tree |= found


def wait_for_port(port, process):
    """Until somebody listens there; or `process`, which is to, has ended."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"nobody listens at port {port}") from error
            time.sleep(0.05)


def free_port():
    """A port nobody listens on, never given twice, and below those that the system gives to sockets that ask for no number."""
    for port in PORTS:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SystemExit("there is no free port below the ephemeral ones")


def ports():
    """Every one once, from one that differs by process. The upper half is where Keepwarm takes the ports of its workers from."""
    ephemeral = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    span = ephemeral // 2 - FIRST_PORT
    return (FIRST_PORT + (os.getpid() * 127 + count) % span for count in range(span))


FIRST_PORT = 10_000
PORTS = ports()
