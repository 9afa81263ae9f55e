"""The WSGI worker, seen from the wire. Each test is a line of what a WSGI server has to get right."""

import hashlib
import json
import os
import struct
import tempfile
import time
import unittest

from tests import driver
from tests.driver import CHUNKED, END, EXPECT, REPEATS, USER, Worker, pack


class Shared(unittest.TestCase):
    """Tests that one worker can serve one after the other."""

    target = "wsgi_app"
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.worker = Worker(cls.target, *cls.options)
        cls.addClassCleanup(cls.worker.stop)

    def setUp(self):
        self.worker.auto_credit = True

    def get(self, path="/", **more):
        return self.worker.get(path, **more)

    def json(self, path, **more):
        return json.loads(self.get(path, **more).body)

    def closed(self):
        """What was closed since this was asked last; a worker with threads may close a moment after its response."""
        until = time.monotonic() + driver.PATIENCE
        while True:
            closed = self.json("/was-closed")
            if closed or time.monotonic() > until:
                return closed
            time.sleep(0.01)

    def quiet(self, action):
        self.assertEqual(self.worker.log_of(action), "")


class Environ(Shared):
    def environ(self, **more):
        return self.json("/environ", **more)

    def test_the_fixed_strings(self):
        environ = self.environ(query="x=1&y=%20", script="/app", raw_path="/app/environ", scheme="https", server=("shop.example", "8443"))
        expected = {
            "REQUEST_METHOD": "GET", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "https", "PATH_INFO": "/environ",
            "SCRIPT_NAME": "/app", "QUERY_STRING": "x=1&y=%20", "REQUEST_URI": "/app/environ?x=1&y=%20",
            "SERVER_NAME": "shop.example", "SERVER_PORT": "8443", "REMOTE_ADDR": "192.0.2.7", "REMOTE_PORT": "52144",
            "SERVER_SOFTWARE": "keepwarm/0.0.1", "GATEWAY_INTERFACE": "CGI/1.1",
        }  # fmt: skip
        self.assertEqual({key: environ[key] for key in expected}, expected)

    def test_fields_become_http_names(self):
        environ = self.environ(fields=[("host", "shop.example"), ("x-my-own", "v"), ("content-type", "text/plain"), ("x-9", "n")])
        self.assertEqual(environ["HTTP_HOST"], "shop.example")
        self.assertEqual(environ["HTTP_X_MY_OWN"], "v")
        self.assertEqual(environ["HTTP_X_9"], "n")
        self.assertEqual(environ["CONTENT_TYPE"], "text/plain")
        self.assertNotIn("HTTP_CONTENT_TYPE", environ)

    def test_the_user_is_who_keepwarm_says(self):
        fields = [("remote-user", "eve"), ("auth-type", "eve"), ("x", "y")]
        environ = self.environ(fields=fields)
        self.assertTrue({"REMOTE_USER", "AUTH_TYPE"}.isdisjoint(environ))
        environ = self.environ(flags=END | USER, fields=[*fields, ("Basic", "gr\xc3\xbc\xc3\x9f")])
        self.assertEqual((environ["REMOTE_USER"], environ["AUTH_TYPE"], environ["HTTP_X"]), ("gr\xc3\xbc\xc3\x9f", "Basic", "y"))
        environ = self.environ(flags=END | USER | REPEATS, fields=[("x", "1"), ("x", "2"), ("", "jo")])
        self.assertEqual((environ["REMOTE_USER"], environ["HTTP_X"]), ("jo", "1,2"))
        self.assertNotIn("AUTH_TYPE", environ)
        self.assertNotIn("REMOTE_USER", self.environ())

    def test_repeated_fields_are_joined_in_order(self):
        environ = self.environ(
            flags=END | REPEATS,
            fields=[("x-a", "1"), ("cookie", "a=1"), ("x-a", "2"), ("cookie", "b=2"), ("x-b", "3"), ("x-a", "1")],
        )
        self.assertEqual(environ["HTTP_X_A"], "1,2,1")
        self.assertEqual(environ["HTTP_COOKIE"], "a=1; b=2")
        self.assertEqual(environ["HTTP_X_B"], "3")

    def test_no_request_sees_the_fields_of_another(self):
        self.environ(fields=[("x-secret", "1"), ("content-type", "a/b"), ("content-length", "3")], body=b"abc", query="secret")
        environ = self.environ()
        for key in ("HTTP_X_SECRET", "CONTENT_TYPE", "CONTENT_LENGTH"):
            self.assertNotIn(key, environ)
        self.assertEqual(environ["REQUEST_URI"], "/environ")

    def test_strings_are_latin_1(self):
        response = self.get("/latin/\xe9")
        self.assertEqual(response.body, "/latin/\xe9".encode("latin-1"))
        self.assertEqual(response.field("X-Name"), ["caf\xe9"])

    def test_server_name_and_port_are_never_empty(self):
        environ = self.environ(server=("", ""))
        self.assertEqual((environ["SERVER_NAME"], environ["SERVER_PORT"]), ("localhost", "80"))
        environ = self.environ(server=("", ""), scheme="https")
        self.assertEqual(environ["SERVER_PORT"], "443")

    def test_a_client_on_a_unix_socket(self):
        environ = self.environ(client=("", ""))
        self.assertEqual((environ["REMOTE_ADDR"], environ["REMOTE_PORT"]), ("", ""))

    def test_a_single_worker_says_so(self):
        environ = self.environ()
        self.assertEqual((environ["wsgi.multithread"], environ["wsgi.multiprocess"], environ["wsgi.run_once"]), (False, False, False))
        self.assertTrue(environ["wsgi.input_terminated"])

    def test_one_of_several_workers_says_so(self):
        with Worker("wsgi_app", workers=4) as worker:
            self.assertTrue(json.loads(worker.get("/environ").body)["wsgi.multiprocess"])

    def test_a_chunked_body_that_is_whole_has_a_length(self):
        environ = self.environ(method="POST", body=b"abc", length=CHUNKED)
        self.assertEqual((environ["CONTENT_LENGTH"], environ["wsgi.input"]), ("3", "abc"))

    def test_thousands_of_invented_names_are_not_remembered_for_ever(self):
        for turn in range(60):
            fields = [(f"x-{turn}-{number}", "v") for number in range(50)]
            environ = self.environ(fields=fields)
            self.assertEqual(environ[f"HTTP_X_{turn}_49"], "v")


class Responses(Shared):
    def test_a_response_of_one_block_is_one_frame(self):
        response = self.get("/")
        self.assertEqual(response.names, ["RESPONSE"])
        self.assertEqual((response.status, response.body), (200, b"hello"))
        self.assertEqual(response.fields, [("Content-Type", "text/plain"), ("Content-Length", "5")])

    def test_a_list_without_a_length_is_one_frame(self):
        response = self.get("/no-length")
        self.assertEqual((response.names, response.body), (["RESPONSE"], b"one two"))

    def test_a_large_list_without_a_length_gets_one(self):
        response = self.get("/large-list", query="1")
        self.assertEqual((len(response.body), response.fields), (100_000, [("X-Field", "1"), ("content-length", "100000")]))
        response = self.get("/large-list")
        self.assertEqual((len(response.body), response.fields), (100_000, [("content-length", "100000")]))

    def test_repeated_fields_stay_repeated_and_in_order(self):
        self.assertEqual(self.get("/two-cookies").fields, [("Set-Cookie", "a=1"), ("X-Between", "x"), ("Set-Cookie", "b=2")])

    def test_fields_leave_with_the_first_block_that_is_not_empty(self):
        response = self.get("/generator")
        self.assertEqual(response.names, ["RESPONSE", "DATA", "DATA"])
        self.assertEqual([frame.payload for frame in response.frames[1:]], [b"second", b""])
        self.assertTrue(response.frames[0].payload.endswith(b"first"))

    def test_start_response_may_come_with_the_first_block(self):
        response = self.get("/late-start")
        self.assertEqual((response.field("X-Late"), response.body), (["yes"], b"late"))

    def test_write(self):
        response = self.get("/write")
        self.assertEqual((response.body, response.field("x-way")), (b"one two three", ["write"]))

    def test_statuses(self):
        for status in (200, 201, 302, 404, 418, 500, 599, 999):
            self.assertEqual(self.get("/status", query=str(status)).status, status)

    def test_no_body_with_204_and_304(self):
        for status in (204, 304):
            response = self.get("/status", query=str(status))
            self.assertEqual((response.names, response.body), (["RESPONSE"], b""))

    def test_head_gets_the_fields_and_no_body(self):
        response = self.get("/", method="HEAD")
        self.assertEqual((response.names, response.body, response.field("content-length")), (["RESPONSE"], b"", ["5"]))

    def test_head_does_not_run_a_long_body_to_its_end(self):
        response = self.get("/closing-head", method="HEAD")
        self.assertEqual((response.names, response.body), (["RESPONSE"], b""))
        self.assertEqual(self.closed(), ["head"])

    def test_the_end_of_the_iterable_runs_after_the_last_byte(self):
        self.assertEqual(self.get("/after-the-end").names, ["RESPONSE"])
        self.assertEqual(self.closed(), ["ran to its end"])

    def test_close_is_called_after_a_whole_response(self):
        self.get("/closing")
        self.assertEqual(self.closed(), ["closing"])

    def test_close_is_called_when_the_iterable_fails(self):
        response = self.get("/closing-failed")
        self.assertEqual((response.body, response.reset[0]), (b"a", 3))
        self.assertEqual(self.closed(), ["failed"])

    def test_sizes_around_a_frame_arrive_whole(self):
        for size in (0, 1, 65_535, 65_536, 65_537, 131_072, 300_001):
            response = self.get("/big", query=str(size))
            self.assertEqual(response.body, bytes(range(256)) * (size // 256) + b"e" * (size % 256))
            self.assertIsNone(response.reset)

    def test_a_big_stream_waits_for_credit(self):
        self.worker.auto_credit = False
        stream = self.worker.request("/big", query="400000")
        response = self.worker.take(stream, lambda response: len(response.body) == 65_536 * 2)
        self.worker.credit(stream, 100_000)
        self.worker.take(stream, lambda response: len(response.body) == 65_536 * 2 + 100_000)
        self.worker.credit(stream, 1_000_000)
        response = self.worker.response(stream)
        self.assertEqual(len(response.body), 400_000)
        self.worker.credit(0, 334_464)

    def test_many_big_blocks(self):
        self.assertEqual(len(self.get("/big-blocks", query="7").body), 700_000)

    def test_what_a_request_kept_is_of_no_use_for_another(self):
        self.assertEqual(self.get("/keep").body, b"kept")
        response = self.get("/use-kept", flags=END | driver.EARLY_HINTS)
        late = ["write() was called after the end of its response", "start_response() was called after the end of its response"]
        self.assertEqual((response.status, response.fields, response.informs), (200, [], []))
        self.assertEqual(response.body, b"own " + json.dumps(late * 2).encode())

    def test_files_are_read_in_large_blocks_and_pipes_as_asked(self):
        self.assertEqual(self.json("/file-blocks"), [[65_536, 65_536, 65_536, 3_392], [10] * 10])

    def test_files(self):
        with open(driver.APPS / "wsgi_app.py", "rb") as file:
            self.assertEqual(self.get("/file").body, file.read())
        self.assertEqual(self.get("/buffered-file").body, b"x" * 20_000)

    def test_hop_by_hop_fields_are_not_forwarded_and_close_is_honored(self):
        with Worker("wsgi_app") as worker:
            responses = []
            log = worker.log_of(lambda: responses.extend(worker.get("/hop-by-hop") for _ in range(2)))
        self.assertEqual(responses[1].fields, [("X-Kept", "1")])
        self.assertTrue(responses[1].close_after)
        self.assertEqual(log.count("Transfer-Encoding"), 1)
        self.assertEqual(log.count("Keep-Alive"), 1)
        self.assertNotIn("Connection:", log)

    def test_early_hints(self):
        response = self.get("/hints", flags=END | driver.EARLY_HINTS)
        links = [("Link", "</a.css>; rel=preload"), ("Link", "</b.js>; rel=preload")]
        self.assertEqual(response.informs, [(103, links)])
        self.assertEqual(response.names, ["INFORM", "RESPONSE", "DATA"])

    def test_early_hints_to_a_client_that_would_not_understand(self):
        self.assertEqual(self.get("/hints").informs, [])


class Errors(Shared):
    def test_an_exception_before_the_start(self):
        log = self.worker.log_of(lambda: self.assertEqual(self.get("/fail-before").reset[0], 3))
        self.assertIn("ZeroDivisionError: before the start", log)
        self.assertIn("in fail_before", log)
        self.assertNotIn("keepwarm", log.replace(str(driver.TESTS), ""))

    def test_an_exception_after_start_response_and_before_a_body(self):
        response = self.get("/fail-late-start")
        self.assertEqual((response.names, response.reset[0]), (["RESET"], 3))

    def test_an_error_page_in_place_of_a_304_has_its_body(self):
        response = self.get("/error-page-behind-304")
        self.assertEqual((response.status, response.body), (500, b"sorry"))

    def test_an_error_page_by_exc_info(self):
        response = self.get("/error-page")
        self.assertEqual((response.status, response.fields, response.body), (500, [("X-Second", "2")], b"sorry"))

    def test_exc_info_is_raised_again_once_fields_have_left(self):
        response = None

        def action():
            nonlocal response
            response = self.get("/error-page-late")

        log = self.worker.log_of(action)
        self.assertEqual((response.status, response.body, response.reset[0]), (200, b"begun", 3))
        self.assertIn("KeyError: 'lost late'", log)

    def test_start_response_twice(self):
        self.assertEqual(self.get("/start-twice").reset[0], 3)

    def test_no_start_response(self):
        log = self.worker.log_of(lambda: self.assertEqual(self.get("/no-start").reset[0], 3))
        self.assertIn("without calling start_response", log)

    def test_a_body_that_is_not_bytes(self):
        for which in ("list", "two", "large", "number", "stream", "late"):
            log = self.worker.log_of(lambda: self.assertEqual(self.get("/no-bytes", query=which).reset[0], 3))
            self.assertIn("TypeError", log, which)
            if which in ("list", "large", "stream", "late"):
                self.assertIn("a block of the response is str instead of bytes", log, which)

    def test_fields_that_cannot_be_sent(self):
        for which, said in (("n", "CR, LF or NUL"), ("z", "CR, LF or NUL"), ("t", "invalid header name"), ("b", "bytes"), ("l", "Content-Length")):
            log = self.worker.log_of(lambda: self.assertEqual(self.get("/bad-field", query=which).reset[0], 3))
            self.assertIn(said, log)
            self.assertIn("in bad_field", log)

    def test_statuses_that_cannot_be_sent(self):
        for status in ("OK", "20", "101+Switching", "103+Early", "2000+x", "099+x"):
            self.assertEqual(self.get("/bad-status", query=status).reset[0], 3, status)

    def test_too_short(self):
        for path, body in (("/too-short", b"abc"), ("/too-short-stream", b"abcdef")):
            response = None

            def action():
                nonlocal response
                response = self.get(path)

            log = self.worker.log_of(action)
            self.assertEqual((response.body, response.reset[0]), (body, 4))
            self.assertIn(f"after {len(body)} of the 10 bytes", log)

    def test_too_long_is_cut_and_logged_once(self):
        with Worker("wsgi_app") as worker:
            responses = []

            def action():
                for path in ("/too-long", "/too-long-stream", "/too-long"):
                    responses.append(worker.get(path))

            log = worker.log_of(action)
        for response in responses:
            self.assertEqual((response.body, response.reset), (b"abc", None))
        self.assertEqual(log.count("longer than its Content-Length"), 1)

    def test_recursion_without_end(self):
        log = self.worker.log_of(lambda: self.assertEqual(self.get("/recursion").reset[0], 3))
        self.assertIn("RecursionError", log)


class Bodies(Shared):
    def test_a_body_in_pieces(self):
        body = os.urandom(300_000)
        stream = self.worker.request("/digest", method="POST", body=body[:50_000], length=len(body), flags=0)
        for start in range(50_000, len(body), 60_000):
            self.worker.data(stream, body[start : start + 60_000], end=start + 60_000 >= len(body))
        response = self.worker.response(stream)
        self.assertEqual(json.loads(response.body), [len(body), hashlib.sha256(body).hexdigest()])

    def test_credit_comes_back_for_what_was_read(self):
        stream = self.worker.request("/digest", method="POST", length=CHUNKED, flags=0)
        for _ in range(4):
            self.worker.data(stream, b"x" * 65_536)
        response = self.worker.take(stream, lambda response: sum(f.name == "CREDIT" for f in response.frames) >= 4)
        self.worker.data(stream, end=True)
        self.worker.response(stream)
        back = sum(struct.unpack(">I", f.payload)[0] for f in response.frames if f.name == "CREDIT")
        self.assertEqual(back, 4 * 65_536)

    def test_read_readline_readlines_and_iteration(self):
        body = b"first line\nsecond line\nthird\nfourth\nfifth"
        expected = ["first line\n", "sec", "on", "d line\n", "third\n", "fourth\n", "fifth", "", "", ""]
        self.assertEqual(self.json("/lines", body=body, method="POST"), expected)
        for cut in range(0, len(body), 3):
            stream = self.worker.request("/lines", method="POST", body=body[:cut], length=len(body), flags=0)
            self.worker.data(stream, body[cut : cut + 1])
            self.worker.data(stream, body[cut + 1 :], end=True)
            self.assertEqual(json.loads(self.worker.response(stream).body), expected)

    def test_a_client_that_breaks_off_its_body(self):
        def action():
            stream = self.worker.request("/read-error", method="POST", length=100, flags=0)
            self.worker.data(stream, b"part")
            self.worker.reset(stream, 5, "the client went away")
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "read failed with ClientDisconnected\n")

    def test_a_response_without_reading_the_body(self):
        stream = self.worker.request("/", method="POST", length=1_000_000, flags=0)
        response = self.worker.response(stream)
        self.assertEqual((response.status, response.wants), (200, 0))
        self.worker.data(stream, b"y" * 65_536)
        self.worker.data(stream, b"y" * 65_536, end=True)
        self.assertEqual(self.get("/").status, 200)

    def test_the_connection_gets_its_credit_back_for_unread_bodies(self):
        with Worker("wsgi_app") as worker:
            for _ in range(3):
                stream = worker.request("/", method="POST", length=CHUNKED, flags=0)
                worker.response(stream)
                for _ in range(2):
                    worker.data(stream, b"z" * 60_000)
                worker.get("/")
            back = sum(struct.unpack(">I", frame.payload)[0] for frame in worker.held if frame.name == "CREDIT")
        self.assertGreaterEqual(back, 360_000 - 65_536)

    def test_expect_reading_asks_for_the_body_once(self):
        stream = self.worker.request("/digest", method="POST", length=6, flags=EXPECT)
        response = self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc")
        self.worker.data(stream, b"def", end=True)
        self.worker.response(stream)
        self.assertEqual((json.loads(response.body)[0], response.wants), (6, 1))

    def test_expect_responding_without_reading_asks_for_nothing(self):
        response = self.get("/", method="POST", length=6, flags=EXPECT)
        self.assertEqual((response.status, response.wants), (200, 0))

    def test_expect_is_in_the_environment(self):
        stream = self.worker.request("/environ", method="POST", length=1, flags=EXPECT)
        self.worker.data(stream, b"x", end=True)
        self.assertEqual(json.loads(self.worker.response(stream).body)["HTTP_EXPECT"], "100-continue")
        self.assertNotIn("HTTP_EXPECT", self.json("/environ"))

    def test_the_explicit_call_for_the_body(self):
        stream = self.worker.request("/continue", method="POST", length=3, flags=EXPECT)
        response = self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc", end=True)
        self.worker.response(stream)
        self.assertEqual((response.body, response.wants), (b"abc", 1))
        self.assertEqual(self.get("/continue", body=b"here", method="POST").wants, 0)

    def test_the_convention_of_unicorn(self):
        self.json("/was-closed")
        stream = self.worker.request("/unicorn", method="POST", length=3, flags=EXPECT)
        response = self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc", end=True)
        self.worker.response(stream)
        self.assertEqual((response.status, response.body, response.wants), (200, b"read abc", 1))
        self.assertEqual(self.closed(), ["unicorn"])

    def test_100_for_ever_is_an_error(self):
        self.assertEqual(self.get("/forever-100").reset[0], 3)

    def test_data_that_came_before_it_was_asked_for(self):
        stream = self.worker.request("/continue", method="POST", body=b"ab", length=3, flags=EXPECT)
        self.worker.data(stream, b"c", end=True)
        self.assertEqual(self.worker.response(stream).body, b"abc")

    def test_trailers_end_a_body(self):
        stream = self.worker.request("/digest", method="POST", length=CHUNKED, flags=0)
        self.worker.data(stream, b"abc")
        self.worker.send(pack("TRAILERS", stream, driver.block(["x-sum", "1"])))
        self.assertEqual(json.loads(self.worker.response(stream).body)[0], 3)


class Alarms(unittest.TestCase):
    def test_a_handler_that_raises_breaks_no_frame(self):
        with Worker("wsgi_app", stream_credit=1 << 30, connection_credit=1 << 30) as worker:
            stream = worker.request("/alarmed")
            time.sleep(0.2)  # the time limit; meanwhile the worker stands in a write that nobody reads
            self.assertEqual(worker.response(stream).reset[0], 3)
            self.assertIn("TimeoutError: over", worker.log())
            self.assertEqual(worker.get("/").body, b"hello")


class LostClients(Shared):
    def test_a_stream_ends_without_a_word_in_the_log(self):
        def action():
            stream = self.worker.request("/never-ends")
            self.worker.take(stream, lambda response: len(response.frames) > 3)
            self.worker.reset(stream)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.quiet(action)
        self.assertIn("never ends", self.closed())

    def test_one_that_waits_for_credit(self):
        self.worker.auto_credit = False

        def action():
            stream = self.worker.request("/never-ends")
            self.worker.take(stream, lambda response: len(response.body) >= 65_536)
            self.worker.reset(stream)
            response = self.worker.response(stream)
            self.assertEqual(response.reset[0], 1)
            self.worker.credit(0, len(response.body))

        self.quiet(action)

    def test_a_reset_that_crosses_the_response_is_ignored(self):
        stream = self.worker.request("/")
        self.worker.response(stream)
        self.worker.reset(stream)
        self.assertEqual(self.get("/").status, 200)


class Process(unittest.TestCase):
    def test_hello(self):
        with Worker("wsgi_app") as worker:
            version, streams, stream_credit, connection_credit = struct.unpack_from(">HIII", worker.hello.payload)
            self.assertEqual((worker.hello.name, version, streams), ("HELLO", 1, 1))
            self.assertGreaterEqual(min(stream_credit, connection_credit), 65_536)
            about = dict(driver.pairs(driver.unblock(worker.hello.payload[14:])[0]))
            self.assertEqual(about["kind"], "wsgi")
            self.assertEqual({name for name, value in about.items() if value == "1"}, {"blocking", "cgi_names", "user", "profile", "leaks"})
            self.assertTrue(about["adapter"].startswith("python/"))
            self.assertIn("Python", about["language"])

    def test_drain_ends_it_with_status_0(self):
        with Worker("wsgi_app") as worker:
            self.assertEqual(worker.drain(), 0)

    def test_drain_after_the_open_request(self):
        with Worker("wsgi_app") as worker:
            stream = worker.request("/digest", method="POST", length=3, flags=0)
            worker.data(stream, b"abc", end=True)
            worker.send(pack("DRAIN"))
            self.assertEqual(json.loads(worker.response(stream).body)[0], 3)
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)

    def test_the_end_of_the_wire_ends_it(self):
        with Worker("wsgi_app") as worker:
            worker.mine.close()
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)

    def test_the_end_of_the_wire_within_a_request(self):
        with Worker("wsgi_app") as worker:
            stream = worker.request("/never-ends")
            worker.take(stream, lambda response: len(response.frames) > 1)
            worker.mine.close()
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)
            self.assertEqual(worker.log(), "")

    def test_ping(self):
        with Worker("wsgi_app") as worker:
            worker.send(pack("PING", payload=b"12345678"))
            pong = worker.read()
            self.assertEqual((pong.name, pong.payload), ("PONG", b"12345678"))

    def test_it_is_woken_once_for_each_frame_and_not_by_the_reading_of_its_reply(self):
        with Worker("wsgi_app") as worker:
            self.assertLess(worker.sleeps(20), 30)

    def test_frames_byte_by_byte_and_several_at_once(self):
        with Worker("wsgi_app") as worker:
            _, one = worker.request("/", send=False)
            for place in range(len(one)):
                worker.send(one[place : place + 1])
            self.assertEqual(worker.response(1).status, 200)
            _, two = worker.request("/", send=False)
            worker.send(pack("PING", payload=b"abcdefgh") + two + pack("PING", payload=b"hgfedcba") + pack("DRAIN"))
            self.assertEqual(worker.response(2).status, 200)
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)

    def test_a_fault_ends_it_with_status_1(self):
        for bad in (
            b"\xff" * 10, pack("DATA", 0, b"x"), pack("PING", 0, b"1"), pack("HELLO"), pack("REQUEST", 0, b""), pack("CREDIT", 0, b"\0" * 4),
            pack("REQUEST", 1, b"\0" * 14, END), pack("DRAIN", 0, b"x"), pack("WELCOME", 0, b""), pack("TEXT", 1, b"x"),
        ):  # fmt: skip
            with Worker("wsgi_app") as worker:
                worker.send(bad)
                self.assertIsNone(worker.read(), bad)
                self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
                self.assertIn("fault on the wire", worker.log())

    def test_stream_ids_never_come_twice(self):
        with Worker("wsgi_app") as worker:
            worker.get("/")
            worker.stream = 0
            worker.request("/")
            self.assertIsNone(worker.read())
            self.assertIn("stream 1 after stream 1", worker.log())

    def test_prints_are_log_lines(self):
        with Worker("wsgi_app") as worker:
            log = worker.log_of(lambda: worker.get("/prints"))
        self.assertEqual(log, "printed to stdout\nprinted to stderr\nwritten to wsgi.errors\n")

    def test_a_forked_child_never_writes_to_the_wire(self):
        with Worker("wsgi_app") as worker:
            response = worker.get("/fork")
            self.assertEqual(response.body, b"by the parent")
            self.assertEqual(worker.get("/").body, b"hello")

    def test_a_grandchild_does_not_get_the_descriptor(self):
        with Worker("wsgi_app") as worker:
            number = next(
                one for one in os.listdir(f"/proc/{worker.process.pid}/fd")
                if one not in "012" and os.readlink(f"/proc/{worker.process.pid}/fd/{one}").startswith("socket:")
            )  # fmt: skip
            self.assertEqual(worker.get("/grandchild", query=number).body, b"False False\n")

    def leaves(self, path):
        """It asks for a replacement, and goes on until it is there; gives its response, its status, and what it has logged."""
        with Worker("wsgi_app") as worker:
            response = worker.get(path)
            self.assertEqual(response.reset[0], 3)
            said = [frame.name for frame in worker.held if frame.name != "BUSY"] or [worker.read().name]
            self.assertEqual(said, ["DRAIN"])
            self.assertEqual(worker.get("/").body, b"hello")
            return response, worker.drain(), worker.log()

    def test_sys_exit_ends_the_worker_after_a_500(self):
        _, status, log = self.leaves("/leave")
        self.assertEqual(status, 7)
        self.assertIn("SystemExit: 7", log)

    def test_what_was_made_before_sys_exit_is_delivered(self):
        response, status, _ = self.leaves("/leave-late")
        self.assertEqual((response.body, status), (b"what was made before", 7))

    def test_os_exit_closes_the_wire(self):
        with Worker("wsgi_app") as worker:
            worker.request("/die")
            self.assertIsNone(worker.read())
            self.assertEqual(worker.process.wait(driver.PATIENCE), 9)

    def test_keyboard_interrupt_of_the_application(self):
        self.assertNotEqual(self.leaves("/interrupt")[1], 0)

    def test_out_of_memory_asks_for_a_replacement(self):
        with Worker("wsgi_app") as worker:
            self.assertEqual(worker.get("/memory").reset[0], 3)
            self.assertEqual(worker.read().name, "DRAIN")
            self.assertEqual(worker.get("/").status, 200)  # one that crossed
            self.assertEqual(worker.drain(), 0)

    def test_sigterm_asks_to_drain(self):
        with Worker("wsgi_app") as worker:
            worker.get("/")
            worker.process.terminate()
            self.assertEqual(worker.read().name, "DRAIN")
            self.assertEqual(worker.get("/").status, 200)
            self.assertEqual(worker.drain(), 0)

    def test_sigterm_within_a_request_asks_after_it(self):
        with tempfile.TemporaryDirectory() as folder:
            here, go = os.path.join(folder, "here"), os.path.join(folder, "go")
            os.mkfifo(here)
            os.mkfifo(go)
            with Worker("wsgi_app", env={"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}) as worker:
                stream = worker.request("/wait")
                with open(here) as line:
                    line.readline()
                worker.process.terminate()
                with open(go, "w") as line:
                    line.write("go\n")
                self.assertEqual(worker.response(stream).body, b"went on")
                frame = worker.held[0] if worker.held else worker.read()
                self.assertEqual(frame.name, "DRAIN")
                self.assertEqual(worker.drain(), 0)

    def test_sigint_is_not_for_the_worker(self):
        with Worker("wsgi_app") as worker:
            worker.get("/")
            worker.process.send_signal(2)
            self.assertEqual(worker.get("/").status, 200)
            self.assertEqual(worker.drain(), 0)

    def test_a_stuck_worker_shows_its_stack(self):
        with tempfile.TemporaryDirectory() as folder:
            here, go = os.path.join(folder, "here"), os.path.join(folder, "go")
            os.mkfifo(here)
            os.mkfifo(go)
            with Worker("wsgi_app", env={"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}) as worker:
                stream = worker.request("/wait")
                with open(here) as line:
                    line.readline()
                worker.process.send_signal(3)
                worker.wait_for_log("in wait_for_line")
                with open(go, "w") as line:
                    line.write("go\n")
                worker.response(stream)

    def test_what_a_request_leaks_is_put_back(self):
        with Worker("wsgi_app") as worker:
            before = worker.get("/place").body
            log = worker.log_of(lambda: (worker.get("/leak"), worker.get("/leak")))
            self.assertEqual(worker.get("/place").body, before)
            self.assertEqual(log.count("changed the directory"), 1)
            self.assertEqual(log.count("changed the umask"), 1)

    def test_each_request_has_a_context_of_its_own(self):
        with Worker("wsgi_app") as worker:
            self.assertEqual([worker.get("/context").body for _ in range(2)], [b"28", b"28"])


class Validator(unittest.TestCase):
    """wsgiref's own checks of a server, around an application that does a bit of everything."""

    def test_wsgiref_validate(self):
        with Worker("validated_app") as worker:
            for method, body in (("GET", b""), ("POST", b"a body"), ("HEAD", b"")):
                response = worker.get("/", method=method, body=body, fields=[("content-length", str(len(body)))])
                self.assertEqual((response.status, response.reset), (200, None), worker.log())
                self.assertEqual(response.body, b"" if method == "HEAD" else b"read " + body)
            stream = worker.request("/", method="POST", length=3, flags=0, fields=[("content-length", "3")])
            worker.data(stream, b"abc", end=True)
            self.assertEqual(worker.response(stream).body, b"read abc")
            self.assertEqual(worker.log(), "")


if __name__ == "__main__":
    unittest.main()
