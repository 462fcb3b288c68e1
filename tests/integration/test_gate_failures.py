# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The gate, programs that fail, hang or are not there, and signals. All are fakes."""
import copy
import json
import os
import pathlib
import signal

import pytest

from kvt_client import run
from kvt_gate import GATE, GOOD, document, gate_main, gate_run, said_of, fakes
from kvt_process import Process, scaled, wait_until

pytestmark = pytest.mark.no_device


@pytest.mark.parametrize("text, code, said", [
    ('{"tool": "kv-lat"', 0, "no JSON"), ("[1]", 0, "no document"), ("", 0, "no JSON"),
    ("", -9, "died of signal 9"), ("\ufffd", 1, "no JSON"),
    ('{"tool": "soft-bench"}', 0, "no document of kv-lat"),
    (json.dumps({"tool": "kv-lat", **GOOD["get"]}), 3, "exited with 3: it said nothing")],
    ids=["cut", "list", "nothing", "killed", "bytes", "another", "failed"])
def test_what_a_program_leaves_may_be_worth_nothing(text, code, said):
    report = said_of("get", text, code=code)
    assert all(row.failed and row.figure is None and said in row.why for row in report.rows)
    assert report.status() == 3 and report.count("not run") == 3


def test_a_program_that_fails_is_shown(tmp_path):
    answer = "echo hello; printf '\\xff\\nkv-lat: it broke: why\\n' >&2; exit 3"
    folder = fakes(tmp_path, get=answer, soft=GOOD["soft"])
    doc, err = document(folder, "--only", "get,soft", rc=3)
    assert {one["why"] for one in doc["promises"] if one["failed"]} == {
        "get: kv-lat exited with 3: kv-lat: it broke: why"}
    assert doc["kept"] == 4, "the others run all the same"
    for line in ("stdout | hello", "stderr | \ufffd", "stderr | kv-lat: it broke: why"):
        assert f"gate: get: {line}" in err


def test_programs_run_with_their_defaults(tmp_path):
    """Whatever the caller's environment says of devices that are unkind on purpose."""
    doc = json.dumps({"tool": "soft-bench", **GOOD["soft"]})
    answer = f"env | grep -E '^(SOFTRDMA_|GRACEKV_LEASE)' && exit 3; echo '{doc}'"
    folder = fakes(tmp_path, soft=answer)
    result = run([GATE, "-B", str(folder), "-o", "soft"],
                 env={"SOFTRDMA_WEAK": "7", "GRACEKV_LEASE": "1"})
    assert result.rc == 0, result.err


@pytest.mark.parametrize("there, failed, said", [("redis-server", False, "memcached: not inst"),
                                                 ("memcached redis-server", True, "exited with 3")])
def test_peers_that_are_not_there_are_no_failure(monkeypatch, there, failed, said):
    """kv-bench itself ends with 3 then, as it cannot do what it was asked to."""
    monkeypatch.setattr(gate_main.shutil, "which", lambda name: name in there or None)
    report = said_of("peers", "", code=3, err="kv-bench: measuring: it broke")
    assert all(row.failed is failed and said in row.why for row in report.rows), report.rows


def test_what_is_not_built_is_not_run(tmp_path):
    doc, _ = document(fakes(tmp_path, soft=GOOD["soft"]))
    assert (doc["kept"], doc["not_kept"]) == (4, 0)
    whys = {one["group"]: one["why"] for one in doc["promises"] if one["kept"] is None}
    assert "kv-bench is not built" in whys["peers"] and "--rxe" in whys["rxe"]
    assert "--long" in whys["torture"]
    doc, _ = document(fakes(tmp_path), "--only", "peers", rc=3)
    assert doc["kept"] == 0, "nothing was measured, so nothing is fine"


def test_a_promise_of_the_programs_own_is_named(tmp_path):
    """Its exit status says that more is wrong than what the gate judges."""
    answer = f"echo '{json.dumps({'tool': 'growth-bench', **GOOD['growth']})}'; exit 1"
    doc, _ = document(fakes(tmp_path, growth=answer), "--only", "growth", rc=1)
    assert (doc["kept"], doc["not_kept"]) == (2, 1)
    assert "exit status of growth-bench" in doc["promises"][-1]["name"]
    soft = copy.deepcopy(GOOD["soft"])
    soft["mapped_list_over_memcpy"]["kept"] = False
    doc, _ = document(fakes(tmp_path, soft=soft), "--only", "soft", rc=1)
    assert "soft-bench itself says so" in doc["promises"][0]["why"]


HANG = "sleep 100 & echo $$ $! >'{folder}/pids.new'; mv '{folder}/pids.new' '{folder}/pids'; wait"


def gone(folder):
    """All that a hanging program started, if it came so far."""
    pids = (folder / "pids").read_text().split() if (folder / "pids").exists() else []
    return not any(os.path.exists(f"/proc/{pid}") and "Z" not in
                   pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                   for pid in pids)


def test_a_program_that_hangs_has_a_limit(tmp_path):
    folder = fakes(tmp_path, get=HANG.format(folder=tmp_path))
    doc, err = document(folder, "--only", "get", "--limit", "1", rc=3)
    assert {one["why"] for one in doc["promises"]} == {"get: kv-lat was not done after 1 s"}
    assert "(limit 1 s)" in err
    wait_until("all of it is gone", lambda: gone(tmp_path), 10)


def test_a_program_that_prints_without_end():
    with pytest.raises(OSError, match="more than 64 MiB"):
        gate_run.run(["yes"], scaled(60))


def test_a_program_that_does_not_want_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(gate_run, "END_S", 0.5)
    folder = fakes(tmp_path, get="trap '' TERM\n" + HANG.format(folder=tmp_path))
    done = gate_run.run([folder / "bin/kv-lat", "--name", "get"], 1)
    # SIGTERM, where the machine is so busy that it had not come to its trap
    assert done.late and done.code in (-signal.SIGKILL, -signal.SIGTERM)
    wait_until("all of it is gone", lambda: gone(tmp_path), 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_and_prints_what_is_there(tmp_path, number):
    folder = fakes(tmp_path, growth=GOOD["growth"], get=HANG.format(folder=tmp_path),
                   soft=GOOD["soft"])
    it = Process([GATE, "--build", str(folder), "--only", "growth,get,soft", "--json"],
                 tmp_path / "stderr")
    wait_until("the second runs", (tmp_path / "pids").exists, 20)
    it.signal(number)
    lines = []
    while (line := it.read_line(30)) is not None:
        lines.append(line)
    assert it.wait(20) == 3
    doc = json.loads("\n".join(lines))
    assert [one["result"] for one in doc["promises"]] == ["kept"] * 2 + ["not run"] * 7
    assert "get: interrupted" in doc["promises"][2]["why"]
    wait_until("all of it is gone", lambda: gone(tmp_path), 10)
    it.close()


NO_HUGEPAGES = ("echo 'index-bench: --check: 3 hugepages of 2 MiB are free, 99999999 are needed for"
                " both sides' >&2; exit 3")


def test_without_hugepages_the_group_is_not_run(tmp_path):
    doc, _ = document(fakes(tmp_path, index=NO_HUGEPAGES, soft=GOOD["soft"]), "-o", "index,soft")
    assert doc["kept"] == 4
    assert all("99999999 free hugepages" in one["why"] and not one["failed"]
               for one in doc["promises"] if one["group"] == "index")


def test_hugepages_are_put_back(tmp_path):
    pool = tmp_path / "nr_hugepages"
    pool.write_text("7\n")
    with pytest.raises(KeyError), gate_run.hugepages(5, pool):
        assert pool.read_text() == f"{7 + 5 + gate_run.SPARE}\n"
        raise KeyError
    assert pool.read_text() == "7\n"
    with pytest.raises(gate_run.NoHugepages, match="nr_hugepages"), \
            gate_run.hugepages(1, tmp_path / "none" / "nr_hugepages"):
        pass


def test_cores_of_other_programs(monkeypatch):
    clock, busy, own = iter([0, 4, 8]), iter([10, 14, 15]), iter([1, 3, 9])
    monkeypatch.setattr(gate_run.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(gate_run, "busy_seconds", lambda: next(busy))
    monkeypatch.setattr(gate_run, "own_seconds", lambda: next(own))
    cores = gate_run.others()
    assert (cores(), cores()) == (0.5, 0), "4 s busy, 2 of them ours, in 4 s; then nobody's"


def test_seconds_of_the_machine_and_ours():
    busy, own = gate_run.busy_seconds(), gate_run.own_seconds()
    gate_run.run(["bash", "-c", "for ((i = 0; i < 200000; i++)); do :; done"], 60)
    assert gate_run.own_seconds() - own > 0.02 and gate_run.busy_seconds() > busy
