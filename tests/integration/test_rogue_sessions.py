# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Clients that break the rules of the exchange, come in numbers, come and go; and the end of the
server in the middle of it."""
import signal
import socket
import threading
import time

import pytest

import kvt_wire as wire
from kvt_client import CallFailed, Client
from kvt_process import FULL, SANITIZED, scaled, wait_until
from kvt_rogue import GET, PING, PUT, Bystander, settled, used_blocks

MIB = 1 << 20
EPROTO, EUSERS = -71, -87


# The exchange


def test_queue_pairs_that_there_cannot_be(world, clean, rogue):
    it = rogue(clean, [])
    for words in [("open", 65, 1, 1), ("open", 0xffffffff, 1, 1), ("ready", 5), ("ready", 65),
                  ("ready", 0xffffffff)]:
        with pytest.raises(CallFailed) as refusal:
            it.ask(*words)
        assert refusal.value.code == EPROTO and len(refusal.value.text) > 20
    for credits, granted in [(0, 64), (65, 64), (0xffffffff, 64), (3, 3)]:
        assert it.ask("open", 0, credits, 4)["credits"] == granted
        assert it.call(op=PING)["status"] == 0, "the same handle opened again"
    assert world.cli(clean).stats()["queue_pairs"] == 3
    with pytest.raises(CallFailed) as refusal:
        it.ask("hello")
    assert refusal.value.code == EPROTO


def test_queue_pairs_until_there_are_no_more(world, clean, rogue):
    good = world.client(clean)
    greedy = []
    with Bystander(good):
        with pytest.raises(CallFailed) as refusal:
            for _ in range(70):
                greedy.append(rogue(clean, []))
                for handle in range(64):
                    greedy[-1].ask("open", handle, 64, 1)
        assert refusal.value.code in (EUSERS, -12, -24), refusal.value
        assert len(refusal.value.text) > 40, refusal.value.text
        for it in greedy:
            it.close()
    good.quit()
    settled(world.cli(clean))


def test_one_greedy_session_leaves_room_for_others(world, clean, rogue):
    it = rogue(clean, [(i, 64, 1) for i in range(64)])
    for client in [world.client(clean) for _ in range(5)]:
        client.put(b"key", b"value")
    it.close()


def test_session_that_is_refused_again_and_again_is_ended(world, clean, rogue):
    it = rogue(clean, [])
    with pytest.raises(CallFailed) as refusal:
        for _ in range(1000):
            with pytest.raises(CallFailed) as refusal:
                it.ask("ready", 5)
            if refusal.value.code != EPROTO:
                raise refusal.value
    assert refusal.value.code in (-104, -32)
    assert clean.stderr().count("refused") < 100


def test_frames_without_end_do_not_stop_others(world, clean, kv_layout):
    """One connection that always has one more frame to read."""
    with wire.Raw(clean) as raw:
        raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
        assert raw.receive_frame().type == wire.WELCOME
        stop = threading.Event()
        many = wire.frame(wire.QP_READY, bytes(8)) * 500

        def flood():
            while not stop.is_set() and raw.send(many):
                pass

        def swallow():
            while not stop.is_set():
                try:
                    if not raw.sock.recv(1 << 16):
                        return
                except OSError:
                    return
        raw.sock.settimeout(1)
        threads = [threading.Thread(target=f) for f in (flood, swallow)]
        for t in threads:
            t.start()
        try:
            for _ in range(5):
                assert world.cli(clean)("ping", seconds=10).rc == 0
        finally:
            stop.set()
            for t in threads:
                t.join(10)


@pytest.mark.limit(90)
def test_1500_connections(world, clean):
    good = world.client(clean)
    with Bystander(good):
        socks = []
        for _ in range(scaled(1500)):
            socks.append(socket.create_connection((clean.ready["host"], clean.port), 5))
        assert world.cli(clean)("ping").rc in (0, 3), "served, or refused in words"
        for s in socks:
            s.close()


def test_no_descriptors_left(world):
    """The server cannot accept: it says so now and then, sleeps, and recovers."""
    server = world.server(memory="32M")
    good = world.client(server)
    limit = server.limit_descriptors(server.descriptors() + 20)
    socks = [socket.create_connection((server.ready["host"], server.port), 5) for _ in range(40)]
    time.sleep(0.3)
    before = server.cpu_seconds()
    time.sleep(1)
    assert server.cpu_seconds() - before < 0.3, "it spins"
    good.put(b"key", b"value")
    for s in socks:
        s.close()
    wait_until("connections again", lambda: world.cli(server)("ping").rc == 0, 10, step=0.2)
    assert server.stderr().count("accept failed") < 50
    server.limit_descriptors(limit)


def test_same_client_id_from_two_processes(world, clean, rogue):
    for turn in range(scaled(10)):
        first = rogue(clean, client_id=77)
        first.start("send", 0, f"op={PUT}", "key=1", f"value_len={4 * MIB}", "count=8", "step=1",
                    f"sequence={turn * 1000 + 1}")
        second = rogue(clean, client_id=77)
        first.answer()
        first.ended()
        assert second.put(1, 100, sequence=turn * 1000 + 500, fill=3) == 0
        first.close()
        got = second.call(op=GET, key=1)
        assert got["value_len"] == 100, "nothing of the fenced session came after"
        second.close()


# Churn and memory


@pytest.mark.limit(120)
def test_churn_under_a_session_that_stays(world):
    server = world.server()
    cli, keeper = world.cli(server), world.client(server)
    turns = 500 if FULL else 25 if SANITIZED else scaled(100)
    for _ in range(turns):
        client = Client(world.folder, server.address)
        client.ask("fill", "churn", 0, 10, 1000)
        client.quit()
        client.close()
    wait_until("all is back, whoever stays", lambda: cli.stats()["blocks_deferred"] == 0, 5)
    s = cli.stats()
    assert s["blocks_retired"] == s["blocks_freed"] == (turns - 1) * 10
    assert used_blocks(cli) == 10
    assert keeper.ask("check", "churn", 0, 10, 1000)["found"] == "10"
    assert keeper.stats()["reconnects"] == 0
    keeper.quit()
    settled(cli)


@pytest.mark.limit(120)
def test_large_values_from_8_clients_in_a_small_store(world):
    server = world.server(memory="64M")
    clients = [world.client(server, 20000) for _ in range(8)]
    for i, client in enumerate(clients):
        client.start("fill", f"large{i}-", 0, 2, 16 * MIB - 100)
    done = []
    for client in clients:
        try:
            done.append(int(client.answer(60)["done"]))
        except CallFailed as failure:
            assert failure.code == -12, failure
            done.append(int(failure.text.split()[0].split("=")[1]))
    assert 1 <= sum(done) <= 4, done
    for i, count in enumerate(done):
        got = clients[i].ask("check", f"large{i}-", 0, 2, 16 * MIB - 100, seconds=60)
        assert (int(got["found"]), int(got["wrong"])) == (count, 0), (i, count, got)
        clients[i].ask("drop", f"large{i}-", 0, 2)
    for client in clients:
        client.quit()
    settled(world.cli(server))


@pytest.mark.limit(90)
def test_sigterm_under_load_ends_in_time(world, rogue):
    server = world.server(memory="512M")
    clients = [world.client(server, 1000) for _ in range(8)]
    rogues = [rogue(server, [(i, 64, 0 if r % 2 else 128) for i in range(8)]) for r in range(4)]
    for i, client in enumerate(clients):
        client.start("stream", f"load{i}-", 0, 1000000, 20000 if i % 2 else 100)
    for r in rogues:
        for handle in range(8):
            r.start("send", handle, f"op={PUT}", "key=1", f"value_len={MIB}", "count=60", "step=1")
    time.sleep(1)
    server.stop(signal.SIGTERM)
    for client in clients + rogues:
        client.kill()
