"""A site in a kept worker and under php-fpm, visited step by step by two browsers that do the same: what they see has to be the same."""

import glob
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.parse

from tests.driver import Worker

# Debian names it after its version.
FPM = os.environ.get("PHP_FPM") or max(glob.glob("/usr/sbin/php-fpm*"), default="php-fpm")
POOL = """
[global]
daemonize = no
error_log = {folder}/log
[www]
listen = {folder}/socket
user = root
pm = static
pm.max_children = 1
"""
START = 30
FORM = "application/x-www-form-urlencoded"
# What each server says for itself, and how each frames a body.
OWN = {"date", "content-length", "x-powered-by", "status", "last-modified"}
SECRET = re.compile(r"[A-Za-z0-9]{26,}|eyJ[\w%+/=-]{40,}")
DATE = re.compile(r"\w{3}, \d\d[ -]\w{3}[ -]20[2-9]\d [\d:]{8} GMT|(?<=Max-Age=)\d+", re.I)


class Browser:
    """Keeps cookies, and the last token that a page had."""

    def __init__(self):
        self.cookies = {}
        self.token = ""

    def fields(self, extra):
        fields = [("host", "shop.example"), *extra]
        if self.cookies:
            fields.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        return fields

    def saw(self, fields, body):
        for name, value in fields:
            if name == "set-cookie":
                cookie, _, rest = value.partition(";")
                key, _, content = cookie.partition("=")
                if "expires=thu, 01" in rest.lower() or content == "deleted":
                    self.cookies.pop(key, None)
                else:
                    self.cookies[key] = content
        found = re.search(rb'name="_token" value="(\w+)"', body)
        if found:
            self.token = found.group(1).decode()


def shown(status, fields, body):
    """What has to be the same: without secrets and dates, of which each server makes its own."""
    kept = sorted((name, DATE.sub("DATE", SECRET.sub("SECRET", value))) for name, value in fields if name not in OWN)
    return status, kept, SECRET.sub("SECRET", body.decode("utf-8", "replace"))


class Fpm:
    """A php-fpm with one process, spoken to by `cgi-fcgi`: the variables of a request are its environment."""

    def __init__(self, options):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.folder.name, "socket")
        file = os.path.join(self.folder.name, "pool.conf")
        with open(file, "w", encoding="utf-8") as pool:
            pool.write(POOL.format(folder=self.folder.name))
        command = [FPM, "--nodaemonize", "--allow-to-run-as-root", "--fpm-config", file, *(part for option in options for part in ("-d", option))]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_until_it_listens()
        except BaseException:
            self.stop()
            raise

    def wait_until_it_listens(self):
        deadline = time.monotonic() + START
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as attempt:
                    return attempt.connect(self.socket)
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    with open(os.path.join(self.folder.name, "log"), encoding="utf-8") as log:
                        raise AssertionError(f"{FPM} does not start: {log.read()}") from None
            time.sleep(0.02)

    def run(self, env, body):
        command = ["cgi-fcgi", "-bind", "-connect", self.socket]
        return subprocess.run(command, input=body, env={"PATH": os.environ["PATH"], **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


class Sites:
    """The same application twice, each with a folder of its own."""

    def __init__(self, entry, script, options, worker_env, fpm_env):
        self.entry, self.script, self.options, self.worker_env, self.fpm_env = entry, script, options, worker_env, fpm_env
        self.worker_browser, self.fpm_browser = Browser(), Browser()
        self.worker = None
        self.fpm = Fpm(options)
        try:
            self.reload()
        except BaseException:
            self.fpm.stop()
            raise

    def reload(self):
        """As Keepwarm reloads: another worker takes the place of this one."""
        if self.worker is not None:
            self.worker.drain()
            self.worker.stop()
        self.worker = Worker(self.entry, *(part for option in self.options for part in ("-d", option)), env=self.worker_env)

    def stop(self):
        self.worker.stop()
        self.fpm.stop()

    def of_worker(self, method, path, query, fields, body):
        response = self.worker.get(path, query=query, method=method, fields=fields, body=body)
        return response.status, [(name.lower(), value) for name, value in response.fields], response.body

    def of_fpm(self, method, path, query, fields, body):
        env = {
            "GATEWAY_INTERFACE": "CGI/1.1", "REDIRECT_STATUS": "200", "SERVER_PROTOCOL": "HTTP/1.1", "REQUEST_METHOD": method,
            "QUERY_STRING": query, "REQUEST_URI": path + ("?" + query if query else ""), "SCRIPT_FILENAME": str(self.script), "SCRIPT_NAME": "/index.php",
            "SERVER_NAME": "shop.example", "SERVER_PORT": "80", "REMOTE_ADDR": "127.0.0.1", **self.fpm_env,
        }  # fmt: skip
        for name, value in fields:
            name = name.upper().replace("-", "_")
            env[name if name.startswith("CONTENT_") else f"HTTP_{name}"] = value
        head, _, text = self.fpm.run(env, body).partition(b"\r\n\r\n")
        lines = [line.partition(": ")[::2] for line in head.decode("latin-1").split("\r\n") if line]
        found = [(name.lower(), value) for name, value in lines]
        return int(dict(found).get("status", "200").split()[0]), found, text

    def visit(self, path, form=None, query="", kind=None, body=None, extra=()):
        """One step of both; gives what is to be compared, the worker's and php-fpm's."""
        seen = []
        for browser, ask in ((self.worker_browser, self.of_worker), (self.fpm_browser, self.of_fpm)):
            sent, fields = body, list(extra)
            if form is not None:
                sent = urllib.parse.urlencode({name: value.replace("TOKEN", browser.token) for name, value in form.items()}).encode()
            if sent is not None:
                fields += [("content-type", kind or FORM), ("content-length", str(len(sent.replace(b"TOKEN", browser.token.encode()))))]
                sent = sent.replace(b"TOKEN", browser.token.encode())
            status, returned, text = ask("GET" if sent is None else "POST", path, query, browser.fields(fields), sent or b"")
            browser.saw(returned, text)
            seen.append(shown(status, returned, text))
        return seen
