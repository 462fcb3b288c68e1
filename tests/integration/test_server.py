# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-server: ready line, signals, where settings come from, settings that cannot work."""
import json
import os
import random
import re
import signal
import socket
import time

import pytest

from kvt_client import CallFailed, assert_error, run
from kvt_process import (AGENT, CONNECT, DEVICE, HOST, SANITIZED, Process, program, wait_until)
from kvt_remote import server_port
from kvt_server import ServerFailed, refused

MIB = 1 << 20
FULL_TOLD_S = 10  # between two lines about a full store


def test_ready_line(world):
    server = world.server(memory="64M")
    assert server.ready["host"] == HOST
    assert server.ready["device"] == DEVICE
    assert int(server.ready["memory"]) == 64 * MIB
    assert int(server.ready["pid"]) == server.pid
    assert server.port > 0
    server.stop()
    assert server.read_line(1) is None, "one line on stdout and no more"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stops_with_clients_connected_and_at_work(world, how):
    server = world.server()
    idle, reader, writer = (world.client(server) for _ in range(3))
    idle.put(b"key", b"value")
    reader.start("spin", b"key", 20000)
    writer.start("fill", "record", 0, 10000000, 1000)
    time.sleep(0.3)
    server.stop(how, seconds=5)
    for client in (reader, writer):
        with pytest.raises(Exception, match="-[0-9]+"):
            client.answer(15)


def test_stops_with_half_a_handshake_pending(world):
    server = world.server(memory="64M")
    with socket.create_connection((HOST, server.port)) as s:
        s.sendall(b"GKVX")
        time.sleep(0.1)
        server.stop()


def test_closed_outputs_are_taken_by_nothing(soft_device, tmp_path):
    """What is printed and logged goes nowhere, not into the next socket or memory."""
    port = server_port()

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    server = Process(
        ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", program("kv-server"), "--device", DEVICE,
         "--memory", "64M", "--listen", f"{HOST}:{port}"], tmp_path / "kv-server.stderr")
    try:
        wait_until("it listens", listens, 10)
        for number in (1, 2):
            assert os.readlink(f"/proc/{server.pid}/fd/{number}") == "/dev/null"
        server.signal(signal.SIGTERM)
        assert server.wait(10) == 0
    finally:
        server.close()


# Signals that reload, or do nothing: records are in memory only, and none may be lost by them


def told(server, *words, count=1, seconds=5):
    """Wait for so many lines of the log with all these words; the last one."""
    def lines():
        return [line for line in server.stderr().splitlines() if all(w in line for w in words)]
    wait_until(f"the log has {words}", lambda: len(lines()) >= count, seconds)
    return lines()[-1]


@pytest.mark.parametrize("how", ["SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_a_signal_that_is_no_stop_loses_no_record(world, how):
    server = world.server(memory="64M")
    cli = world.cli(server)
    cli.put("kept", b"value")
    server.signal(getattr(signal, how))
    line = told(server, how)
    assert "--config" in line if how == "SIGHUP" else "ignored" in line
    assert cli.get("kept") == b"value"


def test_sighup_reloads_the_log_and_says_why_nothing_else_changes(world, tmp_path):
    config = tmp_path / "kv-server.conf"

    def says(text):
        config.write_text(text)
        server.signal(signal.SIGHUP)

    config.write_text("[kv-server]\nlog-level = warn\nlease = 700\n")
    server = world.server("--config", str(config), memory="64M")
    cli = world.cli(server)
    cli.put("kept", b"value")
    says("log-level = debug\nlease = 700\n")
    told(server, "log-level is debug from now on, it was warn")
    cli.put("kept", b"value")
    told(server, "debug session", "ends")
    says("log-level = debug\nlease = 700\n")
    told(server, "no setting has changed in", str(config))
    says("log-level = loud\nlease = 700\n")
    told(server, "error", "nothing is reloaded", f"{config} line 1: log-level: 'loud' is none of")
    says("log-level = info\nlog-format = json\nlease = 900\nmemory = 32M\nworkers = 2\n"
         "deferred-max = 32M\n")
    line = told(server, "lease stays 700")
    assert json.loads(line)["level"] == "warn" and "when they connected" in line
    told(server, "workers stays 0", "each connection")
    told(server, "deferred-max stays 0")
    assert "memory stays" not in server.stderr(), "a flag goes before the file"
    config.unlink()
    server.signal(signal.SIGHUP)
    told(server, "nothing is reloaded", "No such file")
    assert json.loads(server.stderr().splitlines()[-1])["topic"] == "config"
    assert cli.get("kept") == b"value"


def test_a_call_of_kv_cli_is_one_line_of_the_log(world):
    server = world.server(memory="64M")
    before = len(server.stderr().splitlines())
    world.cli(server).put("a", b"b")
    world.cli(server).stats()
    told(server, "session 2 begins")
    assert len(server.stderr().splitlines()) - before == 2, server.stderr()


def test_a_full_store_is_told_in_the_log_once_and_counted(world, tmp_path):
    config = tmp_path / "kv-server.conf"
    config.write_text("\nmemory = 16M\n")
    server = world.server("--config", str(config), memory=None)
    cli, client = world.cli(server), world.client(server)
    start = time.monotonic()
    with pytest.raises(CallFailed, match="-12"):
        client.ask("fill", "record", 0, 1000, 100000, seconds=30)
    line = told(server, "the store is full")
    assert "warn" in line and "start kv-server with more" in line
    assert f"{config} line 2: memory is 16 MiB" in line, "what set it is named"
    before = cli.stats()["rpc_refused_full"]
    assert before >= 1
    for _ in range(3):
        assert_error(cli("put", "more", "-", stdin=bytes(1 << 20)), 3, "memory")
    assert cli.stats()["rpc_refused_full"] >= before + 3
    lines = server.stderr().count("the store is full")
    periods = (time.monotonic() - start) // FULL_TOLD_S  # an emulated machine may be that slow
    assert 1 <= lines <= 1 + periods, "not a line for each refusal"
    client.delete(b"record00000000")


# Where settings come from


def test_listen_flag_before_environment_before_file_before_default(world, tmp_path):
    ports = {server_port() for _ in range(10)}
    in_file, in_env, in_flag = list(ports)[:3]
    config = tmp_path / "kv-server.conf"
    config.write_text(f"listen = {HOST}:{in_file}\n")
    env = {"GRACEKV_LISTEN": f"{HOST}:{in_env}"}
    file = ["--config", str(config)]
    assert world.server(*file, memory="64M", env=env, listen=f"{HOST}:{in_flag}").port == in_flag
    assert world.server(*file, memory="64M", env=env, listen=None).port == in_env
    assert world.server(*file, memory="64M", listen=None).port == in_file


def test_empty_variable_is_not_set(world, tmp_path):
    """For the server as for its clients: what comes after the environment counts."""
    config = tmp_path / "kv-server.conf"
    config.write_text(f"listen = {HOST}:0\nmemory = 48M\ndevice = {DEVICE}\n")
    names = ["LISTEN", "DEVICE", "IB_PORT", "GID_INDEX", "MTU", "MEMORY", "INDEX_SLOTS", "WORKERS",
             "LEASE", "CONNECT", "TIMEOUT", "RETRY_CNT", "RNR_RETRY", "LOG_LEVEL", "LOG_FORMAT",
             "CONFIG", "SERVER"]
    env = {f"GRACEKV_{name}": "" for name in names}
    server = world.server("--config", str(config), listen=None, memory=None, device=None, env=env)
    assert int(server.ready["memory"]) == 48 * MIB
    assert server.ready["device"] == DEVICE
    assert world.cli(server)("ping", "-c", "1", env=env).rc == 0
    assert world.server(env=env, memory="64M").ready["device"] == DEVICE


def test_misspelt_variable_is_told_what_it_may_have_meant(world):
    env = {"GRACEKV_MEMROY": "1G", "GRACEKV_SERVER": "elsewhere:1", "GRACEKV_TEST_X": "1",
           "GRACEKV_XYZZY": "", "GRACEKV_LEASE": "2000", "GRACEKV_SERVR": "x"}
    server = world.server(memory="64M", env=env)
    lines = re.findall("config: (.*)", server.stderr())
    assert sorted(lines) == [
        "GRACEKV_MEMROY is ignored: kv-server has no such setting (did you mean GRACEKV_MEMORY?)",
        "GRACEKV_SERVR is ignored: kv-server has no such setting (did you mean GRACEKV_SERVER?)",
        "GRACEKV_XYZZY is ignored: kv-server has no such setting (see --help)"]


@pytest.mark.skipif(bool(AGENT), reason="the default is an address of the server's machine alone")
@pytest.mark.skipif(CONNECT != "tcp", reason="the default is on lo, which no device of the CM has")
def test_default_port(world):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 7471)) == 0:
            pytest.skip("something listens on port 7471 of this machine")
    server = world.server(memory="64M", listen=None)
    assert (server.ready["host"], server.port) == ("127.0.0.1", 7471)
    assert run([program("kv-cli"), "-d", DEVICE, "ping", "-c", "1"]).rc == 0


def test_default_memory_is_a_quarter_of_ram_and_at_most_4_gib(world):
    ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = int(world.server(memory=None).ready["memory"])
    assert min(ram // 4, 4 << 30) - 64 * MIB <= memory <= min(ram // 4, 4 << 30)


def test_settings_of_a_file(world, tmp_path):
    """With a byte order mark, comments, blanks and ends of lines as editors leave them."""
    config = tmp_path / "kv-server.conf"
    config.write_bytes(b"\xef\xbb\xbf\n# " + b"x" * 198 + b" memory = 1X\r\n\n [ kv-server ] \n" +
                       f"listen = {HOST}:0\n\tmemory=48MiB\n  device = {DEVICE}\n".encode() +
                       b"lease = 0.7s\nworkers = 3 ; three")
    server = world.server("--config", str(config), listen=None, memory=None, device=None)
    assert int(server.ready["memory"]) == 48 * MIB
    assert server.ready["device"] == DEVICE
    assert world.cli(server).stats()["workers"] == 3


@pytest.mark.no_device
@pytest.mark.parametrize("text,words", [
    (b"lisen = 127.0.0.1:0\n", ["lisen", "line 1", "did you mean listen"]),
    (b"frobnicate = 1\n", ["no setting 'frobnicate'", "--help"]),
    (b"# fine\nlisten 127.0.0.1 0\n", ["line 2"]), (b"= 5\n", ["line 1"]),
    (b"workers = 1\n  worker = 2\n", ["line 2"]), (b"[kv-server\n", ["line 1"]),
    (b"lease = 700\n\nmemory = much\n", ["line 3: memory: 'much' is not a size"]),
    (b"[kv-server]\nmemory = 512MB\n", ["line 2: memory", "give 512M or 512MiB"]),
    (b"lease = 5\n", ["line 1: lease", "10ms to 10m"]),
    (b"log-level = loud\n", ["line 1: log-level: 'loud'", "debug"]),
    (b"gid-index = first\n", ["line 1: gid-index"]),
    (b"memory = 64M\n[kv-sever]\n", ["line 2", r"no section \[kv-sever\]", r"\[kv-server\]"]),
    (b"[etcd]\nlisten = 1\n", ["line 1", r"no section \[etcd\]"]),
    (b"listen = 127.0.0.1:0\nlisten = 127.0.0.1:0\n", ["line 2", "twice"]),
    (b"\0\1\2\3" * 1000, []), (random.Random(7).randbytes(5000), []), (b"x" * MIB, []),
    (b"listen = " + b"x" * MIB, []), (b"log-level = " + b"\xff\xfe" * 20 + b"\n", []),
], ids=lambda it: it[:20].hex() if isinstance(it, bytes) else "")
def test_bad_file(tmp_path, text, words):
    config = tmp_path / "bad.conf"
    config.write_bytes(text)
    line = assert_error(refused(tmp_path, "--config", str(config), memory=None, listen=None), 2,
                        *words, who="kv-server")
    assert str(config) in line and " --lis" not in line and " --mem" not in line
    assert len(line) < 700


@pytest.mark.no_device
@pytest.mark.parametrize("path", ["none.conf", ".", "/proc/self/mem", ""])
def test_config_file_that_is_none(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    assert_error(refused(tmp_path, "--config", path), 2, re.escape(path), who="kv-server")


@pytest.mark.no_device
@pytest.mark.parametrize("name,value", [("MEMORY", "much"), ("LOG_LEVEL", "loud"),
                                        ("WORKERS", "x"), ("LISTEN", "a:b"), ("LEASE", "5x"),
                                        ("LISTEN", "a" * 500), ("MEMORY", " ")])
def test_bad_variable_is_named(tmp_path, name, value):
    failure = refused(tmp_path, memory=None, listen=None, env={f"GRACEKV_{name}": value})
    line = assert_error(failure, 2, f"GRACEKV_{name}: '{value}'", who="kv-server")
    assert "--" not in line.split("(")[0], "it was no flag"


@pytest.mark.no_device
@pytest.mark.parametrize("words,meant", [(["--memroy", "1G"], "--memory"),
                                         (["--log=debug"], "--log-"), (["--listn"], "--listen")])
def test_misspelt_option_is_told_what_it_may_have_meant(tmp_path, words, meant):
    assert_error(refused(tmp_path, *words), 2, f"did you mean {meant}", who="kv-server")


def test_json_log(world):
    server = world.server("--log-format", "json", "--log-level", "debug", memory="64M")
    world.cli(server).put("a", b"b")
    server.stop()
    lines = server.stderr().splitlines()
    assert lines
    for line in lines:
        assert {"time", "level", "topic", "text"} <= json.loads(line).keys(), line


# Settings that cannot work: one line that says what, why and what to do


@pytest.mark.no_device
@pytest.mark.parametrize("args", [["--frobnicate"], ["--listen"], ["extra"], ["-Q"],
                                  ["--workers", "many"], ["--workers", "-1"],
                                  ["--lease", "0"], ["--retry-cnt", "8"], ["--rnr-retry", "9"],
                                  ["--timeout", "32"], ["--mtu", "x"], ["--ib-port", "one"],
                                  ["--deferred-max", "1023K"], ["--deferred-max", "1T"],
                                  ["--deferred-max", ""], ["--gid-index", "first"],
                                  ["--pkey-index", "0x8001"], ["--service-level", "16"],
                                  ["--traffic-class", "256"],
                                  ["--log-level", "loud"], ["--log-format", "xml"],
                                  ["--connect", "pigeon"], ["--listen", "127.0.0.1:http"],
                                  ["--listen", "127.0.0.1:99999"]],
                         ids=" ".join)
def test_wrong_usage(tmp_path, args):
    assert_error(refused(tmp_path, *args), 2, who="kv-server")


@pytest.mark.no_device
@pytest.mark.parametrize("size", ["", "x", "12Q", "1.5G", "-1", "0x100", "99999999999999999999",
                                  "17179869184T", "1GG", " ", "512MB"])
def test_bad_size(tmp_path, size):
    failure = refused(tmp_path, "--memory", size, memory=None)
    assert_error(failure, 2, "--memory", who="kv-server")


@pytest.mark.no_device
@pytest.mark.parametrize("size", ["0", "1", "4096", "1M", "8M", "12582911"])
def test_memory_too_small(tmp_path, size):
    failure = refused(tmp_path, memory=size)
    assert_error(failure, (2, 3), "too small", "--memory", "12 MiB", who="kv-server")


@pytest.mark.no_device
def test_memory_too_small_by_a_variable(tmp_path):
    failure = refused(tmp_path, memory=None, env={"GRACEKV_MEMORY": "1M"})
    assert_error(failure, (2, 3), "GRACEKV_MEMORY: a store of 1048576 bytes is too small",
                 who="kv-server")
    assert "--memory" not in failure.err


@pytest.mark.no_device
def test_memory_too_small_for_the_index(tmp_path):
    failure = refused(tmp_path, "--index-slots", "10000000", memory="64M")
    assert_error(failure, (2, 3), "too small", "168 MiB", "--memory", "--index-slots",
                 who="kv-server")


@pytest.mark.no_device
def test_memory_beyond_ram(tmp_path):
    failure = refused(tmp_path, memory="1000T")
    assert_error(failure, (2, 3), "RAM|memory", "--memory|less|machine", who="kv-server")


def test_port_taken(world, tmp_path):
    server = world.server(memory="64M")
    failure = refused(tmp_path, listen=server.address)
    assert_error(failure, 3, str(server.port), "Address already in use", "another",
                 who="kv-server")


@pytest.mark.parametrize("args,words", [
    (["--gid-index", "60000"], ["60000", "GID"]), (["--ib-port", "200"], ["200", "port"]),
    (["--mtu", "1000"], ["1000", "4096"]), (["--mtu", "8192"], ["8192|4096"]),
    (["--pkey-index", "60000"], ["P_Key index 60000", "a table of", "kv-cli doctor"]),
], ids=["gid", "port", "mtu", "mtu-max", "pkey"])
def test_what_the_device_does_not_have(tmp_path, args, words):
    assert_error(refused(tmp_path, *args), (2, 3), *words, who="kv-server")


@pytest.mark.parametrize("call", range(1, 8))
def test_registration_that_fails_names_the_limit(world, tmp_path, soft_device, call):
    """The Nth registration and all after it fail: at start, or, where it is later, in use."""
    env = {"SOFTRDMA_FAULT": f"reg_mr=ENOMEM@{call}"}
    try:
        server = world.server(env=env)
    except ServerFailed as failure:
        assert_error(failure, 3, "ibv_reg_mr|register", "Cannot allocate memory",
                     "RLIMIT_MEMLOCK", "or lower --memory$", who="kv-server")
        return
    assert call > 1, "the first registration is needed to start"
    result = world.cli(server)("put", "key", "value", seconds=10)
    assert result.rc in (0, 3)
    if result.rc == 3:
        assert len(result.err.splitlines()) == 1, result.err


def test_registration_that_fails_in_the_client(world, soft_device):
    server = world.server()
    for call in range(1, 5):
        result = world.cli(server)("put", "key", "-", stdin=bytes(100000), seconds=10,
                                   env={"SOFTRDMA_FAULT": f"reg_mr=ENOMEM@{call}"})
        if result.rc:
            assert_error(result, 3, "memory", "RLIMIT_MEMLOCK", r"or register less \(fewer handles")
            assert "--memory" not in result.err, "a server's"
        else:
            assert call > 1
    assert world.cli(server).put("key", b"v") is not None


def test_queue_pair_that_cannot_be_made(world, soft_device):
    server = world.server(env={"SOFTRDMA_FAULT": "create_qp=ENOMEM@3"})
    client = world.client(server)
    client.put(b"a", b"1")
    result = world.cli(server)("get", "a", seconds=10)
    assert_error(result, 3, "Cannot allocate memory|memory")
    assert client.get(b"a") == b"1", "who is connected goes on"


@pytest.mark.skipif(SANITIZED, reason="sanitizers need the address space")
@pytest.mark.parametrize("room", [-100, -40, -8])
def test_address_space_too_small_to_start(world, tmp_path, room):
    probe = world.server(memory="1G")
    limit = probe.address_space_bytes() + room * MIB
    probe.stop()
    failure = refused(tmp_path, memory="1G", address_space=limit)
    assert_error(failure, 3, "Cannot allocate memory|temporarily unavailable", who="kv-server")


@pytest.mark.skipif(SANITIZED, reason="sanitizers need the address space")
@pytest.mark.parametrize("room", [200, 8])
def test_memory_that_the_system_does_not_have(world, room):
    """The settings promise 256 MiB; the system gives some MiB more than a started server has:
    the store is full earlier, no more."""
    probe = world.server(memory="256M")
    world.client(probe).put(b"key", bytes(200000))
    limit = probe.address_space_bytes() + room * MIB
    server = world.server(memory="256M", address_space=limit)
    client = world.client(server)
    with pytest.raises(CallFailed, match="-12: done=.*memory") as failure:
        client.ask("fill", "record", 0, 10000, 200000, seconds=40)
    done = int(re.search(r"done=(\d+)", str(failure.value)).group(1))
    assert done > 0
    assert client.ask("check", "record", 0, done, 200000)["found"] == str(done)
    client.delete(b"record00000000")
    assert client.get(b"record00000000") is None
    client.quit()
