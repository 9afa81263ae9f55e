"""An application whose signal handlers throw, or exit: never half a frame, nothing that was read is lost, and a worker that is idle stays."""

import signal
import unittest

from tests.driver import Worker, disabled


class Signals(unittest.TestCase):
    def start(self, *options):
        worker = Worker("signals.php", *options, stream_credit=4_000_000, connection_credit=4_000_000)
        self.addCleanup(worker.stop)
        return worker

    def same(self, worker):
        self.assertEqual(worker.get("/after").body, b"after", worker.log())
        self.assertEqual(worker.drain(), 0, worker.log())

    def test_one_that_throws_while_a_frame_is_written(self):
        worker = self.start()
        response = worker.interrupted_when_full("/large", signal.SIGUSR1)
        self.assertEqual(response.reset, (3, "RuntimeException in the application"), worker.log())
        self.assertIn("Uncaught RuntimeException: interrupted", worker.log())
        self.same(worker)

    def test_one_that_exits_while_a_frame_is_written(self):
        worker = self.start()
        worker.interrupted_when_full("/large", signal.SIGUSR2)
        self.assertEqual(worker.get("/after").body, b"after", worker.log())

    def test_one_that_throws_while_no_request_is_in_work(self):
        for options in ((), ("-d", f"disable_functions=socket_import_stream,{disabled()}")):
            worker = self.start(*options)
            for number in range(1, 4):
                self.assertEqual(worker.get("/after").body, b"after")
                worker.wait_until_asleep()
                worker.process.send_signal(signal.SIGUSR1)
                worker.wait_for_log("Uncaught RuntimeException: interrupted", number)
            self.same(worker)

    def test_one_that_throws_while_a_body_is_waited_for(self):
        worker = self.start()
        stream = worker.request("/body", method="POST", length=150_000, flags=0)
        worker.data(stream, b"x" * 50_000)
        worker.wait_until_asleep()
        worker.process.send_signal(signal.SIGUSR1)
        worker.wait_until_asleep()
        worker.data(stream, b"x" * 50_000)
        worker.data(stream, b"x" * 50_000, end=True)
        self.assertIn(b"rescued interrupted", worker.response(stream).body, worker.log())
        self.same(worker)

    def test_an_application_catches_what_its_handler_throws(self):
        worker = self.start()
        for _ in range(2):
            self.assertEqual(worker.get("/own").body, b"rescued interrupted", worker.log())
        self.assertEqual(worker.log(), "")
        self.same(worker)

    def test_signals_at_any_moment_lose_no_request(self):
        worker = self.start()
        for response in worker.responses_among_signals("/after", signal.SIGUSR1):
            self.assertTrue(response.body == b"after" or response.reset is not None, worker.log())
        worker.wait_until_asleep()
        self.same(worker)
