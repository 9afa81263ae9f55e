"""`php://input`: the request's body, as in any PHP, through PHP's own stream of that name."""

import hashlib
import json
import os
import tempfile
import unittest

from tests.driver import CHUNKED, EXPECT, Worker, disabled
from tests.test_forms import fields, multipart, part

LARGE = bytes(range(256)) * 4_000


def digest(body):
    return f"{len(body)} {hashlib.md5(body).hexdigest()}"


class Input(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.worker = Worker("input.php", env={"TMPDIR": cls.folder.name})

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        cls.folder.cleanup()

    def post(self, path, body=b"abc", **more):
        return self.worker.get(path, method="POST", body=body, **more).body.decode()

    def streamed(self, path, body, worker=None, **more):
        """A body in pieces of which none came with the request."""
        worker = worker or self.worker
        stream = worker.request(path, method="POST", length=len(body), flags=0, **more)
        credits = 0
        for start in range(0, len(body), 60_000):
            worker.data(stream, body[start : start + 60_000], end=start + 60_000 >= len(body))
            if start and start % 180_000 == 0 and start + 60_000 < len(body):
                credits += 1
                worker.take(stream, lambda response: len([f for f in response.frames if f.name == "CREDIT"]) >= credits)
        return worker.response(stream).body.decode()

    def test_a_body(self):
        for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
            self.assertEqual(self.worker.get("/read", method=method, body=b'{"a": 1}').body, b'{"a": 1}', method)

    def test_no_body_and_none_of_the_request_before(self):
        self.assertEqual(self.post("/read", b"secret"), "secret")
        self.assertEqual(self.worker.get("/read").body, b"")
        self.assertEqual(self.post("/read", b"12"), "12")
        self.assertEqual(self.streamed("/sum", LARGE), digest(LARGE))
        self.assertEqual(self.worker.get("/read").body, b"")
        self.assertEqual(self.post("/read", b"short"), "short")

    def test_it_is_empty_while_the_application_is_loaded(self):
        self.assertEqual(self.post("/boot"), "[]")

    def test_bytes_are_bytes(self):
        body = bytes(range(256)) * 256
        self.assertEqual(self.post("/sum", body), digest(body))

    def test_twice_and_beside_the_request_object(self):
        self.assertEqual(self.post("/twice"), f"{digest(b'abc')} {digest(b'abc')}")
        self.assertEqual(self.streamed("/twice", LARGE), f"{digest(LARGE)} {digest(LARGE)}")
        for text in (self.post("/with-request", LARGE[:50_000]), self.streamed("/with-request", LARGE)):
            self.assertIn(text, {" ".join([digest(body)] * 3) for body in (LARGE, LARGE[:50_000])})

    def test_a_form_is_there_in_both_forms(self):
        form = [("content-type", "application/x-www-form-urlencoded"), ("content-length", "7")]
        self.assertEqual(json.loads(self.post("/form", b"a=1&b=2", fields=form)), [{"a": "1", "b": "2"}, [], "a=1&b=2"])
        self.assertEqual(json.loads(self.streamed("/form", b"a=1&b=2", fields=form)), [{"a": "1", "b": "2"}, [], "a=1&b=2"])

    def test_of_multipart_there_is_nothing_left_as_with_PHP(self):
        body = multipart(part("a", "1"), part("f", "text", "f.txt"))
        self.assertEqual(json.loads(self.post("/form", body, fields=fields(body))), [{"a": "1"}, ["f"], ""])
        self.assertEqual(self.worker.get("/read", method="PUT", body=body, fields=fields(body)).body, body)

    def test_a_handle(self):
        expected = ["lin", 3, False, 7, True, 0, "in", True, "line one\n", "PHP", "Input", True, False]
        self.assertEqual(json.loads(self.post("/handle", b"line one\n2")), expected)

    def test_handles_at_different_places(self):
        for path in ("/two-handles", "/unbuffered"):
            text = digest(LARGE[:60_000])
            self.assertEqual(self.post(path, LARGE[:60_000]), f"{text} {text}" if path == "/two-handles" else text)
            self.assertEqual(self.streamed(path, LARGE), self.post(path, b"").replace(digest(b""), digest(LARGE)))

    def test_a_handle_that_is_kept_reads_the_body_of_each_request(self):
        for body in (b"first", b"second one", b"3"):
            self.assertEqual(json.loads(self.post("/kept", body)), [body.decode()])

    def test_by_lines_and_parts(self):
        self.assertEqual(json.loads(self.post("/lines", b"one\ntwo")), ["one\n", "two"])
        self.assertEqual(json.loads(self.post("/file", b"one\ntwo\n")), ["one", "two"])
        self.assertEqual(json.loads(self.post("/parts", b"abcdefg")), ["cde", "ab"])

    def test_copies(self):
        self.assertEqual(self.post("/copy"), "true " + digest(b"abc"))
        self.assertEqual(self.streamed("/copy", LARGE), "true " + digest(LARGE))
        self.assertEqual(self.streamed("/copy-stream", LARGE), f"{len(LARGE)} {digest(LARGE)}")
        self.assertEqual(self.post("/passthru", b"straight through"), "straight through")

    def test_what_libraries_make_of_it_themselves(self):
        for path in ("/symfony", "/guzzle"):
            self.assertEqual(self.post(path, b'{"a": 1}'), '{"a": 1}', path)

    def test_its_neighbours_are_PHPs_own(self):
        self.assertEqual(self.post("/filtered", b"shout"), "SHOUT")
        text = self.post("/neighbours")
        self.assertEqual(text[:7], "output ")
        self.assertEqual(json.loads(text[7:]), ["more than", "more than", "MEMORY", "TEMP", "PHP", True])

    def test_a_body_is_asked_for_when_it_is_opened_and_not_before(self):
        response = self.worker.get("/none", method="POST", length=1_000, flags=EXPECT)
        self.assertEqual((response.body, response.wants), (b"not read", 0))
        stream = self.worker.request("/sum", method="POST", length=6, flags=EXPECT)
        response = self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc")
        self.worker.data(stream, b"def", end=True)
        self.worker.response(stream)
        self.assertEqual((response.body.decode(), response.wants), (digest(b"abcdef"), 1))

    def test_of_unknown_length(self):
        stream = self.worker.request("/sum", method="POST", length=CHUNKED, flags=0)
        self.worker.data(stream, b"one ")
        self.worker.data(stream, b"")
        self.worker.data(stream, b"two", end=True)
        self.assertEqual(self.worker.response(stream).body.decode(), digest(b"one two"))

    def test_memory_does_not_grow_with_the_body(self):
        body = LARGE * 8
        self.assertEqual(json.loads(self.streamed("/memory", body)), [hashlib.md5(body).hexdigest(), True])

    def test_a_client_that_breaks_off(self):
        def action():
            stream = self.worker.request("/catch", method="POST", length=100, flags=0)
            self.worker.data(stream, b"part")
            self.worker.reset(stream, 5, "the client went away")
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "caught: the client disconnected before its body was complete\n")
        self.assertEqual(self.post("/read", b"whole"), "whole")

    def test_after_the_response(self):
        def action():
            self.assertEqual(self.post("/later"), "responded")
            self.post("/read")

        self.assertEqual(self.worker.log_of(action), digest(b"abc") + "\n")


class Ends(unittest.TestCase):
    """Each with a worker of its own, which it may end."""

    def start(self, *options, **more):
        worker = Worker("input.php", *options, **more)
        self.addCleanup(worker.stop)
        return worker

    def test_a_large_body_lies_in_files_without_a_name(self):
        with tempfile.TemporaryDirectory() as folder:
            worker = self.start("-d", f"sys_temp_dir={folder}")
            text, names, unnamed = json.loads(Input.streamed(self, "/files", LARGE * 2, worker))
            self.assertEqual((text, names), (digest(LARGE * 2), []))
            self.assertGreaterEqual(unnamed, 1)
            self.assertEqual(worker.get("/read", method="POST", body=b"x").body, b"x")
            worker.process.kill()
            worker.process.wait()
            self.assertEqual(os.listdir(folder), [])

    def test_exit_and_fatal_errors(self):
        for path, status in (("/exit", 200), ("/fatal", 500)):
            response = self.start().get(path, method="POST", body=b"the body")
            self.assertEqual((response.status, response.body), (status, b"the body"), path)

    def test_the_end_of_a_worker_with_a_body_in_its_hands(self):
        worker = self.start()
        self.assertEqual(Input.streamed(self, "/sum", LARGE, worker), digest(LARGE))
        self.assertEqual(worker.drain(), 0)
        self.assertEqual(worker.log(), "")

    def test_where_it_cannot_be_given_the_log_says_so(self):
        worker = self.start("-d", "disable_functions=get_resources," + disabled())
        self.assertEqual(worker.get("/read", method="POST", body=b"x").body, b"")
        self.assertIn("keepwarm: php://input is empty in this worker", worker.log())
        self.assertIn("because disable_functions includes get_resources", worker.log())

