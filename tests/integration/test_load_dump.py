# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli load and dump: round trips of records of any bytes, prefixes, times to live. Which lines
are refused, and how: tests/unit/kv-cli/test_record_reader.c, test_commands.c, test_expiry.c."""
import base64
import json
import random
import shutil
import subprocess
import time

import pytest

from kvt_process import AGENT, SANITIZED, environment, scaled, wait_until


def escape_tsv(data):
    out = []
    for byte in data:
        plain = 0x20 <= byte < 0x7f and byte != 0x5c
        out.append(chr(byte) if plain else
                   {9: "\\t", 10: "\\n", 0x5c: "\\\\"}.get(byte, f"\\x{byte:02x}"))
    return "".join(out)


def unescape_tsv(text):
    """An implementation of its own of what INTERFACE promises of tsv."""
    out, i = bytearray(), 0
    while i < len(text):
        if text[i:i + 1] != b"\\":
            out += text[i:i + 1]
            i += 1
        elif text[i + 1:i + 2] == b"x":
            out.append(int(text[i + 2:i + 4], 16))
            i += 4
        else:
            out += {b"t": b"\t", b"n": b"\n", b"\\": b"\\"}[text[i + 1:i + 2]]
            i += 2
    return bytes(out)


def records_of_tsv(data):
    return dict(tuple(unescape_tsv(part) for part in line.split(b"\t"))
                for line in data.splitlines())


def json_bytes(document, name):
    if name in document:
        return document[name].encode()
    return base64.b64decode(document[f"{name}_b64"], validate=True)


def records_of_jsonl(data):
    return dict((json_bytes(d, "key"), json_bytes(d, "value"))
                for d in map(json.loads, data.splitlines()))


# Without io_uring, whose calls strace does not see.
SLOW_DISK = ["strace", "-D", "-f", "-qq", "-o", "/dev/null",
             "-e", "trace=io_uring_setup,pwritev2,fdatasync",
             "-e", "inject=io_uring_setup:error=ENOSYS",
             "-e", "inject=pwritev2,fdatasync:delay_enter=20000"]

READERS = {"tsv": records_of_tsv, "jsonl": records_of_jsonl}


def hard_records():
    rng = random.Random(20240229)
    records = {
        b"plain": b"value", b"empty": b"", b"\0": b"\0\0", b"nul\0inside": b"a\0b",
        b"tab\there": b"line\nbreak\\", bytes(range(256)): bytes(range(255, -1, -1)),
        "ключ".encode(): "значение".encode(), b"\xff\xfe": b"\xc3", b"#comment?": b"# no",
        b" lead": b" trail ", b"k" * 1024: b"v" * 8193, b"cr\r": b"\r\n",
        b"large": rng.randbytes(300000), b"x41": b"\\x41", b"quote\"": b"{\"a\": \"\\u0000\"}",
        b"del\x7f": b"\x7f\x80",
    }
    for _ in range(500):
        records[rng.randbytes(rng.randint(1, 40))] = rng.randbytes(rng.choice([0, 1, 5, 50, 700]))
    return records


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_dump_load_dump(world, form, tmp_path):
    records = hard_records()
    cli = world.cli(world.server())
    source = tmp_path / "source.tsv"
    source.write_text("".join(f"{escape_tsv(k)}\t{escape_tsv(v)}\n" for k, v in records.items()))
    cli.good("load", "--format", "tsv", str(source))
    first = cli.good("dump", "--format", form)
    assert READERS[form](first) == records
    second = world.cli(world.server())
    second.good("load", "--format", form, "-", stdin=first)
    again = second.good("dump", "--format", form)
    assert sorted(again.splitlines()) == sorted(first.splitlines())
    assert len(again.splitlines()) == len(records)


def test_keys_counts_and_dumps_of_a_prefix(world, tmp_path):
    """What a prefix selects is what it selects of a full dump, for keys of any bytes."""
    records = hard_records() | {b"user/%d" % i: b"v" * i * 100 for i in range(100)}
    cli = world.cli(world.server())
    source = tmp_path / "source.tsv"
    source.write_text("".join(f"{escape_tsv(k)}\t{escape_tsv(v)}\n" for k, v in records.items()))
    cli.good("load", str(source))
    assert sorted(map(unescape_tsv, cli.good("keys").splitlines())) == sorted(records)
    for prefix in (b"user/", b"user/1", b"\xff", b"k", b"k" * 1024, b"nobody", b"\n"):
        want = {k: v for k, v in records.items() if k.startswith(prefix)}
        keys = cli.good("keys", "--", prefix).splitlines()
        assert sorted(map(unescape_tsv, keys)) == sorted(want)
        assert records_of_tsv(cli.good("dump", "--prefix", prefix)) == want
        sizes = map(json.loads, cli.good("--json", "keys", "--", prefix).splitlines())
        assert {json_bytes(d, "key"): d["size"] for d in sizes} == {
            k: len(v) for k, v in want.items()}
        assert int(cli.good("count", "--", prefix)) == len(want)
    assert json.loads(cli.good("--json", "count")) == {"count": len(records)}
    script = cli(stdin=b'count user/\nkeys "\\xff\\xfe"\n')
    assert script.out == b"100\n\\xff\\xfe\n", script


def test_dump_of_many_records_has_each_once(world):
    server, count = world.server(), scaled(scaled(20000))
    cli, client = world.cli(server), world.client(server)
    client.ask("fill", "many", 0, count, 20)
    keys = [line.split(b"\t")[0] for line in cli.good("dump", "--format", "tsv").splitlines()]
    assert len(keys) == len(set(keys)) == count
    assert client.ask("scan") == {"records": str(count), "bytes": str(20 * count)}


def test_records_of_a_pipe_are_stored_as_they_come(world):
    """load stores many at once, and does not wait for many where there are few."""
    server = world.server()
    cli = world.cli(server)
    with subprocess.Popen([*cli.base, "load", "--format", "tsv", "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=environment(None)) as load:
        for i in range(3):
            load.stdin.write(b"pipe\t%d\n" % i)
            load.stdin.flush()
            wait_until(f"line {i} is in the store",
                       lambda want=b"%d" % i: cli("get", "pipe").out == want, 10)
        out, _ = load.communicate()
        assert load.returncode == 0
        assert b"loaded 3 records" in out and b", 2 repeat a key" in out, out


@pytest.mark.skipif(SANITIZED or bool(AGENT) or not shutil.which("strace"),
                    reason="strace is between, and a directory is made for the server")
def test_load_shares_the_syncs_of_the_log(world, tmp_path):
    """With a log one by one they would take a sync each. The last one of a key stays all the same,
    and values may be of any size. The disk is slow: however late the others get to run, they have
    written by the next sync."""
    server = world.server("--data-dir", str(tmp_path / "data"), under=SLOW_DISK)
    cli = world.cli(server)
    count = scaled(2000)
    lines = [f"k{i % (count // 2 + 7)}\t{i}\n" for i in range(count)]
    lines.insert(count // 3, f"large\t{'v' * (3 << 20)}\n")
    want = records_of_tsv("".join(lines).encode())
    source = tmp_path / "source.tsv"
    source.write_text("".join(lines))
    cli.good("load", str(source))
    stats = cli.stats()
    assert stats["log_records"] >= count
    assert stats["log_syncs"] < count / 4
    assert records_of_tsv(cli.good("dump", "--format", "tsv")) == want


LONG_S = 1000  # does not expire during a test
# What kv-cli knows of the server's clock is late by 0.15 s, and by what the server does not run.
LATE_S = 5


def expiries(data):
    return {d["key"]: d.get("expiry_ms") for d in map(json.loads, data.splitlines())}


def server_ms(cli):
    """The server's clock, by what it answers."""
    answer = json.loads(cli.good("--json", "put", "--ttl", str(LONG_S), "clock", ""))
    cli.good("del", "clock")
    return answer["expiry_ms"] - LONG_S * 1000


def test_a_dump_in_jsonl_keeps_when_records_expire(world, tmp_path):
    """Loaded again they expire when they would have, and not never; the others never."""
    cli = world.cli(world.server())
    cli.put("stays", b"x")
    cli.good("put", "--ttl", str(LONG_S), "long", "y")
    cli.good("put", "--ttl", "1", "brief", "z")
    path = tmp_path / "kept.jsonl"
    cli.good("dump", "-o", str(path))
    was = expiries(path.read_bytes())
    if "brief" not in was:  # gone before it was dumped: as if it had been dumped then
        was["brief"] = server_ms(cli)
        with path.open("a", encoding="ascii") as out:
            out.write(f'{{"key":"brief","value":"z","expiry_ms":{was["brief"]}}}\n')
    assert was["stays"] is None and was["long"] > was["brief"] > 1600000000000
    time.sleep(1.5 + LATE_S)
    second = world.cli(world.server())
    result = second("load", str(path))
    assert result.rc == 0 and result.err == "", result
    assert b"loaded 2 records" in result.out and b", skipped 1 expired\n" in result.out
    now = expiries(second.good("dump", "--format", "jsonl"))
    assert set(now) == {"stays", "long"} and now["stays"] is None
    assert abs(now["long"] - was["long"]) < LATE_S * 1000, "not LONG_S from now"
    result = second("verify", str(path))
    assert result.rc == 0 and b"verified 2 records" in result.out, result
    assert result.out.endswith(b", 0 mismatches, 1 expired\n")
