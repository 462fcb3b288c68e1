# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The benchmarks as programs: options, exit codes, documents. Not what they measure."""
import json

import pytest

from kvt_client import assert_error, run
from kvt_process import CONNECT, DEVICE, HOST, program

NAMES = ["get-bench", "growth-bench", "lat-bench", "soft-bench"]


@pytest.mark.no_device
@pytest.mark.parametrize("name", NAMES)
def test_help_and_version(name):
    for flag in ("--help", "-h"):
        result = run([program(name), flag])
        assert result.rc == 0 and result.err == ""
        assert result.out.startswith(f"Usage: {name} ".encode())
    for flag in ("--version", "-V"):
        result = run([program(name), flag])
        assert result.rc == 0 and result.out.startswith(name.encode() + b" ")
    result = run([program(name), "--frobnicate"])
    assert result.rc == 2 and result.out == b"" and "Usage: " in result.err


@pytest.mark.no_device
@pytest.mark.parametrize("name, words, said", [
    ("get-bench", ["a"], "no arguments"), ("get-bench", ["-n", "0"], "100000000"),
    ("get-bench", ["--rounds", "100"], "1 to 99"), ("get-bench", ["-C", "pigeon"], "tcp|cm"),
    ("get-bench", ["--connect", "tc"], "tcp|cm"), ("get-bench", ["-C", "tcp|cm"], "tcp|cm"),
    ("growth-bench", ["-T", "9"], "10 to 10000"), ("growth-bench", ["a"], "no arguments"),
    ("growth-bench", ["-b", "9", "-k", "9"], "--start"),
    ("growth-bench", ["-v", "7"], "8 to 65536"),
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
