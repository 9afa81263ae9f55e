"""A worker says what its requests leave behind, from LEAKS until its end (spec/wire.md §11)."""

import sys
import unittest

from tests.driver import END, EXPECT, Worker, pack, pairs, unblock

import wire_leaks
from wire_leaks import of


class Growths(unittest.TestCase):
    target = "growth_app"
    options = ()

    def setUp(self):
        self.worker = Worker(self.target, *self.options)
        self.addCleanup(self.worker.stop)

    def begin(self):
        growth = wire_leaks.begin(self.worker)
        self.assertFalse(growth.changes)

    def kept(self, path, **more):
        """By each request, as far as every one keeps as much."""
        self.begin()
        kept = wire_leaks.kept(self.worker, path, **more)
        self.assertEqual(self.worker.log().count("was read"), 0)
        return kept

    def assert_fault(self, said):
        while self.worker.read() is not None:
            pass
        self.assertIn(f"fault on the wire: {said}", self.worker.log())


class EveryWorker:
    """What holds for one request at a time, for threads and for a loop."""

    def test_a_worker_says_that_it_can(self):
        self.assertIn(("leaks", "1"), pairs(unblock(self.worker.hello.payload[14:])[0]))

    def test_an_application_that_keeps_nothing_has_nothing_to_report(self):
        self.assertEqual(dict(self.kept("/", requests=20)), {})

    def test_a_reference_cycle_is_collected(self):
        self.assertEqual(dict(self.kept("/cycle")), {})

    def test_a_dictionary_of_a_module(self):
        kept = self.kept("/dict")
        self.assertEqual(of(kept, "held"), {"growth_app.seen": 10})
        self.assertGreater(kept["memory"], 1_000)
        line = next(iter(of(kept, "made")))
        self.assertRegex(line, r"^growth_app\.py:\d+$")

    def test_a_cache_without_bound(self):
        kept = self.kept("/cache")
        self.assertEqual(of(kept, "held"), {"growth_app.lookup (lru_cache)": 10})

    def test_objects_on_a_class(self):
        kept = self.kept("/objects")
        self.assertEqual(of(kept, "object")["growth_app.Item"], 10)
        self.assertEqual(of(kept, "held"), {"growth_app.Item.all": 10})
        self.assertGreater(max(of(kept, "made").values()), 10_000)

    def test_the_default_of_an_argument(self):
        self.assertEqual(of(self.kept("/default"), "held"), {"growth_app.remember(known=)": 10})

    def test_a_variable_of_a_closure(self):
        self.assertEqual(of(self.kept("/closure"), "held"), {"growth_app.counter.<locals>.count (variable numbers)": 10})

    def test_an_attribute_of_an_object(self):
        self.assertEqual(of(self.kept("/attribute"), "held"), {"growth_app.service.cache['of']": 10})

    def test_an_attribute_in_a_slot(self):
        self.assertEqual(of(self.kept("/slots"), "held"), {"growth_app.slotted.items": 10})

    def test_a_deque(self):
        self.assertEqual(of(self.kept("/deque"), "held"), {"growth_app.log_of_all": 10})

    def test_what_replaces_something_of_its_size_is_not_kept(self):
        kept = self.kept("/both")
        self.assertNotIn("growth_app.Item", of(kept, "object"))
        self.assertEqual(of(kept, "held"), {})

    def test_a_full_cache_whose_oldest_goes_is_not_kept(self):
        """What goes was made before anything was traced: the memory of what has come in its place looked like growth, and the line that made it like a leak."""
        self.assertEqual(dict(self.kept("/recent", requests=20, warm=15)), {})  # threads need some requests to come to rest

    def test_a_request_that_fails_is_measured(self):
        kept = self.kept("/raise", status=None)
        self.assertEqual(of(kept, "object")["growth_app.Item"], 10)

    def test_after_the_end_nothing_is_sent(self):
        self.begin()
        wire_leaks.measured(self.worker)
        wire_leaks.end(self.worker)
        streams = [self.worker.request("/objects") for _ in range(3)]
        for stream in streams:
            self.worker.response(stream)
        self.worker.send(pack("PING", payload=b"12345678"))
        self.assertEqual(self.worker.read().name, "PONG")

    def test_it_can_begin_again(self):
        for _ in range(2):
            self.assertEqual(of(self.kept("/objects"), "held"), {"growth_app.Item.all": 10})
            wire_leaks.end(self.worker)

    def test_leaks_twice_is_a_fault(self):
        self.begin()
        self.worker.send(pack("LEAKS"))
        self.assert_fault("a second LEAKS")

    def test_an_end_without_a_beginning_is_a_fault(self):
        self.worker.send(pack("LEAKS", flags=END))
        self.assert_fault("LEAKS with END, although nothing is measured")

    def test_a_worker_that_measures_drains(self):
        self.begin()
        wire_leaks.measured(self.worker)
        self.assertEqual(self.worker.drain(), 0)


class Quiet:
    """Where nothing runs beside a measurement, it sees no change at all."""

    def test_what_keeps_nothing_changes_nothing(self):
        self.begin()
        for _ in range(5):
            wire_leaks.measured(self.worker)
        for _ in range(20):
            self.assertEqual(dict(wire_leaks.measured(self.worker).changes), {})


class Serial(EveryWorker, Quiet, Growths):
    def test_what_belongs_to_the_thread(self):
        self.assertEqual(of(self.kept("/local"), "held"), {"growth_app.local.items": 10})

    def test_what_close_keeps_is_measured(self):
        self.assertEqual(of(self.kept("/close"), "object")["growth_app.Item"], 10)

    def test_measuring_ends_within_a_request(self):
        worker = self.worker
        self.begin()
        stream = worker.request("/read", method="POST", flags=EXPECT, length=4)
        worker.take(stream, lambda response: response.wants)
        wire_leaks.end(worker)
        worker.data(stream, b"body", True)
        self.assertEqual(worker.response(stream).status, 200)
        worker.get("/")
        self.assertFalse(worker.held)
        self.begin()

    def test_leaks_within_a_request_is_a_fault(self):
        stream = self.worker.request("/read", method="POST", flags=EXPECT, length=4)
        self.worker.take(stream, lambda response: response.wants)
        self.worker.send(pack("LEAKS"))
        self.assert_fault("LEAKS during a request")

    def test_a_second_request_while_one_is_measured_is_a_fault(self):
        self.begin()
        stream = self.worker.request("/read", method="POST", flags=EXPECT, length=4)
        self.worker.take(stream, lambda response: response.wants)
        self.worker.request("/")
        self.assert_fault("a second REQUEST while one is measured")


class Threaded(EveryWorker, Growths):
    options = ("--threads", "3")

    def test_what_belongs_to_threads(self):
        """Which of the three serves a request is chance: each is compared with itself."""
        self.begin()
        every = [of(wire_leaks.measured(self.worker, "/local").changes, "held") for _ in range(40)]
        grown = every[30:]
        # A thread's first request makes its list, which is not growth, and may come late: there are three threads.
        self.assertLessEqual(every.count({}), 3, every)
        self.assertEqual([each for each in grown if each], [{"growth_app.local.items": 1}] * (10 - grown.count({})))

    def test_a_request_that_ends_before_leaks_is_not_measured(self):
        for _ in range(20):
            self.worker.get("/objects")
            self.begin()
            wire_leaks.end(self.worker)
        self.assertFalse(self.worker.held)


class Loop(EveryWorker, Quiet, Growths):
    target = "growth_app:loop_application"

    def test_what_is_kept_after_the_response_is_measured(self):
        self.assertEqual(of(self.kept("/after"), "object")["growth_app.Item"], 10)

    def test_tasks_that_never_end(self):
        kept = self.kept("/task")
        self.assertEqual(of(kept, "held")["growth_app.later"], 10)

    def test_a_client_that_leaves(self):
        worker = self.worker
        self.begin()
        for _ in range(3):
            stream = worker.request("/wait")
            worker.reset(stream)
            growth = wire_leaks.next_growth(worker)
            self.assertEqual(growth.request, stream)

    def test_measuring_ends_within_a_request(self):
        worker = self.worker
        self.begin()
        stream = worker.request("/wait")
        wire_leaks.end(worker)
        self.assertEqual(worker.get("/").status, 200)
        worker.reset(stream)
        worker.take(stream, lambda response: response.reset)
        self.assertFalse(worker.held)
        self.begin()

    def test_leaks_within_a_request_is_a_fault(self):
        self.worker.request("/wait")
        self.worker.send(pack("LEAKS"))
        self.assert_fault("LEAKS during a request")

    def test_a_second_request_while_one_is_measured_is_a_fault(self):
        self.begin()
        self.worker.request("/wait")
        self.worker.request("/")
        self.assert_fault("a second REQUEST while one is measured")


class Tracing(unittest.TestCase):
    """Of an application that uses tracemalloc itself."""

    def test_its_tracing_goes_on(self):
        with Worker("growth_app:tracing_application", env={"PYTHONTRACEMALLOC": "3"}) as worker:
            wire_leaks.begin(worker)
            kept = wire_leaks.kept(worker, "/objects")
            self.assertEqual(of(kept, "object")["growth_app.Item"], 10)
            wire_leaks.end(worker)
            self.assertEqual(worker.get("/tracing").body, b"True")

    def test_ours_ends(self):
        with Worker("growth_app:tracing_application") as worker:
            wire_leaks.begin(worker)
            wire_leaks.measured(worker, "/")
            self.assertEqual(worker.get("/tracing").body, b"True")
            wire_leaks.next_growth(worker)
            wire_leaks.end(worker)
            self.assertEqual(worker.get("/tracing").body, b"False")

    def test_what_was_loaded_is_frozen_again(self):
        with Worker("growth_app:tracing_application") as worker:
            before = int(worker.get("/frozen").body)
            wire_leaks.begin(worker)
            self.assertLess(int(worker.get("/frozen").body), before / 2)  # immortal objects stay so
            wire_leaks.next_growth(worker)
            wire_leaks.end(worker)
            self.assertGreaterEqual(int(worker.get("/frozen").body), before)

    def test_nothing_is_loaded_before(self):
        with Worker("growth_app:tracing_application") as worker:
            self.assertEqual(worker.get("/loaded").body, b"")


if __name__ == "__main__":
    sys.exit(unittest.main())
