"""Symfony's bundles, from Debian's packages: two visitors in one worker, and what services of Twig, security, the profiler and the translator hold."""

import base64
import json
import tempfile
import unittest

from tests.driver import Worker

ALICE = [("authorization", "Basic " + base64.b64encode(b"alice:secret").decode())]
CASES = (
    "global", "global of the rendered", "time zone of dates", "format of dates", "format of numbers", "escaper", "safe classes", "strict variables", "charset", "paths",
    "token", "user", "locale", "fallback locales", "catalogue", "collected",
)  # fmt: skip


class Bundles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.cache = folder.name

    def start(self):
        worker = Worker("symfony_bundles.php", env={"TEST_CACHE": self.cache, "APP_ENV": "prod", "APP_DEBUG": "0"})
        self.addCleanup(worker.stop)
        return worker

    def see(self, worker, name):
        response = worker.get(f"/see/{name}")
        self.assertEqual(response.status, 200, (name, response, worker.log()[-3000:]))
        return json.loads(response.body)

    def test_nothing_of_a_visitor_is_left(self):
        first = self.start()
        for name in CASES:
            before = self.see(first, name)
            with self.subTest(name):
                self.put_back(first, name, before)
            with self.subTest(f"{name}, in the first request of a worker"):
                self.put_back(self.start(), name, before)

    def put_back(self, worker, name, before):
        for _ in range(2):
            self.assertEqual(worker.get(f"/touch/{name}", fields=ALICE).status, 200, worker.log()[-3000:])
            self.assertEqual(self.see(worker, name), before)


if __name__ == "__main__":
    unittest.main()
