#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""softrdma-run: options, environment, errors, exit codes."""
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

from preload_run import PRELOAD, SOFTRDMA_RUN, TIMEOUT, environment, run, sanitizer

LIBIBVERBS = os.environ["LIBIBVERBS"]
LIBRARY = os.path.realpath(PRELOAD)


def plain(**more):
    """An environment without anything preloaded, also under a sanitizer: nothing of it is run."""
    variables = environment(**more)
    if "LD_PRELOAD" not in more:
        variables.pop("LD_PRELOAD", None)
    return variables


def soft(*arguments, **more):
    return run(SOFTRDMA_RUN, *arguments, env=plain(**more))


class Run(unittest.TestCase):
    def printed(self, *arguments, **more):
        result = soft(*arguments, "--print", **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def error(self, code, text, *arguments, **more):
        result = soft(*arguments, **more)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.startswith("softrdma-run: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(text, result.stderr)
        self.assertTrue(result.stderr.endswith(")\n"), result.stderr)

    def test_help_and_version(self):
        text = soft("--help")
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        for word in ("Usage: softrdma-run", "Example:", "ibv_rc_pingpong", "--link", "--weak",
                     "--fault", "--print", "setuid"):
            self.assertIn(word, text.stdout)
        self.assertLess(max(map(len, text.stdout.splitlines())), 101)
        version = soft("--version")
        self.assertEqual((version.returncode, version.stderr), (0, ""))
        self.assertRegex(version.stdout, r"^softrdma-run \d+\.\d+\.\d+\n$")

    def test_wrong_usage(self):
        self.error(2, "no program")
        self.error(2, "--nonsense: unknown option", "--nonsense", "true")
        self.error(2, "-x: unknown option", "-x", "true")
        self.error(2, "--link fast: must be ib or roce", "--link", "fast", "true")
        self.error(2, "--link: must be ib or roce".replace(":", " :"), "--link=", "true")
        for option in ("--link", "--weak", "--fault"):
            self.error(2, f"{option}: needs a value", option)
        for option in ("--weak", "--fault"):
            self.error(2, f"{option}: needs a value", option, "", "true")
        self.error(2, "--print: takes no program (true)", "--print", "true")

    def test_programs_that_cannot_be_run(self):
        self.error(127, "no-such-program: there is no such program in PATH", "no-such-program")
        self.error(127, "./no/such: there is no such program", "./no/such")
        self.error(126, "/: is a folder", "/")
        self.error(126, "cannot be run", os.path.join(os.path.dirname(os.path.realpath(__file__)),
                                                      "preload_run.py"))

    def test_print(self):
        self.assertEqual(self.printed(), [f"export LD_PRELOAD='{LIBRARY}'"])
        self.assertEqual(
            self.printed("--link", "ib", "--weak=3", "--fault", "reg_mr=ENOMEM@1"),
            [f"export LD_PRELOAD='{LIBRARY}'", "export SOFTRDMA_LINK='ib'",
             "export SOFTRDMA_WEAK='3'", "export SOFTRDMA_FAULT='reg_mr=ENOMEM@1'"])

    def test_what_is_printed_is_for_a_shell(self):
        spec = "it's $HOME `x` \"y\" \\ *"
        lines = "\n".join(self.printed("--weak", spec))
        shell = subprocess.run(["sh", "-c", lines + "\nunset LD_PRELOAD; env"], check=True,
                               env=plain(), stdout=subprocess.PIPE, universal_newlines=True,
                               timeout=TIMEOUT)
        self.assertIn(f"SOFTRDMA_WEAK={spec}\n", shell.stdout)

    def test_what_is_preloaded_already_stays(self):
        first = (sanitizer() or [LIBIBVERBS])[0]
        both = f"{first}:{LIBRARY}"
        self.assertEqual(self.printed(LD_PRELOAD=first), [f"export LD_PRELOAD='{both}'"])
        self.assertEqual(self.printed(LD_PRELOAD=both), [f"export LD_PRELOAD='{both}'"])

    def test_the_program_gets_its_arguments_and_environment(self):
        result = run(SOFTRDMA_RUN, "--link", "roce", "--", "sh", "-c",
                     'printf "%s\\n" "$0" "$@" "$LD_PRELOAD" "$SOFTRDMA_LINK"; exit 7',
                     "a b", "--link", "", "*", env=environment())
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertEqual(result.stdout.splitlines(),
                         ["a b", "--link", "", "*", ":".join(sanitizer() + [LIBRARY]), "roce"])

    def test_errors_of_an_installation(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "softrdma-run")
            shutil.copy(SOFTRDMA_RUN, program)
            result = run(program, "--print", env=plain())
            self.assertEqual(result.returncode, 3)
            self.assertIn("cannot find libsoftrdma-preload.so", result.stderr)
            spaced = os.path.join(folder, "a b")
            os.mkdir(spaced)
            shutil.copy(SOFTRDMA_RUN, spaced)
            shutil.copy(LIBRARY, spaced)
            result = run(os.path.join(spaced, "softrdma-run"), "--print", env=plain())
            self.assertEqual(result.returncode, 3)
            self.assertIn("no path with a space", result.stderr)

    def test_where_it_is_installed(self):
        with open(SOFTRDMA_RUN, encoding="ascii") as file:
            relative = re.search(r'"\$here/([./\w-]*/softrdma)"', file.read())[1]
        with tempfile.TemporaryDirectory() as root:
            bindir = os.path.join(root, "prefix", "bin")
            libdir = os.path.normpath(os.path.join(bindir, relative))
            self.assertTrue(libdir.startswith(root + "/prefix/lib"), libdir)
            os.makedirs(bindir)
            os.makedirs(libdir)
            shutil.copy(SOFTRDMA_RUN, bindir)
            library = shutil.copy(LIBRARY, libdir)
            result = run(os.path.join(bindir, "softrdma-run"), "--print", env=plain())
            self.assertEqual(result.stdout, f"export LD_PRELOAD='{library}'\n", result.stderr)

    def test_it_is_found_through_a_link_and_by_path(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(SOFTRDMA_RUN, os.path.join(folder, "run-soft"))
            for command in ("run-soft", os.path.join(folder, "run-soft")):
                result = run(command, "--print",
                             env=plain(PATH=folder + ":" + os.environ["PATH"]))
                self.assertEqual(result.stdout, f"export LD_PRELOAD='{LIBRARY}'\n",
                                 result.stderr)

    def test_it_can_be_run(self):
        self.assertTrue(os.stat(SOFTRDMA_RUN).st_mode & stat.S_IXUSR)


if __name__ == "__main__":
    unittest.main()
