"""A worker shows where it stands, whatever it does; and a request of an ASGI worker ends when its time is over."""

import signal
import unittest

from tests.driver import Worker, pack

TIMEOUT = 2


class Stacks(unittest.TestCase):
    loop = "asyncio"

    def worker(self, target="asgi_app"):
        worker = Worker(target, "--loop", self.loop)
        self.addCleanup(worker.stop)
        return worker

    def waiting(self, worker):
        """A request that waits in the application."""
        stream = worker.request("/wait-at-gate")
        worker.get("/")  # the loop has turned since
        return stream

    def test_tasks_that_wait_are_shown_on_sigquit_and_go_on(self):
        worker = self.worker()
        stream = self.waiting(worker)
        worker.process.send_signal(signal.SIGQUIT)
        worker.wait_for_log("in wait_at_gate")
        worker.wait_for_log("Stack (most recent call first)")
        worker.get("/open-gate")
        self.assertEqual(worker.response(stream).status, 200)

    def test_one_that_holds_the_interpreters_lock_is_shown(self):
        worker = self.worker()
        worker.request("/holds-everything")
        worker.wait_for_log("holding")
        worker.process.send_signal(signal.SIGQUIT)
        worker.wait_for_log("in holds_everything")

    def test_a_request_whose_time_is_over_is_shown_and_cancelled(self):
        worker = self.worker()
        stream, other = self.waiting(worker), self.waiting(worker)
        worker.reset(stream, TIMEOUT, "the request timed out")
        self.assertEqual(worker.response(stream).reset[0], 1)
        self.assertIn("GET /wait-at-gate timed out", worker.log())
        self.assertIn("in wait_at_gate", worker.log())
        self.assertNotIn("Traceback", worker.log())
        # The others of the worker are as they were.
        worker.get("/open-gate")
        self.assertEqual(worker.response(other).status, 200)

    def test_one_whose_client_has_gone_is_not_cancelled(self):
        worker = self.worker()
        stream = self.waiting(worker)
        worker.reset(stream)
        worker.send(pack("PING", payload=b"12345678"))
        worker.get("/open-gate")
        self.assertEqual(worker.response(stream).reset[0], 1)
        self.assertNotIn("timed out", worker.log())


try:
    import uvloop as _
except ImportError:
    pass  # then the loop of the standard library is all there is
else:

    class StacksOnUvloop(Stacks):
        loop = "uvloop"


try:
    import trio as _
except ImportError:
    pass  # then nothing of it is to be shown
else:

    class StacksOfTrio(unittest.TestCase):
        """Trio's tasks are none of asyncio's, and a request may have started several."""

        def setUp(self):
            self.worker = Worker("trio_app", "--loop", "trio")
            self.addCleanup(self.worker.stop)

        def waiting(self, path):
            stream = self.worker.request(path)
            for _ in range(3):
                self.worker.get("/")  # both loops have turned since
            return stream

        def timed_out(self, path):
            stream = self.waiting(path)
            self.worker.reset(stream, TIMEOUT, "the request timed out")
            self.assertEqual(self.worker.response(stream).reset[0], 1)
            log = self.worker.log()
            self.assertIn(f"GET {path} timed out", log)
            self.assertNotIn("asgi_trio.py", log)
            self.assertNotIn("Traceback", log)
            self.assertEqual(self.worker.get("/").status, 200)
            return log

        def test_a_request_whose_time_is_over(self):
            self.assertRegex(self.timed_out("/wait-at-gate"), r"(?s)timed out; it is cancelled here:\n.*in application\n.*in wait_at_gate\n")

        def test_tasks_that_it_has_started(self):
            log = self.timed_out("/wait-in-nursery")
            self.assertRegex(log, r"(?s)timed out; it is cancelled here:\n.*in application\n")
            for task, place in (("trio_app.wait_below", "wait_below"), ("trio_app.wait_beside", "wait_beside"), ("trio_app.wait_at_gate", "wait_at_gate")):
                self.assertRegex(log, rf"(?s)Task {task}, started by it:\n[^\n]*in {place}\n")

        def test_a_request_that_waits_for_its_client(self):
            self.assertIn("in application", self.timed_out("/read-twice"))

        def test_all_on_sigquit(self):
            stream = self.waiting("/wait-in-nursery")
            self.worker.process.send_signal(signal.SIGQUIT)
            self.worker.wait_for_log("in wait_beside")
            self.worker.wait_for_log("in wait_at_gate")
            self.worker.reset(stream)


if __name__ == "__main__":
    unittest.main()
