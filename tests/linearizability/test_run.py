#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What run.py and lin-client say where they cannot run, and that nothing is left of an ended run.

test_run.py LIN-CHECK; builds as run.py takes them: $GRACEKV_TEST_BUILD.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import kvt_process  # noqa: E402

from board import BYTES, Board  # noqa: E402

CHECKER = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "lin-check"
CLIENT = kvt_process.BUILD / "tests/linearizability/client/lin-client"


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="lin test ")
        self.addCleanup(self.dir.cleanup)
        self.folder = pathlib.Path(self.dir.name)
        self.tmp = self.folder / "t m p"
        self.tmp.mkdir()

    def program(self, name, lines):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def begin(self, *options, checker=CHECKER, **env):
        return subprocess.Popen(
            [sys.executable, str(HERE / "run.py"), "--checker", checker, "--round", "1", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(self.tmp), **env})

    def ran(self, status, words, *options, **how):
        """It exits so, says that, leaves nothing, and no traceback."""
        with self.begin("--seconds", "1", *options, **how) as process:
            out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, out)
        self.assertRegex(out, words)
        self.assertNotIn("Traceback", out)
        if status != 1:
            self.assertEqual(os.listdir(self.tmp), [], out)
        return out


class Options(Case):
    def test_numbers_out_of_range(self):
        for option, value in (
                ("--seconds", "0"), ("--seconds", "nan"), ("--round", "0"), ("--operations", "-1"),
                ("--clients", "0"), ("--threads", "17"), ("--slots", "257"), ("--pace", "-1"),
                ("--key-operations", "0"), ("--key-open", "0"), ("--lease", "1"), ("--slow", "0"),
                ("--rough", "2"), ("--seed", "-1")):
            with self.subTest(option=option, value=value):
                self.ran(2, rf"argument {option}: '{value}' is not a (whole )?number from \d",
                         option, value)

    def test_what_only_the_server_judges(self):
        self.ran(3, "run.py: kv-server does not begin:\n.*too small", "--memory", "1K")

    def test_mutant_of_a_build_without(self):
        self.ran(3, "has no mutants, --mutant publish_first would do nothing", "--mutant",
                 "publish_first")

    def test_folders(self):
        (self.folder / "file").touch()
        self.ran(3, "bin/kv-server is not in .*meson setup", "--build", str(self.folder))
        self.ran(3, "--keep .* nothing can be written there", "--keep", str(self.folder / "file"))

    def test_address_of_another_machine(self):
        self.ran(3, "the relay cannot listen: .*GRACEKV_TEST_HOST", GRACEKV_TEST_HOST="192.0.2.1")


class Checkers(Case):
    def test_none(self):
        self.ran(3, "does not run: No such file or directory .*go build", checker="nowhere")
        self.ran(3, "is not lin-check: --help exits 0", checker=self.program("mute", "exit 0"))

    def test_rubbish_behind_a_good_beginning(self):
        liar = self.program("liar", 'echo "lin-check " >&2; [ "$1" = --help ] || echo rubbish')
        out = self.ran(1, "WRONG .*liar could not judge the histories: it exited 0", checker=liar)
        kept = pathlib.Path(re.search("^kept in (.*)$", out, re.MULTILINE)[1])
        self.assertTrue((kept / "events.jsonl").is_file())

    def test_refused_history_is_kept(self):
        fails = self.program("fails", 'echo "lin-check " >&2; [ "$1" = --help ] || exit 2')
        keep = self.folder / "keep"
        self.ran(1, "WRONG .*it exited 2", "--keep", str(keep), "--seed", "5", checker=fails)
        self.assertEqual(os.listdir(keep), ["seed.5.round.0"])


class Signals(Case):
    def test_nothing_is_left(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number), self.begin("--seconds", "60") as process:
                kvt_process.wait_until("a client records", lambda: list(
                    self.tmp.glob("*/round.0/history.*")), 30)
                os.kill(process.pid, number)
                time.sleep(0.05)
                if process.poll() is None:  # as people do that wait
                    os.kill(process.pid, number)
                out, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + number, out)
                self.assertIn(f"run.py: ended by {number.name}", out)
                self.assertNotIn("Traceback", out)
                self.assertEqual(os.listdir(self.tmp), [])
                self.assertEqual(self.of_this_run(), [])

    def of_this_run(self):
        """Processes whose arguments name the folder of this test."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.tmp).encode() in path.read_bytes():
                    found.append(path.parent.name)
            except OSError:
                pass
        return found


class Client(Case):
    def ran_client(self, words, board, folder):
        ran = subprocess.run([CLIENT, "--server", "127.0.0.1:1", "--device", kvt_process.DEVICE,
                              "--board", board, "--folder", folder], capture_output=True,
                             text=True, timeout=60, check=False)
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertRegex(ran.stderr, words)

    def test_boards(self):
        path = self.folder / "board"
        for content, words in ((b"", "not a file of 16576 bytes"),
                               (b"GKBARD01" + bytes(100), "not a file of 16576 bytes"),
                               (bytes(BYTES), "no board that this program knows")):
            path.write_bytes(content)
            self.ran_client(words, path, self.folder)
        self.ran_client("cannot be opened", self.folder / "none", self.folder)
        self.ran_client("cannot be opened", self.folder, self.folder)

    def test_histories(self):
        board = Board(self.folder / "board", 4, 100, 5).path
        self.ran_client("history.1.0 cannot be made: No such file", board, self.folder / "none")
        (self.folder / "history.1.0").touch()
        self.ran_client("history.1.0 is there already: give another", board, self.folder)


if __name__ == "__main__":
    unittest.main()
