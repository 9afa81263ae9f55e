"""A worker notes where its requests are at each SIGURG, and sends that in SAMPLES (spec/wire.md §10)."""

import os
import threading
import unittest
from collections import Counter

from tests.driver import EXPECT, Worker, pairs, unblock

import wire_profile
from wire_profile import Ticks

TIME = 0.3  # of profile_app


class Profiles(unittest.TestCase):
    target = "profile_app"
    options = ()

    def setUp(self):
        self.worker = Worker(self.target, *self.options)
        self.addCleanup(self.worker.stop)

    def collected(self):
        return wire_profile.collected(self.worker)

    def profiled(self, path, **more):
        return wire_profile.profiled(self.worker, path, **more)

    def about(self, seconds, wanted=TIME):
        """A busy machine takes longer for all, and gives the last signal late: what comes after it is not counted."""
        self.assertGreater(seconds, wanted * 0.3)
        self.assertLess(seconds, wanted * 20)

    def threads(self):
        return len(os.listdir(f"/proc/{self.worker.process.pid}/task"))

    def files(self):
        return len(os.listdir(f"/proc/{self.worker.process.pid}/fd"))


class Serial(Profiles):
    def test_what_computes_and_what_waits_are_told_apart(self):
        stream, samples = self.profiled("/both")
        self.about(samples.of(stream, "app", "application", "compute"))
        self.about(samples.of(stream, "app", "application", "wait", "(waiting)"))
        self.assertLess(samples.of(stream, "compute", "(waiting)"), samples.of(stream, "compute") / 2)
        self.assertEqual(samples.dropped, 0)

    def test_a_frame_names_the_function_its_file_and_line(self):
        stream, samples = self.profiled("/compute")
        name = next(part for stack in samples.seconds[stream] for part in stack.split(";") if part.startswith("compute"))
        self.assertRegex(name, r"^compute \(profile_app\.py:\d+\)$")

    def test_phases(self):
        stream, samples = self.profiled("/streamed")
        self.about(samples.of(stream, "response", "streamed", "compute"))
        stream, samples = self.profiled("/closing")
        self.about(samples.of(stream, "after response", "compute"))

    def test_a_body_that_is_waited_for(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            stream = worker.request("/read", method="POST", flags=EXPECT, length=4)
            worker.take(stream, lambda response: response.wants)
            threading.Event().wait(TIME)
            worker.data(stream, b"body", True)
            worker.response(stream)
        self.about(self.collected().of(stream, "request body", "application", "(waiting)"))

    def test_a_request_that_goes_on_is_sent_in_parts(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            stream = worker.request("/both")
            frame = worker.read()
            self.assertEqual(frame.name, "SAMPLES")
            worker.response(stream)

    def test_deep_stacks_keep_the_innermost(self):
        stream, samples = self.profiled("/deep")
        stack = max(samples.seconds[stream], key=samples.seconds[stream].get).split(";")
        self.assertLessEqual(len(stack), 204)
        self.assertEqual(stack[:2], ["app", "..."])
        self.about(samples.of(stream, "...", "deep", "compute"))

    def test_threads_of_the_application_are_of_no_request(self):
        _, samples = self.profiled("/beside")
        self.about(samples.of(0, "app", "beside", "compute"))

    def test_nothing_is_left_when_it_is_over(self):
        threads, files = self.threads(), self.files()
        self.profiled("/compute")
        self.assertEqual(self.threads(), threads)
        self.assertEqual(self.files(), files)
        self.worker.get("/compute")
        self.assertEqual(self.collected().seconds, {})

    def test_the_time_between_two_profiles_is_not_counted(self):
        self.profiled("/compute")
        threading.Event().wait(4 * TIME)
        stream, samples = self.profiled("/", signals=0)
        self.assertLess(sum(samples.seconds.get(stream, Counter()).values()), 3 * TIME)

    def test_a_worker_says_that_it_can(self):
        self.assertIn(("profile", "1"), pairs(unblock(self.worker.hello.payload[14:])[0]))


class Threaded(Profiles):
    options = ("--threads", "3")

    def test_each_thread_has_its_request(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            streams = [worker.request("/compute"), worker.request("/wait")]
            for stream in streams:
                worker.response(stream)
        samples = self.collected()
        self.about(samples.of(streams[0], "app", "application", "compute"))
        self.about(samples.of(streams[1], "app", "application", "wait", "(waiting)"))
        self.assertEqual(samples.of(streams[1], "compute"), 0)

    def test_idle_threads_are_not_counted(self):
        stream, samples = self.profiled("/compute")
        self.assertLess(samples.of(0), samples.of(stream, "compute") / 2)

    def test_no_thread_more(self):
        self.worker.get("/")
        threads = self.threads()
        self.profiled("/compute")
        self.assertEqual(self.threads(), threads)


class Asyncio(Profiles):
    target = "profile_app:loop_application"
    options = ("--loop", "asyncio")

    def test_what_computes_and_what_waits_are_told_apart(self):
        stream, samples = self.profiled("/both")
        self.about(samples.of(stream, "app", "loop_application", "compute"))
        self.about(samples.of(stream, "app", "loop_application", "aio_wait", "(waiting)"))

    def test_a_call_that_blocks_the_loop_waits(self):
        stream, samples = self.profiled("/blocks")
        self.about(samples.of(stream, "app", "loop_application", "wait", "(waiting)"))

    def test_many_that_wait_are_all_counted(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            streams = [worker.request("/wait") for _ in range(100)]
            for stream in streams:
                worker.response(stream)
        samples = self.collected()
        self.about(sum(samples.of(stream, "aio_wait", "(waiting)") for stream in streams), 100 * TIME)

    def test_phases(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            stream = worker.request("/read", method="POST", flags=0, length=4)
            after = worker.request("/after")
            worker.response(after)
            threading.Event().wait(TIME)
            worker.data(stream, b"body", True)
            worker.response(stream)
        samples = self.collected()
        self.about(samples.of(stream, "request body", "loop_application", "(waiting)"))
        self.about(samples.of(after, "after response", "aio_wait", "(waiting)"))

    def test_an_idle_loop_is_not_counted(self):
        worker = self.worker
        worker.get("/")
        with Ticks(worker):
            threading.Event().wait(10 * TIME)
        # A tick may come while the loop handles the one before.
        counted = sum(sum(stacks.values()) for stacks in self.collected().seconds.values())
        self.assertLess(counted, TIME)


try:
    import uvloop as _
except ImportError:
    pass  # then the loop of the standard library is all there is
else:

    class Uvloop(Asyncio):
        options = ("--loop", "uvloop")


if __name__ == "__main__":
    unittest.main()
