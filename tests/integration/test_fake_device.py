# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Whole processes on devices that a test makes up (tests/lib/fake_device.h)."""
import json
import re
import signal
import subprocess
import time

import pytest

from kvt_client import Client
from kvt_process import AGENT, SLOW, environment, program, wait_until
from kvt_server import Server
from kvt_wire import QP_LIVE, REFUSE, Raw, frame

LEASE_MS = 400

pytestmark = [pytest.mark.no_device,
              pytest.mark.skipif(bool(AGENT), reason="both sides read one file of devices")]


class Fabric:
    """The file that says what the devices are like, for all processes of a test."""

    def __init__(self, folder, *lines):
        self.path = folder / "devices"
        self.path.write_text("")
        self.env = {"FAKE_DEVICES_FILE": str(self.path)}
        for line in lines:
            self.say(line)

    def say(self, line):
        with self.path.open("a", encoding="utf-8") as f:
            f.write(line + "\n")

    def cli(self, server, *args):
        to = ["-s", server.address] if server else []
        return subprocess.run([program("kv-cli-fake"), *to, *args],
                              env=environment(self.env), capture_output=True, text=True,
                              timeout=30 * SLOW, check=False)


def test_each_side_has_its_partition_and_says_so(tmp_path):
    fabric = Fabric(tmp_path, "device mlx5_0", "port mlx5_0 1 link=infiniband lid=5 pkeys=4",
                    "pkey mlx5_0 1 1 0x8001", "pkey mlx5_0 1 2 0x0001")
    server = Server(tmp_path, "--pkey-index", "1", "--service-level", "3", listen="127.0.0.1:0",
                    device="mlx5_0", memory="64M", connect="tcp", env=fabric.env,
                    name="kv-server-fake")
    mine = ["--pkey-index", "2", "--service-level", "4"]
    assert fabric.cli(server, *mine, "put", "k", "value").returncode == 0
    got = fabric.cli(server, *mine, "doctor")
    assert "P_Key 0x0001 (index 2), service level 4" in " ".join(got.stdout.split()), got.stdout
    got = fabric.cli(server, "--pkey-index", "3", "get", "k")
    assert got.returncode == 3 and "P_Key index 3 of port 1 of mlx5_0 is empty" in got.stderr
    got = fabric.cli(None, "-d", "mlx5_0", *mine, "doctor")
    assert "P_Keys  0: 0xffff, 1: 0x8001, 2: 0x0001 (limited)" in got.stdout, got.stdout
    server.stop()
    assert "P_Key 0x8001 (index 1), service level 3" in server.stderr()


def test_a_server_whose_lid_changes_is_found(tmp_path):
    """Each offer carries the LID of now: that of the start leads nowhere."""
    fabric = Fabric(tmp_path, "device mlx5_0", "port mlx5_0 1 link=infiniband lid=5")
    server = Server(tmp_path, listen="127.0.0.1:0", device="mlx5_0", memory="64M", connect="tcp",
                    env=fabric.env, name="kv-server-fake")
    assert fabric.cli(server, "put", "k", "value").returncode == 0
    fabric.say("port mlx5_0 1 lid=9")
    got = fabric.cli(server, "get", "k")
    assert (got.returncode, got.stdout) == (0, "value"), got.stderr
    server.stop()
    assert "port 1 has LID 9 now, and had 5" in server.stderr()


def two_rails(folder, second):
    """Two ports of one NIC, each a network of its own; rail1 has the address of the exchange."""
    lines = ["netdev eth0 30 192.168.1.5"]
    for i, address in enumerate(("10.0.0.1", second)):
        lines += [f"netdev rail{i} {40 + i} {address}", f"device mlx5_{i}",
                  f"gid mlx5_{i} 1 0 v1 {address} rail{i}",
                  f"gid mlx5_{i} 1 1 v2 {address} rail{i}"]
    return Fabric(folder, *lines)


def test_server_and_client_meet_on_the_rail_of_their_addresses(tmp_path):
    """The first device is that of another network: nobody would be found there."""
    fabric = two_rails(tmp_path, "127.0.0.1")
    server = Server(tmp_path, listen="127.0.0.1:0", device="auto", memory="64M", connect="tcp",
                    env=fabric.env, name="kv-server-fake")
    assert server.ready["device"] == "mlx5_1"
    assert fabric.cli(server, "put", "k", "value").returncode == 0
    steps = json.loads(fabric.cli(server, "--json", "doctor", server.address).stdout)["steps"]
    words = next(s["words"] for s in steps if s["step"] == "device")
    assert words == "device mlx5_1 port 1: its network device rail1 holds 127.0.0.1"
    server.stop()
    assert f"{words}; GID index 1 " in server.stderr()


def test_a_server_on_all_addresses_says_that_it_does_not_know_the_rail(tmp_path):
    fabric = two_rails(tmp_path, "10.0.1.1")
    server = Server(tmp_path, listen="0.0.0.0:0", device="auto", memory="64M", connect="tcp",
                    env=fabric.env, name="kv-server-fake")
    assert server.ready["device"] == "mlx5_0"
    server.stop()
    assert re.search(r"warn.*the first of 2 ACTIVE ports, as 0.0.0.0 names no network device",
                     server.stderr(), re.I)


@pytest.mark.parametrize("address,device,note", [
    ("10.0.0.1", "mlx5_0", None),
    ("10.0.1.1", "mlx5_1", None),
    ("192.168.1.5", "mlx5_0", "its network device eth0 belongs to no ACTIVE port"),
    ("10.9.9.9", "mlx5_0", "no network device of this machine holds it"),
    ("0.0.0.0", "mlx5_0", "it names no network device"),
    (None, "mlx5_0", None),
])
def test_doctor_says_which_rail_and_why(tmp_path, address, device, note):
    fabric = two_rails(tmp_path, "10.0.1.1")
    words = ["--address", address] if address else []
    ran = subprocess.run([program("kv-cli-fake"), "--json", "doctor", *words],
                         env=environment(fabric.env), capture_output=True, text=True,
                         timeout=30 * SLOW, check=False)
    d = json.loads(ran.stdout)
    assert (d["device"], d["address"]) == (device, address)
    assert d["choice"].startswith(f"device {device} port 1: ")
    notes = [f["words"] for f in d["machine"]["findings"] if f["about"].startswith("address ")]
    assert len(notes) == (note is not None) and all(note in n for n in notes), notes
    taken = {x["name"]: [g["index"] for g in x["ports"][0]["gids"] if g["taken"]]
             for x in d["devices"]}
    assert taken["mlx5_0"] == taken["mlx5_1"] == [1]


def test_a_slow_device_keeps_no_life_line_waiting(tmp_path):
    """Each queue pair takes a second to RTR: a stopped client hears of it after its lease, a wrong
    HELLO is refused at once, and a session that beats or waits for a queue pair loses nothing.
    """
    fabric = Fabric(tmp_path, "device mlx5_0")
    server = Server(tmp_path, "--lease", str(LEASE_MS), listen="127.0.0.1:0", device="mlx5_0",
                    memory="64M", connect="tcp", env=fabric.env, name="kv-server-fake")
    stopped, honest = (Client(tmp_path, server.address, device="soft0") for _ in range(2))
    for client in (stopped, honest):
        client.ask("fill", "k", 0, 10, 100)
    fabric.say("delay to_err 1000")
    fabric.say("delay to_rtr 1000000")
    slow = [subprocess.Popen([program("kv-cli"), "-s", server.address, "-d", "soft0", "put",
                              f"slow{i}", "value"], env=environment(), stdout=subprocess.DEVNULL)
            for i in range(2)]
    wait_until("both have come", lambda: server.stderr().count(" begins: ") == 4, 10)
    stopped.signal(signal.SIGSTOP)
    from_s = time.monotonic()
    wait_until("it is fenced", lambda: "fenced: it announced nothing" in server.stderr(), 30 * SLOW)
    fenced_s = time.monotonic() - from_s
    with Raw(server) as raw:
        from_s = time.monotonic()
        assert raw.send(frame(QP_LIVE, bytes(8)))
        assert raw.receive_frame().type == REFUSE
        refused_s = time.monotonic() - from_s
    assert any(process.poll() is None for process in slow), "the device was busy all the time"
    assert [process.wait(60 * SLOW) for process in slow] == [0] * 2
    assert honest.ask("check", "k", 0, 10, 100)["found"] == "10"
    assert server.stderr().count("fenced:") == 1
    stopped.signal(signal.SIGCONT)
    assert stopped.ask("check", "k", 0, 10, 100)["found"] == "10"
    print(f"fenced after {fenced_s:.2f} s, refused after {refused_s:.3f} s")
    assert fenced_s < 1.5 * SLOW and refused_s < 0.5 * SLOW
    stopped.quit()
    honest.quit()
    server.stop()


def test_gids_that_move_are_found(tmp_path):
    """An address returns at another place of the table, and another one comes: each offer reads."""
    fabric = two_rails(tmp_path, "127.0.0.1")
    server = Server(tmp_path, "--log-level", "debug", listen="127.0.0.1:0", device="auto",
                    memory="64M", connect="tcp", env=fabric.env, name="kv-server-fake")
    assert fabric.cli(server, "put", "k", "value").returncode == 0
    for before, i, address in ((1, 5, "127.0.0.1"), (5, 7, "10.0.1.7")):
        fabric.say(f"gid mlx5_1 1 {i} v2 {address} rail1")
        fabric.say(f"gid mlx5_1 1 {before} none")  # it is never without one

        def found():
            got = fabric.cli(server, "get", "k")
            if "RTR on mlx5_1 failed: Invalid argument" in got.stderr:
                return False  # the client has read the file, and the server not yet
            assert (got.returncode, got.stdout) == (0, "value"), got.stderr
            where = f"GID index {i} ::ffff:{address}: "
            return f"mlx5_1 port 1, {where}" in server.stderr()
        wait_until(f"it is found at {i}", found, 10 * SLOW)  # the server reads the file at times
    server.stop()
