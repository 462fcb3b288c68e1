# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""How much a full store holds, and that its space serves records of other sizes afterwards."""
import pytest

from kvt_client import CallFailed
from kvt_process import SLOW, wait_until
from test_memory import ENOMEM, MIB, fill_up

# On a slow machine fewer, larger records: what is looked at is space.
TINY, SMALL = 1000, 2000
MEDIUM, LARGE = 200000, 5000000


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


def test_full_store_refuses_writes_and_nothing_else(world):
    server = world.server(memory="32M")
    cli = world.cli(server)
    client, done, _ = fill(world, server, 6000)
    for i in range(20):
        key = b"record%08d" % i
        old = client.get(key)
        assert old is not None and len(old) == 6000
        for what in key, b"new %d" % i:
            with pytest.raises(CallFailed) as refusal:
                client.put(what, bytes(6000))
            assert refusal.value.code == ENOMEM, refusal.value
        assert client.get(key) == old, "a refused overwrite changes nothing"
        assert client.get(b"new %d" % i) is None
    for i in range(0, done, 2):
        client.delete(b"record%08d" % i)
    left = client.ask("check", "record", 0, done, 6000)
    assert (int(left["found"]), int(left["wrong"])) == (done // 2, 0)
    client.quit()
    emptied(cli)
    other = world.client(server, 20000)
    other.ask("fill", "more", 0, done // 2 - 20, 6000, seconds=50)
    left = other.ask("check", "record", 0, done, 6000)
    assert (int(left["found"]), int(left["wrong"])) == (done // 2, 0)
    assert other.ask("check", "more", 0, done // 2 - 20, 6000)["found"] == str(done // 2 - 20)


def test_space_serves_other_sizes_when_all_is_deleted(world):
    server = world.server(memory="64M")
    cli = world.cli(server)
    counts, shares = {}, {}
    for size in [SMALL, MEDIUM, LARGE, SMALL, LARGE, MEDIUM, SMALL]:
        client, done, full = fill(world, server, size)
        counts.setdefault(size, []).append(done)
        shares.setdefault(size, []).append(full["memory_block_bytes"] / full["memory_data_bytes"])
        assert client.ask("check", "record", 0, done, size, seconds=50)["found"] == str(done)
        assert client.ask("drop", "record", 0, done, seconds=50)["deleted"] == str(done)
        client.quit()
        empty = emptied(cli)
        assert empty["records"] == 0 and empty["memory_record_bytes"] == 0
        assert empty["memory_block_bytes"] == 0
        # what the caches of the workers hold on to: at most a slab for each class and worker
        assert empty["memory_slab_bytes_used"] <= 2 * MIB * empty["workers"], empty
    print(f"records: {counts}, of DATA extents: {shares}")
    for size, done in counts.items():
        assert min(done) >= 0.95 * done[0], f"{size} B: fewer and fewer: {counts}"
    assert min(shares[SMALL] + shares[MEDIUM]) > 0.97, shares
    assert min(shares[LARGE]) > 0.75, shares


@pytest.mark.parametrize("size, share", [(TINY, 0.7), (1024, 0.8), (MIB - 200, 0.85)])
def test_share_of_memory_that_records_take(world, size, share):
    """The index grows in the same memory: neither may take what the other needs."""
    server = world.server(memory="64M")
    client, done, full = fill(world, server, size)
    print(f"{done} records of {size} B: {full['memory_record_bytes'] / MIB:.1f} MiB, in blocks of "
          f"{full['memory_block_bytes'] / MIB:.1f} MiB; DATA {full['memory_data_bytes'] >> 20}, "
          f"INDEX {full['memory_index_bytes'] >> 20}, DIR {full['memory_directory_bytes'] >> 20} "
          "MiB of 64")
    assert full["memory_block_bytes"] >= share * 64 * MIB
    assert client.ask("check", "record", 0, done, size, seconds=50)["found"] == str(done)
