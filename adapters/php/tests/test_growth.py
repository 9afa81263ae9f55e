"""What a worker keeps from one request to the next, while Keepwarm measures it (spec/wire.md §11)."""

import os
import tempfile
import unittest
from collections import Counter

from tests.driver import APPS, END, Worker, pack, pairs, unblock

import wire_leaks
from wire_leaks import begin, measured, next_growth

# What a path keeps: changes that must be there, with the class of what is kept.
KEPT = {
    "/global": {"held;$kept": 1, "object;Shop\\Item": 1},
    "/static": {"held;Shop\\Cart::$all": 1, "object;Shop\\Item": 1},
    "/nested": {'held;Shop\\Cart::$byName["carts"]': 1, "object;Shop\\Item": 1},
    "/variable": {"held;Shop\\Cart::visit()::$visits": 1},
    "/function": {'held;Shop\\seen()::$seen["a"]': 1},
    "/service": {'held;Shop\\Application->container->services["cart.cache"]->entries': 1, "object;Shop\\Item": 1},
    "/instance": {"held;Shop\\Application->numbers": 1},
    "/list": {"object;Shop\\Item": 1},
    "/closure": {"held;Shop\\Collections::$functions": 1, "object;Closure": 1},
    "/queue": {"held;Shop\\Collections::$queue": 1, "object;Shop\\Item": 1},
    "/storage": {"held;Shop\\Collections::$storage": 1, "object;Shop\\Item": 1},
    "/array_object": {"held;Shop\\Collections::$list": 1, "object;Shop\\Item": 1},
    "/heap": {"held;Shop\\Collections::$heap": 1, "object;Shop\\Item": 1},
    "/weak": {"held;Shop\\Collections::$map": 1, "held;Shop\\Cart::$all": 1, "object;Shop\\Item": 2},
    "/enum": {"held;Shop\\Collections::$suits": 1},
    "/ghost": {"held;Shop\\Collections::$ghosts": 1, "object;Shop\\Ghost": 1},
    "/anonymous": {"held;Shop\\Cart::$all": 1, "object;class@anonymous (growth_app.php:223)": 1},
    "/request": {"held;Shop\\Cart::$all": 1, "object;Keepwarm\\Request": 1},
    "/shutdown": {"held;Shop\\Cart::$all": 1, "object;Shop\\Item": 1},
    "/destroy": {"held;Shop\\Cart::$all": 1, "object;Shop\\Item": 1},
}


class Growth(unittest.TestCase):
    def start(self, *options):
        worker = Worker("growth_app.php", *options)
        self.addCleanup(worker.stop)
        return worker

    def measuring(self):
        worker = self.start()
        self.assertEqual(begin(worker).changes, {})
        return worker

    def kept(self, worker, path, warm=2, **more):
        for _ in range(warm):
            measured(worker, path, **more)
        return measured(worker, path, **more).changes

    def test_what_is_kept_has_its_name(self):
        worker = self.measuring()
        for path, wanted in KEPT.items():
            found = self.kept(worker, path)
            self.assertEqual({name: found[name] for name in wanted}, wanted, f"{path}: {found}")
            others = set(found) - set(wanted) - {"memory"}
            self.assertFalse([name for name in others if found[name] < 0 or name.startswith("held;Shop")], f"{path}: {found}")
            self.assertEqual(worker.log(), "")


    def test_nothing_is_loaded_to_be_looked_at(self):
        worker = self.measuring()
        measured(worker, "/static")
        self.assertEqual(worker.log(), "")
        self.assertEqual(self.kept(worker, "/later")["held;Shop\\later()::$later"], 1)
        self.assertIn("the class Late is loaded", worker.log())

    def test_memory_that_is_in_no_new_object(self):
        worker = self.measuring()
        self.assertEqual(sum(measured(worker, "/text").changes["memory"] for _ in range(20)) // 100_000, 2)

    def test_an_application_that_keeps_nothing(self):
        worker = self.measuring()
        paths = ["/", "/big", "/garbage", "/cycle", "/print", "/" + "long" * 50]
        for number in range(36):
            growth = measured(worker, paths[number % 6], query="q=" + "x" * number, fields=[("x-more", "y" * 7 * number)])
            if number >= 12:
                self.assertEqual(growth.changes, {}, paths[number % 6])

    def test_bodies_are_not_kept(self):
        worker = self.measuring()
        form = b"name=" + b"n" * 5_000
        for number in range(12):
            body = form[: 100 * number + 6]
            fields = [("content-type", "application/x-www-form-urlencoded"), ("content-length", str(len(body)))]
            growth = measured(worker, "/", method="POST", body=body, fields=fields)
            if number > 3:
                self.assertEqual(growth.changes, {}, number)

    def test_a_search_that_is_cut_loses_nothing(self):
        """What it did not come to is not taken for gone."""
        worker = self.measuring()
        self.keeps_one(worker, "/static")
        for path in ("/huge", "/static"):
            found = measured(worker, path).changes
            self.assertFalse([name for name, change in found.items() if change < 0], found)
        self.keeps_one(worker, "/static")

    def test_what_goes_is_negative(self):
        worker = self.measuring()
        for _ in range(4):
            measured(worker, "/static")
        found = measured(worker, "/shrink").changes
        self.assertEqual((found["held;Shop\\Cart::$all"], found["object;Shop\\Item"]), (-4, -4), found)
        self.assertLess(found["memory"], 0)

    def keeps_one(self, worker, path, status=200, **more):
        found = self.kept(worker, path, status=status, **more)
        self.assertEqual((found["held;Shop\\Cart::$all"], found["object;Shop\\Item"]), (1, 1), found)

    def test_a_request_that_fails(self):
        worker = self.measuring()
        self.keeps_one(worker, "/throw", status=None)
        self.keeps_one(worker, "/static")

    def test_an_application_that_exits(self):
        worker = self.measuring()
        self.keeps_one(worker, "/exit", warm=4)
        self.keeps_one(worker, "/exit")
        self.keeps_one(worker, "/static")

    def test_a_destructor_that_throws_when_garbage_is_collected(self):
        worker = self.measuring()
        for _ in range(3):
            measured(worker, "/late")
        self.keeps_one(worker, "/static")
        self.assertIn("as it should", worker.log())

    def test_a_request_whose_client_leaves(self):
        worker = self.measuring()
        self.keeps_one(worker, "/static", warm=4)
        stream = worker.request("/read", method="POST", flags=0, length=4)
        worker.reset(stream)
        growth = next_growth(worker)
        self.assertEqual(growth.request, stream)
        self.keeps_one(worker, "/static")

    def test_a_request_during_which_keepwarm_drains(self):
        worker = self.measuring()
        stream = worker.request("/read", method="POST", flags=0, length=4)
        worker.send(pack("DRAIN"))
        worker.data(stream, b"body", True)
        self.assertEqual(worker.response(stream).status, 200)
        self.assertEqual(next_growth(worker).request, stream)
        self.assertEqual(worker.process.wait(10), 0)

    def test_its_end_during_a_request(self):
        worker = self.measuring()
        stream = worker.request("/read", method="POST", flags=0, length=4)
        wire_leaks.end(worker)
        worker.data(stream, b"body", True)
        self.assertEqual(worker.response(stream).status, 200)
        worker.get("/")
        self.assertEqual(worker.held, [])
        begin(worker)
        self.keeps_one(worker, "/static")

    def test_its_end_at_once(self):
        worker = self.start()
        for _ in range(3):
            worker.send(pack("LEAKS") + pack("LEAKS", flags=END))
            self.assertEqual(next_growth(worker).request, 0)
        worker.get("/")
        self.assertEqual(worker.held, [])

    def test_nothing_is_left_when_it_is_over(self):
        worker = self.start()
        sizes = []
        for _ in range(4):
            begin(worker)
            for _ in range(3):
                measured(worker, "/big")
            wire_leaks.end(worker)
            # A request whose frame comes in one read with the END before it finds 3,320 bytes less than one that comes later.
            worker.get("/")
            sizes.append(int(worker.get("/memory").body))
        # A measurement that stays has more than 1,000 bytes.
        self.assertLess(sizes[3] - sizes[1], 1_000, sizes)

    def test_the_limit_of_memory_is_the_applications(self):
        worker = self.start("-d", "memory_limit=24M")
        begin(worker)
        for _ in range(4):
            measured(worker, "/garbage")
            measured(worker, "/limit")
            self.assertEqual(worker.get("/setting").body, b"24M")
            next_growth(worker)
        self.assertNotIn("memory limit", worker.log())

    def test_each_request_of_one_read_is_measured(self):
        worker = self.start()
        requests = [worker.request("/static", send=False)[1] for _ in range(6)]
        worker.send(pack("LEAKS") + b"".join(requests) + pack("LEAKS", flags=END))
        self.assertEqual([next_growth(worker).request for _ in range(6)], [0, 1, 2, 3, 4, 5])
        found = next_growth(worker)
        self.assertEqual((found.request, found.changes["held;Shop\\Cart::$all"]), (6, 1))
        worker.get("/")
        self.assertEqual(worker.held, [])

    def ends(self, reason, action):
        worker = self.start()
        action(worker)
        while worker.read() is not None:
            pass
        self.assertEqual(worker.process.wait(10), 1)
        self.assertIn(reason, worker.log())

    def test_frames_that_are_faults(self):
        def twice(worker):
            begin(worker)
            worker.send(pack("LEAKS"))

        def within(worker):
            worker.request("/read", method="POST", flags=0, length=4)
            worker.send(pack("LEAKS"))

        def together(worker):
            begin(worker)
            worker.request("/read", method="POST", flags=0, length=4)
            worker.request("/")

        self.ends("no LEAKS before it", wire_leaks.end)
        self.ends("LEAKS while the worker measures", twice)
        self.ends("LEAKS during a request", within)
        self.ends("before the GROWTH of stream 1", together)

    def test_a_worker_says_that_it_can(self):
        self.assertIn(("leaks", "1"), pairs(unblock(self.start().hello.payload[14:])[0]))

    def test_long_and_odd_names(self):
        worker = self.measuring()
        found = self.kept(worker, "/names", warm=0)
        names = [name for name in found if name.startswith("held;Shop\\Names")]
        self.assertEqual(len(names), 99, "the largest")
        self.assertTrue(all(len(name) <= 405 for name in names), names)
        self.assertIn('held;Shop\\Names::$all["a b?c"]', names)



class Frameworks(unittest.TestCase):
    EXAMPLES = APPS.parents[3] / "examples"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, entry, **more):
        worker = Worker(entry, **more)
        self.addCleanup(worker.stop)
        begin(worker)
        return worker

    def symfony(self):
        return self.start("growth_symfony.php", env={"TEST_CACHE": self.folder})

    def keeps_nothing(self, worker, *paths):
        """A framework may keep its last request: what that adds to one path, the next takes away."""
        for _ in range(3):
            for path in paths:
                measured(worker, path, status=None)
        sums = Counter()
        for _ in range(20 // len(paths)):
            for path in paths:
                sums.update(measured(worker, path, status=None).changes)
        self.assertEqual({name: change for name, change in sums.items() if change}, {}, worker.log())

    def test_symfony(self):
        self.keeps_nothing(self.symfony(), "/page", "/missing")

    def test_the_example_of_symfony(self):
        env = {"APP_ENV": "prod", "APP_DEBUG": "0", "APP_CACHE_DIR": self.folder}
        worker = self.start("public/index.php", cwd=self.EXAMPLES / "symfony", env=env)
        self.keeps_nothing(worker, "/", "/products", "/missing", "/whoami")

    def test_the_example_of_slim(self):
        worker = self.start("public/index.php", cwd=self.EXAMPLES / "slim")
        self.keeps_nothing(worker, "/", "/products", "/missing")

    def test_laravel(self):
        for name in ("framework/sessions", "framework/views", "bootstrap"):
            os.makedirs(os.path.join(self.folder, name))
        caches = {"APP_SERVICES_CACHE": f"{self.folder}/bootstrap/services.php", "APP_PACKAGES_CACHE": f"{self.folder}/bootstrap/packages.php"}
        worker = self.start("laravel/app.php", env={"TEST_STORAGE": self.folder, "TEST_RETURN": "", **caches})
        self.keeps_nothing(worker, "/", "/token", "/missing")

    def test_a_service_of_symfony(self):
        worker = self.symfony()
        for _ in range(3):
            measured(worker, "/price")
        changes = measured(worker, "/price").changes
        self.assertEqual(changes["object;ArrayObject"], 1, changes)
        self.assertEqual(changes['held;App\\Kernel->container->services["shop.prices"]->known'], 1, changes)

    def test_a_service_that_symfony_resets(self):
        self.keeps_nothing(self.symfony(), "/basket")


if __name__ == "__main__":
    unittest.main()
