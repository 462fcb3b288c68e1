# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The network between the servers of a group, their etcd and clients, as tests cut and mend it.

Their TCP connections go through relays, one before each server's port and one for each server's
way to etcd; on soft0 their queue pairs are cut by SOFTRDMA_FAULT=cut=FOLDER. What is cut comes late
(TCP sends again), or fails when a queue pair's retries are over.
"""
import asyncio
import contextlib
import os
import pathlib

from kvt_process import HOST
from kvt_relay import Relay

ETCD, CLIENTS = "etcd", "clients"
LOOK_S = 0.002


def inode_of(port, peer_port):
    """Of the socket of this machine that is connected from one port to the other."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        for line in list(lines)[1:]:
            words = line.split()
            if (int(words[1].split(":")[1], 16), int(words[2].split(":")[1], 16)) == (
                    port, peer_port):
                return words[9]
    return None


def has_socket(pid, inode):
    for fd in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if os.readlink(fd) == f"socket:[{inode}]":
                return True
    return False


class Way(Relay):
    """To one server, from whoever dials; or to etcd, from one server."""

    def __init__(self, net, to, only=None):
        self.net, self.to, self.only = net, to, only
        super().__init__(HOST)

    def source(self, port):
        if self.only:
            return self.only
        inode = inode_of(port, self.port)
        if inode is None:
            return None
        return next((node for node, pid in self.net.pids.items() if has_socket(pid, inode)),
                    CLIENTS)

    async def may_pass(self, source, back):
        while self.net.cuts:
            way = (self.to, source()) if back else (source(), self.to)
            if source() and way not in self.net.cuts:
                return  # who has hung up already is not known, and may be anybody
            await asyncio.sleep(LOOK_S)


class Net:
    def __init__(self, folder, etcd_port):
        self.folder = pathlib.Path(folder) / "cuts"
        self.folder.mkdir()
        self.etcd_port = etcd_port
        self.pids, self.fronts, self.etcd_ways = {}, {}, {}
        self.clients = set()  # process ids; they have the environment, too
        self.cuts = set()  # (from, to): servers, ETCD, CLIENTS
        self.env = self.with_cuts({})

    def with_cuts(self, env):
        """The environment of a process on this network."""
        faults = [env["SOFTRDMA_FAULT"]] if "SOFTRDMA_FAULT" in env else []
        return {**env, "SOFTRDMA_FAULT": ",".join([*faults, f"cut={self.folder}"])}

    def options(self, node, port):
        """With which the server of that port is started."""
        if node not in self.fronts:
            self.fronts[node] = Way(self, node)
            self.fronts[node].aim(HOST, port)
            self.etcd_ways[node] = Way(self, ETCD, node)
            self.etcd_ways[node].aim(HOST, self.etcd_port)
        return ["--advertise", f"{HOST}:{self.fronts[node].port}",
                "--etcd", f"http://{HOST}:{self.etcd_ways[node].port}"]

    def started(self, node, pid):
        self.pids[node] = pid
        self._write()

    def client(self, pid):
        self.clients.add(pid)
        self._write()

    def cut(self, source, to, both=True):
        self.cuts |= {(source, to), (to, source)} if both else {(source, to)}
        self._write()

    def isolate(self, node, *but):
        """From everybody else."""
        for other in {*self.pids, ETCD, CLIENTS} - {node, *but}:
            self.cut(node, other)

    def mend(self):
        self.cuts.clear()
        self._write()

    def _pids(self, name):
        if name == CLIENTS:
            return self.clients
        return {self.pids[name]} if name in self.pids else set()

    def _write(self):
        names = {f"{a}-{b}" for source, to in self.cuts
                 for a in self._pids(source) for b in self._pids(to)}
        for old in self.folder.iterdir():
            if old.name not in names:
                old.unlink(missing_ok=True)
        for name in names:
            (self.folder / name).touch()

    def close(self):
        for way in [*self.fronts.values(), *self.etcd_ways.values()]:
            way.close()
