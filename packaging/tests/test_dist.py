"""What `make dist` adds to the packages: how the program is compiled, bills of materials, and one version for everything."""

import json
import os
import pathlib
import re
import subprocess
import tomllib
import unittest
import unittest.mock

import serving

import binary
import dist
import packages
import sbom


class Bill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = packages.read_binary(serving.binary())
        (cls.content,) = sbom.build([cls.program]).values()
        cls.bill = json.loads(cls.content)

    def test_two_builds_give_the_same_bytes(self):
        self.assertEqual(sbom.build([self.program]), {f"keepwarm-{packages.version()}-{self.program.arch}.cdx.json": self.content})

    def test_it_names_the_program_by_its_hash(self):
        about = self.bill["metadata"]["component"]
        self.assertEqual((about["name"], about["version"]), ("keepwarm", packages.version()))
        self.assertEqual(about["hashes"], [{"alg": "SHA-256", "content": packages.sha256(self.program.content)}])

    def test_it_has_what_cargo_links_and_nothing_else(self):
        libc = "musl" if self.program.static else "gnu"
        command = ["cargo", "tree", "--locked", "-p", "keepwarm", "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", "--target", f"{self.program.arch}-unknown-linux-{libc}"]
        tree = subprocess.run(command, cwd=packages.ROOT, check=True, capture_output=True, text=True).stdout
        expected = {tuple(line.split()[:2]) for line in tree.splitlines() if line} - {("keepwarm", f"v{packages.version()}")}
        found = {(each["name"], f"v{each['version']}") for each in self.bill["components"]}
        self.assertEqual(expected - found, set())
        # cargo tree knows the features of this program alone, the metadata those of the workspace.
        self.assertLess(len(found - expected), 20, found - expected)

    def test_every_component_has_a_licence_and_a_hash_unless_it_is_ours(self):
        for each in self.bill["components"]:
            self.assertTrue(each["licenses"][0]["expression"], each)
            self.assertEqual("hashes" in each, not each["name"].startswith("keepwarm-"), each)

    def test_every_reference_leads_to_a_component_once(self):
        refs = [self.bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in self.bill["components"])]
        self.assertEqual(len(refs), len(set(refs)))
        self.assertEqual(sorted(refs), sorted(each["ref"] for each in self.bill["dependencies"]))
        self.assertLessEqual({ref for each in self.bill["dependencies"] for ref in each["dependsOn"]}, set(refs))

    def test_c_code_that_crates_bring(self):
        bundled = {inner["name"]: inner.get("version") for each in self.bill["components"] for inner in each.get("components", [])}
        self.assertEqual(set(bundled), {"AWS-LC", "mimalloc", "zstd"})
        self.assertRegex(bundled["zstd"], r"^1\.\d+\.\d+$")


# Each copy is compared with one that was made byte by byte.
COPIES = """
#include <stdio.h>
#include <string.h>

static unsigned char source[70000], copied[70000], expected[70000];

static int differs(size_t size, size_t from, size_t to, int moves) {
    const size_t all = size + 200;
    for (size_t place = 0; place < all; place++) {
        source[place] = place * 31 % 251;
        copied[place] = expected[place] = moves ? source[place] : 255;
    }
    for (size_t place = 0; place < size; place++)
        expected[to + place] = source[from + place];
    void *result = moves ? memmove(copied + to, copied + from, size) : memcpy(copied + to, source + from, size);
    if (result == copied + to && memcmp(copied, expected, all) == 0)
        return 0;
    printf("%s of %zu from %zu to %zu\\n", moves ? "memmove" : "memcpy", size, from, to);
    return 1;
}

int main(void) {
    static const size_t large[] = {511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 65537};
    static const size_t ways[][2] = {{0, 0}, {0, 1}, {1, 0}, {3, 17}, {17, 3}, {0, 64}, {64, 0}, {5, 100}, {100, 5}};
    int wrong = 0;
    for (size_t count = 0; count < 300 + sizeof large / sizeof *large; count++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
            for (int moves = 0; moves < 2; moves++)
                wrong += differs(count < 300 ? count : large[count - 300], ways[way][0], ways[way][1], moves);
    return wrong != 0;
}
"""


class Compilation(unittest.TestCase):
    def setUp(self):
        self.tools = binary.Tools()

    def test_no_path_of_this_machine_is_left_for_the_program(self):
        with unittest.mock.patch.dict(os.environ, {"CARGO_HOME": "/somewhere/cargo", "CARGO_TARGET_DIR": "/elsewhere/target"}):
            flags = binary.settings("x86_64-unknown-linux-musl", self.tools)
        rust = flags["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")
        for old in ("/somewhere/cargo", "/elsewhere/target", str(packages.ROOT), str(self.tools.sysroot)):
            self.assertEqual(len([flag for flag in rust if flag.startswith(f"--remap-path-prefix={old}=")]), 1, old)
            self.assertIn(f"-ffile-prefix-map={old}=", flags["CFLAGS_x86_64_unknown_linux_musl"])

    def test_settings_of_a_user_do_not_change_the_program(self):
        with unittest.mock.patch.dict(os.environ, {"RUSTFLAGS": "-Ctarget-cpu=native", "CFLAGS": "-O0", "CARGO_PROFILE_DIST_LTO": "off", "CC_x86_64_unknown_linux_musl": "gcc"}):
            kept = binary.clean_environment()
        self.assertEqual([name for name in kept if name.startswith(("RUSTFLAGS", "CFLAGS", "CARGO_PROFILE", "CC_"))], [])
        self.assertIn("PATH", kept)

    def test_crates_of_a_profile_exist(self):
        """cargo ignores a crate in a profile that is not in the lock file."""
        with open(packages.ROOT / "Cargo.toml", "rb") as file:
            named = tomllib.load(file)["profile"]["dist"]["package"]
        with open(packages.ROOT / "Cargo.lock", "rb") as file:
            locked = {name for each in tomllib.load(file)["package"] for name in (each["name"], f"{each['name']}@{each['version']}")}
        self.assertLessEqual(set(named), locked)

    def test_the_compiler_of_c_code_leaves_rusts_name_of_the_target_out(self):
        folder = serving.directory(self.addCleanup)
        fake = folder / "zig"
        fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        fake.chmod(0o755)
        env = {**serving.CLEAN, "TARGET": "aarch64-unknown-linux-musl", "KEEPWARM_ZIG": str(fake)}
        line = [serving.PACKAGING / "cc", "-O3", "--target=aarch64-unknown-linux-musl", "-DNAME=two words", "-c", "x.c"]
        said = serving.run(line, cwd="/", env=env).splitlines()
        self.assertEqual(said, ["cc", "-target", "aarch64-linux-musl", "-fno-sanitize=all", "-O3", "-DNAME=two words", "-c", "x.c"])
        said = serving.run(line, cwd="/", env={**env, "TARGET": "x86_64-unknown-linux-gnu"}, status=1)
        self.assertEqual(said, "packaging/cc: TARGET=x86_64-unknown-linux-gnu: expected ARCH-unknown-linux-musl\n")

    def test_the_allocator_is_mimalloc_under_every_libc(self):
        """Which shows on request that it is there, and how many pages it holds."""
        path = serving.binary().partition("=")[2]
        said = serving.run([path, "--version"], cwd="/", env={**serving.CLEAN, "MIMALLOC_SHOW_STATS": "1"})
        self.assertRegex(said, r"(?m)^ +pages +: +[1-9]")

    @unittest.skipUnless(os.uname().machine == "x86_64", "these functions are for x86_64")
    def test_copies_of_every_length_and_distance(self):
        """`memcpy` and `memmove` are not those of Rust's C library."""
        folder = serving.directory(self.addCleanup)
        (folder / "copies.c").write_text(COPIES)
        program = folder / "copies"
        with unittest.mock.patch.dict(os.environ, {"CARGO_TARGET_DIR": str(folder / "target")}):
            copying = binary.copying_object("x86_64", self.tools, folder)
            self.assertEqual(binary.memory_functions("aarch64", self.tools), [])
        subprocess.run(["cc", "-O2", "-fno-builtin", "-o", program, folder / "copies.c", copying], check=True)
        self.assertEqual(subprocess.run([program], check=True, capture_output=True, text=True).stdout, "")
        # Its symbols, and those alone.
        found = subprocess.run(["nm", "--extern-only", "--defined-only", "--format=just-symbols", copying], check=True, capture_output=True, text=True)
        self.assertEqual(found.stdout.split(), ["memcpy", "memmove"])

    def test_a_program_is_optimized_for_what_was_recorded(self):
        folder = serving.directory(self.addCleanup)
        with unittest.mock.patch.dict(os.environ, {"CARGO_TARGET_DIR": str(folder)}):
            for arch in packages.MACHINES:
                flags = binary.optimization(arch)
                self.assertEqual(bool(flags), binary.recorded(arch).exists())
                for flag in flags[:1]:
                    option, _, file = flag.partition("=")
                    self.assertEqual((option, pathlib.Path(file).parent.parent), ("-Cprofile-use", folder))
                    # LLVM's indexed format.
                    self.assertEqual(pathlib.Path(file).read_bytes()[:8], b"\xfflprofi\x81")

    def test_zig_that_is_not_installed(self):
        with unittest.mock.patch.object(binary, "VENV", pathlib.Path("/nonexistent")):
            with self.assertRaisesRegex(packages.PackagingError, "zig is not in /nonexistent: run `scripts/setup dist`"):
                binary.Tools()


class Limits(unittest.TestCase):
    def test_a_program_over_its_limit_is_refused(self):
        program = serving.directory(self.addCleanup) / "keepwarm"
        program.write_bytes(bytes(10))
        record = program.with_name("record")
        with unittest.mock.patch.object(binary, "LIMIT", 10):
            dist.check_size("x86_64", program)
        with unittest.mock.patch.object(binary, "LIMIT", 9), unittest.mock.patch.object(binary, "recorded", lambda arch: record):
            with self.assertRaisesRegex(packages.PackagingError, "keepwarm is built, but has 10 bytes, over the limit of 9: see"):
                dist.check_size("x86_64", program)
            record.touch()
            with self.assertRaisesRegex(packages.PackagingError, "may be older than the source .packaging/pgo.py"):
                dist.check_size("x86_64", program)

    def test_files_of_an_earlier_run_are_removed_and_others_are_not(self):
        out = serving.directory(self.addCleanup)
        for name in ("old", "kept", "mine"):
            (out / name).touch()
        (out / dist.SUMS).write_text("0  old\n0  kept\n0  ../mine\n")
        dist.remove_old(out, {"kept": "0"})
        self.assertEqual({path.name for path in out.iterdir()}, {"kept", "mine", dist.SUMS})


class Version(unittest.TestCase):
    def test_the_changelog_and_every_key_know_the_version(self):
        """`Since` in the reference is a release, or the version of this source."""
        changes = (packages.ROOT / "CHANGELOG.md").read_text()
        releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changes, re.MULTILINE)
        self.assertEqual(releases[0], packages.version())
        since = set(re.findall(r"^\* Since: (.*)$", (packages.ROOT / "docs/reference/configuration.md").read_text(), re.MULTILINE))
        self.assertLessEqual(since, set(releases))


if __name__ == "__main__":
    unittest.main()
