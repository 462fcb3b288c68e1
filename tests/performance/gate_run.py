# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Runs a program to its end or its limit, and leaves nothing behind: no process, no hugepage."""
import contextlib
import ctypes
import dataclasses
import errno
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

POLL_S = 0.05
END_S = 10  # between a request to end and SIGKILL
PR_SET_PDEATHSIG = 1
OUTPUT_MAX = 64 << 20  # bytes of what it prints
SPARE = 64  # hugepages more than are needed: other programs may take some meanwhile
HUGEPAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
READY = re.compile(r"kv-server ready tcp=(\S+) ")
libc = ctypes.CDLL(None)


class Interrupted(Exception):
    """SIGINT, SIGTERM or SIGHUP."""


class Failure(Exception):
    """A sentence: something cannot be measured that should have been."""


@dataclasses.dataclass(frozen=True)
class Done:
    code: int  # below 0: of a signal
    out: str
    err: str
    seconds: float
    late: bool  # it was ended at its limit


signals = []  # that came


def heed_signals():
    """They are noted, and seen while a program runs: nothing is torn in the middle."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN:  # else it is nohup's
            signal.signal(one, lambda number, frame: signals.append(number))


def give_way():
    if signals:
        raise Interrupted


def environment(extra):
    """Without what changes the programs' defaults."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GRACEKV_", "SOFTRDMA_")) or k.startswith("GRACEKV_TEST_")}
    env.update(extra)
    return env


def prepare():
    """In the child: it dies with us, whatever ends us."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ended(child):
    """Whether it has, though it stays a zombie: until it is waited for its group is its own."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def await_end(child, seconds, disturbed=lambda: None):
    deadline = time.monotonic() + seconds
    while not ended(child):
        disturbed()
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def end(child):
    """It and those that it started."""
    if not ended(child):
        os.killpg(child.pid, signal.SIGTERM)
        await_end(child, END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def run(args, limit_s, extra=()):
    """A Done. OSError where it cannot be started, or prints without end; Interrupted, when it
    has been ended."""
    def look():
        give_way()
        if any(os.fstat(f.fileno()).st_size > OUTPUT_MAX for f in (out, err)):
            raise OSError(errno.EFBIG, f"it printed more than {OUTPUT_MAX >> 20} MiB", args[0])

    give_way()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 env=environment(extra), start_new_session=True,
                                 preexec_fn=prepare)
        try:
            late = not await_end(child, limit_s, look)
        finally:
            end(child)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", errors="replace"))
        return Done(child.returncode, *texts, time.monotonic() - started, late)


@contextlib.contextmanager
def serving(args, **how):
    """A program that runs meanwhile."""
    child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             env=environment(()), start_new_session=True, preexec_fn=prepare,
                             **how)
    try:
        yield child
    finally:
        end(child)
        child.stdout.close()


@contextlib.contextmanager
def kv_server(build, *words, device="soft0", host="127.0.0.1"):
    """One that serves there; its address."""
    with serving([str(build / "bin" / "kv-server"), "--listen", f"{host}:0", "--device", device,
                  "--log-level", "error", *words]) as child:
        ready = READY.match(child.stdout.readline())  # or the end of its stdout
        if not ready:
            raise Failure("kv-server: it does not serve")
        yield ready[1]


def output(args, stdin=None, file=subprocess.PIPE):
    """What a program prints that ends well."""
    done = subprocess.run(args, stdin=stdin or subprocess.DEVNULL, stdout=file,
                          stderr=subprocess.PIPE, text=True, check=False, env=environment(()),
                          preexec_fn=prepare)
    if done.returncode:
        raise Failure(f"{pathlib.Path(args[0]).name}: "
                      f"{done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def script(name, document):
    """A program of ours that prints a document; its exit status."""
    for one in (signal.SIGINT, signal.SIGTERM):  # an exception, so that nothing is left
        signal.signal(one, lambda number, frame: sys.exit(128 + number))
    try:
        print(json.dumps(document(), indent=2), flush=True)
        return 0
    except (Failure, OSError, ValueError, KeyError, ArithmeticError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 3


def busy_seconds():
    """Of all cores since the start of the machine; "steal" is what its host did without us."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", maxsplit=1)[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Of us and of all that we started and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def others():
    """A function that says what others have had since: cores, not below 0."""
    start = time.monotonic(), busy_seconds() - own_seconds()

    def cores():
        seconds = max(time.monotonic() - start[0], 0.01)
        return max(0.0, (busy_seconds() - own_seconds() - start[1]) / seconds)
    return cores


class NoHugepages(Exception):
    """They cannot be had; the sentence says why."""


@contextlib.contextmanager
def hugepages(more, where=HUGEPAGES):
    """So many more in the pool than there are, at least; at the end it has as many as before."""
    try:
        before = int(where.read_text())
        if not os.access(where, os.W_OK):
            raise NoHugepages(f"{where} may not be written (--hugepages wants root)")
    except (OSError, ValueError) as error:
        raise NoHugepages(f"{where}: {error}") from None
    try:
        where.write_text(f"{before + more + SPARE}\n")
        got = int(where.read_text()) - before
        if got < more:
            raise NoHugepages(f"the kernel gave {got} of {more} hugepages of 2 MiB: memory is in"
                              " use or in pieces (try after a restart, or stop what uses it)")
        yield
    finally:
        where.write_text(f"{before}\n")
