"""The Ruby gems: the same bytes twice, and Sinatra and Rails apps served from what RubyGems has installed from the files.

The frameworks are those of the system (Debian's ruby-sinatra, ruby-rails, ruby-bundler), which an empty GEM_HOME can use.
"""

import functools
import os
import signal
import subprocess
import sys
import tarfile
import unittest

import serving
from test_wheel import program

import gem
import packages

SINATRA = """require "sinatra"

get("/") { "hello from Sinatra in #{settings.environment} by #{RbConfig.ruby}, bundle: #{defined?(Bundler) ? 'yes' : 'no'}" }
"""
RACKUP = 'require_relative "app"\nrun Sinatra::Application\n'
RAILS = {
    "Gemfile": 'source "https://rubygems.org"\ngem "rails"\ngem "keepwarm"\n',
    "config/boot.rb": 'ENV["BUNDLE_GEMFILE"] ||= File.expand_path("../Gemfile", __dir__)\nrequire "bundler/setup"\n',
    "config/application.rb": """require_relative "boot"
require "rails"
require "action_controller/railtie"
Bundler.require(*Rails.groups)

class Hello < Rails::Application
  config.load_defaults 6.1
  config.eager_load = false
  config.secret_key_base = "for the tests of the gem"
  config.hosts.clear
end
""",
    "config/environment.rb": 'require_relative "application"\nRails.application.initialize!\n',
    "config/routes.rb": 'Rails.application.routes.draw { root to: "hello#show" }\n',
    "app/controllers/hello_controller.rb": """class HelloController < ActionController::Base
  def show
    render plain: "hello from Rails in #{Rails.env}"
  end
end
""",
    "config.ru": 'require_relative "config/environment"\nrun Rails.application\n',
    "bin/rails": """#!/usr/bin/env ruby
APP_PATH = File.expand_path("../config/application", __dir__)
require_relative "../config/boot"
require "rails/commands"
""",
}


@functools.cache
def built():
    """The directory in which the command has built the gems; once for all tests."""
    out = serving.directory(unittest.addModuleCleanup) / "out"
    serving.build("gem.py", out)
    return out


class Folder(unittest.TestCase):
    """With the gems, and a directory that the tests of a class share."""

    @classmethod
    def setUpClass(cls):
        cls.folder = serving.directory(cls.addClassCleanup)
        cls.out = built()
        cls.plain = cls.out / f"keepwarm-{packages.version()}.gem"
        (cls.native,) = (path for path in cls.out.iterdir() if path != cls.plain)

    @classmethod
    def install(cls, name, file):
        """An empty GEM_HOME with the gem: its environment."""
        home = cls.folder / name
        env = {**serving.CLEAN, "GEM_HOME": str(home), "PATH": f"{home}/bin:{serving.CLEAN['PATH']}"}
        serving.run(["gem", "install", "--norc", "--local", "--no-document", file], cwd=cls.folder, env=env)
        return env

    @classmethod
    def site(cls, name, files):
        site = cls.folder / name
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        return site


class Files(Folder):
    def test_two_builds_give_the_same_bytes(self):
        sums = serving.build("gem.py", self.folder / "again", umask="077")
        self.assertEqual(sums, {path.name: packages.sha256(path.read_bytes()) for path in self.out.iterdir()})
        self.assertEqual(set(sums), {self.plain.name, self.native.name})

    def test_only_the_programs_are_executable(self):
        with tarfile.open(self.native) as archive, tarfile.open(fileobj=archive.extractfile("data.tar.gz")) as files:
            modes = {member.name: member.mode & 0o777 for member in files}
        arch = os.uname().machine
        self.assertEqual({name for name, mode in modes.items() if mode != 0o644}, {"exe/keepwarm", "exe/keepwarm-worker", f"exe/{arch}-linux/keepwarm"})
        self.assertEqual(modes["exe/keepwarm"], 0o755)

    def test_the_platform_is_that_of_the_binary(self):
        symbols = program("x86_64", (packages.PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0"), strings=b"\0GLIBC_2.34\0")
        self.assertEqual(self.platforms({"x86_64": program("x86_64"), "aarch64": program("aarch64")}), {"ruby", "x86_64-linux", "aarch64-linux"})
        self.assertEqual(self.platforms({"x86_64": symbols}), {"ruby", "x86_64-linux-gnu"})

    def platforms(self, contents):
        """Those that the specifications in the gems name."""
        for arch, content in contents.items():
            (self.folder / arch).write_bytes(content)
        gems = gem.build([packages.read_binary(f"{arch}={self.folder / arch}") for arch in contents])
        for name, content in gems.items():
            (self.folder / name).write_bytes(content)
        code = 'require "rubygems/package"; ARGV.each { |file| puts Gem::Package.new(file).spec.original_platform }'
        found = serving.run(["ruby", "-e", code, *gems], cwd=self.folder, env=serving.CLEAN).splitlines()
        suffixes = {"" if platform == "ruby" else f"-{platform}" for platform in found}
        self.assertEqual(set(gems), {f"keepwarm-{packages.version()}{suffix}.gem" for suffix in suffixes})
        return set(found)

    def test_a_static_program_suits_every_libc(self):
        code = "exit ARGV.each_cons(2).all? { |gem, host| Gem::Platform.new(gem) === Gem::Platform.new(host) }"
        for host in ("x86_64-linux", "x86_64-linux-musl"):
            serving.run(["ruby", "-e", code, "x86_64-linux", host], cwd=self.folder, env=serving.CLEAN)

    def test_without_rubygems_the_message_says_what_to_install(self):
        line = [sys.executable, serving.PACKAGING / "gem.py", "--binary", serving.binary(), "--out", self.folder / "nothing"]
        said = serving.run(line, cwd=self.folder, env={"PATH": "/nowhere", "SOURCE_DATE_EPOCH": "1"}, status=1)
        self.assertEqual(said, "packaging: program `gem` not found in PATH; install Ruby with RubyGems, for example `apt install ruby`\n")
        self.assertFalse((self.folder / "nothing").exists())


class Installed(Folder):
    """The platform's gem in an empty GEM_HOME, without the network."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.env = cls.install("gems", cls.native)
        cls.sinatra = cls.site("sinatra", {"app.rb": SINATRA, "config.ru": RACKUP})
        bundled = {"app.rb": SINATRA, "config.ru": RACKUP, "Gemfile": 'source "https://rubygems.org"\ngem "sinatra"\ngem "keepwarm"\n'}
        cls.bundled = cls.bundle("bundled", bundled)

    @classmethod
    def bundle(cls, name, files):
        site = cls.site(name, files)
        serving.run(["bundle", "install", "--local", "--quiet"], cwd=site, env=cls.env)
        return site

    def assert_serves(self, line, *, cwd, body, number=signal.SIGTERM, **env):
        with serving.Served(line, cwd=cwd, env={**self.env, **env}) as served:
            self.assertEqual(served.get(), (200, body), served.output)
            served.stop(number)

    def sinatra_body(self, environment, bundle):
        ruby = subprocess.run(["ruby", "-e", "print RbConfig.ruby"], env=self.env, check=True, capture_output=True, text=True).stdout
        return f"hello from Sinatra in {environment} by {ruby}, bundle: {bundle}"

    def test_sinatra_by_keepwarm_run(self):
        self.assert_serves(["keepwarm", "run", "config.ru", "--bind", "127.0.0.1:0"], cwd=self.sinatra, body=self.sinatra_body("production", "no"))

    def test_sinatra_by_bundle_exec(self):
        line = ["bundle", "exec", "keepwarm", "run", "config.ru", "--bind", "127.0.0.1:0"]
        self.assert_serves(line, cwd=self.bundled, body=self.sinatra_body("production", "yes"))

    def test_the_bundle_is_that_of_the_variable(self):
        """In a directory that has no Gemfile of its own."""
        line = ["bundle", "exec", "keepwarm", "run", "config.ru", "--bind", "127.0.0.1:0"]
        self.assert_serves(line, cwd=self.sinatra, body=self.sinatra_body("production", "yes"), BUNDLE_GEMFILE=str(self.bundled / "Gemfile"))

    def test_sinatra_by_rackup(self):
        line = ["rackup", "-s", "keepwarm", "-o", "127.0.0.1", "-p", "0", "-E", "test"]
        self.assert_serves(line, cwd=self.sinatra, body=self.sinatra_body("test", "no"), number=signal.SIGINT)

    def test_rackup_in_the_bundle_with_its_defaults_for_development(self):
        line = ["bundle", "exec", "rackup", "-s", "keepwarm", "-p", "0", "-O", "Workers=1"]
        self.assert_serves(line, cwd=self.bundled, body=self.sinatra_body("development", "yes"))

    def test_rails_server(self):
        site = self.bundle("rails", RAILS)
        for option, environment in (["-e", "production"], "production"), ([], "development"):
            line = ["ruby", "bin/rails", "server", "-u", "keepwarm", "-p", "0", *option]
            self.assert_serves(line, cwd=site, body=f"hello from Rails in {environment}")

    def test_exit_status_and_messages_are_the_programs(self):
        self.assertEqual(serving.run(["keepwarm", "--version"], cwd=self.folder, env=self.env), f"keepwarm {packages.version()}\n")
        self.assertIn("unrecognized subcommand 'rnu'", serving.run(["keepwarm", "rnu"], cwd=self.folder, env=self.env, status=2))
        with serving.Served(["keepwarm", "run", "config.ru", "--bind", "127.0.0.1:0"], cwd=self.sinatra, env=self.env) as served:
            line = ["rackup", "-s", "keepwarm", "-o", "127.0.0.1", "-p", str(served.port)]
            self.assertIn(f"127.0.0.1:{served.port}", serving.run(line, cwd=self.sinatra, env=self.env, status=1))

    def test_it_is_removed_whole(self):
        env = self.install("removed", self.native)
        serving.run(["gem", "uninstall", "--norc", "--executables", "keepwarm"], cwd=self.folder, env=env)
        self.assertEqual([str(path) for path in (self.folder / "removed").rglob("*keepwarm*")], [])


class Plain(Folder):
    """The gem without a program."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.env = cls.install("gems", cls.plain)

    def test_the_message_says_how_to_get_one(self):
        said = serving.run(["keepwarm", "run", "config.ru"], cwd=self.folder, env=self.env, status=1)
        self.assertRegex(said, r"\Akeepwarm: program `keepwarm` not found for \S+-linux: .*KEEPWARM_BIN to its path\n\Z")

    def test_the_variable_names_a_program(self):
        env = {**self.env, "KEEPWARM_BIN": serving.binary().partition("=")[2]}
        self.assertEqual(serving.run(["keepwarm", "--version"], cwd=self.folder, env=env), f"keepwarm {packages.version()}\n")


if __name__ == "__main__":
    unittest.main()
