# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Sessions tell the server how far they have got: what it costs, and what it is good for."""
from kvt_process import wait_until


def session_stats(client):
    return {k: int(v) for k, v in client.ask("session").items()}


def fences_of(stats):
    return sum(v for k, v in stats.items() if k.startswith("sessions_fenced_"))


def lag_of(stats):
    """{session: epochs that it is behind}"""
    return {int(k.split("_")[1]): v for k, v in stats.items() if k.endswith("_epoch_lag")}


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
