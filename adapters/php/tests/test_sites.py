"""Laravel and Symfony as sites, kept and under php-fpm: login, form, upload, session, files, error pages, with a reload in between."""

import os
import tempfile
import unittest

from tests.beside import Sites
from tests.driver import APPS
from tests.test_forms import BOUNDARY, multipart, part

OPTIONS = ("error_reporting=0", "display_errors=0", "expose_php=0", "session.gc_probability=0", "output_buffering=0")
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"


class Beside(unittest.TestCase):
    maxDiff = None

    def folders(self):
        for _ in range(2):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            yield folder.name

    def same(self, path, status, **more):
        worker, fpm = self.sites.visit(path, **more)
        self.assertEqual(worker, fpm, (path, self.sites.worker.log()[-3000:]))
        self.assertEqual(worker[0], status, (path, worker, self.sites.worker.log()[-3000:]))
        return worker[2]


class Laravel(Beside):
    def setUp(self):
        envs = []
        for folder in self.folders():
            for name in ("framework/sessions", "framework/views", "bootstrap", "app"):
                os.makedirs(os.path.join(folder, name))
            envs.append({"TEST_STORAGE": folder, "APP_SERVICES_CACHE": f"{folder}/bootstrap/services.php", "APP_PACKAGES_CACHE": f"{folder}/bootstrap/packages.php"})
        self.sites = Sites("laravel/app.php", APPS / "laravel" / "index.php", OPTIONS, *envs)
        self.addCleanup(self.sites.stop)

    def test_a_visit(self):
        json = (("accept", "application/json"),)
        for name in ("alice", "bob"):
            self.assertEqual(self.same("/", 200), "hello")
            self.assertIn("_token", self.same("/form", 200))
            self.same("/login", 419, form={"name": name, "password": name})
            self.same("/login", 403, form={"name": name, "password": "wrong", "_token": "TOKEN"})
            self.assertEqual(self.same("/login", 200, form={"name": name, "password": name, "_token": "TOKEN"}), name)
            self.assertIn(name, self.same("/me", 200))
            self.assertIn('"visits":1', self.same("/visits", 200))
            self.sites.reload()
            self.assertIn(name, self.same("/me", 200))
            self.assertIn('"visits":2', self.same("/visits", 200))
            # A form that is wrong, the page with its errors and what was entered, then one that is right.
            self.same("/form", 200)
            self.same("/order", 302, form={"name": "much too long <b>", "amount": "x", "_token": "TOKEN"}, extra=(("referer", "http://shop.example/form"),))
            page = self.same("/form", 200)
            self.assertTrue("10 characters" in page or "validation." in page, page)
            self.assertIn("much too long &lt;b&gt;", page)
            self.assertNotIn("much too long", self.same("/form", 200))
            self.same("/order", 422, form={"amount": "x", "_token": "TOKEN"}, extra=json)
            self.same("/order", 302, form={"name": "tea", "amount": "2", "_token": "TOKEN"})
            self.assertIn("ordered tea", self.same("/visits", 200))
            self.assertNotIn("ordered tea", self.same("/visits", 200))
            body = multipart(part("_token", "TOKEN"), part("note", "h\u00e9llo"), part("file", os.urandom(40_000), "a b.bin", "application/octet-stream"))
            self.assertIn("a b.bin", self.same("/upload", 200, kind=MULTIPART, body=body))
            for path, status in (("/asset", 200), ("/download", 200), ("/stream", 200), ("/denied", 403), ("/fails", 500), ("/notice", 500), ("/nothing-here", 404), ("/item/one", 200)):
                self.same(path, status)
                self.same(path, status, extra=json)
            self.same("/asset", 206, extra=(("range", "bytes=2-5"),))
            self.same("/login", 405)
            self.same("/form", 200)
            self.same("/logout", 302, form={"_token": "TOKEN"})
            self.assertNotIn(name, self.same("/me", 200))


class Symfony(Beside):
    def setUp(self):
        envs = [{"TEST_CACHE": folder, "APP_ENV": "prod", "APP_DEBUG": "0", "TEST_FILE": str(APPS / "page.xml")} for folder in self.folders()]
        saved = [tempfile.TemporaryDirectory() for _ in envs]
        for folder, env in zip(saved, envs):
            self.addCleanup(folder.cleanup)
            env["TEST_SESSIONS"] = folder.name
        self.sites = Sites("symfony.php", APPS / "symfony_index.php", OPTIONS, *envs)
        self.addCleanup(self.sites.stop)

    def test_a_visit(self):
        for name in ("alice", "bob"):
            self.assertEqual(self.same("/hello", 200), "hello")
            self.assertEqual(self.same("/me", 200), "nobody")
            self.same("/login", 403, form={"name": name, "password": "wrong"})
            self.same("/login", 302, form={"name": name, "password": name})
            self.assertEqual(self.same("/me", 200), name)
            self.assertIn(" 1", self.same("/session", 200))
            self.sites.reload()
            self.assertEqual(self.same("/me", 200), name)
            self.assertIn(" 2", self.same("/session", 200))
            body = multipart(part("note", "h\u00e9llo"), part("file", os.urandom(40_000), "a b.bin", "application/octet-stream"))
            self.assertIn("a b.bin", self.same("/upload", 200, kind=MULTIPART, body=body))
            self.assertIn('"x":"1"', self.same("/put", 200, form={"x": "1"}))
            for path, status in (("/file", 200), ("/stream", 200), ("/cookies", 200), ("/count", 200), ("/fails", 500), ("/nothing-here", 404)):
                self.same(path, status)
            self.same("/file", 206, extra=(("range", "bytes=2-5"),))
            self.same("/invalidate", 200)
            self.assertEqual(self.same("/me", 200), name)
            self.same("/logout", 302)
            self.assertEqual(self.same("/me", 200), "nobody")


if __name__ == "__main__":
    unittest.main()
