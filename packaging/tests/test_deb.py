"""The Debian package: the same bytes twice, what lintian says, and what it installs serves."""

import functools
import hashlib
import unittest
import unittest.mock

import roots
import serving

import deb
import packages
import system


@functools.cache
def built():
    """The package; built once for all tests."""
    out = serving.directory(unittest.addModuleCleanup) / "out"
    serving.build("deb.py", out)
    (path,) = out.glob("*.deb")
    return path


class Files(unittest.TestCase):
    def test_two_builds_give_the_same_bytes(self):
        again = serving.directory(self.addCleanup) / "again"
        sums = serving.build("deb.py", again, umask="077")
        self.assertEqual(sums, {built().name: hashlib.sha256(built().read_bytes()).hexdigest()})

    def test_debians_own_checks_find_nothing(self):
        said = serving.run(["lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", "--allow-root", built()], cwd="/", env=serving.CLEAN)
        self.assertEqual(said, "")

    def test_only_configuration_is_the_administrators(self):
        said = serving.run(["dpkg-deb", "--info", built(), "conffiles"], cwd="/", env=serving.CLEAN)
        self.assertEqual(said, "/etc/keepwarm/keepwarm.toml\n/etc/logrotate.d/keepwarm\n")

    def test_everything_belongs_to_root(self):
        said = serving.run(["dpkg-deb", "--contents", built()], cwd="/", env=serving.CLEAN)
        self.assertEqual({line.split()[1] for line in said.splitlines()}, {"root/root"})
        modes = {line.split()[-1]: line.split()[0] for line in said.splitlines()}
        self.assertEqual(modes["./usr/bin/keepwarm"], "-rwxr-xr-x")
        self.assertEqual(modes["./etc/keepwarm/keepwarm.toml"], "-rw-r--r--")

    def test_a_program_for_glibc_names_its_version(self):
        program = packages.read_binary(serving.binary())
        fields = deb.control(program, [])
        self.assertEqual("libc6" in fields, not program.static)

    def test_a_version_without_changes_is_refused(self):
        with unittest.mock.patch.object(packages, "version", lambda: "9.9.9"):
            with self.assertRaisesRegex(packages.PackagingError, r"CHANGELOG.md: no heading `## \[9.9.9\]`"):
                system.changes()


class Installed(roots.Installed, unittest.TestCase):
    zsh = "/usr/share/zsh/vendor-completions/_keepwarm"

    @classmethod
    def setUpClass(cls):
        cls.root = install(cls.addClassCleanup)


def install(add_cleanup):
    root = roots.installed(add_cleanup)
    root.write("var/tmp/keepwarm.deb", "")
    (root.upper / "var/tmp/keepwarm.deb").write_bytes(built().read_bytes())
    root.run(["dpkg", "--install", "/var/tmp/keepwarm.deb"])
    return root


class Life(unittest.TestCase):
    """Installed, upgraded, removed and purged."""

    def test_a_changed_configuration_stays_until_the_purge(self):
        root = install(self.addCleanup)
        configuration = "/etc/keepwarm/keepwarm.toml"
        root.run(["mkdir", "/usr/share/keepwarm/adapters/python/src/keepwarm/__pycache__"])
        root.run(["sh", "-c", f"echo '# mine' >>{configuration}"])
        root.run(["dpkg", "--install", "/var/tmp/keepwarm.deb"])
        self.assertIn("# mine", root.run(["cat", configuration]))
        root.run(["dpkg", "--remove", "keepwarm"])
        self.assertIn("# mine", root.run(["cat", configuration]))
        self.assertEqual(root.run(["sh", "-c", "command -v keepwarm"], status=127), "")
        root.run(["dpkg", "--purge", "keepwarm"])
        left = root.run(["sh", "-c", "find /etc /usr /var -path '*keepwarm*' -not -path '/usr/src/*' -not -path '/var/tmp/*' -not -path '/var/lib/dpkg/*'"])
        self.assertEqual(left, "")

    def test_the_service_is_enabled(self):
        root = install(self.addCleanup)
        self.assertEqual(root.run(["readlink", "/etc/systemd/system/multi-user.target.wants/keepwarm.service"]), "/lib/systemd/system/keepwarm.service\n")

    def test_the_files_are_those_that_the_package_lists(self):
        self.assertEqual(install(self.addCleanup).run(["dpkg", "--verify", "keepwarm"]), "")


if __name__ == "__main__":
    unittest.main()
