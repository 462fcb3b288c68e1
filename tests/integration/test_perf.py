# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-bw and kv-lat as programs: options, tables, documents, errors. Not what they measure."""
import json
import math
import re
import signal
import socket
import time

import pytest

from kvt_client import Cli, assert_error, run
from kvt_process import CONNECT, DEVICE, SLOW, Process, program, scaled, wait_until

BOTH = pytest.mark.parametrize("tool", ["kv-bw", "kv-lat"])
FEW = ["--keys", "40", "-n", str(scaled(200))]
HOW = ["-R"] if CONNECT == "cm" else []
HEADS = {
    "kv-bw": ["#bytes", "#iterations", "BW peak[MiB/sec]", "BW average[MiB/sec]", "MsgRate[Mpps]"],
    "kv-lat": ["#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]",
               "t_avg[usec]", "t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]"],
}
LAT = ["min", "p50", "avg", "stdev", "p99", "p999", "max"]
NUMBERS = {"size_bytes", "block_bytes", "keys", "tx_depth", "iterations", "missed", "duration_s",
           "ops_per_s", "bw_peak_Bps", "bw_avg_Bps", "msg_rate_Mpps", "reads_per_get",
           "hint_hit_rate", "server_cpu_s", "client_cpu_s"}
ALL_SIZES = [2 << i for i in range(23)]


def measure(tool, server, *words, seconds=60):
    return run([program(tool), "-d", DEVICE, *HOW, *words, server.address], seconds=seconds)


def table(tool, server, *words, seconds=60):
    """The lines of what is printed."""
    result = measure(tool, server, *words, seconds=seconds)
    assert result.rc == 0 and result.err == "", result.err
    return result.out.decode().splitlines()


def document(tool, server, *words, seconds=60):
    result = measure(tool, server, *words, "--json", seconds=seconds)
    assert result.rc == 0 and result.err == "", result.err
    return checked(json.loads(result.out), tool)


def checked_latencies(lat):
    assert list(lat) == LAT
    assert 0 < lat["min"] <= lat["p50"] <= lat["p99"] <= lat["p999"] <= lat["max"]
    assert lat["min"] <= lat["avg"] <= lat["max"] and lat["stdev"] >= 0


def checked(doc, tool):
    """A document as INTERFACE has it: all fields, their types, and what they say together."""
    assert (doc["tool"], doc["schema"]) == (tool, 1) and re.match(r"\d+\.\d+\.\d+", doc["version"])
    assert doc["device"] == DEVICE and doc["software_device"] == DEVICE.startswith("soft")
    assert isinstance(doc["gid_index"], int) and doc["mtu"] in (256, 512, 1024, 2048, 4096)
    assert {"device", "address", "version", "workers"} <= set(doc["server"])
    assert doc["parameters"]["rdma_cm"] == (CONNECT == "cm")
    for r in doc["results"]:
        assert NUMBERS | {"op", "retries", "lat_us"} <= set(r)
        for name in NUMBERS:
            assert isinstance(r[name], (int, float)) and math.isfinite(r[name]) and r[name] >= 0
        assert set(r["retries"]) == {"obsolete", "checksum", "stale_directory", "rpc_fallback"}
        assert r["ops_per_s"] == pytest.approx(r["iterations"] / r["duration_s"], rel=1e-3)
        values = int(r["op"].partition("mget:")[2] or 1)
        assert r["bw_avg_Bps"] == pytest.approx(r["ops_per_s"] * r["size_bytes"] * values, rel=1e-3)
        assert r["msg_rate_Mpps"] == pytest.approx(r["ops_per_s"] / 1e6, rel=1e-3)
        assert r["bw_peak_Bps"] >= r["bw_avg_Bps"] * 0.999 and r["block_bytes"] > r["size_bytes"]
        assert 0 <= r["hint_hit_rate"] <= 1
        checked_latencies(r["lat_us"])
        assert ("raw" in r) == ("over_raw" in r) == doc["parameters"]["raw"]
        if "raw" in r:
            assert {"op", "bytes", "ops_per_s", "bw_avg_Bps", "lat_us"} <= set(r["raw"])
            assert r["raw"]["ops_per_s"] > 0 and r["over_raw"] > 0
            checked_latencies(r["raw"]["lat_us"])
    return doc


def records(server):
    return Cli(server.address).stats()["records"]


@pytest.fixture(autouse=True)
def store_left_as_it_was(request):
    """Whatever a tool did, its records are gone."""
    if "shared" not in request.fixturenames:
        yield
        return
    server = request.getfixturevalue("shared")
    before = records(server)
    yield
    assert records(server) == before


@pytest.mark.soft_device
@BOTH
def test_table_lines_up_with_its_head(shared, tool):
    lines = table(tool, shared, *FEW, "-s", "2,64K", "--raw")
    at = next(i for i, line in enumerate(lines) if line.startswith(" #bytes"))
    head = lines[at]
    starts = [head.index(title) for title in HEADS[tool]]
    assert starts == sorted(starts)
    found = 0
    for line in lines[at + 1:]:
        if not re.match(r" \d", line):
            continue
        found += 1
        values = list(re.finditer(r"\S+", line))[:len(starts)]
        for value, start, title in zip(values, starts, HEADS[tool]):
            assert start <= value.start() < start + len(title), f"{head}\n{line}"
            float(value.group())
    assert found == 4, "a row and its floor, of two sizes"
    text = "\n".join(lines)
    assert len(re.findall(r"raw READ: get (is \d+\.\d\d of it|takes \d+\.\d\d times)", text)) == 2
    assert text.count("READs per GET 1.000") == 2
    assert ("software device" in text) == DEVICE.startswith("soft")
    assert f"Device          : {DEVICE}" in text and shared.address in text


@BOTH
def test_all_sizes(shared, tool):
    doc = document(tool, shared, "-a", "--keys", "2", "-n", "3", "-t" if tool == "kv-bw" else "-q",
                   "1", "--timeout", "60000", seconds=100)
    assert [r["size_bytes"] for r in doc["results"]] == ALL_SIZES
    assert all(r["iterations"] == 3 for r in doc["results"])
    assert doc["complete"] is True


@BOTH
@pytest.mark.parametrize("words, reads, hits", [
    ([], 1, 1), (["--no-hints"], 2, 0), (["--dist", "zipf:0.99"], 1, 1),
    (["--warm-up", "0.3", "--hints", "64K"], 1, 1)])
def test_reads_per_get(shared, tool, words, reads, hits):
    r = document(tool, shared, *FEW, "-s", "99", *words)["results"][0]
    assert r["op"] == "get" and r["iterations"] == scaled(200)
    assert r["reads_per_get"] == pytest.approx(reads, abs=0.02)
    assert r["hint_hit_rate"] == pytest.approx(hits, abs=0.02)


@BOTH
def test_room_for_few_hints(shared, tool):
    """256 sets of 4 for 4000 keys, asked for by Zipf's law: more READs, not as many as without."""
    r = document(tool, shared, "--keys", "4000", "-s", "8", "--dist", "zipf:0.99", "--hints", "16K",
                 "--warm-up", "0.3", "-n", str(scaled(20000)))["results"][0]
    assert 1.1 < r["reads_per_get"] < 1.9


@BOTH
def test_floor_of_cold_gets(shared, tool):
    """A bucket's READ and a block's, as of the GET itself."""
    r = document(tool, shared, *FEW, "-s", "64", "--no-hints", "--raw")["results"][0]
    assert r["reads_per_get"] == pytest.approx(2, abs=0.02)
    assert (r["raw"]["op"], r["raw"]["bytes"]) == ("reads", 256 + r["block_bytes"])
    assert r["raw"]["iterations"] == scaled(200)


@BOTH
def test_idle_server_and_the_server_of_the_environment(shared, tool):
    words = [*FEW, "-s", "64", "--idle", "0.3", "--raw-checksum", "--json"]
    result = run([program(tool), "-d", DEVICE, *HOW, *words],
                 env={"GRACEKV_SERVER": shared.address})
    assert result.rc == 0, result.err
    (r,) = checked(json.loads(result.out), tool)["results"]
    assert 0.3 <= r["idle"]["duration_s"] < 3 * SLOW and r["raw"]["op"] == "read"
    assert 0 <= r["idle"]["server_cpu_s"] < 0.5 * r["idle"]["duration_s"]


@BOTH
@pytest.mark.parametrize("size, floor", [(64, "send"), (8192, "send"), (20000, "read")])
def test_puts_and_their_floor(shared, tool, size, floor):
    r = document(tool, shared, *FEW, "--op", "put", "-s", str(size), "--raw")["results"][0]
    assert r["op"] == "put" and r["reads_per_get"] == 0
    assert r["raw"]["op"] == floor
    assert r["raw"]["bytes"] >= size and r["raw"]["iterations"] >= scaled(200)


def test_mget(shared):
    r = document("kv-lat", shared, *FEW, "--op", "mget:9", "-s", "64")["results"][0]
    assert (r["op"], r["iterations"]) == ("mget:9", scaled(200))
    assert r["reads_per_get"] == pytest.approx(1, abs=0.02), "of each key"


@BOTH
@pytest.mark.parametrize("words", [
    ["-q", "3", "--threads", "2"], ["-e", "-q", "2"], ["-e", "--op", "put"], ["-e", "--raw"],
    ["-e", "--op", "put", "--raw", "-q", "2"], ["-I", "0", "--op", "put"],
    ["-F", "--op", "mixed:0.75"], ["--no-hints", "--raw", "-e", "-q", "2"]])
def test_ways(shared, tool, words):
    doc = document(tool, shared, *FEW, "-s", "64", *words)
    qps = doc["parameters"]["qps"]
    assert doc["results"][0]["iterations"] == qps * scaled(200)


@pytest.mark.parametrize("words", [
    ["-t", "5", "-l", "5", "-Q", "5"], ["-t", "9", "-l", "4", "-Q", "7", "--raw"],
    ["-t", "1", "--raw"], ["-l", "64", "--raw", "-q", "3"], ["-t", "1", "--raw", "--no-hints"],
    ["-l", "64", "--raw", "--no-hints", "-Q", "9"],
    ["--op", "put", "-l", "5", "-Q", "20", "--raw"]])
def test_flight(shared, words):
    doc = document("kv-bw", shared, *FEW, "-s", "64", *words)
    r = doc["results"][0]
    assert r["iterations"] == doc["parameters"]["qps"] * scaled(200)
    assert "raw" not in r or r["raw"]["iterations"] == r["iterations"]


@BOTH
@pytest.mark.parametrize("seed", ["7", "9", "10"])
def test_floor_of_puts_whose_completions_come_late(shared, tool, seed):
    """After its reply: not taken for one of the raw READs and SENDs that follow."""
    if not DEVICE.startswith("soft"):
        pytest.skip("only the software device can be told to be late")
    result = run([program(tool), "-d", DEVICE, *HOW, "--keys", "40", "-n", "200", "--op", "put",
                  "-s", "64,9K", "-q", "3", "--raw", "--rounds", "4", "--json", shared.address],
                 env={"SOFTRDMA_WEAK": seed})
    assert result.rc == 0, result.err
    for r in checked(json.loads(result.out), tool)["results"]:
        assert r["raw"]["iterations"] == r["iterations"] == 600


@BOTH
def test_duration(shared, tool):
    words = ["-Q", "50", "-l", "3"] if tool == "kv-bw" else []
    r = document(tool, shared, "--keys", "40", "-s", "64", "-D", "0.3", "--raw",
                 *words)["results"][0]
    assert 0.25 < r["duration_s"] < 3 * SLOW
    assert r["iterations"] > 10 and r["raw"]["iterations"] > 10


@pytest.mark.soft_device
@BOTH
def test_histogram_and_unsorted(shared, tool):
    count = scaled(200)
    lines = table(tool, shared, *FEW, "-s", "64", "-H", "-U")
    at, end = lines.index("#usec, count, cumulative %"), lines.index("#, usec")
    cells = [[float(x) for x in line.split(", ")] for line in lines[at + 1:end]]
    assert sum(cell[1] for cell in cells) == count and cells[-1][2] == 100
    assert cells == sorted(cells) and all(a[2] < b[2] for a, b in zip(cells, cells[1:]))
    kept = [line.split(", ") for line in lines[end + 1:-1]]
    assert [int(number) for number, _ in kept] == list(range(1, count + 1))
    assert max(float(us) for _, us in kept) <= cells[-1][0]
    doc = document(tool, shared, "--keys", "40", "-D", "0.1", "-s", "64", "-H")
    r = doc["results"][0]
    assert sum(cell[1] for cell in r["histogram"]) == r["iterations"]
    doc = document(tool, shared, *FEW, "-s", "8,64", "-U")
    one, two = (r["unsorted_us"] for r in doc["results"])
    assert len(one) == len(two) == count and one != two


def unsorted(lines):
    """What -U prints of each size."""
    return [[float(us) for us in re.findall(r"^\d+, (\S+)$", part, re.M)]
            for part in re.split(r"^#, usec$", "\n".join(lines), flags=re.M)[1:]]


@pytest.mark.soft_device
def test_unsorted_are_of_their_size_alone(shared):
    """Neither those of the size before, nor of what the device does alone."""
    lines = table("kv-lat", shared, *FEW, "-s", "64,128K", "--raw", "--rounds", "4", "-U")
    rows = [line.split() for line in lines if re.match(r" (64|131072) ", line)]
    for row, kept in zip(rows, unsorted(lines), strict=True):
        assert len(kept) == scaled(200)
        assert min(kept) == pytest.approx(float(row[2]), abs=0.006), row
        assert max(kept) == pytest.approx(float(row[3]), abs=0.006), row


@pytest.mark.soft_device
@BOTH
def test_cycles(shared, tool):
    result = measure(tool, shared, *FEW, "-s", "64", "-C")
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        flags = next((set(line.split()) for line in info if line.startswith("flags")), set())
    if {"constant_tsc", "nonstop_tsc"} <= flags:
        assert result.rc == 0 and b"cycles" in result.out and b"usec" not in result.out
    else:
        assert_error(result, 3, "constant_tsc", who=tool)


@pytest.mark.soft_device
@BOTH
def test_document_in_a_file(shared, tool, tmp_path):
    name = tmp_path / "out.json"
    result = measure(tool, shared, *FEW, "-s", "8,64", "--report_gbits", f"--out_json_file={name}")
    assert result.rc == 0 and b"#bytes" in result.out
    doc = checked(json.loads(name.read_text()), tool)
    assert [r["size_bytes"] for r in doc["results"]] == [8, 64]
    assert (b"BW peak[Gb/sec]" in result.out) == (tool == "kv-bw")
    result = measure(tool, shared, *FEW, "--out_json_file=/nowhere/x")
    assert_error(result, 3, "/nowhere/x", "No such file", who=tool)


@pytest.mark.kernel_device
@BOTH
def test_queue_pairs_by_the_rdma_cm(world, tool):
    server = world.server(memory="64M", connect="cm")
    result = run([program(tool), "-R", "-d", DEVICE, *FEW, "-s", "64", "--json", "--raw",
                  server.address])
    assert result.rc == 0, result.err
    assert json.loads(result.out)["parameters"]["rdma_cm"] is True


@pytest.mark.soft_device
@BOTH
def test_no_rdma_cm_on_soft0(shared, tool):
    result = run([program(tool), "-R", "-d", DEVICE, shared.address])
    assert_error(result, 3, "by the CM", "soft0", who=tool)


@pytest.mark.soft_device  # elsewhere a server may take long to grow
def test_few_keys_of_large_values(world):
    server = world.server(memory="64M")
    r = document("kv-bw", server, "-s", "1M", "--keys", "500", "-n", "5")["results"][0]
    assert 1 <= r["keys"] <= 16 and r["iterations"] == 5


@pytest.mark.soft_device
def test_records_that_are_kept(shared):
    """A run that names them takes them over, and they stay; others of that name are put right."""
    cli = Cli(shared.address)
    before = records(shared)
    mine = ["--keys", "3", "-n", "10", "-s", "64", "--name", "mine"]
    document("kv-lat", shared, *mine, "--keep")
    assert records(shared) == before + 3
    cli.put("mine.64.1", b"other")
    document("kv-bw", shared, *mine, "--op", "put")
    assert records(shared) == before + 3
    assert len(cli.get("mine.64.1")) == 64
    for i in range(3):
        cli.good("del", f"mine.64.{i}")


class Measuring:
    """kv-bw and kv-lat at once on one server, until they end."""

    def __init__(self, world, server, words):
        self.world, self.server, self.words = world, server, words
        self.running = {}

    def __enter__(self):
        before = records(self.server)
        for tool, words in self.words.items():
            self.running[tool] = Process(
                [program(tool), "-d", DEVICE, *HOW, "--keys", "20", "-s", "64", "--json", *words,
                 self.server.address], self.world.folder / f"{tool}.stderr")
        wait_until("their records are there", lambda: records(self.server) >= before + 40, 20)
        time.sleep(1)  # hints are waited for, and 0.2 s of warming up
        return self

    def end(self, tool, code):
        """Its document, or None, and what it said."""
        it = self.running[tool]
        text = "".join(iter(lambda: it.read_line(30) or "", ""))
        assert it.wait(30) == code, it.stderr()
        return checked(json.loads(text), tool) if text else None, it.stderr()

    def __exit__(self, *_):
        for it in self.running.values():
            it.close()


RATE, SPAN, STALL_S = 400, 3, 0.3


@pytest.mark.soft_device
def test_a_stall_shows_in_all_that_should_have_started(world):
    """A server that stands still, under PUTs at a fixed rate: in a tenth of the operations, not
    in the one alone that was on its way."""
    server = world.server(memory="64M")
    words = ["--op", "put", "--rate", str(RATE), "-D", str(SPAN)]
    with Measuring(world, server, {"kv-lat": words, "kv-bw": [*words, "-t", "1"]}) as them:
        server.stop_threads()
        time.sleep(STALL_S)
        server.signal(signal.SIGCONT)
        for tool in ("kv-lat", "kv-bw"):
            (r,) = them.end(tool, 0)[0]["results"]
            assert r["iterations"] + r["missed"] == RATE * SPAN
            assert r["lat_us"]["p99"] > STALL_S * 0.8 * 1e6
            assert r["lat_us"]["stdev"] > STALL_S * 0.05 * 1e6


@pytest.mark.soft_device
def test_asleep_while_nothing_can_be_started(world):
    """-e: what is due and has no room waits without burning a core."""
    server = world.server(memory="64M")
    words = ["--op", "put", "-e", "--rate", "50", "-D", "2"]
    with Measuring(world, server, {"kv-lat": words, "kv-bw": [*words, "-t", "1"]}) as them:
        server.stop_threads()
        time.sleep(1.2)
        server.signal(signal.SIGCONT)
        for tool in ("kv-lat", "kv-bw"):
            (r,) = them.end(tool, 0)[0]["results"]
            assert r["lat_us"]["max"] > 1e6 and r["client_cpu_s"] < 0.5, tool


@pytest.mark.soft_device
def test_server_killed_in_the_middle(world):
    server = world.server(memory="64M")
    words = {"kv-bw": ["-D", "60"], "kv-lat": ["-D", "60", "--op", "put", "--raw"]}
    with Measuring(world, server, words) as them:
        server.crash()
        for tool in words:
            _, said = them.end(tool, 3)
            assert json.loads(said)["what"] == "measuring" and said.count("\n") == 1, said


@pytest.mark.soft_device
def test_a_rate_that_is_too_high_ends(shared):
    doc = document("kv-bw", shared, "--keys", "40", "-s", "64", "--op", "put", "-D", "0.1",
                   "--rate", "1e8", "-H")
    (r,) = doc["results"]
    assert r["missed"] > 0 and r["duration_s"] < 10 * SLOW
    assert sum(cell[1] for cell in r["histogram"]) == r["iterations"] + r["missed"], \
        "those that never started count with the time they waited"


@BOTH
def test_a_rate_is_held(shared, tool):
    r = document(tool, shared, "--keys", "40", "-s", "64", "--rate", "500", "-D", "0.4", "-e",
                 "-q", "2", "--threads", "2")["results"][0]
    assert r["iterations"] + r["missed"] == 200
    assert r["duration_s"] > 0.38


@BOTH
def test_mtu_that_the_other_end_has_not(world, tool):
    server = world.server("--mtu", "512", memory="64M")
    result = measure(tool, server, *FEW, "-m", "1024")
    assert_error(result, 3, "MTU of 1024", "512", "-m 512", who=tool)
    assert document(tool, server, *FEW, "-s", "8", "-m", "512")["mtu"] == 512


@BOTH
def test_what_is_not_there(shared, tool):
    result = run([program(tool), "-d", "nope0", shared.address])
    assert_error(result, 3, "nope0", who=tool)
    result = run([program(tool), "-d", DEVICE, "127.0.0.1:1"])
    assert_error(result, 3, "127.0.0.1:1", "refused", who=tool)
    result = measure(tool, shared, *FEW, "-I", "60000")
    assert_error(result, 3, "60000 bytes inline", who=tool)


@pytest.mark.soft_device
@BOTH
def test_nobody_answers(tool):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        result = run([program(tool), "-d", DEVICE, "--timeout", "300",
                      f"127.0.0.1:{silent.getsockname()[1]}"])
        assert_error(result, 3, "did not answer in time", who=tool)
        assert time.monotonic() - began < 4, "the library's own time is 5 s"


@pytest.mark.soft_device
@BOTH
def test_interrupt(shared, tool):
    """What there is by then is told, and the records go."""
    before = records(shared)
    it = Process([program(tool), "-d", DEVICE, *HOW, "-D", "60", "-s", "64,65", "--keys", "20",
                  "--json", shared.address], shared.stderr_path.parent / "stderr")
    try:
        wait_until("it measures", lambda: records(shared) == before + 20, 20)
        time.sleep(1 * SLOW)
        it.signal(signal.SIGINT)
        text = "".join(iter(lambda: it.read_line(20) or "", ""))
        assert it.wait(20) == 3
        doc = checked(json.loads(text), tool)
        assert doc["complete"] is False and [r["size_bytes"] for r in doc["results"]] == [64]
        assert json.loads(it.stderr())["what"] == "interrupted"
    finally:
        it.close()
