#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Client processes under fire: what they did is recorded, and must be linearizable.

README.md beside this file says how. Run by tests/run linearizability, and by hand for hours.
"""
import argparse
import json
import pathlib
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

import kvt_process  # noqa: E402

import nemeses  # noqa: E402
import report  # noqa: E402
from cast import Cast, Wrong  # noqa: E402

STEP_S = 0.002
EXAMPLE = """examples:
  run.py --checker build-go/lin-check --seconds 60
  run.py --checker build-go/lin-check --operations 10000000 --round 60
  run.py --checker build-go/lin-check --mutant publish_first --seconds 30"""


def options_of(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                     epilog=EXAMPLE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--checker", required=True, help="the program lin-check")
    add("--build", help="build folder of the server and the clients [build-test]")
    add("--seconds", type=float, default=20, help="of work, all rounds together [20]")
    add("--operations", type=int, default=0, help="instead: until so many were recorded")
    add("--round", type=float, default=30, help="seconds after which all is checked [30]")
    add("--seed", type=int, help="of all choices [from the system; printed]")
    add("--clients", type=int, default=4, help="processes [4]")
    add("--threads", type=int, default=2, help="of each [2]")
    add("--slots", type=int, default=48, help="keys at a time [48]")
    add("--key-operations", type=int, default=1500, help="before a key is replaced [1500]")
    add("--key-open", type=int, default=6, help="unknown outcomes, likewise [6]")
    add("--pace", type=int, default=300, help="us between operations of a thread, times 8 [300]")
    add("--lease", type=int, default=400, help="ms [400]")
    add("--memory", default="32M", help="of the server [32M]")
    add("--rough", type=float, default=0.5,
        help="part of the processes whose soft0 is unkind, or faulty [0.5]")
    add("--weak", default="", help="features of SOFTRDMA_WEAK that all have, and no other weather")
    add("--slow", type=float, default=float(kvt_process.SLOW) ** 0.5,
        help="times of what is done to them are so many times as long")
    add("--nemesis", action="append", choices=nemeses.NAMES, help="only this; may be repeated")
    add("--mutant", default="", help="$GRACEKV_MUTANT of all processes; stops at what it does")
    add("--keep", help="folder for what was wrong [a new one, printed]")
    add("--json", action="store_true", help="figures as JSON, in the first line of stdout")
    o = parser.parse_args(argv)
    o.seed = secrets.randbits(32) if o.seed is None else o.seed
    if o.build:
        kvt_process.BUILD = pathlib.Path(o.build).resolve()
    return o


class Events:
    """What was done to them, for the checker and for people: events.jsonl."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.counts = {}

    def add(self, nemesis, begin, end, words, wipes=False):
        self.file.write(json.dumps({"begin_ns": begin, "end_ns": end, "nemesis": nemesis,
                                    "wipes": wipes, "words": words or ""}) + "\n")
        self.file.flush()
        if not wipes:
            self.counts[nemesis] = self.counts.get(nemesis, 0) + 1

    def close(self):
        self.file.close()


class Round:
    """Some seconds of work in a folder of its own, and the verdict."""

    def __init__(self, options, number, folder):
        self.options = options
        self.folder = folder
        self.rng = random.Random(options.seed * 1000003 + number)
        self.events = Events(folder / "events.jsonl")
        self.figures = {}

    def work(self, seconds, tell):
        """Returns None, or what went wrong."""
        cast = Cast(self.options, self.folder, self.rng)
        cast.wiped = lambda begin, end: self.events.add("the server died", begin, end, "",
                                                        wipes=True)
        try:
            cast.start()
            self.play(cast, time.monotonic() + seconds, tell)
            cast.finish()
            return None
        except (Wrong, AssertionError) as wrong:
            return str(wrong)
        finally:
            self.figures = {**cast.board.counts(), "lives": cast.lives,
                            "processes": cast.processes,
                            "server": {k: cast.served.get(k, 0) for k in report.SERVED}}
            cast.close()
            self.events.close()

    def play(self, cast, end, tell):
        allowed = self.options.nemesis or nemeses.NAMES
        tracks = [nemeses.Track(cast, name, allowed, self.events) for name in nemeses.TRACKS]
        busy = True
        while busy:
            last = time.monotonic() >= end
            busy = any([track.step(last) for track in tracks]) or not last
            cast.look()
            tell(cast.board.counts()["operations"])
            time.sleep(STEP_S)

    def check(self):
        """The checker's figures; its exit status."""
        ran = subprocess.run([self.options.checker, "--json", "--report", str(self.folder),
                              str(self.folder)], stdout=subprocess.PIPE, text=True, check=False)
        if ran.returncode not in (0, 1, 3):
            raise SystemExit(f"lin-check exited {ran.returncode}")
        return json.loads(ran.stdout), ran.returncode


class Teller:
    """Progress, on a terminal."""

    def __init__(self, before):
        self.before = before
        self.due = 0

    def __call__(self, operations):
        if sys.stderr.isatty() and time.monotonic() >= self.due:
            self.due = time.monotonic() + 0.5
            print(f"\r{self.before + operations:>12,} operations", end="", file=sys.stderr)


def merge(total, figures):
    """Sums, also in what is nested; of what is called a maximum, the maximum."""
    for name, value in figures.items():
        if isinstance(value, dict):
            merge(total.setdefault(name, {}), value)
        elif name.startswith("max_") or name.startswith("most_"):
            total[name] = max(total.get(name, 0), value)
        elif isinstance(value, (int, float)):
            total[name] = total.get(name, 0) + value


def keep(options, folder):
    """The folder of a round that went wrong, where a person finds it."""
    place = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="gracekv-lin-"))
    place.mkdir(parents=True, exist_ok=True)
    target = place / folder.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    return target


def run(options, base):
    """All rounds. Returns the figures and what went wrong, or None."""
    total = {"seed": options.seed, "device": kvt_process.DEVICE, "rounds": 0, "seconds": 0.0}
    while True:
        folder = base / f"round.{total['rounds']}"
        folder.mkdir()
        one = Round(options, total["rounds"], folder)
        seconds = options.round
        if not options.operations:
            seconds = min(seconds, options.seconds - total["seconds"])
        wrong = one.work(seconds, Teller(total.get("operations", 0)))
        verdict, status = one.check()
        total["rounds"] += 1
        total["seconds"] += seconds
        merge(total, {**one.figures, "nemeses": one.events.counts, "checked": verdict})
        if status == 1:
            wrong = "not linearizable" + (f"; and {wrong}" if wrong else "")
        elif status == 3 and not wrong:
            wrong = "the checker could not decide in time"
        if wrong:
            return total, f"{wrong}\nkept in {keep(options, folder)}"
        shutil.rmtree(folder)
        done = (total["operations"] >= options.operations if options.operations
                else total["seconds"] >= options.seconds - 0.5)
        if done:
            return total, None


def main(argv):
    options = options_of(argv)
    print(f"linearizability: seed {options.seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="gracekv-lin-") as base:
        total, wrong = run(options, pathlib.Path(base))
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    if not wrong and not options.mutant and not options.nemesis:
        wrong = report.lacks(total)
    print(json.dumps(total) if options.json else report.table(total))
    if wrong:
        print(f"WRONG {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
