# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli: writes on terms, numbers, time to live, against a real server. What each command takes
and prints: tests/unit/kv-cli/test_writes.c."""
import json
import re
import time

from kvt_client import assert_error
from kvt_process import wait_until

LONG = "1000"  # seconds: does not expire during a test
# What kv-cli knows of the server's clock is late by 0.15 s, and by what the server does not run.
LATE = 5


def version(out):
    said = rb"(?:stored|touched|appended), version (\d+)(?:, size \d+)?\n"
    return int(re.fullmatch(said, out).group(1))


def meta(cli, key):
    return json.loads(cli.good("--json", "get", "--meta", key))


def test_terms(cli):
    """Of two that start from the same version one wins; the other hears which one is there."""
    start = version(cli.good("put", "--if-absent", "swapped", "0"))
    assert_error(cli("put", "--if-absent", "swapped", "1"), 1, rf"version {start}\b")
    won = version(cli.good("cas", "swapped", str(start), "a"))
    assert won > start
    for command in (["cas", "swapped", str(start), "b"],
                    ["put", "--if-version", str(start), "swapped", "b"],
                    ["del", "--if-version", str(start), "swapped"]):
        assert_error(cli(*command), 1, rf"version {won} is there, not {start}\b")
        assert cli.get("swapped") == b"a"
    value = bytes(range(256)) * 4096
    won = version(cli.good("cas", "swapped", str(won), "-", stdin=value))
    assert cli.get("swapped") == value
    cli.good("del", "--if-version", str(won), "swapped")
    for command in (["cas", "swapped", str(won), "b"],
                    ["put", "--if-version", str(won), "swapped", "b"],
                    ["del", "--if-version", str(won), "swapped"]):
        assert_error(cli(*command), 1, "no such key")
    assert cli("exists", "swapped").rc == 1


def test_incr(cli):
    assert cli.good("incr", "number", "42") == b"42\n"
    assert cli.good("incr", "number", "-50") == b"-8\n"
    assert cli.get("number") == b"-8"
    for text in ("text", "", "1.5", " 1", "0x10", "9223372036854775807"):
        cli.good("put", "no number", text)
        assert_error(cli("incr", "no number"), 3, "64 bits" if "9" in text else "no decimal number")
        assert cli.get("no number") == text.encode()


def test_append_and_getdel(cli):
    first = version(cli.good("append", "grown", "one"))
    assert version(cli.good("append", "grown", "-", stdin=b"\0" * 20000)) > first
    assert_error(cli("append", "--if-version", str(first), "grown", "x"), 1, "not appended")
    assert_error(cli("append", "grown", "-", stdin=bytes(16777216 - 20002)), 3, "16 MiB")
    result = cli("getdel", "--meta", "grown")
    assert result.out == b"one" + b"\0" * 20000 and "size=20003 " in result.err
    assert_error(cli("getdel", "grown"), 1, "not found")


def test_a_key_is_gone_after_its_time_and_not_before(cli):
    cli.good("put", "--ttl", LONG, "long", "x")
    cli.good("put", "--ttl", "0.5", "brief", "x")
    wait_until("the key has expired", lambda: cli("get", "brief").rc == 1, 10)
    for command in (["exists", "brief"], ["ttl", "brief"], ["touch", "brief", "5"],
                    ["del", "brief"]):
        assert cli(*command).rc == 1
    cli.good("put", "--if-absent", "brief", "y")  # for writes on terms too it is not there
    cli.good("touch", "brief", "300ms")
    wait_until("the key has expired", lambda: cli("exists", "brief").rc == 1, 10)
    assert cli.get("long") == b"x"


def test_ttl(cli):
    cli.good("put", "--ttl", LONG, "limited", "x")
    left = cli.good("ttl", "limited").decode()
    assert re.fullmatch(r"\d+\.\d{3}\n", left), left
    assert float(LONG) - 600 < float(left) <= float(LONG) + LATE
    document = json.loads(cli.good("--json", "ttl", "limited"))
    assert abs(document["expiry_ms"] - document["ttl_ms"] - time.time() * 1000) < 600000
    first = meta(cli, "limited")["version"]
    assert version(cli.good("touch", "limited", "0")) > first
    assert cli.good("ttl", "limited") == b"never\n"
    cli.good("touch", "limited", "3162240000")  # the longest
    assert re.search(r"expiry=2[12]\d\d-", cli("get", "--meta", "limited").err)


def test_what_a_write_does_to_the_expiry(cli):
    cli.good("put", "--ttl", LONG, "kept", "5")
    expiry = meta(cli, "kept")["expiry_ms"]
    cli.good("incr", "--ttl", "1", "kept")
    cli.good("append", "--ttl", "1", "kept", "0")
    cli.good("put", "--ttl", "1", "--keep-ttl", "kept", "7")
    assert meta(cli, "kept")["expiry_ms"] == expiry > 0
    for command in ("incr", "append", "put"):
        words = ["--keep-ttl"] * (command == "put")
        cli.good(command, "--ttl", LONG, *words, f"made by {command}", "7")
        assert meta(cli, f"made by {command}")["expiry_ms"] >= expiry
    cli.good("cas", "kept", str(meta(cli, "kept")["version"]), "7")
    assert meta(cli, "kept")["expiry_ms"] == 0
