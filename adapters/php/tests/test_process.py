"""The worker as a process: its start and end, signals, children, exits and fatal errors, what it puts back, what it reports."""

import json
import os
import signal
import struct
import tempfile
import unittest

from tests import driver
from tests.driver import PATIENCE, Worker, pack

REFUSED = 6


class Process(unittest.TestCase):
    def start(self, entry="plain.php", *options, **more):
        worker = Worker(entry, *options, **more)
        self.addCleanup(worker.stop)
        return worker

    def fifos(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        here, go = os.path.join(folder.name, "here"), os.path.join(folder.name, "go")
        os.mkfifo(here)
        os.mkfifo(go)
        # It has an end here all the time: nobody waits for another in `open`, where a signal would end the wait.
        self.addCleanup(os.close, os.open(go, os.O_RDWR))
        return here, go, {"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}

    def test_hello(self):
        worker = self.start()
        version, streams, stream_credit, connection_credit = struct.unpack_from(">HIII", worker.hello.payload)
        self.assertEqual((worker.hello.name, version, streams), ("HELLO", 1, 1))
        self.assertGreaterEqual(min(stream_credit, connection_credit), 65_536)
        about = dict(driver.pairs(driver.unblock(worker.hello.payload[14:])[0]))
        self.assertEqual((about["kind"], about["ahead"]), ("php", "3"))
        self.assertEqual({name for name, value in about.items() if value == "1"}, {"blocking", "cgi_names", "user", "profile", "late_signals", "leaks"})
        self.assertTrue(about["adapter"].startswith("php/") and about["language"].startswith("PHP 8."), about)

    def test_it_is_woken_once_for_each_frame_and_not_by_the_reading_of_its_reply(self):
        self.assertLess(self.start().sleeps(20), 30)

    def test_no_extension_and_no_ini_file_is_needed(self):
        worker = self.start("plain.php", "-n")
        for path in ("/", "/echo", "/flushing", "/array", "/cookie", "/upload"):
            self.assertEqual(worker.get(path).reset, None, (path, worker.log()))
        for signal_number in (signal.SIGINT, signal.SIGINT):
            worker.process.send_signal(signal_number)
        self.assertEqual(worker.post("/request", {"a[ ]": "1"}).status, 200)
        self.assertEqual(worker.get("/body", method="POST", body=b"x").body, b"1 9dd4e461268c8034f5c8564e155c67a6")
        self.assertEqual(worker.drain(), 0)
        self.assertEqual(worker.log(), "")

    def test_buffers_that_php_begins_by_itself(self):
        for setting in ("output_buffering=4096", "output_buffering=On", "zlib.output_compression=1"):
            worker = self.start("plain.php", "-d", setting)
            for _ in range(2):
                self.assertEqual(worker.get("/echo").body, b"printed and more", setting)
                self.assertEqual(worker.get("/end-buffers").body, b"level 0", setting)

    def test_drain_ends_it_with_status_0(self):
        worker = self.start()
        worker.get("/")
        self.assertEqual(worker.drain(), 0)
        self.assertEqual(worker.log(), "")

    def test_drain_after_the_open_request(self):
        worker = self.start()
        stream = worker.request("/body", method="POST", length=3, flags=0)
        worker.data(stream, b"abc", end=True)
        worker.send(pack("DRAIN"))
        self.assertEqual(worker.response(stream).status, 200)
        self.assertEqual(worker.process.wait(PATIENCE), 0)

    def test_the_end_of_the_wire_ends_it(self):
        worker = self.start()
        worker.mine.close()
        self.assertEqual(worker.process.wait(PATIENCE), 0)
        self.assertEqual(worker.log(), "")

    def test_the_end_of_the_wire_within_a_request(self):
        worker = self.start()
        stream = worker.request("/endless")
        worker.take(stream, lambda response: len(response.frames) > 1)
        worker.mine.close()
        self.assertEqual(worker.process.wait(PATIENCE), 0)

    def test_ping(self):
        worker = self.start()
        worker.send(pack("PING", payload=b"12345678"))
        pong = worker.read()
        self.assertEqual((pong.name, pong.payload), ("PONG", b"12345678"))

    def test_frames_byte_by_byte_and_several_at_once(self):
        worker = self.start()
        _, one = worker.request("/", send=False)
        for place in range(len(one)):
            worker.send(one[place : place + 1])
        self.assertEqual(worker.response(1).status, 200)
        _, two = worker.request("/", send=False)
        worker.send(pack("PING", payload=b"abcdefgh") + two + pack("PING", payload=b"hgfedcba") + pack("DRAIN"))
        self.assertEqual(worker.response(2).status, 200)
        self.assertEqual(worker.process.wait(PATIENCE), 0)

    def test_a_fault_ends_it_with_status_1(self):
        for bad in (
            b"\xff" * 10, pack("DATA", 0, b"x"), pack("PING", 0, b"1"), pack("HELLO"), pack("REQUEST", 0, b""), pack("CREDIT", 0, b"\0" * 4),
            pack("REQUEST", 1, b"\0" * 14, 1), pack("DRAIN", 0, b"x"), pack("WELCOME", 0, b""), pack("TEXT", 1, b"x"),
        ):  # fmt: skip
            with Worker("plain.php") as worker:
                worker.send(bad)
                self.assertIsNone(worker.read(), bad)
                self.assertEqual(worker.process.wait(PATIENCE), 1)
                self.assertIn("fault on the wire", worker.log())

    def test_more_than_its_credit_is_a_fault(self):
        worker = self.start()
        worker.auto_credit = False
        # It prints until its own credit is spent, and then waits, reading what comes.
        stream = worker.request("/endless", method="POST", length=driver.CHUNKED, flags=0)
        worker.take(stream, lambda response: len(response.body) >= 65_536)
        for _ in range(5):
            try:
                worker.data(stream, b"x" * 65_536)
            except BrokenPipeError:
                break
        while worker.read() is not None:
            pass
        self.assertEqual(worker.process.wait(PATIENCE), 1)
        self.assertIn("more bytes than the credit allows", worker.log())

    def test_stream_ids_never_come_twice(self):
        worker = self.start()
        worker.get("/")
        worker.stream = 0
        worker.request("/")
        self.assertIsNone(worker.read())
        self.assertIn("stream 1 after stream 1", worker.log())

    def test_entries_that_are_none(self):
        for entry, message in (
            ("odd/number.php", "odd/number.php returned int 42; expected a closure `function (array $context)`"),
            ("odd/object.php", "odd/object.php returned an object of stdClass; expected"),
            ("odd/script.php", "returned nothing; expected"),
            ("odd/factory.php", "odd/factory.php returned string 'no app'; expected"),
            ("odd/exits.php", "odd/exits.php exited before it returned an application."),
            ("odd/throws.php", "RuntimeException: cannot start in"),
            ("odd/syntax.php", "syntax error"),
            ("odd/parameter.php", "takes PDO; it may take one argument: a Psr"),
            ("odd/missing_class.php", "takes Psr\\Http\\Missing\\Thing, but this class does not exist"),
            ("odd/missing.php", 'file "odd/missing.php" not found in'),
        ):
            with Worker(entry, hello=False) as worker:
                self.assertIsNone(worker.read(), entry)
                self.assertEqual(worker.process.wait(PATIENCE), 1, entry)
                self.assertIn(message, worker.log(), entry)
        with Worker("odd/script.php", hello=False) as worker:
            worker.process.wait(PATIENCE)
            self.assertIn('served with kind = "fastcgi"', worker.log())
            self.assertIn("a script\n", worker.log())

    def test_functions_of_the_web_that_an_option_takes_back(self):
        worker = self.start("plain.php", "-d", "disable_functions=")
        self.assertIn("header(), setcookie() and other web functions have no effect", worker.log())
        self.assertEqual(worker.get("/").body, b"hello")
        self.assertEqual(worker.get("/large-echo").status, 200)
        for _ in range(2):
            worker.get("/clean-what-is-not-its-own")
            self.assertEqual((worker.get("/").body, worker.get("/echo").body), (b"hello", b"printed and more"))

    def test_without_the_sockets_extension(self):
        worker = self.start("plain.php", "-d", "disable_functions=" + driver.disabled() + ",socket_import_stream")
        self.assertEqual(worker.log(), "")
        for path, length in (("/", 5), ("/flushing", 18), ("/large-echo", 300_000)):
            self.assertEqual(len(worker.get(path).body), length)
        stream = worker.request("/body", method="POST", length=driver.CHUNKED, flags=0)
        worker.data(stream, b"abc")
        worker.data(stream, b"def", end=True)
        self.assertTrue(worker.response(stream).body.startswith(b"6 "))
        stream = worker.request("/endless")
        worker.take(stream, lambda response: len(response.frames) > 3)
        worker.reset(stream)
        self.assertEqual(worker.response(stream).reset[0], 1)
        worker.process.terminate()
        worker.send(pack("PING", payload=b"12345678"))
        self.assertEqual({worker.read().name, worker.read().name}, {"PONG", "DRAIN"})
        worker.mine.close()
        self.assertEqual(worker.process.wait(PATIENCE), 0)

    def test_fatal_errors(self):
        for path, status, body, reset in (
            ("/fatal", None, b"", 3), ("/fatal-printed", 500, b"printed before", None), ("/fatal-late", 200, b"begun", 3),
        ):  # fmt: skip
            with Worker("plain.php") as worker:
                response = worker.get(path)
                self.assertEqual((response.status, response.body, response.reset and response.reset[0]), (status, body, reset), path)
                self.assertEqual(worker.process.wait(PATIENCE), 255)
                self.assertIn("PHP Fatal error:", worker.log())
                self.assertIn(f"a fatal error ended this worker in GET {path}", worker.log())

    def test_a_buffer_in_the_callback_of_a_buffer(self):
        worker = self.start()
        self.assertEqual(worker.get("/buffer-in-callback").reset[0], 3)
        self.assertEqual(worker.process.wait(PATIENCE), 255)
        self.assertIn("a fatal error ended this worker in GET /buffer-in-callback", worker.log())

    def test_warnings_of_our_functions_are_the_applications(self):
        worker = self.start()
        for _ in range(2):
            lines = worker.get("/warnings").body.decode().splitlines()
            self.assertEqual(lines[:4], [
                '2 ini_set(): Session save handler "user" cannot be set by ini_set() plain.php here',
                "2 Header may not contain more than a single header, new line detected plain.php here",
                "8 ob_end_clean(): Failed to delete buffer. No buffer to delete plain.php here",
                "8 ob_end_flush(): Failed to delete and flush buffer. No buffer to delete or flush plain.php here",
            ])  # fmt: skip
            self.assertEqual(len(lines), 6, lines)
            self.assertRegex(lines[5], r"^Warning: Header may not contain .* in /.*/plain\.php on line \d+$")
        self.assertIn("PHP Warning:  Header may not contain", worker.log())

    def test_a_location_beside_a_status_of_redirection(self):
        self.assertEqual(self.start().get("/unmodified").status, 304)

    def test_out_of_memory(self):
        worker = self.start("plain.php", "-d", "memory_limit=32M")
        self.assertEqual(worker.get("/memory").reset[0], 3)
        self.assertEqual(worker.process.wait(PATIENCE), 255)
        self.assertIn("Allowed memory size of 33554432 bytes exhausted", worker.log())

    def test_out_of_memory_delivers_what_was_printed_before(self):
        for path, body in (("/memory-printed", b"printed before"), ("/memory-page", b"printed before, and a page about it")):
            worker = self.start("plain.php", "-d", "memory_limit=32M")
            response = worker.get(path)
            self.assertEqual((response.status, response.body, response.reset), (500, body, None))
            self.assertEqual(worker.process.wait(PATIENCE), 255)
            self.assertIn("Allowed memory size of 33554432 bytes exhausted", worker.log())

    def test_a_kill_closes_the_wire(self):
        worker = self.start()
        worker.request("/die")
        self.assertIsNone(worker.read())
        self.assertEqual(worker.process.wait(PATIENCE), -9)

    def test_sigterm_asks_to_drain(self):
        worker = self.start()
        worker.get("/")
        worker.process.terminate()
        worker.send(pack("PING", payload=b"12345678"))  # in case the signal comes just before the read
        self.assertEqual({worker.read().name, worker.read().name}, {"PONG", "DRAIN"})
        self.assertEqual(worker.get("/").status, 200)
        self.assertEqual(worker.drain(), 0)

    def test_sigterm_within_a_request_asks_after_it(self):
        here, go, env = self.fifos()
        worker = self.start(env=env)
        stream = worker.request("/wait")
        with open(here) as line:
            line.readline()
        worker.process.terminate()
        with open(go, "w") as line:
            line.write("went on\n")
        self.assertEqual(worker.response(stream).status, 200)
        frame = worker.held[0] if worker.held else worker.read()
        self.assertEqual(frame.name, "DRAIN")
        self.assertEqual(worker.drain(), 0)

    def test_sigint_is_not_for_the_worker(self):
        worker = self.start()
        worker.get("/")
        worker.process.send_signal(2)
        self.assertEqual(worker.get("/").status, 200)
        self.assertEqual(worker.drain(), 0)

    def test_a_stuck_worker_shows_its_stack(self):
        here, go, env = self.fifos()
        worker = self.start(env={**env, "TEST_GO": go + ".now"})
        stream = worker.request("/spin")
        with open(here) as line:
            line.readline()
        worker.process.send_signal(3)
        while "plain.php(" not in worker.log():
            pass
        with open(go + ".now", "w"):
            pass
        self.assertEqual(worker.response(stream).body, b"went on")
        self.assertIn("the stack of this worker, in GET /spin:", worker.log())

    def test_a_forked_child_never_writes_to_the_wire(self):
        worker = self.start()
        self.assertEqual(worker.get("/fork").body, b"by the parent")
        self.assertEqual(worker.get("/").body, b"hello")

    def test_a_grandchild_does_not_get_the_descriptor(self):
        worker = self.start()
        self.assertNotIn(b"socket:", worker.get("/descriptors").body)

    def test_what_a_request_leaks_is_put_back(self):
        worker = self.start()
        before = json.loads(worker.get("/place").body)
        log = worker.log_of(lambda: (worker.get("/leak"), worker.get("/leak")))
        self.assertEqual(json.loads(worker.get("/place").body), before)
        for what in ("working directory", "umask", "time zone", "error handler", "setting memory_limit"):
            self.assertEqual(log.count(f"changed the {what}"), 1, what)

    def test_encodings_and_the_level_of_errors_are_put_back(self):
        worker = self.start()
        before = json.loads(worker.get("/encodings").body)
        self.assertEqual(json.loads(worker.get("/encodings").body), before)

    def test_the_type_of_what_is_printed_is_put_back(self):
        with Worker("plain.php") as worker:
            self.assertEqual(worker.get("/mime").field("content-type"), ["text/plain; charset=UTF-8"])
            self.assertEqual(worker.get("/printed").field("content-type"), ["text/html; charset=UTF-8"])

    def test_a_watched_worker_reports_what_leaks(self):
        worker = self.start(env={"KEEPWARM_WATCH": "1"})
        for _ in range(50):
            worker.get("/keep")
        worker.get("/")
        log = worker.log()
        for what in ("State::$count has a different value than before", "State::$kept was an array of", "the environment variable LEAKED", "the setting precision has a different value than before", "the global $grown"):
            self.assertIn(f"leak: after GET /keep, {what}", log)
        self.assertRegex(log, r"leak: after GET /keep, the global \$grown .*; the next request sees it")
        self.assertRegex(log, r"leak: after GET /keep, the setting precision .*; Keepwarm restores it")
        self.assertRegex(log, r"memory: the process grows by about \d{5} bytes with each GET /keep")
        self.assertNotIn("GET /,", log)

    def test_a_watched_worker_sees_other_contents_of_the_same_size(self):
        worker = self.start(env={"KEEPWARM_WATCH": "1"})
        for path in ("/who", "/whom", "/text-kept", "/under"):
            for count in range(6):
                worker.get(path, query=f"visitor{count}")
        worker.get("/")
        log = worker.log()
        for what in ("/who, State::$user", "/whom, State::$object", "/text-kept, State::$text", "/under, the global $_current"):
            self.assertIn(f"leak: after GET {what} ", log)

    def test_a_watched_worker_prints_no_value(self):
        worker = self.start(env={"KEEPWARM_WATCH": "1", "SECRET": "hunter0"})
        for path in ("/who", "/whom", "/text-kept", "/under", "/keep-visitor", "/env-kept", "/setting-kept", "/number-kept"):
            for count in range(6):
                worker.get(path, query=f"7351{count}")
        worker.get("/session-id")
        worker.get("/")
        log = worker.log()
        for what in ("the global $_current is new: a string;", "the environment variable SECRET", "the setting error_append_string", "State::$count"):
            self.assertIn(what, log)
        self.assertNotIn("7351", log)
        self.assertNotIn("hunter", log)
        self.assertNotIn("left", log.replace("is left", ""))

    def test_a_watched_worker_reports_nothing_that_stays_the_same(self):
        worker = self.start(env={"KEEPWARM_WATCH": "1"})
        for _ in range(6):
            worker.get("/who", query="visitor")
            worker.get("/")
        self.assertNotIn("leak:", worker.log())

    def test_a_watched_worker_tells_one_visitor_from_the_next(self):
        worker = self.start(env={"KEEPWARM_WATCH": "1"})
        for visitor in "abcde":
            worker.get("/keep-visitor", query=visitor)
        worker.drain()
        self.assertIn("leak: after GET /keep-visitor, State::$kept is an array of 1 with different contents than before; the next request sees it", worker.log())
        self.assertRegex(worker.log(), r"leak: after GET /keep-visitor, static \$seen in the application, plain.php:\d+ is an array of 1 with different contents than before; the next")
        self.assertIn("leak: after GET /keep-visitor, the global $text", worker.log())

    def test_a_watched_worker_reports_a_session_id_that_nobody_asked_for(self):
        worker = self.start(env={"KEEPWARM_WATCH": "1"})
        for _ in range(5):
            worker.get("/session")
        self.assertNotIn("the session id", worker.log())
        worker.get("/session-id")
        worker.get("/")
        self.assertIn('leak: after GET /session-id, the session id has a different value than before; Keepwarm restores it', worker.log())

    def test_memory_does_not_grow(self):
        worker = self.start()

        def resident():
            with open(f"/proc/{worker.process.pid}/statm") as numbers:
                return int(numbers.read().split()[1]) * 4_096

        paths = ("/", "/echo", "/request", "/flushing", "/buffers", "/pieces", "/leak", "/cookie")
        for count in range(400):
            worker.get(paths[count % len(paths)])
        before = resident()
        for count in range(2_000):
            worker.get(paths[count % len(paths)])
        self.assertLess(resident() - before, 600_000)


if __name__ == "__main__":
    unittest.main()
