# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The parts of a round whose store is a group: an etcd, three servers, a network between all."""
import signal
import time

import kvt_process
from kvt_client import run
from kvt_group import NODES, Group
from kvt_net import CLIENTS, ETCD
from kvt_server import ServerFailed

from cast import Cast, Wrong
from options import CannotRun

PRIMARY_DIES = 0.7  # of those who do
SWITCHES = 5  # are tried


class GroupCast(Cast):
    """Of the servers one is the primary, as far as etcd knows: that is `server`."""

    def __init__(self, options, folder, rng):
        super().__init__(options, folder, rng)
        self.group = None
        self.dead = []
        self.known = None  # who was primary when etcd went away; None: it is there

    @property
    def server(self):
        """The primary, or one that is there."""
        if not self.group:
            return None
        alive = [n for n, s in self.group.servers.items() if not s.expected_dead]
        if not alive:
            return None
        primary = self.known or self.group.primary()
        return self.group.servers[primary if primary in alive else alive[0]]

    @server.setter
    def server(self, _):
        """Nobody chooses it."""

    def start_server(self):
        if not self.group:
            try:
                self.group = Group(self.folder, ["--lease", str(self.options.lease),
                                                 *self.drift(), *self.durably()],
                                   lease=f"{self.options.group_lease}ms",
                                   data=self.options.data_dir, net=True)
            except OSError as err:
                raise CannotRun(f"etcd cannot be started: {err} (install etcd-server)") from None
            for node in NODES:
                self._start_node(node)
                self.group.await_in_sync(*self.group.servers)
            return
        while self.dead:
            self._start_node(self.dead.pop())

    def drift(self):
        """Room for one clock that runs 1.1 times as fast as time and another that runs 0.9 times
        as fast."""
        return ["--group-drift", "225000"] if self.options.clocks else []

    def _start_node(self, node):
        try:
            self.group.start(node, memory=self.memory,
                             env=self.server_env())
        except ServerFailed as failed:
            raise Wrong(str(failed)) from None
        self.lives += 1

    def server_env(self):
        """A queue pair that fails each few thousand requests would keep a backup from ever being in
        sync, as that is some milliseconds of a log; the network is cut besides."""
        env = self.env(self.options.rough / 2)
        while "qp_error" in env.get("SOFTRDMA_FAULT", ""):
            env = self.env(self.options.rough / 2)
        return env

    def address(self):
        return self.group.address

    def client_env(self, rough):
        return self.group.net.with_cuts(self.env(rough))

    def _start_client(self, role, rough):
        name, process = super()._start_client(role, rough)
        self.group.net.client(process.pid)
        return name, process

    def cut(self, chosen):
        for way in self.group.net.fronts.values():
            way.cut(chosen)

    def part(self):
        """Cuts the network. What is cut."""
        net, primary = self.group.net, self.group.primary()
        everybody = [*NODES, ETCD, CLIENTS]
        how = self.rng.choice(["primary", "primary", "one", "some"])
        if how == "primary":  # clients go on reading it
            net.isolate(primary, CLIENTS)
        elif how == "one":
            net.isolate(self.rng.choice(NODES))
        else:
            for _ in range(self.rng.randrange(1, 4)):
                net.cut(*self.rng.sample(everybody, 2), both=self.rng.random() < 0.5)
        return " ".join(sorted(f"{a}-{b}" for a, b in net.cuts))

    def mend(self):
        self.group.net.mend()

    def lose_etcd(self, kill, with_primary):
        """It stands still, or is dead, until find_etcd(); and the primary may die then."""
        self.await_all()
        self.known = self.group.primary()
        etcd = self.group.etcd
        if kill:
            etcd.kill()
        else:
            etcd.signal(signal.SIGSTOP)
        if with_primary:
            self.note_figures()
            self.look()
            self.group.kill(self.known)
            self.dead.append(self.known)

    def breathe_etcd(self, seconds):
        """It goes on for that time, and stands still again."""
        self.group.etcd.signal(signal.SIGCONT)
        time.sleep(seconds)
        self.group.etcd.signal(signal.SIGSTOP)

    def find_etcd(self):
        if self.group.etcd.running():
            self.group.etcd.signal(signal.SIGCONT)
        else:
            self.group.etcd.begin()
        self.known = None
        self.start_server()

    def await_all(self):
        """All are in sync, and not by what etcd has of servers that have died since."""
        self.group.await_primary_but(None)
        self.group.await_in_sync(*NODES)

    def kill_server(self):
        """When all are in sync: what is acknowledged must be somewhere."""
        self.await_all()
        self.note_figures()
        self.look()
        primary = self.group.primary()
        dies = primary if self.rng.random() < PRIMARY_DIES else self.rng.choice(
            [node for node in NODES if node != primary])
        begin = time.monotonic_ns()
        self.group.kill(dies)
        self.dead.append(dies)
        return begin, time.monotonic_ns()

    def kill_group(self):
        """All at once, or one after the other, the primary first: in the midst of fail-overs then.
        What is acknowledged must be on a disk."""
        self.await_all()
        self.note_figures()
        self.look()
        two_leases_s = 2 * self.options.group_lease / 1000
        primary, pause_s = self.group.primary(), self.rng.choice([0, two_leases_s])
        backups = [node for node in NODES if node != primary]
        for node in [primary, *self.rng.sample(backups, len(backups))]:
            self.group.kill(node)
            self.dead.append(node)
            time.sleep(self.rng.random() * pause_s)

    def switch_primary(self):
        """When all are in sync. Who is primary then."""
        self.await_all()
        self.note_figures()
        self.look()
        for _ in range(SWITCHES):
            done = run([kvt_process.program("kv-cluster"), "-s", self.address(), "switch"])
            if done.rc == 0:
                return done.out.decode().strip()
            if "ask again" not in done.err:
                break
            time.sleep(self.options.group_lease / 1000)
            self.await_all()  # another one was taking over: who is held up counts as silent
        raise Wrong(f"a switch is refused: {done.err}")

    def look(self):
        for server in self.group.servers.values():
            if not server.running() and not server.expected_dead:
                raise Wrong(f"kv-server ended by itself: {server.returncode()}\n"
                            f"{server.stderr()[-4000:]}")
        self.look_at_clients()

    def stop_servers(self):
        """Backups first: nobody has to take over."""
        primary = self.group.primary()
        for node in sorted(self.group.servers, key=lambda node: node == primary):
            if not self.group.servers[node].expected_dead:
                self.group.servers[node].stop()

    def close(self):
        for server in self.group.servers.values() if self.group else []:
            server.kill()
            server.expected_dead = True
        super().close()
        if self.group:
            self.group.etcd.kill()
            self.group.net.close()
