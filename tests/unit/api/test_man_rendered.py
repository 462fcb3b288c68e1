#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The manual pages as a reader sees them: no warnings, no line too long, examples that compile
when they are copied from the screen, and a page for each function.

environment: MAN: where the build wrote the pages.
"""
import os
import pathlib
import re
import shutil
import sys
import unittest

from api import CC, INCLUDE, STRICT, read_pages, run

MAN = pathlib.Path(os.environ["MAN"])
COLUMNS = 80
GROFF = ["groff", "-ww", "-man", "-Tutf8", f"-rLL={COLUMNS - 2}n"]
PLAIN = ["-P-c", "-P-b", "-P-o", "-P-u"]  # no colours, no bold, no underlining
EXAMPLE = re.compile(r"^EXAMPLE\n(.*?)^(?=\S)", re.S | re.M)


def screen(source):
    """What is shown of a page; and what groff has to say about it."""
    rc, out, err = run(*GROFF, *PLAIN, text=source)
    return out, err + (f"exit {rc}" if rc else "")


def problems(name, source):
    shown, complaints = screen(source)
    if complaints:
        yield f"{name}: {complaints}"
    for line in shown.splitlines():
        if len(line) > COLUMNS:
            yield f"{name}: more than {COLUMNS} columns: {line}"
        if "\u2010" in line:
            yield f"{name}: a word is divided: {line}"
    example = EXAMPLE.search(shown)
    if not example:
        yield f"{name}: shows no EXAMPLE"
        return
    rc, _, err = run(*CC, "-std=gnu17", *STRICT, f"-I{INCLUDE}", "-fsyntax-only", "-x", "c", "-",
                     text=example.group(1))
    if rc:
        yield f"{name}: its example, copied from the screen, does not compile:\n{err}"


class Rendered(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.pages = read_pages()

    def source(self, name):
        return (MAN / f"{name}.3").read_text("utf-8")

    def test_pages_look_well(self):
        for name in self.pages:
            with self.subTest(page=name):
                self.assertEqual(list(problems(name, self.source(name))), [])

    def test_each_function_has_a_page(self):
        """Its own, or one that leads there; and there are no others."""
        wanted = {f"{name}.3": page.name for page in self.pages.values() for name in page.named}
        self.assertEqual({path.name for path in MAN.glob("*.3")}, set(wanted))
        for file, page in wanted.items():
            if file != f"{page}.3":
                self.assertEqual((MAN / file).read_text("utf-8"), f".so man3/{page}.3\n")

    # Mutants: the check must see each.

    def assert_seen(self, words, old, new, page="gkv_get"):
        source = self.source(page)
        self.assertIn(old, source)
        found = list(problems(page, source.replace(old, new)))
        self.assertTrue(any(words in one for one in found), found)

    def test_sees_warnings(self):
        self.assert_seen("warning", "\n.SH THREADS", "\n.nosuchmacro\n.SH THREADS")

    def test_sees_long_lines(self):
        self.assert_seen("more than 80", "int print_user(", f"int {'x' * 70};\nint print_user(")

    def test_sees_divided_words(self):
        self.assert_seen("is divided", "\n.nh\n", "\n")

    def test_sees_examples_that_do_not_compile(self):
        self.assert_seen("does not compile", "struct gkv_meta meta;", "struct gkv_meta mtea;")
        self.assert_seen("does not compile", "stderr,", "stderr, \\(rq")


if __name__ == "__main__":
    if not shutil.which("groff"):
        print("groff is not installed")
        sys.exit(77)
    unittest.main()
