# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The benchmarks as programs: options, exit codes, documents. Not what they measure."""
import json
import re
import shutil
import sys
import types

import pytest

from kvt_client import assert_error, run
from kvt_gate import BY_NAME, FOLDER, gate_reads
from kvt_process import BUILD, DEVICE, HOST, program


@pytest.mark.no_device
@pytest.mark.parametrize("name, words, said", [
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
    ("soft-bench", ["-a", "1023K"], "1048576"), ("soft-bench", ["--area", "65G"], "out of range"),
    ("soft-bench", ["-a", "x"], "not a size"), ("soft-bench", ["a"], "no arguments"),
])
def test_wrong_usage(name, words, said):
    result = run([program(name), *words])
    assert_error(result, 2, who=name)
    assert said in result.err


def assert_spread(one):
    assert 0 < one["min"] <= one["median"] <= one["max"]


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
    gate_reads("grace", d)


@pytest.mark.soft_device
def test_document_of_soft_bench():
    result = run([program("soft-bench"), "-a", "1M", "-r", "3", "-n", "160", "-j"], seconds=60)
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    for name in ("mapped_list_over_memcpy", "private_over_private_list", "kernel_over_kernel_list",
                 "private_over_neighbours", "private_list_over_kernel_list"):
        assert d[name]["ratio"] > 0
        assert_spread(d[name]["ratio_by_rounds"])
    gate_reads("soft", d)
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
    rounds = d["p999_growing_over_still_by_rounds"]  # 0: no GET came through in a slice
    assert 0 <= rounds["min"] <= rounds["median"] <= rounds["max"]
    gate_reads("growth", d)


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
        assert_spread(d[name]["ratio_by_rounds"])
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
    gate_reads("index", d)
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


def reads(name, tool, server, *words):
    """The gate finds its figures in what a program really prints."""
    done = run([program(tool), *words, "-n", "500", "--json"], env={"GRACEKV_SERVER": server})
    assert done.rc == 0, done.err
    return [figure.value for figure in gate_reads(name, json.loads(done.out))]


@pytest.mark.soft_device
def test_real_documents_of_kv_lat_and_kv_bw_are_read(world):
    """By the gate's own words, but for fewer keys and operations."""
    server = world.server(memory="64M").address
    options = types.SimpleNamespace(quick=False, build=BUILD, device=DEVICE, host=HOST)
    for name in "get", "warm", "depth", "zipf", "zipf-few":
        words, at = [], iter(BY_NAME[name].words(options))
        for word in at:
            if word in ("-D", "--warm-up", "--idle", "--rounds", "--keys", "--name"):
                next(at)
            else:
                words.append(word)
        words = [one for one in words if one != "--keep"] + ["--keys", "300", "--idle", "0.1"]
        figures = reads(name, BY_NAME[name].title(), server, *words)
        assert all(0 <= one < 100 for one in figures), figures
        if "zipf" in name:
            assert figures == [pytest.approx(1, abs=0.1)]


@pytest.mark.soft_device
@pytest.mark.skipif(not all(map(shutil.which, ("redis-server", "redis-cli", "redis-benchmark"))),
                    reason="Redis is not installed (Debian: redis-server, redis-tools)")
def test_redis_is_asked_for_the_same_keys(tmp_path):
    script = str(FOLDER / "redis")
    words = ["--build", str(BUILD), "--keys", "2000", "--rounds", "2", "--seconds", "0.1"]
    done = run([script, *words], seconds=60)
    assert done.rc == 0, done.err
    doc = json.loads(done.out)
    for one in doc["figures"].values():
        assert 0 < one["min"] <= one["median"] <= one["max"]
    assert doc["keys"] == 2000 and re.match(r"\d+\.", doc["redis"])
    gate_reads("redis", doc)
    (tmp_path / "python3").symlink_to(sys.executable)
    doc = json.loads(run([script, *words], env={"PATH": str(tmp_path)}).out)
    assert "redis-server is not installed" in doc["no_redis"]
