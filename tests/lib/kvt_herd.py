# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Racks of sessions: many kv-test-herd processes that open, work, stop and die at one moment."""
import json
import mmap
import os
import signal
import subprocess
import time

from kvt_client import Cli, Herd, flat_stats
from kvt_process import Process, wait_until

REST = (1 << 32) - 1  # the pause of sessions that make no call
ENTRY_BYTES = 16  # of a ledger
START_S = 60  # for all processes of a rack to be there


class Ledger:
    """What was begun and acknowledged, by numbers that racks take from it (herd_rack.h)."""

    def __init__(self, folder, numbers):
        self.path = folder / "ledger"
        self.taken = 0
        with open(self.path, "wb") as file:
            file.truncate(max(numbers * ENTRY_BYTES, mmap.PAGESIZE))

    def take(self, count):
        first, self.taken = self.taken, self.taken + count
        assert self.taken * ENTRY_BYTES <= self.path.stat().st_size, "the ledger is full"
        return first


class Member(Herd):
    """One process of a rack."""

    def close(self):
        if self.running() and self.state() == "T":
            self.signal(signal.SIGCONT)
        super().close()


class Rack:
    """Some processes with some sessions each, driven as one."""

    def __init__(self, folder, address, ledger, processes, sessions, *, handles=1, tick=False,
                 **how):
        self.count = processes * sessions
        self.queue_pairs = self.count * (handles + 1)
        self.members = []
        try:
            for _ in range(processes):
                first = ledger.take(sessions * handles)
                self.members.append(Member(folder, address, sessions, handles, 5000, 2000,
                                           ledger.path, first, "tick" if tick else "thread",
                                           wait=False, **how))
            self.answers(START_S)
        except BaseException:
            self.kill()
            raise

    @classmethod
    def part(cls, whole, number, of):
        """One part of the processes of another rack, as a rack."""
        it = cls.__new__(cls)
        it.members = whole.members[number::of]
        it.count = whole.count * len(it.members) // len(whole.members)
        it.queue_pairs = whole.queue_pairs * len(it.members) // len(whole.members)
        return it

    def answers(self, seconds):
        return [member.answer(seconds) for member in self.members]

    def ask(self, *words, seconds=20):
        for member in self.members:
            member.start(*words)
        return self.answers(seconds)

    def open(self, *, pause_us, value=64, delay_s=None):
        """All sessions at one moment, which is returned: time.monotonic_ns()."""
        delay_s = 0.3 + len(self.members) / 500 if delay_s is None else delay_s
        at_ns = time.monotonic_ns() + int(delay_s * 1e9)
        self.ask("open", at_ns, pause_us, value)
        return at_ns

    def beat(self, seconds, hold_s):
        """How many sessions beat, and when the last one of them began to: monotonic_ns()."""
        answers = self.ask("beat", int(seconds * 1000), int(hold_s * 1000), seconds=seconds + 20)
        return (sum(int(one["beating"]) for one in answers),
                max(int(one["at_ns"]) for one in answers))

    def counts(self):
        """Sums of all; of times and errors, the greatest."""
        answers = self.ask("counts")
        total = {}
        for name in answers[0]:
            values = [float(one[name]) for one in answers]
            apart = name.endswith("_us") or name == "error"
            total[name] = max(values, key=abs) if apart else int(sum(values))
        return total

    def signal(self, number):
        """To all, as nearly at once as may be; returns when: monotonic_ns()."""
        now = time.monotonic_ns()
        for member in self.members:
            os.kill(member.pid, number)
        return now

    def stop(self):
        """SIGSTOP, and wait until all stand still."""
        now = self.signal(signal.SIGSTOP)
        wait_until("the rack stands still", lambda: all(m.state() == "T" for m in self.members), 10)
        return now

    def die(self):
        now = self.signal(signal.SIGKILL)
        self.kill()
        return now

    def kill(self):
        for member in self.members:
            member.kill()

    def quit(self):
        """All sessions are closed in order."""
        for member in self.members:
            member.start("quit")
        for member in self.members:
            rc = member.wait(60)
            assert rc == 0, f"kv-test-herd exited {rc}\n{member.stderr()}"

    def close(self):
        for member in self.members:
            member.close()


class Counters(Process):
    """A kv-cli that stays connected, so that looking at the server's counters adds no sessions."""

    SESSIONS, QUEUE_PAIRS = 1, 2

    def __init__(self, folder, address):
        super().__init__([*Cli(address).base, "--json"], folder / "counters.stderr",
                         stdin=subprocess.PIPE)

    def __call__(self):
        self.popen.stdin.write(b"stats\n")
        lines = []
        while not lines or lines[-1] != "}":
            lines.append(self.read_line(60))
            assert lines[-1] is not None, f"kv-cli ended: {self.stderr()}"
        return flat_stats(json.loads("".join(lines)))
