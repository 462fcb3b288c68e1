# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cluster: what it says of a group, and how people change one."""
import json
import re
import signal
import subprocess
import threading

import pytest

from kvt_client import CallFailed, Cli, assert_error, run
from kvt_group import NODES
from kvt_process import program, wait_until

pytestmark = pytest.mark.soft_device


class Cluster:
    """kv-cluster on a group, or on some of its servers."""

    def __init__(self, address):
        self.base = [program("kv-cluster"), "-s", address]

    def __call__(self, *words):
        return run([*self.base, *words])

    def good(self, *words):
        result = self(*words)
        assert result.rc == 0 and result.err == "", result
        return result.out.decode()

    def no(self, *words):
        """Refused, in a sentence."""
        return assert_error(self(*words), 1, who="kv-cluster")

    def status(self):
        doc = json.loads(self("--json", "status").out)
        assert doc["tool"] == "kv-cluster"
        doc["roles"] = {server["node"]: server["role"] for server in doc["servers"]}
        return doc


@pytest.fixture
def cluster(group):
    return Cluster(group.address)


def test_any_member_knows_the_others(group):
    for node in NODES:
        one = Cluster(group.servers[node].address)
        doc = one.status()
        assert doc["roles"] == {"n1": "primary", "n2": "backup", "n3": "backup"}
        assert (doc["primary"], doc["term"], doc["min_in_sync"]) == ("n1", 5, 1)
        assert all(s["in_sync"] and s["answers"] and not s["note"] for s in doc["servers"])
        assert [s.get("behind_bytes") for s in doc["servers"]] == [None, 0, 0]
        assert 0 < doc["lease_left_us"] <= 300000
        text = one.good("status").splitlines()
        assert text[0] == "cluster test, group 1, term 5: n3 is in sync"
        assert text[1].startswith("3 of 3 in sync, writes want 1; lease 300 ms, ")
        assert [line.split()[:4] for line in text[4:]] == [
            [n, group.servers[n].address, "primary" if n == "n1" else "backup", "yes"]
            for n in NODES]
        assert all(line == line.rstrip() for line in text)


class Loop(threading.Thread):
    """Writes and reads one key on and on; what fails ends it."""

    def __init__(self, client, key):
        super().__init__()
        self.client, self.key = client, key
        self.stop, self.turns, self.failure = False, 0, None
        self.start()

    def run(self):
        try:
            while not self.stop:
                self.turns += 1
                value = str(self.turns).encode()
                self.client.put(self.key, value)
                assert self.client.get(self.key) == value
        except (AssertionError, CallFailed) as failure:
            self.failure = failure

    def end(self):
        self.stop = True
        self.join()
        assert self.failure is None and self.turns > 100


def test_a_switch_fails_no_operation(group, client):
    """To each of the others, and to whichever has most; clients write and read meanwhile. The
    server that is asked, the only one that is named, starts again then."""
    clients = [client() for _ in range(2)]
    loops = [Loop(one, b"key %d" % n) for n, one in enumerate(clients)]
    for words in (["n2"], ["n3"], []):
        before = group.primary()
        one = Cluster(group.servers[before].address)
        said = json.loads(one.good("--json", "switch", *words))
        now = group.primary()
        assert now == (words[0] if words else now) and now != before
        assert said["why"] == f"{now} is primary, by a switch"
        group.await_in_sync(*NODES)
        assert "starts again, to learn" in group.servers[before].stderr()
    for loop in loops:
        loop.end()
        assert loop.client.stats()["reconnects"] == 3


def test_what_cannot_be_switched(group, cluster):
    assert "is no member" in cluster.no("switch", "nobody")
    assert "is the primary already" in cluster.no("switch", "n1")
    group.etcd.stop_threads()
    assert "etcd does not answer" in cluster.no("switch", "n2")
    group.cli("n1").put("it", b"goes on")
    group.etcd.signal(signal.SIGCONT)
    assert group.primary() == "n1"


def ended_well(server):
    server.expected_dead = True
    assert server.wait(30) == 0, server.stderr()
    server.hold()


def test_who_is_removed_ends_and_can_come_back(group, cluster):
    assert "is the primary" in cluster.no("remove", "n1")
    assert "is no member" in cluster.no("remove", "n4")
    assert "a person has removed it" in cluster.good("remove", "n3")
    removed = group.servers["n3"]
    ended_well(removed)
    assert "start it again" in removed.stderr()
    assert cluster.status()["roles"].keys() >= {"n1", "n2"} and group.in_sync() == ["n1", "n2"]
    assert "--yes" in cluster.no("remove", "n2")
    group.start("n3")
    group.await_in_sync(*NODES)
    group.cli("n1").put("after", b"it")
    for node in ("n3", "n2"):
        cluster.good("remove", "--yes", node)
        ended_well(group.servers[node])
    assert group.cli("n1").get("after") == b"it"


def test_all_died_and_a_person_says_who_goes_on(group, cluster):
    group.cli("n1").put("lost", b"for good")
    assert "nothing is to be forced" in cluster.no("force", "n1")
    for node in NODES:
        group.kill(node)
    assert_error(cluster("status"), 3, "no server answers", who="kv-cluster")
    assert_error(cluster("force", "n2"), 3, "no server answers", who="kv-cluster")
    server = group.start("n2")
    wait_until("n2 knows its group", lambda: cluster.status().get("term") == 5, 30)
    assert cluster.status()["primary"] is None and cluster("status").rc == 1
    assert "NO PRIMARY ANSWERS CLIENTS" in cluster("status").out.decode()
    assert "no server that is called n1" in cluster.no("force", "n1")
    for words in ([], ["--stopped"], ["--confirm", "1"], ["--stopped", "--confirm", "2"]):
        assert "--confirm 1 --stopped" in cluster.no("force", "n2", *words)
    assert "no primary answers" in cluster.no("switch")
    assert "all there is" in cluster.good("force", "n2", "--confirm", "1", "--stopped")
    wait_until("n2 is primary", lambda: cluster.status()["primary"] == "n2", 30)
    cli = Cli(server.address)
    assert cli("get", "lost").rc == 1
    cli.put("new", b"record")
    for node in ("n1", "n3"):
        group.start(node)
    group.await_in_sync(*NODES)


def test_a_backup_that_may_take_over_is_not_passed_over(group, cluster):
    """etcd stands still, so nobody is primary; what is forced now would lose records."""
    group.etcd.stop_threads()
    group.kill("n1")
    wait_until("nobody is primary", lambda: cluster.status()["primary"] is None, 30)
    assert "takes over by itself" in cluster.no("force", "n2", "--confirm", "1", "--stopped")
    group.etcd.signal(signal.SIGCONT)
    assert group.await_primary_but("n1") in ("n2", "n3")


def test_watch_shows_each_change(group, cluster):
    watch = subprocess.Popen([*cluster.base, "watch", "--interval", "20"], text=True,
                             stdout=subprocess.PIPE)
    try:
        while "n3" not in watch.stdout.readline():
            pass
        cluster.good("switch", "n3")
        # On a machine that is busy others may have taken over by the time that it looks.
        lines = [watch.stdout.readline()]
        while not re.search(r"n[123] primary", lines[-1]):
            lines.append(watch.stdout.readline())
            assert lines[-1]
        assert any(re.match(r"[\d:]{8}  term \d+: n", line) for line in lines), lines
    finally:
        watch.terminate()
        assert watch.wait(20) == 0


def test_doctor_knows_roles(group, cluster):
    good = group.cli("n1").good("doctor", group.servers["n1"].address).decode()
    assert re.search(r"group +ok .*primary in term 5; 3 of 3 in sync; lease 300 ms", good, re.S)
    backup = group.cli("n2")("doctor", group.servers["n2"].address)
    said = " ".join(backup.out.decode().split())
    assert backup.rc == 1 and "the primary is 127.0.0.1:" in said
    assert "kv-cluster -s HOST status" in said


def test_servers_of_no_group(shared):
    result = run([program("kv-cluster"), "-s", shared.address, "status"])
    assert_error(result, 3, "belongs to no group", "--cluster", who="kv-cluster")


@pytest.mark.no_device
@pytest.mark.parametrize("words", [
    [], ["frobnicate"], ["status", "n1"], ["remove"], ["force"], ["switch", "a", "b"],
    ["-s", "", "status"], ["-s", ",", "status"], ["-s", "127.0.0.1:1,", "status"],
    ["-s", ",".join(["127.0.0.1:1"] * 17), "status"], ["-s", "127.0.0.1:x", "status"],
    ["--interval", "1", "watch"],
])
def test_wrong_usage(words):
    result = run([program("kv-cluster"), *words])
    assert result.rc in (2, 3) and result.out == b""
    assert_error(result, (2, 3), who="kv-cluster")
