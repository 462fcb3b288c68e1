# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The benchmarks as programs: options, exit codes, documents. Not what they measure."""
import json
import re

import pytest

from kvt_client import assert_error, run
from kvt_process import CONNECT, DEVICE, HOST, program

NAMES = ["get-bench", "grace-bench", "growth-bench", "index-bench", "lat-bench", "soft-bench"]


@pytest.mark.no_device
@pytest.mark.parametrize("name", NAMES)
def test_help_and_version(name):
    for flag in ("--help", "-h"):
        result = run([program(name), flag])
        assert result.rc == 0 and result.err == ""
        assert result.out.startswith(f"Usage: {name} ".encode())
    for flag in ("--version", "-V"):
        result = run([program(name), flag])
        assert result.rc == 0 and re.match(name.encode() + rb" \S+ \(libibverbs \S+, liburcu \S+, "
                                           rb"layout \d+ hash [0-9a-f]{16}\)\n$", result.out)
    result = run([program(name), "--frobnicate"])
    assert result.rc == 2 and result.out == b"" and "Usage: " in result.err


@pytest.mark.no_device
@pytest.mark.parametrize("name, words, said", [
    ("get-bench", ["a"], "no arguments"), ("get-bench", ["-n", "0"], "100000000"),
    ("get-bench", ["--rounds", "100"], "1 to 99"), ("get-bench", ["-C", "pigeon"], "tcp|cm"),
    ("get-bench", ["--connect", "tc"], "tcp|cm"), ("get-bench", ["-C", "tcp|cm"], "tcp|cm"),
    ("grace-bench", ["-w", "1"], "2 to 14"), ("grace-bench", ["-L", "99"], "100 to 60000"),
    ("grace-bench", ["-C", "pigeon"], "tcp|cm"), ("grace-bench", ["a"], "no arguments"),
    ("grace-bench", ["-L", "60000", "-T", "5"], "at most 4096 slices"),
    ("grace-bench", ["-L", "10000", "-T", "5", "-r", "17"], "all rounds 65536"),
    ("growth-bench", ["-T", "9"], "10 to 10000"), ("growth-bench", ["a"], "no arguments"),
    ("growth-bench", ["-b", "9", "-k", "9"], "--start"),
    ("growth-bench", ["-v", "7"], "8 to 65536"),
    ("index-bench", ["-v", "7"], "8 to 1024"), ("index-bench", ["-v", "12"], "multiple of 8"),
    ("index-bench", ["-t", "tree"], "order|chunk|mmap"), ("index-bench", ["-g", "65"], "1 to 64"),
    ("index-bench", ["--check", "--quick"], "all phases"), ("index-bench", ["-cC"], "by the clock"),
    ("lat-bench", [], "HOST:PORT"), ("lat-bench", ["a", "b"], "HOST:PORT"),
    ("lat-bench", ["--op", "", "a"], "get|put"), ("lat-bench", ["-v", "x", "a"], "not a number"),
    ("soft-bench", ["-a", "1023K"], "1048576"), ("soft-bench", ["--area", "65G"], "out of range"),
    ("soft-bench", ["-a", "x"], "not a size"), ("soft-bench", ["a"], "no arguments"),
])
def test_wrong_usage(name, words, said):
    result = run([program(name), *words])
    assert_error(result, 2, who=name)
    assert said in result.err


@pytest.mark.parametrize("op", ["get", "put"])
def test_document_of_lat_bench(shared, op):
    result = run([program("lat-bench"), "-d", DEVICE, "--op", op, "-n", "40", "-k", "10", "-v",
                  "99", "--json", shared.address], env={"GRACEKV_CONNECT": CONNECT})
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert (d["tool"], d["schema"], d["op"], d["calls"]) == ("lat-bench", 1, op, 40)
    assert d["value_bytes"] == 99 and d["block_bytes"] >= 99
    assert 0 < d["lat_us"]["min"] <= d["lat_us"]["p50"] <= d["lat_us"]["p999"]


@pytest.mark.soft_device
def test_document_of_get_bench():
    result = run([program("get-bench"), "-d", DEVICE, "-l", HOST, "-M", "64M", "-k", "200", "-r",
                  "1", "-n", "50", "-c", "0", "-j"], seconds=60)
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert (d["tool"], d["schema"], d["device"]) == ("get-bench", 1, DEVICE)
    assert d["keys"] == d["records"] == 200 and d["reads_per_get"] == pytest.approx(2)


@pytest.mark.soft_device
def test_document_of_grace_bench():
    result = run([program("grace-bench"), "-d", DEVICE, "-l", HOST, "-M", "64M", "-k", "1000", "-r",
                  "1", "-L", "300", "-i", "1", "-w", "2", "-j"], seconds=60)
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert (d["tool"], d["schema"], d["device"]) == ("grace-bench", 1, DEVICE)
    assert d["errors"] == 0 and isinstance(d["promises_kept"], bool)
    stop, cap, idle, cost = (d[part] for part in ("stop", "cap", "idle", "cost"))
    assert stop["slices"] > 2 and stop["slices_one_stopped"] > 2 and stop["ratio"] > 0
    assert 300 <= stop["fenced_after_beat_ms"]["min"] <= stop["fenced_after_beat_ms"]["max"]
    assert 290 < stop["fenced_after_ms"]["min"] <= stop["fenced_after_ms"]["max"]
    assert stop["back_after_ms"]["min"] > 0
    assert 0 < cap["deferred_bytes_most"] < cap["deferred_bytes_max"] == 16 << 20
    assert cap["fences"] >= 1 and cap["puts_per_s_two_stuck"]["min"] > 0
    assert (idle["handles"], idle["reads"], idle["requests"]) == (10, 0, 0)
    assert idle["messages_per_s"] == pytest.approx(2 * idle["rounds_per_s"], rel=0.5)
    assert cost["reads_per_get"] == cost["reads_per_get_at_rest"] == pytest.approx(2, abs=0.01)
    assert cost["housekeeper_messages_per_get"] > 0


@pytest.mark.soft_device
def test_document_of_soft_bench():
    result = run([program("soft-bench"), "-a", "1M", "-r", "1", "-n", "16", "-j"], seconds=60)
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert (d["tool"], d["schema"], d["area_bytes"]) == ("soft-bench", 1, 1 << 20)


@pytest.mark.soft_device
@pytest.mark.parametrize("rate", [[], ["-R", "100000"]])
def test_document_of_growth_bench(rate):
    result = run([program("growth-bench"), "-b", "1000", "-k", "30000", "-T", "50", "-M", "256M",
                  "-j", *rate], seconds=60)
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert (d["tool"], d["schema"], d["device"]) == ("growth-bench", 1, "soft0")
    assert d["keys"] == d["index_after"]["records"] == 30000 and d["rounds"] >= 1
    assert d["inserts_us"]["count"] == 29000 and d["overwrites_us"]["count"] > 0
    for kind in ("still", "growing", "overwriting"):
        lat = d["gets"][kind]["lat_us"]
        assert 0 < lat["p50"] <= lat["p99"] <= lat["p999"] <= lat["max"] and lat["count"] > 0
        assert d["gets"][kind]["reads_per_get"] >= 2
    assert d["p999_growing_over_still"] > 0 and isinstance(d["promises_kept"], bool)


@pytest.mark.soft_device
def test_growth_bench_says_that_a_store_is_full():
    result = run([program("growth-bench"), "-b", "1000", "-k", "1000000", "-M", "16M"], seconds=60)
    assert_error(result, 3, who="growth-bench")
    assert "--memory" in result.err


PHASES = ["insert", "lookup", "lookup_read", "lookup_single", "lookup_absent", "delete"]
TIMED = ["insert_one_writer", "delete_one_writer", "insert_writers", "delete_writers"]


@pytest.mark.no_device
def test_document_of_index_bench():
    result = run([program("index-bench"), "-n", "3000", "-l", "1500", "-r", "2", "-w", "3", "-j"],
                 seconds=120)
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert (d["tool"], d["schema"], d["records"], d["lookups"]) == ("index-bench", 1, 3000, 1500)
    for name in PHASES + TIMED:
        assert d[name]["ratio"] > 0
        for side in ("gracekv", "cds_lfht"):
            one = d[name][side]
            assert 0 < one["ns_min"] <= one["ns_median"] <= one["ns_max"]
            if name in TIMED:
                assert one["ns_p50"] <= one["ns_p99"] <= one["ns_p999"] <= one["ns_longest"]
    record = d["a_record"]
    assert record["block_bytes"] == 128 and record["block_rounding_bytes"] == 0
    # 64 segments and their directory are the least
    assert record["index_bytes_used"] * 3000 == pytest.approx(64 * 20480 + 576, rel=0.01)
    assert record["bytes"] == pytest.approx(
        48 + record["index_bytes_committed"] + record["heap_bytes"], rel=1e-4)
    huge = d["hugepages"]
    assert huge["needed"] > 0
    assert huge["gracekv_extents"]["bytes"] >= record["index_bytes_used"] * 3000
    assert huge["cds_lfht_records"]["bytes"] >= 3000 * (16 + 16 + 64)
    for part in ("gracekv_extents", "cds_lfht_records", "heap"):
        assert 0 <= huge[part]["huge_bytes"] <= huge[part]["bytes"]


@pytest.mark.no_device
@pytest.mark.parametrize("words", [["-v", "8"], ["-g", "1", "-t", "mmap"], ["-b", "-t", "chunk"],
                                   ["-C", "-v", "1024"]])
def test_table_of_index_bench(words):
    result = run([program("index-bench"), "-n", "2000", "-r", "1", "-q", *words], seconds=120)
    assert result.rc == 0, result.err
    lines = result.out.decode().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("operation "))
    rows = lines[head + 1:head + 1 + 2 * len(PHASES)]
    at = lines[head].index("table")
    assert [row[at:].split()[0] for row in rows] == ["GraceKV", "cds_lfht"] * len(PHASES)
    assert "writer" not in rows[-1] and "bytes a record: header 48" in result.out.decode()


@pytest.mark.no_device
def test_index_bench_checks_with_hugepages_only():
    """No machine has them for 10^9 records; what it says is how many, and how to get them."""
    result = run([program("index-bench"), "-n", "1000000000", "-r", "1", "--check"])
    assert_error(result, 3, who="index-bench")
    assert "hugepages of 2 MiB" in result.err and "/proc/sys/vm/nr_hugepages" in result.err
