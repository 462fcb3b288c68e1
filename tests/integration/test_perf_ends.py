# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-bw and kv-lat that are ended from outside: the store is left as it was, whenever."""
import os
import signal
import subprocess

import pytest

from kvt_client import Cli
from kvt_process import (CONNECT, DEVICE, SLOW, Process, environment, program, sanitizer_report,
                         wait_until)

BOTH = pytest.mark.parametrize("tool", ["kv-bw", "kv-lat"])
HOW = ["-R"] if CONNECT == "cm" else []

pytestmark = pytest.mark.soft_device  # signals and pipes: the device makes no difference


def records(server):
    return Cli(server.address).stats()["records"]


def command(tool, server, *words):
    return [program(tool), "-d", DEVICE, *HOW, *words, server.address]


@BOTH
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_signals_end_it_in_order(shared, tool, number):
    before = records(shared)
    it = Process(command(tool, shared, "-D", "60", "--keys", "20"),
                 shared.stderr_path.parent / "stderr")
    try:
        wait_until("it measures", lambda: records(shared) == before + 20, 20)
        it.signal(number)
        assert it.wait(20) == 3
        assert it.stderr().startswith(f"{tool}: interrupted: ")
    finally:
        it.close()
    assert records(shared) == before


@BOTH
def test_who_reads_has_gone(shared, tool):
    """As behind a pipe to head -1: it says so, does no more sizes, and deletes its records."""
    before = records(shared)
    end, pipe = os.pipe()
    os.close(end)
    with os.fdopen(pipe, "wb") as out:
        done = subprocess.run(command(tool, shared, "-a", "-D", "3", "--keys", "20"), stdout=out,
                              stderr=subprocess.PIPE, text=True, env=environment(),
                              timeout=30 * SLOW, check=False)
    assert not sanitizer_report(done.stderr)
    assert done.returncode == 3 and done.stderr.startswith(f"{tool}: writing to stdout: ")
    assert done.stderr.count("\n") == 1 and records(shared) == before


@BOTH
def test_interrupted_before_its_threads_have_begun(shared, tool):
    """There are many, on few cores; the signal comes at another moment each time."""
    for i in range(12):
        it = Process(command(tool, shared, "-q", "40", "--threads", "40", "--keys", "5"),
                     shared.stderr_path.parent / "stderr")
        try:
            wait_until("it connects", lambda: Cli(shared.address).stats()["queue_pairs"] > 30 + i,
                       20)
            it.signal(signal.SIGTERM)
            assert it.wait(20) in (0, 3)
        finally:
            it.close()
