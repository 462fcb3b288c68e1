# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Several servers that are one store: whichever of them dies, what was acknowledged is there."""
import json
import os
import pathlib
import re
import signal
import time

import pytest

from kvt_client import Cli, assert_error, run
from kvt_group import NODES, Group, free_ports
from kvt_process import BUILD, program, wait_until
from kvt_server import refused

pytestmark = pytest.mark.soft_device

RECORDS = 500
ROOT = pathlib.Path(__file__).parents[2]


def records(first, count=RECORDS):
    return {f"key {n}": f"value {n} " * (n % 50) for n in range(first, first + count)}


def load(cli, what):
    text = "".join(f"{key}\t{value}\n" for key, value in what.items())
    cli("load", "--format", "tsv", "-", stdin=text.encode())


def dump(cli):
    out = cli.good("dump", "--format", "tsv").decode()
    return dict(line.split("\t") for line in out.splitlines())


def test_what_was_written_is_there_whoever_dies(group):
    """Before the others came, to all of them, and after each fail-over; also deleted."""
    primary = group.primary()
    assert primary == "n1"
    known = records(0)
    load(group.cli(primary), known)
    for first in (RECORDS, 2 * RECORDS):
        group.kill(primary)
        left = [node for node in NODES if node != primary]
        before, primary = primary, group.await_primary_but(primary)
        cli = group.cli(primary)
        assert dump(cli) == known
        gone = next(iter(known))
        cli.good("del", gone)
        del known[gone]
        more = records(first)
        load(cli, more)
        known.update(more)
        group.await_in_sync(*left)
        group.start(before)
        group.await_in_sync(*NODES)
    assert dump(group.cli(primary)) == known


def test_versions_grow_over_a_fail_over(group):
    first = group.cli("n1")
    for _ in range(10):
        first.good("incr", "count")
    version = json.loads(first.good("--json", "get", "--meta", "count"))["version"]
    group.kill("n1")
    cli = group.cli(group.await_primary_but("n1"))
    assert cli.get("count") == b"10"
    assert cli.good("incr", "count").strip() == b"11"
    assert json.loads(cli.good("--json", "get", "--meta", "count"))["version"] > version


def test_a_primary_that_stood_still_is_a_backup_when_it_goes_on(group):
    first = group.servers["n1"]
    load(group.cli("n1"), records(0))
    first.stop_threads()
    now = group.await_primary_but("n1")
    group.cli(now).put("while", b"it stood still")
    first.signal(signal.SIGCONT)
    group.await_in_sync(*NODES)
    assert "starts again" in first.stderr()
    assert group.cli("n1").get("while") == b"it stood still"  # it tells where the primary is
    assert "refused a client: this server is a backup: the primary is" in first.stderr()
    assert group.cli(now).get("while") == b"it stood still"
    group.kill(now)
    now = group.await_primary_but(now)
    assert group.cli(now).get("while") == b"it stood still"


def test_a_client_follows_its_group(group, client):
    """Two primaries die, and its calls say nothing of it."""
    client = client()
    for turn in range(150):
        if turn in (50, 100):
            group.kill(group.primary())
        client.put(b"key", str(turn).encode())
        assert client.get(b"key") == str(turn).encode()
    assert client.stats()["reconnects"] == 2
    assert Cli(group.address).get("key") == b"149"


def test_a_client_that_knows_one_server_is_told_of_the_others(group, world):
    client = world.client(group.servers["n3"])
    client.put(b"key", b"1")
    for turn, node in enumerate(("n3", group.primary())):
        group.kill(node)
        client.put(b"key", b"%d" % turn)
        assert client.get(b"key") == b"%d" % turn


def test_a_primary_that_stands_still_is_not_read(group, client):
    """Its memory could be READ on, and has what is old by now."""
    client, other = client(), client()
    other.put(b"known", b"")  # what a client writes first, the next primary knows by a write before
    client.put(b"key", b"old")
    assert client.get(b"key") == other.get(b"key") == b"old"
    group.servers["n1"].stop_threads()
    other.put(b"key", b"new")
    assert client.get(b"key") == b"new"
    group.servers["n1"].signal(signal.SIGCONT)
    group.await_in_sync(*NODES)
    assert client.get(b"key") == b"new"


def test_without_etcd_reads_and_writes_go_on(group):
    cli = group.cli("n1")
    group.etcd.stop_threads()
    for n in range(20):
        cli.put(f"without {n}", b"etcd")
        assert cli.get(f"without {n}") == b"etcd"
    group.etcd.signal(signal.SIGCONT)
    group.kill("n1")
    assert group.cli(group.await_primary_but("n1")).get("without 19") == b"etcd"


@pytest.mark.parametrize("args,word", [
    (("--cluster", "a/b"), "letters, digits"),
    (("--cluster", "test", "--etcd", "nonsense"), "nonsense"),
    (("--etcd", "http://127.0.0.1:1"), "--cluster NAME too"),
    (("--cluster", "test", "--advertise", "host"), "HOST:PORT"),
    (("--cluster", "test", "--group-lease", "1ms"), "10"),
    (("--cluster", "test", "--group-min", "9"), "1 to 8"),
    (("--cluster", "test", "--group-drift", "1%"), "--group-drift"),
    (("--group-drift", "20000"), "--cluster NAME too"),
    (("--group-min", "2"), "--cluster NAME too"),
    (("--cluster", "test", "--listen", "0.0.0.0:0"), "--advertise HOST:PORT"),
])
def test_what_cannot_be_a_member_is_told_why(world, args, word):
    failure = refused(world.folder, *args)
    assert failure.rc in (2, 3)
    assert word in failure.err


def test_a_server_with_less_memory_is_refused(group):
    small = group.start("n4", memory="128M")
    small.expected_dead = True
    assert small.wait(30) == 3
    assert "--memory 256M" in small.stderr()
    wait_until("n4 is no member", lambda: group.in_sync() == list(NODES), 20)


@pytest.mark.parametrize("durable", [[], ["--durable"]], ids=["memory", "durable"])
def test_three_servers_in_one_command(tmp_path, durable):
    """What deploy/cluster-up starts is a group, and --stop leaves nothing of it."""
    folder = tmp_path / "group"
    up = [str(ROOT / "deploy/cluster-up"), "--dir", str(folder), *durable]
    started = run([*up, "--build", str(BUILD), "--device", "soft0", "--memory", "128M", "--port",
                   str(free_ports(5))], seconds=90)
    try:
        said = started.out.decode()
        assert started.rc == 0, started.err
        assert len(re.findall(r" backup +yes", said)) == 2 and "3 of 3 in sync" in said
        cli = Cli(re.search(r"GRACEKV_SERVER=(\S+)", said)[1])
        cli.put("hello", b"world")
        os.kill(int(re.search(r"kill -9 (\d+)", said)[1]), signal.SIGKILL)
        assert cli.get("hello") == b"world"  # it waits for the next one
    finally:
        stopped = run([*up, "--stop"], seconds=60)
    assert stopped.rc == 0 and not folder.exists()
    again = run([*up, "--stop"])
    assert again.rc == 3 and "nothing was started" in again.err


def test_with_too_few_in_sync_writes_are_refused(tmp_path):
    """And only then, and only writes: what was there is read."""
    group = Group(tmp_path, ["--group-min", "2"])
    try:
        group.start("n1")
        group.await_in_sync("n1")
        cli = group.cli("n1")
        wait_until("n1 serves", lambda: cli("ping").rc == 0, 20)
        assert_error(cli("put", "key", "value"), 3, "fewer servers", "kv-cluster status")
        group.start("n2")
        group.await_in_sync("n1", "n2")
        cli.put("key", b"value")
        cli.good("put", "--ttl", "1s", "short", "life")
        group.kill("n2")
        group.await_in_sync("n1")
        assert_error(cli("del", "key"), 3, "fewer servers", "nothing was changed")
        assert cli.get("key") == b"value"
        wait_until("it has expired", lambda: cli("get", "short").rc == 1, 20)
        group.start("n2")
        group.await_in_sync("n1", "n2")
        cli.good("del", "key")
    finally:
        group.end()


def test_who_is_idle_stays(tmp_path):
    """A device whose WRITEs complete later, as hardware's do: a backup that took the last one is
    not taken for one that does not take it."""
    group = Group(tmp_path)
    slow = {"env": {"SOFTRDMA_FAULT": "delay=2000"}}
    try:
        group.start("n1", **slow)
        group.await_in_sync("n1")
        group.start("n2", **slow)
        group.await_in_sync("n1", "n2")
        group.cli("n1").put("key", b"value")
        term = group.configuration()["term"]
        time.sleep(4 * 0.3)
        assert group.configuration()["term"] == term, group.servers["n1"].stderr()
    finally:
        group.end()


def test_the_longest_lease(tmp_path):
    """A backup that learns, a read and a switch wait for no part of it."""
    group = Group(tmp_path, lease="60s")
    try:
        group.start("n1")
        group.await_in_sync("n1")
        group.start("n2")
        group.await_in_sync("n1", "n2")
        cli = group.cli("n1")
        cli.put("key", b"value")
        assert cli.get("key") == b"value"
        switched = run([program("kv-cluster"), "-s", group.address, "switch", "n2"])
        assert switched.rc == 0, switched.err
        assert group.cli("n2").get("key") == b"value"
        group.await_in_sync("n1", "n2")
    finally:
        group.end()
