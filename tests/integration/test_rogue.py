# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Clients that keep the rules of the exchange and then break those of the queue pairs."""
import signal
import subprocess
import time

import pytest

from kvt_process import program, scaled, wait_until
from kvt_rogue import (APPEND, DEL, GET, INCR, INLINE, KEEP, KEEPER, MEASURE, PATIENT, PING, PUT,
                       STATS, TOUCH, Bystander, settled, used_blocks)

MIB = 1 << 20
EINVAL, ENOENT, EBUSY, EBADMSG, EMSGSIZE, ESTALE, EOPNOTSUPP = -22, -2, -16, -74, -90, -116, -95
WC_OK, WC_INVALID, WC_ACCESS = 0, 9, 10


# Requests that lie: answered, and the session goes on


@pytest.mark.parametrize("status, fields", [
    (EOPNOTSUPP, {"op": 0}), (EOPNOTSUPP, {"op": 10}), (EOPNOTSUPP, {"op": 255}),
    (EINVAL, {"flags": 8}), (EINVAL, {"flags": 128}),
    (EINVAL, {"condition": 1}), (EINVAL, {"operand": 1}), (EINVAL, {"ttl_ms": 1}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "condition": 4}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "condition": 1, "operand": 1}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "ttl_ms": 3162240000001}),
    (EINVAL, {"op": GET, "key": 1, "condition": 3}), (EINVAL, {"op": DEL, "key": 1, "ttl_ms": 1}),
    (EINVAL, {"op": DEL, "key": 1, "condition": 1}), (EINVAL, {"op": INCR, "condition": 1}),
    (EINVAL, {"op": INCR, "key": 1, "condition": 3}), (EINVAL, {"op": INCR, "key": 1, "flags": 4}),
    (ENOENT, {"op": INCR, "key": 1, "condition": 2}),
    (EINVAL, {"op": INCR, "key": 1, "value_len": 1}),
    (EINVAL, {"op": APPEND, "key": 1, "value_len": 9000, "staging_len": 8999}),
    (EINVAL, {"op": APPEND, "key": 1, "flags": INLINE | KEEP}),
    (EBADMSG, {"op": APPEND, "key": 1, "value_len": 20000, "value_hash": 5}),
    (ENOENT, {"op": APPEND, "key": 1, "flags": INLINE, "value_len": 9, "condition": 2}),
    (EINVAL, {"op": TOUCH}), (EINVAL, {"op": TOUCH, "key": 1, "ttl_ms": 1 << 63}),
    (EINVAL, {"op": TOUCH, "key": 1, "operand": 1}), (ENOENT, {"op": TOUCH, "key": 1}),
    (ENOENT, {"op": DEL, "key": 1, "condition": 3, "operand": 1}),
    (EINVAL, {"op": GET}), (EINVAL, {"op": GET, "key": 1, "key_len": 9}),
    (EINVAL, {"op": GET, "key": 1, "key_len": 0xffffffff}),
    (EINVAL, {"op": GET, "key": 1, "key_len": 1025, "len": 96 + 1025}),
    (EINVAL, {"op": GET, "key": 1, "len": 103}), (EINVAL, {"op": GET, "key": 1, "value_len": 5}),
    (EINVAL, {"op": PING, "len": 97}), (EINVAL, {"op": PING, "key": 1}),
    (EINVAL, {"op": PING, "value_len": 5}), (EINVAL, {"op": MEASURE}),
    (EINVAL, {"op": MEASURE, "flags": INLINE, "value_len": 127, "len": 96 + 127}),
    (EINVAL, {"op": MEASURE, "flags": INLINE, "value_len": 128, "len": 96 + 128}),
    (EINVAL, {"op": MEASURE, "value_len": 128, "staging_len": 128}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "value_len": 10, "len": 96 + 8 + 9}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "value_len": 8193, "len": 9000}),
    (EINVAL, {"op": PUT, "key": 1, "value_len": 0}),
    (EINVAL, {"op": PUT, "key": 1, "value_len": 16 * MIB + 1}),
    (EINVAL, {"op": PUT, "key": 1, "value_len": 20000, "staging_len": 19999}),
    (EINVAL, {"sequence": 0}), (ESTALE, {"generation": 0}), (ESTALE, {"generation": 1 << 63}),
    (ESTALE, {"client_id[0]": 1}), (ESTALE, {"op": DEL, "key": 1, "client_id[0]": 1}),
    (ENOENT, {"op": GET, "key": 1}), (ENOENT, {"op": DEL, "key": 1}),
    (EMSGSIZE, {"op": STATS, "staging_len": 0}), (EMSGSIZE, {"op": STATS, "staging_len": 10}),
    (EBADMSG, {"op": PUT, "key": 1, "value_len": 20000, "value_hash": 5}),
])
def test_request_that_lies_is_answered(world, clean, rogue, status, fields):
    it, cli = rogue(clean), world.cli(clean)
    refused = cli.stats()["rpc_refused"]
    assert it.call(**fields)["status"] == status
    assert it.call(op=PING)["status"] == 0
    assert used_blocks(cli) == 0, "a block was lost"
    assert cli.stats()["rpc_refused"] - refused == (status != ENOENT)


@pytest.mark.parametrize("words, fields", [
    ("no request", {"len": 0}), ("no request", {"len": 1}), ("no request", {"len": 95}),
    ("no request", {"magic": 1}),
    ("credits", {"slot": 16}), ("credits", {"slot": 63}), ("range", {"slot": 64}),
    ("range", {"slot": 65535}),
])
def test_frame_that_is_none_ends_the_session_with_a_word(world, clean, rogue, words, fields):
    good = world.client(clean)
    with Bystander(good):
        it = rogue(clean)
        it.send(**fields)
        said = it.ended()
    assert words in said, said
    assert world.cli(clean).stats()["protocol_errors"] == 1


@pytest.mark.parametrize("length", [9313, 60000])
def test_frame_beyond_the_receive_buffer_breaks_its_queue_pair_only(world, clean, rogue, length):
    good = world.client(clean)
    with Bystander(good):
        it = rogue(clean, [(0, 16, 32), (1, 4, 8)])
        it.send(len=length)
        wait_until("the queue pair is lost",
                   lambda: world.cli(clean).stats()["queue_pairs_lost"] == 1, 5)
        assert it.call(1, op=PING)["status"] == 0, "the session's other queue pair goes on"


@pytest.mark.parametrize("pairs, credits", [(8, 32), (4, 64), (7, 32)])
def test_who_keeps_to_the_credits_never_meets_rnr(world, clean, pairs, credits):
    """Credits that fill whole chunks of receives: none may be missing, ever."""
    if (pairs, credits) != (7, 32):
        assert pairs * credits % 256 == 0
    done = subprocess.run([program("kv-credits-client"), clean.address, clean.ready["device"],
                           str(pairs), str(credits), "3"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 1000


# Staging memory that is not there


@pytest.mark.parametrize("fields", [
    {"staging_rkey": 0}, {"staging_rkey": 0xffffffff}, {"rkey": 3}, {"staging_addr": 4096},
    {"staging_addr": (1 << 64) - 1},
])
@pytest.mark.parametrize("op", [PUT, GET])
def test_bad_staging_memory_breaks_that_queue_pair_only(world, clean, rogue, op, fields):
    good = world.client(clean)
    good.put(bytes([1]) + bytes(7), bytes(30000))
    before = used_blocks(world.cli(clean))
    with Bystander(good):
        it = rogue(clean, [(0, 16, 32), (1, 4, 8)])
        size = {"value_len": 30000, "key": 2} if op == PUT else {"key": 1}
        it.send(op=op, **size, **fields)
        wait_until("the queue pair is lost",
                   lambda: world.cli(clean).stats()["queue_pairs_lost"] == 1, 5)
        assert it.call(1, op=PING)["status"] == 0, "the session's other queue pair goes on"
        it.close()
    good.ask("drop", "bystander", 0, 10)
    good.quit()
    wait_until("the block is back", lambda: used_blocks(world.cli(clean)) == before, 5)


def test_staging_memory_that_may_not_be_written(world, clean, rogue):
    it = rogue(clean)
    assert it.put(1, 30000, rkey=2, fill=9) == 0, "reading it is enough for a PUT"
    for lost, request in enumerate([{"op": GET, "key": 1}, {"op": STATS}]):
        it = rogue(clean)
        it.send(rkey=2, **request)
        wait_until("the queue pair is lost",
                   lambda: world.cli(clean).stats()["queue_pairs_lost"] == lost + 1, 5)


def test_staging_memory_that_is_too_small(world, clean, rogue):
    it = rogue(clean)
    assert it.put(1, 30000, fill=9) == 0
    got = it.call(op=GET, key=1, staging_len=29999, fill=5)
    assert (got["status"], got["value_len"]) == (EMSGSIZE, 30000)
    got = it.call(op=GET, key=1, staging_len=30000)
    assert (got["status"], got["first"]) == (0, 9)


def test_two_puts_at_once_in_one_slot(world, clean, rogue):
    it = rogue(clean)
    it.send(op=PUT, key=1, value_len=16 * MIB, count=4)
    assert "slot" in it.ended()
    it.close()
    settled(world.cli(clean))
    assert used_blocks(world.cli(clean)) <= 2


# More than the credits, replies that nobody takes


@pytest.mark.parametrize("step, handles", [(0, 1), (1, 1), (0, 8), (1, 8)])
def test_flood_does_not_starve_others(world, clean, rogue, step, handles):
    good, count = [world.client(clean) for _ in range(3)], scaled(2000)
    with Bystander(good[0]), Bystander(good[1]), Bystander(good[2]):
        for flood in range(40):
            it = rogue(clean, [(handle, 64, count) for handle in range(handles)])
            for _ in range(5):
                for handle in range(handles):
                    it.send(handle, op=PING, count=count, step=step)
            it.close()
            # a worker that keeps up with all of one has nothing to complain of
            if flood >= scaled(4) and world.cli(clean).stats()["protocol_errors"] > 0:
                break
    assert world.cli(clean).stats()["protocol_errors"] > 0, "a flood was seen"


def test_replies_that_nobody_takes_do_not_stall_others(world, clean, rogue):
    good = world.client(clean)
    good.put(bytes([1]) + bytes(7), bytes(100000))
    with Bystander(good):
        mute = [rogue(clean, [(0, 64, 0)]) for _ in range(4)]
        for it in mute:
            it.send(op=PING, count=50, step=1)
            it.send(op=GET, key=1, count=64, step=1)
            it.send(op=STATS, count=2, step=1)
        started = time.monotonic()
        time.sleep(0.5)
        for it in mute:
            it.close()
    assert time.monotonic() - started < 15


def test_statistics_that_nobody_takes_do_not_keep_others_from_theirs(world, clean, rogue):
    """A worker has few rooms for them: each is given back, or its queue pair breaks."""
    with Bystander(world.client(clean)):
        mute = [rogue(clean, [(0, 64, 0)]) for _ in range(scaled(12))]
        for turn in range(2):
            for it in mute:
                it.send(0, op=STATS, staging_len=1 << 20, slot=turn, count=8, step=8)
        for _ in range(3):
            assert world.cli(clean).stats()["sessions"] >= 1
        it = rogue(clean)
        for _ in range(20):
            assert it.call(op=STATS, staging_len=1 << 20)["status"] in (0, EBUSY)
        wait_until("a room is free", lambda: it.call(op=STATS, staging_len=1 << 20)["status"] == 0,
                   10, step=0.01)


def test_statistics_that_were_never_sent_keep_no_room(world, rogue):
    """Their queue pair breaks while they wait for a place in its send queue, and stays so."""
    server = world.server(*PATIENT, "--workers", "1", memory="256M")
    cli = world.cli(server)
    assert rogue(server).put(1, 30000) == 0
    mute = [rogue(server, [(0, 64, 0)]) for _ in range(8)]
    for it in mute:
        for what in ({"op": GET, "key": 1, "count": 64}, {"op": GET, "key": 1, "count": 64},
                     {"op": PING, "count": 20}, {"op": STATS, "slot": 40}):
            it.send(step=1, **what)
            time.sleep(0.005)  # the worker answers one before the next is there

    def gone():
        said = cli.stats()
        return said["queue_pairs_lost"] + said["protocol_errors"] == len(mute)
    wait_until("all have broken", gone, 10, step=0.1)


def test_two_requests_for_statistics_in_one_queue_pair(world, clean, rogue):
    it = rogue(clean)
    it.send(op=STATS, staging_len=1 << 20, count=4, step=1)
    said = [it.reply()["status"] for _ in range(4)]
    assert 0 in said and set(said) <= {0, EBUSY}, said
    assert it.call(op=STATS, staging_len=1 << 20)["status"] == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_client_that_dies_or_stops_while_it_is_read_from(world, clean, rogue, how):
    good = world.client(clean)
    with Bystander(good):
        for _ in range(2):  # what they replace is kept for the bystander: 8 values must fit
            it = rogue(clean, [(0, 16, 32)])
            it.start("send", 0, f"op={PUT}", "key=3", f"value_len={16 * MIB}", "count=4",
                     "step=1")
            time.sleep(0.15)
            it.signal(how)
            if how == signal.SIGSTOP:
                time.sleep(0.2)
            it.kill()
    good.quit()
    wait_until("one value at most is left",
               lambda: world.cli(clean).stats()["memory_large_record_bytes"] < 34 * MIB, 10)


# Memory of the server


def test_epoch_slot_belongs_to_its_session_by_its_key(world, clean, rogue):
    """Keys of two slots differ, and one does not open the other's memory."""
    one, two = rogue(clean), rogue(clean)
    a, b = one.ask("where"), two.ask("where")
    assert a["slot_rkey"] != b["slot_rkey"]
    assert two.ask("rdma", KEEPER, "write", a["slot"], b["slot_rkey"], 8)["wc"] == WC_ACCESS


@pytest.mark.parametrize("access, what, offset, length", [
    ("write", "root", 0, 8), ("write", "root", 192, 8), ("write", "table", 0, 32),
    ("write", 0, 0, 8), ("write", 1, 0, 8), ("write", 2, 64, 4096),
    ("read", "root", 4090, 8), ("read", "root", -8, 8), ("read", "table", 131072, 8),
    ("read", 0, 1 << 40, 8), ("read", 2, 4 * MIB - 8, 16), ("read", "slot", 0, 64),
    ("write", "slot", 60, 8), ("write", "slot", 4096, 8), ("write", "slot", 1 << 20, 8),
])
def test_memory_that_is_not_the_clients(world, clean, rogue, access, what, offset, length):
    good = world.client(clean)
    with Bystander(good):
        it = rogue(clean)
        inside = what == "slot" and offset == 60  # of its own slot's page
        wc = it.ask(access, KEEPER if access == "write" else 0, what, offset, length)["wc"]
        assert wc == (WC_OK if inside else WC_ACCESS), wc
    assert good.ask("check", "bystander", 0, 10, 100)["found"] == "10"


@pytest.mark.parametrize("what, offset, length", [
    ("slot", 0, 64), ("slot", 0, 0), ("root", 0, 8), (2, 64, 4096),
])
def test_queue_pairs_of_requests_take_no_write(world, clean, rogue, what, offset, length):
    """Not even of the session's own epoch slot: only the housekeeper's may do that."""
    cli = world.cli(clean)
    with Bystander(world.client(clean)):
        it = rogue(clean, [(0, 16, 32), (1, 16, 32), (KEEPER, 0, 0)])
        assert it.call(1, op=PING)["status"] == 0
        assert it.ask("announce", KEEPER, 0)["wc"] == WC_OK
        assert it.ask("write", 0, what, offset, length)["wc"] in (WC_INVALID, WC_ACCESS)
        # 0xee in all of the slot would be a lie, and the session would end when that was looked at
        assert cli.stats()["sessions_fenced_protocol"] == 0
        assert it.ask("line", 200) == {}
        assert it.call(1, op=PING)["status"] == 0
        assert it.ask("announce", KEEPER, 0)["wc"] == WC_OK


def test_an_announcement_over_a_queue_pair_of_requests(world, clean, rogue):
    """It would be believed, so what is replaced would wait for it no more."""
    cli, client = world.cli(clean), world.client(clean)
    client.put(b"key", b"first")
    it = rogue(clean)
    assert it.ask("announce", KEEPER, 0)["wc"] == WC_OK
    client.ask("raise", b"key", 20, 20000)
    assert it.ask("announce", 0, 0, "ahead=9")["wc"] in (WC_INVALID, WC_ACCESS)
    assert cli.stats()["sessions_fenced_protocol"] == 0
    assert cli.stats()["deferred_bytes"] > 0, "nothing was announced"
    assert it.ask("announce", KEEPER, 0)["wc"] == WC_OK


def test_epoch_slot_of_a_session_that_has_gone(world, clean, rogue):
    gone = rogue(clean)
    where = gone.ask("where")
    gone.close()
    settled(world.cli(clean))
    it = rogue(clean)
    got = it.ask("rdma", KEEPER, "write", where["slot"], where["slot_rkey"], 8)["wc"]
    assert got == WC_ACCESS
