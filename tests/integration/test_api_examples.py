# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The programs of client/examples, as somebody that copied them runs them."""
import re
import signal

import pytest

from kvt_client import CLI_S, run
from kvt_process import CONNECT, DEVICE, Process, free_port, program, scaled, wait_until
from test_memory import fill_up

pytestmark = pytest.mark.soft_device

PATIENT_MS = 10000  # of a call, where it is not to fail
HOUR_MS = 3600000
CACHE = re.compile(
    r"^(?P<requests>\d+) requests in (?P<ms>\d+) ms: (?P<hits>\d+) hits, (?P<misses>\d+) misses "
    r"\((?P<raced>\d+) raced, (?P<full>\d+) full\), (?P<failures>\d+) failures, "
    r"(?P<without>\d+) without the cache; sum (?P<sum>[0-9a-f]{16})\n$")
DATABASE_MS = 5
PIPELINE = re.compile(r"10000 PUTs, \d+ a second, \d+ sleeps\n"
                      r"10000 GETs, \d+ a second, \d+ sleeps\n")
PIPELINE_S = 120


def env(address):
    return {"GRACEKV_SERVER": address, "GRACEKV_DEVICE": DEVICE, "GRACEKV_CONNECT": CONNECT}


def example(name, address, *args, seconds=CLI_S):
    return run([program(name), *map(str, args)], env=env(address), seconds=seconds)


def figures(result):
    """What cache_aside prints; nothing else, and every request is counted once."""
    assert result.rc == 0, result.err
    match = CACHE.match(result.out.decode())
    assert match, result.out
    it = {name: int(text) for name, text in match.groupdict().items() if name != "sum"}
    it["sum"], it["err"] = match["sum"], result.err
    gets_failed = it["requests"] - it["hits"] - it["misses"] - it["without"]
    assert 0 <= gets_failed <= it["failures"], it
    return it


def cache(address, requests, keys, ttl_ms=HOUR_MS, timeout_ms=PATIENT_MS):
    return figures(example("cache_aside", address, requests, keys, ttl_ms, timeout_ms))


def nobody():
    """An address where nobody listens."""
    return f"127.0.0.1:{free_port()}"


def test_hello(shared, cli):
    result = example("hello", shared.address)
    assert (result.rc, result.out, result.err) == (0, b"hello, fabric\n", "")
    assert cli.get("greeting") == b"hello, fabric"


def test_cache_aside(world):
    server = world.server()
    cli = world.cli(server)
    requests, keys = scaled(400), scaled(40)
    first = cache(server.address, requests, keys)
    assert (first["hits"], first["misses"]) == (requests - keys, keys), first
    assert first["raced"] + first["full"] + first["failures"] + first["without"] == 0, first
    assert first["err"] == ""
    assert first["ms"] >= keys * DATABASE_MS
    for i in range(keys):
        assert cli.get(f"user:{i}") == b"user %d, born %d" % (i, 1930 + i * 7 % 80)

    again = cache(server.address, requests, keys)
    assert (again["hits"], again["misses"]) == (requests, 0), "others find what it left"
    plain = cache(nobody(), requests, keys)
    assert plain["without"] == requests and "no cache" in plain["err"], plain
    assert plain["ms"] >= requests * DATABASE_MS
    assert first["sum"] == again["sum"] == plain["sum"], "the answers are the database's"

    cli.put("user:3", b"user 3, born 1999")
    assert cache(server.address, requests, keys)["sum"] != first["sum"], \
        "the sum tells answers apart"


def test_cache_aside_forgets(world):
    server = world.server()
    keys = scaled(20)
    assert cache(server.address, keys, keys, ttl_ms=1)["misses"] == keys

    def expired():
        return cache(server.address, keys, keys, ttl_ms=1)["misses"] == keys
    wait_until("all has expired", expired, 10)


def test_cache_aside_in_company(world):
    """Several at once that ask the same: the second finds it done."""
    server = world.server()
    requests, keys = scaled(200), scaled(100)
    several = [Process([program("cache_aside"), str(requests), str(keys), str(HOUR_MS),
                        str(PATIENT_MS)], world.folder / f"cache_aside.{i}.stderr",
                       env=env(server.address)) for i in range(3)]
    world.clients += several
    lines = [process.read_line(CLI_S) for process in several]
    assert all(process.wait(CLI_S) == 0 for process in several)
    counts = [CACHE.match(line + "\n") for line in lines]
    assert all(counts), lines
    assert sum(int(it["misses"]) - int(it["raced"]) for it in counts) == keys, \
        "each key was stored by one of them"
    assert all(int(it["hits"]) + int(it["misses"]) == requests for it in counts), lines
    assert len({it["sum"] for it in counts}) == 1, lines


@pytest.mark.limit(120)
def test_full_store(world):
    """hello says so; cache_aside goes on without what it cannot store."""
    server = world.server(memory="16M")
    client, cli = world.client(server, 10000), world.cli(server)
    for prefix in "brief", "more":  # what the index retired meanwhile is taken as well
        fill_up(client, 20, prefix)
        wait_until("all is freed", lambda: cli.stats()["blocks_deferred"] == 0, 10)
    result = example("hello", server.address)
    assert (result.rc, result.out) == (3, b""), result
    assert re.search("hello: put: .*memory", result.err), result.err

    requests = keys = scaled(20)
    it = cache(server.address, requests, keys)
    assert it["full"] > 0 and it["misses"] == requests, it
    assert it["failures"] == it["without"] == 0, it
    assert it["sum"] == cache(nobody(), requests, keys)["sum"]


def pipeline_value(number):
    return b"%0*d" % (10 + number % 100, number)


@pytest.mark.limit(180)
def test_pipeline(world):
    server = world.server()
    cli = world.cli(server)
    result = example("pipeline", server.address, seconds=PIPELINE_S)
    assert (result.rc, result.err) == (0, ""), result
    assert PIPELINE.fullmatch(result.out.decode()), result.out
    for number in 0, 1, 31, 32, 99, 5000, 9999:
        assert cli.get(f"item:{number}") == pipeline_value(number)
    assert cli("exists", "item:10000").rc == 1
    assert cli.stats()["records"] == 10000
    assert cli.stats()["rpc_gets"] < 1000, "GETs in flight are one-sided as well"


def stopped_at_work(world, server):
    """A pipeline that has written its first records, has not written all, and stands still."""
    cli = world.cli(server)

    def puts():
        return cli.stats()["rpc_puts"]
    for _ in range(10):
        before = puts()  # it may have written all by the time that it is asked after
        process = Process([program("pipeline")],
                          world.folder / f"pipeline.{len(world.clients)}.stderr",
                          env=env(server.address))
        world.clients.append(process)
        wait_until("it is at work", lambda: not process.running() or puts() >= before + 200, 20,
                   step=0)
        if process.running():
            process.stop_threads()
            if puts() < before + 9000:
                return process
            process.signal(signal.SIGCONT)
        process.wait(PIPELINE_S)
    raise AssertionError("it was never seen at work")


@pytest.mark.limit(180)
def test_pipeline_sees_other_values(world):
    server = world.server()
    process = stopped_at_work(world, server)
    world.cli(server).put("item:0", b"something else")
    process.signal(signal.SIGCONT)
    assert process.wait(PIPELINE_S) == 1, process.stderr()
    assert process.stderr() == "pipeline: item:0: another value\n"


def test_pipeline_without_a_server():
    address = nobody()
    result = example("pipeline", address)
    assert (result.rc, result.out) == (3, b"")
    assert result.err.startswith("pipeline: ") and address in result.err


@pytest.mark.limit(180)
def test_pipeline_when_the_server_dies(world):
    """It ends within the time of a call, 5 s, and says why."""
    server = world.server()
    process = stopped_at_work(world, server)
    server.crash()
    process.signal(signal.SIGCONT)
    assert process.wait(PIPELINE_S) == 3, process.stderr()
    assert re.match(r"pipeline: .+: .+", process.stderr()), process.stderr()
