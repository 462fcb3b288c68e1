# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The parts of a round: a server, its clients, and the relay between them."""
import json
import re
import subprocess
import time

import kvt_process
from kvt_client import flat_stats
from kvt_relay import Relay
from kvt_server import Server, ServerFailed, command_of

from board import Board
from options import CannotRun

SOFT = kvt_process.DEVICE == "soft0"
STOP_S = 20
CLOCKS = ("fast_clock", "fast_clock", "slow_clock", "slow_clock", "")  # mutants
COULD_NOT = (2, 3)  # exit status of server and clients: wrong usage; it could not run


class Wrong(Exception):
    """The system did what it must not do, or something in it ended by itself."""


def weather(rng, rough, weak):
    """How unkind a process's soft0 is, as environment. @weak: features that it surely has."""
    env = {}
    if not SOFT:
        return env
    if weak:
        return {"SOFTRDMA_WEAK": f"{rng.randrange(1, 1 << 30)},{weak}"}
    if rng.random() < rough:
        features = rng.choice(["", "", ",reorder", ",lines,delay", ",twice", ",late,completions"])
        env["SOFTRDMA_WEAK"] = f"{rng.randrange(1, 1 << 30)}{features}"
    if rng.random() < rough:
        fault = rng.choice([f"drop={rng.randrange(500, 5000)}", f"rnr={rng.randrange(200, 2000)}",
                            f"qp_error={rng.randrange(500, 5000)}", "delay=20"])
        env["SOFTRDMA_FAULT"] = f"{fault},seed={rng.randrange(1 << 30)}"
    return env


class Cast:
    """The processes of a round. Started from one thread, which they do not outlive."""

    def __init__(self, options, folder, rng):
        self.options = options
        self.folder = folder
        self.rng = rng
        self.board = Board(folder / "board", options.slots, options.key_operations,
                           options.key_open)
        try:
            self.relay = Relay(kvt_process.HOST)
        except OSError as err:
            raise CannotRun(f"{err} ($GRACEKV_TEST_HOST is an address of this machine)") from None
        self.server = None
        self.clients = {}
        self.ballast = []
        self.processes = 0
        self.served = {}
        self.lives = 0
        self.halves = 0  # lives that were killed before they served
        self.memory = options.memory

    def durably(self):
        """What a server with a data directory is started with. Snapshots come often, so that
        many are killed in the midst of one."""
        if not self.options.data_dir:
            return []
        return ["--sync", self.options.sync, "--log-segment", "64M", "--snapshot-every", "16M"]

    def server_args(self):
        where = ["--data-dir", str(self.folder / "data")] if self.options.data_dir else []
        return ["--lease", str(self.options.lease), "--workers", "2", *where, *self.durably()]

    def env(self, rough):
        env = weather(self.rng, rough, self.options.weak)
        mutants = [self.options.mutant]
        if self.options.clocks:
            mutants.append(self.rng.choice(CLOCKS))
        if any(mutants):
            env["GRACEKV_MUTANT"] = ",".join(filter(None, mutants))
        return env

    def start(self):
        self.start_server()
        for role in ("grow", "press"):
            self.ballast.append(self._start_client(role, 0))
        for _ in range(self.options.clients):
            self.start_client()

    def start_server(self):
        """On another port each time: clients know that of the relay."""
        if self.server:
            self.server.close()
        try:
            self.server = Server(self.folder, *self.server_args(), memory=self.memory,
                                 env=self.env(self.options.rough / 2))
        except ServerFailed as failed:
            if self.more_memory(failed.err):
                self.start_server()
                return
            if self.lives == 0 and failed.rc in COULD_NOT:
                raise CannotRun(f"kv-server does not begin:\n{failed.err.strip()}") from None
            raise Wrong(str(failed)) from None
        self.lives += 1
        self.relay.aim(kvt_process.HOST, self.server.port)

    def address(self):
        """What clients know of the server."""
        return f"{kvt_process.HOST}:{self.relay.port}"

    def cut(self, chosen):
        """Of the lines those for which chosen() says so."""
        self.relay.cut(chosen)

    def client_env(self, rough):
        return self.env(rough)

    def _start_client(self, role, rough):
        self.processes += 1
        name = f"{role}.{self.processes}"
        return name, kvt_process.Process(
            [str(kvt_process.BUILD / "tests/linearizability/client/lin-client"),
             "--server", self.address(), "--device", kvt_process.DEVICE,
             "--board", str(self.board.path), "--folder", str(self.folder), "--role", role,
             "--process", str(self.processes), "--threads", str(self.options.threads),
             "--pace", str(self.options.pace), "--seed", str(self.rng.randrange(1 << 60))],
            self.folder / f"{name}.stderr", env=self.client_env(rough))

    def start_client(self):
        name, process = self._start_client("actors", self.options.rough)
        self.clients[name] = process
        return name

    def any_client(self):
        return self.rng.choice(sorted(self.clients))

    def kill_client(self, name):
        self.look()  # a client that ended by itself must not be taken for killed
        self.clients.pop(name).close()

    def kill_server(self):
        """SIGKILL: the times before and after it, and its memory is gone."""
        self.note_figures()
        self.look()
        begin = time.monotonic_ns()
        self.server.crash()
        return begin, time.monotonic_ns()

    def more_memory(self, said):
        """A store that was full to the brim may not fit again: block sizes are cut in another
        order. The server says so, and its next life has more. Whether that is it."""
        if not (self.options.data_dir and self.lives and "give more --memory" in said):
            return False
        number, unit = re.fullmatch(r"(\d+)(\D*)", self.memory).groups()
        self.memory = f"{2 * int(number)}{unit}"
        return True

    def stop_server(self):
        """As an administrator does."""
        self.note_figures()
        self.look()
        self.server.stop(seconds=STOP_S)

    def half_a_life(self, seconds):
        """A server that is killed after that time, most likely while it recovers."""
        self.halves += 1
        half = kvt_process.Process(
            command_of(*self.server_args(), memory=self.memory),
            self.folder / f"kv-server.half.{self.halves}.stderr", env=self.env(0))
        try:
            time.sleep(seconds)
            if not half.running() and not self.more_memory(half.stderr()):
                raise Wrong(f"kv-server ended by itself before it served: {half.returncode()}\n"
                            f"{half.stderr()[-4000:]}")
        finally:
            half.close()

    def note_figures(self):
        """Add what this server counted to that of the ones before."""
        command = [kvt_process.program("kv-cli"), "--server", self.server.address, "--device",
                   kvt_process.DEVICE, "--timeout", "2000", "stats", "--json"]
        ran = subprocess.run(command, capture_output=True, env=kvt_process.environment(),
                             timeout=30 * kvt_process.SLOW, check=False)
        if ran.returncode == 0:
            for name, value in flat_stats(json.loads(ran.stdout)).items():
                self.served[name] = self.served.get(name, 0) + value

    def look(self):
        """All are there that should be."""
        if not self.server.running() and not self.server.expected_dead:
            raise Wrong(f"kv-server ended by itself: {self.server.returncode()}\n"
                        f"{self.server.stderr()[-4000:]}")
        self.look_at_clients()

    def look_at_clients(self):
        for name, process in [*self.clients.items(), *self.ballast]:
            if not process.running():
                self.ended(name, process, process.returncode())

    @staticmethod
    def ended(name, process, rc):
        """A client that ended by itself, and why."""
        kind = CannotRun if rc in COULD_NOT else Wrong
        raise kind(f"client {name} ended by itself: {rc}\n{process.stderr()[-4000:].strip()}")

    def finish(self):
        """All come to their end in order."""
        self.board.set("stop", True)
        for name, process in [*self.clients.items(), *self.ballast]:
            rc = process.wait(STOP_S)
            if rc:
                self.ended(name, process, rc)
        self.note_figures()
        self.stop_servers()

    def stop_servers(self):
        self.server.stop()

    def close(self):
        """Whatever has happened: nobody is left."""
        for process in [*self.clients.values(), *(p for _, p in self.ballast), self.server]:
            if process:
                process.kill()
        self.relay.close()
