# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli doctor: what there is, and a connection step by step."""
import contextlib
import json
import re
import signal
import socket
import threading
import time

import pytest

import kvt_wire as wire
from kvt_client import assert_error, run
from kvt_process import CONNECT, DEVICE, SLOW, free_port, program

STEPS = ["resolve", "tcp", "device", "welcome",
         *(["gid", "qp", "offer", "answer", "settle", "rtr", "rts"]
           if CONNECT == "tcp" else ["qp", "route", "cm"]),
         "live", "root", "ping", "disk", "close"]
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
        if f["level"] == "ok" and f["about"] != "Soft-RoCE":
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
    assert {"locked memory", "hugepages", "/dev/infiniband", "Soft-RoCE", "ptrace scope",
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
    """Two programs, one opinion: the GID of the server's line is doctor's, or the exchange's."""
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
        assert re.search(r"QP 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}, GID \S+, LID \d+, MTU \d+, "
                         r"READ depth", words[side]), words[side]


def test_steps_in_words(shared):
    """A host given by --server is one as well."""
    result = doctor("-s", shared.address)
    text = result.out.decode()
    assert result.rc == 0 and result.err == ""
    assert re.findall(r"^  (\w+) +ok +\d+\.\d ms  ", text, re.M) == STEPS, text
    assert "Verdict: the connection works." in text


def test_a_server_that_stands_still_fails_at_the_welcome(world):
    """The kernel takes TCP connections for it; HELLO is what nobody answers."""
    server = world.server()
    server.stop_threads()
    try:
        d = failed_at(server.address, "welcome", timeout_ms=1500)
        assert d["steps"][1]["ok"] is True
    finally:
        server.signal(signal.SIGCONT)


def failed_at(address, step, *words, timeout_ms=3000):
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
    """A label of 64 bytes, which no name may have: refused before anybody on a network is asked."""
    name = "n" * 64 + ".invalid"
    failed_at(name, "resolve", name, "(check the name)")


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
    if CONNECT != "tcp":
        pytest.skip("the RDMA CM finds no device on the way to this peer, which stands on lo")
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


WELCOME, REFUSE = wire.WELCOME, wire.REFUSE
PEERS = {  # what it sends, None: it closes at once; and what is said of it
    "nothing": (b"", "did not answer"), "closes": (None, "welcome"),
    "half a frame": (wire.frame(WELCOME, bytes(192))[:40], "did not answer"),
    "a web server": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "step welcome"),
    "zeros": (bytes(64), "step welcome"), "ones": (b"\xff" * 4096, "step welcome"),
    "another version": (wire.frame(WELCOME, bytes(192), version=77), f"77.*{wire.VERSION}"),
    "no welcome": (wire.frame(WELCOME, bytes(192)), "cannot be"),
    "words": (wire.frame(REFUSE, wire.REFUSE_BODY.pack(-93, 0, b"the hash is 1 there")),
              "the hash is 1 there"),
}


@pytest.mark.parametrize("sent, said", PEERS.values(), ids=PEERS.keys())
def test_a_peer_that_is_no_server(sent, said):
    def answer(connection):
        if sent is None:
            connection.close()
        else:
            connection.sendall(sent)
    with peer(answer) as address:
        d = failed_at(address, "welcome", timeout_ms=1000)
    assert re.search(said, d["steps"][-1]["words"]), d["steps"][-1]


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
    assert result.rc == 2 and "0xff" in json.loads(result.err)["why"]
    assert_error(doctor("bad\udcff\x1b"), 2, "0xff")
    assert_error(doctor("--address", "bad\udcff\x1b"), 2, r"\\xff\\x1b is no IP")
    d = document(f"{LOCAL}:{free_port(LOCAL)}", device="a\udcff\x1b[31m", rc=1)
    assert d["steps"][-1]["step"] == d["failed_step"]
    assert d["steps"][-1]["ok"] is False


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
