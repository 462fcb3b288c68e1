# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli: writes on terms, numbers, time to live, against a real server."""
import json
import re
import time

import pytest

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


def test_if_absent(cli):
    cli.good("put", "--if-absent", "absent", "first")
    there = meta(cli, "absent")["version"]
    result = cli("put", "--if-absent", "absent", "second")
    assert_error(result, 1, "absent", "not stored", rf"version {there}\b")
    assert cli.get("absent") == b"first"
    cli.good("del", "absent")
    cli.good("put", "--if-absent", "absent", "-", stdin=b"third")
    assert cli.get("absent") == b"third"


def test_if_version(cli):
    first = version(cli.good("put", "bound", "1"))
    second = version(cli.good("put", "--if-version", str(first), "bound", "2"))
    assert second > first
    result = cli("put", "--if-version", str(first), "bound", "3")
    assert_error(result, 1, "not stored", rf"version {second} is there, not {first}\b")
    assert cli.get("bound") == b"2"
    assert_error(cli("put", "--if-version", "1", "bound to nothing", "x"), 1, "no such key")
    assert cli("exists", "bound to nothing").rc == 1


def test_cas_conflicts(cli):
    """Of two that start from the same version one wins; the other hears which one is there."""
    start = version(cli.good("put", "swapped", "0"))
    won = version(cli.good("cas", "swapped", str(start), "a"))
    result = cli("cas", "swapped", str(start), "b")
    assert_error(result, 1, rf"version {won} is there, not {start}\b")
    answer = cli("--json", "cas", "swapped", str(start), "b")
    assert answer.rc == 1 and answer.err == ""
    assert json.loads(answer.out) == {"key": "swapped", "found": True, "version": won,
                                      "stored": False}
    assert cli.get("swapped") == b"a"
    cli.good("cas", "swapped", str(won), "-", stdin=b"\0binary\xff")
    assert cli.get("swapped") == b"\0binary\xff"
    assert_error(cli("cas", "never there", "5", "v"), 1, "no such key")


def test_cas_of_a_large_value(cli):
    start = version(cli.good("put", "large", "small"))
    value = bytes(range(256)) * 4096
    cli.good("cas", "large", str(start), "-", stdin=value)
    assert cli.get("large") == value


def test_del_if_version(cli):
    there = version(cli.good("put", "doomed", "x"))
    assert_error(cli("del", "--if-version", str(there + 1), "doomed"), 1,
                 rf"not deleted: version {there} is there, not {there + 1}\b")
    assert cli.get("doomed") == b"x"
    cli.good("del", "--if-version", str(there), "doomed")
    assert cli("exists", "doomed").rc == 1
    assert_error(cli("del", "--if-version", str(there), "doomed"), 1, "no such key")


def test_incr(cli):
    assert cli.good("incr", "number") == b"1\n"
    assert cli.good("incr", "number", "41") == b"42\n"
    assert cli.good("incr", "number", "-50") == b"-8\n"
    assert cli.get("number") == b"-8"
    assert json.loads(cli.good("--json", "incr", "number")) == {"key": "number", "sum": -7}


def test_incr_of_text_and_beyond_64_bits(cli):
    for text in ("text", "", "1.5", " 1", "0x10"):
        cli.good("put", "no number", text)
        assert_error(cli("incr", "no number"), 3, "no decimal number")
        assert cli.get("no number") == text.encode()
    cli.good("put", "full", "9223372036854775807")
    assert_error(cli("incr", "full"), 3, "64 bits")
    assert cli.get("full") == b"9223372036854775807"
    assert cli.good("incr", "full", "-9223372036854775808") == b"-1\n"
    assert_error(cli("incr", "full", "-9223372036854775808"), 3, "64 bits")
    assert cli.get("full") == b"-1"


def test_append_and_getdel(cli):
    first = version(cli.good("append", "grown", "one"))
    assert version(cli.good("append", "grown", "-", stdin=b"\0" * 20000)) > first
    assert_error(cli("append", "--if-version", str(first), "grown", "x"), 1, "not appended")
    assert cli.get("grown") == b"one" + b"\0" * 20000
    assert_error(cli("append", "grown", "-", stdin=bytes(16777216 - 20002)), 3, "16 MiB")
    result = cli("getdel", "--meta", "grown")
    assert result.out == b"one" + b"\0" * 20000 and "size=20003 " in result.err
    assert_error(cli("getdel", "grown"), 1, "not found")


def test_a_key_is_gone_after_its_time(cli):
    cli.good("put", "--ttl", "0.5", "brief", "x")
    wait_until("the key has expired", lambda: cli("get", "brief").rc == 1, 10)
    assert cli("exists", "brief").rc == 1
    assert cli("ttl", "brief").rc == 1
    assert_error(cli("touch", "brief", "5"), 1, "not found")
    assert_error(cli("del", "brief"), 1, "not found")
    # for writes on terms too it is not there
    cli.good("put", "--if-absent", "brief", "y")
    assert cli.get("brief") == b"y"


def test_a_key_is_there_before_its_time(cli):
    """Not gone at once; nor where seconds were taken for milliseconds."""
    cli.good("put", "--ttl", LONG, "long", "x")
    time.sleep(1.5 + LATE)
    assert cli.get("long") == b"x"
    left = float(cli.good("ttl", "long"))
    assert 0 < left < float(LONG) - 1.4


def test_ttl(cli):
    cli.good("put", "unlimited", "x")
    assert cli.good("ttl", "unlimited") == b"never\n"
    assert json.loads(cli.good("--json", "ttl", "unlimited")) == {
        "key": "unlimited", "found": True, "expiry_ms": 0, "ttl_ms": None}
    cli.good("put", "--ttl", LONG, "limited", "x")
    left = cli.good("ttl", "limited").decode()
    assert re.fullmatch(r"\d+\.\d{3}\n", left), left
    assert float(LONG) - 600 < float(left) <= float(LONG) + LATE
    document = json.loads(cli.good("--json", "ttl", "limited"))
    assert 0 < document["ttl_ms"] <= (int(LONG) + LATE) * 1000
    assert abs(document["expiry_ms"] - document["ttl_ms"] - time.time() * 1000) < 600000
    assert_error(cli("ttl", "never written"), 1, "not found")
    assert json.loads(cli("--json", "ttl", "never written").out) == {
        "key": "never written", "found": False}


def test_meta_says_when_it_expires(cli):
    cli.good("put", "--ttl", LONG, "dated", "12345")
    result = cli("get", "--meta", "dated")
    assert result.rc == 0
    assert re.fullmatch(r"version=\d+ size=5 expiry=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
                        r"ttl=\d+\.\d{3}\n", result.err), result.err
    cli.good("put", "dated", "12345")
    assert re.fullmatch(r"version=\d+ size=5 expiry=never\n", cli("get", "--meta", "dated").err)


def test_touch(cli):
    first = version(cli.good("put", "--ttl", LONG, "touched", "x"))
    second = version(cli.good("touch", "touched", "0"))
    assert second > first
    assert cli.good("ttl", "touched") == b"never\n"
    cli.good("touch", "touched", "2000.5")
    assert 1000.5 < float(cli.good("ttl", "touched")) <= 2000.5 + LATE
    assert cli.get("touched") == b"x"
    cli.good("touch", "touched", "0.3")
    wait_until("the key has expired", lambda: cli("exists", "touched").rc == 1, 10)
    assert_error(cli("touch", "touched", "5"), 1, "not found")


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
    there = meta(cli, "kept")["version"]
    cli.good("cas", "kept", str(there), "7")
    assert meta(cli, "kept")["expiry_ms"] == 0


@pytest.mark.parametrize("words", [["put", "--ttl", "0", "a", "b"],
                                   ["put", "--ttl", "-1", "a", "b"],
                                   ["put", "--ttl", "5x", "a", "b"],
                                   ["put", "--ttl", "1e9", "a", "b"],
                                   ["put", "--ttl", "3162240001", "a", "b"],
                                   ["put", "--ttl", "0.0001", "a", "b"],
                                   ["put", "--if-version", "x", "a", "b"],
                                   ["put", "--if-version", "0", "a", "b"],
                                   ["put", "--if-absent", "--if-version", "1", "a", "b"],
                                   ["put", "--if-absent", "--keep-ttl", "a", "b"],
                                   ["append", "a"], ["getdel", "a", "b"],
                                   ["append", "--keep-ttl", "a", "b"],
                                   ["get", "--ttl", "1", "a"], ["cas", "a", "1"],
                                   ["cas", "a", "x", "v"],
                                   ["cas", "a", "-1", "v"], ["cas", "", "1", "v"],
                                   ["cas", "k" * 1025, "1", "v"], ["incr"], ["incr", "a", "1.5"],
                                   ["incr", "a", "9223372036854775808"], ["incr", "", "1"],
                                   ["ttl"], ["ttl", ""], ["ttl", "k" * 1025], ["touch", "a"],
                                   ["touch", "a", "-5"], ["touch", "a", "never"],
                                   ["del", "--if-absent", "a"]],
                         ids=lambda words: " ".join(words)[:40])
def test_wrong_usage(cli, words):
    assert_error(cli(*words), 2)
    assert cli("exists", "a").rc == 1


def test_durations_with_units(cli):
    for text, ms in (("90s", 90000), ("5m", 300000), ("2h", 7200000), ("1d", 86400000)):
        cli.good("put", "--ttl", text, "with a unit", "x")
        left = json.loads(cli.good("--json", "ttl", "with a unit"))["ttl_ms"]
        assert ms - 20000 < left <= ms + LATE * 1000
    cli.good("touch", "with a unit", "250ms")


def test_the_longest_time_to_live(cli):
    cli.good("put", "--ttl", "3162240000", "century", "x")
    assert re.search(r"expiry=2[12]\d\d-", cli("get", "--meta", "century").err)
