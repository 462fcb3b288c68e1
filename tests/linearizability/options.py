# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The options of run.py, and what a run needs before it begins."""
import argparse
import os
import pathlib
import secrets
import subprocess
import tempfile

import kvt_process

import nemeses
from board import SLOTS_MAX

ABOUT = """Client processes under fire: what they did is recorded, and must be linearizable.
README.md beside this file says how. Run by tests/run linearizability, and by hand for hours."""
EPILOG = """examples:
  go build -C tests/linearizability/check -o /tmp/lin-check .
  run.py --checker /tmp/lin-check --seconds 60
  run.py --checker /tmp/lin-check --operations 10000000 --round 60
  run.py --checker /tmp/lin-check --build build-mutants --mutant publish_first --round 4

Histories are written below $TMPDIR, some MB for each process of a round.

Exit status: 0 all was linearizable; 1 it was not, or something else is wrong: a line WRONG, and
where the round's folder is kept; 2 wrong usage; 3 it could not run; 128 and the signal's number:
it was ended by SIGINT, SIGTERM or SIGHUP, and keeps the round's folder where there is --keep."""

PROGRAMS = ("bin/kv-server", "bin/kv-cli", "bin/kv-cluster",
            "tests/linearizability/client/lin-client")
NAMED = b"GRACEKV_MUTANT"  # which their getenv() asks for
PROBE_S = 30
BREAKABLE = (PROGRAMS[0], PROGRAMS[-1])  # a build with mutants has them there
U32_MAX = (1 << 32) - 1


class CannotRun(Exception):
    """It says nothing of the system: what a run needs is not there."""


def number(kind, low, high):
    """For argparse: numbers of a kind, from low to high."""
    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            what = "a number" if kind is float else "a whole number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} from {low} to {high}")
        return value
    return convert


def options_of(argv):
    parser = argparse.ArgumentParser(description=ABOUT, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)

    def add(name, words, **how):
        parser.add_argument(name, help=words, **how)

    def count(name, low, high, default, words):
        add(name, f"{words} [{default}]", type=number(int, low, high), default=default,
            metavar="N")

    add("--checker", "the program lin-check", required=True, metavar="FILE")
    add("--build", "build folder of the server and the clients [build-test]", metavar="DIR")
    add("--seconds", "of work, all rounds together [20]", type=number(float, 1, 10**8), default=20,
        metavar="S")
    add("--operations", "instead: until so many were recorded", type=number(int, 1, 10**15),
        default=0, metavar="N")
    add("--round", "seconds after which all is checked [30]", type=number(float, 1, 3600),
        default=30, metavar="S")
    add("--seed", "of all choices [from the system; printed]", type=number(int, 0, (1 << 64) - 1),
        metavar="N")
    count("--clients", 1, 100, 4, "processes")
    count("--threads", 1, 16, 2, "of each")
    count("--slots", 1, SLOTS_MAX, 48, "keys at a time; a few are dear to check")
    count("--key-operations", 1, U32_MAX, 1500, "before a key is replaced")
    count("--key-open", 1, U32_MAX, 6, "unknown outcomes, likewise")
    count("--pace", 0, 10**6, 300, "us between operations of a thread, times 8")
    count("--lease", 10, 600000, 400, "ms")
    add("--data-dir", "the server has a data directory, and each life begins with what the one "
        "before had", action="store_true")
    add("--sync", "of that server [always]", default="always", metavar="HOW")
    add("--group", "three servers and an etcd are the store; primaries and backups die, with "
        "--data-dir all of them at once too",
        action="store_true")
    add("--clocks", "of a group's processes, clients too, the clocks that leases are measured by "
        "run up to a tenth faster or slower, for which --group-drift leaves room; wants a build "
        "with -Dmutants=true", action="store_true")
    count("--group-lease", 10, 60000, 300, "ms, of a group")
    add("--memory", "of the server [32M; of a group 256M]", metavar="SIZE")
    add("--rough", "part of the processes whose soft0 is unkind, or faulty [0.5]",
        type=number(float, 0, 1), default=0.5, metavar="0..1")
    add("--weak", "features of SOFTRDMA_WEAK that all have, and no other weather", default="",
        metavar="LIST")
    add("--slow", "times of what is done to them are so many times as long",
        type=number(float, 0.01, 1000), default=float(kvt_process.SLOW) ** 0.5, metavar="X")
    add("--nemesis", f"only this; may be repeated: {', '.join(nemeses.NAMES)}", action="append",
        choices=nemeses.NAMES, metavar="NAME")
    add("--mutant", "$GRACEKV_MUTANT of all processes, of a build with -Dmutants=true; it stops at "
        "what that does", default="", metavar="NAMES")
    add("--keep", "folder for those of rounds that went wrong [where they were]", metavar="DIR")
    add("--json", "figures as JSON, in the first line of stdout", action="store_true")
    o = parser.parse_args(argv)
    o.seed = secrets.randbits(32) if o.seed is None else o.seed
    o.checker = os.path.abspath(o.checker)
    if o.clocks and not o.group:
        parser.error("--clocks is for --group: one server has no lease that a clock could spoil")
    o.memory = o.memory or ("256M" if o.group else "32M")
    if o.build:
        kvt_process.BUILD = pathlib.Path(o.build).resolve()
    return o


def look_at(options):
    """All that a run needs is there; CannotRun says what is not."""
    programs_of(options.mutant, options.clocks)
    try_checker(options.checker)
    if options.keep:
        try:
            pathlib.Path(options.keep).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=options.keep):
                pass
        except OSError as err:
            raise CannotRun(f"--keep {options.keep}: nothing can be written there: "
                            f"{err.strerror} (name another folder)") from None


def programs_of(mutant, clocks):
    build = kvt_process.BUILD
    wants = f"--mutant {mutant}" if mutant else "--clocks" if clocks else ""
    option = " -Dmutants=true" if wants else ""
    how = f"meson setup{option} {build} && ninja -C {build} {' '.join(PROGRAMS)}"
    for name in PROGRAMS:
        if not os.access(build / name, os.X_OK):
            raise CannotRun(f"{name} is not in {build}; build it ({how}), or name another build "
                            "folder with --build")
        if wants and name in BREAKABLE and NAMED not in (build / name).read_bytes():
            raise CannotRun(f"{name} in {build} has no mutants, {wants} would do "
                            "nothing; name a build folder of -Dmutants=true with --build")


def try_checker(checker):
    """Whether that is lin-check: for its help it needs no folder."""
    build = "build it: go build -C tests/linearizability/check -o /tmp/lin-check ."
    try:
        ran = subprocess.run([checker, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                             timeout=PROBE_S, check=False)
    except OSError as err:
        raise CannotRun(f"--checker {checker} does not run: {err.strerror} ({build})") from None
    except subprocess.TimeoutExpired:
        raise CannotRun(f"--checker {checker} --help takes more than {PROBE_S} s: it is not "
                        f"lin-check ({build})") from None
    if ran.returncode or not ran.stderr.startswith(b"lin-check "):
        raise CannotRun(f"--checker {checker} is not lin-check: --help exits {ran.returncode} "
                        f"and does not say so ({build})")
