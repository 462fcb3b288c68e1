#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What `meson install` installs, as a program of somebody else's uses it: by pkg-config, with the
one header, and the manual pages; and the build folder by itself, in `meson devenv`.

environment: MESON, BUILD: the program and the build folder; SANITIZE: what it was built with;
MANUAL: whether there are pages.
"""
import os
import pathlib
import tempfile
import unittest

from api import CC, EXAMPLES, HEADER, SANITIZER, STRICT, good, read_pages, run

MESON, BUILD = os.environ["MESON"], os.environ["BUILD"]
MANUAL = os.environ["MANUAL"] == "true"
PROGRAMS = ("kv-server", "kv-cli", "kv-bw", "kv-lat", "kv-bench", "kv-rcu-bench", "kv-inspect",
            "softrdma-run", "hello", "cache_aside", "pipeline")
VERSION_PROGRAM = r"""
#include <gracekv.h>
#include <stdio.h>

int main(void)
{
	printf("%s\n%d.%d.%d\n%06x\n", gkv_version(), GKV_VERSION_MAJOR, GKV_VERSION_MINOR,
	       GKV_VERSION_PATCH, (unsigned)GKV_VERSION_NUMBER);
	return 0;
}
"""


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name) / "root"
        rc, out, err = run(MESON, "install", "--no-rebuild", "-C", BUILD, "--destdir", cls.root)
        assert rc == 0, out + err
        cls.pc = next(cls.root.rglob("gracekv.pc"))
        cls.library = next(cls.root.rglob("libgracekv.so.0"))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def pkg_config(self, *args):
        """The system's packages are known too, those that the library needs among them."""
        return good("pkg-config", *args, "gracekv", env={
            "PKG_CONFIG_PATH": str(self.pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(self.root)})

    @staticmethod
    def devenv(*command):
        return good(MESON, "devenv", "-C", BUILD, *command)

    def build(self, source, name, flags):
        program = pathlib.Path(self.temporary.name) / name
        good(*CC, *STRICT, *SANITIZER, "-x", "c", "-", "-o", program, *flags, text=source)
        return program

    def run_installed(self, program):
        return run(program, env={"LD_LIBRARY_PATH": str(self.library.parent),
                                 "GRACEKV_SERVER": "127.0.0.1:1", "GRACEKV_DEVICE": "soft0"})

    def test_pkg_config(self):
        flags = self.pkg_config("--cflags", "--libs").split()
        self.assertIn("-lgracekv", flags)
        self.assertEqual([flag for flag in flags if flag.startswith("-l")], ["-lgracekv"],
                         "a program needs none of the libraries that this one is made with")
        for flag in flags:
            if flag[:2] in ("-I", "-L"):
                self.assertTrue(pathlib.Path(flag[2:]).is_dir(), flag)

    def test_a_program_against_what_is_installed(self):
        flags = self.pkg_config("--cflags", "--libs").split()
        program = self.build(VERSION_PROGRAM, "version", flags)
        rc, out, err = self.run_installed(program)
        self.assertEqual((rc, err), (0, ""))
        version = self.pkg_config("--modversion").strip()
        number = "".join(f"{int(part):02x}" for part in version.split("."))
        self.assertEqual(out.split(), [version, version, number])

    def test_examples_against_what_is_installed(self):
        flags = self.pkg_config("--cflags", "--libs").split()
        sources = sorted(EXAMPLES.glob("*.c"))
        self.assertIn(EXAMPLES / "hello.c", sources)
        for source in sources:
            with self.subTest(example=source.name):
                text = source.read_text("utf-8")
                self.build(text, source.stem, flags)
                self.assertLess(len(text.splitlines()), 150, "an example is short")
        rc, out, err = self.run_installed(pathlib.Path(self.temporary.name) / "hello")
        self.assertEqual((rc, out), (3, ""))
        self.assertRegex(err, r"^hello: .*127\.0\.0\.1:1.*\n$")

    def test_hello_in_the_environment_of_the_build(self):
        """By `meson devenv`: the programs, the uninstalled .pc, the library, the manual pages."""
        hello = pathlib.Path(self.temporary.name) / "hello-built"
        flags = self.devenv("pkg-config", "--cflags", "--libs", "gracekv").split()
        self.assertIn(f"-L{BUILD}/client", flags)
        good(*CC, *STRICT, *SANITIZER, EXAMPLES / "hello.c", "-o", hello, *flags)
        rc, out, err = run(MESON, "devenv", "-C", BUILD, hello,
                           env={"GRACEKV_SERVER": "127.0.0.1:1", "GRACEKV_DEVICE": "soft0"})
        self.assertEqual((rc, out), (3, ""))
        self.assertRegex(err, r"^hello: .*127\.0\.0\.1:1.*\n$")
        for name in PROGRAMS:
            self.assertEqual(self.devenv("sh", "-c", 'command -v "$0"', name),
                             f"{BUILD}/bin/{name}\n")
        first, rest = self.devenv("sh", "-c", 'echo "$MANPATH"').split(":", 1)
        self.assertEqual(pathlib.Path(first, "man3", "gkv_get.3").is_file(), MANUAL)
        self.assertIn("", rest.strip().split(":"), "the system's pages are still found")

    def test_sees_a_library_that_is_not_named(self):
        flags = [flag for flag in self.pkg_config("--cflags", "--libs").split()
                 if flag != "-lgracekv"]
        with self.assertRaises(AssertionError):
            self.build(VERSION_PROGRAM, "unlinked", flags)

    def test_one_header_is_installed(self):
        headers = list(self.root.rglob("*.h"))
        self.assertEqual([path.name for path in headers], ["gracekv.h"])
        self.assertEqual(headers[0].read_bytes(), HEADER.read_bytes())

    @unittest.skipUnless(MANUAL, "the pages were not built")
    def test_pages_are_installed(self):
        folder = next(self.root.rglob("man3"))
        names = {name for page in read_pages().values() for name in page.named}
        self.assertEqual({path.name for path in folder.iterdir()}, {f"{name}.3" for name in names})
        for path in folder.iterdir():
            first = path.read_text("utf-8").split("\n")[0]
            if first.startswith(".so "):
                self.assertTrue((folder.parent / first[4:]).is_file(), first)


if __name__ == "__main__":
    unittest.main()
