"""Laravel, from Debian's package: two visitors in one worker find nothing of one another."""

import json
import os
import tempfile
import unittest

from tests.driver import Worker


class Laravel(unittest.TestCase):
    returned = "application"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for folder in ("framework/sessions", "framework/views", "bootstrap"):
            os.makedirs(os.path.join(cls.folder.name, folder))
        cls.worker = cls.start()

    @classmethod
    def start(cls):
        storage = cls.folder.name
        return Worker(
            "laravel/app.php", env={
                "TEST_STORAGE": storage, "TEST_RETURN": cls.returned, "APP_SERVICES_CACHE": f"{storage}/bootstrap/services.php", "APP_PACKAGES_CACHE": f"{storage}/bootstrap/packages.php",
            },
        )  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        cls.folder.cleanup()

    def get(self, path, cookies=None, **more):
        fields = [("host", "shop.example"), ("accept", "application/json"), *more.pop("fields", [])]
        if cookies:
            fields.append(("cookie", "; ".join(f"{name}={value}" for name, value in cookies.items())))
        response = self.worker.get(path, fields=fields, **more)
        for cookie in response.field("set-cookie"):
            name, _, value = cookie.split(";")[0].partition("=")
            if cookies is not None:
                cookies[name] = value
        return response

    def page(self, path, cookies=None, **more):
        response = self.get(path, cookies, **more)
        self.assertEqual(response.status, 200, (response, self.worker.log()[-2000:]))
        return response.body.decode()

    def log_in(self, name):
        cookies = {}
        token = self.page("/token", cookies)
        form = f"name={name}&password={name}&_token={token}".encode()
        sent = [("content-type", "application/x-www-form-urlencoded"), ("content-length", str(len(form)))]
        self.assertEqual(self.page("/login", cookies, method="POST", body=form, fields=sent), name)
        return cookies

    def test_a_page(self):
        self.assertEqual(self.page("/"), "hello")

    def test_nobody_is_logged_in_by_somebody_elses_session(self):
        alice, bob = self.log_in("alice"), self.log_in("bob")
        for _ in range(2):
            self.assertEqual(json.loads(self.page("/me", dict(alice)))["name"], "alice")
            self.assertIsNone(json.loads(self.page("/me"))["name"])
            self.assertEqual(json.loads(self.page("/me", dict(bob)))["name"], "bob")
            self.assertEqual(json.loads(self.page("/account", dict(alice), query="name=a")), ["a", "alice"])
            self.assertEqual(json.loads(self.page("/account", query="name=b")), ["b", None])

    def test_tokens_of_forms_are_a_sessions_own(self):
        self.assertNotEqual(self.page("/token"), self.page("/token"))
        cookies = {}
        self.assertEqual(self.page("/token", cookies), self.page("/token", cookies))
        form = b"name=alice&password=alice"
        sent = [("content-type", "application/x-www-form-urlencoded"), ("content-length", str(len(form)))]
        self.assertEqual(self.get("/login", method="POST", body=form, fields=sent).status, 419)

    def test_nothing_that_a_request_changes_is_left(self):
        before = json.loads(self.page("/see"))
        self.assertEqual(before[:5], ["Shop", "en", False, ["bag"], None])
        for _ in range(2):
            response = self.get("/touch")
            self.assertEqual(response.body, b"touched", self.worker.log())
            self.assertTrue(any(cookie.startswith("queued=") for cookie in response.field("set-cookie")))
            again = self.get("/see")
            self.assertEqual(json.loads(again.body), before)
            self.assertFalse(any(cookie.startswith("queued=") for cookie in again.field("set-cookie")))

    def test_nothing_that_a_request_extends_is_left(self):
        before = self.page("/extended")
        for _ in range(2):
            self.assertEqual(self.page("/extend"), "extended")
            log = self.worker.log_of(lambda: self.assertEqual(self.page("/extended"), before))
            self.assertNotIn("for the visitor", log)
        self.assertEqual(self.get("/of-a-visitor").status, 404)

    def test_terminating_runs_after_the_response_and_once(self):
        log = self.worker.log_of(lambda: self.page("/touch"))
        self.assertEqual(log.count("terminating of the visitor"), 1)

    def test_routes_and_models(self):
        for name in ("one", "two"):
            self.assertEqual(self.page(f"/item/{name}"), f"{name} {name} http://shop.example/item/{name} made {name}")

    def test_errors(self):
        for path, text in (("/fails", "a failure"), ("/notice", "Undefined global variable"), ("/fails", "a failure")):
            log = self.worker.log_of(lambda: self.assertEqual(self.get(path).status, 500))
            self.assertIn(text, log)
        self.assertEqual(self.get("/nothing-here").status, 404)
        self.assertEqual(self.page("/"), "hello")

    def test_streams_leave_as_they_come(self):
        response = self.get("/stream")
        self.assertEqual((response.body, response.names), (b"one two", ["RESPONSE", "DATA", "DATA"]))

    def test_exit_delivers_what_there_is(self):
        with self.start() as worker:
            for name in ("one", "two"):
                self.assertEqual(worker.get("/exit").body, b"produced")
                found = worker.get(f"/item/{name}", fields=[("host", "shop.example")]).body.decode()
                self.assertEqual(found, f"{name} {name} http://shop.example/item/{name} made {name}")
            self.assertEqual(worker.drain(), 0)

    def test_memory_does_not_grow(self):
        def resident():
            with open(f"/proc/{self.worker.process.pid}/statm") as numbers:
                return int(numbers.read().split()[1]) * 4_096

        paths = ("/", "/see", "/touch", "/me", "/account", "/item/x")
        for count in range(300):
            self.page(paths[count % len(paths)])
        before = resident()
        for count in range(600):
            self.page(paths[count % len(paths)])
        self.assertLess(resident() - before, 2_000_000)


class Kernel(Laravel):
    """The same, returned as its HTTP kernel."""

    returned = "kernel"


class Factory(Laravel):
    """The same, returned by a closure, as for Symfony Runtime."""

    returned = "factory"


if __name__ == "__main__":
    unittest.main()
