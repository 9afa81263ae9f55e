"""Forms and uploads: as PHP itself reads them, by the adapter's own parser."""

import glob
import hashlib
import json
import os
import struct
import tempfile
import unittest

from tests.driver import CHUNKED, PATIENCE, Worker

BOUNDARY = "----keepwarmBoundary7MA4"


def part(name, value, filename=None, kind=None):
    disposition = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
    head = f"Content-Disposition: {disposition}\r\n" + (f"Content-Type: {kind}\r\n" if kind else "")
    return f"--{BOUNDARY}\r\n{head}\r\n".encode() + (value if isinstance(value, bytes) else value.encode()) + b"\r\n"


def multipart(*parts):
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def fields(body, kind=f"multipart/form-data; boundary={BOUNDARY}"):
    return [("content-type", kind), ("content-length", str(len(body)))]


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.worker = Worker(
            "plain.php", "-d", f"upload_tmp_dir={cls.folder.name}", "-d", "post_max_size=1M", "-d", "upload_max_filesize=100K",
            "-d", "max_input_vars=20", "-d", "max_file_uploads=4", "-d", "memory_limit=32M",
        )  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        cls.folder.cleanup()

    def upload(self, *parts, path="/upload"):
        body = multipart(*parts)
        return self.send(body, path)

    def send(self, body, path="/upload", **more):
        response = self.worker.get(path, method="POST", body=body[:60_000], length=len(body), fields=fields(body), flags=1) if len(body) <= 60_000 else self.stream(body, path)
        self.assertEqual(response.status, 200, self.worker.log())
        return json.loads(response.body)

    def stream(self, body, path, size=9_973):
        stream = self.worker.request(path, method="POST", length=len(body), fields=fields(body), flags=0)
        for start in range(0, len(body), size):
            self.worker.data(stream, body[start : start + size], end=start + size >= len(body))
        return self.worker.response(stream)

    def test_urlencoded(self):
        form = [("a", "1"), ("list[]", "x"), ("list[]", "y"), ("deep[k][z]", "ü &"), ("dotted.name", "n")]
        request = json.loads(self.worker.post("/request", form, query="a=query&q=1").body)
        self.assertEqual(request["post"], {"a": "1", "list": ["x", "y"], "deep": {"k": {"z": "ü &"}}, "dotted_name": "n"})
        self.assertEqual((request["request"]["a"], request["request"]["q"]), ("1", "1"))

    def test_urlencoded_in_pieces(self):
        body = b"a=" + b"x" * 100_000 + b"&b=2"
        kind = "application/x-www-form-urlencoded; charset=UTF-8"
        stream = self.worker.request("/request", method="POST", length=CHUNKED, fields=[("content-type", kind)], flags=0)
        for start in range(0, len(body), 30_000):
            self.worker.data(stream, body[start : start + 30_000], end=start + 30_000 >= len(body))
        post = json.loads(self.worker.response(stream).body)["post"]
        self.assertEqual((len(post["a"]), post["b"]), (100_000, "2"))

    def test_only_forms_of_post_are_read(self):
        body = b"a=1"
        for method, kind in (("PUT", "application/x-www-form-urlencoded"), ("POST", "application/json")):
            request = json.loads(self.worker.get("/request", method=method, body=body, fields=fields(body, kind)).body)
            self.assertEqual(request["post"], [])

    def test_values_and_nested_uploads(self):
        content = bytes(range(256)) * 20
        found = self.upload(
            part("a", "1"), part("b[x][]", "2"), part("b[x][]", ""), part("text", "line\r\n--not the boundary\r\n"),
            part("file", content, "one.bin", "application/octet-stream"), part("docs[in][]", "hello", "a b.txt", "text/plain"),
            part("docs[in][]", "", "empty.txt", "text/plain"), part("none", "", ""),
        )  # fmt: skip
        self.assertEqual(found["post"], {"a": "1", "b": {"x": ["2", ""]}, "text": "line\r\n--not the boundary\r\n"})
        files = found["files"]
        self.assertEqual((files["file"]["name"], files["file"]["size"], files["file"]["error"]), ("one.bin", 5_120, 0))
        self.assertEqual(files["docs"]["name"], {"in": ["a b.txt", "empty.txt"]})
        self.assertEqual(files["docs"]["size"], {"in": [5, 0]})
        self.assertEqual((files["none"]["error"], files["none"]["tmp_name"]), (4, ""))
        sums = [hashlib.md5(one).hexdigest() for one in (content, b"hello", b"")]
        self.assertEqual(found["sums"], [[one, True] for one in sums])

    def test_a_name_that_comes_twice_counts_the_last_time(self):
        self.assertEqual(self.upload(part("a", "1"), part("a", "2"))["post"], {"a": "2"})

    def test_cut_anywhere(self):
        content = b"\r\n--" + BOUNDARY.encode()[:-1] + b"\r\r\n" * 50
        body = multipart(part("a", "value"), part("file", content, "x"), part("z", ""))
        whole = self.send(body)
        self.assertEqual(whole["sums"], [[hashlib.md5(content).hexdigest(), True]])
        for size in (1, 2, 3, 7, 64):
            found = json.loads(self.stream(body, "/upload", size).body)
            self.assertEqual((found["post"], found["sums"]), (whole["post"], whole["sums"]), size)

    def test_quoted_boundaries_and_names(self):
        body = multipart(part('q\\"uote', "1"), part("file", "x", "C:\\\\dir\\\\name.txt"), b"")
        response = self.worker.get("/upload", method="POST", body=body, fields=fields(body, f'multipart/form-data; charset=x; boundary="{BOUNDARY}"'))
        found = json.loads(response.body)
        self.assertEqual(found["post"], {'q"uote': "1"})
        self.assertEqual((found["files"]["file"]["name"], found["files"]["file"]["full_path"]), ("name.txt", "C:\\dir\\name.txt"))

    def test_a_nul_ends_no_form(self):
        request = json.loads(self.worker.post("/request", b"a\0b=1&c=\0&d=2").body)
        self.assertEqual(request["post"], {"a": "1", "c": "\0", "d": "2"})

    def test_a_type_that_a_comma_ends(self):
        fields = [("content-type", "application/x-www-form-urlencoded, text/plain"), ("content-length", "3")]
        self.assertEqual(json.loads(self.worker.get("/request", method="POST", body=b"a=1", fields=fields).body)["post"], {"a": "1"})

    def test_odd_names_are_read_as_php_reads_them(self):
        request = self.upload(
            part("", "nothing"), part("", "nothing", "x"), part("nul", "1", "x.php\0.jpg", "text/html; charset=utf-8"), part("folder", "2", "a/"),
            f"--{BOUNDARY}\r\nContent-Disposition: attachment; name='quoted'\r\n\r\nvalue\r\n".encode(),
        )  # fmt: skip
        self.assertEqual(request["post"], {"quoted": "value"})
        files = {name: (file["name"], file["full_path"], file["type"]) for name, file in request["files"].items()}
        self.assertEqual(files, {"nul": ("x.php", "x.php", "text/html"), "folder": ("", "a/", "")})

    def test_limits(self):
        found = self.upload(part("file", b"x" * 110_000, "large"), part("small", "x", "small"))
        self.assertEqual((found["files"]["file"]["error"], found["files"]["file"]["size"], found["files"]["small"]["error"]), (1, 0, 0))
        found = self.upload(part("MAX_FILE_SIZE", "10"), part("file", b"x" * 11, "larger"))
        self.assertEqual(found["files"]["file"]["error"], 2)
        found = self.upload(*(part(f"f{number}", "x", "x") for number in range(6)))
        self.assertEqual(len(found["files"]), 4)
        found = self.upload(*(part(f"v{number}", "x") for number in range(23)))
        self.assertEqual(len(found["post"]), 20)

    def test_more_than_post_max_size_is_an_empty_form(self):
        body = multipart(part("file", b"x" * 1_100_000, "large"))

        def action():
            stream = self.worker.request("/upload", method="POST", length=len(body), fields=fields(body), flags=0)
            self.assertEqual(json.loads(self.worker.response(stream).body), {"files": [], "post": [], "sums": []})

        self.assertIn("exceeds the limit of 1048576 bytes (post_max_size)", self.worker.log_of(action))

    def test_forms_that_are_broken(self):
        for body in (b"", b"garbage", b"--" + BOUNDARY.encode(), part("a", "1")[:-2], multipart(b"")[:-3], b"--" + BOUNDARY.encode() + b"\r\n" + b"x" * 50_000):
            self.assertEqual(self.worker.get("/upload", method="POST", body=body, fields=fields(body)).status, 200, body[:50])
        body = part("file", "not all of it", "x")[:-2]
        self.assertEqual(self.send(body)["files"]["file"]["error"], 3)
        response = self.worker.get("/upload", method="POST", body=body, fields=fields(body, "multipart/form-data"))
        self.assertEqual(response.status, 200)

    def test_heads_that_are_all_of_the_body(self):
        head = b"--" + BOUNDARY.encode() + b"\r\nContent-Disposition: form-data; name=a"
        for filling in (b' "\r\n', b";a=b\r\n", b'; name="' + b"\\\\\r\n", b"\r\nA:b", b"[a]\r\n", b"; x='\r\n"):
            body = head + filling * (300_000 // len(filling)) + b"\r\n\r\nvalue\r\n" + multipart(part("last", "1"))
            stream = self.worker.request("/upload", method="POST", length=len(body), fields=fields(body), flags=0)
            credit = 262_144
            for start in range(0, len(body), 60_000):
                while credit < 60_000:
                    frame = self.worker.read()
                    credit += struct.unpack(">I", frame.payload)[0] if (frame.name, frame.stream) == ("CREDIT", stream) else 0
                credit -= 60_000
                self.worker.data(stream, body[start : start + 60_000], end=start + 60_000 >= len(body))
            self.assertEqual(self.worker.response(stream).status, 200, filling)

    def test_moved_once_and_only_what_was_uploaded(self):
        self.assertEqual(self.upload(part("file", "content", "x"), path="/move"), [True, "content", False, False])

    def uploads(self):
        return [one for one in glob.glob(self.folder.name + "/keepwarm-uploads-*/*")]

    def test_files_go_with_the_request(self):
        self.upload(part("file", "content", "x"))
        self.worker.get("/")
        self.assertEqual(self.uploads(), [])

    def test_a_client_that_goes_within_an_upload(self):
        body = part("file", b"x" * 50_000, "x")
        stream = self.worker.request("/upload", method="POST", length=100_000, fields=fields(body), flags=0)
        self.worker.data(stream, body)
        self.worker.reset(stream)
        self.assertEqual(self.worker.response(stream).reset[0], 1)
        self.worker.get("/")
        self.assertEqual(self.uploads(), [])


class Crash(unittest.TestCase):
    def test_uploads_of_a_worker_that_was_killed_go_when_the_next_one_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            here, go = os.path.join(folder, "here"), os.path.join(folder, "go")
            os.mkfifo(here)
            os.mkfifo(go)
            options = ("-d", f"upload_tmp_dir={folder}")
            body = multipart(part("file", "content", "x"))
            with Worker("plain.php", *options, env={"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}) as worker:
                worker.request("/wait", method="POST", body=body, fields=fields(body))
                with open(here) as line:
                    line.readline()
                self.assertEqual(len(glob.glob(folder + "/keepwarm-uploads-*/php*")), 1)
                worker.process.kill()
                worker.process.wait(PATIENCE)
            self.assertEqual(len(glob.glob(folder + "/keepwarm-uploads-*")), 1)
            with Worker("plain.php", *options) as worker:
                worker.get("/")
                self.assertEqual(glob.glob(folder + "/keepwarm-uploads-*"), [])
                # A folder in use is left alone.
                worker.get("/upload", method="POST", body=body, fields=fields(body))
                with Worker("plain.php", *options):
                    self.assertEqual(len(glob.glob(folder + "/keepwarm-uploads-*")), 1)
                self.assertEqual(worker.drain(), 0)
            self.assertEqual(glob.glob(folder + "/keepwarm-uploads-*"), [])


if __name__ == "__main__":
    unittest.main()
