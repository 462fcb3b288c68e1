# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Clients that break the rules (kv-rogue-client), and what must not be disturbed by them."""
import itertools
import re
import subprocess
import threading
import time

import pytest

from kvt_client import CallFailed, Client
from kvt_process import Process, program, wait_until

PING, GET, PUT, DEL, STATS, INCR, TOUCH, MEASURE, APPEND = range(1, 10)
INLINE, RETRY, KEEP = 1, 2, 4
KEEPER = 64  # the handle of the queue pair that may write the epoch slot
# For servers of rogues, which announce nothing unless they are told to.
PATIENT = ("--lease", "60000")
number = itertools.count(1)


class Rogue(Client):
    """kv-rogue-client: the words after a handle's number are fields of the request."""

    def __init__(self, folder, server, client_id=0):
        Process.__init__(self, [program("kv-rogue-client"), server.address,
                                server.ready["device"], str(client_id)],
                         folder / f"kv-rogue-client.{next(number)}.stderr",
                         stdin=subprocess.PIPE)
        self.answer(15)

    def answer(self, seconds=20):
        got = super().answer(seconds)
        return {k: int(v) for k, v in got.items()}

    def send(self, handle=0, **fields):
        return self.ask("send", handle, *(f"{k}={v}" for k, v in fields.items()))

    def reply(self, handle=0, ms=5000):
        return self.ask("reply", handle, ms)

    def call(self, handle=0, **fields):
        self.send(handle, **fields)
        return self.reply(handle)

    def put(self, key, size, handle=0, **fields):
        flags = fields.pop("flags", 0) | (INLINE if size <= 1000 else 0)
        return self.call(handle, op=PUT, key=key, value_len=size, flags=flags, **fields)["status"]

    def ended(self, ms=5000):
        """The server ends the session; what it said."""
        with pytest.raises(CallFailed) as end:
            self.ask("line", ms)
        return end.value.text


class Bystander:
    """A good client that writes and reads all the time; no call of it may fail."""

    def __init__(self, client):
        self.client = client
        self.stop = threading.Event()
        self.failure = None
        self.rounds = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop.is_set():
                self.client.ask("fill", "bystander", 0, 10, 100)
                got = self.client.ask("check", "bystander", 0, 10, 100)
                assert got["found"] == "10", got
                self.rounds += 1
        except Exception as failure:  # judged in __exit__
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the bystander hangs"
        if self.failure:
            raise self.failure
        assert self.rounds > 0
        assert self.client.stats()["reconnects"] == 0, "its queue pair broke"


def settled(cli):
    def gone():
        s = cli.stats()
        return s["sessions"] == 1 and s["queue_pairs"] == 2 and s["handshakes_pending"] == 0
    wait_until("sessions and queue pairs are gone", gone, 10, step=0.1)
    wait_until("nothing is deferred", lambda: cli.stats()["blocks_deferred"] == 0, 10, step=0.1)
    cli.put("after all", b"it serves")
    assert cli.get("after all") == b"it serves"


def used_blocks(cli):
    return sum(v for k, v in cli.stats().items() if k.startswith("class_") and k.endswith("_used"))


def session_of(server, client):
    """The number of a client's last session, from the server's log."""
    lines = re.findall(rf"session (\d+) begins: \S+, process {client.pid}\b", server.stderr())
    return int(lines[-1])


def pace_of(client, prefix, count):
    """How many records it writes in a second, by writing count."""
    started = time.monotonic()
    client.ask("fill", prefix, 0, count, 100)
    return int(count / (time.monotonic() - started)) + 1
