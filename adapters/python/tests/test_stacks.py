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


if __name__ == "__main__":
    unittest.main()
