"""The ASGI worker, seen from the wire. Each test is a line of what an ASGI server has to get right."""

import hashlib
import json
import os
import pathlib
import struct
import tempfile
import unittest

from tests import driver
from tests.driver import CHUNKED, END, EXPECT, REPEATS, USER, Worker, pack


class Shared(unittest.TestCase):
    """Tests that one worker can serve one after the other."""

    options = ()

    @classmethod
    def setUpClass(cls):
        cls.worker = Worker("asgi_app", *cls.options)
        cls.addClassCleanup(cls.worker.stop)

    def setUp(self):
        self.worker.auto_credit = True
        self.get("/close-gate")
        self.get("/was-seen")

    def get(self, path="/", **more):
        return self.worker.get(path, **more)

    def json(self, path, **more):
        return json.loads(self.get(path, **more).body)

    def seen(self):
        return self.json("/was-seen")


class Scope(Shared):
    def test_the_user_is_an_extension(self):
        self.assertNotIn("keepwarm.user", self.json("/scope", fields=[("remote-user", "eve")])["extensions"])
        for auth_type in ("Basic", ""):
            scope = self.json("/scope", flags=END | USER, fields=[("x", "y"), (auth_type, "gr\xc3\xbc\xc3\x9f")])
            self.assertEqual(scope["extensions"]["keepwarm.user"], {"name": "gr\xfc\xdf", "auth_type": auth_type})
            self.assertEqual(scope["headers"], [["x", "y"]])

    def test_the_scope(self):
        scope = self.json(
            "/scope", method="POST", query="x=1&y=%20", script="/app", raw_path="/app/%73cope", scheme="https",
            server=("shop.example", "8443"), fields=[("host", "shop.example"), ("x-a", "1")],
        )  # fmt: skip
        expected = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.5"}, "http_version": "1.1", "method": "POST",
            "scheme": "https", "path": "/app/scope", "raw_path": "/app/%73cope", "query_string": "x=1&y=%20", "root_path": "/app",
            "headers": [["host", "shop.example"], ["x-a", "1"]], "server": ["shop.example", 8443],
            "client": ["192.0.2.7", 52144], "extensions": {"http.response.pathsend": {}},
        }  # fmt: skip
        self.assertEqual(list(scope.pop("state")), ["started"])
        self.assertEqual(scope, expected)

    def test_the_server_may_be_a_path(self):
        self.assertEqual(self.json("/scope", server=("/run/app.sock", ""))["server"], ["/run/app.sock", None])
        self.assertIsNone(self.json("/scope", server=("", ""))["server"])

    def test_the_path_is_decoded_text(self):
        scope = self.json("/scope", script="/caf\xc3\xa9", raw_path="/caf%C3%A9/scope")
        self.assertEqual((scope["path"], scope["root_path"], scope["raw_path"]), ("/caf\xe9/scope", "/caf\xe9", "/caf%C3%A9/scope"))

    def test_repeated_fields_stay_apart_and_in_order(self):
        fields = [("x-a", "1"), ("cookie", "a=1"), ("x-a", "2"), ("cookie", "b=2")]
        self.assertEqual(self.json("/scope", flags=END | REPEATS, fields=fields)["headers"], [list(pair) for pair in fields])

    def test_versions(self):
        for protocol, version in (("HTTP/1.0", "1.0"), ("HTTP/1.1", "1.1"), ("HTTP/2", "2")):
            self.assertEqual(self.json("/scope", protocol=protocol)["http_version"], version)

    def test_a_client_on_a_unix_socket(self):
        self.assertIsNone(self.json("/scope", client=("", ""))["client"])

    def test_extensions_are_advertised_only_when_true(self):
        for flags, names in (
            (0, set()), (driver.EARLY_HINTS, {"http.response.early_hint"}), (driver.TRAILERS, {"http.response.trailers"}),
        ):  # fmt: skip
            extensions = set(self.json("/scope", flags=END | flags)["extensions"])
            self.assertEqual(extensions, names | {"http.response.pathsend"})

    def test_each_request_has_a_context_of_its_own(self):
        self.assertEqual([self.get("/context").body for _ in range(2)], [b"unset", b"unset"])

    def test_each_request_has_a_copy_of_the_state(self):
        first, second = self.json("/state"), self.json("/state")
        self.assertEqual((first[0], second[0]), (["started"], ["started"]))
        self.assertEqual(second[1], first[1] + 1)


class Responses(Shared):
    def test_a_response_in_one_piece_is_one_frame(self):
        response = self.get("/")
        self.assertEqual((response.names, response.status, response.body), (["RESPONSE"], 200, b"hello"))

    def test_fields_stay_repeated_and_in_order_and_in_their_case(self):
        self.assertEqual(self.get("/fields").fields, [("Set-Cookie", "a=1"), ("x-between", "x"), ("set-cookie", "b=2")])

    def test_fields_from_any_iterable(self):
        self.assertEqual(self.get("/generator-of-fields").fields, [("x-0", "v"), ("x-1", "v"), ("x-2", "v")])

    def test_a_stream(self):
        response = self.get("/stream")
        self.assertEqual(response.body, b"firstsecond")
        self.assertEqual(response.names[0], "RESPONSE")
        self.assertTrue(response.frames[-1].end)

    def test_the_start_is_held_until_the_body_begins(self):
        stream = self.worker.request("/held-start")
        self.get("/")
        self.assertEqual(self.worker.responses[stream].names if stream in self.worker.responses else [], [])
        self.get("/open-gate")
        self.assertEqual(self.worker.response(stream).names, ["RESPONSE"])

    def test_many_at_once_out_of_order(self):
        streams = [self.worker.request("/wait-at-gate") for _ in range(20)]
        self.assertEqual(self.get("/").body, b"hello")
        self.get("/open-gate")
        for stream in reversed(streams):
            self.assertEqual(self.worker.response(stream).body, b"through")

    def test_responses_of_one_turn_leave_together(self):
        requests = b"".join(self.worker.request("/", send=False)[1] for _ in range(10))
        last = self.worker.stream
        self.worker.send(requests)
        self.worker.mine.settimeout(driver.PATIENCE)
        data = self.worker.mine.recv(1 << 16)
        self.worker.buffer += data
        self.assertEqual(self.worker.response(last).body, b"hello")
        self.assertEqual(len(data) % 10, 0)
        self.assertEqual(data.count(b"hello"), 10)

    def test_no_body_with_head_204_and_304(self):
        for response in (self.get("/status", query="204"), self.get("/status", query="304"), self.get("/", method="HEAD")):
            self.assertEqual((response.names, response.body), (["RESPONSE"], b""))

    def test_head_of_a_stream(self):
        response = self.get("/stream", method="HEAD")
        self.assertEqual((response.names, response.body, response.reset), (["RESPONSE"], b"", None))

    def test_sizes_around_a_frame_arrive_whole(self):
        for size in (0, 1, 65_535, 65_536, 65_537, 131_072, 300_001):
            response = self.get("/big", query=str(size))
            self.assertEqual(response.body, bytes(range(256)) * (size // 256) + b"e" * (size % 256))

    def test_send_waits_for_the_credit_of_the_stream(self):
        self.worker.auto_credit = False
        stream = self.worker.request("/many-parts", query="4")
        sent = 65_536 * 2
        response = self.worker.take(stream, lambda response: len(response.body) >= sent - 31_072)
        self.get("/")  # nothing else waits
        self.assertLessEqual(len(response.body), sent)
        self.worker.credit(stream, 1_000_000)
        self.assertEqual(len(self.worker.response(stream).body), 400_000)
        self.worker.credit(0, 400_000)

    def test_streams_share_the_credit_of_the_connection(self):
        with Worker("asgi_app", stream_credit=1 << 20, connection_credit=65_536) as worker:
            worker.auto_credit = False
            streams = [worker.request("/big", query="400000") for _ in range(3)]
            total = 3 * 400_000
            got = 0
            while got < total - 3 * 65_536:
                before = got
                while True:
                    got = sum(len(f.payload) for a in worker.responses.values() for f in a.frames if f.name == "DATA")
                    if got - before >= 65_536 or got >= total - 3 * 65_536:
                        break
                    worker.file(worker.read())
                worker.credit(0, got - before)
            responses = [worker.response(stream) for stream in streams]
            self.assertEqual([len(response.body) for response in responses], [400_000] * 3)

    def test_streams_with_much_to_send_take_turns(self):
        with Worker("asgi_app", stream_credit=1 << 20, connection_credit=65_536) as worker:
            worker.auto_credit = False
            order = []
            streams = [worker.request("/big", query="330000") for _ in range(2)]
            while len(order) < 6:
                frame = worker.read()
                if frame.name == "DATA":
                    order.append(frame.stream)
                    worker.credit(0, len(frame.payload))
            self.assertGreater(order.count(streams[0]), 1)
            self.assertGreater(order.count(streams[1]), 1)

    def test_hop_by_hop_fields_are_not_forwarded_and_close_is_honored(self):
        response = self.get("/hop-by-hop")
        self.assertEqual((response.fields, response.close_after), ([("x-kept", "1")], True))
        self.assertIn("transfer-encoding", self.worker.log())

    def test_early_hints(self):
        response = self.get("/hints", flags=END | driver.EARLY_HINTS)
        self.assertEqual(response.informs, [(103, [("link", "</a.css>; rel=preload"), ("link", "</b.js>; rel=preload")])])
        self.assertEqual(self.get("/hints").informs, [])

    def test_trailers(self):
        response = self.get("/trailers", flags=END | driver.TRAILERS)
        self.assertEqual((response.body, response.trailers), (b"one two", [("x-a", "1"), ("x-b", "2")]))

    def test_a_client_that_closes_its_writing_side_is_a_disconnect_and_gets_its_response(self):
        for late in (False, True):
            stream = self.worker.request("/responds-to-a-client-that-closed", method="POST", length=3, flags=0)
            if late:
                self.worker.data(stream, b"abc", end=True)
                self.get("/")
            else:  # all in one read
                self.worker.data(stream, b"abc", end=True)
            self.worker.send(pack("HALF_CLOSE", stream))
            self.assertEqual(self.worker.response(stream).body, b"all the same")
            self.assertEqual(self.seen(), ["http.disconnect"])

    def test_more_fields_than_fit_a_frame_are_the_applications_error(self):
        for what, status in (("start", None), ("hint", None), ("trailers", 200)):
            response = self.get("/too-many-fields", query=what, flags=END | driver.TRAILERS | driver.EARLY_HINTS)
            self.assertEqual((response.status, response.reset[0]), (status, 3), what)

    def test_a_task_that_sends_behind_the_end_is_told_and_sends_nothing(self):
        self.worker.auto_credit = False
        response = self.get("/sends-on")
        self.assertEqual(response.reset[0], 3)
        self.worker.credit(0, 1_000_000)
        self.worker.auto_credit = True
        self.assertEqual(self.seen(), ["ClientDisconnected"])
        self.assertEqual(len(response.frames), len(self.worker.responses[response.frames[0].stream].frames))

    def test_pathsend_for_head_reads_nothing(self):
        response = self.get("/path-send", method="HEAD", query="200000")
        self.assertEqual((response.status, response.body, response.reset), (200, b"", None))

    def test_pathsend(self):
        for size in (0, 10, 65_536, 200_000):
            response = self.get("/path-send", query=str(size))
            self.assertEqual((response.body, response.reset), (b"p" * size, None))

    def test_receive_after_the_response_is_a_disconnect(self):
        self.get("/after-response")
        self.assertEqual(self.seen(), ["http.disconnect", "http.disconnect"])


class Pathsend(unittest.TestCase):
    """Middleware that does not know `http.response.pathsend` (Gradio's, Starlette's own up to 0.37) loses the response."""

    def setUp(self):
        self.worker = Worker("asgi_app")
        self.addCleanup(self.worker.stop)

    def offered(self):
        return "http.response.pathsend" in json.loads(self.worker.get("/scope").body)["extensions"]

    def test_where_it_is_lost_the_request_is_repeated_without_it_and_it_is_not_offered_any_more(self):
        for query in ("", "fails", "started"):
            with self.subTest(query):
                worker = Worker("asgi_app")
                self.addCleanup(worker.stop)
                self.worker = worker
                self.assertTrue(self.offered())
                log = worker.log_of(lambda: self.assertEqual(worker.get("/lost-path-send", query=query).body, b"read by the application"))
                self.assertIn("it is not offered any more", log)
                self.assertNotIn("Traceback", log)
                self.assertFalse(self.offered())

    def test_another_failure_of_a_file_is_no_reason_to_stop_offering_it(self):
        response = None

        def action():
            nonlocal response
            response = self.worker.get("/lost-file")

        self.assertIn("no such file", self.worker.log_of(action))
        self.assertEqual(response.reset[0], 3)
        self.assertTrue(self.offered())

    def test_a_request_with_a_body_is_not_repeated(self):
        response = self.worker.get("/lost-path-send", method="POST", body=b"x")
        self.assertEqual(response.reset[0], 3)
        self.assertTrue(self.offered())


class Errors(Shared):
    def check(self, path, code, said, body=b"", **more):
        response = None

        def action():
            nonlocal response
            response = self.get(path, **more)

        log = self.worker.log_of(action)
        self.assertEqual((response.reset or (None,))[0], code, response)
        self.assertEqual(response.body, body)
        self.assertIn(said, log)
        return log

    def test_an_exception_before_the_start(self):
        log = self.check("/fail-before", 3, "ZeroDivisionError: before the start")
        self.assertIn("in fail_before", log)
        self.assertNotIn("keepwarm/asgi", log)

    def test_an_exception_while_the_start_is_held(self):
        self.check("/fail-held", 3, "the start is held")

    def test_an_exception_after_the_start(self):
        self.check("/fail-late", 3, "after the start", b"begun")

    def test_no_start(self):
        self.check("/no-start", 3, "returned without a response")

    def test_no_end(self):
        self.check("/no-end", 3, "before its response was complete", b"begun")

    def test_a_body_that_is_not_bytes(self):
        for query, body in (("", b""), ("more", b""), ("late", b"begun")):
            self.check("/no-bytes", 3, "is str instead of bytes", body, query=query)

    def test_too_short(self):
        self.check("/too-short", 4, "after 6 of the 10 bytes", b"abcdef")

    def test_too_long_is_cut_and_logged_once(self):
        with Worker("asgi_app") as worker:
            log = worker.log_of(lambda: [self.assertEqual(worker.get(f"/too-long{way}").body, b"abc") for way in ("", "-at-once", "")])
        self.assertEqual(log.count("longer than its Content-Length"), 1)

    def test_fields_that_cannot_be_sent(self):
        for query, said in (("n", "CR, LF or NUL"), ("z", "CR, LF or NUL"), ("t", "invalid header name"), ("s", "x-bad")):
            self.check("/bad-field", 3, said, query=query)

    def test_messages_out_of_order(self):
        self.check("/wrong-order", 3, "not allowed at this point")
        self.check("/start-twice", 3, "not allowed at this point")

    def test_a_message_after_the_end_is_logged(self):
        self.check("/after-the-end", None, "not allowed at this point", b"done")

    def test_recursion_without_end(self):
        self.check("/recursion", 3, "RecursionError")


class Bodies(Shared):
    def test_a_body_in_pieces(self):
        body = os.urandom(300_000)
        stream = self.worker.request("/digest", method="POST", body=body[:50_000], length=len(body), flags=0)
        for start in range(50_000, len(body), 60_000):
            self.worker.data(stream, body[start : start + 60_000], end=start + 60_000 >= len(body))
            self.get("/")  # so that no more is sent than the worker reads
        self.assertEqual(json.loads(self.worker.response(stream).body), [len(body), hashlib.sha256(body).hexdigest()])

    def test_credit_comes_back_for_what_was_read_and_only_for_that(self):
        stream = self.worker.request("/read-slowly", method="POST", length=CHUNKED, flags=0)
        for _ in range(2):
            self.worker.data(stream, b"x" * 60_000)
        self.get("/")
        self.assertNotIn(stream, self.worker.responses)
        self.get("/open-gate")
        response = self.worker.take(stream, lambda response: "CREDIT" in response.names)
        self.assertEqual(struct.unpack(">I", response.frames[0].payload)[0], 120_000)
        self.worker.data(stream, end=True)
        self.assertEqual(json.loads(self.worker.response(stream).body)[0], 120_000)

    def test_expect_reading_asks_for_the_body_once(self):
        stream = self.worker.request("/digest", method="POST", length=6, flags=EXPECT)
        self.worker.take(stream, lambda response: response.wants)
        self.worker.data(stream, b"abc")
        self.worker.data(stream, b"def", end=True)
        response = self.worker.response(stream)
        self.assertEqual((json.loads(response.body)[0], response.wants), (6, 1))

    def test_expect_responding_without_reading_asks_for_nothing(self):
        response = self.get("/", method="POST", length=6, flags=EXPECT)
        self.assertEqual((response.status, response.wants), (200, 0))

    def test_a_response_without_reading_the_body(self):
        for _ in range(40):
            stream = self.worker.request("/", method="POST", length=CHUNKED, flags=0)
            self.worker.response(stream)
            self.worker.data(stream, b"y" * 65_536)
            self.worker.data(stream, end=True)
        self.get("/")
        back = sum(struct.unpack(">I", frame.payload)[0] for frame in self.worker.held if frame.name == "CREDIT")
        self.assertGreaterEqual(back, 524_288 * 4)

    def test_a_body_that_breaks_off_is_a_disconnect(self):
        def action():
            stream = self.worker.request("/breaks-off", method="POST", length=100, flags=0)
            self.worker.data(stream, b"part")
            self.worker.reset(stream, 5)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "")
        self.assertEqual(self.seen(), ["http.disconnect"])

    def test_trailers_end_a_body(self):
        stream = self.worker.request("/digest", method="POST", length=CHUNKED, flags=0)
        self.worker.data(stream, b"abc")
        self.worker.send(pack("TRAILERS", stream, driver.block(["x-sum", "1"])))
        self.assertEqual(json.loads(self.worker.response(stream).body)[0], 3)


class LostClients(Shared):
    def test_what_a_framework_raises_in_its_place_is_not_logged_either(self):
        def sends():
            stream = self.worker.request("/passes-the-disconnect-on")
            self.worker.take(stream, lambda response: len(response.frames) > 3)
            self.worker.reset(stream)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        def receives():
            stream = self.worker.request("/passes-the-disconnect-on", query="receive")
            self.worker.send(pack("HALF_CLOSE", stream))
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        for action in (sends, receives):
            self.assertEqual(self.worker.log_of(action), "")

    def test_an_application_that_returns_because_its_client_has_closed_is_not_logged(self):
        def action():
            stream = self.worker.request("/breaks-off")
            self.worker.send(pack("HALF_CLOSE", stream))
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "")

    def test_what_is_out_of_place_behind_a_disconnect_that_was_told_is_not_logged(self):
        def action():
            stream = self.worker.request("/starts-again-once-told")
            self.worker.send(pack("HALF_CLOSE", stream))
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "")

    def test_what_fails_beside_a_lost_client_is_logged(self):
        def action():
            stream = self.worker.request("/passes-the-disconnect-on", query="with-another")
            self.worker.take(stream, lambda response: len(response.frames) > 3)
            self.worker.reset(stream)
            self.worker.response(stream)

        self.assertIn("several", self.worker.log_of(action))

    def test_send_raises_an_os_error_that_is_not_logged(self):
        def action():
            stream = self.worker.request("/never-ends")
            self.worker.take(stream, lambda response: len(response.frames) > 3)
            self.worker.reset(stream)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "")
        self.assertEqual(self.seen(), ["ClientDisconnected"])

    def test_one_that_waits_for_credit(self):
        self.worker.auto_credit = False

        def action():
            stream = self.worker.request("/never-ends")
            self.worker.take(stream, lambda response: len(response.body) >= 65_536)
            self.worker.reset(stream)
            response = self.worker.response(stream)
            self.assertEqual(response.reset[0], 1)
            self.worker.credit(0, len(response.body))

        self.assertEqual(self.worker.log_of(action), "")

    def test_receive_tells(self):
        def action():
            stream = self.worker.request("/waits-for-the-end")
            self.worker.take(stream, lambda response: response.body)
            self.worker.reset(stream)
            self.assertEqual(self.worker.response(stream).reset[0], 1)

        self.assertEqual(self.worker.log_of(action), "")
        self.assertEqual(self.seen(), ["http.disconnect", "ClientDisconnected"])

    def test_a_reset_that_crosses_the_response_is_ignored(self):
        stream = self.worker.request("/")
        self.worker.response(stream)
        self.worker.reset(stream)
        self.assertEqual(self.get("/").status, 200)


class Process(unittest.TestCase):
    def test_hello(self):
        with Worker("asgi_app", "--streams", "17") as worker:
            version, streams, stream_credit, connection_credit = struct.unpack_from(">HIII", worker.hello.payload)
            self.assertEqual((version, streams), (1, 17))
            self.assertGreaterEqual(min(stream_credit, connection_credit), 65_536)
            about = dict(driver.pairs(driver.unblock(worker.hello.payload[14:])[0]))
            self.assertEqual(about["kind"], "asgi")
            self.assertEqual({name for name, value in about.items() if value == "1"}, {"half_close", "user", "websocket", "profile", "leaks"})

    def test_a_worker_of_one_stream_takes_no_websockets(self):
        with Worker("asgi_app", "--streams", "1") as worker:
            about = dict(driver.pairs(driver.unblock(worker.hello.payload[14:])[0]))
            self.assertEqual({name for name, value in about.items() if value == "1"}, {"half_close", "user", "profile", "leaks"})

    def test_start_up_before_hello_and_shut_down_after_drain(self):
        with Worker("asgi_app") as worker:
            self.assertEqual(worker.log(), "started\n")
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.log(), "started\nstopped\n")

    def test_drain_waits_for_open_requests_and_for_what_they_do_afterwards(self):
        with Worker("asgi_app") as worker:
            worker.get("/close-gate")
            waiting = worker.request("/wait-at-gate")
            self.assertEqual(worker.response(worker.request("/background")).body, b"responded")
            opener = worker.request("/open-gate")
            worker.send(pack("DRAIN"))
            self.assertEqual(worker.response(waiting).body, b"through")
            worker.response(opener)
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)
            self.assertEqual(worker.log(), "started\nbackground is done\nstopped\n")

    def test_the_end_of_the_wire_ends_it(self):
        with Worker("asgi_app") as worker:
            stream = worker.request("/waits-for-the-end")
            worker.take(stream, lambda response: response.body)
            worker.mine.close()
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)
            self.assertEqual(worker.log(), "started\nstopped\n")

    def test_ping(self):
        with Worker("asgi_app") as worker:
            worker.send(pack("PING", payload=b"12345678"))
            pong = worker.read()
            self.assertEqual((pong.name, pong.payload), ("PONG", b"12345678"))

    def test_frames_byte_by_byte(self):
        with Worker("asgi_app") as worker:
            _, one = worker.request("/", send=False)
            for place in range(len(one)):
                worker.send(one[place : place + 1])
            self.assertEqual(worker.response(1).status, 200)

    def test_a_fault_ends_it_with_status_1(self):
        for bad in (b"\xff" * 10, pack("HELLO"), pack("REQUEST", 1, b"\0" * 14, END), pack("DATA", 9, b"x")):
            with Worker("asgi_app") as worker:
                worker.send(bad)
                self.assertIsNone(worker.read(), bad)
                self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
                self.assertIn("fault on the wire", worker.log())

    def test_more_streams_than_it_takes(self):
        with Worker("asgi_app", "--streams", "2") as worker:
            for _ in range(3):
                worker.request("/wait-at-gate")
            self.assertIsNone(worker.read())

    def test_a_forked_child_never_writes_to_the_wire(self):
        with Worker("asgi_app") as worker:
            self.assertEqual(worker.get("/fork").body, b"by the parent")
            self.assertEqual(worker.get("/").body, b"hello")

    def test_sys_exit_lets_the_others_finish(self):
        with Worker("asgi_app") as worker:
            waiting = worker.request("/wait-at-gate")
            self.assertEqual(worker.get("/leave").reset[0], 3)
            frame = worker.held[0] if worker.held else worker.read()
            self.assertEqual(frame.name, "DRAIN")
            worker.get("/open-gate")
            self.assertEqual(worker.response(waiting).body, b"through")
            self.assertEqual(worker.drain(), 7)
            self.assertIn("SystemExit: 7", worker.log())

    def test_out_of_memory_asks_for_a_replacement(self):
        with Worker("asgi_app") as worker:
            self.assertEqual(worker.get("/memory").reset[0], 3)
            frame = worker.held[0] if worker.held else worker.read()
            self.assertEqual(frame.name, "DRAIN")
            self.assertEqual(worker.drain(), 0)

    def test_sigterm_asks_to_drain(self):
        with Worker("asgi_app") as worker:
            worker.get("/")
            worker.process.terminate()
            self.assertEqual(worker.read().name, "DRAIN")
            self.assertEqual(worker.get("/").status, 200)
            self.assertEqual(worker.drain(), 0)

    def test_sigint_is_not_for_the_worker(self):
        with Worker("asgi_app") as worker:
            worker.get("/")
            worker.process.send_signal(2)
            self.assertEqual(worker.get("/").status, 200)
            self.assertEqual(worker.drain(), 0)

    def test_prints_are_log_lines(self):
        with Worker("asgi_app") as worker:
            log = worker.log_of(lambda: worker.get("/prints"))
        self.assertEqual(log, "printed to stdout\nprinted to stderr\n")


class Loops(unittest.TestCase):
    """Which event loop a worker runs on."""

    def loop(self, *options, env=None, interpreter=()):
        with Worker("loop_app", *options, env=env, interpreter=interpreter) as worker:
            return json.loads(worker.get("/").body)

    def test_asyncios_own(self):
        self.assertEqual(self.loop("--loop", "asyncio")["loop"].split(".")[0], "asyncio")

    def test_debugging(self):
        self.assertFalse(self.loop("--loop", "asyncio")["debug"])
        for loop in ("asyncio", "auto"):
            self.assertTrue(self.loop("--loop", loop, env={"PYTHONASYNCIODEBUG": "1"})["debug"])
            self.assertTrue(self.loop("--loop", loop, interpreter=("-X", "dev"))["debug"])
        self.assertFalse(self.loop("--loop", "asyncio", env={"PYTHONASYNCIODEBUG": ""})["debug"])

    def test_one_that_is_not_installed(self):
        # A folder before the packages, with modules that are there only to fail.
        with tempfile.TemporaryDirectory() as folder:
            for package in ("uvloop", "trio"):
                pathlib.Path(folder, package + ".py").write_text("raise ImportError('not here')")
                with Worker("loop_app", "--loop", package, hello=False, env={"PYTHONPATH": f"{folder}:{driver.SOURCE}"}) as worker:
                    self.assertIsNone(worker.read())
                    self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
                    self.assertRegex(worker.log(), rf'\Akeepwarm: error: loop = "{package}" requires the package {package}, which is not installed for .*python.*\n\Z')

    def test_wsgi_has_none(self):
        for option, word in (("--loop", "asyncio"), ("--lifespan", "on")):
            with Worker("wsgi_app", option, word, hello=False) as worker:
                self.assertIsNone(worker.read())
                self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
                self.assertIn(f"keepwarm: error: `{option[2:]}` is for ASGI, ", worker.log())


if __name__ == "__main__":
    unittest.main()
