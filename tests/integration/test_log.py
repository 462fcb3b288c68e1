# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A log that nobody reads stops neither requests nor leases, and says afterwards what it lost."""
import os
import threading

import pytest

from kvt_process import AGENT, SLOW

pytestmark = pytest.mark.skipif(bool(AGENT), reason="its pipe is of this machine")

LINES_MAX = 100000  # of 100 bytes: more than a pipe holds
SESSIONS = 10


@pytest.fixture
def unread(tmp_path):
    """A full FIFO, for the log of a server, its reader, and what is read in the end."""
    path, text = tmp_path / "unread", []
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        for _ in range(LINES_MAX):
            os.write(writer, b"x" * 99 + b"\n")
    except BlockingIOError:
        pass
    yield path, reader, text
    os.close(writer)
    os.close(reader)
    path.unlink()
    path.write_bytes(b"".join(text))  # for those who look at the log afterwards


def read_all(reader, text):
    """Until the server's last word."""
    os.set_blocking(reader, True)
    while b"stopped" not in b"".join(text[-2:]):
        text.append(os.read(reader, 1 << 16))


def test_a_log_that_nobody_reads(world, unread):
    path, reader, text = unread
    server = world.server("--log-level", "debug", log=path)
    stays = world.client(server)
    for n in range(SESSIONS):  # they come and go, and each is in the log
        client = world.client(server)
        client.put(b"key", b"%d" % n)
        client.quit()
        assert stays.get(b"key") == b"%d" % n
    assert world.cli(server).stats()["sessions_fenced_silent"] == 0
    thread = threading.Thread(target=read_all, args=(reader, text), daemon=True)
    thread.start()
    stays.put(b"key", b"the end")
    server.stop()
    thread.join(10 * SLOW)
    assert not thread.is_alive(), b"".join(text)
    log = b"".join(text).decode()
    assert "lines of the log were dropped" in log
