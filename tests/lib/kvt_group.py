# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A group of kv-servers under test, with an etcd of its own."""
import base64
import json
import pathlib
import random
import socket
import urllib.request

from kvt_client import Cli
from kvt_net import Net
from kvt_process import HOST, Process, wait_until
from kvt_server import Server

NODES = ("n1", "n2", "n3")
PATIENCE_S = 60


def is_free(host, port):
    with socket.socket() as it:
        try:
            it.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count, host=HOST):
    """The first of so many in a row, below those that the kernel gives to connections."""
    while True:
        first = random.randrange(20000, 30000)
        if all(is_free(host, first + i) for i in range(count)):
            return first


def free_port(host=HOST):
    return free_ports(1, host)


class Etcd(Process):
    """An etcd of one member, as it is packaged, in the test's folder."""

    def __init__(self, folder, host=HOST):
        self.host, self.port, peer = host, free_port(host), free_port(host)
        self.url = f"http://{host}:{self.port}"
        peer_url = f"http://{host}:{peer}"
        self.args = [
            "etcd", "--data-dir", str(pathlib.Path(folder) / "etcd"),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
            "--initial-cluster", f"default={peer_url}", "--unsafe-no-fsync"]
        self.folder, self.lives = pathlib.Path(folder), 0
        self.begin()

    def begin(self):
        """Also in another life, with what it had."""
        self.lives += 1
        super().__init__(self.args, self.folder / f"etcd.{self.lives}.log")
        wait_until("etcd answers", self.listens, PATIENCE_S, step=0.05)

    def listens(self):
        with socket.socket() as it:
            return it.connect_ex((self.host, self.port)) == 0

    def get(self, key):
        """The JSON value of a key, or None."""
        body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
        with urllib.request.urlopen(f"{self.url}/v3/kv/range", body, PATIENCE_S) as answer:
            found = json.load(answer).get("kvs")
        return json.loads(base64.b64decode(found[0]["value"])) if found else None


class Group:
    """Servers by their nodes' names; each is started again on the port that it had."""

    def __init__(self, folder, options=(), lease="300ms", data=False, net=False):
        self.data = data  # each has a data directory, which stays over its lives
        self.folder = pathlib.Path(folder)
        self.options = ["--cluster", "test", "--group-lease", lease, "--workers", "1", *options]
        self.etcd = Etcd(folder)
        self.net = Net(folder, self.etcd.port) if net else None  # to be cut
        self.ports, self.servers = {}, {}

    def start(self, node, **how):
        port = self.ports.setdefault(node, free_port())
        if node in self.servers:
            self.servers[node].close()
            self.servers[node].held.close()
        options = [*self.options, *(["--data-dir", str(self.dir(node))] if self.data else [])]
        options += self.net.options(node, port) if self.net else ["--etcd", self.etcd.url]
        if self.net:
            how["env"] = self.net.with_cuts(how.get("env") or {})
        self.servers[node] = Server(
            self.folder, "--node", node, *options, listen=f"{HOST}:{port}",
            **{"memory": "256M", **how})
        if self.net:
            self.net.started(node, self.servers[node].pid)
        return self.servers[node]

    def dir(self, node):
        return self.folder / f"data-{node}"

    def kill(self, node):
        self.servers[node].crash()

    def end(self):
        """Each server that no test has ended must stop in order."""
        for server in self.servers.values():
            server.finish()
        self.etcd.close()
        if self.net:
            self.net.close()

    def configuration(self):
        return self.etcd.get("/gracekv/test/group/1")

    def in_sync(self):
        """Nodes in sync, by the configuration."""
        now = self.configuration()
        return sorted(m["node"] for m in now["members"] if m["in_sync"]) if now else []

    def primary(self):
        """By the configuration; None: there is none yet."""
        now = self.configuration()
        return next((m["node"] for m in now["members"] if m["life"] == now["primary"]),
                    None) if now else None

    def await_in_sync(self, *nodes):
        wait_until(f"{nodes} are in sync", lambda: self.in_sync() == sorted(nodes), PATIENCE_S,
                   step=0.02)

    def await_primary_but(self, node):
        """Another one is primary, and serves."""
        def serves():
            now = self.primary()
            return now not in (None, node) and self.cli(now)("ping").rc == 0
        wait_until(f"another one than {node} is primary", serves, PATIENCE_S, step=0.05)
        return self.primary()

    def cli(self, node):
        return Cli(self.servers[node].address)

    @property
    def address(self):
        """All of them, as clients take them."""
        if self.net:
            return ",".join(f"{HOST}:{way.port}" for way in self.net.fronts.values())
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())
