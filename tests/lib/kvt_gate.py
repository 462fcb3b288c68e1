# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""tests/performance/gate and its parts, for tests; fakes of the programs that it runs."""
import importlib.machinery
import importlib.util
import json
import sys
import types

from kvt_client import run
from kvt_process import ROOT

FOLDER = ROOT / "tests" / "performance"
GATE = str(FOLDER / "gate")
sys.path.insert(0, str(FOLDER))

import gate_figures  # noqa: E402
import gate_run  # noqa: E402, F401 - for tests
from gate_promises import GROUPS  # noqa: E402

loader = importlib.machinery.SourceFileLoader("gate", GATE)
gate_main = importlib.util.module_from_spec(importlib.util.spec_from_loader("gate", loader))
loader.exec_module(gate_main)
BY_NAME = {group.name: group for group in GROUPS}


def gate_reads(name, doc, only=""):
    """The gate finds in a real document the figures that it judges, those with a word in their
    flag or all."""
    promises = [p for p in BY_NAME[name].promises if only in (p.flag or "")]
    assert promises
    return [p.read(doc) for p in promises]


def spread(median):
    return {"median": median, "min": median * 0.9, "max": median * 1.1}


def waits(value):
    """Of failover: what one kind of client waited."""
    return {"median_leases": value, "p99_leases": value, "median_ms": value}


def rounds(value, name="ratio_by_rounds", **more):
    return {"ratio": value, name: spread(value), **more}


def result(keys=10**6, over_raw=1, **more):
    """A document of kv-lat or kv-bw."""
    return {"software_device": True,
            "results": [{"keys": keys, "over_raw": over_raw,
                         "over_raw_by_rounds": spread(over_raw), **more}]}


def rxe_lines(good):
    """As tests/run rxe prints them."""
    word = "ok   " if good else "FAIL "
    lines = ["== rxe", "ok    build: build-test"]
    for place, test, value in (("two guests", "test_mget_against_single_gets[warm]",
                                "0.19, at most 0.4" if good else "0.41, at most 0.4"),
                               ("ratios", "test_get_against_ib_read_lat", "1.91, at most 2.3"),
                               ("ratios", "test_warm_get_against_ib_read_lat", "0.9, at most 1.3"),
                               ("ratios", "test_put_against_ib_send_lat", "0.70, at most 1.5")):
        value = value if good or "mget" in test else "2.31, at most 2.3"
        figure = value.split(",", maxsplit=1)[0]
        lines += [f"{word} rxe ({place}): test_ratios.py::{test} (52.1 s)",
                  f"      | A 57.2 us, B: 1 us: {value} (rounds: {figure} {figure})"]
    ratio = "1.67" if good else "2.10"
    lines += ["ok    rxe (peer failure): test_two_members.py::test_what_a_backup_costs_a_put (9 s)",
              f"      | PUT of a server alone 2 us, with a backup 3 us: {ratio}, not judged here"
              " (rounds: 1.51 2.20)"]
    lines += [f"{word} rxe (ratios): test_ratios.py::test_user_time_of_the_server_under_gets (9 s)",
              "      | user CPU of the server: 0.01 s in 10 s idle, 0.02 s in 10 s of 1 GETs:"
              f" {'-0.10' if good else '1.00'}% of a core, at most 1%"]
    return "\n".join(lines)


def documents(good=True):
    """What each group's program prints where all is kept, or nothing is."""
    low, high = (0.1, 1000) if good else (1000, 0.1)  # of what has to be low, of what to be high
    kept = {"kept": good}
    rcu = [{"pause_us": us, "lower95": high, "gpc_p99_over_floor": low}
           for us in gate_figures.PAUSES_US]
    peers = [f"GET of {size}, one synchronous client, over {peer}"
             for peer in ("redis", "memcached") for size in ("64 B", "1024 B")]
    figures = {"get_rate_over_redis": high, "get_depth_rate_over_redis": high}
    pause = {"gracekv": {"ns_p999": low * 1e6}}
    return {
        "index": {"records": 10**7, "lookup": rounds(high, **kept), "insert": rounds(high, **kept),
                  "delete": rounds(high, **kept), "a_record": {"bytes": low, **kept},
                  "insert_one_writer": pause, "insert_writers": pause},
        "growth": {"keys": 10**7, "p999_growing_over_still": low, "inserts_us": {"p999": low * 1e3},
                   "p999_growing_over_still_by_rounds": spread(low)},
        "grace": {"lease_ms": 1000, "idle": {"messages_per_s": low, **kept},
                  "stop": rounds(high, fenced_after_ms=spread(low * 1e3), kept_rate=good,
                                 kept_fence=good),
                  "cap": {"deferred_share": low, **kept},
                  "cost": {"reads_per_get": low, "reads_per_get_at_rest": 1, **kept}},
        "reclaim": {"rounds": 9, "promises": rcu},
        "get": result(over_raw=low, duration_s=10, server_cpu_s=0 if good else 0.16,
                      idle={"duration_s": 10, "server_cpu_s": 0 if good else 0.05}),
        "warm": result(over_raw=low), "depth": result(over_raw=high),
        "zipf": result(10**7, reads_per_get=low), "zipf-few": result(reads_per_get=low),
        "redis": {"keys": 10**6, "no_redis": "",
                  "figures": {name: spread(value) for name, value in figures.items()}},
        "log": {"rounds": 5, "no_fio": "", "no_redis": "",
                "figures": {name: spread(high) for name in ("over_fio_1", "chain_over_fio",
                                                            "over_fio_64", "over_redis_64")}},
        "snapshot": {"keys": 10**7, "bytes_per_cpu_s": high * 1e9,
                     "extra_memory": spread(low / 1e3),
                     "recovery_of_log": {"kept": spread(high), "floor_gb_per_cpu_s": spread(1)},
                     "figures": {"get_p99": spread(low), "get_p99_floor": spread(1),
                                 "put_rate": spread(high), "put_rate_floor": spread(1),
                                 "get_max_us_saving": spread(low * 1e3),
                                 "get_max_us_computing": spread(low * 1e3)}},
        "failover": {"failover": {"rounds": 100, "floor_leases": 1, "put": waits(low),
                                  "get": waits(low / 2)},
                     "short": {"put": waits(low), "get": waits(low)},
                     "switch": {"failed": 0 if good else 1, "etcd_ms": 1,
                                "pause": {"p99_ms": low, **spread(low)}},
                     "figures": {"get": spread(high)}},
        "soft": {"software_device": True, "mapped_list_over_memcpy": rounds(low, **kept),
                 "private_over_private_list": rounds(high if good else 2.67),
                 "kernel_over_kernel_list": rounds(2.4),
                 "private_over_neighbours": rounds(high, **kept),
                 "private_list_over_kernel_list": rounds(low, **kept)},
        "peers": {"promises": [{"name": name, **spread(high), **kept} for name in peers]},
        "rxe": rxe_lines(good),
        "waste": {"waste": 0.04 if good else 0.15,
                  "million": {"records": 10**6, "slab_bytes": 10**8 if good else 10**9,
                              "index_bytes": 10**7}},
        "torture": "100006144 look-ups in sections in 63.0 s\n"
                   f"wrong answers 0: false_miss 0 state 0 checksum {0 if good else 1}",
    }


def printing(text):
    """What a shell does to print it."""
    return f"cat <<'END'\n{text}\nEND\n"


def make(path, answer):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{answer}\n")
    path.chmod(0o755)


def fakes(tmp_path, **answers):
    """A build folder with programs of groups; each prints a document, or is what a shell does. Of
    those that several groups run, the name in their words tells which it is."""
    folder = tmp_path / "build"
    scripts = {folder / "bin" / "kv-server":
               ["echo 'kv-server ready tcp=127.0.0.1:1 '; exec sleep 600"]}
    for name, answer in answers.items():
        group = BY_NAME[name.replace("_", "-")]
        path = folder / group.program.lstrip("/")
        if isinstance(answer, dict):
            answer = printing(json.dumps({"tool": path.name, **answer}))
        if group.server:
            answer = f'if [[ " $* " == *" --name {group.name} "* ]]; then\n{answer}\nfi'
        scripts.setdefault(path, []).append(answer)
    for path, answer in scripts.items():
        make(path, "\n".join(answer))
    return folder


GOOD = documents()


def said_of(name, text, *, code=0, err="", quick=False):
    """The report of one group whose program printed this."""
    options = types.SimpleNamespace(quick=quick, limit=None, software=False)
    done = gate_run.Done(code, text, err, 1.0, False)
    rows = gate_main.rows_of(BY_NAME[name], done, options)
    return gate_main.Report("0", "a machine", quick, rows, options.software)


def gate(folder, *words, rc=0):
    result = run([GATE, "--build", str(folder), *words], seconds=60)
    assert result.rc == rc, f"{result.out.decode()}\n{result.err}"
    return result.out.decode(), result.err


def document(folder, *words, rc=0):
    out, err = gate(folder, "--json", *words, rc=rc)
    doc = json.loads(out)
    assert (doc["tool"], doc["schema"]) == ("gate", 1)
    assert doc["kept"] + doc["not_kept"] + doc["not_run"] == len(doc["promises"])
    return doc, err
