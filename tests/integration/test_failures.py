# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Processes that die, stop, come back; clients that share keys."""
import random
import signal
import subprocess
import time

import pytest

from kvt_client import CallFailed
from kvt_process import FULL, environment, program, scaled, wait_until

TIMEOUT_S = 5  # of a call, the library's default
LOST = (-110, -111, -113, -104, -71, -121)  # what a call may answer when the server is gone


def only_the_asker(cli):
    return lambda: cli.stats()["sessions"] == 1


# The server dies


def test_server_killed_while_kv_cli_loads(world, tmp_path):
    server = world.server()
    command = [program("kv-cli"), "-s", server.address, "-d", server.ready["device"], "load",
               "--format", "tsv", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment()) as load:
        for i in range(2000):
            load.stdin.write(b"key %d\tvalue\n" % i)
        load.stdin.flush()
        wait_until("records arrive", lambda: world.cli(server).stats()["records"] > 100, 10)
        server.crash()
        killed = time.monotonic()
        try:
            for i in range(200000):
                load.stdin.write(b"key %d\tvalue\n" % i)
        except BrokenPipeError:
            pass
        try:
            load.stdin.close()
        except BrokenPipeError:
            pass
        err = load.stderr.read().decode()
        rc = load.wait(10)
    assert time.monotonic() - killed < TIMEOUT_S + 3, "within its timeout"
    assert rc == 3, err
    assert err.count("\n") == 1 and err.startswith("kv-cli: ") and len(err) > 30, err


@pytest.mark.parametrize("how", ["get", "put", "ping", "scan"])
def test_server_killed_under_a_connected_client(world, how):
    server = world.server()
    client = world.client(server, 2000, 1000)
    client.put(b"key", b"value")
    server.crash()
    started = time.monotonic()
    words = {"get": [b"key"], "put": [b"key", b"new"], "ping": [], "scan": []}[how]
    with pytest.raises(CallFailed) as failure:
        client.ask(how, *words)
    assert time.monotonic() - started < 4, "within its timeout of 2 s"
    assert failure.value.code in LOST, failure.value
    assert len(failure.value.text) > 10, "a sentence"
    client.quit()


def test_server_stopped_and_restarted_many_times(world):
    server = world.server(memory="64M")
    client = world.client(server)
    for i in range(10 if FULL else 4):
        client.put(b"key", b"%d" % i)
        assert client.get(b"key") == b"%d" % i
        if i % 2:
            server.crash()
        else:
            server.stop()
        server = world.server(memory="64M", listen=server.address)
        assert client.get(b"key") is None
    client.quit()


# Clients die


def test_client_killed_in_the_middle_of_a_load(world):
    """What was acknowledged is there; what is there is whole; the session is cleaned up."""
    server = world.server()
    cli, other = world.cli(server), world.client(server)
    writer = world.client(server)
    writer.start("stream", "record", 0, 10000000, 3000)
    acknowledged = -1
    deadline = time.monotonic() + 0.7
    while time.monotonic() < deadline or acknowledged < 50:
        acknowledged = int(writer.read_line(5).split()[1])
    writer.kill()
    while (line := writer.read_line(5)) is not None:
        acknowledged = int(line.split()[1])
    count = acknowledged + 1
    other.put(b"others", b"go on")
    seen = other.ask("check", "record", 0, count + 1, 3000)
    assert int(seen["wrong"]) == 0
    assert int(seen["found"]) >= count and int(seen["missing"]) <= 1
    other.quit()
    wait_until("the session of the killed client ends", only_the_asker(cli), 3)
    assert cli.stats()["records"] in (count + 1, count + 2), "records and one other"


def test_clients_that_come_and_go(world):
    """Sessions, queue pairs and memory of clients that ended in any way are given back."""
    server = world.server()
    rng = random.Random(7)
    clients = []
    for i in range(60 if FULL else scaled(24)):
        client = world.client(server)
        client.put(b"from %d" % i, bytes(rng.randint(0, 20000)))
        client.start("spin", b"from 0", rng.choice([1, 5000]))
        clients.append(client)
        if len(clients) > 4:
            victim = clients.pop(rng.randrange(len(clients)))
            if rng.random() < 0.7:
                victim.kill()
            else:
                victim.popen.stdin.close()
    for client in clients:
        client.kill()
    cli = world.cli(server)
    wait_until("nobody is left but the asker",
               lambda: {k: v for k, v in cli.stats().items()
                        if k in ("sessions", "queue_pairs", "handshakes_pending")} ==
               {"sessions": 1, "queue_pairs": 2, "handshakes_pending": 0}, 8)
    before = server.descriptors()
    for _ in range(scaled(10)):
        cli.good("get", "from 0")
    wait_until("descriptors do not pile up", lambda: server.descriptors() <= before, 3)


# The server's threads stand still


def test_stopped_server_still_serves_one_sided_gets(world):
    server = world.server()
    cli, client = world.cli(server), world.client(server)
    client.put(b"key", bytes(1000))
    assert client.get(b"key") == bytes(1000)
    before = client.stats()
    server.stop_threads()
    seen = client.ask("spin", b"key", 1500)
    assert server.state() == "T", "nothing let it go on meanwhile"
    server.signal(signal.SIGCONT)
    assert int(seen["gets"]) > scaled(500) and seen["misses"] == "0", seen
    assert int(seen["max_us"]) < 1500000, seen  # a machine may stand still for a moment
    after = client.stats()
    assert after["rpc_fallbacks"] == before["rpc_fallbacks"]
    assert after["reconnects"] == before["reconnects"]
    client.put(b"key", b"new")
    assert client.get(b"key") == b"new"
    cli.put("other", b"all well")
    assert cli.get("other") == b"all well"


# Clients side by side


@pytest.mark.parametrize("size", [8, 1000, 8192, 8200, 200000])
def test_readers_never_see_a_torn_or_older_value(world, size):
    server = world.server()
    writer = world.client(server)
    readers = [world.client(server) for _ in range(2)]
    writer.ask("raise", b"key", 1, size)
    writer.start("raise", b"key", 100000000, size)
    totals = [{"gets": 0, "changes": 0} for _ in readers]

    def enough():
        for reader in readers:
            reader.start("watch", b"key", 2000, size)
        for reader, total in zip(readers, totals):
            seen = {k: int(v) for k, v in reader.answer(15).items()}
            assert seen["torn"] == 0 and seen["older"] == 0, seen
            for name in total:
                total[name] += seen[name]
        return all(total["gets"] > 20 and total["changes"] > 1 for total in totals)
    wait_until("both have read it often, and seen it change", enough, 30)
    writer.kill()
