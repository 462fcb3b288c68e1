# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A group of two members in two guests: fail-over over a network that is cut, and what a backup
costs a PUT. n1 runs in guest 1; n2, etcd, and the clients in guest 2.

The lease is longer than emulated machines on a busy host make each other wait.
"""
import json
import os
import statistics
import subprocess
import tempfile
import time

import pytest

from kvt_group import PATIENCE_S, Etcd
from kvt_process import AGENT, DEVICE, Process, program, wait_until
from kvt_remote import server_port
from kvt_server import READY, READY_S, Server, command_of

HERE = os.environ.get("RXE_HOST", "")
THERE = os.environ.get("RXE_HOST_PEER", "")
NETDEV = os.environ.get("RXE_NETDEV", "")
LEASE = "2s"
LONG_LEASE = "60s"  # nobody takes over
ROUNDS = 7

pytestmark = pytest.mark.skipif(not (AGENT and NETDEV),
                                reason="wants two guests of tests/rxe/guests.py")


class Pair:
    """n1 there, and n2 here when it is started."""

    def __init__(self, folder, own, lease):
        """@own: on a file system of this guest; etcd maps its files, which shared ones do not
        take."""
        self.folder = folder
        self.etcd = Etcd(own, HERE)
        self.options = ["--cluster", "test", "--group-lease", lease, "--workers", "1", "--etcd",
                        self.etcd.url]
        self.n1 = Server(folder, "--node", "n1", *self.options, listen=f"{THERE}:{server_port()}",
                         memory="64M")
        self.n2 = None
        self.address = self.n1.address

    def start_n2(self):
        self.n2 = Process(command_of("--node", "n2", *self.options, listen=f"{HERE}:0",
                                     memory="64M"), self.folder / "n2.stderr")
        ready = READY.match(self.n2.read_line(READY_S) or "")
        assert ready, self.n2.stderr()
        self.address += f",{ready['host']}:{ready['port']}"
        self.await_in_sync("n1", "n2")

    def members(self):
        return self.etcd.get("/gracekv/test/group/1")

    def await_in_sync(self, *nodes):
        wait_until(f"{nodes} are in sync", lambda: nodes == tuple(sorted(
            m["node"] for m in self.members()["members"] if m["in_sync"])), PATIENCE_S, step=0.2)

    def primary(self):
        now = self.members()
        return next(m["node"] for m in now["members"] if m["life"] == now["primary"])

    def end(self):
        try:
            if self.n2:
                self.n2.close()
            self.n1.finish()
        finally:
            self.etcd.close()


def pair_with(lease, folder):
    with tempfile.TemporaryDirectory() as own:
        it = Pair(folder, own, lease)
        yield it
        it.end()


@pytest.fixture
def pair(tmp_path):
    yield from pair_with(LEASE, tmp_path)


@pytest.fixture
def lasting_pair(tmp_path):
    yield from pair_with(LONG_LEASE, tmp_path)


def median_us(operation, address):
    out = subprocess.run([program("kv-lat"), "-d", DEVICE, "--json", "--op", operation,
                          "--timeout", "60000", "-n", "200", "--keys", "50", address],
                         capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)["results"][0]["lat_us"]["p50"]


def test_the_network_of_the_primary_is_cut(pair, world, there, record_property):
    """That to the backup, to etcd and to clients, which are one; the agent has another. The backup
    takes over, each operation is applied once, and who was primary comes back as a backup."""
    pair.start_n2()
    client = world.client(pair, 60000)
    count = [client.ask("count", b"count", 1, seconds=60) for _ in range(20)]
    assert pair.primary() == "n1"
    there.run("ip", "link", "set", NETDEV, "down")
    started = time.monotonic()
    try:
        count.append(client.ask("count", b"count", 1, seconds=60))
        record_property("figures", f"an operation took {time.monotonic() - started:.2f} s over the"
                        f" cut, with a lease of {LEASE}")
        count += [client.ask("count", b"count", 1, seconds=60) for _ in range(19)]
        assert pair.primary() == "n2"
    finally:
        there.run("ip", "link", "set", NETDEV, "up")
    pair.await_in_sync("n1", "n2")
    assert client.get(b"count") == b"%d" % len(count)
    assert "starts again" in pair.n1.stderr()


def test_what_a_backup_costs_a_put(lasting_pair, world, record_property):
    """Beside a server alone, in rounds that take turns. A write goes from one guest to the other,
    and its record comes back: it is one round trip more, as long as the READ of a warm GET. The
    gate judges the ratio: on a busy host that of one round says little."""
    lasting_pair.start_n2()
    alone, both = world.server("--workers", "1", memory="64M").address, lasting_pair.n1.address
    rounds = [(median_us("put", alone), median_us("put", both), median_us("get", alone))
              for _ in range(ROUNDS)]
    ratios = sorted(two / one for one, two, _ in rounds)
    floors = [(one + read) / one for one, _, read in rounds]
    one, two, _ = (statistics.median(column) for column in zip(*rounds))
    record_property("figures", f"PUT of a server alone {one:.0f} us, with a backup {two:.0f} us:"
                    f" {statistics.median(ratios):.2f}, not judged here (a PUT and a READ:"
                    f" {statistics.median(floors):.2f}; rounds:"
                    f" {' '.join(f'{it:.2f}' for it in ratios)})")
