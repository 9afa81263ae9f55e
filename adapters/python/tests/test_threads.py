"""A WSGI worker with threads: everything that holds for one without, and what is its own."""

import contextlib
import json
import os
import signal
import socket
import tempfile
import time
import unittest
from unittest import mock

from keepwarm import threaded as adapter, wire
from keepwarm.wsgi_response import Response
from tests import test_wsgi
from tests.driver import EXPECT, PATIENCE, Worker, pack

THREADS = ("--threads", "4")


class _WithThreads:
    """Before a case of `test_wsgi`: the same tests, of a worker with threads."""

    options = THREADS


class Environ(_WithThreads, test_wsgi.Environ):
    def test_a_single_worker_says_so(self):
        """It has several threads all the same."""
        environ = self.environ()
        self.assertEqual((environ["wsgi.multithread"], environ["wsgi.multiprocess"], environ["wsgi.run_once"]), (True, False, False))


class Responses(_WithThreads, test_wsgi.Responses):
    pass


class Errors(_WithThreads, test_wsgi.Errors):
    pass


class Bodies(_WithThreads, test_wsgi.Bodies):
    def test_a_client_that_breaks_off_its_body(self):
        """One that is lost before a thread has it is not begun; so here the thread is seen to be at it, which asks for the body."""

        def action():
            stream = self.worker.request("/read-error", method="POST", length=5, flags=EXPECT)
            self.worker.take(stream, lambda response: response.wants)
            self.worker.reset(stream, code=5)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "read failed with ClientDisconnected\n")


class LostClients(_WithThreads, test_wsgi.LostClients):
    pass


def threaded(target, *options, **more):
    return Worker(target, *THREADS, *options, **more)


class Process(test_wsgi.Process):
    def setUp(self):
        patch = mock.patch.object(test_wsgi, "Worker", threaded)
        patch.start()
        self.addCleanup(patch.stop)

    def test_hello(self):
        with threaded("wsgi_app") as worker:
            self.assertEqual(int.from_bytes(worker.hello.payload[2:6], "big"), 4)
            self.assertNotIn(b"ahead", worker.hello.payload)

    def leaves(self, path, status):
        """The others of the worker are finished first: it asks for a replacement, and ends by itself."""
        with threaded("wsgi_app") as worker:
            response = worker.get(path)
            self.assertEqual(response.reset[0], 3)
            self.assertEqual((worker.held.pop(0) if worker.held else worker.read()).name, "DRAIN")
            self.assertEqual(worker.get("/").body, b"hello")
            self.assertEqual(worker.drain(), status)
            return response

    def test_sys_exit_ends_the_worker_after_a_500(self):
        self.leaves("/leave", 7)

    def test_what_was_made_before_sys_exit_is_delivered(self):
        self.assertEqual(self.leaves("/leave-late", 7).body, b"what was made before")

    def test_keyboard_interrupt_of_the_application(self):
        self.leaves("/interrupt", 1)

    def test_what_a_request_leaks_is_put_back(self):
        """As soon as no other is in work."""
        with threaded("wsgi_app") as worker:
            before = worker.get("/place").body
            worker.get("/leak")
            until = time.monotonic() + PATIENCE
            while worker.get("/place").body != before:
                self.assertLess(time.monotonic(), until)
            self.assertIn("changed the directory", worker.log())

    def test_sigterm_within_a_request_asks_after_it(self):
        """With threads: at once."""
        with waiting() as (worker, stream, go_on):
            worker.process.terminate()
            self.assertEqual(worker.read().name, "DRAIN")
            go_on()
            self.assertEqual(worker.response(stream).body, b"went on")
            self.assertEqual(worker.drain(), 0)


class Threads(unittest.TestCase):
    def test_others_are_served_while_one_waits(self):
        with waiting() as (worker, stream, go_on):
            for _ in range(8):
                self.assertEqual(worker.get("/").body, b"hello")
            go_on()
            self.assertEqual(worker.response(stream).body, b"went on")

    def test_a_ping_is_answered_while_all_threads_wait(self):
        with waiting(count=4) as (worker, _, _):
            worker.send(pack("PING", payload=b"12345678"))
            self.assertEqual(worker.read().name, "PONG")

    def test_bodies_come_to_whom_they_belong(self):
        with threaded("wsgi_app") as worker:
            streams = [worker.request("/digest", method="POST", flags=0, length=3) for _ in range(4)]
            for part in range(3):
                for place, stream in enumerate(streams):
                    worker.data(stream, bytes([97 + place]), end=part == 2)
            responses = [json.loads(worker.response(stream).body) for stream in streams]
            self.assertEqual([response[0] for response in responses], [3] * 4)
            self.assertEqual(len({response[1] for response in responses}), 4)

    def test_streams_share_the_credit_and_none_gets_more_than_its_own(self):
        with threaded("wsgi_app") as worker:
            worker.auto_credit = True
            streams = [worker.request("/big") for _ in range(4)]
            sizes = {len(worker.response(stream).body) for stream in streams}
            self.assertEqual(len(sizes), 1)

    def test_the_stacks_on_sigquit_say_which_thread_is_at_which_request(self):
        with waiting(count=2) as (worker, _, _):
            worker.process.send_signal(signal.SIGQUIT)
            worker.wait_for_log("is at GET /wait", 2)
            worker.wait_for_log("in wait_for_line", 2)

    def test_stacks_are_shown_again_and_again_while_threads_run(self):
        # Reading the stack of a thread that runs has ended the process.
        with threaded("wsgi_app") as worker:
            for _ in range(200):
                stream = worker.request("/")
                worker.process.send_signal(signal.SIGQUIT)
                self.assertEqual(worker.response(stream).status, 200, worker.log()[-2000:])

    def test_drain_waits_for_all(self):
        with waiting(count=3) as (worker, _, go_on):
            worker.send(pack("DRAIN"))
            for _ in range(3):
                go_on()
            for stream in (1, 2, 3):
                response = worker.response(stream)
                self.assertEqual((response.body, response.reset), (b"went on", None), worker.log())
            self.assertEqual(worker.process.wait(PATIENCE), 0)

    def test_one_that_was_withdrawn_before_a_thread_was_free_is_not_begun(self):
        with waiting(count=4) as (worker, _, go_on):
            late = worker.request("/die")
            worker.reset(late)
            worker.send(pack("PING", payload=b"12345678"))
            self.assertEqual(worker.read().name, "PONG")  # it has read the RESET
            for _ in range(4):
                go_on()
            self.assertEqual(worker.response(late).reset[0], 1)
            self.assertEqual(worker.get("/").body, b"hello")

    def test_threads_are_refused_to_asgi_and_concurrency_to_wsgi(self):
        for target, options, word in (("asgi_app", THREADS, "threads"), ("wsgi_app", ("--streams", "5"), "concurrency")):
            with Worker(target, *options, hello=False) as worker:
                self.assertEqual(worker.process.wait(PATIENCE), 1)
                self.assertIn(word, worker.log())


@contextlib.contextmanager
def waiting(count=1):
    """A worker with requests that wait in the application: `(worker, the last stream, let one go on)`."""
    with tempfile.TemporaryDirectory() as folder:
        here, go = os.path.join(folder, "here"), os.path.join(folder, "go")
        os.mkfifo(here)
        os.mkfifo(go)
        # Open for both, so that no end of a FIFO is an end for the others that use it.
        bell, gate = os.open(here, os.O_RDWR), os.open(go, os.O_RDWR)
        try:
            with threaded("wsgi_app", env={"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}) as worker:
                for _ in range(count):
                    stream = worker.request("/wait")
                    os.read(bell, len("here\n"))
                yield worker, stream, lambda: os.write(gate, b"go\n")
        finally:
            os.close(bell)
            os.close(gate)


class ClientsThatLeave(unittest.TestCase):
    def test_nothing_follows_the_end_of_a_response_whose_client_leaves_as_it_ends(self):
        """The thread that reads hears of it between the last frame and the look whether anybody waits; Keepwarm would end the worker for the RESET."""
        mine, theirs = socket.socketpair()
        self.addCleanup(mine.close)
        self.addCleanup(theirs.close)
        connection = adapter.Threaded(mine, 1)
        connection.credit = connection.first_credit = 1 << 20
        response = Response(connection, 1, wire.END, head_only=False)
        send = connection.send

        def heard_at_the_end(data):
            send(data)
            if data[5] & wire.END:
                response.on_reset(wire.CANCELLED)

        connection.send = heard_at_the_end
        response.start_response("200 OK", [("content-length", "6")])
        response.deliver(iter([b"abc", b"def"]))
        frames, kinds = theirs.recv(4096), []
        while frames:
            length, kind, _, _ = wire.HEAD.unpack_from(frames)
            kinds.append(kind)
            frames = frames[wire.HEAD.size + length :]
        self.assertEqual(kinds, [wire.RESPONSE, wire.DATA])


if __name__ == "__main__":
    unittest.main()
