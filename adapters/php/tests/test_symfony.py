"""What Symfony's own services keep of a visitor: the stack of requests, the router's context, listeners, what is trusted."""

import json
import tempfile
import unittest

from tests.driver import Worker

FIELDS = [("host", "shop.example"), ("x-forwarded-for", "9.9.9.9")]


class State(unittest.TestCase):
    def start(self, **env):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        worker = Worker("symfony_state.php", env={"TEST_CACHE": folder.name, "APP_ENV": "prod", "APP_DEBUG": "0", **env})
        self.addCleanup(worker.stop)
        return worker

    def see(self, worker, **more):
        response = worker.get("/see", fields=FIELDS, **more)
        self.assertEqual(response.status, 200, worker.log()[-2000:])
        self.assertEqual(response.field("x-alice"), [])
        return json.loads(response.body)

    def test_nothing_of_a_visitor_is_left(self):
        worker = self.start()
        before = self.see(worker)
        for path in ("/touch", "/touch", "/fail", "/touch"):
            worker.get(path, fields=FIELDS)
            self.assertEqual(self.see(worker), before, (path, worker.log()[-2000:]))
        self.assertIn("the kernel is rebooted after each such request", worker.log())

    def test_a_kernel_whose_listeners_nobody_changes_is_kept(self):
        worker = self.start()
        for _ in range(5):
            self.see(worker)
            worker.get("/fail", fields=FIELDS)
        self.assertNotIn("rebooted", worker.log())

    def test_the_address_of_the_proxy_that_is_there_is_trusted(self):
        self.assertEqual(self.see(self.start())[12], "192.0.2.7")
        worker = self.start(TEST_PROXIES="REMOTE_ADDR")
        for _ in range(2):
            self.assertEqual(self.see(worker)[12], "9.9.9.9", worker.log())


if __name__ == "__main__":
    unittest.main()
