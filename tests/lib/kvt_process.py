# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Processes under test: starting, waiting with a deadline, CPU time, sanitizer reports."""
import ctypes
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRACEKV_TEST_BUILD", ROOT / "build-test"))
DEVICE = os.environ.get("GRACEKV_TEST_DEVICE", "soft0")
HOST = os.environ.get("GRACEKV_TEST_HOST", "127.0.0.1")
# An IPv6 address of the same network device, for tests of both families
HOST6 = os.environ.get("GRACEKV_TEST_HOST6", "::1")
CONNECT = os.environ.get("GRACEKV_TEST_CONNECT", "tcp")
# HOST:PORT of the kvt_agent.py on the machine that servers run on; "": this machine
AGENT = os.environ.get("GRACEKV_TEST_AGENT", "")
SANITIZED = os.environ.get("GRACEKV_TEST_SANITIZED") == "1"
FULL = os.environ.get("GRACEKV_TEST_FULL") == "1"
# How much slower than usual this machine is: deadlines grow by it, scaled() counts shrink.
SLOW = int(os.environ.get("GRACEKV_TEST_SLOW", "1"))

SANITIZER = re.compile(r"(Address|Leak|Thread|Memory)Sanitizer|runtime error:|Assertion .* failed")
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def program(name):
    """The path of a program of the build."""
    for path in (BUILD / "bin" / name, BUILD / "tests" / "performance" / name,
                 BUILD / "tests" / "integration" / name, BUILD / "tests" / "lib" / name):
        if path.is_file():
            return str(path)
    raise FileNotFoundError(f"{name} is not in {BUILD}")


def environment(extra=None):
    """The caller's environment without what changes the programs' defaults."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("GRACEKV_", "SOFTRDMA_")) or k.startswith("GRACEKV_TEST_")}
    env["LC_ALL"] = "C.UTF-8"
    env.update(extra or {})
    return env


def scaled(count):
    """A number of repetitions, fewer on a slow machine."""
    return -(-count // SLOW)


def wait_until(what, condition, seconds, step=0.02):
    """Poll until condition() is true; its value. Fails after the seconds (times SLOW)."""
    seconds *= SLOW
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(step)


def free_port(host=""):
    """A TCP port that is free now on this machine."""
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def sanitizer_report(text):
    """The part of a program's stderr that a sanitizer or an assertion wrote, or None."""
    match = SANITIZER.search(text)
    return text[max(0, match.start() - 200):match.start() + 4000] if match else None


def die_with_parent(address_space=None):
    """For preexec_fn: no process outlives the tests, whatever ends them."""
    parent = os.getpid()

    def prepare():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        if address_space:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    return prepare


class Process:
    """A child in a process group of its own, with stderr in a file."""

    def __init__(self, args, stderr_path, *, stdin=subprocess.DEVNULL, env=None,
                 address_space=None):
        self.stderr_path = pathlib.Path(stderr_path)
        with open(self.stderr_path, "wb") as err:
            self.popen = subprocess.Popen(
                args, stdin=stdin, stdout=subprocess.PIPE, stderr=err, env=environment(env),
                start_new_session=True, preexec_fn=die_with_parent(address_space), bufsize=0)
        self.pid = self.popen.pid
        self.pending = b""
        os.set_blocking(self.popen.stdout.fileno(), False)

    def stderr(self):
        return self.stderr_path.read_text(encoding="utf-8", errors="replace")

    def read_line(self, seconds):
        """A line of stdout without its newline; None at its end. The seconds are times SLOW."""
        seconds *= SLOW
        deadline = time.monotonic() + seconds
        fd = self.popen.stdout.fileno()
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            assert left > 0, f"pid {self.pid} printed no line in {seconds} s\n{self.stderr()}"
            if select.select([fd], [], [], left)[0]:
                piece = os.read(fd, 1 << 20)
                if not piece:
                    return None
                self.pending += piece
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode("utf-8", errors="replace")

    def running(self):
        return self.popen.poll() is None

    def returncode(self):
        return self.popen.poll()

    def signal(self, number):
        assert self.running(), f"pid {self.pid} has ended: {self.popen.returncode}\n{self.stderr()}"
        os.kill(self.pid, number)

    def wait(self, seconds):
        """The return code; the process is killed where it takes longer, which is a failure."""
        seconds *= SLOW
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            where = self.where()
            self.kill()
            raise AssertionError(
                f"pid {self.pid} did not end within {seconds} s\n{where}\n{self.stderr()}"
            ) from None

    def where(self):
        """What the threads wait for: for a message about a hang."""
        lines = []
        for task in sorted(pathlib.Path(f"/proc/{self.pid}/task").glob("*")):
            try:
                lines.append(" ".join([task.name, (task / "comm").read_text().strip(),
                                       (task / "wchan").read_text(),
                                       (task / "syscall").read_text().strip()]))
            except OSError:
                pass
        return "\n".join(lines)

    def kill(self):
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
        self.popen.wait(10)

    def close(self):
        self.kill()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        report = sanitizer_report(self.stderr())
        assert not report, f"pid {self.pid}: {report}"

    def state(self):
        """The letter of /proc/PID/stat: R, S, T, ..."""
        return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def stop_threads(self):
        """SIGSTOP, and wait until the last thread stands still."""
        def stands():
            return all(stat.read_text().rsplit(")", 1)[1].split()[0] == "T"
                       for stat in pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat"))
        self.signal(signal.SIGSTOP)
        wait_until(f"all threads of {self.pid} are stopped", stands, 60, step=0.001)

    def cpu_seconds(self):
        """CPU time of all threads that live, to the nanosecond where the kernel counts so."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.pid}/task").glob("*"):
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except OSError:
                return self.cpu_seconds_by_ticks()
        return total / 1e9

    def cpu_seconds_by_ticks(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        """How many file descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def limit_descriptors(self, soft):
        """Set how many it may have; what the limit was."""
        before, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (soft, hard))
        return before

    def address_space_bytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmSize:\s+(\d+) kB", status).group(1)) << 10

    def user_seconds(self):
        """CPU time in user space, in ticks of the kernel's clock."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")
