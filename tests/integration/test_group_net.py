# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A group whose network is cut and mended: nothing is lost, and nothing old is read."""
import select
import time

import pytest

from kvt_group import NODES, PATIENCE_S, Group
from kvt_net import CLIENTS, ETCD
from kvt_process import wait_until

pytestmark = pytest.mark.soft_device

OTHERS = NODES[1:]


@pytest.fixture
def cuttable(tmp_path):
    it = Group(tmp_path, net=True)
    for node in NODES:
        it.start(node)
        it.await_in_sync(*it.servers)
    yield it
    it.net.mend()
    it.end()


@pytest.fixture
def reach(world, cuttable):
    """Makes clients whose network is cut with that of the others."""
    def make():
        client = world.client(cuttable, env=cuttable.net.env)
        cuttable.net.client(client.pid)
        return client
    return make


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("from_primary", [True, False])
def test_a_backup_is_cut_off(cuttable, reach, from_primary, both):
    """Both ways, or one of them. Each of the two may find the other one silent first: one of them
    is out, writes go on, and it comes back."""
    client = reach()
    client.put(b"key", b"1")
    ends = ("n1", "n3") if from_primary else ("n3", "n1")
    cuttable.net.cut(*ends, both=both)
    wait_until("one of them is out", lambda: len(cuttable.in_sync()) == 2, PATIENCE_S, step=0.02)
    assert "n2" in cuttable.in_sync()
    client.put(b"key", b"2")
    assert client.get(b"key") == b"2"
    cuttable.net.mend()
    cuttable.await_in_sync(*NODES)
    assert client.get(b"key") == b"2"


def test_a_primary_is_cut_off(cuttable, reach):
    """By all servers and etcd, not by its clients: it runs on, and may not answer them any more."""
    client, other = reach(), reach()
    other.put(b"known", b"")
    client.put(b"key", b"old")
    assert client.get(b"key") == other.get(b"key") == b"old"
    cuttable.net.isolate("n1", CLIENTS)
    for turn in range(20):
        other.put(b"key", b"new %d" % turn)
        assert client.get(b"key") == b"new %d" % turn
    assert cuttable.primary() in OTHERS
    cuttable.net.mend()
    cuttable.await_in_sync(*NODES)
    assert "starts again" in cuttable.servers["n1"].stderr()
    assert client.get(b"key") == b"new 19"


def test_clients_are_cut_off_with_the_primary(cuttable, reach):
    """They find the next one; a write whose answer was lost is told apart there."""
    client = reach()
    for n in range(10):
        client.ask("count", b"count", 1)
    cuttable.net.isolate("n1")
    for n in range(10):
        client.ask("count", b"count", 1)
    assert client.get(b"count") == b"20"
    cuttable.net.mend()
    cuttable.await_in_sync(*NODES)


def test_the_primary_is_cut_from_etcd(cuttable, reach):
    """It goes on. When a backup dies then, writes wait: nobody can say that it does not count."""
    client = reach()
    cuttable.net.cut("n1", ETCD)
    for n in range(20):
        client.put(b"key", b"%d" % n)
    time.sleep(1)
    assert client.get(b"key") == b"19" and cuttable.in_sync() == list(NODES)
    cuttable.kill("n3")
    client.start("put", b"key", b"waits")
    assert not select.select([client.popen.stdout], [], [], 1)[0]
    cuttable.net.mend()
    client.answer()
    assert client.get(b"key") == b"waits" and "n3" not in cuttable.in_sync()


def test_a_backup_is_cut_from_etcd(cuttable, reach):
    """It cannot take over; the other one can."""
    client = reach()
    client.put(b"key", b"value")
    cuttable.net.cut("n2", ETCD)
    cuttable.kill("n1")
    assert client.get(b"key") == b"value"
    assert cuttable.primary() == "n3"
    cuttable.net.mend()
    cuttable.await_in_sync(*OTHERS)


def test_everybody_is_alone(cuttable, reach):
    """Nothing can be decided; when the network is back, it goes on as if nothing had been."""
    client = reach()
    client.put(b"key", b"value")
    for node in NODES:
        cuttable.net.isolate(node)
    time.sleep(1)
    cuttable.net.mend()
    client.put(b"key", b"after")
    assert client.get(b"key") == b"after"
    cuttable.await_in_sync(*NODES)
