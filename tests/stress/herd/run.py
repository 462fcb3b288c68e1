#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A herd of sessions connects, dies, comes back and falls silent, each at one moment.

README.md in the folder above says what is judged. Exit status: 0; 1 something is WRONG; 2 wrong
usage.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib"))

from kvt_herd import REST, Counters, Ledger, Rack  # noqa: E402
from kvt_process import SLOW, program  # noqa: E402
from kvt_server import Server  # noqa: E402

WORKERS = "4"  # one's completion queue has room for some 900 queue pairs on soft0
LEASES_TO_BEAT = 10  # from the moment at which all connect, until each has beaten for a lease
LEASES_TO_FREE = 3  # from their death, or from the end of their lease
LEASES_TO_STARVE = 3
LEASES_TO_ANSWER = 2  # the longest call of a client that does no harm
HONEST = 2  # sessions of that one
PAUSE_US = 500000  # between two turns of a session of the herd
HONEST_PAUSE_US = 5000
FENCES = ("sessions_fenced_silent", "sessions_fenced_stuck", "sessions_fenced_protocol")
LIES = ("absent", "fenced", "kept", "acknowledged", "stall")


class Wrong(Exception):
    """What is wrong, and its kind."""


def wrong_if(condition, kind, words):
    if condition:
        raise Wrong(f"{kind}: {words}")


def pin(pid, cores):
    """All threads of a process."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), cores)


class Play:
    """One server, one client beside the herd, and what is done to the herd."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.lease_s = options.lease / 1000
        self.env = {"GRACEKV_MUTANT": options.mutant} if options.mutant else {}
        self.server = self.counters = self.honest = None
        self.racks = []
        self.figures = {"sessions": options.processes * options.sessions,
                        "processes": options.processes, "lease_ms": options.lease}

    def start(self):
        o = self.options
        self.server = Server(self.folder, "--lease", str(o.lease), "--workers", WORKERS,
                             memory=o.memory,
                             env={**self.env, "SOFTRDMA_FAULT": o.fault} if o.fault else self.env)
        self.ledger = Ledger(self.folder, HONEST + 8 + 3 * o.processes * o.sessions * o.handles)
        self.counters = Counters(self.folder, self.server.address)
        self.honest = self.rack(1, HONEST, handles=1)
        self.honest.open(pause_us=HONEST_PAUSE_US, value=1024)
        self.beats(self.honest, time.monotonic_ns(), "the client beside the herd")

    def rack(self, processes, sessions, **how):
        it = Rack(self.folder, self.server.address, self.ledger, processes, sessions, env=self.env,
                  **how)
        self.racks.append(it)
        return it

    def herd(self):
        o = self.options
        return self.rack(o.processes, o.sessions, handles=o.handles)

    # What is judged

    def bound_s(self, leases):
        return leases * self.lease_s * SLOW

    def beats(self, rack, at_ns, what):
        """All of it beats in time; how long that took."""
        count, last_ns = rack.beat(self.bound_s(LEASES_TO_BEAT + 1), self.lease_s)
        wrong_if(count < rack.count, "beat", f"{what}: {count} of {rack.count} sessions have beaten"
                 f" for a lease within {LEASES_TO_BEAT + 1} leases: {rack.counts()}")
        return (last_ns - at_ns) / 1e9

    def nobody_was_fenced(self, what, *racks):
        """Of those that are neither dead nor silent: none has lost its connection."""
        for rack in (self.honest, *racks):
            counts = rack.counts()
            wrong_if(counts["reconnects"], "fenced", f"{what}: {counts}; the server has fenced "
                     f"{self.fences()}")

    def fences(self):
        now = self.counters()
        return sum(now[name] for name in FENCES)

    def served(self, what, leases=LEASES_TO_ANSWER, rack=None):
        """The client that does no harm had its answers, in time, all the while; the longest."""
        rack = rack or self.honest
        counts = rack.counts()
        longest = max(counts["get_max_us"], counts["put_max_us"]) / 1e6
        for name in ("bad", "lost", "reconnects"):
            wrong_if(counts[name], "lost" if name == "lost" else "honest", f"{what}: {counts}")
        wrong_if(longest > self.bound_s(leases), "honest",
                 f"{what}: a call took {longest:.2f} s: {counts}")
        wrong_if(not (counts["gets"] and counts["puts"]), "honest", f"{what}: no call: {counts}")
        rack.ask("forget")
        self.figures["longest_get_ms"] = max(self.figures.get("longest_get_ms", 0),
                                             counts["get_max_us"] / 1e3)
        self.figures["longest_put_ms"] = max(self.figures.get("longest_put_ms", 0),
                                             counts["put_max_us"] / 1e3)

    def gone(self, since_ns, here, what, bound_s):
        """Sessions and queue pairs of the others, within the bound; how long that took."""
        sessions = sum(r.count for r in here) + Counters.SESSIONS
        queue_pairs = sum(r.queue_pairs for r in here) + Counters.QUEUE_PAIRS
        while True:
            now, s = time.monotonic_ns(), self.counters()
            if s["sessions"] <= sessions and s["queue_pairs"] <= queue_pairs:
                return (now - since_ns) / 1e9
            wrong_if((now - since_ns) / 1e9 > bound_s * SLOW, "memory",
                     f"{what}: {s['sessions']} sessions, {s['queue_pairs']} queue pairs after "
                     f"{bound_s} s; {sessions} and {queue_pairs} are to be left")
            time.sleep(0.02)

    def nothing_deferred(self, here, what):
        """Once nobody writes, all memory comes back."""
        end = time.monotonic() + self.bound_s(LEASES_TO_FREE)
        for rack in here:
            rack.ask("pace", REST)
        while True:
            s = self.counters()
            left = {k: s[k] for k in ("deferred_bytes", "blocks_deferred")}
            if not any(left.values()):
                break
            wrong_if(time.monotonic() > end, "memory", f"{what}: {left} {LEASES_TO_FREE} leases"
                     " after the last write")
            time.sleep(0.05)
        for rack in here:
            rack.ask("pace", HONEST_PAUSE_US if rack is self.honest else PAUSE_US)

    # What happens

    def grows(self, name, before):
        """Wait until the client that does no harm has counted more, for what a lie has done."""
        end = time.monotonic() + self.bound_s(LEASES_TO_BEAT)
        while self.honest.counts()[name] <= before and time.monotonic() < end:
            time.sleep(0.02)

    def connect(self):
        herd = self.herd()
        at_ns = herd.open(pause_us=PAUSE_US)
        if self.options.lie == "absent":
            herd.members[0].kill()
            herd.members[0:1] = []
        self.figures["connect_s"] = self.beats(herd, at_ns, "all connect at once")
        if self.options.lie == "fenced":
            self.honest.stop()
            time.sleep(2 * self.lease_s)
            self.honest.signal(signal.SIGCONT)
            self.grows("reconnects", 0)
        self.nobody_was_fenced("all connect at once", herd)
        if self.options.lie == "stall":
            self.server.stop_threads()
            time.sleep(self.bound_s(LEASES_TO_ANSWER) + 0.5)
            puts = self.honest.counts()["puts"]
            self.server.signal(signal.SIGCONT)
            self.grows("puts", puts)  # the slow one has ended
        self.served("all connect at once")
        return herd

    def starve(self, herd):
        """The server's threads share one core with a program of real-time priority, which leaves
        them a twentieth of it. The clients have the other cores: nobody is fenced for it."""
        cores = sorted(os.sched_getaffinity(0))
        for rack in (herd, self.honest):
            for member in rack.members:
                pin(member.pid, cores[1:])
        pin(self.server.pid, cores[:1])
        burner = subprocess.Popen(["taskset", "-c", str(cores[0]), "chrt", "-f", "50",
                                   sys.executable, "-c", "while True: pass"])
        try:
            time.sleep(LEASES_TO_STARVE * self.lease_s)
            wrong_if(burner.poll() is not None, "error", "the burner ended by itself")
        finally:
            burner.kill()
            burner.wait()
        pin(self.server.pid, cores)
        self.beats(herd, time.monotonic_ns(), "the server was starved")
        self.nobody_was_fenced("the server was starved", herd)
        self.served("the server was starved", LEASES_TO_ANSWER + LEASES_TO_STARVE)

    def die_and_come(self, old):
        """The old ones die at once, and as many others connect in the same moment."""
        herd = self.herd()
        if self.options.lie == "kept":
            self.rack(1, 1).open(pause_us=PAUSE_US, delay_s=0)
        died_ns = old.die()
        at_ns = herd.open(pause_us=PAUSE_US, delay_s=0.05)
        self.figures["die_and_connect_s"] = self.beats(herd, at_ns, "all die, others connect")
        # the dead are no hindrance to the others: both have their bounds from the same moment
        self.gone(died_ns, [self.honest, herd], "all have died",
                  self.bound_s(LEASES_TO_BEAT + 2 + LEASES_TO_FREE))
        self.nobody_was_fenced("all die, others connect", herd)
        self.served("all die, others connect")
        self.nothing_deferred([self.honest, herd], "the dead are gone")
        return herd

    def fall_silent(self, herd):
        """Half stand still, and one process never calls gkv_tick(); later they go on."""
        quiet, rest = Rack.part(herd, 0, 2), Rack.part(herd, 1, 2)
        tickless = self.rack(1, 8, tick=True)
        tickless.open(pause_us=REST)
        for rack in (rest, self.honest):
            rack.ask("forget")
        before = self.fences()
        at_ns = quiet.stop()
        self.figures["silent_gone_s"] = self.gone(
            at_ns, [self.honest, rest], "half are silent", self.bound_s(1.1 + LEASES_TO_FREE))
        self.served("half are silent")
        self.served("half are silent: the other half", rack=rest)
        self.nothing_deferred([self.honest, rest], "the silent are gone")
        silent, fences = quiet.count + tickless.count, self.fences() - before
        wrong_if(fences < silent, "silent", f"{fences} of {silent} that were silent were fenced")
        tickless.kill()
        at_ns = quiet.signal(signal.SIGCONT)
        self.figures["silent_back_s"] = self.beats(herd, at_ns, "the silent go on")
        self.nobody_was_fenced("the silent go on", rest)
        self.served("the silent go on")

    def end(self, herd):
        """All that was acknowledged is there; all take leave, and nothing is left."""
        for rack in (herd, self.honest):
            rack.ask("pace", REST)
        time.sleep(0.2)  # for what is under way
        if self.options.lie == "acknowledged":
            with open(self.ledger.path, "r+b") as file:
                file.write((1 << 32).to_bytes(8, "little"))
        numbers = self.ledger.taken
        lost = int(self.honest.ask("verify", numbers, seconds=60)[0]["lost"])
        lost += herd.counts()["lost"]
        wrong_if(lost, "lost", f"of {numbers} keys {lost} do not hold what was acknowledged:\n" +
                 "".join(m.stderr() for m in [*self.honest.members, *herd.members])[:2000])
        for rack in (herd, self.honest):
            rack.quit()
        self.gone(time.monotonic_ns(), [], "all have taken leave", self.bound_s(LEASES_TO_FREE))
        self.nothing_deferred([], "all have taken leave")
        s = self.counters()
        wrong_if(s["protocol_errors"], "honest", f"{s['protocol_errors']} protocol errors")
        self.figures["connections"] = s["connections_accepted"]

    def play(self):
        self.start()
        herd = self.connect()
        if self.options.starve:
            self.starve(herd)
        herd = self.die_and_come(herd)
        self.fall_silent(herd)
        self.end(herd)
        self.server.stop()

    def close(self):
        for rack in self.racks:
            rack.kill()
        for one in (self.counters, self.server):
            if one:
                one.close()


def options_of(argv):
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--processes", type=int, default=50, help="client processes [50]")
    p.add_argument("--sessions", type=int, default=8, help="of each [8]")
    p.add_argument("--handles", type=int, default=1, help="of each session [1]")
    p.add_argument("--lease", type=int, default=1000, help="ms [1000]")
    p.add_argument("--memory", default="512M", help="of the server [512M]")
    p.add_argument("--mutant", help="a rule to break (in a build that has mutants)")
    p.add_argument("--fault", help="SOFTRDMA_FAULT of the server: a device that has a bad day")
    p.add_argument("--starve", action="store_true",
                   help="the server has a twentieth of a core for a while (as root)")
    p.add_argument("--lie", choices=LIES, help="something that the judge must find")
    p.add_argument("--json", action="store_true", help="print the figures as one document")
    options = p.parse_args(argv)
    if options.processes < 2:
        p.error("half of the processes fall silent: two at least")
    return options


def main(argv):
    options = options_of(argv)
    program("kv-test-herd")
    wrong = None
    with tempfile.TemporaryDirectory(prefix="gracekv-herd-") as name:
        play = Play(options, pathlib.Path(name))
        try:
            play.play()
        except (Wrong, AssertionError, subprocess.TimeoutExpired) as caught:
            wrong = str(caught) if isinstance(caught, Wrong) else f"error: {caught}"
        finally:
            play.close()
    if options.json:
        print(json.dumps({**play.figures, "wrong": wrong}))
    else:
        for key, value in play.figures.items():
            print(f"{key:20} {value:10.3f}" if isinstance(value, float) else f"{key:20} {value:6}")
    if wrong:
        print(f"WRONG {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
