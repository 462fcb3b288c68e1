# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What the store costs beyond the device: against perftest, on the same machine in the same run.

Figures of an emulated machine mean nothing by themselves; the ratios are asserted where servers and
clients share one, and only printed where there are two, which disturb each other; but for that of
an mget, which is about two."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import pytest

from kvt_client import Cli
from kvt_process import AGENT, BUILD, DEVICE, FULL, HOST, Process, program
from kvt_rdma import NOBODY, output, rows
from kvt_remote import server_port
from kvt_server import ServerSide

pytestmark = pytest.mark.skipif(DEVICE.startswith("soft"),
                                reason="the baseline is perftest on a device of the kernel")

asserts = pytest.mark.skipif(bool(AGENT), reason="it would print and assert nothing")

ROUNDS = 7  # always as many, whatever they show
GET_MAX, WARM_GET_MAX, PUT_MAX = 2.3, 1.3, 1.5
MGET, MGET_RATE_MIN = 64, 2.5  # keys of an mget; how many times the rate of single GETs
VALUE = 64
KEYS = 200  # each run puts and deletes them
CPU_SPAN_S = 10
BESIDE_ROUNDS, BESIDE_MAX = 3, 2  # raw READs of ours over perftest's, or the other way round
TYPICAL, BW_AVERAGE = 4, 3  # columns of perftest's tables: the median in us; MB/s
# One core, two processes: polling keeps the core from the other until its slice ends.
EVENTS = [] if os.cpu_count() > 1 else ["-e"]


def perftest_once(folder, server, command, column):
    port = server_port()
    command = [*command, "-d", DEVICE, "-x", server.ready["gid"], "-F", "-p", str(port)]
    far = ServerSide(command, folder / f"perftest-{port}.server")
    near = None
    try:
        deadline = time.monotonic() + 60
        while True:  # it connects once, and the other may not listen yet
            near = Process([*command, HOST], folder / f"perftest-{port}.client")
            out = output(near, 30)
            if near.returncode() == 0:
                break
            near.close()
            out += near.stderr()
            if not far.running():
                return 0, out  # they had met
            assert time.monotonic() < deadline, out
            time.sleep(0.1)
        assert far.wait(10) == 0, far.stderr()
        return rows(out)[0][column], out
    finally:
        for process in (near, far):
            if process:
                process.close()


def perftest(folder, server, *command, column=TYPICAL):
    """A figure of one program; its server is where kv-server is. perftest counts cycles, and where
    an emulated counter jumps it says 0, which is no figure; on a busy machine its far end may take
    the queue pair down before the near one has its acknowledgements. Then it is asked again."""
    for _ in range(3):
        figure, out = perftest_once(folder, server, command, column)
        if figure > 0:
            break
    assert figure > 0, out
    return figure


def ours(server, op, *args, tool="kv-lat"):
    """What kv-lat, or kv-bw, has of one size."""
    done = subprocess.run([program(tool), "-d", DEVICE, "--json", "-s", str(VALUE), "--op", op,
                           "--keys", str(KEYS), *args, server.address],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["results"][0]


def compare(mine, theirs, limit, figures, what, judged=not AGENT):
    """Rounds of two medians, each pair taken at once and in an order that alternates: a host whose
    speed changes between them spoils a round, in either direction. The median of the rounds'
    ratios is to be at most the limit, where it is judged."""
    rounds = []
    for i in range(ROUNDS if judged else 1):
        pair = [measure() for measure in ((mine, theirs) if i % 2 else (theirs, mine))]
        rounds.append(pair if i % 2 else pair[::-1])
    ratios = [a / b for a, b in rounds]
    ratio = statistics.median(ratios)
    figures("figures", f"{what.format(*(statistics.median(column) for column in zip(*rounds)))}:"
                       f" {ratio:.2f}, {f'at most {limit}' if judged else 'not judged here'}"
                       f" (rounds: {' '.join(f'{one:.2f}' for one in ratios)})")
    assert ratio <= limit or not judged, rounds


def test_get_against_ib_read_lat(world, tmp_path, record_property):
    server = world.server(memory="64M")
    block = str(ours(server, "get", "-n", "10")["block_bytes"])

    def get():
        got = ours(server, "get", "--no-hints", "-n", "500")
        assert got["reads_per_get"] == 2, "bucket, block"
        return got["lat_us"]["p50"]
    compare(get, lambda: perftest(tmp_path, server, "ib_read_lat", "-s", block, "-n", "500"),
            GET_MAX, record_property, f"GET {{:.1f}} us, ib_read_lat of {block} B {{:.1f}} us")


def test_warm_get_against_ib_read_lat(world, tmp_path, record_property):
    """Hints lead to all records: one READ."""
    server = world.server(memory="64M")
    block = str(ours(server, "get", "-n", "10")["block_bytes"])

    def get():
        got = ours(server, "get", "-n", "500")
        assert got["reads_per_get"] == pytest.approx(1, abs=0.02)
        return got["lat_us"]["p50"]
    compare(get, lambda: perftest(tmp_path, server, "ib_read_lat", "-s", block, "-n", "500"),
            WARM_GET_MAX, record_property,
            f"warm GET {{:.1f}} us, ib_read_lat of {block} B {{:.1f}} us")


@pytest.mark.parametrize("how", [[]] if not FULL else [[], ["--no-hints"]],
                         ids=lambda how: "index" if how else "warm")
def test_mget_against_single_gets(world, record_property, how):
    """The READs of an mget travel together. Promised between two machines; on one core that both
    ends share there is little to win, and it is printed."""
    server = world.server(memory="64M")

    def a_key(op, keys, calls):
        got = ours(server, op, "-n", str(calls), *how)
        assert got["reads_per_get"] == pytest.approx(2 if how else 1, abs=0.05)
        return got["lat_us"]["avg"] / keys  # what a rate is made of
    compare(lambda: a_key(f"mget:{MGET}", MGET, 50), lambda: a_key("get", 1, 500),
            1 / MGET_RATE_MIN, record_property,
            f"a key of an mget of {MGET} {'without' if how else 'with'} hints"
            " {:.1f} us, a single GET {:.1f} us", judged=bool(AGENT))


BESIDE = {  # what is measured, by which column of perftest's, in which unit, how
    "kv-lat": ("ib_read_lat", TYPICAL, lambda one: one["lat_us"]["p50"], "us", []),
    "kv-bw": ("ib_read_bw", BW_AVERAGE, lambda one: one["bw_avg_Bps"] / 2**20, "MiB/s",
              ["-t", "16"])}


@asserts
@pytest.mark.parametrize("size", [64, 16384])
@pytest.mark.parametrize("tool", BESIDE)
def test_floor_beside_perftest(world, tmp_path, record_property, tool, size):
    """What --raw calls the device alone is what perftest measures of it."""
    theirs, column, figure, unit, how = BESIDE[tool]
    server = world.server(memory="64M")
    rounds = []
    for _ in range(BESIDE_ROUNDS):
        got = ours(server, "get", "-s", str(size), "-n", "400", "--raw", *how, tool=tool)
        raw = got["raw"]
        assert raw["op"] == "read" and got["reads_per_get"] == pytest.approx(1, abs=0.02)
        rounds.append((figure(got), figure(raw), perftest(
            tmp_path, server, theirs, "-s", str(raw["bytes"]), "-n", "400", *how, column=column)))
    get, read, reference = (statistics.median(column) for column in zip(*rounds))
    ratio = statistics.median(one[1] / one[2] for one in rounds)
    record_property("figures", f"{tool} of {size} B: GET {get:.1f} {unit}, its raw READ of"
                    f" {raw['bytes']} B {read:.1f}, {theirs} {reference:.1f}: raw READ over it"
                    f" {ratio:.2f}, at most {BESIDE_MAX}, at least {1 / BESIDE_MAX}")
    assert 1 / BESIDE_MAX < ratio < BESIDE_MAX, rounds


@asserts
def test_put_against_ib_send_lat(world, tmp_path, record_property):
    server = world.server(memory="64M")
    how = ["ib_send_lat", *EVENTS, "-s", str(VALUE)]
    compare(lambda: ours(server, "put", "-n", "200")["lat_us"]["p50"],
            lambda: 2 * perftest(tmp_path, server, *how, "-n", "200"), PUT_MAX, record_property,
            f"PUT {{:.1f}} us, twice {' '.join(how)} {{:.1f}} us")
    if EVENTS:
        polling = perftest(tmp_path, server, "ib_send_lat", "-s", str(VALUE), "-n", "100")
        record_property("figures", f"ib_send_lat without -e {polling:.1f} us: its two processes"
                                   " keep the one core from each other")


@asserts
def test_user_time_of_the_server_under_gets(world, record_property):
    server = world.server(memory="64M")
    few = ["--keys", "50", "--no-hints"]  # putting and deleting them is not what is asked about
    ours(server, "get", "-n", "10", *few)
    spent = []
    for work in (lambda: time.sleep(CPU_SPAN_S),
                 lambda: got.update(ours(server, "get", "-D", str(CPU_SPAN_S), *few))):
        got = {}
        before = server.user_seconds()
        work()
        spent.append(server.user_seconds() - before)
    share = (spent[1] - spent[0]) / CPU_SPAN_S
    record_property("figures", f"user CPU of the server: {spent[0]:.2f} s in {CPU_SPAN_S} s idle, "
                               f"{spent[1]:.2f} s in {CPU_SPAN_S} s of {got['iterations']} GETs: "
                               f"{share:.2%} of a core, at most 1%")
    assert got["iterations"] > 1000
    assert share < 0.01


def test_ib_send_bw_runs_beside_the_server(world, tmp_path, record_property):
    """The device carries more than small messages; what it carried is printed."""
    server = world.server(memory="64M")
    cli = Cli(server.address)
    cli.put("beside", b"value")
    bandwidth = perftest(tmp_path, server, "ib_send_bw", "-s", "65536", "-n", "200",
                         column=BW_AVERAGE)
    record_property("figures", f"ib_send_bw of 64 KiB: {bandwidth:.1f} MB/s")
    assert bandwidth > 0
    assert cli.get("beside") == b"value"


@pytest.mark.skipif(bool(AGENT) or os.getuid() != 0,
                    reason="needs root on the server's machine, to become an ordinary user")
def test_low_memlock_limit_of_an_ordinary_user_is_explained(tmp_path):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gracekv-memlock-"))
    try:
        folder.chmod(0o755)
        for part in ("bin", "client"):  # where a program of a build looks for the library
            (folder / part).mkdir(mode=0o755)
        shutil.copy(BUILD / "client/libgracekv.so.0", folder / "client")
        copy = shutil.copy(program("kv-server"), folder / "bin")
        user = Process(["prlimit", "--memlock=65536:65536", "setpriv", f"--reuid={NOBODY}",
                        f"--regid={NOBODY}", "--clear-groups", copy, "--listen", f"{HOST}:0",
                        "--device", DEVICE, "--memory", "64M"], tmp_path / "stderr")
        assert user.read_line(10) is None, "it serves"
        assert user.wait(10) == 3
        said = user.stderr()
        assert said.count("\n") == 1 and said.startswith("kv-server: "), said
        for words in ("ibv_reg_mr", DEVICE, "Cannot allocate memory", "RLIMIT_MEMLOCK is 64 KiB",
                      "ulimit -l unlimited"):
            assert words in said, said
        user.close()
    finally:
        shutil.rmtree(folder)
