# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Grace periods across the wire: clients and servers that stand still, stores that are full."""
import re
import signal
import time

import pytest

from kvt_client import CallFailed
from kvt_process import SLOW, scaled, wait_until
from kvt_rogue import KEEPER, pace_of, session_of
from test_memory import ENOMEM, MIB, fill_up

LEASE = 500 * SLOW  # ms
LEASE_S = LEASE / 1000


def fences(cli):
    """Silent, stuck, against the protocol."""
    stats = cli.stats()
    return tuple(stats[f"sessions_fenced_{why}"] for why in ("silent", "stuck", "protocol"))


# Clients that stand still


@pytest.mark.limit(120)
def test_stopped_client_is_fenced_goes_on_and_writes_once(world):
    server = world.server("--lease", str(LEASE))
    cli, client = world.cli(server), world.client(server, 60000)
    turns, puts, first = max(2, scaled(4)), 0, cli.stats()["version"]
    for turn in range(1, turns + 1):
        count = min(pace_of(client, f"pace{turn}-", 100), 60000)  # for a second, or so
        client.start("fill", f"turn{turn}-", 0, count, 100)
        time.sleep(0.05)
        before = time.monotonic()
        client.stop_threads()
        wait_until("it is fenced", lambda: fences(cli) == (turn, 0, 0), LEASE_S / SLOW + 5)
        assert time.monotonic() - before > LEASE_S / 2
        assert cli.stats()["sessions"] == 1, "the one that asks"
        client.signal(signal.SIGCONT)
        assert client.answer(50)["done"] == str(count), "its call took longer, and went well"
        assert client.get(b"turn1-00000000") is not None
        assert client.stats()["reconnects"] == turn
        assert cli.stats()[f"session_{session_of(server, client)}_fences"] == turn
        puts += 100 + count
    stats = cli.stats()
    assert stats["records"] == puts
    assert stats["version"] - first == puts, "each write was applied once"
    said = re.findall(r"session \d+, (\S+), process (\d+): fenced: it announced nothing for its "
                      r"lease of (\d+) ms", server.stderr())
    assert said == [(client.name, str(client.pid), str(LEASE))] * turns


def test_memory_that_a_stopped_client_held_comes_back(world):
    server = world.server("--lease", str(LEASE), "--deferred-max", "2M", memory="32M")
    cli, writer, stopped = (world.cli(server), world.client(server, 60000),
                            world.client(server, 60000))
    count = scaled(600)
    stopped.put(b"key", b"first")
    stopped.start("spin", b"key", 4 * LEASE)
    time.sleep(0.2)
    stopped.stop_threads()
    writer.ask("raise", b"key", count, 20000, seconds=50)
    wait_until("all but the last value is free", lambda: cli.stats()["deferred_bytes"] == 0, 10)
    silent, stuck, lied = fences(cli)  # both were due at once
    assert (silent + stuck, lied) == (1, 0) and stopped.state() == "T"
    stopped.signal(signal.SIGCONT)
    stopped.answer(30)
    assert stopped.get(b"key") == count.to_bytes(8, "little") * 2500
    assert stopped.stats()["reconnects"] == 1


def test_killed_client_holds_nothing_back_under_a_long_lease(world):
    """Under a lease of ten minutes: a client that has gone is seen by its life line."""
    server = world.server("--lease", "600000", "--deferred-max", "1M", memory="32M")
    cli, writer, killed = world.cli(server), world.client(server, 60000), world.client(server)
    killed.put(b"key", b"first")
    killed.start("spin", b"key", 60000)
    time.sleep(0.2)
    killed.kill()
    writer.ask("raise", b"key", scaled(400), 20000, seconds=50)
    assert fences(cli) == (0, 0, 0)
    assert writer.stats()["reconnects"] == 0


@pytest.mark.limit(90)
def test_short_lease_under_load(world, soft_device):
    """A bound that is generous: threads of a busy machine may wait for longer than a lease."""
    lease, turns = 50 * SLOW, 8
    server = world.server("--lease", str(lease))
    cli, busy = world.cli(server), [world.client(server, 60000) for _ in range(2)]
    idle = [world.client(server, 60000) for _ in range(4)]
    for client in idle + busy:
        client.put(b"key", b"value")
    for client in busy:
        client.start("spin", b"key", turns * 8 * lease)
    for _ in range(turns):
        time.sleep(8 * lease / 1000)
        for client in idle:  # comes back where it was fenced
            assert client.get(b"key") == b"value"
    for client in busy:
        client.answer(30)
    fenced = fences(cli)
    print(f"{fenced[0]} leases of {lease} ms ran out, {len(idle)} clients were idle for {turns} "
          "times eight of them")
    assert fenced[0] < turns * len(idle) // 2 and fenced[1:] == (0, 0), fenced


# A server that stands still


@pytest.mark.limit(90)
def test_machine_that_stood_still_as_a_whole_fences_nobody(world, soft_device):
    """Nobody announced for leases, and the server was not there to miss it."""
    server = world.server("--lease", str(2 * LEASE))
    clients = [world.client(server, 60000, 30000) for _ in range(2)]
    for client in clients:
        client.put(b"key", b"value")
    clients[0].start("spin", b"key", 5 * LEASE)
    for process in (*clients, server):  # so that the server has seen all that they announced
        time.sleep(LEASE_S / 5)
        process.stop_threads()
    time.sleep(5 * LEASE_S)
    for process in (server, *clients):
        process.signal(signal.SIGCONT)
        time.sleep(LEASE_S / 5)
    clients[0].answer(30)
    assert clients[1].get(b"key") == b"value"
    assert fences(world.cli(server)) == (0, 0, 0)
    assert [c.stats()["reconnects"] for c in clients] == [0, 0]


@pytest.mark.limit(90)
def test_stopped_server_fences_nobody(world, soft_device):
    """One-sided reads and announcements go on meanwhile."""
    server = world.server("--lease", str(LEASE))
    idle, busy = world.client(server, 60000, 30000), world.client(server, 60000, 30000)
    idle.put(b"key", b"value")
    for _ in range(2):
        busy.start("spin", b"key", 6 * LEASE)
        time.sleep(LEASE_S / 2)
        server.stop_threads()
        time.sleep(3 * LEASE_S)
        server.signal(signal.SIGCONT)
        busy.answer(30)
        assert idle.get(b"key") == b"value"
        idle.put(b"key", b"value")
    assert fences(world.cli(server)) == (0, 0, 0)
    assert [c.stats()["reconnects"] for c in (idle, busy)] == [0, 0]


# Stores that are full


def test_put_waits_until_a_section_ends(world, rogue):
    """Nobody is fenced: the lease is long, and the section ends in time."""
    server = world.server("--lease", str(20000 * SLOW), "--deferred-max", "1M", memory="32M")
    cli, client = world.cli(server), world.client(server, 60000)
    client.put(b"key", b"first")
    first = cli.stats()["version"]
    it = rogue(server)
    assert it.ask("announce", KEEPER, 0)["wc"] == 0
    count = max(scaled(400), 120)  # some fifty of them fill the limit
    client.start("raise", b"key", count, 20000)
    wait_until("writes are told to come again", lambda: cli.stats()["deferred_refused"] > 1, 10)
    held = cli.stats()
    assert MIB * 3 // 4 < held["deferred_bytes"] < held["deferred_bytes_max"] == MIB, held
    assert held["version"] - first <= count // 2, "it waits"
    it.start("announce", KEEPER, 2000 * SLOW)
    client.answer(50)
    it.answer()
    assert fences(cli) == (0, 0, 0)
    assert client.get(b"key") == count.to_bytes(8, "little") * 2500


def test_low_limit_makes_writes_wait_and_none_fail(world, soft_device):
    """Nobody stands still. What is deferred comes and goes as a whole, so it is often all gone when
    it is looked at by whom it has just been too much for."""
    server = world.server("--lease", str(LEASE), "--deferred-max", "1M", memory="64M")
    clients = [world.client(server, 60000) for _ in range(4)]
    for i, client in enumerate(clients):
        client.start("raise", b"key %d" % i, scaled(3000), 20000)
    for client in clients:
        client.answer(50)
    assert world.cli(server).stats()["deferred_refused"] > 0


def test_full_store_says_so_in_time(world):
    server = world.server("--lease", str(LEASE), memory="16M")
    client, other = world.client(server, 60000), world.client(server)
    done, _ = fill_up(client, 8000)
    for turn in range(3):
        started = time.monotonic()
        with pytest.raises(CallFailed) as failure:
            client.ask("fill", f"more{turn}-", 0, 100, 8000)
        took = time.monotonic() - started
        assert failure.value.code == ENOMEM, failure.value
        assert took < 1.25 * LEASE_S + 0.5 + 4 * SLOW, took
    assert other.ask("check", "record", 0, done, 8000)["found"] == str(done)


@pytest.mark.limit(120)
def test_all_can_be_deleted_beside_a_section_that_does_not_end(world, rogue):
    server = world.server("--lease", str(LEASE), "--deferred-max", "1M", memory="16M")
    cli, client = world.cli(server), world.client(server, 60000)
    done, _ = fill_up(client, 8000)
    it = rogue(server)
    e = it.ask("announce", KEEPER, 0)["e"]
    it.start("announce", KEEPER, 60000 * SLOW, f"e={e}")
    deleted = client.ask("drop", "record", 0, done, seconds=50)["deleted"]
    assert deleted == str(done)
    assert it.answer(30)["wc"] != 0, "its queue pair is gone"
    assert "section of it was open for longer" in it.ended()
    assert fences(cli) == (0, 1, 0)
    wait_until("nothing is deferred", lambda: cli.stats()["deferred_bytes"] == 0, 10)
    again, _ = fill_up(client, 8000)
    assert again > 0.95 * done, (again, done)


@pytest.mark.parametrize("words, limit", [
    ([], 8 * MIB), (["--deferred-max", "0"], 8 * MIB), (["--deferred-max", "1M"], MIB),
    (["--deferred-max", "32M"], 32 * MIB), (["--deferred-max", "3000000"], 3000000),
])
def test_limit_of_what_is_deferred(world, words, limit):
    cli = world.cli(world.server(*words, memory="32M"))
    assert cli.stats()["deferred_bytes_max"] == limit
