"""The RPM package: the same bytes twice, and what it installs serves."""

import functools
import hashlib
import unittest

import roots
import serving


@functools.cache
def built():
    """The package; built once for all tests."""
    out = serving.directory(unittest.addModuleCleanup) / "out"
    serving.build("rpm.py", out)
    (path,) = out.glob("*.rpm")
    return path


def query(*arguments):
    return serving.run(["rpm", "--query", "--package", *arguments, built()], cwd="/", env=serving.CLEAN)


class Files(unittest.TestCase):
    def test_two_builds_give_the_same_bytes(self):
        again = serving.directory(self.addCleanup) / "again"
        sums = serving.build("rpm.py", again, umask="077")
        self.assertEqual(sums, {built().name: hashlib.sha256(built().read_bytes()).hexdigest()})

    def test_only_configuration_is_the_administrators(self):
        self.assertEqual(query("--configfiles"), "/etc/keepwarm/keepwarm.toml\n/etc/logrotate.d/keepwarm\n")

    def test_files_belong_to_root_and_data_to_the_service(self):
        rows = [row.split() for row in query("--queryformat", "[%{FILENAMES} %{FILEUSERNAME} %{FILEMODES:perms}\\n]").splitlines()]
        self.assertEqual({name for name, user, _ in rows if user != "root"}, {"/var/lib/keepwarm", "/var/log/keepwarm"})
        modes = {name: mode for name, _, mode in rows}
        self.assertEqual((modes["/usr/bin/keepwarm"], modes["/var/log/keepwarm"]), ("-rwxr-xr-x", "drwxr-x---"))

    def test_its_digests_are_right(self):
        self.assertIn("digests OK", serving.run(["rpm", "--checksig", "--nosignature", built()], cwd="/", env=serving.CLEAN))


def install(add_cleanup):
    """With an empty database: none of its requirements is known to rpm on Debian."""
    root = roots.installed(add_cleanup)
    (root.upper / "var/tmp").mkdir(parents=True)
    (root.upper / "var/tmp/keepwarm.rpm").write_bytes(built().read_bytes())
    root.run(["rpm", "--install", "--force-debian", "--nodeps", "/var/tmp/keepwarm.rpm"])
    return root


class Installed(roots.Installed, unittest.TestCase):
    zsh = "/usr/share/zsh/site-functions/_keepwarm"

    @classmethod
    def setUpClass(cls):
        cls.root = install(cls.addClassCleanup)

    def test_rpm_finds_it_whole(self):
        self.assertEqual(self.root.run(["rpm", "--verify", "--nodeps", "keepwarm"]), "")


class Life(unittest.TestCase):
    def test_a_changed_configuration_is_kept(self):
        root = install(self.addCleanup)
        root.run(["mkdir", "/usr/share/keepwarm/adapters/python/src/keepwarm/__pycache__"])
        root.run(["sh", "-c", "echo '# mine' >>/etc/keepwarm/keepwarm.toml"])
        root.run(["rpm", "--upgrade", "--force", "--force-debian", "--nodeps", "/var/tmp/keepwarm.rpm"])
        self.assertIn("# mine", root.run(["cat", "/etc/keepwarm/keepwarm.toml"]))
        root.run(["rpm", "--erase", "--force-debian", "--nodeps", "keepwarm"])
        self.assertIn("# mine", root.run(["cat", "/etc/keepwarm/keepwarm.toml.rpmsave"]))
        self.assertEqual(root.run(["sh", "-c", "ls -d /usr/bin/keepwarm /usr/share/keepwarm /usr/share/doc/keepwarm /usr/share/licenses/keepwarm 2>/dev/null || true"]), "")


if __name__ == "__main__":
    unittest.main()
