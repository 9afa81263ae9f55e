"""WSGI applications that gevent or eventlet has changed before the worker serves them."""

import importlib.util
import time
import unittest

from tests.driver import Worker


class Green(unittest.TestCase):
    def test_without_poll(self):
        for options in ((), ("--threads", "2")):
            with Worker("green_app", *options) as worker:
                self.assertEqual(worker.get("/").status, 200, options)

    def test_the_thread_for_signals_is_the_systems(self):
        """As a greenlet it would wait in `os.read`, and nothing else in the process would run."""
        with Worker("green_app", "--threads", "2") as worker:
            self.assertEqual(worker.get("/").body, b"MainThread keepwarm-1 keepwarm-2")

    @unittest.skipUnless(importlib.util.find_spec("gevent"), "gevent is not installed")
    def test_greenlets_serve_side_by_side(self):
        with Worker("gevent_app", "--threads", "8") as worker:
            begun = time.monotonic()
            streams = [worker.request("/", query="0.5") for _ in range(8)]
            self.assertEqual([worker.response(stream).body for stream in streams], [b"green"] * 8)
            self.assertLess(time.monotonic() - begun, 2)
