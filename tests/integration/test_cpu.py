# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""One-sided reads cost the server no CPU; idle, it uses none."""
import time

import pytest

from kvt_process import SANITIZED, SLOW, scaled

pytestmark = pytest.mark.skipif(SANITIZED, reason="a sanitizer's CPU time is not the program's")


IDLE_S = 2
# Of a core. In an emulated guest the time that its host took from it counts as the server's.
SHARE_MAX = 0.01 if SLOW == 1 else 0.03
COLD = scaled(scaled(30000))


def used(server, work):
    """Share of a core that the server used while work() ran."""
    cpu, wall = server.cpu_seconds(), time.monotonic()
    work()
    return (server.cpu_seconds() - cpu) / (time.monotonic() - wall)


def used_more(server, work):
    """The same, without what the server uses idle."""
    idle = used(server, lambda: time.sleep(IDLE_S))
    return used(server, work) - idle


def test_gets_cost_the_server_less_than_a_hundredth_of_a_core(world):
    server = world.server()
    client = world.client(server)
    client.put(b"key", bytes(1000))
    client.ask("fill", "other", 0, 1000, 1000)
    client.ask("spin", b"key", 300)
    seen = {}
    share = used_more(server, lambda: seen.update(client.ask("spin", b"key", 3000)))
    assert int(seen["gets"]) > scaled(1000) and seen["misses"] == "0"
    assert share < SHARE_MAX, f"{share:.2%} of a core for {seen['gets']} gets"


def test_gets_without_hints_cost_the_server_less_than_a_hundredth_of_a_core(world):
    """Each key is read once by a client that has not met it: bucket, then block."""
    server = world.server()
    client = world.client(server)
    client.ask("fill", "cold", 0, COLD, 100)
    fresh = world.client(server)
    fresh.get(b"cold00000000")
    before = world.cli(server).stats()["rpc_gets"]
    time.sleep(0.5)

    def work():
        started = time.monotonic()
        for _ in range(3):
            assert fresh.ask("check", "cold", 0, COLD, 100)["found"] == str(COLD)
        time.sleep(max(0, 3 - (time.monotonic() - started)))
    share = used_more(server, work)
    assert share < SHARE_MAX, f"{share:.2%} of a core"
    assert world.cli(server).stats()["rpc_gets"] == before, "no get was an RPC"


def test_misses_cost_the_server_nothing(world):
    server = world.server()
    client = world.client(server)
    client.put(b"key", b"value")
    client.get(b"none")
    seen = {}
    share = used_more(server, lambda: seen.update(client.ask("spin", b"none", 2000)))
    assert int(seen["gets"]) > scaled(1000) and seen["misses"] == seen["gets"]
    assert share < SHARE_MAX, f"{share:.2%} of a core for {seen['gets']} gets"


@pytest.mark.parametrize("clients", [0, 3])
def test_idle_server_sleeps(world, clients):
    server = world.server()
    for i in range(clients):
        world.client(server).put(b"key %d" % i, b"value")
    time.sleep(1)
    share = used(server, lambda: time.sleep(5))
    assert share < 0.005 * SLOW, f"{share:.2%} of a core, idle with {clients} clients"
