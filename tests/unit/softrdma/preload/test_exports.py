#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What libsoftrdma-preload.so exports against what the installed libibverbs does.

environment: PRELOAD, LIBIBVERBS: the two libraries; TABLE: not_interposed.txt.
"""
import functools
import os
import re
import subprocess
import unittest

PRELOAD, LIBIBVERBS = os.environ["PRELOAD"], os.environ["LIBIBVERBS"]
TABLE = os.environ["TABLE"]
CM_NODE = "RDMACM_1.0"
CM_FUNCTIONS = {f"rdma_create_{what}@@{CM_NODE}" for what in ("event_channel", "id", "ep")}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True,
                          env={**os.environ, "LC_ALL": "C"}, timeout=60).stdout


def exports(library):
    """Symbols as NAME@@NODE or NAME@NODE, and the nodes."""
    symbols, nodes = set(), set()
    for line in output("nm", "-D", "--defined-only", "--with-symbol-versions",
                       library).splitlines():
        kind, name = line.split()[1:]
        if kind == "A":
            nodes.add(name.split("@")[0])
        else:
            symbols.add(name)
    return symbols, nodes


def read_table(path):
    """[(pattern, reason)]"""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                pattern, _, reason = line.strip().partition(" ")
                rows.append((pattern, reason.strip()))
    return rows


@functools.lru_cache(maxsize=None)
def fits(pattern, symbol):
    """A pattern's * stands for no @, so that NAME@NODE does not fit NAME@@NODE."""
    return re.fullmatch("[^@]*".join(map(re.escape, pattern.split("*"))), symbol) is not None


def problems(real, preload, rows):
    """real and preload as of exports()."""
    symbols, nodes = real
    ours, our_nodes = preload
    found = []
    for symbol in sorted(symbols):
        in_table = [pattern for pattern, _ in rows if fits(pattern, symbol)]
        if symbol in ours and in_table:
            found.append(f"{symbol}: is interposed, and in the table by {in_table[0]}")
        if symbol not in ours and not in_table:
            found.append(f"{symbol}: is neither interposed nor in the table")
        if len(in_table) > 1:
            found.append(f"{symbol}: is in the table twice, by {', '.join(in_table)}")
    for symbol in sorted(ours - symbols - CM_FUNCTIONS):
        found.append(f"{symbol}: is exported, and libibverbs has none")
    for symbol in sorted(CM_FUNCTIONS - ours):
        found.append(f"{symbol}: is not exported")
    for pattern, reason in rows:
        if not any(fits(pattern, symbol) for symbol in symbols):
            found.append(f"{pattern}: the row fits no symbol of libibverbs")
        if not reason:
            found.append(f"{pattern}: the row gives no reason")
    for node in sorted(nodes - our_nodes):
        found.append(f"{node}: the version node is not defined")
    for node in sorted(our_nodes - nodes - {CM_NODE}):
        found.append(f"{node}: libibverbs has no such version node")
    return found


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.real, cls.preload = exports(LIBIBVERBS), exports(PRELOAD)
        cls.rows = read_table(TABLE)

    def test_every_symbol_is_interposed_or_has_a_reason(self):
        self.assertGreater(len(self.real[0]), 150)
        self.assertEqual(problems(self.real, self.preload, self.rows), [])

    def test_what_is_interposed_is_a_function_of_that_library(self):
        """Not one that it would export for a library that it has linked."""
        for line in output("nm", "-D", "--defined-only", PRELOAD).splitlines():
            self.assertIn(line.split()[1], "TA", line)

    def test_dynamic_section(self):
        text = output("readelf", "--wide", "--dynamic", PRELOAD)
        self.assertIn("Library soname: [libibverbs.so.1]", text)
        self.assertIn(f"Shared library: [{LIBIBVERBS}]", text)
        self.assertIn("NODELETE", text)

    def test_no_symbol_of_libibverbs_is_needed(self):
        """It is looked up, so that an older library does not stop programs from starting."""
        text = output("nm", "-D", "--undefined-only", PRELOAD)
        self.assertNotRegex(text, r"\b(ibv|rdma|verbs)_")

    # Mutants: the check must see each.

    def assert_seen(self, real, preload, rows, text):
        found = problems(real, preload, rows)
        self.assertTrue(any(text in one for one in found), found)

    def test_sees_a_function_that_is_no_longer_interposed(self):
        for symbol in sorted(self.preload[0]):
            rest = (self.preload[0] - {symbol}, self.preload[1])
            self.assert_seen(self.real, rest, self.rows, f"{symbol}: is n")

    def test_sees_a_new_function(self):
        for symbol in ("ibv_new@@IBVERBS_1.14", "ibv_new@@IBVERBS_1.0", "ibv_new@IBVERBS_1.1"):
            real = (self.real[0] | {symbol}, self.real[1])
            self.assert_seen(real, self.preload, self.rows, f"{symbol}: is neither")

    def test_sees_another_version(self):
        symbol = "ibv_query_port@@IBVERBS_1.1"
        real = (self.real[0] - {symbol} | {"ibv_query_port@@IBVERBS_1.15"}, self.real[1])
        self.assert_seen(real, self.preload, self.rows, f"{symbol}: is exported, and libibverbs")

    def test_sees_stale_rows(self):
        rows = self.rows + [("ibv_gone@@IBVERBS_1.1", "a reason")]
        self.assert_seen(self.real, self.preload, rows, "ibv_gone@@IBVERBS_1.1: the row fits no")

    def test_sees_rows_that_are_interposed_and_rows_twice(self):
        rows = self.rows + [("ibv_query_port@@IBVERBS_1.1", "a reason")]
        self.assert_seen(self.real, self.preload, rows, "ibv_query_port@@IBVERBS_1.1: is interp")
        rows = self.rows + [("ibv_wc_status_*@@IBVERBS_1.1", "a reason")]
        self.assert_seen(self.real, self.preload, rows, "in the table twice")

    def test_sees_rows_without_a_reason(self):
        rows = [(pattern, "") for pattern, _ in self.rows]
        self.assert_seen(self.real, self.preload, rows, "gives no reason")

    def test_sees_missing_nodes(self):
        for node in sorted(self.real[1]):
            rest = (self.preload[0], self.preload[1] - {node})
            self.assert_seen(self.real, rest, self.rows, f"{node}: the version node is not")

    def test_sees_nodes_too_many(self):
        more = (self.preload[0], self.preload[1] | {"IBVERBS_9.9"})
        self.assert_seen(self.real, more, self.rows, "IBVERBS_9.9: libibverbs has no such")


if __name__ == "__main__":
    unittest.main()
