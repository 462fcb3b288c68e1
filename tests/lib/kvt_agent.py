# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Starts processes for tests that run on another machine, and does to them what the tests say.

usage: kvt_agent.py HOST:PORT | -

A connection is for one process and ends it; kvt_remote.py says how to talk. Whoever connects may
run anything: for networks between test machines only. With "-", stdin and stdout are the one
connection, and nothing listens: for ssh.
"""
import base64
import io
import json
import pathlib
import signal
import socketserver
import sys

from kvt_process import Process, free_port
from kvt_rdma import address_of, resources

FREE = {"free_port": free_port, "resources": resources, "address_of": address_of}
CALLS = {"read_line", "running", "returncode", "signal", "wait", "where", "kill", "state",
         "stop_threads", "cpu_seconds", "user_seconds", "descriptors", "limit_descriptors",
         "address_space_bytes", "stderr"}


class Talk(socketserver.StreamRequestHandler):
    """One connection, in a process of its own."""

    process = None

    @staticmethod
    def place(files):
        """What the process reads that only the other machine has; None: it is gone there."""
        for path, content in ((pathlib.Path(name), it) for name, it in files.items()):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(base64.b64decode(content))

    def start(self, args, stderr_path, **how):
        assert self.process is None, "a connection has one process"
        pathlib.Path(stderr_path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.process = Process(args, stderr_path, **how)
        return self.process.pid

    def do(self, call, args, how):
        if call in ("start", "place"):
            return getattr(self, call)(*args, **how)
        if call in FREE:
            return FREE[call](*args, **how)
        assert call in CALLS, f"no such call: {call}"
        assert self.process, f"{call} before start"
        return getattr(self.process, call)(*args)

    def handle(self):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            for line in self.rfile:
                request = json.loads(line)
                try:
                    answer = {"result": self.do(**request)}
                except (AssertionError, OSError) as failure:
                    answer = {"assertion": f"{type(failure).__name__}: {failure}"}
                self.wfile.write(json.dumps(answer).encode() + b"\n")
        except ConnectionError:
            pass
        finally:
            if self.process:
                self.process.kill()


class Agent(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64
    max_children = 200


class Stdio(Talk):
    """The connection that stdin and stdout are."""

    def setup(self):
        self.rfile, self.wfile = sys.stdin.buffer, io.FileIO(1, "w", closefd=False)

    def finish(self):
        pass


def main():
    if sys.argv[1:] == ["-"]:
        Stdio(None, "stdin", None)
        return
    host, port = sys.argv[1].rsplit(":", 1)
    with Agent((host, int(port)), Talk) as agent:
        print(f"kvt_agent ready {host}:{port}", flush=True)
        agent.serve_forever()


if __name__ == "__main__":
    main()
