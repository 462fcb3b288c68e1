# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""DATA extents that hold nothing are given back to the index, beside a client that knew them."""
import socket
import threading

import pytest

from kvt_client import Client
from kvt_process import wait_until
from test_memory import MIB, fill_up

MEMORY, LARGE, SMALL, STAY = 48, MIB - 200, 100, 200


class Relay:
    """The TCP side of one server, at an address of its own: it can be cut, and then works again."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.to = (host, int(port))
        self.listener = socket.create_server((host, 0))
        self.address = f"{host}:{self.listener.getsockname()[1]}"
        self.pairs = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.to, 5)
            server.settimeout(None)
            self.pairs += [client, server]
            for a, b in (client, server), (server, client):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    @staticmethod
    def copy(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in a, b:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for s in pairs:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def close(self):
        self.listener.close()
        self.cut()


@pytest.fixture
def relay(world):
    made = []

    def make(server):
        made.append(Relay(server.address))
        return made[-1]
    yield make
    world.end()  # clients first
    for one in made:
        one.close()


class Neighbour:
    """A client that stays, with records of its own that are read, written anew and deleted."""

    def __init__(self, client):
        self.client = client
        self.rounds = 0
        client.ask("fill", "stay", 0, STAY, 50)

    def round(self):
        key = b"brief %d" % self.rounds
        self.rounds += 1
        assert self.client.ask("check", "stay", 0, STAY, 50)["found"] == str(STAY)
        self.client.put(key, b"v" * self.rounds)
        assert self.client.get(key) == b"v" * self.rounds
        self.client.delete(key)
        assert self.client.get(key) is None


def consistent(stats):
    """The figures of the memory fit each other; they are returned."""
    sums = [stats[f"memory_{kind}_bytes"] for kind in ("index", "directory", "data")]
    assert sum(sums) <= stats["memory_bytes_max"], stats
    assert stats["memory_slab_bytes_used"] + stats["memory_slab_bytes_free"] == sums[2], stats
    assert stats["memory_segment_bytes_used"] + stats["memory_segment_bytes_free"] <= sums[0]
    assert stats["memory_extents_released"] < stats["memory_extents"] < 64
    return stats


def small_records(world):
    """How many a new store holds."""
    server = world.server(memory=f"{MEMORY}M")
    client = world.client(server, 10000)
    done, _ = fill_up(client, SMALL, "small")
    client.quit()
    return done


def test_the_index_gets_what_large_records_left(world, relay, soft_device):
    fresh = small_records(world)
    server = world.server(memory=f"{MEMORY}M")
    cli, way = world.cli(server), relay(server)
    client = Client(world.folder, way.address, 10000, connect="tcp")
    world.clients.append(client)
    neighbour = Neighbour(client)
    writer = world.client(server, 10000)
    done, _ = fill_up(writer, LARGE, "large")
    assert client.ask("check", "large", 0, done, LARGE)["found"] == str(done)
    before = consistent(cli.stats())
    assert before["memory_slab_bytes_free"] == 0 and before["memory_extents"] >= 5, before
    assert writer.ask("drop", "large", 0, done)["deleted"] == str(done)
    writer.quit()
    neighbour.round()
    assert cli.stats()["blocks_deferred"] >= done, "the neighbour's session holds them back"

    # A new session of the same process: it knows every extent, and none of the blocks.
    way.cut()
    wait_until("the old session has gone", lambda: cli.stats()["sessions"] == 1, 10)
    neighbour.round()
    assert client.stats()["reconnects"] >= 1
    wait_until("all is freed", lambda: cli.stats()["blocks_deferred"] <= 4, 10)
    empty = consistent(cli.stats())
    assert empty["memory_extents_released"] == 0, "nobody needs it yet"

    writer = world.client(server, 10000)
    writer.start("fill", "small", 0, 1000000, SMALL)
    reconnects, rounds = client.stats()["reconnects"], neighbour.rounds
    wait_until("the index has grown", lambda: neighbour.round() or
               cli.stats()["memory_extents_released"] >= 1, 40)
    assert neighbour.rounds > rounds
    text = writer.read_line(50)
    assert text.startswith("err -12 done="), text
    small = int(text.split("done=")[1].split()[0])
    full = consistent(cli.stats())
    assert client.ask("check", "stay", 0, STAY, 50)["found"] == str(STAY)
    asked = client.stats()["rpc_fallbacks"]
    for first in 0, small // 2, small - 2000:
        left = client.ask("check", "small", first, 2000, SMALL)
        assert left["found"] == "2000", left
    assert client.stats()["rpc_fallbacks"] == asked, "it finds its way by itself"
    print(f"{small} records of {SMALL} B, {fresh} in a new store; {done} of {LARGE} B before; "
          f"{full['memory_extents_released']} of {full['memory_extents']} extents released")
    assert small >= 0.9 * fresh, (small, fresh, full)
    assert full["memory_index_bytes"] > before["memory_index_bytes"]
    assert client.stats()["reconnects"] == reconnects, "no queue pair broke over it"

    # and on, when there is room again
    client.ask("drop", "small", 0, 4000)
    writer.quit()
    way.cut()
    wait_until("there is room again", lambda: cli.stats()["blocks_deferred"] <= 4, 10)
    neighbour.round()
    client.quit()
