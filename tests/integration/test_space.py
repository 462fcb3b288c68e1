# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A full store, and that its space serves records of other sizes afterwards: over sessions and
the reclaimer. How much it holds of which size is looked at in tests/unit/store/test_space.c."""
import pytest

from kvt_client import CallFailed
from kvt_process import wait_until
from test_memory import ENOMEM, MIB, fill_up

SMALL, MEDIUM, LARGE = 2000, 200000, 5000000


def emptied(cli):
    """All sessions of the time have gone and nothing waits for them; the statistics then."""
    wait_until("nothing is deferred", lambda: cli.stats()["sessions"] == 1
               and cli.stats()["blocks_deferred"] == 0, 20, step=0.1)
    return cli.stats()


def fill(world, server, size, prefix="record"):
    """A client that has filled the store; how many records, and the statistics then."""
    client = world.client(server, 20000)
    done, _ = fill_up(client, size, prefix)
    return client, done, world.cli(server).stats()


@pytest.mark.parametrize("size", [1000, 6000, 30000])
def test_full_store_refuses_writes_and_nothing_else(world, size):
    server = world.server(memory="32M")
    cli = world.cli(server)
    client, done, full = fill(world, server, size)
    assert done * (size + 256) > full["memory_bytes_max"] * 3 // 8, "a good part holds records"
    for i in range(3):
        key = b"record%08d" % i
        old = client.get(key)
        assert old is not None and len(old) == size
        for what in key, b"new %d" % i:
            with pytest.raises(CallFailed) as refusal:
                client.put(what, bytes(size))
            assert refusal.value.code == ENOMEM, refusal.value
        assert client.get(key) == old, "a refused overwrite changes nothing"
        assert client.get(b"new %d" % i) is None
    assert client.ask("drop", "record", 0, done // 2)["deleted"] == str(done // 2)
    left = client.ask("check", "record", 0, done, size)
    assert (int(left["found"]), int(left["wrong"])) == (done - done // 2, 0)
    client.quit()
    emptied(cli)
    other, count = world.client(server, 20000), max(done // 2 - 20, 1)
    other.ask("fill", "more", 0, count, size, seconds=50)
    left = other.ask("check", "record", 0, done, size)
    assert (int(left["found"]), int(left["wrong"])) == (done - done // 2, 0)
    assert other.ask("check", "more", 0, count, size)["found"] == str(count)


@pytest.mark.parametrize("memory", ["12M", "12582913", "13000001", "33333333"])
def test_least_and_odd_sizes(world, memory):
    """No more is taken than was given, and it serves to the last slab."""
    server = world.server(memory=memory)
    client, done, full = fill(world, server, 20000)
    taken = sum(full[f"memory_{kind}_bytes"] for kind in ("index", "directory", "data"))
    assert int(server.ready["memory"]) - MIB < taken <= int(server.ready["memory"])
    assert full["memory_slab_bytes_free"] == 0
    assert client.ask("check", "record", 0, done, 20000)["found"] == str(done)
    for i in range(done):
        client.delete(b"record%08d" % i)
    client.quit()
    emptied(world.cli(server))
    _, again, _ = fill(world, server, 20000)
    assert again >= done - 4, "caches of other workers may hold some"


def test_space_serves_other_sizes_when_all_is_deleted(world, soft_device):
    server = world.server(memory="40M")
    cli = world.cli(server)
    counts = {}
    for size in [SMALL, MEDIUM, LARGE, SMALL, LARGE, MEDIUM]:
        client, done, full = fill(world, server, size)
        counts.setdefault(size, []).append(done)
        assert full["memory_record_bytes"] > done * size
        assert full["memory_block_bytes"] >= full["memory_record_bytes"]
        if size != LARGE:
            assert full["memory_slab_bytes_free"] == 0, "what is free was not used"
        assert client.ask("check", "record", 0, done, size, seconds=50)["found"] == str(done)
        assert client.ask("drop", "record", 0, done, seconds=50)["deleted"] == str(done)
        client.quit()
        empty = emptied(cli)
        assert (empty["records"], empty["memory_record_bytes"], empty["memory_block_bytes"]) == \
            (0, 0, 0), empty
        # what the caches of the workers hold on to: at most a slab of each class
        assert empty["memory_slab_bytes_used"] <= 3 * MIB * empty["workers"], empty
    print(f"records: {counts}")
    for size, done in counts.items():
        assert min(done) >= 0.95 * done[0], f"{size} B: fewer and fewer: {counts}"
    assert min(counts[MEDIUM]) * MEDIUM >= 0.8 * min(counts[SMALL]) * SMALL, counts
    assert min(counts[LARGE]) * LARGE >= 0.5 * min(counts[SMALL]) * SMALL, counts
