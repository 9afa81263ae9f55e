"""One script: under php-cgi, and twice in one warm worker."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from tests import driver

driver.PHP = shutil.which(driver.PHP) or driver.PHP  # a script may have a PATH of its own
HERE = pathlib.Path(__file__).resolve().parent
REFUSED = 6  # by a worker that a request left unfit (spec/wire.md §5)
BOUND = 20  # seconds
CGI = shutil.which(os.environ.get("PHP_CGI", "php-cgi")) or "php-cgi"
# What PHP's own run-tests.php sets for every test.
ALWAYS = {
    "output_handler": "", "open_basedir": "", "disable_functions": "", "output_buffering": "Off", "error_reporting": "32767", "display_errors": "1",
    "display_startup_errors": "1", "log_errors": "0", "html_errors": "0", "docref_root": "", "docref_ext": ".html", "error_prepend_string": "",
    "error_append_string": "", "auto_prepend_file": "", "auto_append_file": "", "ignore_repeated_errors": "0", "precision": "14",
    "serialize_precision": "-1", "memory_limit": "128M", "opcache.file_update_protection": "0", "opcache.revalidate_freq": "0", "zend.assertions": "1",
    "zend.exception_ignore_args": "0", "zend.exception_string_param_max_len": "15", "short_open_tag": "0",
}  # fmt: skip


class Place:
    """Where a script is run: its own folder, for what it includes, with a folder for what it leaves."""

    def __init__(self, script):
        self.script = script
        self.folder = tempfile.TemporaryDirectory(prefix="keepwarm-phpt-")
        self.file = script.path.with_name(f"{script.path.stem}.php")
        self.file.write_bytes(script.source.encode("latin-1"))
        self.settings = ALWAYS | {"session.save_path": self.folder.name} | dict(script.settings(self.folder.name))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if "CLEAN" in self.script.sections:
            self.php("CLEAN")
        self.file.unlink(missing_ok=True)
        self.folder.cleanup()

    def environment(self):
        return dict(os.environ, PHPT_FILE=str(self.file), TMPDIR=self.folder.name, **self.script.environment())

    def options(self, *without):
        return [part for name, value in self.settings.items() if name not in without for part in ("-d", f"{name}={value}")]

    def php(self, section):
        """Runs a section in php-cgi; gives what it prints."""
        file = self.file.with_suffix(f".{section.lower()}.php")
        file.write_bytes(self.script.sections[section].encode("latin-1"))
        try:
            return self.cgi(file, {})[0]
        finally:
            file.unlink(missing_ok=True)

    def skipped(self):
        return "SKIPIF" in self.script.sections and b"skip" in self.php("SKIPIF").lower()

    def cgi(self, file, more, body=b""):
        environment = self.environment() | {
            "REDIRECT_STATUS": "1", "SCRIPT_FILENAME": str(file), "PATH_TRANSLATED": str(file), "REQUEST_METHOD": "GET", "QUERY_STRING": "", **more,
        }  # fmt: skip
        command = [CGI, *self.options(), "-C"]
        try:
            done = subprocess.run(command, input=body, capture_output=True, cwd=self.file.parent, env=environment, timeout=BOUND)
        except subprocess.TimeoutExpired:
            return b"", []
        head, _, output = done.stdout.partition(b"\r\n\r\n")
        pairs = [tuple(part.strip() for part in line.split(":", 1)) for line in head.decode("latin-1").splitlines() if ":" in line]
        return output, [(name, value[:3] if name == "Status" else value) for name, value in pairs]

    def under_cgi(self, wrapped):
        method, query, headers, body = self.script.request()
        more = {"REQUEST_METHOD": method, "QUERY_STRING": query, "HTTP_COOKIE": headers.get("cookie", "")}
        more |= {"CONTENT_TYPE": headers.get("content-type", ""), "CONTENT_LENGTH": headers.get("content-length", "")}
        return self.cgi(HERE / "cgi.php" if wrapped else self.file, more, body)

    def warm(self):
        """What two requests to one worker gave: bodies, headers, and how the second ended if it did."""
        method, query, headers, body = self.script.request()
        environment = {"PHPT_FILE": str(self.file), "TMPDIR": self.folder.name, **self.script.environment()}
        responses = []
        with driver.Worker(str(HERE / "warm.php"), *self.options("disable_functions", "log_errors"), cwd=self.file.parent, own=(), env=environment) as worker:
            worker.mine.settimeout(BOUND)
            if worker.hello is None:
                return [(b"", [], worker.log())]
            for _ in range(2):
                try:
                    response = worker.get("/", method=method, query=query, fields=list(headers.items()), body=body)
                except (OSError, TimeoutError, AssertionError, AttributeError) as error:
                    responses.append((b"", [], repr(error) + worker.log()))
                    break
                if response.reset is not None and response.reset[0] == REFUSED:
                    break
                responses.append((response.body, [*response.fields, ("Status", str(response.status))], worker.log()))
                if "a fatal error ended this worker" in worker.log() or any(frame.name == "DRAIN" for frame in worker.held):
                    break
        return responses
