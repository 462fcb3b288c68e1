# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The gate of tests/performance and programs that answer, fail, lie or hang. All are fakes."""
import copy
import json
import os
import re
import types

import pytest

from kvt_client import assert_error, run
from kvt_gate import (BY_NAME, GATE, GOOD, GROUPS, document, documents, gate, gate_figures,
                      gate_main, printing, rounds, said_of, fakes)
from kvt_process import BUILD
import kvt_report
import test_ratios

pytestmark = pytest.mark.no_device


def judged(name, answer):
    """The rows of a group whose program printed this; without a process."""
    group = BY_NAME[name]
    text = answer if isinstance(answer, str) else json.dumps({"tool": group.title(), **answer})
    doc = group.reader()(text)
    return [p.holds(p.read(doc).value) and (not p.flag or gate_figures.at(doc, p.flag))
            for p in group.promises]


BOUNDS = {"index": [3, 2, 2, 72, 5], "growth": [10, 5], "grace": [0.95, 1.1, 1, 1, 10],
          "reclaim": [0.97, 5], "get": [3, 1, 0.5], "warm": [2], "depth": [0.6], "redis": [25, 5],
          "zipf": [1.2], "zipf-few": [1.02],
          "log": [0.9, 0.9, 3], "snapshot": [1.5, 0.8, 1, 1, 0.5, 1],
          "failover": [2, 3, 50, 0, 50, 0.95],
          "soft": [6, 3, 3, 1.5], "waste": [15, 250],
          "peers": [10] * 4, "rxe": [2.3, 1.3, 1.5, 1, 2.5, 2],
          "torture": [0]}


# Of the source tree: no fakes stand for them.
SCRIPTS = "rxe", "waste", "redis", "log", "snapshot", "failover"


def test_no_bound_was_loosened():
    assert {group.name: [p.bound for p in group.promises] for group in GROUPS} == BOUNDS


def test_of_several_the_worst_is_judged():
    for name, number, worst in (("grace", 1, max), ("reclaim", 0, min), ("reclaim", 1, max),
                                ("index", 4, max)):
        doc = copy.deepcopy(GOOD[name])
        if name == "reclaim":
            doc["promises"][3].update(lower95=0.5, gpc_p99_over_floor=7)
        if name == "index":
            doc["insert_writers"] = {"gracekv": {"ns_p999": 9e6}}
        figure = BY_NAME[name].promises[number].read(doc)
        assert figure.low < figure.high and figure.value == worst(figure.low, figure.high)


@pytest.mark.parametrize("name", [group.name for group in GROUPS])
def test_every_promise_can_be_kept_and_not_kept(name):
    assert all(judged(name, GOOD[name]))
    assert not any(judged(name, documents(good=False)[name]))


def test_every_promise_is_listed():
    out = run([GATE, "--list"]).out.decode()
    doc = json.loads(run([GATE, "--list", "--json"]).out)
    promises = [(group.name, one) for group in GROUPS for one in group.promises]
    assert len(doc["promises"]) == len(promises) == doc["not_run"] >= 39
    for name, promise in promises:
        assert re.search(rf"^{name} +\| {re.escape(promise.words)} +\|"
                         rf" {re.escape(promise.bound_words())} *$", out, re.M), promise
    assert "only with --rxe" in out and "only with --long" in out


@pytest.mark.parametrize("words, said", [
    (["--only", "get,frob"], "'frob' is none of index,growth,"),
    (["--only", ""], "none of"), (["--limit", "0"], "not a number of seconds"),
    (["--list", "--report", "x"], "nothing"), (["--rx", "a"], "unrecognized")])
def test_wrong_usage(words, said):
    result = run([GATE, *words])
    assert said in assert_error(result, 2, who="gate")


def test_help_and_version():
    assert b"examples:" in run([GATE, "--help"]).out
    assert re.fullmatch(rb"gate \d+\.\d+\.\d+\n", run([GATE, "--version"]).out)


@pytest.mark.parametrize("words, said", [
    (["--build", "/nowhere"], "build folder /nowhere"),
    (["--build", "/", "--report", "/nowhere/a.md"], "report /nowhere/a.md")])
def test_what_cannot_work_is_said_before_anything_runs(words, said):
    assert said in assert_error(run([GATE, *words]), 3, who="gate")


def test_output_that_cannot_be_written_is_a_failure(tmp_path):
    folder = fakes(tmp_path, soft=GOOD["soft"])
    with open("/dev/full", "wb") as full:
        result = run([GATE, "-B", str(folder), "-o", "soft"], stdout=full)
    assert result.rc == 3 and "gate: writing to stdout: No space" in result.err


def test_table_of_what_is_kept(tmp_path):
    answers = {name: answer for name, answer in GOOD.items() if name not in SCRIPTS}
    folder = fakes(tmp_path, **dict(answers, torture=printing(answers["torture"])))
    report = tmp_path / "table.md"
    out, err = gate(folder, "--report", str(report), "--only",
                    "index,growth,grace,reclaim,get,warm,depth,zipf,zipf-few,soft,peers,torture")
    rows = [line for line in out.splitlines() if " | " in line]
    assert len({line.rindex(" | ") for line in rows}) == 1, "columns line up"
    assert len(rows) - 2 == sum(len(g.promises) for g in GROUPS if g.name not in SCRIPTS)
    assert all(re.search(r"\| kept( \[\d\])?$", line) for line in rows[2:])
    assert re.search(r"0\.1 \(0\.09 to 0\.11\) +\| kept$", out, re.M)
    assert "not RDMA" in out and "--quick" not in out
    assert re.search(r"\d+ kept, 0 NOT KEPT, 0 not run, of \d+ promises$", out.strip())
    assert "gate: get: kv-lat -d soft0 --json" in err and ", about 1 min (limit 500 s)" in err
    markdown = report.read_text().splitlines()
    table = [line for line in markdown if line.startswith("| ")]
    assert len(table) == len(rows) and all(line.count(" | ") == 4 for line in table)


def test_a_quick_table_says_that_it_proves_nothing(tmp_path):
    fewer = copy.deepcopy(GOOD["get"])
    fewer["results"][0]["keys"] = 1000
    out, err = gate(fakes(tmp_path, get=fewer), "--only", "get", "--quick")
    assert "these figures prove nothing" in out and "--keys 100000" in err
    report = said_of("get", json.dumps({"tool": "kv-lat", **fewer}))
    assert report.status() == 3 and report.count("kept") == 0
    assert "not 1000000" in report.rows[0].why


def test_what_is_not_kept_is_named_with_its_floor(tmp_path):
    folder = fakes(tmp_path, soft=documents(False)["soft"], get=GOOD["get"])
    doc, _ = document(folder, "-o", "soft,get", rc=1)
    assert (doc["kept"], doc["not_kept"], doc["software_device"]) == (3, 4, True)
    out, _ = gate(fakes(tmp_path, soft=dict(GOOD["soft"], private_over_private_list=rounds(2.67))),
                  "--only", "soft", rc=1)
    assert re.search(r"scattered.* 2\.67 \(2\.403 to 2\.937\), floor 2\.4 +\| NOT KEPT", out)
    assert "3 kept, 1 NOT KEPT" in out


@pytest.mark.parametrize("path, value", [
    ("over_raw", None), ("over_raw", "1.2"), ("over_raw", True), ("over_raw", 0),
    ("over_raw", float("nan")), ("server_cpu_s", None), ("over_raw_by_rounds", 3),
    ("duration_s", 0), ("over_raw", ...)])
def test_a_figure_that_is_missing_is_not_kept(path, value):
    doc = copy.deepcopy(GOOD["get"])
    doc["results"][0][path] = value
    if value is ...:
        del doc["results"][0][path]
    report = said_of("get", json.dumps({"tool": "kv-lat", **doc}))
    bad = [row for row in report.rows if row.result != "kept"]
    assert bad and all(row.failed and row.result == "not run" for row in bad)
    assert all(path in row.why for row in bad) and report.status() == 3


@pytest.mark.parametrize("name, damage, said", [
    ("reclaim", lambda d: d["promises"].pop(), "pauses"),
    ("torture", lambda d: "wrong answers 0: checksum 0", "last lines"),
    ("torture", lambda d: d.replace("100006144", "10"), "not 100000000"),
    ("grace", lambda d: d["cap"].pop("kept"), "cap.kept")])
def test_a_part_that_is_missing_is_not_kept(name, damage, said):
    answer = copy.deepcopy(GOOD[name])
    text = damage(answer)
    if name != "torture":
        text = json.dumps({"tool": BY_NAME[name].title(), **answer})
    report = said_of(name, text)
    bad = [row for row in report.rows if row.result != "kept"]
    assert bad and all(row.failed and said in row.why for row in bad), bad
    assert report.status() == 3


def test_peers_that_are_not_installed(monkeypatch):
    redis, *_, last = BY_NAME["peers"].promises
    half = {"promises": GOOD["peers"]["promises"][:3]}
    null = {"promises": [dict(one, median=None) for one in GOOD["peers"]["promises"]]}
    for there, failure in ((None, gate_figures.NotRun), ("/memcached", gate_figures.NoFigure)):
        monkeypatch.setattr(gate_figures.shutil, "which", lambda name, there=there: there)
        with pytest.raises(failure, match="memcached"):
            last.read(half)
        with pytest.raises(failure, match="memcached" if not there else "median"):
            last.read(null)
        assert redis.read(half).value == 1000, "what was measured counts"


def test_no_redis_is_no_failure(tmp_path):
    report = said_of("redis", json.dumps({"tool": "redis", "keys": 10**6,
                                          "no_redis": "redis-server is not installed"}))
    assert [(row.why, row.failed) for row in report.rows] == [
        ("redis: redis-server is not installed", False)] * 2


def reported(passed, figures, capsys, phase="call"):
    """What tests/run prints of a test that ended so."""
    report = types.SimpleNamespace(
        nodeid="tests/integration/test_ratios.py::test_get_against_ib_read_lat", duration=1.0,
        failed=not passed, skipped=False, when=phase, longreprtext="E  assert 3 <= 2.3",
        sections=[], user_properties=figures)
    kvt_report.Report().pytest_runtest_logreport(report)
    return capsys.readouterr().out


@pytest.mark.parametrize("mine", [2.0, 3.0])
def test_lines_of_the_ratios_suite_are_read(monkeypatch, capsys, mine):
    """Those that test_ratios.py and the report really print, of a test that passed or failed."""
    monkeypatch.setenv("GRACEKV_TEST_NAME", "rxe (ratios)")
    figures = []
    try:
        test_ratios.compare(lambda: mine, lambda: 1.0, test_ratios.GET_MAX,
                            lambda *pair: figures.append(pair), "GET {:.1f} us, other {:.1f} us",
                            judged=True)
        passed = True
    except AssertionError:
        passed = False
    assert passed == (mine < 2.3)
    doc = gate_figures.parse_rxe(reported(passed, figures, capsys)
                                 + "ok    rxe (ratios): test_other.py::test_of_another (1 s)\n"
                                   "      | B: 9.00, at most 9 (rounds: 9.00)\n")
    promise = BY_NAME["rxe"].promises[0]
    assert promise.bound == test_ratios.GET_MAX and promise.read(doc).value == mine
    assert gate_figures.at(doc, promise.flag) is passed


def test_bounds_are_those_of_the_ratios_suite():
    assert [p.bound for p in BY_NAME["rxe"].promises] == [
        test_ratios.GET_MAX, test_ratios.WARM_GET_MAX, test_ratios.PUT_MAX, 1,
        test_ratios.MGET_RATE_MIN, 2]
    mget = BY_NAME["rxe"].promises[-2].read(gate_figures.parse_rxe(GOOD["rxe"]))
    assert mget.low == mget.value == mget.high == pytest.approx(1 / 0.19), "a rate, of times"


@pytest.mark.parametrize("release, told", [("6.1.0-18-amd64", "6.1"), ("6.18.44-fc-v657", "6.18"),
                                           ("7-rc1", "7"), ("next", "")])
def test_of_the_kernel_two_numbers_are_told(monkeypatch, release, told):
    monkeypatch.setattr(gate_main.platform, "release", lambda: release)
    assert gate_main.kernel() == told


@pytest.mark.limit(240)
@pytest.mark.skipif(not os.path.exists("/usr/bin/apt-cache"), reason="there is no apt-cache")
def test_real_programs_are_read():
    """Whatever they measure here."""
    done = run([GATE, "-B", str(BUILD), "-o", "waste,snapshot,failover", "--json", "--quick"],
               seconds=240)
    assert done.rc in (0, 1), done.err
    *several, waste, many = json.loads(done.out)["promises"]
    assert len(several) == 12 and not any(promise["failed"] for promise in several), several
    assert not waste["failed"] and (waste["why"] or 0 < waste["measured"] < 100)
    assert 96 < many["measured"] < 1000, "of 80 B and a header of 48 B, rounded to 128, at least"
