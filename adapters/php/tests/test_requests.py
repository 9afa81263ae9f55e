"""Requests and responses of a plain callable: what it is given, what it may return, how bodies travel."""

import hashlib
import json
import os
import struct
import tempfile
import unittest

from tests import driver
from tests.driver import CHUNKED, EARLY_HINTS, END, EXPECT, REPEATS, USER, Worker, pack


class Shared(unittest.TestCase):
    """One worker for the tests of a class: what one leaves behind must not disturb the next."""

    @classmethod
    def setUpClass(cls):
        cls.worker = Worker("plain.php")

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()

    def get(self, path="/", **more):
        return self.worker.get(path, **more)

    def json(self, path, **more):
        response = self.get(path, **more)
        self.assertEqual(response.status, 200, (response, self.worker.log()))
        return json.loads(response.body)

    def quiet(self, action):
        self.assertEqual(self.worker.log_of(action), "")


class Requests(Shared):
    def test_a_path_behind_the_name_of_the_script(self):
        for script in ("", "/app"):
            found = self.json("/plain.php/route/x", script=script)
            self.assertEqual(found, {"PATH_INFO": "/route/x", "PHP_SELF": f"{script}/plain.php/route/x", "SCRIPT_NAME": f"{script}/plain.php"})
        self.assertNotIn("PATH_INFO", self.json("/server"))

    def test_server_variables(self):
        fields = [("host", "shop.example:8080"), ("x-one-two", "1"), ("content-type", "text/plain"), ("content-length", "3"), ("123", "numeric")]
        server = self.json("/server", method="PUT", query="a=1&b=2", raw_path="/ser%76er", fields=fields, body=b"abc")
        self.assertEqual(
            {name: server[name] for name in (
                "REQUEST_METHOD", "SERVER_PROTOCOL", "SERVER_NAME", "SERVER_PORT", "QUERY_STRING", "REQUEST_URI", "SCRIPT_NAME", "PHP_SELF", "REMOTE_ADDR",
                "REMOTE_PORT", "HTTP_HOST", "HTTP_X_ONE_TWO", "CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_123", "GATEWAY_INTERFACE", "SERVER_SOFTWARE",
            )},
            {
                "REQUEST_METHOD": "PUT", "SERVER_PROTOCOL": "HTTP/1.1", "SERVER_NAME": "shop.example", "SERVER_PORT": "8080", "QUERY_STRING": "a=1&b=2",
                "REQUEST_URI": "/ser%76er?a=1&b=2", "SCRIPT_NAME": "/plain.php", "PHP_SELF": "/plain.php", "REMOTE_ADDR": "192.0.2.7", "REMOTE_PORT": "52144",
                "HTTP_HOST": "shop.example:8080", "HTTP_X_ONE_TWO": "1", "CONTENT_TYPE": "text/plain", "CONTENT_LENGTH": "3", "HTTP_123": "numeric",
                "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_SOFTWARE": "keepwarm/0.0.1",
            },
        )  # fmt: skip
        for name in ("HTTPS", "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH", "argv", "argc", "KEEPWARM_FD"):
            self.assertNotIn(name, server)
        self.assertIn("REQUEST_TIME_FLOAT", server)

    def test_https_and_a_script_name(self):
        server = self.json("/server", scheme="https", script="/app", server=("", ""))
        self.assertEqual((server["HTTPS"], server["REQUEST_SCHEME"], server["SERVER_PORT"]), ("on", "https", "443"))
        self.assertEqual((server["SCRIPT_NAME"], server["REQUEST_URI"], server["SERVER_NAME"]), ("/app/plain.php", "/app/server", "localhost"))
        self.assertNotIn("HTTPS", self.json("/server"))

    def test_nothing_of_a_request_is_in_the_next(self):
        self.json("/server", fields=[("x-secret", "1"), ("cookie", "a=1")], query="q=1")
        request = self.json("/request")
        self.assertEqual((request["get"], request["cookies"], request["fields"], request["post"], request["request"]), ([], [], [], [], []))
        self.assertNotIn("HTTP_X_SECRET", self.json("/server"))

    def test_repeated_fields(self):
        fields = [("x-many", "1"), ("cookie", "a=1"), ("x-many", "2"), ("cookie", "b=2")]
        request = self.json("/request", fields=fields, flags=END | REPEATS)
        self.assertEqual(request["fields"], {"x-many": ["1", "2"], "cookie": ["a=1", "b=2"]})
        self.assertEqual(request["cookies"], {"a": "1", "b": "2"})
        self.assertEqual(self.json("/server", fields=fields, flags=END | REPEATS)["HTTP_X_MANY"], "1, 2")

    def test_queries_and_cookies_nest_as_in_php(self):
        request = self.json("/request", query="a[]=1&a[]=2&b[x][y]=3&c.d=4", fields=[("cookie", "x[k]=1; y=%41+b; y=second; z=a&b=c")])
        self.assertEqual(request["get"], {"a": ["1", "2"], "b": {"x": {"y": "3"}}, "c_d": "4"})
        self.assertEqual(request["cookies"], {"x": {"k": "1"}, "y": "A+b", "z": "a&b=c"})

    def test_cookies_without_a_value_and_with_a_plus(self):
        request = json.loads(self.get("/request", fields=[("cookie", "a=%41+b; bare; c==; n[x]=1+2")]).body)
        self.assertEqual(request["cookies"], {"a": "A+b", "bare": "", "c": "=", "n": {"x": "1+2"}})
        request = json.loads(self.get("/request", fields=[("cookie", "a=%41+b; bare; a=2")]).body)
        self.assertEqual(request["cookies"], {"a": "A+b", "bare": ""})

    def test_credentials(self):
        server = self.json("/server", fields=[("authorization", "Basic dXNlcjpwYXNz")])
        self.assertEqual((server["PHP_AUTH_USER"], server["PHP_AUTH_PW"], server["AUTH_TYPE"]), ("user", "pass", "Basic"))

    def test_the_user_is_who_keepwarm_says(self):
        server = self.json("/server", fields=[("remote-user", "eve"), ("auth-type", "eve")])
        self.assertTrue({"REMOTE_USER", "AUTH_TYPE"}.isdisjoint(server))
        server = self.json("/server", fields=[("x-a", "y"), ("Basic", "jo")], flags=END | USER)
        self.assertEqual((server["REMOTE_USER"], server["AUTH_TYPE"], server["HTTP_X_A"]), ("jo", "Basic", "y"))
        server = self.json("/server", fields=[("x-a", "1"), ("x-a", "2"), ("", "jo")], flags=END | USER | REPEATS)
        self.assertEqual((server["REMOTE_USER"], server["HTTP_X_A"]), ("jo", "1, 2"))
        self.assertNotIn("AUTH_TYPE", server)
        self.assertNotIn("REMOTE_USER", self.json("/server"))

    def test_bytes_that_are_no_utf_8(self):
        self.assertIn("HTTP_X_BYTES", self.json("/server", fields=[("x-bytes", "\xff\xfe")]))


class Responses(Shared):
    def test_a_string(self):
        response = self.get("/")
        self.assertEqual((response.status, response.body, response.names), (200, b"hello", ["RESPONSE"]))
        self.assertEqual(response.field("content-type"), ["text/html; charset=UTF-8"])

    def test_an_array(self):
        response = self.get("/array")
        self.assertEqual((response.status, response.body, response.field("x-one")), (201, b"made", ["1", "2"]))

    def test_a_large_body_that_is_whole_has_a_length(self):
        for path in ("/large-string", "/large-array"):
            response = self.get(path)
            self.assertEqual((len(response.body), response.field("content-length")), (100_000, ["100000"]), path)

    def test_what_is_printed_with_header_and_status(self):
        response = self.get("/echo")
        self.assertEqual((response.status, response.body), (203, b"printed and more"))
        self.assertEqual((response.field("x-echo"), response.field("set-cookie")), (["yes"], ["a=1", "b=2"]))
        self.assertEqual(self.get("/").field("x-echo"), [])

    def test_cookies_that_are_none(self):
        response = self.get("/cookies-that-are-none")
        some = '",", ";", " ", "\\t", "\\r", "\\n", "\\013", or "\\014"'
        self.assertEqual(
            json.loads(response.body),
            [
                "setcookie(): Argument #1 ($name) cannot be empty", f'setcookie(): Argument #1 ($name) cannot contain "=", {some}',
                f'setcookie(): "path" option cannot contain {some}', 'setcookie(): option "bogus" is invalid', "setcookie(): option array cannot have numeric keys",
                'setcookie(): "expires" option cannot have a year greater than 9999',
                "setcookie(): Expects exactly 3 arguments when argument #3 ($expires_or_options) is an array", False,
            ],
        )  # fmt: skip
        self.assertEqual(response.field("set-cookie"), [])

    def test_what_is_returned_without_a_type_has_the_default_one(self):
        for path in ("/large-array", "/pieces", "/resource", "/close"):
            self.assertEqual(self.get(path).field("content-type"), ["text/html; charset=UTF-8"], path)
        self.assertEqual(self.get("/array").field("content-type"), ["text/plain"])
        self.assertEqual(self.get("/not-modified").field("content-type"), [])

    def test_what_is_dumped_is_on_the_page(self):
        for _ in range(2):
            body = self.get("/dump").body.decode()
            self.assertIn("dumped", body)
            self.assertIn("sf-dump", body)
            self.assertTrue(body.endswith(" and more"), body)
        with Worker("plain.php") as worker:
            self.assertIn(b"dumped", worker.get("/dd").body)
        with Worker("plain.php", env={"VAR_DUMPER_FORMAT": "cli"}) as worker:
            self.assertNotIn(b"sf-dump", worker.get("/dump").body)

    def test_a_304_has_no_type_of_its_own(self):
        self.assertEqual((self.get("/unchanged").status, self.get("/unchanged").field("content-type")), (304, []))

    def test_buffers_that_it_never_began(self):
        response = self.get("/clean-what-is-not-its-own")
        self.assertEqual((response.body, response.field("content-type")), (b'["",0]', ["application/json"]))
        self.assertEqual(self.get("/flush-what-is-not-its-own").body, b"one two three 0")
        self.assertEqual(self.get("/").body, b"hello")

    def test_location_means_302(self):
        self.assertEqual(self.get("/redirect").status, 302)

    def test_cookies(self):
        response = self.get("/cookie")
        first, raw, gone = response.field("set-cookie")
        self.assertRegex(first, r"^name=a%20value; expires=Wed, 18 May 2033 03:33:20 GMT; Max-Age=\d+; path=/; HttpOnly; SameSite=Lax$")
        self.assertEqual(raw, "raw=x%20y")
        self.assertTrue(gone.startswith("gone=deleted; expires=Thu, 01 Jan 1970"))

    def test_flush_sends_what_there_is(self):
        response = self.get("/flushing")
        self.assertEqual((response.body, response.names), (b"one two three sent", ["RESPONSE", "DATA", "DATA", "DATA", "DATA"]))

    def test_much_output_leaves_in_pieces(self):
        response = self.get("/large-echo")
        self.assertEqual(len(response.body), 300_000)
        self.assertGreater(len(response.frames), 4)

    def test_buffers_that_are_left_open_are_sent(self):
        self.assertEqual(self.get("/buffers").body, b"inner innermost returned")
        self.assertEqual(self.get("/end-buffers").body, b"level 0")
        self.assertEqual(self.get("/").body, b"hello")

    def test_a_buffer_that_cannot_be_removed_is_delivered_and_the_worker_replaced(self):
        for path, body in (("/unremovable", b"inside"), ("/unremovable-late", b"before inside")):
            with Worker("plain.php") as worker:
                response = worker.get(path)
                self.assertEqual((response.body, response.reset), (body, None))
                self.assertEqual((worker.held.pop(0) if worker.held else worker.read()).name, "DRAIN")
                self.assertEqual(worker.drain(), 0)
                self.assertIn("output buffer that cannot be removed", worker.log())

    def test_ob_clean_forgets_what_was_printed(self):
        self.assertEqual(self.get("/clean").body, b"file")

    def test_text_has_its_charset(self):
        for path, kind in (("/text", "text/csv;charset=UTF-8"), ("/text-latin", "text/csv; charset=latin-1"), ("/image", "image/png")):
            self.assertEqual(self.get(path).field("content-type"), [kind])

    def test_input_can_be_filtered(self):
        response = self.get("/filter", query="n=5&bad=x&list[]=1", fields=[("cookie", "c=d")])
        self.assertEqual(json.loads(response.body), [5, False, None, 3, False, ["1"], "d", "GET", True, False, {"n": 5}, None])

    def test_the_status_of_cgi(self):
        response = self.get("/status-line")
        self.assertEqual((response.status, response.field("status"), json.loads(response.body)), (404, [], [403, 404]))

    def test_pieces(self):
        self.assertEqual(self.get("/pieces").body, b"abc")
        self.assertEqual(self.get("/resource").body, b"z" * 200_000)

    def test_lengths_that_are_wrong(self):
        response = self.get("/short")
        self.assertEqual(response.reset[0], 4)
        self.assertEqual(self.get("/long").body, b"long")

    def test_hop_by_hop_fields_are_dropped_with_one_warning(self):
        log = self.worker.log_of(lambda: (self.get("/hop"), self.get("/hop")))
        self.assertEqual(log.count("header Connection"), 1)
        self.assertEqual(self.get("/hop").fields, [("X-Kept", "1"), ("Content-Type", "text/html; charset=UTF-8")])

    def test_close_is_honored(self):
        self.assertTrue(self.get("/close").close_after)
        self.assertFalse(self.get("/").close_after)

    def test_what_cannot_travel_is_the_applications_error(self):
        for path in ("/bad-value", "/nul-value", "/bad-name", "/bad-status", "/bad-return"):
            response = self.get(path)
            self.assertEqual((response.status, response.reset[0]), (None, 3), path)
            self.assertEqual(self.get("/").status, 200)

    def test_responses_without_a_body(self):
        self.assertEqual((self.get("/no-content").body, self.get("/not-modified").body), (b"", b""))
        response = self.get("/", method="HEAD")
        self.assertEqual((response.status, response.body, response.names), (200, b"", ["RESPONSE"]))
        self.assertEqual(self.get("/large-echo", method="HEAD").body, b"")

    def test_exceptions(self):
        log = self.worker.log_of(lambda: self.assertEqual(self.get("/throws").reset[0], 3))
        self.assertIn("RuntimeException: a failure in", log)
        self.assertIn("plain.php", log)
        response = self.get("/throws-late")
        self.assertEqual((response.body, response.reset[0]), (b"begun", 3))

    def test_early_hints(self):
        response = self.get("/hints", flags=END | EARLY_HINTS)
        self.assertEqual(response.informs, [(103, [("link", "</a.css>; rel=preload"), ("link", "</b.js>; rel=preload")])])
        self.assertEqual(self.get("/hints-symfony", flags=END | EARLY_HINTS).informs, [(103, [("Link", "</a.css>; rel=preload")])])
        self.assertEqual(self.get("/hints").informs, [])

    def test_more_fields_than_fit_a_frame_are_the_applications_error(self):
        self.assertEqual(self.get("/hints-large", flags=END | EARLY_HINTS).reset[0], 3)
        for size in (65_400, 65_472, 65_473, 70_000):
            response = self.get("/large-field", query=f"size={size}")
            self.assertIn((response.status, len(response.body)), [(200, 100_000)] if size == 65_400 else [(200, 100_000), (None, 0), (500, 0)], size)
            self.assertEqual(self.get("/hints").body, b"ok")

    def test_finishing_early(self):
        def action():
            response = self.get("/finish")
            self.assertEqual((response.body, response.names), (b"first", ["RESPONSE"]))

        self.assertEqual(self.worker.log_of(action), "after the response\n")
        self.assertEqual(self.get("/").status, 200)
        busy = [(frame.name, frame.flags) for frame in self.worker.held]
        self.worker.held.clear()
        self.assertEqual(busy, [("BUSY", 0), ("BUSY", 1)])

    def test_logs_are_not_the_response(self):
        log = self.worker.log_of(lambda: self.assertEqual(self.get("/log").body, b"logged"))
        for line in ("to the error log\n", "to stderr\n", "PHP Warning:  a warning in"):
            self.assertIn(line, log)


class Bodies(Shared):
    def sum(self, body):
        return f"{len(body)} {hashlib.md5(body).hexdigest()}".encode()

    def test_whole(self):
        self.assertEqual(self.get("/body", method="POST", body=b"abc").body, self.sum(b"abc"))

    def test_in_pieces_larger_than_the_credit(self):
        body = os.urandom(1) * 100 + bytes(range(256)) * 8_000
        stream = self.worker.request("/body", method="POST", length=len(body), flags=0)
        for start in range(0, len(body), 60_000):
            part = body[start : start + 60_000]
            self.worker.data(stream, part, end=start + 60_000 >= len(body))
            if start and start % 180_000 == 0 and start + 60_000 < len(body):
                self.worker.take(stream, lambda response, n=start // 180_000: len([f for f in response.frames if f.name == "CREDIT"]) >= n)
        self.assertEqual(self.worker.response(stream).body, self.sum(body))

    def test_as_a_stream_that_can_be_read_again(self):
        body = b"0123456789abcdef" * 130_000  # more than is kept in memory
        digest = hashlib.md5(body).hexdigest()
        stream = self.worker.request("/body-stream", method="POST", length=CHUNKED, flags=0)
        credit = 262_144
        for start in range(0, len(body), 65_536):
            part = body[start : start + 65_536]
            while credit < len(part):
                frame = self.worker.read()
                if frame.name == "CREDIT" and frame.stream == stream:
                    credit += struct.unpack(">I", frame.payload)[0]
            credit -= len(part)
            self.worker.data(stream, part, end=start + 65_536 >= len(body))
        self.assertEqual(self.worker.response(stream).body.decode(), f"{digest} {digest} end")

    def test_nothing_is_read_unless_it_is_asked_for(self):
        response = self.get("/", method="POST", length=1_000_000, flags=EXPECT)
        self.assertEqual((response.status, response.wants), (200, 0))
        self.assertEqual(self.get("/").status, 200)

    def test_expect_reading_asks_once(self):
        stream = self.worker.request("/body", method="POST", length=6, flags=EXPECT)
        response = self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc")
        self.worker.data(stream, b"def", end=True)
        self.worker.response(stream)
        self.assertEqual((response.body, response.wants), (self.sum(b"abcdef"), 1))

    def test_the_explicit_call(self):
        stream = self.worker.request("/continue", method="POST", length=3, flags=EXPECT)
        response = self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc", end=True)
        self.worker.response(stream)
        self.assertEqual((response.body, response.wants), (b"abc", 1))

    def test_an_application_that_responds_with_100_is_called_again_with_the_body(self):
        for path, status, body in (("/unicorn", 200, b"abc"), ("/unicorn-printed", 202, b"/unicorn-printed")):
            stream = self.worker.request(path, method="POST", length=3, flags=EXPECT)
            response = self.worker.take(stream, lambda response: response.wants)
            self.worker.data(stream, b"abc", end=True)
            self.worker.response(stream)
            self.assertEqual((response.status, response.body, response.wants, response.field("x-first")), (status, body, 1, []))
        self.assertEqual(self.get("/unicorn").body, b"")

    def test_responding_with_100_again_or_to_nobody_fails(self):
        self.assertEqual(self.get("/unicorn-for-ever").reset[0], 3)
        stream = self.worker.request("/unicorn-for-ever", method="POST", length=3, flags=EXPECT)
        self.worker.data(stream, b"abc", end=True)
        self.assertEqual(self.worker.response(stream).reset[0], 3)

    def test_trailers_end_a_body(self):
        stream = self.worker.request("/body", method="POST", length=CHUNKED, flags=0)
        self.worker.data(stream, b"abc")
        self.worker.send(pack("TRAILERS", stream, driver.block(["x-sum", "1"])))
        self.assertEqual(self.worker.response(stream).body, self.sum(b"abc"))

    def test_a_client_that_breaks_off(self):
        def action():
            stream = self.worker.request("/body-catch", method="POST", length=100, flags=0)
            self.worker.data(stream, b"part")
            self.worker.reset(stream, 5, "the client went away")
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "caught: the client disconnected before its body was complete\n")

    def test_the_connection_gets_its_credit_back_for_unread_bodies(self):
        for _ in range(6):
            stream = self.worker.request("/", method="POST", length=CHUNKED, flags=0)
            self.worker.response(stream)
            for _ in range(2):
                self.worker.data(stream, b"z" * 60_000)
            self.worker.get("/")
        self.assertEqual(self.get("/").status, 200)


class LostClients(Shared):
    def test_an_application_that_looks(self):
        def action():
            stream = self.worker.request("/endless")
            self.worker.take(stream, lambda response: len(response.frames) > 3)
            self.worker.reset(stream)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "saw that it was gone\n")

    def test_one_that_only_prints_is_ended(self):
        def action():
            stream = self.worker.request("/prints-on")
            self.worker.take(stream, lambda response: len(response.frames) > 3)
            self.worker.reset(stream)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "finally\n")

    def test_one_that_waits_for_credit(self):
        self.worker.auto_credit = False
        self.addCleanup(setattr, self.worker, "auto_credit", True)

        def action():
            stream = self.worker.request("/endless")
            self.worker.take(stream, lambda response: len(response.body) >= 65_536)
            self.worker.reset(stream)
            response = self.worker.response(stream)
            self.assertEqual(response.reset[0], 1)
            self.worker.credit(0, len(response.body))

        self.worker.log_of(action)

    def test_a_reset_that_crosses_the_response_is_ignored(self):
        stream = self.worker.request("/")
        self.worker.response(stream)
        self.worker.reset(stream)
        self.assertEqual(self.get("/").status, 200)


class Ahead(Shared):
    def together(self, *paths):
        sent = [self.worker.request(path, send=False) for path in paths]
        self.worker.send(b"".join(data for _, data in sent))
        return [stream for stream, _ in sent]

    def test_requests_of_one_read_are_served_in_order(self):
        streams = self.together("/", "/request", "/flushing", "/")
        bodies = [self.worker.response(stream).body for stream in streams]
        self.assertEqual((bodies[0], bodies[2], bodies[3]), (b"hello", b"one two three sent", b"hello"))
        self.assertEqual(json.loads(bodies[1])["path"], "/request")

    def test_an_error_in_one_does_not_reach_the_next(self):
        first, second = self.together("/throws", "/")
        self.assertIsNotNone(self.worker.response(first).reset)
        self.assertEqual(self.worker.response(second).body, b"hello")

    def test_cut_anywhere_they_are_the_same(self):
        sent = [self.worker.request("/", send=False) for _ in range(3)]
        data = b"".join(part for _, part in sent)
        for cut in range(0, len(data), 37):
            self.worker.send(data[cut : cut + 37])
        for stream, _ in sent:
            self.assertEqual(self.worker.response(stream).body, b"hello")

    def test_one_that_waits_can_be_withdrawn(self):
        with tempfile.TemporaryDirectory() as folder:
            here, go = os.path.join(folder, "here"), os.path.join(folder, "go")
            os.mkfifo(here)
            os.mkfifo(go)
            self.addCleanup(os.close, os.open(go, os.O_RDWR))
            with Worker("plain.php", env={"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}) as worker:
                first = worker.request("/wait")
                with open(here) as line:
                    line.readline()
                second = worker.request("/")
                worker.reset(second)
                with open(go, "w") as line:
                    line.write("go\n")
                self.assertEqual(worker.response(first).body, b"go")
                self.assertIn(worker.response(second).reset, (None, (1, "")))


if __name__ == "__main__":
    unittest.main()
