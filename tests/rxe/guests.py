#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Boot one or two guests with Soft-RoCE under emulated QEMU and run a job in each.

README.md beside this file says what a job finds. Exit status: 0 every job exited 0; 1 one did not,
or the guests fell silent: then what they printed is printed here; 2 wrong usage; 3 there is nothing
to boot, or no qemu; 4 a guest's kernel died: it said so, and ended without a result of its job.
"""
import argparse
import contextlib
import ctypes
import math
import mmap
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
QEMU = "qemu-system-x86_64"
GUESTS_MAX = 2
STOP_MAX_S = 30
POLL_S = 0.02
STOPPED_POLL_S = 0.002
# What the others have to end in, once a job has failed.
GRACE_S = 10
LISTEN_S = 1
COUNTED_KHZ = 1000000  # of the time stamp counter where instructions are counted: nanoseconds
TAIL_LINES = 200
DEATH = re.compile(r"-\[ cut here \]-|Kernel panic|BUG: |Oops: ")
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class NoGuest(Exception):
    """A guest cannot be booted."""


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def tsc_khz():
    """The rate of this machine's time stamp counter, which is the emulated one's too.

    A guest that is left to find it out against emulated timers takes it for far too low where the
    host is busy, and all its clocks then run several times too fast.
    """
    # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
    code = bytes.fromhex("0f31 48c1e220 4809d0 c3")
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as m:
        m.write(code)
        place = ctypes.c_char.from_buffer(m)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
        samples = []
        for _ in range(3):  # the shortest is the least disturbed
            ns, ticks = time.monotonic_ns(), read()
            time.sleep(0.05)
            span_ns, span_ticks = time.monotonic_ns() - ns, read() - ticks
            samples.append((span_ns, span_ticks))
        del read, place
    span_ns, span_ticks = min(samples)
    return span_ticks * 1000000 // span_ns


def clock(options):
    """Where instructions are counted, each takes two nanoseconds, however busy the host is, and the
    time stamp counter counts those nanoseconds."""
    if options.count:
        return ["-accel", "tcg,thread=single", "-icount", "shift=1"]
    return ["-accel", "tcg,thread=multi"]


def network(kind, guest, cable):
    """One card, and its end of the cable to the other guest where there is one: Unix datagrams, a
    connected pair, so that a qemu whose peer is busy waits for room instead of trying for ever."""
    mac = f"52:54:00:{99 if kind == 'rdma' else 98}:00:0{guest}"
    if cable is None:
        backend = f"hubport,id={kind},hubid={0 if kind == 'rdma' else 1}"
    else:
        backend = f"dgram,id={kind},local.type=fd,local.str={cable.fileno()}"
    card = f"virtio-net-pci,netdev={kind},mac={mac},speed=10000,duplex=full"
    return ["-netdev", backend, "-device", card]


class Guest:
    """One virtual machine and its files in the shared folder."""

    def __init__(self, number, job, options):
        self.number = number
        self.folder = options.dir
        self.console = self.folder / f"console.{number}"
        self.output = self.folder / f"output.{number}"
        self.result = self.folder / f"rc.{number}"
        self.continue_at = None
        self.died = False
        self.cables = {kind: ends and ends[number - 1] for kind, ends in options.cables.items()}
        self.write_job(job, options.jobs)
        with open(self.folder / f"qemu.{number}", "wb") as log:
            self.popen = subprocess.Popen(
                self.command(options), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[end.fileno() for end in self.cables.values() if end],
                start_new_session=True, preexec_fn=die_with_parent)

    def write_job(self, job, jobs):
        names = {"RXE_GUESTS": len(jobs), "RXE_DEVICE": "rxe0", "RXE_NETDEV": "rdmanet",
                 "RXE_ROOT": HERE.parents[1], "RXE_PEER": len(jobs) + 1 - self.number}
        for name, value in (("HOST", "10.99.0.{}"), ("HOST6", "fd99::{}"),
                            ("CONTROL", "10.98.0.{}")):
            names[f"RXE_{name}"] = value.format(self.number)
            names[f"RXE_{name}_PEER"] = value.format(names["RXE_PEER"])
        names.update((k, v) for k, v in os.environ.items() if k.startswith("GRACEKV_TEST_"))
        lines = [f"export {k}={shlex.quote(str(v))}" for k, v in names.items()]
        (self.folder / f"job.{self.number}").write_text("\n".join([*lines, job, ""]))

    def command(self, options):
        words = ["console=ttyS0", "loglevel=5", "panic=-1", "mitigations=off", "nokaslr",
                 "tsc=reliable", f"tsc_early_khz={options.tsc_khz}", "random.trust_cpu=on",
                 "cryptomgr.notests", "net.ifnames=0", f"possible_cpus={options.cpus}",
                 f"rxe.guest={self.number}", f"rxe.shared={self.folder}",
                 f"rxe.init={HERE / 'guest-init'}"]
        # A place for one CPU more, never filled: for a machine that can have only one, TCG emits no
        # memory barriers (CF_PARALLEL), though qemu's own thread shares the virtio rings with it.
        # The guest's test "does the device want a kick" then runs before its write of the ring is
        # seen, a kick is lost, and the network card stands still for good. With --count there are
        # no barriers in any case: it is for a guest without a peer.
        cpus = f"{options.cpus},maxcpus={options.cpus + 1}"
        return [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-name", f"gracekv-rxe-{self.number}",
                "-machine", "q35,smbus=off,sata=off,vmport=off", *clock(options),
                "-cpu", "max", "-smp", cpus, "-m", f"{options.memory}M",
                "-kernel", str(options.boot / "kernel"), "-initrd", str(options.boot / "initrd"),
                "-append", " ".join(words), "-serial", f"file:{self.console}",
                "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
                "-fsdev", f"local,id=shared,path={self.folder},security_model=none",
                "-device", "virtio-9p-pci,fsdev=shared,mount_tag=shared",
                *[word for kind, end in self.cables.items()
                  for word in network(kind, self.number, end)]]

    def running(self):
        return self.popen.poll() is None

    def code(self):
        """The job's exit code; None where the guest left none."""
        try:
            return int(self.result.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def stop(self, seconds):
        self.popen.send_signal(signal.SIGSTOP)
        self.continue_at = time.monotonic() + seconds

    def go_on(self):
        """Continue, if its time has come. Until then what is sent to it is lost, as on a network:
        its sockets would fill, and hold up the qemu that sends."""
        if self.continue_at is None:
            return
        for end in self.cables.values():
            try:
                while end:
                    end.recv(1 << 16)
            except BlockingIOError:
                pass
        if time.monotonic() >= self.continue_at:
            self.popen.send_signal(signal.SIGCONT)
            self.continue_at = None

    def kill(self):
        self.died = not self.running() and self.code() is None and bool(
            DEATH.search(self.text(self.console)))
        if self.running():
            self.popen.kill()
        self.popen.wait()

    @staticmethod
    def text(path):
        return path.read_text(errors="replace") if path.exists() else ""

    def explain(self):
        """Print what it printed."""
        code = self.code()
        print(f"guest {self.number}: " + ("no result" if code is None else f"exit code {code}"))
        for title, path in (("qemu", self.folder / f"qemu.{self.number}"),
                            ("console", self.console), ("output", self.output)):
            for line in self.text(path).splitlines()[-TAIL_LINES:]:
                print(f"guest {self.number} {title} | {line.rstrip()}")


def serve(guests, folder):
    """Do what jobs ask for with stop-guest."""
    for path in folder.glob("stop.*.request"):
        text = path.read_text()
        path.unlink()
        try:
            number, seconds = text.split()
            seconds = float(seconds)
            if not 0 < seconds <= STOP_MAX_S:
                raise ValueError(f"{seconds} s is not above 0 and at most {STOP_MAX_S}")
            guest = next(g for g in guests if g.number == int(number))
            guest.stop(seconds)
            answer = "stopped"
        except StopIteration:
            answer = f"there is no guest {number}"
        except ValueError as error:
            answer = f"not a request, {text!r}: {error}"
        new = path.with_suffix(".new")
        new.write_text(answer)
        new.rename(path.with_suffix(".answer"))


class Silence:
    """How long the guests have printed nothing. A busy machine makes them slow, not silent."""

    def __init__(self, folder):
        self.folder = folder
        self.heard = self.looked_at = self.since = 0

    def seconds(self):
        now = time.monotonic()
        if now >= self.looked_at + LISTEN_S:
            self.looked_at = now
            heard = sum(path.stat().st_size for pattern in ("console.*", "output.*", "report")
                        for path in self.folder.glob(pattern))
            if heard != self.heard or not self.since:
                self.heard, self.since = heard, now
        return now - self.since


def watch(guests, options):
    """Until all have ended. A sentence of what went wrong, or None."""
    silence = Silence(options.dir)
    deadline = math.inf
    why = None
    while any(guest.running() for guest in guests):
        serve(guests, options.dir)
        for guest in guests:
            guest.go_on()
            if why is None and not guest.running() and guest.code() != 0:
                why = (f"guest {guest.number} ended without a result" if guest.code() is None
                       else f"the job of guest {guest.number} exited {guest.code()}")
                deadline = min(deadline, time.monotonic() + GRACE_S)
        if time.monotonic() > deadline:
            return why
        if silence.seconds() > options.silence:
            return why or f"the guests printed nothing for {options.silence:g} s"
        stopped = any(guest.continue_at is not None for guest in guests)
        time.sleep(STOPPED_POLL_S if stopped else POLL_S)
    bad = [guest.number for guest in guests if guest.code() != 0]
    return why or (f"guest {bad[0]} did not exit 0" if bad else None)


def cables(count):
    """A pair of sockets for each network; None in one guest alone."""
    made = {}
    for kind in ("rdma", "control"):
        made[kind] = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) if count > 1 else None
        for end in made[kind] or ():
            end.setblocking(False)
    return made


def run(options):
    guests, started = [], time.monotonic()
    for pattern in ("rc.*", "output.*", "console.*", "job.*", "qemu.*", "stop.*"):
        for path in options.dir.glob(pattern):
            path.unlink()
    try:
        for number, job in enumerate(options.jobs, 1):
            guests.append(Guest(number, job, options))
        why = watch(guests, options)
    finally:
        for guest in guests:
            guest.kill()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"guests.py: {time.monotonic() - started:.0f} s, in which qemu had"
          f" {used.ru_utime + used.ru_stime:.0f} s of CPU", flush=True)
    if why:
        print(f"guests.py: {why}")
        for guest in guests:
            guest.explain()
        return 4 if any(guest.died for guest in guests) else 1
    if options.show:
        for guest in guests:
            sys.stdout.write(guest.output.read_text(errors="replace"))
    return 0


def folder_for_guests(text):
    path = pathlib.Path(text).resolve()
    if any(c in " ,\\" for c in str(path)):
        raise argparse.ArgumentTypeError(f"{path}: a path with blanks, commas or backslashes"
                                         " cannot be given to a guest")
    return path


def arguments():
    parser = argparse.ArgumentParser(
        description="Boot a guest with Soft-RoCE for each JOB, a bash command, and run it there.")
    parser.add_argument("--boot", type=folder_for_guests, required=True, metavar="FOLDER",
                        help="where kernel and initrd of make-boot are")
    parser.add_argument("--dir", type=folder_for_guests, required=True, metavar="FOLDER",
                        help="shared with the guests; results, output and consoles land in it")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB",
                        help="of each guest (default %(default)s)")
    parser.add_argument("--cpus", type=int, default=1,
                        help="of each guest; emulated, one is the fastest (default %(default)s)")
    parser.add_argument("--count", action="store_true",
                        help="let a guest's time be made of its instructions, not of the host's"
                        " time: what is measured there does not depend on how busy the host is")
    parser.add_argument("--silence", type=float, default=120, metavar="S",
                        help="end guests that print nothing for this long (default %(default)s)")
    parser.add_argument("--show", action="store_true", help="print the jobs' output on success too")
    parser.add_argument("jobs", nargs="+", metavar="JOB")
    options = parser.parse_args()
    if len(options.jobs) > GUESTS_MAX:
        parser.error(f"at most {GUESTS_MAX} guests")
    return options


def main():
    options = arguments()
    if not shutil.which(QEMU):
        raise NoGuest(f"{QEMU} is not installed (Debian's package qemu-system-x86)")
    for name in ("kernel", "initrd"):
        if not (options.boot / name).is_file():
            raise NoGuest(f"{options.boot}/{name} is not there (make it with make-boot)")
    options.tsc_khz = COUNTED_KHZ if options.count else tsc_khz()
    options.dir.mkdir(parents=True, exist_ok=True)
    # An exception, so that the guests are ended
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with contextlib.ExitStack() as undo:
        options.cables = cables(len(options.jobs))
        for end in (end for ends in options.cables.values() for end in ends or ()):
            undo.callback(end.close)
        return run(options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoGuest as error:
        print(f"guests.py: {error}", file=sys.stderr)
        sys.exit(3)
