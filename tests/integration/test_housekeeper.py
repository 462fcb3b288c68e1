# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Sessions tell the server how far they have got: what it costs, and what it is good for."""
import signal
import time

from kvt_process import scaled, wait_until

IDLE_MS = 1000  # of pauses that double, to the longest


def session_stats(client):
    return {k: int(v) for k, v in client.ask("session").items()}


def fences_of(stats):
    return sum(v for k, v in stats.items() if k.startswith("sessions_fenced_"))


def lag_of(stats):
    """{session: epochs that it is behind}"""
    return {int(k.split("_")[1]): v for k, v in stats.items() if k.endswith("_epoch_lag")}


def test_idle_client_sends_few_messages(world):
    """Ten handles, nothing to do: fewer than 10 a second, and the session lives on."""
    server = world.server()
    client = world.client(server)
    client.ask("hold", 9)
    time.sleep(IDLE_MS / 1000)
    before, started = session_stats(client), time.monotonic()
    time.sleep(3)
    after, took = session_stats(client), time.monotonic() - started
    assert 0 < after["messages"] - before["messages"] < 10 * took
    assert after["reconnects"] == 0
    assert fences_of(world.cli(server).stats()) == 0


def test_gets_cost_a_read_and_nothing_more(world):
    """While the housekeeper is at its busiest; the blocks' places are known from the writes."""
    server = world.server()
    client = world.client(server)
    keys, gets = scaled(20000), 0
    client.ask("fill", "k", 0, keys, 64, seconds=60)
    client.ask("check", "k", 0, keys, 64, seconds=60)  # what is cached is cached now
    before, rounds = client.stats(), session_stats(client)["rounds"]
    while session_stats(client)["rounds"] == rounds:  # its pause may be longer than all the GETs
        client.ask("check", "k", 0, keys, 64, seconds=60)
        gets += keys
    after = client.stats()
    assert after["gets"] - before["gets"] == gets
    # keys that share a hint's fingerprint, or gave way to others of their set, cost two more
    assert gets <= after["reads"] - before["reads"] < gets + gets // 100
    assert after["rpc_fallbacks"] == before["rpc_fallbacks"]


def test_idle_sessions_hold_nothing_back(world):
    """What is replaced under them is free again soon: they announce what they know."""
    server = world.server()
    clients = [world.client(server) for _ in range(3)]
    for i, client in enumerate(clients):
        client.put(b"mine %d" % i, b"value")
    writer, cli = world.client(server), world.cli(server)
    writer.ask("raise", b"key", scaled(200), 50000, seconds=60)
    wait_until("all of it is freed", lambda: cli.stats()["deferred_bytes"] == 0, 10)
    wait_until("nobody is behind by more than the asker's own round",
               lambda: max(lag_of(cli.stats()).values()) <= 1, 10)
    assert fences_of(cli.stats()) == 0
    for i, client in enumerate(clients):
        assert client.get(b"mine %d" % i) == b"value"
        assert session_stats(client)["reconnects"] == 0


def test_writers_wait_for_a_stopped_session(world, soft_device):
    """It holds back as much as may be deferred: writes take longer, none fails, and it is fenced.
    What it sees of it afterwards is a call that takes longer."""
    server = world.server("--deferred-max", "4M", "--lease", "1500", memory="64M")
    stopped, writer, cli = world.client(server), world.client(server), world.cli(server)
    stopped.put(b"other", b"value")
    stopped.stop_threads()
    writer.ask("raise", b"key", 200, 100000, seconds=60)  # 20 MB through a bound of 4
    stats = cli.stats()
    assert stats["deferred_refused"] > 0, "some writes were told to come again"
    assert stats["deferred_bytes"] <= 4 << 20
    assert fences_of(stats) == 1
    stopped.signal(signal.SIGCONT)
    assert stopped.get(b"other") == b"value"
    assert session_stats(stopped)["reconnects"] == 1
    wait_until("it keeps up again", lambda: cli.stats()["deferred_bytes"] == 0, 10)


def test_server_that_is_started_anew_is_followed(world):
    """Its epochs begin again, far below those that the session knew."""
    server = world.server()
    client = world.client(server, 20000)

    def more():
        client.put(b"key", b"value")
        return session_stats(client)["announced"] > 20
    wait_until("epochs have passed", more, 30)
    old = session_stats(client)
    server.crash()
    server = world.server(listen=server.address)
    client.put(b"key", b"new")
    wait_until("it announces to the new one",
               lambda: session_stats(client)["rounds"] > old["rounds"] + 2, 10)
    now = session_stats(client)
    assert now["reconnects"] >= 1 and now["announced"] <= now["epoch"] < old["announced"]
    cli = world.cli(server)
    wait_until("and is not behind", lambda: max(lag_of(cli.stats()).values()) <= 1, 10)
    assert fences_of(cli.stats()) == 0
