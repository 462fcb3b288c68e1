# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-bench as a program: options, exit codes, tables, document, report. Not what it measures."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import xml.etree.ElementTree as xml

import pytest

from kvt_client import assert_error, run, sentence
from kvt_process import AGENT, CONNECT, DEVICE, HOST, Process, program, scaled, wait_until

NAME = "kv-bench"
SVG = "{http://www.w3.org/2000/svg}"
SMALL = ["-d", DEVICE, "-l", HOST, "-k", "300", "-v", "10", "-n", str(scaled(200)), "-r", "2"]
ALL = ["gracekv", "redis-unix", "redis-tcp", "memcached", "tcp"]
WORKLOADS = ["A", "B", "C", "D", "F"]
WRITES = {"A": "update", "B": "update", "D": "insert", "F": "read-modify-write"}

peers = pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("memcached")),
    reason="redis-server or memcached is not installed (Debian's packages of these names)")


def bench(*words, seconds=60, **how):
    return run([program(NAME), *words], seconds=seconds, **how)


def document(*words, **how):
    result = bench(*SMALL, *words, "--json", **how)
    said = [line for line in result.err.splitlines() if "no authentication yet" not in line]
    assert result.rc == 0 and not said, result.err  # kv-server's warning beyond loopback
    return json.loads(result.out)


@pytest.mark.soft_device
def test_the_server_of_the_environment_is_left_alone():
    """It may be somebody's store, and records are loaded: that takes --server."""
    doc = document("-w", "C", env={"GRACEKV_SERVER": "127.0.0.1:1"})
    assert [one["name"] for one in doc["systems"]] == ["gracekv"] and doc["cells"]


@pytest.mark.no_device
@pytest.mark.parametrize("words, said", [
    (["--recods=4"], "did you mean --records?"), (["-jk"], "-k wants a value"), (["-jZ"], "-Z is"),
    (["a"], "no arguments"), (["-w", "A,E"], "ordered ranges"), (["-w", "e"], "ordered ranges"),
    (["-w", "G"], "none of A, B, C, D, F"), (["-w", ""], "empty"), (["-w", "A,a"], "twice"),
    (["-p", "mysql"], "none of redis, memcached, tcp, all"), (["-p", "redis,"], "empty"),
    (["-p", "redis,"] + ["-p", "tcp"] * 80, "too long"), (["-k", "0"], "1 to 1000000000"),
    (["-T", "65"], "1 to 64"), (["-T", "5", "-k", "4"], "fewer than --threads"),
    (["-D", "1025"], "1 to 1024"), (["-t", "0"], "0.01 to 3600"), (["-t", "nan"], "0.01 to 3600"),
    (["-r", "100"], "1 to 99"), (["-f", "1000", "-v", "2000"], "at most 1048576"),
    (["-T", "64", "-D", "64", "-v", "100000"], "too many"), (["--sizes", "64,64"], "rising"),
    (["--sizes", "2M"], "1 to 1048576"), (["--sizes", "x"], "not a size"),
    (["--sizes", "1,2,3,4,5,6,7,8,9,10,11,12,13"], "more than 12"),
    (["--depths", "0"], "1 to 1024"),
    (["--distribution", "even"], "uniform|zipfian|latest"), (["--target", "0"], "1 to 1000000000"),
    (["--check"], "give both by --peer"), (["--check", "-p", "redis"], "give both by --peer"),
    (["--check", "-p", "redis,memcached", "--sizes", "64"], "wants both"),
    (["-s", "localhost", "-B", "kv-server"], "do not go together"),
])
def test_wrong_usage(words, said):
    result = bench(*words)
    assert_error(result, 2, who=NAME)
    assert said in result.err


def is_spread(s):
    return 0 < s["min"] <= s["median"] <= s["max"]


def check_cell(cell, name, workload, depth, system):
    assert (cell["system"], cell["workload"], cell["depth"]) == (name, workload, depth)
    assert cell["rounds"] == 2 and is_spread(cell["ops_per_s"])
    assert cell["missing"] == cell["wrong"] == cell["not_started"] == 0
    assert set(cell["lat_us"]) <= {"read", WRITES.get(workload)}
    assert cell["operations"] == sum(one["count"] for one in cell["lat_us"].values())
    for one in cell["lat_us"].values():
        assert 0 <= one["p50"] <= one["p90"] <= one["p99"] <= one["p999"] <= one["p9999"]
        assert one["p9999"] <= one["max"]
    assert cell["client_cpu_s_per_million"] > 0
    assert system["name"] == name
    if name == "gracekv":
        assert cell["gracekv_over_it"]["median"] == 1
    else:
        assert is_spread(cell["gracekv_over_it"])


def check_cells(d, names, workloads, depths, operations):
    wanted = [(w, depth, n) for w in workloads for depth in depths for n in names]
    assert len(d["cells"]) == len(wanted)
    systems = {s["name"]: s for s in d["systems"]}
    for cell, (workload, depth, name) in zip(d["cells"], wanted):
        check_cell(cell, name, workload, depth, systems[name])
        assert cell["operations"] == operations


@pytest.mark.skipif(bool(AGENT), reason="its servers are started where it runs")
def test_document_of_ours_alone():
    d = document("-D", "4", "-T", "2", "--sizes", "1,64,20K", "--depths", "1,3",
                 "-C", CONNECT, "--timeout", "60000", seconds=120)
    assert (d["tool"], d["schema"], d["device"]) == (NAME, 1, DEVICE)
    assert d["software_device"] == DEVICE.startswith("soft") and d["interrupted"] is False
    assert [s["name"] for s in d["systems"]] == ["gracekv"] and d["promises"] == []
    assert d["systems"][0]["load"]["records"] == 300 and d["systems"][0]["load"]["seconds"] > 0
    assert "libgracekv" in d["systems"][0]["version"]
    p = d["parameters"]
    assert (p["workloads"], p["records"], p["fields"], p["field_bytes"]) == (WORKLOADS, 300, 10, 10)
    assert (p["threads"], p["depth"], p["rounds"], p["target_per_s"]) == (2, 4, 2, 0)
    check_cells(d, ["gracekv"], WORKLOADS, [1, 4], 2 * scaled(200))
    assert {c["workload"]: c["distribution"] for c in d["cells"]} == {
        "A": "zipfian", "B": "zipfian", "C": "zipfian", "D": "latest", "F": "zipfian"}
    assert [(c["depth"], c["record_bytes"]) for c in d["sweeps"]["depths"]] == [(1, 100), (3, 100)]
    assert [(c["depth"], c["record_bytes"]) for c in d["sweeps"]["sizes"]] == [
        (1, 1), (1, 64), (1, 20480)]
    for cell in d["sweeps"]["depths"] + d["sweeps"]["sizes"]:
        assert list(cell["lat_us"]) == ["read"] and is_spread(cell["ops_per_s"])
        assert cell["missing"] == cell["wrong"] == 0


@pytest.mark.soft_device
def test_a_running_server(shared, cli):
    """It keeps the records that were loaded, and no insert; its CPU time is not known."""
    result = bench("-s", shared.address, "-d", DEVICE, "-k", "50", "-n", "90", "-r", "1", "-w",
                   "A,D", "-f", "1", "-v", "77", "--json")
    assert result.rc == 0, result.err
    d = json.loads(result.out)
    assert all(c["server_cpu_s_per_million"] is None for c in d["cells"])
    assert all(c["lat_us"]["insert"]["count"] > 0 for c in d["cells"][2:])
    kept = [line for line in cli.good("dump").splitlines() if line.startswith(b"user")]
    assert len(kept) == 50


@pytest.mark.soft_device
@peers
def test_document_with_peers():
    d = document("-w", "A,D,F", "-D", "5", "-p", "redis", "--peer", "memcached", "--sizes",
                 "64,1024", "--depths", "2", seconds=120)
    assert [s["name"] for s in d["systems"]] == ALL
    versions = {s["name"]: s["version"] for s in d["systems"]}
    assert re.search(r"v=\d", versions["redis-unix"]) and versions["redis-unix"] == \
        versions["redis-tcp"]
    assert re.match(r"memcached \d", versions["memcached"])
    loads = {s["name"]: s["load"] for s in d["systems"]}
    assert loads["redis-tcp"] is None and loads["tcp"] is None
    assert loads["redis-unix"]["records"] == loads["memcached"]["records"] == 300
    check_cells(d, ALL, ["A", "D", "F"], [1, 5], 2 * scaled(200))
    assert all(c["server_cpu_s_per_million"] > 0 for c in d["cells"]
               if c["system"] != "gracekv")
    assert [c["system"] for c in d["sweeps"]["sizes"]] == ALL * 2
    assert [(p["promised"], p["bound"]) for p in d["promises"]] == [("at least", 10)] * 4
    for p in d["promises"]:
        assert is_spread(p) and p["kept"] == (p["median"] >= 10)
        # of Redis's two the faster one
        size, peer = re.match(r"GETs of (\d+) B, one client: gracekv / (\w+)", p["name"]).groups()
        rates = {c["system"]: c["ops_per_s"] for c in d["sweeps"]["sizes"]
                 if c["record_bytes"] == int(size)}
        of = [r for name, r in rates.items() if name.startswith(peer)]
        assert p["min"] >= rates["gracekv"]["min"] / max(r["max"] for r in of) * 0.999
        assert p["max"] <= rates["gracekv"]["max"] / max(r["min"] for r in of) * 1.001


@pytest.mark.soft_device
@peers
def test_report_and_check(tmp_path):
    folder = tmp_path / "report"
    result = bench(*SMALL, "-p", "all", "--check", "-D", "2", "-o", str(folder), "--sizes",
                   "64,1024,4096", "--depths", "1,2", seconds=120)
    doc = json.loads((folder / "results.json").read_text())
    assert result.rc == (0 if all(p["kept"] for p in doc["promises"]) else 1), result.err
    assert len(re.findall("not kept: GETs of", result.err)) == \
        sum(not p["kept"] for p in doc["promises"])
    text = (folder / "report.md").read_text()
    plots = re.findall(r"\]\((\S+\.svg)\)", text)
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["report.md", "results.json", *plots])
    assert sorted(plots) == sorted([f"latency-{w.lower()}.svg" for w in WORKLOADS] + [
        "depths.svg", "sizes.svg", "throughput-1.svg", "throughput-many.svg"])
    assert "not RDMA" in text
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
    for name in plots:
        root = xml.parse(folder / name).getroot()
        width, height = float(root.get("width")), float(root.get("height"))
        words = [t.text for t in root.iter(SVG + "text")]
        assert any("not RDMA" in word for word in words)
        for system in ALL:
            assert any(word.startswith(system) for word in words), (name, system)
        points = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(SVG + "circle")]
        points += [(float(c.get("x")), float(c.get("y"))) for c in root.iter(SVG + "rect")
                   if c.get("x")]
        assert len(points) > 5 and all(0 < x < width and 0 < y < height for x, y in points)


@pytest.mark.soft_device
@peers
def test_check_names_what_is_not_kept():
    """A device that takes its time for each READ."""
    result = bench("-d", DEVICE, "-k", "20", "-n", "10", "-r", "1", "-w", "C", "-D", "2", "-v", "1",
                   "-p", "all", "--check", "--json", env={"SOFTRDMA_FAULT": "delay=5000,seed=1"})
    assert result.rc == 1, result.err
    said = "\n".join(map(sentence, result.err.splitlines()))
    assert re.findall(r"^kv-bench: not kept: GETs of (\d+) B, one client: gracekv / (\w+) is "
                      r"[\d.]+, promised at least 10$", said, re.M) == [
                          ("64", "redis"), ("64", "memcached"), ("1024", "redis"),
                          ("1024", "memcached")]
    assert not any(p["kept"] for p in json.loads(result.out)["promises"])


@pytest.mark.soft_device
def test_table():
    result = bench(*SMALL, "-w", "B,C", "-D", "2", "--sizes", "8,16", "--depths", "1,2",
                   "-p", "tcp")
    assert result.rc == 0 and result.err == ""
    out = result.out.decode()
    assert "not RDMA" in out and "1 thread;" in out
    tables = re.findall(r"^(?:system +depth|in flight|bytes) .*\n(?:.+\n)+|^ *(?:in flight|bytes) "
                        r".*\n(?:.+\n)+", out, re.M)
    assert len(tables) == 4
    for table in tables:
        assert len({len(line) for line in table.splitlines()}) == 1, table
    assert out.count("update p50") == 1, "C has reads alone"


@pytest.mark.soft_device
def test_open_loop():
    d = document("-w", "B", "-D", "1", "-n", "100", "--target", "400", "-T", "2", "-r", "2")
    (cell,) = d["cells"]
    assert cell["operations"] == 200 and d["parameters"]["target_per_s"] == 400
    assert cell["ops_per_s"]["max"] < 405, "100 operations at 400 a second are 0.2475 s"


@pytest.mark.no_device
@pytest.mark.parametrize("peer", ["redis", "memcached"])
def test_a_peer_that_is_not_installed(tmp_path, peer):
    package = {"redis": "redis-server"}.get(peer, peer)
    result = bench("-p", peer, env={"PATH": str(tmp_path)})
    assert_error(result, 3, f"{package} is not installed", f"package: {package}", who=NAME)


@pytest.mark.no_device
@pytest.mark.parametrize("folder", ["a/b", "file", "x" * 5000, ""])
def test_report_that_cannot_be_written_costs_no_measuring(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    result = bench("-t", "3600", "-o", folder, seconds=20)
    assert_error(result, 3, "--report", who=NAME)
    assert len(result.err) < 800 and result.out == b""


@pytest.mark.no_device
def test_failures_have_a_sentence(tmp_path):
    result = bench("-s", "127.0.0.1:1", "-d", "soft0")
    assert_error(result, 3, "connecting", who=NAME)
    assert result.err.count("connecting") == 1, "said once"
    result = bench("-B", str(tmp_path / "none"), "-p", "tcp")
    assert_error(result, 3, "did not become ready", who=NAME)
    result = bench("-k", "1000000000", "-v", "100000")
    assert_error(result, 3, "give fewer --records", who=NAME)
    with open("/dev/full", "wb") as full:
        result = bench("--help", stdout=full)
    assert_error(result, 3, "No space left on device", who=NAME)


def children(pid):
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            with contextlib.suppress(OSError):
                found[pathlib.Path(f"/proc/{child}/comm").read_text().strip()] = int(child)
    return found


def gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@contextlib.contextmanager
def long_run(folder, *words):
    """One that has loaded, and measures for long; with all its servers by name."""
    process = Process([program(NAME), "-k", "100", "-t", "0.1", "-r", "99", "-w", "B,C,D",
                       "-p", "all", *words], folder / "stderr")
    try:
        names = {"kv-server", "redis-server", "memcached", NAME}
        wait_until("all servers run", lambda: names <= set(children(process.pid)), 20)
        yield process, children(process.pid)
    finally:
        process.kill()


@pytest.mark.soft_device
@peers
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_leave_no_process(tmp_path, how):
    with long_run(tmp_path) as (process, servers):
        folder = pathlib.Path(os.readlink(f"/proc/{servers['redis-server']}/cwd"))
        assert folder.is_dir() and folder.name.startswith("gracekv-peer-")
        process.signal(how)
        rc = process.wait(20)
        assert rc == (-signal.SIGKILL if how == signal.SIGKILL else 3)
        wait_until("its servers are gone", lambda: all(gone(p) for p in servers.values()), 10)
        if how == signal.SIGKILL:
            shutil.rmtree(folder)
            return
        assert "kv-bench: interrupted: " in process.stderr()
        assert not folder.exists()


@pytest.mark.soft_device
@peers
@pytest.mark.parametrize("name, said", [("redis-server", "redis-"), ("memcached", "memcached"),
                                        (NAME, "tcp"), ("kv-server", "of gracekv|server")])
def test_a_server_that_dies_is_told(tmp_path, name, said):
    with long_run(tmp_path) as (process, servers):
        os.kill(servers.pop(name), signal.SIGKILL)
        assert process.wait(40) == 3
        assert re.search(f"^kv-bench: measuring: .*({said})", process.stderr()), process.stderr()
        wait_until("the others are gone", lambda: all(gone(p) for p in servers.values()), 10)
