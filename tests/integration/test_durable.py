# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Servers with a data directory that are killed and started again: what they acknowledged is there,
once, in the version that it had. What a power cut loses: tests/unit/log, tests/unit/data."""
import json
import pathlib
import random
import re
import time

import pytest

from kvt_client import assert_error, run
from kvt_data import DataDir, batches, foot, position
from kvt_process import AGENT, HOST, SANITIZED, Process, free_port, program, scaled, wait_until
from kvt_server import READY_S, command_of, refused

pytestmark = pytest.mark.skipif(bool(AGENT), reason="looks into the directory of the server")

MIB = 1 << 20
PATIENT_MS = 60000  # a client's, who waits for the next life of its server
FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class Lives:
    """A server on one directory and at one address, life after life."""

    def __init__(self, world, *args, memory="256M"):
        self.world = world
        self.data = DataDir(world.folder / "data")
        self.listen = f"{HOST}:{free_port(HOST)}"
        self.args = args
        self.memory = memory
        self.server = None

    def start(self, *args, **how):
        self.server = self.world.server(
            *self.data.args(*self.args, *args), memory=how.pop("memory", self.memory),
            listen=self.listen, ready_s=how.pop("ready_s", 30), **how)
        return self.world.cli(self.server)

    def crash(self):
        self.server.crash()
        self.server.close()

    def again(self, *args, **how):
        self.crash()
        return self.start(*args, **how)

    def client(self):
        return self.world.client(self.server, PATIENT_MS)

    def refused(self, *args, memory=None):
        """It must not start on the directory; the failure."""
        return refused(self.world.folder, *self.data.args(*self.args, *args), seconds=30,
                       memory=memory or self.memory)

    def command(self, *args):
        return command_of(*self.data.args(*self.args, *args), memory=self.memory,
                          listen=self.listen)


@pytest.fixture
def lives(world):
    return Lives(world)


def meta(cli, key):
    return json.loads(cli.good("--json", "get", "--meta", key))


def version(out):
    return int(re.search(rb"version (\d+)", out).group(1))


def crash(it):
    it.crash()


def stop(it):
    it.server.stop(seconds=30)


ENDS = pytest.mark.parametrize("end", [crash, stop])


@ENDS
def test_all_kinds_of_writes_survive(lives, end):
    cli = lives.start()
    keys = ("put", "again", "brief", "touched", "sum", "long", "swapped", "empty")
    cli.good("put", "put", "value")
    cli.good("put", "again", "1")
    cli.good("put", "again", "2")
    cli.good("put", "--ttl", "1000", "brief", "value")
    cli.good("put", "touched", "value")
    cli.good("touch", "touched", "500")
    cli.good("incr", "sum", "40")
    cli.good("incr", "sum", "2")
    cli.put("long", bytes(range(256)) * 2048)
    cli.good("append", "long", "and more")
    cli.good("cas", "swapped", str(version(cli.good("put", "swapped", "a"))), "b")
    cli.put("empty", b"")
    for key in ("deleted", "taken"):
        cli.good("put", key, "value")
    cli.good("del", "deleted")
    cli.good("getdel", "taken")
    before = {key: meta(cli, key) for key in keys}
    values = {key: cli.get(key) for key in keys}
    for _ in range(3):
        end(lives)
        cli = lives.start()
        assert {key: cli.get(key) for key in keys} == values
        for key in keys:
            now = meta(cli, key)
            assert now["version"] == before[key]["version"]
            assert ("ttl_ms" in now) == ("ttl_ms" in before[key])
        assert 900000 < meta(cli, "brief")["ttl_ms"] < 1000000
        assert 400000 < meta(cli, "touched")["ttl_ms"] < 500000
        assert [cli("get", key).rc for key in ("deleted", "taken")] == [1, 1]
        assert cli.stats()["records"] == len(keys)
    assert cli.good("incr", "sum").strip() == b"43"


@pytest.mark.parametrize("sync", ["always", "20ms", "never"])
def test_nothing_acknowledged_is_lost_over_kills_under_load(world, sync):
    """Clients go on over three deaths, and each write takes place once."""
    lives = Lives(world, "--sync", sync, "--snapshot-every", "4M")
    lives.start()
    writers = [lives.client() for _ in range(3)]
    counter, checker = lives.client(), lives.client()
    for number, writer in enumerate(writers):
        writer.start("stream", f"w{number}.", 0, 10**7, 1500)
    acked = [0] * len(writers)
    sums = 0
    dice = random.Random(5)

    def read_for(seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for number, writer in enumerate(writers):
                line = writer.read_line(READY_S)
                assert line and line.startswith("ack "), line
                acked[number] = int(line.split()[1]) + 1

    for _ in range(3):
        counter.start("count", b"sum", 200)
        read_for(dice.uniform(0.2, 0.8))
        lives.again()
        sums += 200
        assert int(counter.answer(60)["sum"]) == sums, "each once"
        read_for(0.3)
        for number, count in enumerate(acked):
            assert checker.ask("check", f"w{number}.", 0, count, 1500,
                               seconds=60)["found"] == str(count)
    for writer in writers:
        writer.kill()
    lives.again()
    assert min(acked) > 50
    for number, count in enumerate(acked):
        seen = checker.ask("check", f"w{number}.", 0, count, 1500, seconds=60)
        assert seen["found"] == str(count)
    assert checker.get(b"sum") == b"600"


def test_a_write_that_comes_again_over_a_restart_gets_its_first_answer(lives):
    """Sums of many clients, each killed in the midst of a request again and again."""
    lives.start()
    clients = [lives.client() for _ in range(4)]
    dice = random.Random(3)
    each = scaled(1500)
    for client in clients:
        client.start("count", b"sum", each)
    for _ in range(5):
        time.sleep(dice.uniform(0.02, 0.3))
        lives.again()
    last = max(int(client.answer(120)["sum"]) for client in clients)
    assert last == each * len(clients), "more: one was applied twice; less: one is lost"


@pytest.mark.parametrize("sync", ["always", "never"])
def test_versions_never_come_again(world, sync):
    lives = Lives(world, "--sync", sync)
    cli = lives.start()
    known = [version(cli.good("put", "key", "0"))]
    for life in range(1, 5):
        cli = lives.again()
        cli.good("del", "key")
        known.append(version(cli.good("put", "key", str(life))))
        assert known[-1] > known[-2]
        for old in known[:-1]:
            assert cli("cas", "key", str(old), "x").rc == 1
            assert cli("del", "--if-version", str(old), "key").rc == 1
    assert cli.get("key") == b"4"
    assert version(cli.good("cas", "key", str(known[-1]), "5")) > known[-1]


def half_a_life(lives, seconds):
    """One that is killed while it recovers, or soon after it."""
    process = Process(lives.command(), lives.world.folder / "half.stderr")
    time.sleep(seconds)
    assert process.running(), process.stderr()
    process.close()


def test_killed_while_it_recovers_again_and_again(world):
    lives = Lives(world, "--snapshot-every", "0", "--sync", "20ms")
    lives.start()
    count = scaled(8000)
    client = lives.client()
    client.ask("fill", "record", 0, count, 1000, seconds=120)
    client.ask("drop", "record", 0, count // 4, seconds=60)
    lives.crash()
    for number in range(12):
        half_a_life(lives, 0.01 + 0.02 * number)
    cli = lives.start()
    seen = lives.client().ask("check", "record", 0, count, 1000, seconds=120)
    assert (int(seen["missing"]), int(seen["wrong"])) == (count // 4, 0)
    assert cli.stats()["records"] == count - count // 4
    assert len(lives.data.segments()) < 16, "lives that did nothing leave no files"


def test_killed_in_the_midst_of_snapshots(world):
    lives = Lives(world, "--snapshot-every", "0", "--sync", "20ms")
    lives.start()
    client = lives.client()
    count = scaled(8000)
    client.ask("fill", "record", 0, count, 1000, seconds=120)
    for number in range(6):
        cli = world.cli(lives.server)
        before = len(lives.data.snapshots())
        asker = world.client(lives.server, PATIENT_MS)
        asker.start("fill", f"more{number}.", 0, 10**7, 500)
        saver = Process([*cli.base, "save"], world.folder / f"save.{number}.stderr")
        time.sleep(0.01 + 0.03 * number)
        lives.crash()
        asker.kill()
        saver.close()
        lives.start()
        assert lives.data.unfinished() == []
        assert len(lives.data.snapshots()) in (before, before + 1, 2)
        seen = client.ask("check", "record", 0, count, 1000, seconds=120)
        assert seen["found"] == str(count)


def test_snapshots_replace_the_log(world):
    """Two are kept, and no more of the log than the older one needs."""
    lives = Lives(world, "--snapshot-every", "0")
    cli = lives.start()
    client = lives.client()
    for number in range(5):
        client.ask("fill", "record", 0, 40, MIB, seconds=120)
        cli.good("save", seconds=60)
        assert len(lives.data.snapshots()) == min(number + 1, 2)
    oldest = position(lives.data.snapshots()[0])
    wait_until("only the first segment reaches below", lambda: all(
        position(segment) > oldest for segment in lives.data.segments()[1:2]), 10)
    lives.again()
    assert lives.client().ask("check", "record", 0, 40, MIB, seconds=60)["found"] == "40"


def test_after_a_clean_stop_there_is_nothing_to_replay(lives):
    lives.start()
    lives.client().ask("fill", "record", 0, 1000, 1000)
    lives.server.stop(seconds=30)
    last = lives.data.snapshots()[-1]
    start, end, records = foot(last)[:3]
    assert (start, records) == (position(last), 1000) and start == end
    where, first, length = batches(lives.data.segments()[-1])[-1]
    assert start == first + length, f"the log goes on behind it, at {where}"
    lives.start()
    assert lives.client().ask("check", "record", 0, 1000, 1000)["found"] == "1000"
    assert position(lives.data.segments()[-1]) == start


def test_a_stop_without_writes_takes_no_snapshot(lives):
    lives.start()
    lives.client().put(b"key", b"value")
    lives.server.stop(seconds=30)
    before = lives.data.snapshots()
    lives.start()
    lives.server.stop(seconds=30)
    assert lives.data.snapshots() == before


@ENDS
def test_what_expires_between_lives_is_gone(lives, end):
    cli = lives.start()
    cli.good("put", "--ttl", "1", "brief", "value")
    cli.good("put", "stays", "value")
    end(lives)
    time.sleep(1.1)
    cli = lives.start()
    assert cli("get", "brief").rc == 1
    wait_until("its memory too", lambda: cli.stats()["records"] == 1, 10)


@pytest.mark.soft_device
@pytest.mark.skipif(SANITIZED or not FAKETIME.exists(), reason="libfaketime is loaded before")
@ENDS
def test_a_clock_that_is_set_back_brings_nothing_back(lives, end):
    ahead = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "+1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
             "DONT_FAKE_MONOTONIC": "1"}
    cli = lives.start(env=ahead)
    cli.good("put", "--ttl", "1", "brief", "value")
    cli.good("put", "--ttl", "1000", "longer", "value")
    time.sleep(1.5)
    assert cli("get", "brief").rc == 1
    cli.good("put", "later", "the log has seen the time")
    end(lives)
    cli = lives.start()
    assert cli("get", "brief").rc == 1, "it had expired in the life before"
    assert cli.get("longer") == b"value"
    assert meta(cli, "longer")["ttl_ms"] <= 1000000


def test_memory_that_is_too_small_is_said_before_it_is_filled(lives):
    lives.start()
    lives.client().ask("fill", "record", 0, 100, MIB // 2, seconds=60)
    lives.crash()
    assert_error(lives.refused(memory="32M"), 3, "--memory", who="kv-server")
    lives.start()
    lives.server.stop(seconds=30)  # and now there is a snapshot, whose size is known at once
    assert_error(lives.refused(memory="32M"), 3, "--memory", who="kv-server")
    lives.start()
    assert lives.client().ask("check", "record", 0, 100, MIB // 2)["found"] == "100"


def test_tools_look_at_the_directory(lives):
    cli = lives.start()
    lives.client().ask("fill", "record", 0, 500, 1000)
    said = cli.good("save", seconds=60).decode()
    assert "snapshot" in said, said
    lives.crash()
    folder = str(lives.data.path)
    log = json.loads(run([program("kv-inspect"), "--json", "log", folder]).out)
    assert [one["name"] for one in log["segment"]] == [f"log/{lives.data.segments()[0].name}"]
    assert log["segment"][0]["records"] >= 500 and log["end_why"] is None
    snapshot = json.loads(run([program("kv-inspect"), "--json", "snapshot", folder]).out)
    assert [one["records"] for one in snapshot["snapshot"]] == [500]
    assert snapshot["snapshot"][0]["complete"]
    checked = run([program("kv-server"), "--data-dir", folder, "--check-data"], seconds=60)
    assert checked.rc == 0, checked.err
    assert lives.data.segments()[0].name in checked.out.decode()
    lives.start()
    for command in (["kv-inspect", "log", folder], ["kv-server", "--data-dir", folder,
                                                    "--check-data"]):
        refusal = run([program(command[0]), *command[1:]], seconds=60)
        assert refusal.rc != 0 and str(lives.server.pid) in refusal.err, "a server has it open"


@pytest.mark.no_device
@pytest.mark.parametrize("words", [["--sync", "never"], ["--check-data"], ["--log-segment", "64M"],
                                   ["--recover-until", "0"]], ids=" ".join)
def test_settings_that_want_a_directory(tmp_path, words):
    assert_error(refused(tmp_path, *words), 2, words[0], "--data-dir", who="kv-server")


@pytest.mark.no_device
@pytest.mark.parametrize("words", [["--sync", "often"], ["--sync", "-1"], ["--sync", ""],
                                   ["--log-segment", "1M"], ["--log-segment", "17G"],
                                   ["--snapshot-every", "x"], ["--recover-until", "here"],
                                   ["--data-dir", ""]], ids=" ".join)
def test_wrong_values(tmp_path, words):
    assert_error(refused(tmp_path, "--data-dir", str(tmp_path / "data"), *words), 2, words[0],
                 who="kv-server")
    assert not (tmp_path / "data").exists()
