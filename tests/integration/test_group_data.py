# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A group whose members have data directories: it survives the death of all of them."""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from kvt_client import run
from kvt_group import NODES, PATIENCE_S, Etcd, Group
from kvt_process import Process, program, wait_until
from kvt_server import Server, refused
from test_group import RECORDS, dump, load, records

pytestmark = pytest.mark.soft_device

# So long that a machine which is busy makes nobody take over while a test kills all: that waits for
# a person (docs/internals/replication.md).
LEASE = "2s"


@pytest.fixture
def durable(tmp_path):
    it = Group(tmp_path, data=True, lease=LEASE)
    for node in NODES:
        it.start(node)
        it.await_in_sync(*it.servers)
    yield it
    it.end()


def serves(group, node):
    wait_until(f"{node} serves", lambda: group.cli(node)("ping").rc == 0, PATIENCE_S, step=0.05)
    return group.cli(node)


def kill_all(group):
    """Not in the midst of a take-over: docs/internals/replication.md. The primary."""
    primary = group.primary()
    while serves(group, primary) and group.primary() != primary:
        primary = group.primary()
    for node in NODES:
        group.kill(node)
    return primary


def force(server):
    said = run([program("kv-cluster"), "-s", server.address, "force", server.node, "--confirm",
                "1", "--stopped"])
    assert said.rc == 0, said.err


def is_aside(group, node):
    return (group.dir(node) / "aside/meta").exists()


def check_vouches(group, node):
    """Its directory says what kv-server believes of it."""
    said = run([program("kv-inspect"), "--json", "log", group.dir(node)])
    assert said.rc == 0, said.err
    doc = json.loads(said.out)
    now = group.configuration()
    assert int(now["primary"], 16) in [int(life, 16) for life in doc["whole_of"]]
    assert doc["whole_until"] == "for good" and 0 < doc["term"] <= now["term"]
    text = run([program("kv-inspect"), "log", group.dir(node)]).out.decode()
    assert re.search(rf"^ *whole of +.*{doc['whole_of'][0]}", text, re.M)


@contextlib.contextmanager
def hanging_disk(server):
    """What the log's thread asks of it ends when this does."""
    thread = next(comm.parent.name for comm in pathlib.Path(f"/proc/{server.pid}/task").glob(
        "*/comm") if comm.read_text().strip() == "gkv-log")
    calls = "pwrite64,pwritev2,fdatasync,io_uring_enter"
    with subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-p", thread, "-e",
                           f"inject={calls}:delay_enter=600000000"]) as strace:
        status = pathlib.Path(f"/proc/{server.pid}/task/{thread}/status")
        try:
            wait_until("strace holds the log's thread",
                       lambda: f"TracerPid:\t{strace.pid}\n" in status.read_text(), PATIENCE_S)
            yield
        finally:
            strace.kill()


def test_all_die_at_once(durable):
    """Again and again: the last primary comes back with all that was acknowledged."""
    known = records(0)
    cli = serves(durable, durable.primary())
    load(cli, known)
    for turn in range(1, 4):
        version = json.loads(cli.good("--json", "get", "--meta", "key 1"))["version"]
        primary = kill_all(durable)
        check_vouches(durable, primary)
        for node in NODES:
            durable.start(node)
        durable.await_in_sync(*NODES)
        cli = serves(durable, primary)
        assert dump(cli) == known
        cli.good("del", f"key {turn + 10}")
        del known[f"key {turn + 10}"]
        more = records(turn * RECORDS) | {"key 1": str(turn)}
        load(cli, more)
        known.update(more)
        assert json.loads(cli.good("--json", "get", "--meta", "key 1"))["version"] > version
    assert dump(cli) == known


def test_all_die_after_a_fail_over(durable):
    """The one that took over has all, from the walk over the first one, and from its log."""
    known = records(0)
    load(durable.cli("n1"), known)
    durable.kill("n1")
    primary = durable.await_primary_but("n1")
    more = records(RECORDS)
    load(durable.cli(primary), more)
    known.update(more)
    for node in NODES[1:]:
        durable.kill(node)
    durable.start("n1")  # it has nothing that counts, and waits
    durable.start(primary)
    assert dump(serves(durable, primary)) == known
    durable.await_in_sync("n1", primary)
    assert durable.primary() == primary


def die_before_it_answers(group, primary):
    """n2 was named primary, and waits for n3, which stands still."""
    wait_until("n2 is primary", lambda: group.primary() == "n2", PATIENCE_S, step=0.01)
    for node in NODES:
        if node != primary:
            group.kill(node)


@pytest.mark.parametrize("how", ["taken over", "switched"])
def test_all_die_before_the_next_one_answers(durable, how):
    """What the primary before it had acknowledged is all there is, and that one has it."""
    known = records(0)
    load(durable.cli("n1"), known)
    durable.servers["n3"].stop_threads()
    if how == "switched":
        switch = Process([program("kv-cluster"), "-s", durable.servers["n1"].address, "switch",
                          "n2"], durable.folder / "switch.log")
        die_before_it_answers(durable, None)
        switch.close()
    else:
        durable.kill("n1")
        die_before_it_answers(durable, "n1")
    durable.start("n2")
    wait_until("n2 gives back", lambda: durable.primary() == "n1", PATIENCE_S)
    durable.start("n1")
    durable.start("n3")
    cli = serves(durable, "n1")
    assert dump(cli) == known
    cli.put("more", b"records")
    durable.await_in_sync(*NODES)


def test_the_primary_alone_comes_back(durable):
    """Nobody else does. Whoever was in sync may not know yet that it is alone."""
    known = records(0)
    load(durable.cli("n1"), known)
    last = kill_all(durable)
    durable.start(last)
    cli = serves(durable, last)
    assert dump(cli) == known and durable.in_sync() == [last]
    cli.put("more", b"records")
    durable.kill(last)
    durable.start(last)
    assert serves(durable, last).get("more") == b"records"


def test_a_directory_that_was_copied_waits_for_a_person(durable):
    """It may lack what was acknowledged after the copy was made."""
    known = records(0)
    load(durable.cli("n1"), known)
    last = kill_all(durable)
    shutil.copytree(durable.dir(last), durable.folder / "copy")
    shutil.rmtree(durable.dir(last))
    (durable.folder / "copy").rename(durable.dir(last))
    server = durable.start(last)
    server.node = last
    wait_until(f"{last} waits", lambda: "its directory is a copy" in server.stderr(), 20)
    force(server)
    assert dump(serves(durable, last)) == known
    durable.kill(last)
    durable.start(last)  # it is the member's directory now
    assert dump(serves(durable, last)) == known


def test_what_a_member_had_goes_when_it_has_all(durable):
    load(durable.cli("n1"), records(0))
    durable.kill("n3")
    durable.await_in_sync("n1", "n2")
    durable.start("n3")
    wait_until("n3 has moved it", lambda: is_aside(durable, "n3") or "n3" in durable.in_sync(), 20,
               step=0.001)
    durable.await_in_sync(*NODES)
    wait_until("it says so", lambda: "aside is not needed any more" in durable.servers[
        "n3"].stderr(), 20)
    assert not is_aside(durable, "n3")


def test_a_person_makes_a_backup_go_on(durable):
    """The primary's machine is gone for good. The backup's directory has what was committed."""
    cli, known = durable.cli("n1"), records(0)
    load(cli, known)
    wait_until("n2 has applied all", lambda: cli.stats()["group_lag_bytes"] == 0, 20)
    durable.kill("n2")
    durable.await_in_sync("n1", "n3")
    for node in ("n1", "n3"):
        durable.kill(node)
    shutil.rmtree(durable.dir("n1"))
    server = durable.start("n2")
    server.node = "n2"
    wait_until("n2 waits", lambda: "n1" in server.stderr(), 20)
    assert not is_aside(durable, "n2")
    force(server)
    assert dump(serves(durable, "n2")) == known
    durable.start("n1")
    durable.await_in_sync("n1", "n2")


def test_etcd_has_lost_everything(durable):
    """A server with records of the group founds no new one by itself."""
    known = records(0)
    load(durable.cli("n1"), known)
    last = kill_all(durable)
    durable.etcd.close()
    shutil.rmtree(durable.folder / "etcd")
    durable.etcd = Etcd(durable.folder)
    server = durable.start(last)
    server.node = last
    wait_until(f"{last} waits", lambda: "kv-cluster force" in server.stderr(), 20)
    force(server)
    assert dump(serves(durable, last)) == known
    other = next(node for node in NODES if node != last)
    durable.start(other)
    durable.await_in_sync(*sorted([last, other]))


def test_a_store_of_one_server_becomes_a_group(tmp_path):
    group = Group(tmp_path, data=True)
    known = records(0)
    try:
        alone = Server(tmp_path, "--data-dir", str(group.dir("n1")), memory="256M")
        group.servers["n1"] = alone
        load(group.cli("n1"), known)
        alone.crash()
        del group.servers["n1"]
        group.start("n1")
        group.await_in_sync("n1")
        assert dump(serves(group, "n1")) == known
        group.start("n2")
        group.await_in_sync("n1", "n2")
        group.kill("n1")
        assert dump(group.cli(group.await_primary_but("n1"))) == known
        assert "a member of a group wrote it" in refused(
            tmp_path, "--data-dir", str(group.dir("n1"))).err
    finally:
        group.end()


def test_directories_of_others_are_refused(tmp_path):
    group = Group(tmp_path, data=True)
    try:
        group.start("n1")
        group.await_in_sync("n1")
        serves(group, "n1").put("key", b"value")
        group.kill("n1")
        common = ["--etcd", group.etcd.url, "--data-dir", str(group.dir("n1"))]
        assert "of another group" in refused(
            tmp_path, "--cluster", "test", "--group", "2", *common).err
        group.start("n2")  # the cluster is there
        other = Group(tmp_path / "other", data=True) if (tmp_path / "other").mkdir() is None else 0
        other.start("n1")
        other.await_in_sync("n1")
        assert "of another cluster" in refused(
            tmp_path, "--cluster", "test", "--etcd", other.etcd.url, "--data-dir",
            str(group.dir("n1"))).err
        other.end()
        group.kill("n2")
    finally:
        group.end()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_a_primary_whose_disk_hangs_gives_way(durable, world):
    """It could commit nothing, and would be primary for as long as it answers beats."""
    client = world.client(durable, 60000)
    client.put(b"key", b"before")
    primary = durable.primary()
    server = durable.servers[primary]
    with hanging_disk(server):
        client.start("put", b"key", b"meanwhile")
        client.answer(60)
        assert client.get(b"key") == b"meanwhile"
        assert durable.primary() != primary
    server.expected_dead = True
    assert server.wait(PATIENCE_S) == 3
    server.hold()
    assert re.search("writing log/.* failed: .*timed out", server.stderr()), server.stderr()
    durable.start(primary)
    durable.await_in_sync(*NODES)
    assert client.get(b"key") == b"meanwhile"
