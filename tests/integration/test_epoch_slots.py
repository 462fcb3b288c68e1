# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What clients write into their epoch slots: rubbish, nothing, or the truth."""
import errno
import time

import pytest

from kvt_process import SLOW, wait_until
from kvt_rogue import DEL, GET, KEEPER, PING, STATS, Bystander, session_of
from test_grace import LEASE, LEASE_S, fences

SILENT, STUCK, LIED = (1, 0, 0), (0, 1, 0), (0, 0, 1)
SAID = {SILENT: "it announced nothing for its lease", STUCK: "section of it was open for longer",
        LIED: "its epoch slot says what cannot be"}


@pytest.fixture
def server(world):
    return world.server("--lease", str(LEASE), "--deferred-max", "1M", memory="64M")


def ended_as(world, server, it, why):
    said = it.ended((4 * LEASE_S + 4) * 1000)
    assert SAID[why] in said, said
    assert fences(world.cli(server)) == why
    assert it.ask("announce", KEEPER, 0)["wc"] != 0, "its queue pair is gone"
    assert SAID[why] in server.stderr()


@pytest.mark.parametrize("field", [
    f"ahead={1 << 40}", "e=0", f"e={(1 << 64) - 1}", f"h={1 << 62}", "back=1",
])
def test_slot_that_says_what_cannot_be(world, server, rogue, field):
    with Bystander(world.client(server)) as other:
        it = rogue(server)
        wait_until("epochs go on", lambda: it.ask("announce", KEEPER, 0)["e"] > 3, 10)
        if field == "back=1":
            field = f"e={it.ask('announce', KEEPER, 0)['e'] - 1}"
            world.cli(server).stats()  # looks at the slot
        rounds = other.rounds
        it.ask("announce", KEEPER, 0, field)
        ended_as(world, server, it, LIED)
        wait_until("the other goes on", lambda: other.rounds > rounds + 2, 10)


@pytest.mark.parametrize("field", ["generation=1234567", "generation=0", "beat=7", None])
def test_slot_without_a_beat(world, server, rogue, field, soft_device):
    """A foreign generation is none; nor is the same one again and again, nor silence. Nobody wants
    memory, so that it is not stuck before that."""
    it = rogue(server)
    # for so long that its first beat is seen
    assert it.ask("announce", KEEPER, LEASE // 4)["wc"] == 0
    started = time.monotonic()
    if field:
        assert it.ask("announce", KEEPER, 20 * LEASE, field, seconds=40)["wc"] != 0
    ended_as(world, server, it, SILENT)
    assert time.monotonic() - started > LEASE_S / 2


def test_slot_that_beats_is_never_fenced_while_nobody_wants_memory(world, server, rogue,
                                                                   soft_device):
    """Not even where the epoch in it is torn for ever: it holds back what is replaced, no more."""
    cli, client = world.cli(server), world.client(server)
    it = rogue(server)
    number = it.ask("where")["session"]
    it.start("announce", KEEPER, 60000 * SLOW, "torn=1")  # however long what follows takes
    time.sleep(LEASE_S / 2)
    client.ask("raise", b"epochs", 50, 100)
    wait_until("its account tells", lambda: cli.stats()[f"session_{number}_deferred_bytes"] > 0, 5)
    time.sleep(2 * LEASE_S)
    assert fences(cli) == (0, 0, 0) and cli.stats()["deferred_bytes"] > 0
    it.start("announce", KEEPER, 60000 * SLOW)  # ends the other
    got = it.answer()
    assert got["wc"] == 0 and got["rounds"] > 3, got
    wait_until("it lets go", lambda: cli.stats()["deferred_bytes"] == 0, 10)
    it.start("where")
    assert it.answer()["wc"] == 0 and it.answer()["session"] == number


# What the statistics say of each session


def test_account_of_a_session(world, rogue):
    server = world.server("--lease", str(20000 * SLOW), memory="64M")
    cli, client, it = world.cli(server), world.client(server), rogue(server, client_id=77)
    number = it.ask("where")["session"]
    lag, deferred, fenced = (f"session_{number}_{name}"
                             for name in ("epoch_lag", "deferred_bytes", "fences"))
    client.put(b"key", b"first")
    it.ask("announce", KEEPER, 0)
    stats = cli.stats()
    assert (stats[lag], stats[deferred], stats[fenced]) == (0, 0, 0), stats
    start = stats["epoch"]
    client.ask("raise", b"key", 20, 20000)
    wait_until("it holds back all that was replaced",
               lambda: cli.stats()[deferred] == cli.stats()["deferred_bytes"] > 19 * 20000, 10)
    client.ask("spin", b"key", 300)
    wait_until("the writer does not",
               lambda: cli.stats()[f"session_{session_of(server, client)}_deferred_bytes"] == 0, 10)
    stats = cli.stats()
    assert stats[lag] == stats["epoch"] - start > 0, stats
    text = cli.good("stats").decode()
    for name in (lag, deferred, fenced):
        assert f"\n{name} " in text, text
    wait_until("it lets go", lambda: it.ask("announce", KEEPER, 0)["wc"] == 0 and
               cli.stats()[deferred] == cli.stats()["deferred_bytes"] == 0, 10)
    assert cli.stats()[lag] <= 1

    # fences are the client's: they are told of its next session
    it.ask("announce", KEEPER, 0, "ahead=9")
    it.ended(5000 * SLOW)
    wait_until("its lines are gone", lambda: lag not in cli.stats(), 10)
    again = rogue(server, client_id=77)
    assert cli.stats()[f"session_{again.ask('where')['session']}_fences"] == 1


# What clients say of how long a write has waited (wire_rpc.h): nobody can know better


U32 = (1 << 32) - 1


def test_words_about_waiting_change_nothing_but_the_status(world, rogue, soft_device):
    server = world.server("--lease", str(20000 * SLOW), "--deferred-max", "1M", memory="64M")
    cli, it = world.cli(server), rogue(server)

    def put(key, size):
        wait_until("memory has grown", lambda: it.put(key, size) == 0, 10)
    for key in range(1, 30):
        put(key, 900000)
    put(30, 400000)
    put(31, 400000)
    assert [it.put(30, 400000) for _ in range(3)] == [0, 0, -errno.EBUSY]
    for waited in (1 << 31, U32):
        for size in (400000, 900):  # what it replaces is as large
            assert it.put(30, size, waited_ms=waited) == -errno.ENOMEM
        for op, key in ((PING, 0), (GET, 30), (STATS, 0)):
            assert it.call(op=op, key=key, waited_ms=waited)["status"] == 0
    for key in range(1, 30):  # beyond the limit: that is its own word's worth
        assert it.call(op=DEL, key=key, waited_ms=U32)["status"] == 0
    assert cli.stats()["deferred_bytes"] > 20 << 20
    it.start("announce", KEEPER, 1000 * SLOW)
    wait_until("all of it comes back", lambda: cli.stats()["deferred_bytes"] == 0, 10)
    it.answer()
    it.close()
    client = world.client(server)
    client.ask("raise", b"key", 100, 400000, seconds=60)
    assert client.stats()["reconnects"] == 0
