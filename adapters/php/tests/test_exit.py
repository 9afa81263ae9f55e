"""`exit()` ends its request and not the worker."""

import os
import tempfile
import unittest

from tests.driver import PATIENCE, Worker
from tests.test_forms import fields, multipart, part

REFUSED = 6


class Exit(unittest.TestCase):
    def start(self, entry="exits.php", *options, **more):
        worker = Worker(entry, *options, **more)
        self.addCleanup(worker.stop)
        return worker

    def same(self, worker):
        """The worker is the one that it was, and the log does not say otherwise."""
        self.assertEqual(int(worker.get("/pid").body), worker.process.pid)
        self.assertEqual(worker.drain(), 0)
        self.assertNotIn("exit", worker.log())

    def test_what_was_produced_is_the_response_and_the_worker_stays(self):
        worker = self.start()
        for _ in range(3):
            for path, status, body in (
                ("/message", 418, b"a teapot"), ("/nested", 200, b"nested"), ("/generator", 200, b"one two"), ("/destructor", 200, b"destroyed"),
                ("/buffers", 200, b"IN BUFFERS"), ("/session-exits", 200, b"page"), ("/handler", 200, b"handled"), ("/shutdown", 200, b"page and more"), ("/", 200, b"hello"),
                ("/late", 200, b"begun and ended"), ("/read", 200, b"the body"),
            ):  # fmt: skip
                response = worker.get(path, method="POST", body=b"the body")
                self.assertEqual((response.status, response.body, response.reset), (status, body, None), (path, worker.log()))
                self.assertEqual(response.field("x-exit"), ["1"] if path == "/message" else [], path)
                self.assertEqual(worker.held, [], path)
        self.same(worker)

    def test_requests_that_came_behind_it_are_served(self):
        worker = self.start()
        for first in ("/message", "/"):
            sent = [worker.request(path, send=False) for path in (first, "/", "/message", "/")]
            worker.send(b"".join(data for _, data in sent))
            bodies = [worker.response(stream).body for stream, _ in sent]
            self.assertEqual(bodies, [b"a teapot" if first == "/message" else b"hello", b"hello", b"a teapot", b"hello"])
        self.same(worker)

    def test_a_buffer_begun_in_the_callback_of_another_is_handled_after_it_too(self):
        for before in ([], ["/message"]):
            worker = self.start()
            for path in before:
                worker.get(path)
            self.assertEqual(worker.get("/callback-buffers").reset, (3, "a fatal error in the application"), (before, worker.log()))
            worker.process.wait(PATIENCE)
            self.assertIn("a fatal error ended this worker in GET /callback-buffers; it is replaced", worker.log())

    def test_what_it_changed_is_put_back(self):
        worker = self.start()
        before = worker.get("/see").body
        for _ in range(2):
            self.assertEqual(worker.get("/settings").body, b"changed")
            self.assertEqual(worker.get("/see").body, before)
            self.assertEqual(worker.get("/handler").body, b"handled")
            self.assertEqual(worker.get("/handler-kept").body, b"no handler")

    def test_its_session_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            worker = self.start("exits.php", "-d", f"session.save_path={folder}")
            cookie = worker.get("/session").field("set-cookie")[0].split(";")[0]
            self.assertEqual([worker.get("/session", fields=[("cookie", cookie)]).body for _ in range(2)], [b"2", b"3"])
            self.assertEqual(worker.get("/session").body, b"1")
            self.same(worker)

    def test_its_uploads_are_removed(self):
        worker = self.start()
        for _ in range(2):
            body = multipart(part("file", "content", "x.txt"))
            path = worker.get("/upload", method="POST", body=body, fields=fields(body)).body.decode()
            self.assertNotEqual(path, "")
            worker.get("/")
            self.assertFalse(os.path.exists(path), path)

    def test_memory_does_not_grow(self):
        def resident():
            with open(f"/proc/{worker.process.pid}/statm") as numbers:
                return int(numbers.read().split()[1]) * 4_096

        worker = self.start()
        for _ in range(100):
            worker.get("/message")
        before = resident()
        for _ in range(300):
            worker.get("/message")
        self.assertLess(resident() - before, 2_000_000)

    def test_a_child_that_exits_does_end(self):
        worker = self.start()
        for _ in range(2):
            self.assertEqual(worker.get("/child").body, b"the child ended with 7")
            worker.get("/message")
        self.same(worker)

    def test_exit_in_all_that_ends_a_request_ends_the_worker(self):
        worker = self.start("odd/exits_again.php")
        self.assertEqual(worker.get("/").body, b"page")
        self.assertEqual(worker.drain(), 0)
        self.assertIn("code that runs at the end of a request calls exit() each time; the worker is replaced", worker.log())

    def test_a_callback_of_a_buffer_that_breaks_off_costs_the_worker(self):
        for path, body in (("/callback", b""), ("/callback-throws", b"caught")):
            worker = self.start()
            response = worker.get(path)
            self.assertEqual((response.status, response.body, response.reset), (200, body, None), path)
            self.assertEqual((worker.held.pop() if worker.held else worker.read()).name, "DRAIN", path)
            self.assertEqual(worker.drain(), 0)
            self.assertIn("further output is lost; the worker is replaced", worker.log())

    def test_fatal_errors_behind_it(self):
        for path, status, body, reset in (
            ("/fatal", None, b"", 3), ("/fatal-printed", 500, b"printed before", None), ("/fatal-late", 200, b"begun", 3),
            ("/memory", None, b"", 3), ("/memory-printed", 500, b"printed before", None),
        ):  # fmt: skip
            with Worker("plain.php", "-d", "memory_limit=32M") as worker:
                self.assertEqual(worker.get("/exit").body, b"before exit")
                response = worker.get(path)
                self.assertEqual((response.status, response.body, response.reset and response.reset[0]), (status, body, reset), path)
                self.assertEqual(worker.process.wait(PATIENCE), 255)
                self.assertIn("PHP Fatal error:", worker.log())
                self.assertIn(f"a fatal error ended this worker in GET {path}", worker.log())

    def test_an_application_with_fibers_gets_a_new_worker(self):
        worker = self.start(env={"TEST_FIBERS": "1"})
        self.assertEqual(worker.get("/fiber").body, b"from a fiber")
        first, second = worker.request("/message", send=False), worker.request("/", send=False)
        worker.send(first[1] + second[1])
        response = worker.response(first[0])
        self.assertEqual((response.status, response.body, response.reset), (418, b"a teapot", None))
        # It came before the response's end, so that nothing is given to this worker behind it.
        self.assertEqual([frame.name for frame in worker.held], ["DRAIN"])
        self.assertEqual(worker.response(second[0]).reset[0], REFUSED)
        self.assertEqual(worker.get("/").reset[0], REFUSED)  # one that crossed
        self.assertEqual(worker.drain(), 0)
        self.assertIn("the application called exit() in GET /message", worker.log())


if __name__ == "__main__":
    unittest.main()
