# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""tests/run hardware: its parts, what its report says of them, and what it says of nobody."""
import importlib.util
import os
import pathlib
import platform
import re
import sys

import pytest

from kvt_client import run
from kvt_process import AGENT, BUILD, DEVICE, HOST, ROOT, SANITIZED, Process

HARDWARE = ROOT / "tests/hardware"
CONFORMANCE = BUILD / "tests/unit/rdma/rdma-test_conformance"
PEER = "far-away.example.org"

pytestmark = [
    pytest.mark.skipif(bool(AGENT), reason="it makes its own far end"),
    pytest.mark.skipif(SANITIZED, reason="starts the tests with other options"),
    pytest.mark.skipif(not CONFORMANCE.is_file(), reason="the conformance tests are not built")]


def load(name):
    spec = importlib.util.spec_from_file_location(f"hardware_{name}", HARDWARE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report = load("report")


def hardware(folder, *words, rc=0, env=None):
    path = folder / "report.md"
    env = {name: None for name in ("GRACEKV_TEST_AGENT",)} | (env or {})
    result = run([sys.executable, str(HARDWARE / "run.py"), "--device", DEVICE, "--address", HOST,
                  "--build", str(BUILD), "--report", str(path), *words],
                 env={k: v for k, v in env.items() if v is not None}, seconds=120)
    assert result.rc == rc, result.out.decode() + result.err
    return path.read_text() if path.exists() else "", result


@pytest.mark.limit(120)
def test_report_of_one_machine(tmp_path):
    text, result = hardware(tmp_path, "--only", "doctor,conformance,integration", "--tests",
                            "ready_line")
    assert re.search(rf"^# GraceKV on {DEVICE}$", text, re.M)
    assert re.search(r"^\| integration \| 1 \| 0 \| 0 \|", text, re.M), text[:2000]
    assert re.search(r"^\| conformance \| 1\d \| 0 \| 0 \|", text, re.M), text[:2000]
    assert "Verdict: device" in text and "firmware" in text
    assert "| passed | a_read_sees_the_write_before_it |" in text
    assert "without ratios, gate" in text, "it says what was left out"
    node = platform.node()
    assert not re.search(rf"(?<![\w/-]){re.escape(node)}(?![\w/-])", text)
    assert DEVICE.startswith("soft") or HOST not in text
    assert re.search(r"^\d+ passed, 0 failed, 0 skipped$", result.out.decode(), re.M)


def test_what_fails_is_in_the_report_with_its_log(tmp_path, soft_device):
    """A device that keeps regions which it said are gone: the protocols do not stand on it."""
    text, _ = hardware(tmp_path, "--only", "conformance", rc=1,
                       env={"SOFTRDMA_FAULT": "dereg_mr=EBUSY@1"})
    assert "### FAILED a_region_that_was_deregistered_is_not_written" in text, text
    assert "| FAILED | a_region_that_was_deregistered_is_not_written |" in text
    assert "test_conformance.c" in text, "with what it said"


@pytest.fixture
def far(tmp_path):
    """What stands for ssh: a shell of this machine that has a /tmp of its own, where this user may
    make one."""
    script = tmp_path / "ssh"
    place = Process(["unshare", "-m", "sh", "-c",
                     "mount -t tmpfs far /tmp && echo there && exec sleep 600"],
                    tmp_path / "unshare.stderr")
    apart = place.read_line(10) == "there"
    enter = f"nsenter -t {place.pid} -m " if apart else ""
    script.write_text(f'#!/bin/sh\n[ "$1" = {PEER} ] || exit 255\nshift\n'
                      f'exec {enter}sh -c "$*"\n')
    script.chmod(0o755)
    yield script, enter.split()
    place.close()


@pytest.mark.limit(120)
@pytest.mark.skipif(str(ROOT).startswith("/tmp/") or str(BUILD).startswith("/tmp/"),
                    reason="the far end has another /tmp")
def test_servers_on_a_peer(tmp_path, soft_device, far):
    script, enter = far
    text, _ = hardware(tmp_path, "--only", "integration", "--tests", "ready_line or sighup_reloads",
                       "--peer", PEER, "--ssh", str(script))
    assert re.search(r"^\| integration between two \| [1-9] \| 0 \| 0 \|", text, re.M), text[:3000]
    assert PEER not in text
    if enter:
        left = run([*enter, "ls", "/tmp"]).out.decode().split()
        assert not [name for name in left if name.startswith("gracekv-")], left


def test_peer_that_is_not_there(tmp_path, soft_device):
    text, _ = hardware(tmp_path, "--only", "conformance", "--peer", PEER, "--ssh", "false", rc=1)
    assert "the peer (FAILED)" in text and "exited with 1" in text
    assert "| conformance | 13 | 0 | 0 |" in text, "what can be tried is tried"


@pytest.mark.no_device
@pytest.mark.parametrize("words, why", [
    (["--device", "none0", "--address", ""], "no network device of none0"),
    (["--device", "soft0", "--only", "all"], "no part all"),
    (["--device", "soft0", "--build", "/nowhere"], "nothing is built in /nowhere"),
], ids=["device", "part", "build"])
def test_usage(tmp_path, words, why):
    result = run([sys.executable, str(HARDWARE / "run.py"), "--build", str(BUILD), *words])
    assert result.rc == 2 and why in result.err


@pytest.mark.no_device
def test_masks():
    masks = report.Masks({"node7.example.org": "this-machine", "node7": "this-machine"})
    for text, masked in (
            ("tcp=192.168.7.9:7471 gid", "tcp=address-1:7471 gid"),
            ("on node7.example.org, node7:", "on this-machine, this-machine:"),
            ("::ffff:192.168.7.9 and fe80::1234:5678", "address-2 and address-3"),
            ("192.168.7.9, 10.0.0.1.", "address-1, address-4."),
            ("0002:c903:00a1:b2c4", "guid-5"),
            ("127.0.0.1:7471 ::ffff:127.0.0.1 ::1 0.0.0.0", None),
            ("test_a.py::test_b[1:2] at 10:20:30, libibverbs 1.14.44.0", None),
            ("/proc/node7/x node7-b", None)):
        assert masks(text) == (masked or text)


@pytest.mark.no_device
def test_results_are_read_from_what_programs_print():
    ok, bad, skipped = report.lines("ok    a: b (1 s)\n      | 5 us\nFAIL  a: c\n      | assert 1\n"
                                    "      | assert 2\nskip  a: d: no reason\n")
    assert ok == ["ok", "a: b (1 s)", ["5 us"]]
    assert bad == ["FAIL", "a: c", ["assert 1", "assert 2"]]
    assert skipped == ["skip", "a: d: no reason", []]
    results = report.cmocka("[ RUN      ] one\n[       OK ] one\n[ RUN      ] two\n1 != 2\n"
                            "[  FAILED  ] two\n[  FAILED  ] tests: 1 test(s)\n[  FAILED  ] two\n")
    assert results == [["ok", "one", []], ["FAIL", "two", ["1 != 2"]]]
    assert report.Part("p", "", results[:1], 3, 1).count("FAIL") == 1, "it died after its last test"


@pytest.mark.no_device
def test_help():
    result = run([str(ROOT / "tests/run"), "hardware", "--help"])
    assert result.rc == 0 and b"--peer" in result.out and b"changes nothing" in result.out
    assert os.access(HARDWARE / "run.py", os.X_OK) and pathlib.Path(HARDWARE / "README.md").exists()
