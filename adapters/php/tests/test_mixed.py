"""Many requests of every sort on a few workers, in a random order: no wrong response, and nothing of one in another.

`KEEPWARM_MIXED` says how many (default 600; 100000 takes minutes).
"""

import hashlib
import json
import os
import random
import tempfile
import unittest

from tests.driver import EXPECT, PATIENCE, Worker
from tests.test_forms import fields, multipart, part

COUNT = int(os.environ.get("KEEPWARM_MIXED", "600"))


class Mixed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.worker = None
        self.addCleanup(lambda: self.worker and self.worker.stop())
        self.random = random.Random(20_240_607)
        self.token = 0

    def fresh(self):
        if self.worker is None:
            self.worker = Worker("plain.php", "-d", f"upload_tmp_dir={self.folder.name}", "-d", f"session.save_path={self.folder.name}")
        return self.worker

    def ended(self, status):
        self.assertEqual(self.worker.process.wait(PATIENCE), status)
        self.worker.stop()
        self.worker = None

    def get(self, path, **more):
        """A request that nobody else makes, and whether its response shows anything of others."""
        self.token += 1
        return self.fresh().get(path, query=f"token={self.token}", **more)

    def test_mixed(self):
        kinds = [getattr(self, name) for name in dir(self) if name.startswith("try_")]
        weights = [1 if name.endswith("_ends") else 20 for name in dir(self) if name.startswith("try_")]
        for number in range(COUNT):
            kind = self.random.choices(kinds, weights)[0]
            try:
                kind()
            except AssertionError as error:
                raise AssertionError(f"request {number}, {kind.__name__}") from error
        self.assertEqual([one for one in os.listdir(self.folder.name) if one.startswith("keepwarm-uploads-") and os.listdir(f"{self.folder.name}/{one}") != [".lock"]], [])

    def try_ok(self):
        request = json.loads(self.get("/request", fields=[("x-token", str(self.token + 1))]).body)
        self.assertEqual((request["get"], request["post"], request["cookies"]), ({"token": str(self.token)}, [], []))
        self.assertEqual(request["fields"], {"x-token": [str(self.token)]})

    def try_printed(self):
        response = self.get("/echo")
        self.assertEqual((response.status, response.body), (203, b"printed and more"))

    def try_exception(self):
        response = self.get(self.random.choice(["/throws", "/bad-value", "/bad-return"]))
        self.assertEqual((response.status, response.reset[0]), (None, 3))

    def try_late_exception(self):
        response = self.get("/throws-late")
        self.assertEqual((response.body, response.reset[0]), (b"begun", 3))

    def try_stream(self):
        self.assertEqual(self.get("/flushing").body, b"one two three sent")
        self.assertEqual(len(self.get("/large-echo").body), 300_000)

    def try_upload(self):
        content = self.random.randbytes(self.random.choice([0, 1, 5_000, 70_000]))
        body = multipart(part("a", str(self.token)), part("file", content, "x"))
        worker = self.fresh()
        stream = worker.request("/upload", method="POST", length=len(body), fields=fields(body), flags=self.random.choice([0, EXPECT]))
        step = self.random.choice([997, 20_000, 65_536])
        for start in range(0, len(body), step):
            worker.data(stream, body[start : start + step], end=start + step >= len(body))
        found = json.loads(worker.response(stream).body)
        self.assertEqual((found["post"], found["sums"]), ({"a": str(self.token)}, [[hashlib.md5(content).hexdigest(), True]]))

    def try_form(self):
        self.token += 1
        request = json.loads(self.fresh().post("/request", {"token": self.token}).body)
        self.assertEqual((request["post"], request["get"]), ({"token": str(self.token)}, []))

    def try_session(self):
        first = self.get("/session")
        cookie = first.field("set-cookie")[0].split(";")[0]
        self.assertTrue(first.body.endswith(b" 1"))
        self.assertEqual(self.get("/session", fields=[("cookie", cookie)]).body, first.body[:-1] + b"2")

    def try_lost_client(self):
        worker = self.fresh()
        stream = worker.request("/endless")
        worker.take(stream, lambda response: len(response.frames) > 2)
        worker.reset(stream)
        self.assertEqual(worker.response(stream).reset[0], 1)

    def try_lost_body(self):
        worker = self.fresh()
        stream = worker.request("/body", method="POST", length=100_000, flags=0)
        worker.data(stream, b"x" * 1_000)
        worker.reset(stream, 5)
        self.assertEqual(worker.response(stream).reset[0], 1)

    def try_unread_body(self):
        worker = self.fresh()
        stream = worker.request("/", method="POST", length=10_000, flags=0)
        self.assertEqual(worker.response(stream).body, b"hello")
        worker.data(stream, b"u" * 10_000, end=True)

    def try_ahead(self):
        worker = self.fresh()
        sent = [worker.request(path, send=False) for path in ("/", "/request", "/throws", "/array")]
        worker.send(b"".join(data for _, data in sent))
        responses = [worker.response(stream) for stream, _ in sent]
        self.assertEqual([response.status for response in responses], [200, 200, None, 201])

    def try_leak(self):
        self.assertEqual(self.get("/leak").body, b"leaked")
        place = json.loads(self.get("/place").body)
        self.assertEqual((place[1], place[2], place[4], place[6:8], place[8:11]), (18, "UTC", "14", [0, "UTF-8"], [None, None, None]))

    def try_exit(self):
        self.assertEqual(self.get("/exit").body, b"before exit")

    def try_fatal_ends(self):
        self.assertEqual(self.get("/fatal").reset[0], 3)
        self.ended(255)

    def try_kill_ends(self):
        worker = self.fresh()
        worker.request("/die")
        while worker.read() is not None:
            pass  # credit of bodies that nobody read
        self.ended(-9)


if __name__ == "__main__":
    unittest.main()
