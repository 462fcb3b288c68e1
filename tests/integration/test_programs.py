# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Debian's ibverbs programs and perftest on soft0, unmodified, as root and as an ordinary user.

They check soft0's reading of the verbs: nobody here wrote them. What they print of speed is the
speed of copies inside one machine."""
import contextlib
import os
import pathlib
import re
import signal
import time

import pytest

from kvt_process import HOST, free_port, wait_until
from kvt_rdma import USERS, Installed, Programs, output, rows

pytestmark = pytest.mark.soft_device

GID = "3"  # RoCE v2, IPv4


@pytest.fixture(scope="module")
def installed():
    it = Installed()
    yield it
    it.remove()


@pytest.fixture
def programs(installed, tmp_path):
    it = Programs(installed, tmp_path)
    yield it
    it.end()


@pytest.fixture(params=USERS)
def user(request):
    return request.param


# What there is


def test_ibv_devices(programs, user):
    rc, out, err = programs.one("ibv_devices", user=user)
    assert rc == 0, err
    assert re.search(r"^\s+soft0\s+[0-9a-f]{16}$", out, re.M), out


def test_ibv_devinfo(programs, user):
    rc, out, err = programs.one("ibv_devinfo", "-v", "-d", "soft0", user=user)
    assert rc == 0, err
    for line in (r"hca_id:\ssoft0", r"transport:\s+InfiniBand \(0\)", r"state:\s+PORT_ACTIVE \(4\)",
                 r"link_layer:\s+Ethernet", r"max_mtu:\s+4096 \(5\)", r"atomic_cap:\s+ATOMIC_GLOB",
                 r"GID\[\s*3\]:\s+::ffff:127\.0\.0\.1, RoCE v2"):
        assert re.search(line, out), f"{line} in\n{out}"


def test_ibv_devinfo_on_infiniband(programs):
    rc, out, err = programs.one("ibv_devinfo", "-v", options=["--link", "ib"])
    assert rc == 0, err
    assert re.search(r"link_layer:\s+InfiniBand", out), out
    assert re.search(r"port_lid:\s+[1-9]", out), out


def test_no_such_device(programs):
    rc, _, err = programs.one("ibv_devinfo", "-d", "soft9")
    assert rc != 0 and "soft9" in err


# The pingpongs: data checked with -c, where they have it


# With several queue pairs ibv_srq_pingpong posts more SENDs than it counts, and the side that has
# counted enough leaves: the other one may find its peer gone before it has counted as many.
ONE_QP = ["-q", "1"]
PINGPONGS = [
    ["ibv_rc_pingpong", "-c"],
    ["ibv_rc_pingpong", "-c", "-e"],
    ["ibv_rc_pingpong", "-c", "-N"],  # through ibv_wr_*
    ["ibv_rc_pingpong", "-c", "-s", "1000000", "-n", "100"],
    ["ibv_uc_pingpong", "-c"],
    ["ibv_uc_pingpong", "-c", "-e"],
    ["ibv_ud_pingpong", "-c"],
    ["ibv_ud_pingpong", "-c", "-e"],
    ["ibv_srq_pingpong", "-c", *ONE_QP],
    ["ibv_srq_pingpong", "-c", "-e", *ONE_QP],
]


@pytest.mark.parametrize("args", PINGPONGS, ids=" ".join)
def test_pingpong(programs, user, args):
    size = [] if "-n" in args else ["-n", "1000"]
    said, heard = programs.pair(*args, *size, "-d", "soft0", "-g", GID, user=user)
    iterations = args[args.index("-n") + 1] if "-n" in args else "1000"
    for out in (said, heard):
        assert re.search(rf"^{iterations} iters in [0-9.]+ seconds", out, re.M), out
        assert "invalid data" not in out


@pytest.mark.parametrize("service, more", [("rc", []), ("uc", []), ("ud", []), ("srq", ONE_QP)])
def test_pingpong_on_infiniband(programs, service, more):
    programs.pair(f"ibv_{service}_pingpong", "-d", "soft0", *more, options=["--link", "ib"])


@pytest.mark.parametrize("service, more", [("rc", []), ("uc", []), ("srq", ONE_QP)])
def test_pingpong_on_a_weak_device(programs, service, more):
    programs.pair(f"ibv_{service}_pingpong", "-c", "-n", "300", "-d", "soft0", "-g", GID, *more,
                  options=["--weak", "7"])


# perftest


SIZES = [2 ** i for i in range(1, 24)]
BW = ["ib_read_bw", "ib_write_bw", "ib_send_bw", "ib_atomic_bw"]
LAT = ["ib_read_lat", "ib_write_lat", "ib_send_lat", "ib_atomic_lat"]
NO_EVENTS = {"ib_write_bw", "ib_write_lat"}  # have no -e


def options_of_perftest():
    """Every program with each option that it has."""
    for name in BW + LAT:
        yield [name]
        yield [name, "--use_old_post_send"]
        if "atomic" in name:
            yield [name, "-A", "CMP_AND_SWAP"]
        else:  # -C: the latency programs measure the clock of the CPU at each size otherwise
            yield [name, "-a", "-n", "20", *(["-C"] if name in LAT else [])]
        if name in BW:
            yield [name, "-q", "8"]
            yield [name, "-b"]
            yield [name, "-l", "16", "-n", "1600"]
        if name not in NO_EVENTS:
            yield [name, "-e"]
        if "send" in name:
            yield [name, "--use-srq"]
            yield [name, "-c", "UC"]
            yield [name, "-c", "UD", "-s", "64"]
        if "write" in name:
            yield [name, "-c", "UC"]
        if "write_" in name or "send_" in name:
            yield [name, "-I", "64", "-s", "64"]


# Which user it is decides whether two processes may connect: the options are one user's alone.
@pytest.mark.parametrize("user, args", [(user, args) for args in options_of_perftest()
                                        for user in (USERS if len(args) == 1 else USERS[-1:])],
                         ids=lambda it: it if isinstance(it, str) else " ".join(it))
def test_perftest(programs, user, args):
    said, _ = programs.pair(*args, "-d", "soft0", "-x", GID, "-F", user=user)
    table = rows(said)
    assert table, said
    if "-a" in args:
        assert [row[0] for row in table] == SIZES[:len(table)] and len(table) == len(SIZES), said
    assert all(row[1] > 0 and row[-1] > 0 for row in table), said


def test_perftest_on_a_weak_device(programs):
    programs.pair("ib_read_bw", "-d", "soft0", "-x", GID, "-F", "-n", "300",
                  options=["--weak", "7"])
    programs.pair("ib_send_lat", "-d", "soft0", "-x", GID, "-F", "-n", "300",
                  options=["--weak", "7"])


def test_perftest_with_losses(programs):
    programs.pair("ib_read_bw", "-d", "soft0", "-x", GID, "-F", "-n", "300", "-u", "8",
                  options=["--fault", "drop=20,seed=3"])


# What goes wrong


@pytest.mark.parametrize("name", ["ib_read_bw", "ib_write_bw", "ib_send_bw", "ib_atomic_bw"])
def test_peer_is_killed(programs, name):
    port = free_port()
    args = [name, "-d", "soft0", "-x", GID, "-F", "-D", "30"]
    server = programs.server(args, port, USERS[-1])
    client = programs.start([*args, "-p", str(port), HOST], USERS[-1])
    time.sleep(2)
    assert client.running(), client.stderr()
    server.signal(signal.SIGKILL)
    killed = time.monotonic()
    out = output(client, 10)
    assert client.popen.returncode != 0, out
    assert time.monotonic() - killed < 5, "it learns within a second, and ends"
    assert "12" in out + client.stderr(), "transport retry counter exceeded"


@pytest.mark.skipif(len(USERS) < 2, reason="needs root, to be two users")
def test_another_user_is_refused_in_words(programs):
    port = free_port()
    args = ["ib_send_lat", "-d", "soft0", "-x", GID, "-F", "-n", "100"]
    server = programs.server(args, port, "root")
    client = programs.start([*args, "-p", str(port), HOST], "ordinary")
    out = output(client, 20)
    assert client.popen.returncode != 0, out
    assert "softrdma: " in server.stderr() and "refused" in server.stderr(), server.stderr()


def test_rdma_cm_is_refused_in_words(programs):
    rc, out, err = programs.one("ib_send_bw", "-d", "soft0", "-R", seconds=20)
    assert rc != 0, out
    assert "softrdma: " in err and "rdma_cm" in err, err


def sockets_of(process):
    """The inodes of the Unix sockets that a process has a name for on soft0."""
    with open("/proc/net/unix", encoding="utf-8") as table:
        named = {line.split()[6] for line in table if "@softrdma/" in line}
    inodes = set()
    for entry in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        # A running process may close one between its listing and this look.
        with contextlib.suppress(FileNotFoundError):
            link = os.readlink(entry)
            inodes |= {link[8:-1]} if link.startswith("socket:[") else set()
    return inodes & named


def test_nothing_is_left_behind(programs):
    """Kill both at once, again and again: no name of theirs remains."""
    ours = set()
    for _ in range(5):
        port = free_port()
        args = ["ib_write_bw", "-d", "soft0", "-x", GID, "-F", "-D", "30"]
        server = programs.server(args, port, USERS[0])
        client = programs.start([*args, "-p", str(port), HOST], USERS[0])
        for process in (server, client):
            ours |= wait_until("it is on soft0", lambda: sockets_of(process), 10)
        for process in (server, client):
            process.signal(signal.SIGKILL)
            process.wait(5)
    assert len(ours) >= 10
    with open("/proc/net/unix", encoding="utf-8") as table:
        left = [line for line in table if line.split()[6] in ours]
    assert not left, left
