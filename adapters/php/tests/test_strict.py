"""An application whose error handler throws: what a client sends, and what Keepwarm does itself, must not set it off."""

import json
import os
import signal
import tempfile
import unittest

from tests.driver import APPS, Worker
from tests.test_forms import fields, multipart, part

MANY = "&".join(f"v{number}=1" for number in range(1_200))
FORM = [("content-type", "application/x-www-form-urlencoded"), ("content-length", str(len(MANY)))]


class Strict(unittest.TestCase):
    def start(self, *options, **more):
        worker = Worker("strict.php", *options, **more)
        self.addCleanup(worker.stop)
        return worker

    def test_more_variables_than_max_input_vars(self):
        for limit in (1_000, 20):
            worker = self.start("-d", f"max_input_vars={limit}")
            self.assertEqual(json.loads(worker.get("/", query=MANY).body)[0], limit, worker.log())
            self.assertEqual(json.loads(worker.get("/", method="POST", body=MANY.encode(), fields=FORM).body)[1], limit, worker.log())
            self.assertIn(f"Input variables exceeded {limit}", worker.log())
        worker = self.start("-d", "arg_separator.input=;", "-d", "max_input_vars=20")
        self.assertEqual(json.loads(worker.get("/", query=MANY.replace("&", ";")).body)[0], 20)

    def test_uploads_without_a_place(self):
        worker = self.start("-d", "upload_tmp_dir=/dev/null", "-d", "sys_temp_dir=/nonexistent")
        body = multipart(part("file", "content", "name"))
        self.assertEqual(json.loads(worker.get("/", method="POST", body=body, fields=fields(body)).body), [0, 0, 0, {"name": 6}])
        self.assertEqual(json.loads(worker.get("/", method="POST", body=body, fields=fields(body, "multipart/form-data")).body), [0, 0, 0, []])

    def test_signals_that_interrupt_it(self):
        worker = self.start()
        for _ in range(5):
            worker.wait_until_asleep()
            worker.process.send_signal(signal.SIGINT)
            self.assertEqual(worker.get("/").status, 200)
        worker.wait_until_asleep()
        worker.process.terminate()
        self.assertEqual(worker.read().name, "DRAIN")
        self.assertEqual(worker.drain(), 0)
        self.assertEqual(worker.log(), "")

    def test_its_handler_hears_its_own_warnings(self):
        worker = self.start()
        self.assertEqual(worker.get("/warns").reset[0], 3)
        self.assertIn("Uncaught ErrorException: Undefined variable $undefined", worker.log())
        *lines, last = worker.log().rstrip("\n").split("\n")
        self.assertEqual([line[-1:] for line in lines], ["\x1f"] * len(lines), "one record (spec/wire.md §1)")
        self.assertTrue(lines and not last.endswith("\x1f"), worker.log())
        self.assertEqual(worker.get("/").status, 200)

    def test_what_cannot_be_put_back_replaces_the_worker(self):
        with tempfile.TemporaryDirectory() as folder:
            gone = os.path.join(folder, "gone")
            os.mkdir(gone)
            worker = Worker(str(APPS / "strict.php"), cwd=gone)
            self.addCleanup(worker.stop)
            self.assertEqual(worker.get("/folder", query=f"folder={gone}").status, 200)
            self.assertEqual(worker.read().name, "DRAIN")
            self.assertEqual(worker.drain(), 0)
            self.assertIn("chdir()", worker.log())

    def test_a_session_that_cannot_be_written_is_an_error_of_the_application(self):
        worker = self.start()
        self.assertEqual(worker.get("/session").reset[0], 3)
        self.assertIn("cannot be written", worker.log())
        self.assertEqual(worker.get("/").status, 200)


if __name__ == "__main__":
    unittest.main()
