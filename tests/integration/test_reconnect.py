# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Clients that lost their server come back: not in step, not too often, each session with one
thread for all; and what breaks at the server alone is told at once."""
import signal
import socket
import threading
import time

import pytest

from kvt_client import Herd
from kvt_process import AGENT, SANITIZED, wait_until

LAST_STEP_S = 0.5
STEPS_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32]
AWAY_S = 4.0


def attempts_max(seconds):
    """Of one session, by its back-off: one is free, and each pause is at least half of its step."""
    return 2 + len(STEPS_S) + int((seconds - sum(STEPS_S) / 2) / (LAST_STEP_S / 2))


class Refuser:
    """Listens where the server was, takes connections and drops them, and says when."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.times = []
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((host, int(port)))
        self.listener.listen(256)
        self.started = time.monotonic()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.times.append(time.monotonic() - self.started)
            connection.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)
        assert not self.thread.is_alive()


def away(world, herd, server):
    """The server dies and comes back; the times of the attempts in between, the herd's result."""
    herd.run("key", AWAY_S + 4)
    time.sleep(0.3)
    server.crash()
    refuser = Refuser(server.address)
    time.sleep(AWAY_S)
    refuser.close()
    world.server(listen=server.address)
    return refuser.times, herd.result(20)


@pytest.mark.no_device
@pytest.mark.skipif(bool(AGENT), reason="listens where servers run")
def test_many_sessions_come_back_without_a_storm(world, record_property):
    sessions = 50
    server = world.server()
    herd = Herd(world.folder, server.address, sessions)
    world.clients.append(herd)
    times, result = away(world, herd, server)
    bins = [0] * int(AWAY_S / 0.05 + 1)
    for when in times:
        bins[min(int(when / 0.05), len(bins) - 1)] += 1
    steady = bins[40:80]
    record_property("attempts", len(times))
    print(f"{len(times)} attempts of {sessions} sessions in {AWAY_S} s; after 2 s "
          f"{sum(steady) / 2:.0f} a second, at most {max(steady)} in 50 ms")
    assert result["well"] == sessions, result
    assert sessions <= len(times) <= sessions * attempts_max(AWAY_S)
    assert sum(steady) > 0, "they go on trying"
    # a machine that stood still for a moment gathers some; clients in step do so each time
    assert sum(1 for n in steady if n > sessions / 2) <= 2, f"in step: {steady}"
    assert sum(1 for n in steady if n) >= len(steady) / 2, f"in step: {steady}"


@pytest.mark.no_device
@pytest.mark.skipif(bool(AGENT), reason="listens where servers run")
def test_threads_of_a_session_share_one_back_off(world):
    """32 threads lose one connection: one of them connects for all."""
    server = world.server()
    herd = Herd(world.folder, server.address, 1, handles=32)
    world.clients.append(herd)
    times, result = away(world, herd, server)
    assert result["well"] == 32, result
    assert 1 <= len(times) <= attempts_max(AWAY_S), times


def test_queue_pair_that_breaks_at_the_server_is_told(world, soft_device):
    """Its replies fail: the client hears of it over the life line, long before its deadline."""
    server = world.server(env={"SOFTRDMA_FAULT": "qp_error=6"})
    client = world.client(server, 8000)
    started = time.monotonic()
    for i in range(24):
        client.put(b"key", b"%d" % i)
    took = time.monotonic() - started
    assert client.get(b"key") == b"23"
    assert client.stats()["reconnects"] >= 3, "the fault had its effect"
    assert world.cli(server).stats()["sessions"] == 2, "the session goes on"
    assert took < 8, f"a request waited for its deadline: {took} s"
    client.quit()


def test_read_that_is_stuck_is_given_up_by_the_life_line_s_time_out(world, soft_device):
    """The life line stands and the transport is silent: another queue pair is tried, in time."""
    server = world.server()
    world.client(server).put(b"key", b"value")
    slow = world.client(server, 20000, 200, env={"SOFTRDMA_FAULT": "delay=500000,seed=3"})
    longest = 0.0
    for _ in range(3):
        started = time.monotonic()
        assert slow.get(b"key") == b"value"
        longest = max(longest, time.monotonic() - started)
    assert slow.stats()["reconnects"] >= 1, f"{longest} s"
    assert world.cli(server).stats()["sessions"] == 3, "the sessions go on"
    slow.quit()


@pytest.mark.parametrize("lease_ms", [1000, 60000])
def test_session_of_a_stopped_process(world, soft_device, lease_ms):
    """On one machine the kernel answers for a stopped process: its session stays for its lease.
    After that it is ended, and the next call connects again, with no error."""
    server = world.server("--lease", str(lease_ms))
    client, other = world.client(server, 8000), world.client(server)
    client.put(b"key", b"value")
    client.stop_threads()
    for i in range(20):
        other.put(b"key", b"%d" % i)
    time.sleep(3)
    client.signal(signal.SIGCONT)
    assert client.get(b"key") == b"19"
    assert client.stats()["reconnects"] == (1 if lease_ms < 3000 else 0)


@pytest.mark.parametrize("weak", [None, "5"])
def test_no_receive_is_lost_with_clients_that_die_while_they_send(world, soft_device, weak):
    """Killed in the middle of PUTs; then every receive buffer of the worker is there."""
    env = {"SOFTRDMA_WEAK": weak} if weak else None
    server = world.server("--workers", "1", env=env)
    kills = 4 if SANITIZED else 10
    for i in range(kills):
        client = world.client(server, env=env)
        client.start("fill", "killed", 0, 100000, 8000)
        time.sleep(0.02 * (i % 4))
        client.kill()
    steady = world.client(server, env=env)
    cli = world.cli(server)
    wait_until("the killed have gone", lambda: cli.stats()["sessions"] == 2, 10)
    assert steady.ask("fill", "steady", 0, 3000, 64, seconds=60)["done"] == "3000"
    stats = cli.stats()
    print({k: v for k, v in stats.items() if k.startswith("receives")})
    assert stats["receives_held"] == 0
    assert int(steady.ask("check", "steady", 0, 3000, 64, seconds=60)["found"]) == 3000
