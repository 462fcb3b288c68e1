# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A store that fills up, and memory that comes back."""
import os
import re
import shutil
import subprocess

import pytest

from kvt_client import CallFailed, assert_error
from kvt_process import SLOW, scaled, wait_until

MIB = 1 << 20
ENOMEM = -12


def done_of(failure):
    """How many records a "fill" put before it failed."""
    return int(re.match(r"done=(\d+) ", failure.text).group(1))


def fill_up(client, size, prefix="record", limit=1000000):
    """Put records until the store is full; how many there are, and the sentence."""
    with pytest.raises(CallFailed) as failure:
        client.ask("fill", prefix, 0, limit, size, seconds=50)
    assert failure.value.code == ENOMEM, failure.value
    text = failure.value.text
    done = done_of(failure.value)
    assert "memory" in text and len(text) > 30, text
    return done, text


def test_a_value_larger_than_the_store(world):
    server = world.server(memory="12M")
    cli = world.cli(server)
    cli.put("small", b"stays")
    assert_error(cli("put", "large", "-", stdin=bytes(16 * MIB)), 3, "memory|full")
    assert cli("exists", "large").rc == 1
    assert cli.get("small") == b"stays"


def test_a_large_value_of_the_client_under_test(world):
    client = world.client(world.server(memory="64M"))
    value = os.urandom(2 << 20)
    client.put(b"key", value)
    assert client.get(b"key") == value


def test_one_client_overwrites_for_ever(world):
    """Six times the store and more, beside others that stay: one reads, one does nothing."""
    server, count = world.server(memory="32M"), scaled(20000)
    cli, client = world.cli(server), world.client(server, 30000)
    reader, idle = world.client(server), world.client(server)
    client.ask("raise", b"key", 1, 10000)
    reader.start("watch", b"key", 2000, 10000)
    client.ask("raise", b"key", count, 10000, seconds=50)
    seen = {k: int(v) for k, v in reader.answer(30).items()}
    assert seen["torn"] == 0 and seen["changes"] > 1, seen
    wait_until("all but the last value is freed", lambda: cli.stats()["deferred_bytes"] == 0, 5)
    stats = cli.stats()
    assert stats["records"] == 1 and stats["blocks_freed"] == count, stats
    assert idle.get(b"key") == count.to_bytes(8, "little") * 1250
    assert [c.stats()["reconnects"] for c in (client, reader, idle)] == [0, 0, 0]


def available_packages(count):
    """Real records: the first so many stanzas of apt's lists, as deploy/quickstart loads."""
    if not shutil.which("apt-cache"):
        pytest.skip("there is no apt-cache")
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, timeout=60 * SLOW,
                          check=True).stdout
    stanzas = [s for s in text.split(b"\n\n") if s.strip()][:count]
    if len(stanzas) < 1000:
        pytest.skip(f"apt knows {len(stanzas)} packages only (apt-get update)")
    return b"\n\n".join(stanzas) + b"\n"


def test_waste_of_memory_on_real_records(world, tmp_path, soft_device):
    cli = world.cli(world.server(memory="256M"))
    path = tmp_path / "available.deb822"
    path.write_bytes(available_packages(scaled(100000)))
    cli.good("load", "--format", "deb822", str(path), seconds=60)
    wait_until("what was loaded twice is freed",
               lambda: cli.stats()["sessions"] == 1 and cli.stats()["blocks_deferred"] == 0, 10)
    stats = cli.stats()
    records, blocks = stats["memory_record_bytes"], stats["memory_block_bytes"]
    print(f"{stats['records']} records of {records} bytes in blocks of {blocks}: "
          f"{100 * blocks / records - 100:.1f} % more; in slabs of "
          f"{stats['memory_slab_bytes_used']}, partly filled ones included")
    assert stats["records"] > 500 and records > 48 * stats["records"]
    assert records <= blocks < 1.15 * records
    # blocks that are free in the slabs of all sizes: less than one slab for each size, and caches
    classes = sum(1 for name in stats if name.startswith("class_") and name.endswith("_slabs"))
    assert stats["memory_slab_bytes_used"] - blocks < (classes + 4) * MIB
