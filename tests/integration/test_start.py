# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-server while it takes memory: it serves, the log says how far it is, and it can be stopped."""
import os
import pathlib
import re
import signal
import time

import pytest

from kvt_client import assert_error
from kvt_process import AGENT, DEVICE, HOST, SANITIZED, Process, program, wait_until
from kvt_server import refused

MIB = 1 << 20
EXTENTS = ("memory_data_bytes", "memory_index_bytes", "memory_directory_bytes")


def taken(stats):
    return sum(stats[name] for name in EXTENTS)


def test_memory_is_taken_while_it_serves(world):
    server = world.server("--populate", "yes", memory="256M")
    cli = world.cli(server)
    assert cli.put("key", b"value") is not None
    wait_until("three quarters are taken", lambda: taken(cli.stats()) >= 192 * MIB, 30)
    assert taken(cli.stats()) <= 200 * MIB, "the rest is for the index, or for records"
    assert cli.get("key") == b"value"
    wait_until("it is told",
               lambda: re.search(r"registered 0\.2 of 0\.2 GiB, in \d+\.\d s", server.stderr()), 5)


def test_memory_is_not_taken_where_nobody_asks(world):
    server = world.server(memory="512M")
    cli = world.cli(server)
    cli.put("key", b"value")
    assert taken(cli.stats()) <= 64 * MIB
    assert "registered" not in server.stderr()


@pytest.mark.no_device
def test_populate_is_yes_or_no(tmp_path):
    assert_error(refused(tmp_path, "--populate", "maybe"), 2, "--populate", "'maybe'", "yes, no",
                 who="kv-server")


def has_begun(pid):
    """The first extent of the index is there, so memory is being taken."""
    try:
        links = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:
        return False
    return any("gracekv-index" in link for link in links)


@pytest.mark.soft_device  # a guest has not as much memory
@pytest.mark.skipif(bool(AGENT), reason="looks into /proc of the server's machine")
@pytest.mark.skipif(SANITIZED, reason="an index of a GiB takes minutes there")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_before_it_can_serve(tmp_path, how):
    """A large index is made before the ready line; whoever stops that does not wait for it."""
    for _ in range(5):  # on a busy machine it may be through before it is told
        server = Process([program("kv-server"), "--listen", f"{HOST}:0", "--device", DEVICE,
                          "--memory", "2G", "--index-slots", "80000000"], tmp_path / "stderr")
        try:
            wait_until("it takes memory", lambda: has_begun(server.pid), 10, step=0.002)
            server.signal(how)
            told = time.monotonic()
            assert server.wait(10) == 0, server.stderr()
            took = time.monotonic() - told
            ready = server.read_line(1)
        finally:
            server.close()
        if ready is None:
            break
    assert ready is None
    assert server.stderr().splitlines()[-1].endswith("stopped before it could serve")
    assert took < 5


@pytest.mark.soft_device  # a guest has not as much memory
@pytest.mark.skipif(SANITIZED, reason="memory takes minutes there")
def test_told_to_stop_while_it_takes_memory(world):
    for _ in range(5):  # on a busy machine it may be through before it is told
        server = world.server("--populate", "yes", memory="2G")
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 5
        if "of 1.5 GiB, in" not in server.stderr():
            break
    assert "of 1.5 GiB, in" not in server.stderr(), "it did not go on to the end"
    assert "warn memory" not in server.stderr()
