# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""deploy/rxe-up and rxe-down where there is nothing to bring up. With the module:
tests/rxe/test_rxe_up.sh"""
import os
import pathlib
import re
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
