# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""deploy/rxe-up and rxe-down where there is nothing to bring up. With the module:
tests/rxe/test_rxe_up.sh"""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from kvt_process import ROOT, environment


def rxe(script, *words, path=None):
    env = environment({"PATH": f"{path}:{os.environ['PATH']}"} if path else None)
    return subprocess.run([ROOT / "deploy" / script, *words], stdin=subprocess.DEVNULL, env=env,
                          capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def fakes(tmp_path):
    """A folder of commands that stand before the real ones: fakes(name, shell text)."""
    def make(name, text):
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        file.chmod(0o755)
        return tmp_path
    return make


def one_line(done, rc, *words):
    assert done.returncode == rc, done
    assert done.stderr.count("\n") == 1 and re.match(r"rxe-(up|down): ", done.stderr), done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.no_device
def test_rxe_up_help_and_usage():
    for script in ("rxe-up", "rxe-down"):
        done = rxe(script, "--help")
        assert done.returncode == 0 and script in done.stdout and done.stderr == ""
        one_line(rxe(script, "--nonsense"), 2, "--nonsense")
        one_line(rxe(script, "a", "b"), 2, "b:")


@pytest.mark.no_device
def test_rxe_up_without_root(fakes):
    path = fakes("id", "echo 1000")
    one_line(rxe("rxe-up", path=path), 3, "root", "sudo")
    one_line(rxe("rxe-down", path=path), 3, "root", "sudo")


@pytest.mark.no_device
def test_rxe_up_explains_what_is_missing(fakes):
    """No module here, whatever this machine has: says so, and of the way out. Nothing is done."""
    path = fakes("modprobe", "exit 1")
    netdev = next((p.name for p in pathlib.Path("/sys/class/net").iterdir() if p.name != "lo"),
                  None)
    if pathlib.Path("/sys/module/rdma_rxe").exists() or not netdev:
        pytest.skip("rdma_rxe is loaded, or there is no network device but lo")
    fakes("id", "echo 0")
    fakes("rdma", "exit 0")
    fakes("ibv_devinfo", "exit 0")
    fakes("ip", f'case "$*" in *addr*) echo "2: {netdev} inet 192.0.2.7/24 scope global";; '
                f'*link*) echo "2: {netdev}: <BROADCAST,UP,LOWER_UP> mtu 1500";; '
                f'*) echo "default via 192.0.2.1 dev {netdev} ";; esac')
    done = rxe("rxe-up", "--dry-run", path=path)
    if "missing here" in done.stderr:
        one_line(done, 3, "apt-get install")
    else:
        one_line(done, 3, "rdma_rxe", "soft0")
        assert netdev in done.stdout
    assert not pathlib.Path("/run/gracekv-rxe.state").exists()


@pytest.mark.no_device
def test_rxe_up_on_no_such_network_device(fakes):
    path = fakes("id", "echo 0")
    fakes("rdma", "exit 0")
    fakes("modprobe", "exit 1")
    fakes("ip", "exit 1")
    done = rxe("rxe-up", "nosuch99", path=fakes("ibv_devinfo", "exit 0"))
    if "missing here" not in done.stderr:
        one_line(done, 3, "nosuch99", "here are")
    del path


@pytest.mark.no_device
def test_rxe_down_with_nothing_to_undo():
    if pathlib.Path("/run/gracekv-rxe.state").exists() or pathlib.Path(
            "/etc/security/limits.d/60-gracekv-rdma.conf").exists():
        pytest.skip("rxe-up has been here")
    done = rxe("rxe-down", "--dry-run")
    assert done.returncode == 0 and "nothing" in done.stdout, done


@pytest.fixture
def deployed(tmp_path, fakes):
    """The scripts, with a record and limits of their own, and with commands that do nothing but
    tell of their call: run(script, words...), the record, and what was called so far."""
    path = fakes("id", "echo 0")
    for name in ("rdma", "rmmod", "ip", "modprobe"):
        fakes(name, f'echo "{name} $*" >>{tmp_path}/calls')
    copy, record = tmp_path / "deploy", tmp_path / "run" / "record"
    shutil.copytree(ROOT / "deploy", copy)
    record.parent.mkdir()
    library = copy / "lib" / "rxe.sh"
    text, count = re.subn(r"^rxe_state=.*", f"rxe_state={record}", library.read_text(), flags=re.M)
    text, more = re.subn(r"^rxe_limits=.*", f"rxe_limits={tmp_path}/limits", text, flags=re.M)
    text, last = re.subn(r"^rxe_wait_s=.*", "rxe_wait_s=1", text, flags=re.M)
    assert (count, more, last) == (1, 1, 1)
    library.write_text(text)
    calls = tmp_path / "calls"
    return (lambda *words: rxe(copy / words[0], *words[1:], path=path), record,
            lambda: calls.read_text().splitlines() if calls.exists() else [])


@pytest.mark.no_device
@pytest.mark.parametrize("kind", ["folder", "symlink", "nowhere", "pipe", "group's"])
def test_rxe_down_follows_no_record_that_others_can_write(deployed, tmp_path, kind):
    """In words, at once, and nothing is called."""
    run_script, record, calls = deployed
    (tmp_path / "elsewhere").write_text("module af_packet\n")
    if kind == "folder":
        record.mkdir()
    elif kind == "pipe":
        os.mkfifo(record)
    elif kind == "group's":
        record.write_text("module af_packet\n")
        record.chmod(0o664)
    else:
        record.symlink_to(tmp_path / ("elsewhere" if kind == "symlink" else "nothing"))
    for script in ("rxe-down", "rxe-up"):
        one_line(run_script(script), 3, str(record), "only root")
    assert not calls() and (record.is_symlink() or record.exists())
    assert (tmp_path / "elsewhere").read_text() == "module af_packet\n"


@pytest.mark.no_device
def test_rxe_down_with_a_damaged_record(deployed, tmp_path):
    """Lines that are none are left out, and said; the others count, also the last without end."""
    run_script, record, calls = deployed
    record.write_bytes(b"link nosuch9 eth0\nlink nosuch8\nlink a;b eth0\nmodule ../x\nmodule -f\n"
                       b"module nosuch_m n\nlink nosuch7 $(touch " + bytes(tmp_path) + b"/x)\n"
                       b"\0\xff\nmodule nosuch_module")
    done = run_script("rxe-down", "--dry-run")
    assert done.returncode == 0 and done.stderr == "", done
    assert re.search(r"^record +7 of its lines", done.stdout, re.M), done.stdout
    assert "nosuch9 on eth0" in done.stdout and "unloaded: nosuch_module\n" in done.stdout
    one_line(run_script("rxe-down", ".*"), 3, ".*", "no link")
    one_line(run_script("rxe-down", ""), 2, "empty")
    one_line(run_script("rxe-up", ""), 2, "empty")
    assert record.exists() and not calls()
    done = run_script("rxe-down")
    assert done.returncode == 0 and done.stderr == "", done
    assert not record.exists() and not calls() and not (tmp_path / "x").exists()


@pytest.mark.no_device
def test_rxe_down_waits_for_another_one_and_says_so(deployed):
    run_script, record, calls = deployed
    record.write_text("link nosuch9 eth0\n")
    held = os.open(record.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        one_line(run_script("rxe-down"), 3, "another")
        assert record.exists() and not calls()
    finally:
        os.close(held)
    assert run_script("rxe-down").returncode == 0
    assert not record.exists()
