# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Peer failure on a device of the kernel: the server runs in guest 1, these tests in guest 2.

Each test says how long the client under test took to notice, and holds it against the life line's
time-out; the rest of the time is a margin for emulated machines on a busy host. A bystander, a
client in the server's guest, must not be disturbed. Nothing may be left: `rdma res` counts.
"""
import calendar
import os
import re
import shlex
import subprocess
import time

import pytest

from kvt_client import CallFailed, Herd
from kvt_process import AGENT, DEVICE, ROOT, program, wait_until
from kvt_rdma import resources
from kvt_remote import ask

LIFELINE_S = 2.0
MARGIN_S = 1.5
NETDEV = os.environ.get("RXE_NETDEV", "")
LOST = (-110, -111, -113, -104, -103, -101, -100, -71, -121)

pytestmark = pytest.mark.skipif(not (AGENT and NETDEV),
                                reason="wants two guests of tests/rxe/guests.py")


def here(*args):
    subprocess.run(args, check=True, timeout=20, stdin=subprocess.DEVNULL)


class Bystander:
    """A client in the server's guest that reads all the time."""

    def __init__(self, there, server, seconds):
        herd = shlex.join([program("kv-test-herd"), server.address, DEVICE, "1", "1", "5000",
                           "2000"])
        self.process = there.start("bash", "-c", f"echo 'run herd {int(seconds * 1000)}' | {herd}")
        assert self.process.read_line(15) == "ok"

    def result(self, seconds=40):
        line = self.process.read_line(seconds)
        assert line and line.startswith("ok "), line
        return {k: int(v) for k, v in (pair.split("=") for pair in line.split()[1:])}

    def undisturbed(self):
        found = self.result()
        print(f"bystander: {found}")
        assert found["bad"] == 0 and found["reconnects"] == 0, found
        assert found["longest_us"] < LIFELINE_S * 1e6 and found["good"] > 100, found


@pytest.fixture(autouse=True)
def nothing_left():
    """What the device has on both sides is what it had before the test. autouse: it is the first
    fixture to begin and the last to end."""
    before = resources(), ask("resources")
    yield
    wait_until("nothing is left here and there",
               lambda: (resources(), ask("resources")) == before, 5, step=0.1)


@pytest.fixture
def server(world):
    return world.server("--workers", "1", "--log-level", "debug", memory="64M")


def settled(server, world, sessions):
    """The server has so many sessions with a handle each, and no queue pair more."""
    def counts():
        stats = world.cli(server).stats()
        return stats["sessions"] - 1, stats["queue_pairs"] - 2
    wait_until(f"{sessions} sessions", lambda: counts() == (sessions, 2 * sessions), 8, step=0.3)


def error_of(client, started, seconds=15):
    """The running command fails; after how long."""
    with pytest.raises(CallFailed) as failure:
        client.answer(seconds)
    took = time.monotonic() - started
    print(f"error after {took:.2f} s: {failure.value}")
    assert failure.value.code in LOST, failure.value
    return took


def acknowledged(client):
    """How many records a `stream` has acknowledged until it failed."""
    done = 0
    while True:
        line = client.read_line(15)
        assert line is not None, client.stderr()
        if not line.startswith("ack "):
            return done, line
        done = int(line.split()[1]) + 1


# The server


def test_server_killed(world, server, there):
    """In the middle of a chain of READs and of PUTs: an error, then the next server is found."""
    reader, writer = (world.client(server, 2000) for _ in range(2))
    herd = Herd(world.folder, server.address, 12)
    world.clients.append(herd)
    writer.put(b"key", bytes(100000))
    reader.start("spin", b"key", 20000)
    writer.start("raise", b"key", 1000000, 100000)
    herd.run("herd", 4.5)
    time.sleep(0.5)
    server.crash()
    started = time.monotonic()
    for client in (reader, writer):
        assert error_of(client, started) < LIFELINE_S + MARGIN_S
    second = world.server("--workers", "1", memory="64M", listen=server.address)
    assert reader.get(b"key") is None
    result = herd.result(20)
    accepted = world.cli(second).stats()["connections_accepted"]
    print(f"herd of 12: {result}; {accepted} connections were accepted")
    assert result["well"] == 12, result
    assert accepted <= 12 + 2 + 1 + 6, "each connects once, or nearly"


# Clients


@pytest.mark.parametrize("how", ["large puts", "chains of reads"])
def test_client_killed(world, server, there, how):
    steady = world.client(server)
    steady.put(b"key", b"value")
    steady.ask("raise", b"large", 1, 1 << 20)
    bystander = Bystander(there, server, 3)
    before = there.of_sessions()
    for _ in range(2):
        victim = world.client(server)
        if how == "large puts":
            victim.start("raise", b"large", 100000, 1 << 20)
        else:
            victim.start("spin", b"large", 20000)
        time.sleep(0.4)
        victim.kill()
    started = time.monotonic()
    # the bystander may have ended meanwhile, on a slow machine
    wait_until("its queue pairs and regions are gone",
               lambda: all(n <= before[what] for what, n in there.of_sessions().items()),
               LIFELINE_S + MARGIN_S, step=0.05)
    print(f"gone after {time.monotonic() - started:.2f} s")
    assert steady.get(b"key") == b"value"
    assert steady.stats()["reconnects"] == 0
    found = world.cli(server).stats()
    print({k: v for k, v in found.items() if k.startswith(("receives", "queue_pairs"))})
    bystander.undisturbed()
    settled(server, world, 1)


def next_answer(ping):
    """When the peer answered, in seconds since 1970."""
    while (line := ping.read_line(20)) is not None:
        if match := re.match(r"\[(\d+\.\d+)\] \d+ bytes from", line):
            return float(match.group(1))
    raise AssertionError("ping came to its end and saw no gap")


def last_answer(ping):
    """When the peer stopped to answer: the beginning of the gap."""
    last = now = next_answer(ping)
    while now - last <= LIFELINE_S:
        last, now = now, next_answer(ping)
    ping.kill()
    return last


def log_time(text, words):
    """When the server's log first said so, in seconds since 1970."""
    for line in text.splitlines():
        if re.search(words, line):
            stamp, _, ms = line.split()[0].rstrip("Z").partition(".")
            return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) + int(ms) / 1000
    raise AssertionError(f"not in the log: {words}\n{text}")


def stop_guest(number, seconds):
    here(str(ROOT / "tests" / "rxe" / "stop-guest"), str(number), str(seconds))


def test_client_s_guest_stopped(world, server, there):
    """No reset, no acknowledgement: the server's life lines tell, of an idle session and of one at
    work; what was stopped finds itself fenced and comes back."""
    busy, idle = (world.client(server) for _ in range(2))
    idle.put(b"key", b"idle")
    bystander = Bystander(there, server, 6)
    ping = there.start("ping", "-D", "-i", "0.1", "-c", "600", os.environ["RXE_HOST"])
    next_answer(ping)
    busy.start("stream", "s", 0, 1000000, 20000)
    time.sleep(0.7)
    stop_guest(2, 5)
    bystander.undisturbed()
    stopped_at = last_answer(ping)
    took = [log_time(server.stderr(), f"session {n} ends") - stopped_at for n in (1, 2)]
    print(f"the server ended the busy session after {took[0]:.2f} s, the idle one after "
          f"{took[1]:.2f} s")
    for seconds in took:
        assert LIFELINE_S - 1.2 < seconds < LIFELINE_S + 1
    assert idle.get(b"key") == b"idle"
    assert idle.stats()["reconnects"] >= 1, "it was fenced"
    busy.kill()
    settled(server, world, 1)


def test_server_s_guest_stopped(world, server, there):
    """A GET in flight, a PUT in flight, and an idle client that then asks: the life line tells."""
    reader, writer, idle = (world.client(server, 2000) for _ in range(3))
    reader.put(b"key", bytes(50000))
    writer.start("stream", "s", 0, 1000000, 1000)
    reader.start("spin", b"key", 20000)
    time.sleep(0.7)
    stop_guest(1, 4)
    started = time.monotonic()
    reads = error_of(reader, started)
    done, line = acknowledged(writer)
    writes = time.monotonic() - started
    print(f"write after {writes:.2f} s: {line}")
    assert line.startswith("err "), line
    idle.start("get", b"key")
    error_of(idle, time.monotonic())
    assert reads < LIFELINE_S + MARGIN_S and writes < LIFELINE_S + MARGIN_S
    time.sleep(max(0, started + 4.2 - time.monotonic()))
    for client in (reader, writer, idle):
        wait_until("it comes back", lambda it=client: client_works(it), 8, step=0.1)
    assert reader.get(b"key") == bytes(50000)
    found = writer.ask("check", "s", 0, done, 1000) if done else {"found": "0"}
    assert int(found["found"]) == done, f"acknowledged {done}, found {found}"
    assert reader.stats()["reconnects"] >= 1
    assert idle.get(b"key") == bytes(50000)
    settled(server, world, 3)


# The link


@pytest.mark.parametrize("side", ["client", "server"])
def test_link_down_and_up(world, server, there, side):
    def link(state):
        (here if side == "client" else there.run)("ip", "link", "set", NETDEV, state)

    client = world.client(server, 2000)
    bystander = Bystander(there, server, 5) if side == "client" else None
    client.start("stream", "s", 0, 1000000, 3000)
    time.sleep(0.7)
    link("down")
    started = time.monotonic()
    try:
        done, line = acknowledged(client)
        took = time.monotonic() - started
        print(f"error after {took:.2f} s, {done} acknowledged: {line}")
        assert line.startswith("err "), line
        assert took < LIFELINE_S + MARGIN_S
        time.sleep(max(0, started + 3 - time.monotonic()))
    finally:
        link("up")
    recovered = time.monotonic()
    wait_until("it comes back", lambda: client_works(client), 8, step=0.1)
    print(f"back {time.monotonic() - recovered:.2f} s after the link")
    found = client.ask("check", "s", 0, done, 3000)
    assert int(found["found"]) == done, found
    if bystander:
        bystander.undisturbed()
    else:
        assert "the port has gone down" in server.stderr()
        assert "the port has become ACTIVE" in server.stderr()


def client_works(client):
    try:
        client.ask("ping")
        return True
    except CallFailed:
        return False


def test_short_break_of_the_link_is_ridden_over(world, server):
    """Shorter than the life line's time-out: retries and new queue pairs, and no error."""
    client = world.client(server, 8000)
    client.start("fill", "s", 0, 300, 3000)
    time.sleep(0.3)
    here("ip", "link", "set", NETDEV, "down")
    time.sleep(0.8)
    here("ip", "link", "set", NETDEV, "up")
    assert client.answer(20)["done"] == "300"
    assert int(client.ask("check", "s", 0, 300, 3000)["found"]) == 300


def test_address_removed_and_added_again(world, server, there):
    """The GID table changes: connected clients go on or come back, new ones get in."""
    client = world.client(server, 8000)
    client.put(b"key", b"value")
    address = f"{os.environ['RXE_HOST_PEER']}/24"
    there.run("ip", "addr", "del", address, "dev", NETDEV)
    time.sleep(0.3)
    there.run("ip", "addr", "add", address, "dev", NETDEV)
    assert client.get(b"key") == b"value"
    assert world.client(server).get(b"key") == b"value"
    assert "the GID table has changed" in server.stderr()
    settled(server, world, 2)


# Losses


def test_losses_are_repaired_by_the_transport(world, server):
    client = world.client(server, 20000)
    here("modprobe", "sch_netem")
    here("tc", "qdisc", "add", "dev", NETDEV, "root", "netem", "loss", "1%")
    try:
        assert client.ask("fill", "s", 0, 150, 2000, seconds=60)["done"] == "150"
        assert client.ask("fill", "l", 0, 8, 60000, seconds=60)["done"] == "8"
        assert int(client.ask("check", "s", 0, 150, 2000, seconds=60)["found"]) == 150
        assert int(client.ask("check", "l", 0, 8, 60000, seconds=60)["found"]) == 8
        shown = subprocess.run(["tc", "-s", "qdisc", "show", "dev", NETDEV], capture_output=True,
                               text=True, check=True, timeout=20).stdout
    finally:
        here("tc", "qdisc", "del", "dev", NETDEV, "root")
    dropped = int(re.search(r"dropped (\d+)", shown).group(1))
    print(f"{dropped} packets were lost; {client.stats()}")
    assert dropped > 0, shown
