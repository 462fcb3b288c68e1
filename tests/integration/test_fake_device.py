# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Whole processes on devices that a test makes up (tests/lib/fake_device.h)."""
import subprocess

import pytest

from kvt_process import AGENT, SLOW, environment, program
from kvt_server import Server

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
