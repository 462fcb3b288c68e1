#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Client processes under fire: what they did is recorded, and must be linearizable.

README.md beside this file says how. Run by tests/run linearizability, and by hand for hours.
"""
import json
import math
import pathlib
import random
import shutil
import signal
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
from group import GroupCast  # noqa: E402
from kvt_server import ServerFailed  # noqa: E402
from options import CannotRun, look_at, options_of  # noqa: E402

STEP_S = 0.002
MORE_ROUNDS = 2
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


asked = []  # signals that came


class Ended(BaseException):
    """By a signal, whose number it has."""


def go_on():
    """Looked at wherever much time may pass: all ends in order then, and nothing is left."""
    if asked:
        raise Ended(asked[0])


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
        cast = (GroupCast if self.options.group else Cast)(self.options, self.folder, self.rng)
        cast.wiped = lambda begin, end: self.events.add("the server died", begin, end, "",
                                                        wipes=True)
        try:
            cast.start()
            self.play(cast, time.monotonic() + seconds, tell)
            cast.finish()
            return None
        except (Wrong, AssertionError, ServerFailed, subprocess.TimeoutExpired) as wrong:
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
            go_on()
            last = time.monotonic() >= end
            busy = any([track.step(last) for track in tracks]) or not last
            cast.look()
            tell(cast.board.counts()["operations"])
            time.sleep(STEP_S)

    def check(self):
        """The checker's figures; what is wrong by them, or None."""
        with subprocess.Popen([self.options.checker, "--json", "--report", str(self.folder),
                               str(self.folder)], stdout=subprocess.PIPE) as ran:
            out = None
            while out is None:
                try:
                    out, _ = ran.communicate(timeout=0.1)
                except subprocess.TimeoutExpired:
                    if asked:
                        ran.kill()
        go_on()
        try:
            if ran.returncode in WORDS:
                verdict = json.loads(out)
                self.figures["operations"] = verdict["operations"]
                return verdict, WORDS[ran.returncode]
        except (ValueError, TypeError, KeyError):
            pass
        return {}, (f"{self.options.checker} could not judge the histories: it exited "
                    f"{ran.returncode}, and told no figures (what it said is above)")


# What the exit status of lin-check says of a round.
WORDS = {0: None, 1: "not linearizable", 3: "the checker could not decide in time"}


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
    """Sums, also in what is nested; of what is a maximum, the maximum."""
    for name, value in figures.items():
        if isinstance(value, dict):
            merge(total.setdefault(name, {}), value)
        elif name.endswith("_max"):
            total[name] = max(total.get(name, 0), value)
        elif isinstance(value, (int, float)):
            total[name] = total.get(name, 0) + value


def keep(options, folder):
    """The folder of a round that went wrong, where a person finds it; says where that is."""
    if not options.keep:
        return folder
    target = pathlib.Path(options.keep).resolve() / f"seed.{options.seed}.{folder.name}"
    try:
        shutil.rmtree(target, ignore_errors=True)
        # Of a mutant the log tells nothing.
        without = shutil.ignore_patterns("data") if options.mutant else None
        shutil.copytree(folder, target, ignore=without)
    except OSError as err:  # shutil.Error is one
        why = "not everything could be copied" if isinstance(err, shutil.Error) else err
        shutil.rmtree(target, ignore_errors=True)
        return f"{folder}, and not in {options.keep}: {why}"
    shutil.rmtree(folder, ignore_errors=True)
    return target


def lacks(options, total):
    return report.lacks(total, bool(options.mutant or options.nemesis))


def run(options, base):
    """All rounds, and some more where they have not met what they are for.

    Returns the figures and what went wrong, or None.
    """
    total = {"seed": options.seed, "device": kvt_process.DEVICE, "data_dir": options.data_dir,
             "group": options.group,
             "rounds": 0, "seconds": 0.0}
    rounds_max = MORE_ROUNDS + math.ceil(options.seconds / options.round)
    while True:
        folder = base / f"round.{total['rounds']}"
        folder.mkdir()
        one = Round(options, total["rounds"], folder)
        seconds = options.round
        if not options.operations and total["seconds"] < options.seconds - 0.5:
            seconds = min(seconds, options.seconds - total["seconds"])
        wrong = one.work(seconds, Teller(total.get("operations", 0)))
        go_on()
        verdict, illegal = one.check()
        total["rounds"] += 1
        total["seconds"] += seconds
        merge(total, {**one.figures, "nemeses": one.events.counts, "checked": verdict})
        # What is illegal comes first: it is what this is for.
        wrong = "; and ".join(words for words in (illegal, wrong) if words)
        if wrong:
            return total, f"{wrong}\nkept in {keep(options, folder)}"
        shutil.rmtree(folder)
        done = (total["operations"] >= options.operations if options.operations
                else total["seconds"] >= options.seconds - 0.5)
        if done and (options.operations or total["rounds"] >= rounds_max
                     or not lacks(options, total)):
            return total, None


def end(number, _frame):
    """Nothing is raised here: hooks of fork() would swallow it. go_on() does, soon."""
    asked.append(number)


def attempt(options):
    """The figures, and what is wrong; or says why there are none, and exits."""
    base, status = None, 3
    try:
        look_at(options)
        go_on()
        base = pathlib.Path(tempfile.mkdtemp(prefix="gracekv-lin-"))
        total, wrong = run(options, base)
        if not any(base.iterdir()):
            base.rmdir()
        return total, wrong
    except Ended as ended:
        for one in ENDS:
            signal.signal(one, signal.SIG_IGN)
        name = signal.Signals(ended.args[0])
        words, status = f"ended by {name.name}; nothing was seen to be wrong before", 128 + name
        rounds = sorted(base.iterdir()) if base and options.keep else []
        if rounds:
            words += f"; kept in {keep(options, rounds[0])}"
            base = None if rounds[0].exists() else base  # where it could not be copied
    except CannotRun as why:
        words = why
    except OSError as err:
        words = (f"{err} (histories are written below {tempfile.gettempdir()}; TMPDIR names "
                 "another folder)")
    print(f"run.py: {words}", file=sys.stderr)
    if base:
        shutil.rmtree(base, ignore_errors=True)
    sys.exit(status)


def main(argv):
    options = options_of(argv)
    for one in ENDS:
        if signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, end)
    print(f"linearizability: seed {options.seed}", file=sys.stderr)
    total, wrong = attempt(options)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    wrong = wrong or lacks(options, total)
    print(json.dumps(total) if options.json else report.table(total))
    if wrong:
        print(f"WRONG {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
