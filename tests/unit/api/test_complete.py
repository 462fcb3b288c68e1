#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Every function of the public API is in the header, in the version script and in these tests.

environment: MAP: gracekv.map; HEADER: gracekv.h; TESTS: the folder of the tests.
"""
import os
import pathlib
import re
import unittest

MAP, HEADER = pathlib.Path(os.environ["MAP"]), pathlib.Path(os.environ["HEADER"])
TESTS = pathlib.Path(os.environ["TESTS"])


def code(text):
    """C without its comments and strings: a function that is only spoken of is not called."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", text, flags=re.DOTALL)


def of_map(text):
    return set(re.findall(r"^\s+(gkv_\w+);", text, re.MULTILINE))


def of_header(text):
    """Declarations with GKV_API: exported ones."""
    return set(re.findall(r"^GKV_API[^;{}]*?\b(gkv_\w+)\s*\(", code(text), re.MULTILINE))


def inline(text):
    """Those of the header's own, each over an exported one: {name: the function called}."""
    return dict(re.findall(r"^static inline [^;{}]*?\b(gkv_\w+)\s*\([^{}]*\{[^}]*?\b(gkv_\w+)\s*\(",
                           code(text), re.MULTILINE))


def called(text):
    return set(re.findall(r"\b(gkv_\w+)\s*\(", code(text)))


def problems(map_text, header_text, tests_text):
    exported, declared = of_map(map_text), of_header(header_text)
    used, wrappers = called(tests_text), inline(header_text)
    found = [f"{name}: is exported, and not declared" for name in sorted(exported - declared)]
    found += [f"{name}: is declared, and not exported" for name in sorted(declared - exported)]
    for name in sorted(exported | declared | set(wrappers)):
        if name not in used:
            found.append(f"{name}: is in no test of its contract")
    return found


class Complete(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.map, cls.header = MAP.read_text(), HEADER.read_text()
        cls.tests = "\n".join(path.read_text() for path in sorted(TESTS.glob("*.c")))

    def test_every_function_has_tests(self):
        self.assertGreaterEqual(len(of_map(self.map)), 29)
        self.assertEqual(problems(self.map, self.header, self.tests), [])

    # Mutants: the check must see each.

    def assert_seen(self, found, text):
        self.assertTrue(any(text in one for one in found), found)

    def test_sees_a_function_without_tests(self):
        for name in sorted(of_map(self.map) | set(inline(self.header))):
            rest = re.sub(rf"\b{name}\b", "gkv_other", self.tests)
            self.assert_seen(problems(self.map, self.header, rest), f"{name}: is in no test")

    def test_sees_a_function_that_is_only_spoken_of(self):
        tests = re.sub(r"\bgkv_ping\b", "gkv_other", self.tests) + '\n/* gkv_ping() */ "gkv_ping()"'
        self.assert_seen(problems(self.map, self.header, tests), "gkv_ping: is in no test")

    def test_sees_what_is_exported_or_declared_alone(self):
        for name in sorted(of_map(self.map)):
            found = problems(self.map.replace(f"\t{name};", ""), self.header, self.tests)
            self.assert_seen(found, f"{name}: is declared, and not exported")
            header = re.sub(rf"\b{name}\b", "gkv_other", self.header)
            self.assert_seen(problems(self.map, header, self.tests), f"{name}: is exported, and n")


if __name__ == "__main__":
    unittest.main()
