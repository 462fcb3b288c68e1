# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Deleted bytes are not readable: raw READs of all DATA extents, by a client that has the rkeys."""
import os
import time

import pytest

from kvt_process import SLOW, scaled, wait_until
from kvt_rogue import INLINE, PATIENT, PUT

MIB = 1 << 20
EBADMSG, EBUSY = -74, -16
# inline in the request, pulled, the largest of a slab's blocks, runs of slabs
SIZES = [40, 1000, 5000, 60000, 250000] + ([300000, 5 * MIB] if SLOW == 1 else [])


def marker():
    """32 bytes that nothing else holds."""
    return os.urandom(32)


def filled(mark, size):
    """A value with the marker at its begin, at its end, and wherever there is room."""
    return (mark * (size // len(mark) + 1))[:size - len(mark)] + mark if size > 80 else mark


def search(rogue, server, mark):
    """How often it stands in the DATA extents, for a session that comes for that and goes again."""
    it = rogue(server)
    found = it.ask("search", 0, mark.hex(), seconds=30)
    it.quit()
    assert found["bytes"] >= 4 * MIB, found
    return found["hits"]


def put(cli, key, value):
    cli.good("put", key, "-", stdin=value)


def nothing_is_deferred(cli):
    """Every session of the time has gone, and the reclaimer has freed all that waited for them."""
    wait_until("nothing is deferred", lambda: cli.stats()["sessions"] == 1
               and cli.stats()["blocks_deferred"] == 0, 10, step=0.05)


@pytest.mark.parametrize("size", SIZES)
def test_a_deleted_value_is_nowhere(world, rogue, size):
    server = world.server(*PATIENT, memory="32M")
    cli, mark = world.cli(server), marker()
    put(cli, "key", filled(mark, size))
    put(cli, "other", b"stays")
    assert search(rogue, server, mark) >= max(1, size // 32 - 2), "the search finds what is there"
    cli.good("del", "key")
    nothing_is_deferred(cli)
    assert search(rogue, server, mark) == 0
    assert cli.get("other") == b"stays"


def test_a_deleted_key_is_nowhere(world, rogue):
    server = world.server(*PATIENT, memory="32M")
    cli, mark = world.cli(server), marker()
    key = mark.hex()
    put(cli, key, b"value")
    assert search(rogue, server, key.encode()) == 1
    cli.good("del", key)
    nothing_is_deferred(cli)
    assert search(rogue, server, key.encode()) == 0


def test_an_overwritten_value_is_nowhere(world, rogue):
    """Nor is the end of it after a shorter record in the same block."""
    server = world.server(*PATIENT, memory="32M")
    cli, mark = world.cli(server), marker()
    for i in range(30):
        put(cli, f"key{i}", filled(mark, 1000))
    for i in range(30):
        put(cli, f"key{i}", b"n" * 910)
    nothing_is_deferred(cli)
    for i in range(30):  # into the blocks of the first values
        put(cli, f"more{i}", b"m" * 910)
    assert search(rogue, server, mark) == 0
    assert cli.get("key7") == b"n" * 910 and cli.get("more7") == b"m" * 910


def test_bytes_stay_away_through_another_cut(world, rogue):
    """The slabs of the deleted values hold blocks of other sizes afterwards."""
    server = world.server(*PATIENT, memory="16M")
    cli, mark = world.cli(server), marker()
    client = world.client(server, 10000)
    for i in range(60):
        client.put(b"key%d" % i, filled(mark, 20000))
    for i in range(60):
        client.delete(b"key%d" % i)
    client.quit()
    nothing_is_deferred(cli)
    client = world.client(server, 10000)
    client.ask("fill", "small", 0, 300, 3000)
    client.ask("fill", "tiny", 0, 300, 10)
    assert search(rogue, server, mark) == 0
    assert client.ask("check", "small", 0, 300, 3000)["found"] == "300"


def test_the_value_of_a_refused_put_is_nowhere(world, rogue):
    """It was pulled into a block, its checksum was wrong: the block was never published."""
    server = world.server(*PATIENT, memory="32M")
    it = rogue(server)
    for fill, size in [(0x5d, 9000), (0x5e, 200000), (0x5f, 3 * MIB)]:
        for _ in range(scaled(500)):  # memory grows: not now
            reply = it.call(op=PUT, key=7, value_len=size, fill=fill, value_hash=12345)
            if reply["status"] != EBUSY:
                break
            time.sleep(0.01)
        assert reply["status"] == EBADMSG
        found = it.ask("search", 0, (bytes([fill]) * 48).hex(), seconds=30)
        assert found["hits"] == 0 and found["bytes"] >= 4 * MIB
    # the same from the same client when it is sound: the search finds it
    assert it.call(op=PUT, key=7, value_len=1000, fill=0x5d, flags=INLINE)["status"] == 0
    assert it.ask("search", 0, (b"\x5d" * 48).hex())["hits"] > 0
