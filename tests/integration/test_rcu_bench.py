# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-rcu-bench as a program: options, exit codes, table, document, report. Not what it measures."""
import json
import re
import xml.etree.ElementTree as xml

import pytest

from kvt_client import assert_error, run
from kvt_process import SANITIZED, program

pytestmark = pytest.mark.soft_device  # remote is on soft0

NAME = "kv-rcu-bench"
STRATEGIES = ["floor", "sync", "delay", "batch", "gpc", "liburcu", "hazard", "epoch",
              "remote"]
SVG = "{http://www.w3.org/2000/svg}"


def bench(*words, seconds=60):
    return run([program(NAME), *words], seconds=seconds)


def document(*words, seconds=60):
    result = bench(*words, "--json", seconds=seconds)
    assert result.rc == 0, result.err
    assert result.err == ""
    return json.loads(result.out)


@pytest.mark.parametrize("words, said", [
    (["a"], "no arguments"), (["-r", "0"], "1 to 1024"), (["-u", "257"], "1 to 256"),
    (["-t", "0"], "0.01 to 3600"), (["-t", "3s"], "0.01 to 3600"), (["-t", "nan"], "0.01 to 3600"),
    (["-t", "4000"], "0.01 to 3600"), (["-i", "0"], "1 to 1000000"), (["-i", ""], "empty"),
    (["-i", "1,,2"], "empty"), (["-i", "2,1"], "rising"), (["-i", "1,1"], "rising"),
    (["-i", "1,2,3,4,5,6,7,8,9,10"], "more than 9"), (["--strategy", "gcp"], "none of floor,sync,"),
    (["--strategy", "gpc,gpc"], "twice"), (["--strategy", "gpc,"], "empty"),
    (["-n", "4097"], "1 to 4096"), (["-R", "100"], "1 to 99"), (["-m", "64K"], "131072"),
    (["--check", "--strategy", "gpc"], "wants both"),
    (["--check", "-R", "1"], "at least 2"), (["--check", "-b"], "do not go together"),
    (["-b", "--strategy", "remote"], "the store's own"),
])
def test_wrong_usage(words, said):
    result = bench(*words)
    assert_error(result, 2, who=NAME)
    assert said in result.err


def test_document():
    d = document("-r", "2", "-u", "2", "-n", "3", "-t", "0.2", "-i", "1,50", "-R", "2",
                 seconds=120)
    assert (d["tool"], d["schema"], d["readers"], d["updaters"]) == (NAME, 1, 2, 2)
    assert (d["objects"], d["rounds"], d["seconds"]) == (3, 2, pytest.approx(0.2))
    assert [(r["strategy"], r["pause_us"]) for r in d["results"]] == \
        [(s, p) for s in STRATEGIES for p in (1, 50)]
    for r in d["results"]:
        for key in ("updates_per_s", "reads_per_s", "grace_periods_per_s"):
            assert 0 <= r[key]["min"] <= r[key]["median"] <= r[key]["max"]
        assert r["updates"] == pytest.approx(r["updates_per_s"]["median"] * 0.2, rel=1e-4)
        took = r["update_ns"]
        assert took["p50"] <= took["p99"] <= took["p999"] <= took["max"]
        grace = r["grace_us"]
        assert grace["p50"] <= grace["p99"] <= grace["max"] and grace["mean"] <= grace["max"]
        assert r["waiting_max"] >= 0
    assert sum(r["update_ns"]["count"] for r in d["results"]) > 0
    assert d["remote_device"] == "soft0"
    assert [p["pause_us"] for p in d["promises"]] == [1, 50]
    for p in d["promises"]:
        if p["lower95"] is None or p["floor_p99_ns"] is None:  # a busy machine: no update at all
            assert not p["kept"]
            continue
        assert 0 < p["lower95"] <= p["gpc_over_liburcu"]
        assert p["gpc_p99_over_floor"] == pytest.approx(p["gpc_p99_ns"] / p["floor_p99_ns"],
                                                        rel=1e-4)
        assert p["kept"] == (p["lower95"] >= 0.97 and p["gpc_p99_over_floor"] < 5)
    assert d["promises_kept"] == all(p["kept"] for p in d["promises"])


def test_strategies_are_chosen_and_the_floor_goes_with_gpc():
    d = document("-t", "0.2", "-i", "3", "--strategy", "epoch,gpc")
    assert [r["strategy"] for r in d["results"]] == ["epoch", "gpc", "floor"]
    assert d["promises"][0]["lower95"] is None and d["promises"][0]["floor_p99_ns"] > 0
    d = document("-t", "0.02", "-i", "3", "--strategy", "sync")
    assert [r["strategy"] for r in d["results"]] == ["sync"]
    assert d["promises_kept"] is False and d["promises"][0]["gpc_over_liburcu"] is None
    assert d["promises"][0]["kept"] is False  # nothing was judged


def test_defaults_fit_the_machine():
    d = document("-t", "0.01", "-i", "1", "--strategy", "batch")
    assert 1 <= d["readers"] <= 32 and 1 <= d["updaters"] <= 8 and d["objects"] == 1


def test_check_says_by_its_status_what_was_kept():
    """With rounds of 10 ms the figures are anything; status and document must agree."""
    result = bench("-t", "0.01", "-i", "100", "-R", "2", "--strategy", "gpc,liburcu", "--check",
                   "--json")
    assert result.rc in (0, 1), result.err
    assert json.loads(result.out)["promises_kept"] == (result.rc == 0)


def test_table():
    result = bench("-t", "0.02", "-i", "1,20", "-R", "2")
    assert result.rc == 0 and result.err == ""
    lines = result.out.decode().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("strategy "))
    assert "at 1 us  at 20 us" in lines[head] and "grace periods" in lines[head]
    rows = lines[head + 1:head + 1 + len(STRATEGIES)]
    assert [row.split()[0] for row in rows] == STRATEGIES
    assert all(len(row.split()) == 9 and len(row) == len(lines[head]) for row in rows)
    promises = next(i for i, line in enumerate(lines) if line.lstrip().startswith("pause us "))
    assert [row.split()[0] for row in lines[promises + 1:]] == ["1", "20"]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer finds it out first, and ends the program")
@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s not in ("floor", "remote")])
def test_a_broken_strategy_is_found_out(strategy):
    result = bench("-r", "3", "-u", "2", "-t", "0.5", "-i", "1", "-R", "5", "--strategy", strategy,
                   "--broken")
    assert_error(result, 3, who=NAME)
    assert re.search(rf": {strategy}: [1-9]\d* of \d+ reads found an object that had been freed",
                     result.err)


def test_report(tmp_path):
    folder = tmp_path / "study"
    for again in range(2):
        result = bench("-t", "0.02", "-i", "1,20,100", "-o", str(folder))
        assert result.rc == 0 and result.err == ""
    assert sorted(p.name for p in folder.iterdir()) == [
        "grace-periods.svg", "report.md", "results.json", "update-p99.svg", "updates.svg"]
    assert len(json.loads((folder / "results.json").read_text())["results"]) == 3 * len(STRATEGIES)
    text = (folder / "report.md").read_text()
    assert result.out.decode() in text
    for name in re.findall(r"\]\((\S+\.svg)\)", text):
        root = xml.parse(folder / name).getroot()
        width, height = float(root.get("width")), float(root.get("height"))
        words = [t.text for t in root.iter(SVG + "text")]
        assert set(STRATEGIES) <= set(words)
        assert any("remote: on soft0, not RDMA" in word for word in words)
        points = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(SVG + "circle")]
        assert points and all(0 < x < width and 0 < y < height for x, y in points)
    points = list(xml.parse(folder / "updates.svg").getroot().iter(SVG + "circle"))
    assert 0 < len(points) <= 3 * len(STRATEGIES)


@pytest.mark.parametrize("folder", ["a/b", "file", "x" * 5000, ""])
def test_report_that_cannot_be_written_costs_no_measuring(tmp_path, monkeypatch, folder):
    """It is looked at first: these would take an hour."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    result = bench("-t", "3600", "-i", "1", "--strategy", "sync", "-o", folder, seconds=20)
    assert_error(result, 3, who=NAME)
    assert "--report" in result.err and len(result.err) < 800 and result.out == b""


@pytest.mark.parametrize("words", [["--help"], ["--version"], [], ["--json"], ["--check"]])
def test_output_that_is_cut_off_is_told(words):
    """A full disk is no success, whatever was measured."""
    words = [*words, "-t", "0.02", "-i", "100", "--strategy", "gpc,liburcu", "-R", "2"]
    with open("/dev/full", "wb") as full:
        result = run([program(NAME), *words], stdout=full, seconds=60)
    assert_error(result, 3, "writing to stdout: No space left on device", who=NAME)


def test_output_that_is_closed_is_told(tmp_path):
    """Nor does it go into the first file that takes its descriptor's number."""
    command = [program(NAME), "-t", "0.02", "-i", "1,2,3,4,5,6,7,8,9", "-R", "2", "--json",
               "-o", str(tmp_path / "study")]
    result = run(["sh", "-c", 'exec "$@" >&-', "sh", *command], seconds=120)
    assert_error(result, 3, "writing to stdout", who=NAME)
