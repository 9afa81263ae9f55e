"""Symfony, PSR-15 with three implementations of PSR-7, Slim 3: from Debian's packages."""

import hashlib
import itertools
import json
import os
import tempfile
import unittest

from tests import driver
from tests.driver import END, EXPECT, PATIENCE, Worker
from tests.test_forms import BOUNDARY, fields, multipart, part


class Symfony(unittest.TestCase):
    entry = "symfony.php"
    env = {"APP_ENV": "prod", "APP_DEBUG": "0"}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "file.txt")
        with open(cls.file, "wb") as file:
            file.write(bytes(range(256)) * 2_000)
        cls.cache = {"TEST_CACHE": os.path.join(cls.folder.name, "cache"), "TEST_FILE": cls.file}
        cls.worker = cls.start()

    @classmethod
    def start(cls, **env):
        return Worker(cls.entry, "-d", f"session.save_path={cls.folder.name}", env={**cls.env, **cls.cache, **env})

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        cls.folder.cleanup()

    def get(self, path, **more):
        return self.worker.get(path, **more)

    def test_a_page(self):
        response = self.get("/hello")
        self.assertEqual((response.status, response.body, response.names), (200, b"hello", ["RESPONSE"]), self.worker.log())

    def test_the_request(self):
        found = json.loads(
            self.get("/about", query="a[]=1", fields=[("host", "shop.example"), ("cookie", "c=2"), ("x-one", "1")], scheme="https", script="/app").body
        )
        self.assertEqual((found["uri"], found["base"], found["path"]), ("https://shop.example/app/about?a%5B0%5D=1", "/app", "/about"))
        self.assertEqual((found["query"], found["cookies"], found["header"], found["secure"]), ({"a": ["1"]}, {"c": "2"}, "1", True))
        self.assertEqual((found["ip"], found["context"]), ("192.0.2.7", ["web=1&worker=1", False, self.env["APP_ENV"]]))

    def test_forms_and_bodies(self):
        self.assertEqual(json.loads(self.worker.post("/about", {"a[b]": "1"}).body)["form"], {"a": {"b": "1"}})
        form = [("content-type", "application/x-www-form-urlencoded"), ("content-length", "3")]
        self.assertEqual(json.loads(self.get("/put", method="PUT", body=b"x=1", fields=form).body), {"x": "1"})
        response = self.get("/json", method="POST", body=b'{"k":[1]}', fields=[("content-type", "application/json")])
        self.assertEqual(json.loads(response.body), {"k": [1]})
        stream = self.worker.request("/about", method="POST", length=driver.CHUNKED, flags=0)
        self.worker.data(stream, b"part ")
        self.worker.data(stream, b"after part", end=True)
        self.assertEqual(json.loads(self.worker.response(stream).body)["content"], "part after part")

    def test_uploads(self):
        body = multipart(part("a", "1"), part("one", "content", "one.txt", "text/plain"), part("many[x][]", "more", "more.txt"))
        form, files = json.loads(self.get("/upload", method="POST", body=body, fields=fields(body)).body)
        self.assertEqual(form, {"a": "1"})
        self.assertEqual(files, [[name, True, hashlib.md5(text).hexdigest()] for name, text in (("one.txt", b"content"), ("more.txt", b"more"))])

    def test_ranges_of_a_file(self):
        for wanted, status, seen, length in (("0-0", 206, "bytes 0-0/512000", 1), ("-1", 206, "bytes 511999-511999/512000", 1), ("-600000", 416, "bytes */512000", 0)):
            response = self.get("/file", fields=[("range", f"bytes={wanted}")])
            self.assertEqual((response.status, response.field("content-range"), len(response.body)), (status, [seen], length), wanted)

    def test_streams_leave_as_they_come(self):
        response = self.get("/stream")
        self.assertEqual((response.body, response.names), (b"one two three", ["RESPONSE", "DATA", "DATA", "DATA"]))

    def test_a_stream_after_every_buffer_was_taken_away(self):
        self.assertEqual(self.get("/stream", query="clean=1").body, b"one two three")

    def test_files_are_streamed_with_ranges(self):
        response = self.get("/file")
        self.assertEqual(response.body, bytes(range(256)) * 2_000)
        self.assertGreater(len(response.frames), 3)
        response = self.get("/file", fields=[("range", "bytes=1-3")])
        self.assertEqual((response.status, response.body), (206, b"\1\2\3"))
        self.assertEqual(self.get("/file", method="HEAD").field("content-length"), ["512000"])

    def test_cookies_stay_apart(self):
        self.assertEqual(len(self.get("/cookies").field("set-cookie")), 2)

    def test_sessions(self):
        def visit(cookie=None, path="/session"):
            response = self.get(path, fields=[("cookie", cookie)] if cookie else [])
            self.assertLessEqual(len(response.field("set-cookie")), 1)
            return response.body.decode().split(), [one.split(";")[0] for one in response.field("set-cookie")]

        (first, count), (cookie,) = visit()
        self.assertEqual((count, cookie), ("1", "PHPSESSID=" + first))
        (other, count), (second,) = visit()
        self.assertEqual(count, "1")
        self.assertNotEqual(other, first)
        self.assertEqual(visit(cookie)[0], [first, "2"])
        self.assertEqual(visit(second)[0], [other, "2"])
        (renewed,), (cookie,) = visit(cookie, "/invalidate")
        self.assertNotEqual(renewed, first)
        self.assertEqual(visit(cookie)[0], [renewed, "3"])

    def test_services_are_reset(self):
        self.assertEqual([self.get("/count").body for _ in range(3)], [b"1"] * 3)

    def test_errors_that_the_kernel_responds_to(self):
        self.assertEqual((self.get("/fails").status, self.get("/nothing-here").status), (500, 404))
        self.assertEqual(self.get("/hello").status, 200)

    def test_what_was_printed_goes_before(self):
        self.assertEqual(self.get("/echo").body, b"printed returned")

    def test_a_kernel_that_threw_is_made_again(self):
        with self.start() as worker:
            self.assertEqual(json.loads(worker.get("/about").body)["made"], 1)
            self.assertEqual(worker.get("/hello", query="throw").reset[0], 3)
            self.assertIn("LogicException: the kernel itself", worker.log())
            self.assertEqual(json.loads(worker.get("/about").body)["made"], 2)

    def test_exit_in_a_controller(self):
        with self.start() as worker:
            for made in (2, 3):
                response = worker.get("/exit")
                self.assertEqual((response.status, response.body), (200, b"produced"))
                # Its stack of requests has none of the visitor before.
                found = json.loads(worker.get("/about", query="q=1").body)
                self.assertEqual((found["made"], found["main"], found["query"]), (made, found["uri"], {"q": "1"}))
            self.assertEqual(worker.drain(), 0)

    def test_a_body_that_nobody_asked_for_does_not_come_after_the_response(self):
        with self.start() as worker:
            for flags, length in ((EXPECT, 10), (0, 200_000)):
                stream = worker.request("/hello", method="POST", query="reads", length=length, flags=flags)
                if not flags:
                    # Enough to owe credit: that of a stream which has ended is nobody's.
                    for _ in range(4):
                        worker.data(stream, bytes(50_000), end=False)
                self.assertEqual(worker.response(stream).body, b"hello")
                self.assertEqual(worker.get("/hello").status, 200)
                self.assertIn("the rest of the request's body is not available", worker.log())
            self.assertEqual(worker.drain(), 0)

    def test_terminate_comes_after_the_response(self):
        go = os.path.join(self.folder.name, "go")
        os.mkfifo(go)
        self.addCleanup(os.unlink, go)
        with self.start(TEST_FIFO_IN=go) as worker:
            response = worker.get("/hello", query="terminate")
            self.assertEqual(response.body, b"hello")
            self.assertNotIn("terminated", worker.log())
            self.assertEqual([(frame.name, frame.flags) for frame in worker.held], [("BUSY", 0)])
            with open(go, "w") as line:
                line.write("go\n")
            self.assertEqual(worker.get("/hello").status, 200)
            self.assertIn("terminated", worker.log())


class Runtime(Symfony):
    """The same application as a project of composer's has it: its entry includes autoload_runtime.php."""

    numbers = itertools.count()
    TEMPLATE = "/usr/share/php/Symfony/Component/Runtime/Internal/autoload_runtime.template"

    @classmethod
    def setUpClass(cls):
        project = tempfile.TemporaryDirectory()
        cls.addClassCleanup(project.cleanup)
        for folder in ("public", "vendor"):
            os.mkdir(os.path.join(project.name, folder))
        with open(cls.TEMPLATE) as template:
            runtime = template.read().replace("%runtime_class%", "'Symfony\\\\Component\\\\Runtime\\\\SymfonyRuntime'").replace("%runtime_options%", "['project_dir' => dirname(__DIR__)]")
        cls.entry = os.path.join(project.name, "public", "index.php")
        for path, text in (
            ("vendor/autoload.php", "<?php require_once 'Symfony/Component/Runtime/autoload.php'; require_once 'Symfony/Component/HttpKernel/autoload.php';"),
            ("vendor/autoload_runtime.php", runtime),
            ("public/index.php", f"<?php require_once dirname(__DIR__).'/vendor/autoload_runtime.php';\nreturn require '{driver.APPS}/symfony.php';\n"),
        ):  # fmt: skip
            with open(os.path.join(project.name, path), "w") as file:
                file.write(text)
        super().setUpClass()

    def of(self, returned, **more):
        """A worker of an entry in the project that returns this."""
        file = os.path.join(os.path.dirname(self.entry), f"entry{next(self.numbers)}.php")
        with open(file, "w") as text:
            text.write(f"<?php use Symfony\\Component\\HttpFoundation\\{{Request, Response}};\nrequire_once dirname(__DIR__).'/vendor/autoload_runtime.php';\nreturn {returned};\n")
        return Worker(file, env={**self.env, **self.cache}, **more)

    def test_a_closure_that_handles_requests_may_ask_for_the_context_too(self):
        for parameters in ("Request $request, array $context", "array $context, Request $request"):
            with self.of(f"function ({parameters}) {{ return new Response($request->getPathInfo().' in '.$context['APP_ENV']); }}") as worker:
                self.assertEqual([worker.get(path).body for path in ("/a", "/b")], [b"/a in prod", b"/b in prod"])

    def test_a_kernel_that_is_returned_as_it_is(self):
        kernel = "new class implements Symfony\\Component\\HttpKernel\\HttpKernelInterface { public function handle(Request $request, int $type = 1, bool $catch = true): Response { return new Response('direct'); } }"
        with self.of(kernel) as worker:
            self.assertEqual(worker.get("/").body, b"direct")

    def test_what_a_closure_gives_that_is_no_application_is_named(self):
        for returned, named in (("function (array $context) { return 3; }", "int 3"), ("function (array $context) { return new ArrayObject(); }", "an object of ArrayObject")):
            with self.of(returned, hello=False) as worker:
                self.assertEqual(worker.process.wait(PATIENCE), 1)
                self.assertRegex(worker.log(), f"entry\\d+.php returned {named}; expected a closure")

    def test_a_runtime_of_somebody_else_is_named(self):
        env = {**self.env, **self.cache, "APP_RUNTIME": "Symfony\\Component\\Runtime\\SymfonyRuntime"}
        with Worker(self.entry, env=env, hello=False) as worker:
            self.assertIsNone(worker.read())
            self.assertEqual(worker.process.wait(PATIENCE), 1)
            self.assertIn("APP_RUNTIME is Symfony\\Component\\Runtime\\SymfonyRuntime; a worker requires Keepwarm\\SymfonyRuntime", worker.log())


class Psr15:
    def setUp(self):
        self.worker = Worker("psr15.php", env={"TEST_PSR7": self.implementation})
        self.addCleanup(self.worker.stop)

    def about(self, path="/", **more):
        response = self.worker.get(path, **more)
        self.assertEqual(response.status, 200, self.worker.log())
        return json.loads(response.body)

    def test_the_request(self):
        sent = [("host", "shop.example:8080"), ("x-many", "1"), ("x-many", "2"), ("cookie", "c=1; d[x]=2"), ("123", "numeric")]
        found = self.about("/a b", raw_path="/a%20b", query="q[]=1&r=2", fields=sent, flags=END | driver.REPEATS)
        self.assertEqual(found["class"], self.name)
        self.assertEqual((found["method"], found["version"], found["host"], found["numeric"]), ("GET", "1.1", "shop.example:8080", "numeric"))
        self.assertEqual((found["target"], found["uri"]), ("/a%20b?q%5B%5D=1&r=2", "http://shop.example:8080/a%20b?q%5B%5D=1&r=2"))
        headers = {name.lower(): value for name, value in found["headers"].items()}
        self.assertEqual(headers["x-many"], ["1", "2"])
        self.assertEqual((found["query"], found["cookies"], found["parsed"]), ({"q": ["1"], "r": "2"}, {"c": "1", "d": {"x": "2"}}, None))
        server = found["server"]
        self.assertEqual((server["SERVER_PROTOCOL"], server["SERVER_NAME"], server["SERVER_PORT"], server["QUERY_STRING"]), ("HTTP/1.1", "shop.example", "8080", "q[]=1&r=2"))
        self.assertEqual((server["SCRIPT_NAME"], server["REQUEST_URI"]), ("/psr15.php", "/a%20b?q[]=1&r=2"))
        self.assertEqual(set(server) & {"argv", "HTTPS", "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"}, set())

    def test_hosts_that_are_odd(self):
        for host, seen in (("[::1]:8080", "[::1]:8080"), ("shop.example:", "shop.example"), ("shop.example:0", "shop.example"), ("SHOP.example:80", "shop.example"), ("", "shop.example"), (":", "shop.example"), (":81", "shop.example")):
            self.assertEqual(self.about("/x", fields=[("host", host)], server=("shop.example", "80"))["uri"], f"http://{seen}/x", host)

    def test_https_and_the_asterisk(self):
        self.assertEqual(self.about(scheme="https")["server"]["HTTPS"], "on")
        self.assertEqual(self.about("*", method="OPTIONS", raw_path="*")["target"], "*")

    def test_forms_and_bodies(self):
        found = json.loads(self.worker.post("/", {"a[b]": "1"}).body)
        self.assertEqual((found["parsed"], found["body"]), ({"a": {"b": "1"}}, "a%5Bb%5D=1"))
        self.assertEqual((found["server"]["CONTENT_TYPE"], found["server"]["CONTENT_LENGTH"]), ("application/x-www-form-urlencoded", "10"))
        self.assertEqual(json.loads(self.worker.get("/contents", method="POST", body=b"content").body), [0, "co", "ntent"])
        found = self.about(method="POST", body=b'{"a":1}', fields=[("content-type", "application/json")])
        self.assertEqual((found["parsed"], found["body"]), (None, '{"a":1}'))
        stream = self.worker.request("/body", method="POST", length=driver.CHUNKED, flags=driver.EXPECT)
        self.worker.take(stream, lambda response: response.wants)
        for _ in range(3):
            self.worker.data(stream, b"p" * 60_000)
        self.worker.data(stream, b"", end=True)
        self.assertEqual(self.worker.response(stream).body.decode(), f"180000 {hashlib.md5(b'p' * 180_000).hexdigest()}")

    def test_a_stream_that_says_it_is_empty_and_is_not(self):
        self.assertEqual(self.worker.get("/pipe").body, b"piped\n")

    def test_nested_uploads(self):
        body = multipart(part("a", "1"), part("one", "content", "one.txt", "text/plain"), part("many[x][]", "more", "more.txt"), part("none", "", ""))
        found = self.about(method="POST", body=body, fields=fields(body))
        one = ["one.txt", "text/plain", 7, 0, hashlib.md5(b"content").hexdigest()]
        more = ["more.txt", "", 4, 0, hashlib.md5(b"more").hexdigest()]
        self.assertEqual((found["parsed"], found["files"]["one"], found["files"]["many"]), ({"a": "1"}, one, {"x": [more]}))
        self.assertEqual(found["files"]["none"][3], 4)

    def test_responses(self):
        response = self.worker.get("/many")
        self.assertEqual((response.status, response.body, response.field("x-many"), response.field("set-cookie")), (418, b"many", ["1", "2"], ["a=1", "b=2"]))
        response = self.worker.get("/large")
        self.assertEqual(len(response.body), 300_000)

    def test_streams_are_read_in_pieces(self):
        response = self.worker.get("/stream")
        self.assertEqual((len(response.body), response.names), (5_000, ["RESPONSE"] + ["DATA"] * 5))
        self.assertEqual(self.worker.get("/stream", method="HEAD").body, b"")

    def test_a_stream_whose_client_goes(self):
        stream = self.worker.request("/endless")
        self.worker.take(stream, lambda response: len(response.frames) > 3)
        self.worker.reset(stream)
        self.assertEqual(self.worker.response(stream).reset[0], 1)
        self.assertEqual(self.worker.get("/").status, 200)
        self.assertRegex(self.worker.log(), r"^closed after \d+ pieces\n$")

    def test_exceptions(self):
        self.assertEqual(self.worker.get("/throws").reset[0], 3)
        self.assertIn("DomainException: a failure", self.worker.log())
        self.assertEqual(self.worker.get("/").status, 200)


class Nyholm(Psr15, unittest.TestCase):
    implementation, name = "nyholm", "Nyholm\\Psr7\\ServerRequest"


class Guzzle(Psr15, unittest.TestCase):
    implementation, name = "guzzle", "GuzzleHttp\\Psr7\\ServerRequest"


class SlimPsr7(Psr15, unittest.TestCase):
    implementation, name = "slim", "Slim\\Psr7\\Request"


class SlimThree(unittest.TestCase):
    def setUp(self):
        self.worker = Worker("slim3.php")
        self.addCleanup(self.worker.stop)

    def test_pages(self):
        for name in ("world", "again"):
            response = self.worker.get(f"/hello/{name}")
            self.assertEqual((response.status, response.body), (200, f"hello {name}".encode()), self.worker.log())
        self.assertEqual(response.field("content-length"), ["11"])

    def test_the_request(self):
        sent = [("host", "shop.example"), ("cookie", "c=1"), ("x-one", "1")]
        found = json.loads(self.worker.get("/about", query="q=1", fields=sent, script="/app").body)
        self.assertEqual((found["uri"], found["container"]), ("http://shop.example/app/about?q=1",) * 2)
        self.assertEqual((found["query"], found["cookies"], found["header"]), ({"q": "1"}, {"c": "1"}, "1"))
        self.assertEqual(json.loads(self.worker.post("/about", {"a[b]": "1"}).body)["parsed"], {"a": {"b": "1"}})
        response = self.worker.get("/about", method="POST", body=b'{"k":1}', fields=[("content-type", "application/json")])
        self.assertEqual((json.loads(response.body)["parsed"], json.loads(response.body)["body"]), ({"k": 1}, '{"k":1}'))
        body = multipart(part("file", "content", "x.txt"))
        found = json.loads(self.worker.get("/about", method="POST", body=body, fields=fields(body)).body)
        self.assertEqual(found["files"], {"file": ["x.txt", 7, hashlib.md5(b"content").hexdigest()]})

    def test_responses(self):
        self.assertEqual(self.worker.get("/echo").body, b"writtenprinted ")  # Slim's own setting: appended
        self.assertEqual((self.worker.get("/redirect").status, self.worker.get("/none").status, self.worker.get("/nothing").status), (301, 204, 404))

    def test_errors_and_exit(self):
        self.assertEqual(self.worker.get("/throws").status, 500)
        self.assertEqual(self.worker.get("/hello/x").status, 200)
        for _ in range(2):
            self.assertEqual(self.worker.get("/exit").body, b"produced")
            self.assertEqual(self.worker.get("/hello/x").status, 200)


if __name__ == "__main__":
    unittest.main()
