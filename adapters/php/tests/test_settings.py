"""Settings of php.ini that change what a script finds of a request, in a worker and in php-cgi: the same requests, each twice, have the same responses."""

import os
import re
import subprocess
import tempfile
import unittest

from tests.driver import ADAPTER, APPS, Worker
from tests.test_forms import BOUNDARY, multipart, part

CGI = os.environ.get("PHP_CGI", "php-cgi")
FORM = ("content-type", "application/x-www-form-urlencoded")
QUIET = ("error_reporting=0", "display_errors=0", "session.gc_probability=0", "request_order=GP")


class Settings(unittest.TestCase):
    maxDiff = None

    def start(self, *settings):
        """A worker, and a php-cgi that has its sessions in another folder."""
        options = []
        for _ in range(2):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            options.append([part for setting in (*QUIET, *settings, f"session.save_path={folder.name}") for part in ("-d", setting)])
        self.worker = Worker("settings.php", *options[0])
        self.addCleanup(self.worker.stop)
        self.cgi = [CGI, "-n", *options[1], str(APPS / "settings.php")]

    def of_cgi(self, path, query, method, fields, body):
        env = {
            "PATH": os.environ["PATH"], "GATEWAY_INTERFACE": "CGI/1.1", "REDIRECT_STATUS": "200", "REQUEST_METHOD": method, "QUERY_STRING": query, "PATH_INFO": path,
            "SCRIPT_FILENAME": self.cgi[-1], "REQUEST_URI": path,
        }  # fmt: skip
        for name, value in fields:
            name = name.upper().replace("-", "_")
            env[name if name.startswith("CONTENT_") else f"HTTP_{name}"] = value
        head, _, text = subprocess.run(self.cgi, input=body, env=env, stdout=subprocess.PIPE, check=True).stdout.partition(b"\r\n\r\n")
        cookies = [line[12:] for line in head.decode().split("\r\n") if line.lower().startswith("set-cookie: ")]
        return text.decode(), cookies

    def same(self, path, query="", fields=(), body=b""):
        method = "POST" if body else "GET"
        fields = [*fields, ("content-length", str(len(body)))] if body else list(fields)
        response = self.worker.get(path, query=query, method=method, fields=fields, body=body)
        self.assertEqual(response.status, 200, (response, self.worker.log()[-2000:]))
        text, cookies = self.of_cgi(path, query, method, fields, body)
        found = response.body.decode(), [re.sub(r"=[a-z0-9,-]{20,}", "=NEW", cookie) for cookie in response.field("set-cookie")]
        self.assertEqual(found, (text, [re.sub(r"=[a-z0-9,-]{20,}", "=NEW", cookie) for cookie in cookies]), (path, query, fields, body))

    def test_ids_of_sessions_from_query_and_form(self):
        for settings in (
            (), ("session.use_only_cookies=0",), ("session.use_only_cookies=0", "session.use_cookies=0"), ("session.use_cookies=0",),
            ("session.use_only_cookies=0", "session.referer_check=shop.example"), ("session.use_only_cookies=0", "session.name=SID"),
        ):  # fmt: skip
            with self.subTest(settings=settings):
                self.start(*settings)
                for _ in range(2):
                    for name in ("PHPSESSID", "SID"):
                        self.same("/session", f"{name}=fromget1")
                        self.same("/session", fields=[FORM], body=f"{name}=frompost".encode())
                        self.same("/session", f"{name}=fromget2", [FORM], f"{name}=frompost".encode())
                        self.same("/session", f"{name}=fromget1", [("cookie", f"{name}=cookie12")])
                        self.same("/session", f"{name}[]=fromget1")
                        for referer in ("http://shop.example/", "http://evil.example/"):
                            self.same("/session", f"{name}=fromget1", [("referer", referer)])
                            self.same("/session", "", [("referer", referer), ("cookie", f"{name}=cookie12")])
                    self.same("/session")

    def test_sessions_that_begin_by_themselves(self):
        self.start("session.auto_start=1")
        for _ in range(2):
            self.same("/automatic")
            self.same("/automatic", fields=[("cookie", "PHPSESSID=cookie12")])
            self.same("/automatic", fields=[("cookie", "PHPSESSID=cookie34")])

    def test_filter_default(self):
        multipart_type = ("content-type", f"multipart/form-data; boundary={BOUNDARY}")
        cookie = ("cookie", "a=<b>; l[x]=\"'&")
        for settings in (
            (), ("filter.default=special_chars",), ("filter.default=full_special_chars",), ("filter.default=special_chars", "filter.default_flags=0"), ("filter.default=number_int",),
            ("filter.default=unsafe_raw", "filter.default_flags=512"), ("filter.default=email",), ("filter.default=nonsense",),
        ):  # fmt: skip
            with self.subTest(settings=settings):
                self.start(*settings)
                for _ in range(2):
                    self.same("/filter", "a=%3Cscript%3E1%22%27%26&l[x][y]=%3C&n=", [cookie, ("x-shown", "<i>'\"")])
                    self.same("/filter", "a=%3C", [cookie, FORM], b"p=%3Cscript%3E&q[]=%22%00x")
                    self.same("/filter", "", [cookie, multipart_type], multipart(part("p", "<b>\"'"), part("q[][z]", "<i>")))

    def test_ini_alter_within_its_request(self):
        self.start("precision=14", "serialize_precision=14")
        self.same("/ini_alter")

    def test_open_basedir(self):
        # `keepwarm run` adds the adapter's own folder.
        self.start(f"open_basedir={APPS}:{ADAPTER}")
        for _ in range(2):
            self.same("/files")
        self.assertEqual(self.worker.log(), "")


if __name__ == "__main__":
    unittest.main()
