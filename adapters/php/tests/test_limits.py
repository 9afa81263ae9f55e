"""Settings: those for the web hold, where the command line has a php.ini of its own."""

import json
import os
import tempfile
import unittest

from tests.driver import PATIENCE, Worker

WEB = "memory_limit = 64M\ndisplay_errors = On\nerror_log = /dev/null\noutput_buffering = 4096\n"


class Limits(unittest.TestCase):
    def limits(self, files, *options, ini="cli/php.ini"):
        """What a worker finds whose interpreter has these files of php.ini, without what the driver itself says."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            with Unbuffered("plain.php", "-c", os.path.join(folder, ini), *options) as worker:
                return json.loads(worker.get("/limits").body)

    def test_the_webs_settings_hold(self):
        self.assertEqual(self.limits({"cli/php.ini": "memory_limit = -1\n", "fpm/php.ini": WEB}), ["64M", True, "/dev/null", 1])
        self.assertEqual(self.limits({"cli/php.ini": "memory_limit = -1\n", "cgi/php.ini": WEB}), ["64M", True, "/dev/null", 1])

    def test_folders_of_settings_count(self):
        files = {"cli/php.ini": "memory_limit = -1\n", "fpm/php.ini": WEB, "fpm/conf.d/20-site.ini": "memory_limit = 96M\noutput_buffering = Off\n"}
        self.assertEqual(self.limits(files), ["96M", True, "/dev/null", 0])

    def test_without_them_memory_has_a_limit_all_the_same(self):
        self.assertEqual(self.limits({"cli/php.ini": "memory_limit = -1\n"}), ["128M", False, "", 0])
        self.assertEqual(self.limits({"cli/php.ini": "", "fpm/php.ini": "precision = 14\n"}), ["128M", False, "", 0])

    def test_one_php_ini_for_all(self):
        self.assertEqual(self.limits({"etc/php.ini": WEB}, ini="etc/php.ini"), ["64M", True, "/dev/null", 1])
        self.assertEqual(self.limits({"etc/php.ini": "memory_limit = -1\n"}, ini="etc/php.ini"), ["-1", False, "", 0])

    def test_options_count_over_them(self):
        files = {"cli/php.ini": "memory_limit = -1\n", "fpm/php.ini": WEB}
        self.assertEqual(self.limits(files, "-d", "memory_limit=-1", "-ddisplay_errors=0", "-d", "error_log=", "-d", "output_buffering=0"), ["-1", False, "", 0])

    def test_a_loop_that_takes_memory_is_ended(self):
        with Unbuffered("plain.php") as worker:
            self.assertEqual(worker.get("/memory").reset[0], 3)
            self.assertEqual(worker.process.wait(PATIENCE), 255)
            self.assertRegex(worker.log(), r"Allowed memory size of \d+ bytes exhausted")

    def test_the_buffer_that_a_request_begins_with(self):
        for size, sent in ((4096, b" sent"), (1, b" not sent")):
            with Worker("plain.php", "-d", f"output_buffering={size}") as worker:
                for _ in range(2):
                    response = worker.get("/buffered")
                    self.assertEqual((response.body, response.field("x-after")), (b'["junk",0]', ["1"]))
                    self.assertEqual(worker.get("/echo").body, b"printed and more")
                    self.assertEqual(worker.get("/buffered-late").body, b"x" * 300 + sent)
                    self.assertEqual(worker.get("/buffers").body, b"inner innermost returned")
                    self.assertEqual(worker.get("/large-echo").status, 200)


class Unbuffered(Worker):
    """A worker whose interpreter is told nothing of `output_buffering`."""

    def __init__(self, entry, *options, **more):
        super().__init__(entry, *options, own=(), **more)


if __name__ == "__main__":
    unittest.main()
