# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Queue pairs connected by the RDMA CM, on a device that the kernel knows; refusals on soft0."""
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from kvt_client import Cli, Client, assert_error, run
from kvt_process import AGENT, DEVICE, HOST, Process, program, wait_until
from kvt_rogue import PATIENT
from kvt_server import refused

EPROTO, ETIMEDOUT, ESTALE, EPROTONOSUPPORT = -71, -110, -116, -93
SETTLE_S = 15
number = itertools.count(1)


def netdev():
    """The network device that DEVICE sits on, or None."""
    sysfs = pathlib.Path("/sys/class/infiniband") / DEVICE
    try:
        return (sysfs / "parent").read_text().strip()
    except OSError:
        return next((path.name for path in (sysfs / "device/net").glob("*")), None)


def addresses():
    """{"inet", "inet6" or "link": an address of the network device}; none without such a device."""
    name = netdev()
    if not name or not shutil.which("ip"):
        return {}
    shown = subprocess.run(["ip", "-j", "addr", "show", "dev", name], capture_output=True,
                           check=True).stdout
    found = {}
    for info in (info for link in json.loads(shown) for info in link.get("addr_info", [])):
        kind = "link" if info["local"].startswith("fe80") else info["family"]
        address = info["local"] + (f"%{name}" if kind == "link" else "")
        if kind not in found or address == HOST:
            found[kind] = address
    return found


def why_not():
    """Why the CM cannot be tried on this device; "" where it can."""
    if not AGENT and HOST not in addresses().values():
        return f"GRACEKV_TEST_HOST {HOST} is no address of {DEVICE}'s network device {netdev()}"
    return ""


WHY_NOT = why_not()
soft = pytest.mark.soft_device


def real(test):
    return pytest.mark.kernel_device(pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)(test))


# Looks at the server's machine by itself.
near = pytest.mark.skipif(bool(AGENT), reason="servers run on another machine")


def bracketed(address):
    return f"[{address}]" if ":" in address else address


class CmClient(Client):
    """kv-cm-client: requests of the CM with fields of the test's choice."""

    def __init__(self, folder, server):
        Process.__init__(self, [program("kv-cm-client"), server.address],
                         folder / f"kv-cm-client.{next(number)}.stderr", stdin=subprocess.PIPE)
        self.answer(15)

    def request(self, **fields):
        answer = self.ask("request", *(f"{k}={v}" for k, v in fields.items()))
        return {k: int(v) for k, v in answer.items()}

    def refused(self, *command, **fields):
        """The code and the sentence of a request that must be refused."""
        self.start(*command, *(f"{k}={v}" for k, v in fields.items()))
        line = self.read_line(20)
        head, code, text = line.split(" ", 2)
        assert head == "err", line
        return int(code), text


@pytest.fixture
def server(world):
    """Patient with raw clients, which announce nothing."""
    return world.server("--log-level", "debug", *PATIENT, memory="128M", connect="cm")


@pytest.fixture
def cm(server):
    return Cli(server.address, connect="cm")


@pytest.fixture
def rogue(world, server):
    client = CmClient(world.folder, server)
    world.clients.append(client)
    return client


def queue_pairs(server):
    """Of all clients but the one that asks."""
    return Cli(server.address, connect="cm").stats()["queue_pairs"] - 2


def kernel_counts(server):
    """(queue pairs, connections of the CM) of the server, as the kernel knows them."""
    counts = []
    threads = os.listdir(f"/proc/{server.pid}/task")  # "pid" is the one that made it
    for what, word in (("qp", "lqpn"), ("cm_id", "LISTEN")):
        shown = subprocess.run(["rdma", "res", "show", what], capture_output=True, text=True,
                               check=True).stdout
        assert word in shown, shown
        made = (re.search(r" pid (\d+) ", line) for line in shown.splitlines()
                if f"link {DEVICE}/" in line and "LISTEN" not in line)
        counts.append(sum(bool(by) and by[1] in threads for by in made))
    return tuple(counts)


def settled(server, count=0):
    wait_until(f"the server has {count} queue pairs", lambda: queue_pairs(server) == count,
               SETTLE_S, step=0.2)
    if shutil.which("rdma") and not AGENT:
        wait_until(f"the kernel counts {count} of each",
                   lambda: kernel_counts(server) == (count, count), SETTLE_S, step=0.2)


# Refusals that need no device of the kernel.


@soft
@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_server_on_soft0_refuses_the_cm(tmp_path, how):
    config = tmp_path / "kv-server.ini"
    config.write_text("connect = cm\n")
    args = {"flag": ["--connect", "cm"], "environment": [], "file": ["--config", str(config)]}[how]
    env = {"GRACEKV_CONNECT": "cm"} if how == "environment" else None
    assert_error(refused(tmp_path, *args, env=env, connect="tcp"), 2, "soft0", "--connect tcp",
                 who="kv-server")


@soft
def test_flag_goes_before_environment(world):
    server = world.server("--connect", "tcp", env={"GRACEKV_CONNECT": "cm"})
    assert world.cli(server)("get", "a", env={"GRACEKV_CONNECT": "pigeon"}).rc == 3
    assert world.cli(server)("--connect", "tcp", "get", "a", env={"GRACEKV_CONNECT": "cm"}).rc == 1


@soft
def test_without_an_rdma_device_the_server_says_so(tmp_path):
    assert_error(refused(tmp_path, device=None, connect="cm"), 3, "RDMA", "--connect",
                 who="kv-server")


@soft
def test_client_on_soft0_refuses_the_cm(world):
    server = world.server()
    assert_error(Cli(server.address, connect="cm")("get", "a"), 3, "soft0", "tcp")
    assert_error(Cli(server.address, device="auto", connect="cm")("get", "a"), 3, "RDMA device",
                 "--connect tcp")
    assert world.cli(server)("get", "a").rc == 1


def test_no_third_way(world, tmp_path):
    assert_error(run([program("kv-cli"), "--connect", "pigeon", "get", "a"]), 2, "pigeon",
                 "neither tcp nor cm")
    assert_error(run([program("kv-cli"), "get", "a"], env={"GRACEKV_CONNECT": "pigeon"}), 3,
                 "GRACEKV_CONNECT", "pigeon")
    assert_error(refused(tmp_path, "--connect", "pigeon", connect="tcp"), 2, "none of tcp, cm",
                 who="kv-server")


def test_gid_index_is_the_cms(tmp_path):
    assert_error(refused(tmp_path, "--gid-index", "1", device=None, connect="cm"), 2, "--gid-index",
                 who="kv-server")
    assert_error(run([program("kv-cli"), "--connect", "cm", "-x", "1", "get", "a"]), 3, "gid_index",
                 "CM chooses")


# On a device that the kernel knows.


@real
def test_load_and_read_back(server, cm, tmp_path):
    records = tmp_path / "records.tsv"
    records.write_text("".join(f"key{i}\tvalue {i} {'x' * (i * 7 % 900)}\n" for i in range(1000)))
    cm.good("load", str(records))
    cm.good("verify", str(records))
    assert cm.stats()["rpc_gets"] == 0, "the GETs were not one-sided"
    assert Cli(server.address, connect="tcp").get("key7") == cm.get("key7"), "tcp is served too"
    assert "the CM chose port" in server.stderr()
    settled(server)


@real
def test_large_values(world, server):
    client = world.client(server, connect="cm")
    client.ask("fill", "large", 0, 20, 100_000, seconds=60)
    assert client.ask("check", "large", 0, 20, 100_000, seconds=60)["found"] == "20"
    client.quit()
    settled(server)


@real
def test_the_device_is_the_one_on_the_route(server):
    said = Cli(server.address, device="auto", connect="cm")("-v", "put", "a", "b")
    assert said.rc == 0
    assert f"device {DEVICE} port 1: the RDMA CM's route" in said.err
    assert_error(Cli(server.address, device="rxe99", connect="cm")("get", "a"), 3,
                 f"leaves through device {DEVICE}", "says rxe99")


@near
@real
@pytest.mark.parametrize("kind", ["inet", "inet6", "link"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_families(world, kind, everywhere):
    address = addresses().get(kind)
    if not address:
        pytest.skip(f"{netdev()} has no address of kind {kind}")
    listen = "[::]" if everywhere else bracketed(address)
    server = world.server("--log-level", "debug", memory="64M", listen=f"{listen}:0", connect="cm")
    cli = Cli(f"{bracketed(address)}:{server.port}", connect="cm")
    cli.put("family", kind.encode())
    assert cli.get("family") == kind.encode()
    gid = address.split("%")[0] if ":" in address else f"::ffff:{address}"
    chosen = [line for line in server.stderr().splitlines() if "the CM chose" in line]
    assert chosen and all(f" {gid} (RoCE v2)" in line for line in chosen), chosen


@real
def test_the_smaller_mtu_counts(world):
    server = world.server("--log-level", "debug", "--mtu", "512", memory="64M", connect="cm")
    cli = Cli(server.address, connect="cm")
    cli.put("a", b"x" * 5000)
    assert cli.get("a") == b"x" * 5000
    assert "; MTU 512," in server.stderr()


@real
def test_many_handles(world, server):
    client = world.client(server, 60000, connect="cm")
    client.put(b"k", b"v")
    for _ in range(2):
        answer = client.ask("handles", b"k", 63, seconds=90)
        assert answer == {"opened": "63", "code": "0"}
        settled(server, 2)  # its handle, and the housekeeper
    client.quit()
    settled(server)


@real
def test_server_restarted_on_the_same_port(world, server):
    client = world.client(server, 30000, connect="cm")
    client.put(b"k", b"v")
    server.crash()
    again = world.server("--log-level", "debug", memory="128M", listen=server.address, connect="cm")
    client.put(b"k", b"w")
    assert client.get(b"k") == b"w"
    assert client.stats()["reconnects"] >= 1
    client.quit()
    settled(again)


@real
def test_client_killed(world, server):
    client = world.client(server, connect="cm")
    client.put(b"k", b"v")
    settled(server, 2)
    client.kill()
    settled(server)
    Cli(server.address, connect="cm").put("k", b"w")


@real
def test_server_that_stands_still_costs_a_call_its_time_only(world, server):
    client = world.client(server, 2000, 20000, connect="cm")
    client.put(b"k", b"v")
    server.stop_threads()
    answer = client.ask("handles", b"k", 1, seconds=30)
    assert answer == {"opened": "0", "code": str(ETIMEDOUT)}
    server.signal(signal.SIGCONT)
    wait_until("a handle more is opened again",
               lambda: client.ask("handles", b"k", 1, seconds=30)["opened"] == "1", SETTLE_S)
    client.quit()
    settled(server)


@real
def test_server_that_serves_tcp_only(world):
    server = world.server(memory="64M", connect="tcp")
    assert_error(Cli(server.address, connect="cm")("get", "a"), 3, "does not serve the RDMA CM",
                 "--connect cm")
    assert Cli(server.address, connect="tcp")("get", "a").rc == 1


@near
@real
@pytest.mark.parametrize("args, words", [
    (["--device", "rxe99"], ["rxe99", f"belongs to device {DEVICE}"]),
    (["--ib-port", "2"], ["--ib-port"]),
    (["--listen", "127.0.0.1:0"], ["127.0.0.1", "RDMA"]),
])
def test_server_refusals(tmp_path, args, words):
    assert_error(refused(tmp_path, *args, device=None, connect="cm"), 3, *words, who="kv-server")


@real
@pytest.mark.parametrize("fields, code, word", [
    ({"token": 1}, ESTALE, "token"),
    ({"token": 0}, EPROTO, "session"),
    ({"handle": 64}, EPROTO, "queue pair 64"),
    ({"handle": 4294967295}, EPROTO, "queue pair"),
    ({"mtu": 0}, EPROTO, "MTU"),
    ({"mtu": 77}, EPROTO, "MTU"),
    ({"magic": 7}, EPROTO, "GraceKV"),
    ({"version": 99}, EPROTONOSUPPORT, "99"),
    ({"kind": 2}, EPROTO, "kind"),
    ({"length": 0}, EPROTO, "GraceKV"),
    ({"length": 8}, EPROTO, "session"),
    ({"length": 20}, EPROTO, "MTU"),
    ({"depth": 0}, EPROTO, "READ depth"),
])
def test_hostile_requests_are_refused_in_words(server, rogue, fields, code, word):
    got, text = rogue.refused("request", **fields)
    assert got == code and word in text
    assert rogue.request()["credits"] == 8, "a good one is still taken"
    rogue.kill()
    settled(server)


@real
def test_noise(server, rogue):
    for length in list(range(0, 57, 8)) * 3:
        code, _ = rogue.refused("noise", length)
        assert code in (EPROTO, EPROTONOSUPPORT)
    lines = [line for line in server.stderr().splitlines() if "refused a CM request" in line]
    assert 1 <= len(lines) < 12, "anyone can fill the log"
    assert Cli(server.address, connect="cm").stats()["connections_refused"] >= 24


@real
def test_a_session_that_is_refused_too_often_ends(server, rogue):
    for _ in range(64):
        rogue.refused("request", depth=0)
    assert rogue.refused("request")[0] == ESTALE
    assert Cli(server.address, connect="cm")("get", "a").rc == 1


@real
def test_client_that_vanishes_before_it_confirms(server, rogue):
    for handle in range(5):
        assert rogue.request(handle=handle)["handle"] == handle
    assert rogue.request(handle=4)["handle"] == 4, "one asked for again takes the place"
    settled(server, 5)
    rogue.kill()
    settled(server)


@real
def test_client_that_stands_still_before_it_confirms_ends_with_its_session(server, rogue):
    rogue.request()
    settled(server, 1)
    rogue.ask("establish")
    rogue.ask("leave")
    settled(server)


@real
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_rdma_cm_that_may_not_be_opened(server):
    node = pathlib.Path("/dev/infiniband/rdma_cm")
    mode = node.stat().st_mode & 0o777
    node.chmod(0o600)
    try:
        assert_error(run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                          *Cli(server.address, device="auto", connect="cm").base, "get", "a"]), 3,
                     "/dev/infiniband/rdma_cm", "Permission denied", "modprobe rdma_ucm")
    finally:
        node.chmod(mode)
