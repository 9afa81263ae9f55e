"""Two visitors, one worker: what the first changes in the process, the second does not find."""

import json
import os
import tempfile
import unittest

from tests import driver
from tests.driver import Worker, wire_driver
from tests.test_forms import fields, multipart, part

REFUSED = 6


class Visitors:
    """The cases in an application of one kind."""

    entry = "reset.php"
    env = {}

    def start(self, *options, **env):
        worker = Worker(self.entry, *options, env={"TEST_ENV": "of the site", **self.env, **env})
        self.addCleanup(worker.stop)
        return worker

    def see(self, worker, name):
        response = worker.get(f"/see/{name}")
        self.assertEqual(response.status, 200, (name, response, worker.log()[-2000:]))
        return json.loads(response.body)

    def put_back(self, *names, options=(), **env):
        worker = self.start(*options, **env)
        for name in names:
            before = self.see(worker, name)
            for _ in range(2):
                self.assertEqual(worker.get(f"/touch/{name}").status, 200, (name, worker.log()[-2000:]))
                self.assertEqual(self.see(worker, name), before, (name, worker.log()[-2000:]))
        return worker

    def replaced(self, name):
        """The worker asks to be replaced after the request that changed it."""
        worker = self.start()
        first, second = worker.request(f"/touch/{name}", send=False), worker.request("/", send=False)
        worker.send(first[1] + second[1])
        self.assertEqual(worker.response(first[0]).status, 200)
        # One that crossed is not served: Keepwarm gives it to another worker.
        self.assertEqual(worker.response(second[0]).reset[0], REFUSED)
        self.assertIn("DRAIN", [frame.name for frame in worker.held])
        self.assertEqual(worker.get("/").reset[0], REFUSED)
        self.assertEqual(worker.drain(), 0)
        self.assertIn("cannot be restored; the worker is replaced", worker.log())

    def fails(self, response):
        return response.status == 500 or response.reset is not None

    def test_settings(self):
        self.put_back("precision", "display_errors", "user_agent", "session.gc_probability", "mbstring.language")

    def test_settings_that_other_functions_change(self):
        self.put_back("set_include_path", "gc_disable", "assert_options")

    def test_what_the_application_set_is_put_back_after_ini_restore(self):
        self.put_back("ini_restore")

    def test_a_setting_that_cannot_be_put_back_replaces_the_worker(self):
        self.replaced("open_basedir")

    def test_the_rewriting_of_urls_which_php_begins_once_replaces_the_worker(self):
        for name in ("rewrite var", "trans sid"):
            self.replaced(name)

    def test_settings_of_sessions_that_were_never_begun(self):
        self.put_back("session cookie", "session path", "session cache")

    def test_stream_wrappers(self):
        self.put_back("new wrapper", "wrapper removed", "wrapper replaced", "new wrapper")

    def test_the_default_stream_context(self):
        self.replaced("default context")

    def test_the_environment(self):
        for options in ((), ("-d", "ffi.enable=0")):
            self.put_back("putenv new", "putenv changed", "putenv removed", options=options)

    def test_libxmls_loader_of_entities(self):
        self.put_back("entity loader")

    def test_regular_expressions_of_mbstring(self):
        self.put_back("mb_regex_set_options")

    def test_place_and_language_of_the_process(self):
        self.put_back("umask", "working directory", "time zone", "locale")

    def in_a_folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = os.path.join(folder.name, "lock")
        open(file, "w").close()
        return {"TMPDIR": folder.name, "TEST_FILE": file}

    def test_locks_and_files(self):
        self.put_back("lock", "semaphore", "open file", **self.in_a_folder())

    def test_an_open_transaction(self):
        self.put_back("transaction", "transaction of a persistent connection", **self.in_a_folder())

    def test_uploads(self):
        worker = self.start(**self.in_a_folder())
        before = self.see(worker, "upload")
        self.assertEqual(before, [[], [], []])
        body = multipart(part("file", "content", "x.txt"), part("name", "visitor"))
        for _ in range(2):
            response = worker.get("/touch/upload", method="POST", body=body, fields=fields(body))
            self.assertEqual(json.loads(response.body), {"file": [True, True]}, worker.log())
            self.assertEqual(self.see(worker, "upload"), before)

    def test_what_functions_remember(self):
        self.put_back("strtok", "json_last_error", "spl_autoload_extensions", "memory peak")

    def test_the_last_errors_of_extensions(self):
        self.put_back("preg_last_error", "date errors", "intl error")

    def test_language_and_encoding_of_extensions(self):
        self.put_back("intl locale", "iconv encoding")

    def test_how_mysqli_reports(self):
        self.put_back("mysqli_report", "mysqli_driver")

    def test_the_streams_of_libxml(self):
        self.put_back("libxml context", "libxml_disable_entity_loader")
        worker = self.put_back("libxml context", TEST_LIBXML="1")
        self.assertEqual(self.see(worker, "libxml context"), {"http": {"header": "X-Site: 1"}})

    def test_what_mbstring_searches(self):
        self.put_back("mb_ereg_search")

    def test_the_callback_of_assert(self):
        self.put_back("assert callback", options=("-d", "zend.assertions=1"))

    def test_settings_that_session_start_was_given(self):
        self.put_back("session_start options")

    def test_the_cache_of_stat(self):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            worker = self.start(TEST_FILE=file.name)
        self.assertEqual(worker.get("/touch/stat cache").body, b"true")
        os.unlink(file.name)
        self.assertEqual(self.see(worker, "stat cache"), False)

    def test_random_numbers_are_not_those_of_another_visitor(self):
        for name in ("seed", "seed of PHP 5"):
            worker = self.start()
            seen = []
            for _ in range(3):
                worker.get(f"/touch/{name}")
                seen.append(self.see(worker, name))
            self.assertEqual(len({str(numbers) for numbers in seen}), 3, name)

    def test_random_numbers_that_somebody_used_do_not_go_on(self):
        # From the first three of a visitor's numbers nobody can say what the next visitor gets: a generator of the same seed is at another place.
        worker = self.start()
        for _ in range(200):
            worker.get("/")
        first = self.see(worker, "seed")
        self.assertEqual(len({str(self.see(worker, "seed")) for _ in range(5)} | {str(first)}), 6)

    def test_a_handler_that_a_framework_sets_in_its_first_request_only(self):
        worker = self.start()
        for _ in range(3):
            worker.get("/touch/lazy handler")
            self.assertTrue(self.fails(worker.get("/see/lazy handler")), worker.log())
        self.assertIn("lazily: ", worker.log())
        worker.get("/touch/handler")
        self.assertTrue(self.fails(worker.get("/see/lazy handler")))


class Callable(Visitors, unittest.TestCase):
    def test_an_environment_that_is_empty(self):
        with WithoutEnvironment("reset.php") as worker:
            for _ in range(2):
                self.assertEqual(self.see(worker, "putenv new"), False)
                worker.get("/touch/putenv new")

    def test_the_wrapper_of_files(self):
        self.put_back("file wrapper replaced")

    def test_settings_without_our_ini_set(self):
        self.put_back("precision", "user_agent", options=("-d", "disable_functions="))

    def test_what_destructors_and_finally_change_behind_the_response(self):
        for name in ("late in exception", "late and throws", "late in request", "late in fiber", "late in generator"):
            with self.subTest(name):
                worker = self.start()
                before = self.see(worker, name)
                for _ in range(2):
                    worker.get(f"/touch/{name}")
                    self.assertEqual(self.see(worker, name), before, worker.log()[-2000:])

    def test_a_buffer_that_a_destructor_begins_behind_the_response(self):
        worker = self.start()
        for _ in range(2):
            self.assertEqual(worker.get("/touch/late buffer").body, b"1")
            self.assertEqual(self.see(worker, "late buffer"), 0)
        self.assertEqual(worker.log(), "late IN A BUFFER\n" * 2)

    def test_no_loader_of_ours_among_the_applications(self):
        self.assertEqual(self.see(self.start(), "autoloaders"), 0)

    def test_buffers_that_the_application_never_began(self):
        worker = self.start()
        self.assertEqual(worker.get("/touch/buffers removed").body, b"leftnull")
        for _ in range(2):
            self.assertEqual(self.see(worker, "buffers removed"), True)

    def test_a_handler_of_errors_that_a_request_set(self):
        worker = self.start()
        self.assertEqual(worker.get("/touch/handler").status, 200)
        self.assertIn('Undefined global variable $none', worker.log_of(lambda: worker.get("/see/handler")))

    def test_a_handler_that_a_framework_sets_in_each_request(self):
        worker = self.start()
        for _ in range(2):
            worker.get("/touch/handler again")
        for _ in range(2):
            self.assertEqual(worker.get("/see/handler again").body, b'""', worker.log())
            worker.get("/touch/handler again")


class WithoutEnvironment(wire_driver.Worker):
    """A worker that has no variables but the one that names its wire."""

    def __init__(self, entry):
        alone = ["sh", "-c", 'exec env -i KEEPWARM_FD="$KEEPWARM_FD" "$@"', "sh"]
        super().__init__([*alone, *driver.command(entry)], cwd=driver.APPS)


class Psr15(Visitors, unittest.TestCase):
    entry = "visitors.php"
    env = {"TEST_KIND": "psr15"}


class SlimThree(Visitors, unittest.TestCase):
    entry = "visitors.php"
    env = {"TEST_KIND": "slim"}


class WithFolder(Visitors):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)


class Symfony(WithFolder, unittest.TestCase):
    entry = "visitors.php"

    @property
    def env(self):
        return {"TEST_KIND": "symfony", "TEST_CACHE": self.folder.name}


class Laravel(WithFolder, unittest.TestCase):
    entry = "laravel/app.php"

    @property
    def env(self):
        storage = self.folder.name
        for folder in ("framework/sessions", "framework/views", "bootstrap"):
            os.makedirs(os.path.join(storage, folder), exist_ok=True)
        return {"TEST_CASES": "1", "TEST_STORAGE": storage, "APP_SERVICES_CACHE": f"{storage}/bootstrap/services.php", "APP_PACKAGES_CACHE": f"{storage}/bootstrap/packages.php"}


class ShutdownFunctions(unittest.TestCase):
    def test_they_print_into_their_own_page(self):
        with Worker("reset.php") as worker:
            for name, body in (
                ("shutdown", b"page behind visitor"), ("shutdown array", b"page behind"), ("shutdown pieces", b"page behind"), ("shutdown nested", b"page one two"),
                ("shutdown throws", b"page"),
            ):
                response = worker.get(f"/touch/{name}", query="visitor")
                self.assertEqual((response.status, response.body, response.reset), (200, body, None), name)
                self.assertEqual(worker.get(f"/see/{name}").body, b"page", name)
            self.assertIn("Exception: behind", worker.log())
            self.assertNotIn("the script ends", worker.log())
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.log().count("the script ends"), 1)

    def test_exit_calls_those_of_its_own_request(self):
        with Worker("reset.php") as worker:
            worker.get("/touch/shutdown", query="earlier")
            for _ in range(2):
                self.assertEqual(worker.get("/touch/shutdown and exit").body, b"page behind")
            self.assertNotIn("the script ends", worker.log())
            self.assertEqual(worker.drain(), 0)
            self.assertEqual(worker.log().count("the script ends"), 1)

    def test_without_sessions_exit_still_delivers(self):
        with Worker("reset.php", "-d", "disable_functions=session_register_shutdown," + driver.disabled()) as worker:
            self.assertEqual(worker.get("/touch/shutdown", query="visitor").body, b"page behind visitor")
            self.assertEqual(worker.get("/touch/shutdown and exit").body, b"page behind")
            self.assertEqual(worker.drain(), 0)


if __name__ == "__main__":
    unittest.main()
