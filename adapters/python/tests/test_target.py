"""Targets, kinds, and what a worker says when the application cannot be had."""

import functools
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

from tests import driver
from tests.driver import Worker

from keepwarm import target
from keepwarm.errors import LoadError

INTERPRETER = os.path.abspath(sys.executable)  # as a worker has it


class Kinds(unittest.TestCase):
    """Applications told apart by their signature."""

    def test_wsgi(self):
        def function(environ, start_response): ...

        def loose(*args): ...

        def optional(environ, start_response, extra=None): ...

        class Instance:
            def __call__(self, environ, start_response): ...

        class Iterable:
            def __init__(self, environ, start_response): ...

        class Methods:
            def app(self, environ, start_response): ...

        for application in (
            function, loose, optional, Instance(), Iterable, Methods().app, functools.partial(optional, extra=1),
            lambda environ, start_response: [],
        ):  # fmt: skip
            self.assertEqual(target.kind_of(application), "wsgi", application)

    def test_asgi(self):
        async def function(scope, receive, send): ...

        def returns_one(scope, receive, send): ...

        class Instance:
            async def __call__(self, scope, receive, send): ...

        class Awaitable:
            def __init__(self, scope, receive, send): ...

        class Methods:
            async def app(self, scope, receive, send): ...

        async def configured(config, scope, receive, send): ...

        for application in (function, returns_one, Instance(), Awaitable, Methods().app, functools.partial(configured, 1)):
            self.assertEqual(target.kind_of(application), "asgi", application)

    def test_asgi_2_is_refused_by_name(self):
        def function(scope): ...

        class Class:
            def __init__(self, scope): ...

        for application in (function, Class):
            with self.assertRaisesRegex(LoadError, "ASGI 2.*factory"):
                target.kind_of(application)

    def test_what_is_neither_is_refused(self):
        async def asynchronous(one): ...

        for application in (lambda: None, asynchronous, lambda a, b, c, d: None):
            with self.assertRaises(LoadError):
                target.kind_of(application)


class Targets(unittest.TestCase):
    def check(self, named, *options, kind="wsgi", cwd=driver.APPS):
        with Worker(named, *options, cwd=cwd) as worker:
            self.assertIsNotNone(worker.hello, worker.log())
            about = dict(driver.pairs(driver.unblock(worker.hello.payload[14:])[0]))
            self.assertEqual(about["kind"], kind)
            self.assertEqual(worker.get("/").status, 200)

    def test_forms(self):
        for named in ("wsgi_app:application", "wsgi_app", "wsgi_app.py", "wsgi_app.py:application", "./wsgi_app.py"):
            self.check(named)
        self.check("asgi_app:application", kind="asgi")
        self.check("odd.places:make()")
        self.check("odd.places:nested.inner")
        self.check("odd/places.py:make()")
        self.check("apps/odd/places.py:make()", cwd=driver.TESTS)

    def test_a_factory_is_called(self):
        for named in ("odd.places:make", "odd.factory", "odd.factory:create_app", "odd.factory:create_app()", "odd.factory:with_defaults", "odd.factory:Made"):
            self.check(named)
        self.check("""odd.factory:with_arguments("a:b/(c)", debug=True)""")
        self.check("odd.factory:with_arguments('a', debug=[1, {'x': None}])")

    def test_a_package_and_a_manage_py_find_their_application(self):
        application = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'found']\n"
        manage = "import os\n\ndef main():\n    os.environ.setdefault('DJANGO_SETTINGS_MODULE', '%s')\n\nif __name__ == '__main__':\n    main()\n"
        for settings in ("mysite.settings", "mysite.settings.local"):
            with tempfile.TemporaryDirectory() as folder:
                package = pathlib.Path(folder, "mysite")
                package.mkdir()
                (package / "__init__.py").touch()
                (package / "wsgi.py").write_text(application)
                pathlib.Path(folder, "manage.py").write_text(manage % settings)
                for named in ("mysite", "manage.py", "./manage.py"):
                    self.check(named, cwd=folder)

    def test_an_application_is_found_without_its_name(self):
        application = "def %s(environ, start_response):\n    start_response('200 OK', [])\n    return [b'found']\n"
        made = "class Flask:\n    def __call__(self, environ, start_response):\n        start_response('200 OK', [])\n        return [b'found']\n\nsite = Flask()\nsame = site\n"
        factory = "def create_app(config=None):\n    def app(environ, start_response):\n        start_response('200 OK', [])\n        return [b'found']\n    return app\n"
        manage = "import os\n\ndef main():\n    os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')\n"
        for files, targets in (
            ({"main.py": application % "app"}, ("main", "main.py", ".", "{folder}", "{folder}/")),
            ({"app.py": factory}, ("app", ".")),
            ({"api.py": made}, ("api", "api.py", ".")),
            ({"wsgi.py": application % "application", "app.py": "raise SystemExit('not this one')"}, (".",)),
            ({"shop/__init__.py": factory}, ("shop", "shop/", "./shop", ".")),
            ({"shop/__init__.py": "", "shop/main.py": "from . import name\n" + application % "app", "shop/name.py": ""}, ("shop", "shop/", "shop/main.py", ".")),
            ({"site/main.py": application % "app"}, ("./site", "site/")),
            ({"web/main.py": application % "app"}, ("web",)),
            ({"manage.py": manage, "mysite/__init__.py": "", "mysite/wsgi.py": application % "application", "app/__init__.py": ""}, (".", "manage")),
        ):
            with tempfile.TemporaryDirectory() as folder:
                for name, text in files.items():
                    file = pathlib.Path(folder, name)
                    file.parent.mkdir(exist_ok=True)
                    file.write_text(text)
                for named in targets:
                    with self.subTest(named, files=list(files)):
                        self.check(named.format(folder=folder), cwd=folder)

    def test_kind_by_option(self):
        self.check("odd.places:either", "--kind", "asgi", kind="asgi")
        self.check("odd.places:either", "--kind", "wsgi", kind="wsgi")

    def test_modules_of_the_application_are_not_shadowed(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("wire", "log", "target", "fields"):
                pathlib.Path(folder, f"{name}.py").write_text("MINE = True\n")
            pathlib.Path(folder, "main.py").write_text(
                "import wire, log, target, fields\nassert wire.MINE and log.MINE and target.MINE and fields.MINE\n"
                "def app(environ, start_response):\n    start_response('200 OK', [])\n    return [b'mine']\n"
            )
            self.check("main", cwd=folder)


class Failures(unittest.TestCase):
    def log(self, named, *options, env=None, cwd=driver.APPS):
        with Worker(named, *options, hello=False, env=env, cwd=cwd) as worker:
            self.assertIsNone(worker.read())
            self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
            return worker.log()

    def test_a_module_that_is_not_there(self):
        for named, absent in (("nowhere:app", "nowhere"), ("nowhere.wsgi", "nowhere"), ("odd.nowhere", "odd.nowhere")):
            log = self.log(named)
            first, _, rest = log.partition("\n")
            self.assertRegex(first, rf"\Akeepwarm: error: module '{absent}' not found for '{named.split(':')[0]}': not in {driver.APPS} or among the packages of {INTERPRETER} \(")
            self.assertEqual(rest, f"ModuleNotFoundError: No module named '{absent}'\n")
        self.assertIn("; similar names: wsgi_app, asgi_app\n", self.log("wsgi_ap:application"))

    def test_a_package_that_is_not_installed(self):
        log = self.log("odd.lacking:app")
        said = f"keepwarm: error: module 'no_such_package' not found among the packages of {INTERPRETER} ("
        self.assertTrue(log.startswith(said), log)
        self.assertIn("; install it there, or set the app's `interpreter`\nTraceback (most recent call last):\n", log)
        self.assertIn("odd/lacking.py\", line 1", log)
        self.assertTrue(log.endswith("ModuleNotFoundError: No module named 'no_such_package'\n"), log)

    def test_the_virtual_environment_is_named(self):
        from keepwarm import usual

        with unittest.mock.patch("sys.prefix", "/srv/venv"):
            self.assertEqual(usual.interpreter(), f"{sys.executable} (the virtual environment /srv/venv)")
        with unittest.mock.patch("sys.prefix", sys.base_prefix):
            self.assertEqual(usual.interpreter(), f"{sys.executable} (no virtual environment)")

    def test_a_module_that_one_of_pythons_own_hides(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("dis", "time"):
                pathlib.Path(folder, f"{name}.py").write_text("def app(environ, start_response): ...\n")
                for named in (f"{name}:app", f"{name}.py"):
                    self.assertIn(f"Python's own module {name!r} (", self.log(named, cwd=folder))

    def test_a_folder_without_an_application(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(f"no application found in the directory {folder} (no wsgi.py, asgi.py, manage.py, app.py", self.log(folder))
            pathlib.Path(folder, "main.py").touch()
            self.assertIn(f"no application found in the directory {folder} (main.py)", self.log(folder))

    def test_a_manage_py_says_where_its_application_is(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "mysite").mkdir()
            pathlib.Path(folder, "mysite", "__init__.py").touch()
            pathlib.Path(folder, "mysite", "wsgi.py").touch()
            pathlib.Path(folder, "manage.py").write_text("import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')\n")
            self.assertIn("; there is mysite/wsgi.py: try 'mysite.wsgi:application'", self.log("manage:app", cwd=folder))

    def test_a_module_that_fails(self):
        log = self.log("odd.failing")
        self.assertIn("odd/failing.py\", line 3, in deeper", log)
        self.assertIn("ZeroDivisionError", log)
        self.assertNotIn("keepwarm/target.py", log)

    def test_a_module_that_leaves(self):
        self.assertIn("sys.exit(3)", self.log("odd.leaving"))

    def test_a_syntax_error(self):
        self.assertIn("SyntaxError", self.log("odd.syntax"))

    def test_sentences(self):
        for named, said in (
            ("wsgi_app:aplication", "has no attribute 'aplication'; similar names: application"),
            ("wsgi_app:closed", "it cannot be called"),
            ("odd.places", "neither 'application' nor 'app'"),
            ("odd.named", "name the application: 'odd.named:make_shop_app()'"),
            ("odd.several", "name the application: 'odd.several:one' or 'odd.several:two'"),
            ("odd.aiohttp_like:app", "listen on the port in the environment variable PORT"),
            ("odd.factory:wants_one", "If it is a factory, pass its argument"),
            ("odd.factory:makes_nothing", "returned nothing"),
            ("odd.factory:create_app(name)", "must be Python literals"),
            ("odd/nowhere.py", "file 'odd/nowhere.py' not found in"),
            ("odd.places:two", "ASGI 2"),
            ("wsgi_app:closed()", "cannot be called"),
        ):
            log = self.log(named)
            self.assertIn(said, log)
            self.assertNotIn("Traceback", log)

    def test_without_a_descriptor(self):
        import subprocess
        import sys

        environment = {"PYTHONPATH": str(driver.SOURCE), "PATH": "/usr/bin", "KEEPWARM_FD": "three"}
        done = subprocess.run([sys.executable, "-m", "keepwarm", "wsgi_app"], env=environment, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual("keepwarm: KEEPWARM_FD='three' is not the descriptor of a worker; start workers with `keepwarm run`, which sets it\n", done.stderr)


class Lifespan(unittest.TestCase):
    def start(self, behavior, *options, hello=True):
        return Worker("lifespan_app", *options, env={"BEHAVIOR": behavior}, hello=hello)

    def test_an_application_without_lifespan(self):
        with self.start("returns") as worker:
            self.assertEqual(worker.get("/").body, b"{}")
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.log(), "")

    def test_an_application_that_knows_no_lifespan_is_logged_in_one_line(self):
        for behavior, error in (("raises", "ZeroDivisionError: no lifespan here"), ("raises-as-asgiref", "ValueError: WSGI wrapper received a non-HTTP scope")):
            with self.start(behavior) as worker:
                self.assertEqual(worker.get("/").body, b"{}")
                self.assertEqual(worker.drain(), 0)
                self.assertRegex(worker.log(), rf"\A.*raised {error} \(.*lifespan_app\.py, line \d+\)\n\Z")

    def test_what_is_raised_before_the_first_message_is_one_record_with_its_cause(self):
        with self.start("raises-early") as worker:
            self.assertEqual(worker.get("/").body, b"{}")
            self.assertEqual(worker.drain(), 0)
            self.check_record(worker, "keepwarm: warning: the application raised an exception when called for startup", "no settings")

    def test_what_is_raised_in_the_start_up_is_one_record_with_its_cause(self):
        with self.start("raises-in-it") as worker:
            self.assertEqual(worker.get("/").body, b"{}")
            self.assertEqual(worker.drain(), 0)
            self.check_record(worker, "keepwarm: error: the application raised an exception during startup", "in the start-up")

    def check_record(self, worker, begins, ends):
        """The log is one record, with an exception and what it was raised from."""
        lines = worker.raw_log().splitlines()
        self.assertTrue(all(line.endswith("\x1f") for line in lines[:-1]), lines)
        self.assertTrue(lines[0].startswith(begins), lines)
        self.assertIn("OSError: no disk", "\n".join(lines))
        self.assertIn("The above exception was the direct cause", "\n".join(lines))
        self.assertEqual(lines[-1], f"ZeroDivisionError: {ends}")

    def test_exit_in_the_start_up(self):
        with self.start("exits", hello=False) as worker:
            self.assertIsNone(worker.read())
            self.assertEqual(worker.process.wait(driver.PATIENCE), 7)
            self.assertTrue(worker.log().startswith("keepwarm: error: the application called sys.exit(7) during startup\nTraceback"), worker.log())

    def test_one_that_must_take_part_and_does_not(self):
        for behavior, said in (("raises", "ZeroDivisionError"), ("raises-in-it", "OSError: no disk"), ("returns", 'lifespan = "on"')):
            with self.start(behavior, "--lifespan", "on", hello=False) as worker:
                self.assertIsNone(worker.read())
                self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
                self.assertTrue(worker.log().startswith("keepwarm: error: the application does not support"), worker.log())
                self.assertIn(said, worker.log())
                self.assertEqual(worker.log().count("Traceback"), {"raises": 1, "raises-in-it": 2, "returns": 0}[behavior])

    def test_start_up_that_fails(self):
        with self.start("fails", hello=False) as worker:
            self.assertIsNone(worker.read())
            self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
            self.assertEqual(worker.log(), "keepwarm: error: the application's startup failed: no database\n")

    def test_start_up_that_fails_with_an_exception_is_one_record_with_its_cause(self):
        for behavior in ("fails-and-raises", "fails-and-raises-with-nothing-said"):  # as Starlette does, and Litestar
            with self.start(behavior, hello=False) as worker:
                self.assertIsNone(worker.read())
                self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
                self.check_record(worker, "keepwarm: error: the application's startup failed", "no database")
                self.assertEqual(worker.log().count("Traceback"), 2)

    def test_start_up_that_fails_with_a_traceback_for_its_message(self):
        with self.start("fails-with-a-traceback", hello=False) as worker:
            self.assertIsNone(worker.read())
            self.assertEqual(worker.process.wait(driver.PATIENCE), 1)
            self.check_record(worker, "keepwarm: error: the application's startup failed\x1f", "no database")

    def test_shut_down_that_fails_is_logged(self):
        for behavior, said in (("fails-late", "no goodbye"), ("raises-late", "ZeroDivisionError")):
            with self.start(behavior) as worker:
                self.assertEqual(worker.drain(), 0)
                self.assertIn(said, worker.log())

    def test_what_is_raised_behind_the_start_up_is_logged_at_once(self):
        with self.start("raises-between") as worker:
            self.assertEqual(worker.get("/").body, b"{}")
            worker.wait_for_log("ZeroDivisionError: between")
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.log().count("ZeroDivisionError: between"), 1)

    def test_off(self):
        with self.start("fails", "--lifespan", "off") as worker:
            self.assertEqual(worker.get("/").body, b"{}")

    def test_state(self):
        with self.start("state") as worker:
            self.assertEqual(worker.get("/").body, b'{"key": "value"}')

    def test_the_end_of_the_wire_during_start_up(self):
        with self.start("hangs", hello=False) as worker:
            worker.mine.close()
            self.assertEqual(worker.process.wait(driver.PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
