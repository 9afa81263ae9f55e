"""Requests that wait behind the one in work (`ahead`, spec/wire.md §3-§4)."""

import time
import unittest

from tests.driver import END, PATIENCE, Worker, pairs, unblock


class Ahead(unittest.TestCase):
    def setUp(self):
        self.worker = Worker("wsgi_app")
        self.addCleanup(self.worker.stop)

    def together(self, *paths):
        """Requests that arrive in one read; their streams."""
        sent = [self.worker.request(path, send=False) for path in paths]
        self.worker.send(b"".join(data for _, data in sent))
        return [stream for stream, _ in sent]

    def test_hello_says_how_many(self):
        strings, _ = unblock(self.worker.hello.payload[14:])
        self.assertEqual(dict(pairs(strings))["ahead"], "3")

    def test_requests_of_one_read_are_served_in_order(self):
        streams = self.together("/", "/environ", "/generator", "/")
        bodies = [self.worker.response(stream).body for stream in streams]
        self.assertEqual(bodies[0], b"hello")
        self.assertIn(b'"PATH_INFO": "/environ"', bodies[1])
        self.assertEqual(bodies[3], b"hello")

    def test_a_request_behind_a_stream_is_found_by_the_streams_own_reading(self):
        # A generator looks for news between its blocks, and so reads what waits.
        streams = self.together("/generator", "/", "/generator", "/")
        for stream, expected in zip(streams, (None, b"hello", None, b"hello")):
            response = self.worker.response(stream)
            self.assertEqual(response.status, 200)
            if expected is not None:
                self.assertEqual(response.body, expected)

    def test_work_after_a_response_keeps_its_slot_taken(self):
        """By a `close`, unless it was quick again and again."""

        def busy(path, query="0"):
            self.worker.held.clear()
            self.assertEqual(self.worker.get(path, query=query).status, 200)
            self.assertEqual(self.worker.get("/").status, 200)  # behind it all has been said
            return [(frame.name, frame.flags) for frame in self.worker.held]

        announced = [("BUSY", 0), ("BUSY", END)]
        self.assertEqual(busy("/"), [])
        self.assertEqual(busy("/late", "20"), announced)
        until = time.monotonic() + 3 * PATIENCE
        while True:  # on a busy machine a close that does nothing may take its time, and all begins anew
            asked = 0
            while busy("/late"):
                asked += 1
                self.assertLess(time.monotonic(), until)
            self.assertGreaterEqual(asked, 16)
            if not busy("/late", "20"):
                break
            busy("/late", "20")
        self.assertEqual(busy("/late"), announced)

    def test_an_error_in_one_does_not_reach_the_next(self):
        first, second, third = self.together("/fail-before", "/", "/fail-late-start")
        self.assertIsNotNone(self.worker.response(first).reset)
        self.assertEqual(self.worker.response(second).body, b"hello")
        self.assertIsNotNone(self.worker.response(third).reset)
        self.assertEqual(self.worker.get("/").body, b"hello")

    def test_cut_anywhere_they_are_the_same(self):
        sent = [self.worker.request("/", send=False) for _ in range(3)]
        data = b"".join(part for _, part in sent)
        for cut in range(0, len(data), 37):
            self.worker.send(data[cut : cut + 37])
        for stream, _ in sent:
            self.assertEqual(self.worker.response(stream).body, b"hello")

    def test_a_process_that_ends_serves_what_waits(self):
        first, second, third = self.together("/leave", "/", "/")
        self.assertEqual(self.worker.response(first).reset[0], 3)
        for stream in (second, third):
            self.assertEqual(self.worker.response(stream).body, b"hello")
        self.assertEqual(self.worker.drain(), 7)


if __name__ == "__main__":
    unittest.main()
