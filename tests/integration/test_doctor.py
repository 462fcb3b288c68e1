# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli doctor: what there is, and a connection step by step; deploy/rxe-up where it cannot."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import kvt_wire as wire
from kvt_client import assert_error, run
from kvt_process import CONNECT, DEVICE, ROOT, SLOW, environment, free_port, program

STEPS = ["resolve", "tcp", "device", "welcome",
         *(["gid", "qp", "offer", "answer", "settle", "rtr", "rts"]
           if CONNECT == "tcp" else ["qp", "route", "cm"]),
         "live", "root", "ping", "close"]
LOCAL = "127.0.0.1"  # where the peers of this file listen
LEVELS = {"ok", "note", "problem"}


def doctor(*words, device=DEVICE, env=None, seconds=60):
    options = ["-d", device] if device else []
    options += ["--connect", CONNECT] if CONNECT != "tcp" else []
    return run([program("kv-cli"), *options, "doctor", *words], env=env, seconds=seconds)


def document(*words, rc=0, **how):
    result = doctor("--json", *words, **how)
    assert result.rc == rc, (result.out.decode(), result.err)
    assert result.err == ""
    return json.loads(result.out)


def check_findings(findings):
    assert findings
    for f in findings:
        assert set(f) == {"level", "about", "words", "remedy"}, f
        assert f["level"] in LEVELS and f["about"] and f["words"], f
        assert "\n" not in f["words"] + f["remedy"]
        if f["level"] == "ok" and f["about"] != "soft-RoCE":
            assert f["remedy"] == "", f


def check_device(device):
    assert device["name"]
    check_findings(device["findings"])
    for port in device["ports"]:
        assert port["state"] and port["link_layer"] in ("Ethernet", "InfiniBand")
        assert 256 <= port["active_mtu"] <= port["max_mtu"] <= 4096
        assert sum(g["taken"] for g in port["gids"]) == (1 if port["choice"] else 0), port
        for g in port["gids"]:
            assert g["verdict"].startswith("taken: " if g["taken"] else ("not taken", "cannot"))
        indices = [g["index"] for g in port["gids"]]
        assert indices == sorted(set(indices))
    for limit in device["limits"]:
        enough = limit["there"] >= limit["needed"]
        assert (limit["level"] != "problem") == enough, limit


def test_here_as_a_document():
    """The device under test works, and every finding has its form."""
    d = document()
    assert d["tool"] == "kv-cli doctor" and d["schema"] == 1 and d["version"]
    assert d["ok"] is True and d["device"] == DEVICE
    assert [x["name"] for x in d["devices"]] == [DEVICE]  # the one that was named, no other
    check_findings(d["machine"]["findings"])
    about = {f["about"] for f in d["machine"]["findings"]}
    assert {"locked memory", "hugepages", "/dev/infiniband", "soft-RoCE", "ptrace scope",
            "open files"} <= about
    check_device(d["devices"][0])
    assert d["devices"][0]["works"] is True
    loopback = [f for f in d["devices"][0]["findings"] if f["about"].startswith("loopback")]
    assert loopback and all(f["level"] == "ok" for f in loopback)
    assert not re.search(r"\d\s*(us|ns|ms)\b", " ".join(f["words"] for f in loopback))


def test_all_devices_and_the_one_that_auto_takes():
    d = document(device=None)
    names = [x["name"] for x in d["devices"]]
    assert names[-1] == "soft0" and DEVICE in names
    real = [x for x in d["devices"] if not x["software"] and
            any(p["state"] == "active" for p in x["ports"])]
    assert d["device"] == (real[0]["name"] if real else "soft0")
    for device in d["devices"]:
        check_device(device)


@pytest.mark.skipif(CONNECT != "tcp", reason="the RDMA CM chooses by its route")
def test_the_verdict_is_what_a_connection_takes(shared):
    """Two programs, one opinion: the GID of the server's own line is doctor's, or the exchange's."""
    d = document()
    gids = {g["index"]: g for g in d["devices"][0]["ports"][0]["gids"]}
    taken = next((i for i, g in gids.items() if g["taken"]), 0)
    steps = document(shared.address)["steps"]
    words = next(s["words"] for s in steps if s["step"] == "gid")
    chosen = re.search(r"GID index (\d+) (\S+):", words)
    assert chosen, words
    assert gids[int(chosen[1])]["gid"] == chosen[2]
    if "address of the TCP exchange" not in words:
        assert int(chosen[1]) == taken


def test_text_is_for_people():
    result = doctor()
    text = result.out.decode()
    assert result.rc == 0 and result.err == ""
    assert "\033" not in text  # no terminal
    assert max(map(len, text.splitlines())) <= 110, text
    for word in ("Machine", f"Device {DEVICE}", "verdict", "taken", "loopback", "Verdict: "):
        assert word in text, word


@pytest.mark.no_device
def test_a_device_that_is_not_there_is_an_error_that_lists_what_is():
    assert_error(doctor(device="nosuch9"), 3, "nosuch9", "soft0")
    assert_error(doctor(device=None, env={"GRACEKV_DEVICE": "nosuch9"}), 3, "nosuch9", "soft0")


def test_a_gid_that_is_not_there_is_a_problem():
    result = doctor("-x", "200")
    assert result.rc == 1
    d = document("-x", "200", rc=1)
    assert d["ok"] is False and d["devices"][0]["works"] is False
    assert any("200" in f["words"] and f["level"] == "problem" for f in d["devices"][0]["findings"])


def test_a_port_that_is_not_there_is_a_problem():
    d = document("-i", "7", rc=1)
    assert any("not 7" in f["words"] for f in d["devices"][0]["findings"])


@pytest.mark.no_device
def test_one_word_too_many():
    assert_error(doctor("a", "b"), 2, "'b'")
    assert_error(doctor("host:port"), 2, "doctor")


@pytest.mark.parametrize("fault", ["drop=1,seed=1", "create_qp=ENOMEM@1", "reg_mr=ENOMEM@1"])
def test_soft0_under_a_fault_is_a_problem(soft_device, fault):
    """What fails is seen: the loopback is a real READ on real queue pairs."""
    result = doctor("--json", env={"SOFTRDMA_FAULT": fault})
    assert result.rc == 1, result
    d = json.loads(result.out)
    assert d["ok"] is False and d["devices"][0]["works"] is False
    assert any(f["about"].startswith("loopback") and f["level"] == "problem"
               for f in d["devices"][0]["findings"]), d["devices"][0]["findings"]


# doctor HOST


def test_every_step_of_a_connection(shared):
    d = document(shared.address)
    assert d["tool"] == "kv-cli doctor HOST" and d["schema"] == 1
    assert d["ok"] is True and d["failed_step"] is None and d["remedy"] == ""
    assert [s["step"] for s in d["steps"]] == STEPS
    words = {s["step"]: s["words"] for s in d["steps"]}
    assert all(s["ok"] and s["ms"] >= 0 and s["words"] for s in d["steps"])
    assert f"port {shared.port}" in words["tcp"]
    assert f"device {DEVICE} port" in words["device"]
    assert f"process {shared.ready['pid']}" in words["welcome"]
    assert "GKVROOT1" in words["root"]
    for side in ("offer", "answer") if CONNECT == "tcp" else ():
        assert re.search(r"QP 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}, GID \S+, LID \d+, MTU \d+, READ depth",
                         words[side]), words[side]


def test_steps_in_words(shared):
    result = doctor(shared.address)
    text = result.out.decode()
    assert result.rc == 0 and result.err == ""
    assert re.findall(r"^  (\w+) +ok +\d+\.\d ms  ", text, re.M) == STEPS, text
    assert "Verdict: the connection works." in text


def test_option_server_is_a_host_as_well(shared):
    result = run([program("kv-cli"), "-d", DEVICE, "--connect", CONNECT, "-s", shared.address, "--json",
                  "doctor"])
    assert result.rc == 0
    assert json.loads(result.out)["tool"] == "kv-cli doctor HOST"


def test_a_server_that_stands_still_fails_at_the_welcome(world):
    """The kernel takes TCP connections for it; HELLO is what nobody answers."""
    server = world.server()
    server.stop_threads()
    try:
        d = failed_at(server.address, "welcome", timeout_ms=1500)
        assert d["steps"][1]["ok"] is True
    finally:
        server.signal(signal.SIGCONT)


def failed_at(address, step, *words, timeout_ms=1000):
    """A connection that fails at a step, in time, with a sentence and a hint."""
    timeout_ms *= SLOW
    started = time.monotonic()
    d = document("--timeout", str(timeout_ms), address, rc=1)
    assert time.monotonic() - started < timeout_ms / 1000 + 20
    assert d["ok"] is False and d["failed_step"] == step, d["steps"]
    assert d["remedy"]
    last = d["steps"][-1]
    assert last["step"] == step and last["ok"] is False
    assert all(s["ok"] for s in d["steps"][:-1])
    for word in words:
        assert word in last["words"], last["words"]
    return d


def test_reads_that_get_lost_fail_at_the_root_page(shared, soft_device):
    """The first READ is lost again and again: one line for it, however often it was tried."""
    result = doctor("--json", "--timeout", "1500", shared.address,
                    env={"SOFTRDMA_FAULT": "drop=1,seed=1"})
    assert result.rc == 1, result
    d = json.loads(result.out)
    assert d["failed_step"] == "root" and "4791" in d["remedy"]
    assert [s["step"] for s in d["steps"]] == STEPS[:STEPS.index("root") + 1]
    assert "transport retry counter exceeded" in d["steps"][-1]["words"]


@pytest.mark.no_device
def test_nobody_listens():
    failed_at(f"{LOCAL}:{free_port(LOCAL)}", "tcp", "refused")


@pytest.mark.no_device
def test_no_such_name():
    failed_at("no-such-host.invalid", "resolve", "no-such-host.invalid")


@pytest.mark.no_device
def test_failure_in_words():
    result = doctor(f"{LOCAL}:{free_port(LOCAL)}")
    text = result.out.decode()
    assert result.rc == 1
    assert re.search(r"^  tcp +failed +\d+\.\d ms  ", text, re.M), text
    assert "-> " in text and "no connection: step tcp failed" in text


@contextlib.contextmanager
def peer(answer):
    """A listener that does answer(connection) for each that comes; its address."""
    listener = socket.socket()
    listener.bind((LOCAL, 0))
    listener.listen(8)
    listener.settimeout(0.1)
    over = threading.Event()

    def serve():
        kept = []
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except socket.timeout:
                continue
            with contextlib.suppress(OSError):
                connection.settimeout(5)
                answer(connection)
            kept.append(connection)
        for connection in kept:
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"{LOCAL}:{listener.getsockname()[1]}"
    finally:
        over.set()
        thread.join()
        listener.close()


def test_a_peer_that_never_answers():
    with peer(lambda connection: None) as address:
        failed_at(address, "welcome", "did not answer")


def test_a_peer_that_closes_at_once():
    with peer(lambda connection: connection.close()) as address:
        failed_at(address, "welcome")


@pytest.mark.no_device
@pytest.mark.parametrize("rubbish", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64,
                                     b"\xff" * 4096, b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_a_peer_that_talks_rubbish(rubbish):
    with peer(lambda connection: connection.sendall(rubbish)) as address:
        failed_at(address, "welcome", "step welcome")


@pytest.mark.no_device
def test_a_peer_that_sends_half_a_frame():
    with peer(lambda c: c.sendall(wire.frame(wire.WELCOME, bytes(192))[:40])) as address:
        failed_at(address, "welcome", "did not answer")


@pytest.mark.no_device
def test_a_peer_of_another_version():
    reply = wire.frame(wire.WELCOME, bytes(192), version=77)
    with peer(lambda connection: connection.sendall(reply)) as address:
        failed_at(address, "welcome", "77", str(wire.VERSION))


def test_a_peer_that_refuses_in_words():
    text = b"the layout's hash is 1 there and 2 here"
    reply = wire.frame(wire.REFUSE, wire.REFUSE_BODY.pack(-93, 0, text))
    with peer(lambda connection: connection.sendall(reply)) as address:
        failed_at(address, "welcome", text.decode())


@pytest.mark.parametrize("code", [-22, 0, 5, -4096, -2**31])
def test_a_peer_that_refuses_with_bytes_for_the_terminal(code):
    """No byte of a peer commands the terminal, and none of its bytes spoils the document."""
    reply = wire.frame(wire.REFUSE, wire.REFUSE_BODY.pack(code, 0, b"\x1b[2J\r\nkv: \xff\xfe"))
    with peer(lambda connection: connection.sendall(reply)) as address:
        failed_at(address, "welcome", "refused: ?[2J??kv: ??")
        assert b"\x1b" not in doctor("--timeout", "1000", address).out


def test_names_of_any_bytes():
    """What the user gave stands in the sentences as well."""
    result = doctor("--json", "bad\udcff\x1b")
    assert_error(result, 2, "0xff")
    d = document(f"{LOCAL}:{free_port(LOCAL)}", device="a\udcff\x1b[31m", rc=1)
    assert d["steps"][-1]["step"] == d["failed_step"]
    assert d["steps"][-1]["ok"] is False


@pytest.mark.no_device
def test_a_welcome_that_cannot_be():
    with peer(lambda c: c.sendall(wire.frame(wire.WELCOME, bytes(192)))) as address:
        failed_at(address, "welcome", "cannot be")


@pytest.mark.skipif(CONNECT != "tcp", reason="the RDMA CM compares names after its route")
def test_a_device_that_is_not_there_fails_at_its_step(shared):
    d = document(shared.address, device="nosuch9", rc=1)
    assert d["failed_step"] == "device"
    assert "nosuch9" in d["steps"][-1]["words"] and "soft0" in d["steps"][-1]["words"]


@pytest.mark.skipif(CONNECT != "tcp", reason="the RDMA CM chooses by its route")
def test_a_gid_that_is_not_there_fails_before_anything_is_sent(shared):
    d = document("-x", "200", shared.address, rc=1)
    assert d["failed_step"] in ("device", "gid")
    assert "200" in d["steps"][-1]["words"]


# deploy/rxe-up where there is nothing to bring up. With the module: tests/rxe/test_rxe_up.sh


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
    """Lines that are none are left out, and said; the others count, the last without its end too."""
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
