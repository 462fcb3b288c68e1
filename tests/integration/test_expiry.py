# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Records that expire and that nobody asks for: their memory comes back by itself."""
import time

from kvt_process import wait_until
from kvt_rogue import PATIENT, used_blocks
from test_memory import fill_up

MIB = 1 << 20
EBUSY, ENOMEM = -16, -12
LATER = 3600000
SOON = 5000  # ms: longer than it takes to fill a store


def fill_with_brief_records(it, size):
    """Records that expire soon, until the store is full; how many, and when the last was sent."""
    done, again, last = 0, 0, 0
    while again < 50:
        sent = time.monotonic()
        status = it.put(done + 1, size, ttl_ms=SOON)
        assert status in (0, EBUSY, ENOMEM)
        done += status == 0
        last = last if status else sent
        again = 0 if status == 0 else again + 1  # memory grows, it may be
        time.sleep(0.01 if status else 0)
    return done, last


def test_expired_records_make_room(world, rogue):
    """Also for records of another size, and without a word to those keys."""
    server = world.server(*PATIENT, memory="32M")
    cli, it = world.cli(server), rogue(server)
    for key in (1001, 1002):
        assert it.put(key, 100, ttl_ms=LATER if key == 1002 else 0) == 0
    done, last = fill_with_brief_records(it, MIB - 200)
    assert done > 10
    it.close()  # it announces nothing, and would hold all of it back
    wait_until("they are gone", lambda: cli.stats()["records_expiring"] == 1, 30)
    assert time.monotonic() - last > SOON / 1000 - 0.5, "not before their time"
    stats = cli.stats()
    assert (stats["records"], stats["records_expired"]) == (2, done)
    wait_until("their memory is free", lambda: used_blocks(cli) == 2, 30)
    wait_until("that of large ones as well",
               lambda: cli.stats()["memory_large_record_bytes"] == 0, 30)
    client = world.client(server, 10000)
    small, _ = fill_up(client, 4000)
    assert small * 4096 > 16 * MIB


def test_a_full_store_of_expired_records_accepts_new_ones(world, rogue):
    """At once: a writer that finds no memory waits for those that are being deleted."""
    server = world.server(*PATIENT, memory="16M")
    it, client = rogue(server), world.client(server, 10000)
    done, _ = fill_with_brief_records(it, 1000)
    assert done > 4000
    it.close()
    time.sleep(SOON / 1000)
    client.ask("fill", "new", 0, done // 2, 1000)
    assert client.ask("check", "new", 0, done // 2, 1000)["found"] == str(done // 2)
    client.quit()


def test_a_server_without_expiring_records_sleeps(world):
    """Neither workers nor anybody else wake up for what there is not."""
    server = world.server()
    cli, client = world.cli(server), world.client(server)
    client.ask("fill", "stay", 0, 1000, 100)
    assert cli.stats()["records_expiring"] == 0
    client.quit()
    wait_until("nothing is deferred", lambda: cli.stats()["blocks_deferred"] == 0, 10)
    before = cli.stats()["worker_wakeups"]
    time.sleep(3)
    # the rest are the two calls of kv-cli
    assert cli.stats()["worker_wakeups"] - before < 100
