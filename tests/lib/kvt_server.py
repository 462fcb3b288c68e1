# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-server as a child process, of this machine or of the one that GRACEKV_TEST_AGENT names."""
import contextlib
import itertools
import re
import signal
import socket
import time

from kvt_process import AGENT, CONNECT, DEVICE, HOST, Process, program
from kvt_remote import RemoteProcess

READY = re.compile(r"^kv-server ready tcp=(?P<host>\S+):(?P<port>\d+) device=(?P<device>\S+) "
                   r"gid=(?P<gid>\d+) memory=(?P<memory>\d+) pid=(?P<pid>\d+)$")
READY_S = 10
STOP_S = 5
number = itertools.count(1)


class ServerFailed(Exception):
    """kv-server ended instead of serving; rc and err tell how, as of kvt_client.run()."""

    def __init__(self, rc, err):
        super().__init__(f"kv-server exited {rc}: {err}")
        self.rc = rc
        self.err = err


# A process on the machine that servers run on
ServerSide = RemoteProcess if AGENT else Process


def command_of(*args, listen=f"{HOST}:0", memory="256M", device=DEVICE, connect=CONNECT,
               name="kv-server", under=()):
    """The arguments that a server is started with. @under: those of a program that starts it."""
    command = [*under, program(name)]
    if listen:
        command += ["--listen", listen]
    if memory:
        command += ["--memory", memory]
    if device:
        command += ["--device", device]
    if connect != "tcp":
        command += ["--connect", connect]
    return command + list(map(str, args))


class Server(ServerSide):
    """A kv-server that has printed its ready line."""

    def __init__(self, folder, *args, env=None, address_space=None, log=None, ready_s=READY_S,
                 **how):
        super().__init__(command_of(*args, **how),
                         log or folder / f"kv-server.{next(number)}.stderr", env=env,
                         address_space=address_space)
        self.ready_line = self.read_line(ready_s)
        if self.ready_line is None:
            rc = self.wait(STOP_S)
            raise ServerFailed(rc, self.stderr())
        match = READY.match(self.ready_line)
        if not match:
            self.kill()
        assert match, f"not a ready line: {self.ready_line!r}"
        self.ready = match.groupdict()
        self.port = int(self.ready["port"])
        self.address = f"{self.ready['host']}:{self.port}"
        self.expected_dead = False
        self.held = None

    def hold(self):
        """The kernel gives its port to no server of another test, which clients would find there. A
        socket that is bound and does not listen leaves it to those that name it (socket(7))."""
        self.held = socket.socket()
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # it is not of this machine, or not of IPv4, or taken
            self.held.bind((self.ready["host"], self.port))

    def stop(self, how=signal.SIGTERM, seconds=STOP_S):
        """End it as an administrator does; it must exit 0."""
        self.expected_dead = True
        self.signal(how)
        if self.state() == "T":
            self.signal(signal.SIGCONT)
        rc = self.wait(seconds)
        self.hold()
        assert rc == 0, f"kv-server exited {rc} after signal {how}\n{self.stderr()}"

    def crash(self):
        """SIGKILL."""
        self.expected_dead = True
        self.kill()
        self.hold()

    def finish(self):
        """At the end of a test: it must still be there, unless the test ended it."""
        try:
            if not self.expected_dead:
                assert self.running(), (f"kv-server ended by itself: {self.returncode()}\n"
                                        f"{self.stderr()}")
                self.stop()
        finally:
            self.close()
            if self.held:
                self.held.close()


def refused(folder, *args, seconds=5, **how):
    """kv-server must not start; the failure."""
    started = time.monotonic()
    try:
        Server(folder, *args, **how).crash()
    except ServerFailed as failure:
        assert time.monotonic() - started < seconds, "a refusal comes at once"
        assert failure.rc >= 0, f"died of signal {-failure.rc}"
        return failure
    raise AssertionError("it serves")
