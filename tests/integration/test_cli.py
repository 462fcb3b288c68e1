# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli on a real server: bytes and sizes, counters, pipes. What each command takes and prints:
tests/unit/kv-cli."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess

import pytest

from kvt_client import assert_error, flat_stats
from kvt_group import Group
from kvt_process import DEVICE, environment

KIB, MIB = 1 << 10, 1 << 20
EAGER = 8 * KIB
ALL_BYTES = bytes(range(256))


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def test_overwrite_takes_the_last_value(cli):
    for size in (0, 1, 100, EAGER, 100 * KIB, 3, 0, 2 * MIB, 10):
        value = noise(size, seed=size + 7)
        cli.put("overwritten", value)
        assert cli.get("overwritten") == value


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 129, 4095, 4096, EAGER - 1, EAGER,
                                  EAGER + 1, 64 * KIB, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1,
                                  MIB - 1, MIB, MIB + 1, 5 * MIB, 16 * MIB - 1, 16 * MIB])
def test_value_sizes(cli, size):
    value = noise(size, seed=size)
    cli.put(f"size {size}", value)
    assert cli.get(f"size {size}") == value
    cli.good("del", f"size {size}")
    assert cli("get", f"size {size}").rc == 1


@pytest.mark.parametrize("key", [b"k", b" ", b"\n", b"\xff\xfe", b"a b\tc", "schlüssel".encode(),
                                 ALL_BYTES[1:], b"k" * 1023, b"k" * 1024], ids=range(9))
def test_keys_are_bytes(cli, key):
    other = key[:-1] + bytes([(key[-1] % 255) + 1])
    cli.put(key, ALL_BYTES + key)
    assert cli.get(key) == ALL_BYTES + key
    assert cli("get", other).rc == 1
    assert cli("exists", key).rc == 0
    cli.good("del", key)
    assert cli("get", key).rc == 1


STATS_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "STATS.md"


def explained(page):
    """(group, counter) of each row of the page."""
    group, found = None, set()
    for line in page.splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif row := re.match(r"\| `(\w+)` \| ", line):
            found.add((group, row[1]))
    return found


def answered(doc):
    """The same of what a server answered; N is any number."""
    return {(group, re.sub(r"_\d+_", "_N_", name)) for group, part in doc.items()
            for name in flat_stats({group: part})}


def test_every_counter_is_explained_in_its_group(cli, world):
    cli.put("counted", b"x")
    page = STATS_PAGE.read_text()
    there = answered(json.loads(cli.good("stats", "--json")))
    assert len(there) > 70
    durable = world.cli(world.server("--data-dir", str(world.folder / "data"), memory="64M"))
    durable.put("counted", b"x")
    durable.good("save")
    more = answered(json.loads(durable.good("stats", "--json")))
    assert {group for group, _ in more - there} == {"process", "log", "recovery", "snapshot"}
    there |= more
    if DEVICE == "soft0":
        group = Group(world.folder)
        group.start("n1", memory="64M")
        group.await_primary_but(None)
        more = answered(json.loads(group.cli("n1").good("stats", "--json")))
        group.end()
        assert {name for _, name in more - there if not name.startswith("group_")} == set()
        there |= more
    else:
        page = re.sub(r"\| `group_.*\n", "", page)
    there |= {("process", "lines_left_out"), ("memory", "memory_numa_node")}  # at times only
    assert explained(page) == there
    for _, name in there:
        lacking = re.sub(rf"\| `{name}` .*\n", "", page)
        assert explained(lacking) != there, f"no {name} is noticed"


def test_value_above_the_limit(cli):
    assert_error(cli("put", "too long", "-", stdin=bytes(16 * MIB + 1)), (2, 3), "value",
                 "16777216|16 MiB")
    assert cli("exists", "too long").rc == 1


@pytest.mark.parametrize("command", [["get", "for a pipe"], ["--json", "get", "for a pipe"],
                                     ["mget"] + ["for a pipe"] * 3, ["dump"],
                                     ["dump", "--format", "jsonl"], ["help"]], ids=" ".join)
def test_a_reader_that_has_enough_ends_it_quietly_as_it_ends_cat(cli, command):
    """By SIGPIPE; or, where the caller ignores that, with a sentence, as cat has one too."""
    cli.put("for a pipe", b"x" * MIB)
    for ignored, expected in ((False, -signal.SIGPIPE), (True, 3)):
        reader, writer = os.pipe()
        os.close(reader)
        kv_cli = subprocess.Popen(
            [*cli.base, *command], stdout=writer, stderr=subprocess.PIPE, env=environment(),
            restore_signals=False,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE,
                                             signal.SIG_IGN if ignored else signal.SIG_DFL))
        os.close(writer)
        err = kv_cli.communicate(timeout=20)[1].decode()
        assert kv_cli.returncode == expected, err
        assert "Broken pipe" in err if ignored else err == "", err


def test_a_script_ends_where_its_reader_has_enough(cli):
    cli.put("for a pipe", b"x" * MIB)
    reader, writer = os.pipe()
    os.close(reader)
    kv_cli = subprocess.run(cli.base, input=b"get 'for a pipe'\nput later 1\n", stdout=writer,
                            stderr=subprocess.PIPE, env=environment(), timeout=20, check=False)
    os.close(writer)
    assert (kv_cli.returncode, kv_cli.stderr) == (-signal.SIGPIPE, b"")
    assert cli("exists", "later").rc == 1
