"""PHP's own sessions: the id from the cookie, the cookie with the response, nothing left for the next request."""

import json
import os
import select
import tempfile
import unittest

from tests.driver import Worker, is_over, pack


class Sessions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.worker = Worker("plain.php", "-d", f"session.save_path={self.folder.name}", "-d", "session.use_strict_mode=1")
        self.addCleanup(self.worker.stop)

    def visit(self, path="/session", cookie=None):
        response = self.worker.get(path, fields=[("cookie", cookie)] if cookie else [])
        cookies = response.field("set-cookie")
        return response.body.decode(), cookies[0].split(";")[0] if cookies else None, response

    def test_a_visitor_comes_back(self):
        first, cookie, response = self.visit()
        self.assertEqual(cookie, "PHPSESSID=" + first.split()[0])
        self.assertEqual(response.field("cache-control"), ["no-store, no-cache, must-revalidate"])
        self.assertEqual(first.split()[1], "1")
        for count in ("2", "3"):
            again, set_again, _ = self.visit(cookie=cookie)
            self.assertEqual((again, set_again), (f"{first.split()[0]} {count}", None))

    def test_visitors_are_kept_apart(self):
        (first, one, _), (second, two, _) = self.visit(), self.visit()
        self.assertNotEqual(one, two)
        self.assertEqual(self.visit(cookie=one)[0].split()[1], "2")
        self.assertEqual(self.visit(cookie=two)[0].split()[1], "2")
        self.assertEqual(self.visit()[0].split()[1], "1")

    def test_nothing_is_left_for_a_request_without_a_session(self):
        _, cookie, _ = self.visit()
        self.assertEqual(json.loads(self.visit("/session-none")[0]), ["", False, True])
        body, set_cookie, response = self.visit("/", cookie=cookie)
        self.assertEqual((body, set_cookie, response.field("cache-control")), ("hello", None, []))

    def test_a_new_id_is_sent(self):
        _, cookie, _ = self.visit()
        body, renewed, _ = self.visit("/session-new-id", cookie=cookie)
        self.assertEqual(renewed, "PHPSESSID=" + body)
        self.assertNotEqual(renewed, cookie)
        self.assertEqual(self.visit(cookie=renewed)[0], f"{body} 2")

    def test_strict_mode_and_ids_that_are_none(self):
        for bad in ("PHPSESSID=chosenbytheclient", "PHPSESSID=../../etc/passwd", "PHPSESSID=", "PHPSESSID[]=x"):
            self.visit()
            body, cookie, _ = self.visit(cookie=bad)
            self.assertEqual(cookie, "PHPSESSID=" + body.split()[0], bad)
            self.assertEqual(body.split()[1], "1")

    def test_settings_of_one_request_are_not_those_of_the_next(self):
        _, _, response = self.visit("/session-settings")
        self.assertIn("SameSite=Strict", response.field("set-cookie")[0])
        _, _, response = self.visit()
        self.assertRegex(response.field("set-cookie")[0], "^PHPSESSID=[^;]*; path=/$")
        self.assertEqual(response.field("cache-control"), ["no-store, no-cache, must-revalidate"])

    def test_what_is_said_about_caching_behind_session_start_counts(self):
        never = ["no-store, no-cache, must-revalidate"]
        for query, control, pragma in (("", never, ["no-cache"]), ("after=1", ["max-age=5"], ["no-cache"]), ("remove=1", never, [])):
            response = self.worker.get("/session-caching", query=query)
            self.assertEqual((response.field("cache-control"), response.field("pragma"), response.field("x-kept")), (control, pragma, ["1"]), query)

    def test_a_page_whose_session_was_destroyed_is_not_cached(self):
        _, cookie, _ = self.visit()
        for query in ("", "array=1"):
            response = self.worker.get("/session-destroyed", query=query, fields=[("cookie", cookie)])
            self.assertEqual((response.body, response.field("cache-control")), (b"destroyed", ["no-store, no-cache, must-revalidate"]), query)
            self.assertEqual((response.field("pragma"), response.field("set-cookie")), (["no-cache"], []))
        self.assertEqual(self.visit("/")[2].field("cache-control"), [])

    def test_a_name_in_the_options_of_session_start_is_named(self):
        self.visit()
        self.assertIn("session_start() got the name OPTION in its options", self.worker.log_of(lambda: self.visit("/session-options")))

    def test_a_session_is_written_before_its_visitor_has_the_response(self):
        here, go = os.path.join(self.folder.name, "here"), os.path.join(self.folder.name, "go")
        os.mkfifo(here)
        os.mkfifo(go)
        for how in ("string", "array", "printed", "exit", "pieces", "flushed"):
            with Worker("plain.php", env={"TEST_FIFO_OUT": here, "TEST_FIFO_IN": go}) as worker:
                stream = worker.request("/session-written", query=f"how={how}")
                with open(here) as line:
                    line.readline()
                worker.send(pack("PING", payload=b"12345678"))  # nobody reads it while the session is written
                begun = select.select([worker.mine], [], [], 0)[0] != []
                self.assertEqual(begun, how in ("pieces", "flushed"), how)
                if begun:
                    self.assertFalse(is_over(worker.take(stream, lambda response: response.frames)), how)
                with open(go, "w") as line:
                    line.write("\n")
                self.assertEqual(worker.response(stream).body, b"x", how)

    def test_a_session_that_php_begins_by_itself(self):
        with Worker("plain.php", "-d", f"session.save_path={self.folder.name}", "-d", "session.auto_start=1") as worker:
            first = worker.get("/session-automatic")
            name, number = json.loads(first.body)
            cookie = first.field("set-cookie")[0].split(";")[0]
            self.assertEqual((cookie, number), (f"PHPSESSID={name}", 1))
            other, number = json.loads(worker.get("/session-automatic").body)
            self.assertEqual((other != name, number), (True, 1))
            again = worker.get("/session-automatic", fields=[("cookie", cookie)])
            self.assertEqual((json.loads(again.body), again.field("set-cookie")), ([name, 2], []))
            self.assertEqual(sorted(os.listdir(self.folder.name)), sorted(f"sess_{one}" for one in (name, other)))

    def test_an_id_from_the_query_or_a_form_where_the_site_allows_it(self):
        options = ("-d", f"session.save_path={self.folder.name}", "-d", "session.auto_start=1", "-d", "session.use_only_cookies=0")
        with Worker("plain.php", *options) as worker:
            name = json.loads(worker.get("/session-automatic").body)[0]
            self.assertEqual(json.loads(worker.get("/session-automatic", query=f"PHPSESSID={name}").body), [name, 2])
            self.assertEqual(json.loads(worker.post("/session-automatic", {"PHPSESSID": name}).body), [name, 3])
        with Worker("plain.php", *options[:4]) as worker:
            self.assertNotEqual(json.loads(worker.get("/session-automatic", query=f"PHPSESSID={name}").body)[0], name)

    def test_two_names_are_two_sessions(self):
        _, one, _ = self.visit()
        body, two, _ = self.visit("/session-other", cookie=one)
        self.assertEqual(two, "OTHER=" + body.split()[0])
        self.assertEqual(self.visit("/session-other", cookie=f"{one}; {two}")[0], f"{body.split()[0]} 2")


if __name__ == "__main__":
    unittest.main()
