# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Processes on another machine, driven as if they were here: the other end of kvt_agent.py.

Paths mean the same on both machines. Where they share no folder that tests write to, a process is
sent the files of such a folder that its arguments name, and once more before each signal.
"""
import base64
import json
import pathlib
import shlex
import socket
import subprocess

from kvt_process import AGENT, SLOW, free_port, sanitizer_report
from kvt_rdma import resources

CALL_S = 30  # beyond what the call itself waits for
COMMAND = "command "  # before an agent that is a command, whose stdin and stdout are the connection


class Connection:
    """One connection to the agent: one call, one answer, in lines of JSON."""

    def __init__(self):
        self.child = None
        if AGENT.startswith(COMMAND):
            self.sock, far = socket.socketpair()
            with far:
                self.child = subprocess.Popen(shlex.split(AGENT.removeprefix(COMMAND)), stdin=far,
                                              stdout=far, start_new_session=True)
        else:
            host, port = AGENT.rsplit(":", 1)
            self.sock = socket.create_connection((host, int(port)), 10)
        self.file = self.sock.makefile("r", encoding="utf-8")

    def call(self, what, *args, wait_s=0, **how):
        """The result; what asserts there asserts here."""
        self.sock.settimeout((wait_s + CALL_S) * SLOW)
        self.sock.sendall(json.dumps({"call": what, "args": args, "how": how}).encode() + b"\n")
        line = self.file.readline()
        assert line, f"the agent at {AGENT} went away in {what}"
        answer = json.loads(line)
        if "assertion" in answer:
            raise AssertionError(answer["assertion"])
        return answer["result"]

    def close(self):
        self.file.close()
        self.sock.close()
        if self.child:
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


def ask(what, *args, **how):
    """One call that belongs to no process."""
    connection = Connection()
    try:
        return connection.call(what, *args, **how)
    finally:
        connection.close()


def server_port():
    """A TCP port that is free on the machine that servers run on."""
    return ask("free_port") if AGENT else free_port()


def device_resources():
    """What is left on the device: here, and where the servers run."""
    return [resources(), ask("resources") if AGENT else None]


def forward(name, waits=False):
    """A method that does what it does in Process, there. waits: its first argument is seconds."""
    def method(self, *args):
        return self.agent.call(name, *args, wait_s=args[0] if waits else 0)
    return method


class RemoteProcess:
    """kvt_process.Process on the agent's machine. It dies with the connection."""

    def __init__(self, args, stderr_path, *, env=None, address_space=None):
        self.stderr_path = pathlib.Path(stderr_path)
        self.agent = Connection()
        self.closed = False
        self.names = self.files_of(args) if AGENT.startswith(COMMAND) else []
        self.place()
        self.pid = self.agent.call("start", args, str(stderr_path), env=env,
                                   address_space=address_space)

    def files_of(self, args):
        folder = self.stderr_path.parent
        return [name for name in args
                if pathlib.Path(name).is_file() and folder in pathlib.Path(name).parents]

    def place(self):
        """As they are here."""
        files = {name: base64.b64encode(pathlib.Path(name).read_bytes()).decode()
                 if pathlib.Path(name).is_file() else None for name in self.names}
        if files:
            self.agent.call("place", files)

    def signal(self, number):
        self.place()
        return self.agent.call("signal", number)

    read_line = forward("read_line", waits=True)
    wait = forward("wait", waits=True)
    for one in ("running", "returncode", "where", "kill", "state", "stop_threads", "cpu_seconds",
                "user_seconds", "descriptors", "limit_descriptors", "address_space_bytes",
                "stderr"):
        vars()[one] = forward(one)
    del one

    def close(self):
        if not self.closed:
            self.kill()
            text = self.stderr()
            self.agent.close()
            self.closed = True
            report = sanitizer_report(text)
            assert not report, f"pid {self.pid}: {report}"
