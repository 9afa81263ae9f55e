"""A worker notes where its requests are at each SIGURG, and sends that in SAMPLES (spec/wire.md §10)."""

import os
import threading
import unittest
from collections import Counter

from tests.driver import Worker, pairs, unblock

import wire_profile
from wire_profile import Ticks

TIME = 0.3  # of profile_app


class Profiles(unittest.TestCase):
    def setUp(self):
        self.worker = Worker("profile_app.php")
        self.addCleanup(self.worker.stop)

    def profiled(self, path, **more):
        return wire_profile.profiled(self.worker, path, **more)

    def about(self, seconds):
        """A busy machine takes longer for all, and gives the last signal late: what comes after it is not counted."""
        self.assertGreater(seconds, TIME * 0.3)
        self.assertLess(seconds, TIME * 20)

    def test_what_computes_and_what_waits_are_told_apart(self):
        stream, samples = self.profiled("/both")
        self.about(samples.of(stream, "app", "{closure}", "compute"))
        self.about(samples.of(stream, "app", "{closure}", "wait", "(waiting)"))
        self.assertLess(samples.of(stream, "compute", "(waiting)"), samples.of(stream, "compute") / 2)
        self.assertEqual(samples.dropped, 0)

    def test_a_call_names_the_method_and_its_file(self):
        stream, samples = self.profiled("/compute")
        stack = max(samples.seconds[stream], key=samples.seconds[stream].get)
        self.assertTrue(stack.startswith("app;{closure} (profile_app.php);Worker->work (profile_app.php);compute (profile_app.php)"), stack)

    def test_work_after_the_response(self):
        stream, samples = self.profiled("/after")
        self.about(samples.of(stream, "after response", "compute"))

    def test_a_body_that_is_waited_for(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            stream = worker.request("/read", method="POST", flags=0, length=4)
            threading.Event().wait(TIME)
            worker.data(stream, b"body", True)
            worker.response(stream)
        self.about(wire_profile.collected(worker).of(stream, "request body", "(waiting)"))

    def test_a_request_that_continues_is_sent_in_parts(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            stream = worker.request("/both")
            self.assertEqual(worker.read().name, "SAMPLES")
            worker.response(stream)

    def test_deep_stacks_keep_the_innermost(self):
        stream, samples = self.profiled("/deep")
        stack = max(samples.seconds[stream], key=samples.seconds[stream].get).split(";")
        self.assertLessEqual(len(stack), 203)
        self.assertEqual(stack[:2], ["app", "..."])
        self.about(samples.of(stream, "...", "deep", "compute"))

    def test_nothing_is_left_when_it_is_over(self):
        def count():
            return [len(os.listdir(f"/proc/{self.worker.process.pid}/{kind}")) for kind in ("task", "fd")]

        self.worker.get("/")
        before = count()
        self.profiled("/compute")
        self.assertEqual(count(), before)
        self.worker.get("/compute")
        self.assertEqual(wire_profile.collected(self.worker).seconds, {})

    def test_the_time_between_two_profiles_is_not_counted(self):
        self.profiled("/compute")
        threading.Event().wait(4 * TIME)
        stream, samples = self.profiled("/", signals=0)
        self.assertLess(sum(samples.seconds.get(stream, Counter()).values()), 3 * TIME)

    def test_a_worker_says_that_it_can(self):
        about = pairs(unblock(self.worker.hello.payload[14:])[0])
        self.assertIn(("profile", "1"), about)
        self.assertIn(("late_signals", "1"), about)

    def test_without_pcntl_it_cannot(self):
        with Worker("profile_app.php", "-d", "disable_functions=pcntl_signal") as worker:
            self.assertNotIn("profile", dict(pairs(unblock(worker.hello.payload[14:])[0])))


if __name__ == "__main__":
    unittest.main()
