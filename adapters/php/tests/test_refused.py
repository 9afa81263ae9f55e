"""Applications of frameworks that are not known to be safe when they are kept: refused at the start, by name."""

import unittest

from tests.driver import PATIENCE, Worker

FASTCGI = 'Serve it with kind = "fastcgi"'


class Refused(unittest.TestCase):
    def refusal(self, app):
        with Worker("refused/app.php", env={"TEST_APP": app}, hello=False) as worker:
            self.assertIsNone(worker.read(), app)
            self.assertEqual(worker.process.wait(PATIENCE), 1, app)
            return worker.log()

    def test_laravel_is_never_called_from_a_closure(self):
        for app in ("laravel closure", "laravel method"):
            log = self.refusal(app)
            self.assertIn("keepwarm: Illuminate\\Foundation\\Application is Laravel's. Return the Laravel application itself", log, app)
        self.assertIn("Illuminate\\Http\\Request is Laravel's.", self.refusal("laravel request"))

    def test_other_frameworks_are_refused_by_name(self):
        for app, message in (
            ("lumen", "Laravel\\Lumen\\Application is Lumen's. A Lumen application is not safe"),
            ("silex", "Silex\\Application is Silex's."),
            ("drupal", "Drupal\\Core\\DrupalKernel is Drupal's."),
            ("cake", "Shop\\CakeApplication is CakePHP's."),
        ):
            log = self.refusal(app)
            self.assertIn(message, log)
            self.assertIn(FASTCGI, log)

    def test_a_kernel_of_an_unknown_package_is_refused(self):
        self.assertIn("Shop\\Kernel is an HttpKernelInterface that Keepwarm does not know", self.refusal("package"))

    def test_a_kernel_of_the_applications_own_is_served(self):
        for app in ("own", "wrapped"):
            with Worker("refused/app.php", env={"TEST_APP": app}) as worker:
                self.assertEqual(worker.get("/").body, b"served", app)


if __name__ == "__main__":
    unittest.main()
