# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""DATA extents that hold nothing are given back to the index, beside a client that knew them."""
import pytest

from kvt_client import CallFailed
from kvt_process import wait_until
from test_memory import ENOMEM, MIB, done_of, fill_up

# Small records in blocks of 128 B: so many that the index's first extent does not hold them.
MEMORY, LARGE, SMALL, STAY = 48, MIB - 200, 60, 200
STEP = 4000  # small records at a time
BRIEF = 8  # so many lengths have the brief records, in blocks like those of small ones


class Neighbour:
    """A client that stays, with records of its own that are read, rewritten and deleted."""

    def __init__(self, client):
        self.client = client
        self.rounds = 0
        client.ask("fill", "stay", 0, STAY, 50)

    def round(self, may_be_full=False):
        key, value = b"brief %d" % self.rounds, b"v" * (SMALL - self.rounds % BRIEF)
        self.rounds += 1
        assert self.client.ask("check", "stay", 0, STAY, 50)["found"] == str(STAY)
        try:
            self.client.put(key, value)
        except CallFailed as failure:
            assert may_be_full and failure.code == ENOMEM, failure
            return
        assert self.client.get(key) == value
        self.client.delete(key)
        assert self.client.get(key) is None


def consistent(stats):
    """The figures of the memory fit each other; they are returned."""
    sums = [stats[f"memory_{kind}_bytes"] for kind in ("index", "directory", "data")]
    assert sum(sums) <= stats["memory_bytes_max"], stats
    slabs = [stats[f"memory_slab_bytes_{what}"] for what in ("used", "free", "waiting")]
    assert sum(slabs) == sums[2], stats
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


def fill_in_steps(cli, writer, neighbour):
    """
    Small records until the store is full; how many there are. After each step what it has retired
    comes back: how many segments that were split still wait beside those that took their place,
    and so how large the index grows, is not to depend on how fast the neighbour announces.
    """
    done = 0
    while True:
        writer.start("fill", "small", done, STEP, SMALL)
        neighbour.round(may_be_full=True)
        try:
            writer.answer(50)
        except CallFailed as failure:
            assert failure.code == ENOMEM, failure
            return done + done_of(failure)
        done += STEP
        wait_until("what was split is freed", lambda: cli.stats()["blocks_deferred"] == 0, 10)


@pytest.mark.limit(180)
def test_the_index_gets_what_large_records_left(world, soft_device):
    """On soft0 alone for its speed: two stores are filled with small records."""
    fresh = small_records(world)
    server = world.server(memory=f"{MEMORY}M")
    cli, client = world.cli(server), world.client(server, 10000)
    neighbour = Neighbour(client)
    writer = world.client(server, 10000)
    done, _ = fill_up(writer, LARGE, "large")
    assert client.ask("check", "large", 0, done, LARGE)["found"] == str(done)
    before = consistent(cli.stats())
    assert before["memory_slab_bytes_free"] == 0 and before["memory_extents"] >= 5, before
    assert writer.ask("drop", "large", 0, done)["deleted"] == str(done)
    writer.quit()
    neighbour.round()
    # The neighbour knows every extent, and keeps no block from being used again.
    wait_until("all is freed", lambda: cli.stats()["blocks_deferred"] == 0, 10)
    empty = consistent(cli.stats())
    assert empty["memory_extents_released"] == 0, "nobody needs it yet"

    writer = world.client(server, 10000)
    small = fill_in_steps(cli, writer, neighbour)
    full = consistent(cli.stats())
    assert full["memory_extents_released"] >= 1, "for the index to grow"
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
    assert client.stats()["reconnects"] == 0, "no queue pair broke over it"

    # and on, when there is room again
    client.ask("drop", "small", 0, 4000)
    wait_until("there is room again", lambda: cli.stats()["blocks_deferred"] == 0, 10)
    neighbour.round()
    client.quit()
