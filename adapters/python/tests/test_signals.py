"""An application whose signal handlers raise, or exit: they interrupt its own code and nothing else."""

import signal
import unittest

from tests.driver import Worker

INTERRUPTED = "RuntimeError: interrupted"
KINDS = ((), ("--threads", "2"))


class SignalsTest(unittest.TestCase):
    def start(self, *options):
        worker = Worker("signals_app:app", *options, stream_credit=8_000_000, connection_credit=8_000_000)
        worker.auto_credit = False  # there is enough, and one that exits would not read it
        self.addCleanup(worker.stop)
        return worker

    def assert_sound(self, worker):
        self.assertEqual(worker.get("/after").body, b"after", worker.log())
        self.assertEqual(worker.drain(), 0, worker.log())

    def test_one_that_raises_while_a_response_is_written(self):
        for options in KINDS:
            worker = self.start(*options)
            response = worker.interrupted_when_full("/large", signal.SIGUSR1)
            self.assertEqual((response.reset, len(response.body)), (None, 2_000_000), worker.log())
            self.assert_sound(worker)

    def test_one_that_raises_while_a_part_is_written(self):
        worker = self.start()
        response = worker.interrupted_when_full("/parts", signal.SIGUSR1)
        self.assertEqual((response.reset, len(response.body)), ((3, "RuntimeError in the application"), 2_000_000), worker.log())
        self.assertIn(INTERRUPTED, worker.log())
        self.assert_sound(worker)

    def test_one_that_exits_while_a_response_is_written(self):
        worker = self.start()
        response = worker.interrupted_when_full("/large", signal.SIGUSR2)
        self.assertEqual(len(response.body), 2_000_000, worker.log())
        self.assertEqual(worker.process.wait(10), 7, worker.log())

    def test_one_that_raises_while_no_request_is_in_work(self):
        for options in KINDS:
            worker = self.start(*options)
            for number in range(1, 4):
                self.assertEqual(worker.get("/after").body, b"after", worker.log())
                worker.wait_until_asleep()
                worker.process.send_signal(signal.SIGUSR1)
                worker.wait_for_log(INTERRUPTED, number)
            self.assert_sound(worker)

    def test_one_that_raises_while_a_body_is_waited_for(self):
        worker = self.start()
        stream = worker.request("/body", method="POST", length=100_000, flags=0)
        worker.data(stream, b"x" * 50_000)
        worker.wait_until_asleep()
        worker.process.send_signal(signal.SIGUSR1)
        self.assertEqual(worker.response(stream).body, b"rescued interrupted", worker.log())
        worker.data(stream, b"x" * 50_000, end=True)
        self.assert_sound(worker)

    def test_an_application_catches_what_its_handler_raises(self):
        worker = self.start()
        self.assertEqual(worker.get("/own").body, b"rescued interrupted", worker.log())
        self.assertEqual(worker.log(), "")
        self.assert_sound(worker)

    def test_signals_at_any_moment_lose_no_request(self):
        for options in KINDS:
            worker = self.start(*options)
            for response in worker.responses_among_signals("/after", signal.SIGUSR1, together=1 if options else 3):
                self.assertTrue(response.body == b"after" or response.reset is not None, worker.log())
            worker.wait_until_asleep()
            self.assert_sound(worker)
