# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli load and dump: formats, round trips, bad files."""
import base64
import json
import random
import re
import time

import pytest

from kvt_client import assert_error
from kvt_process import scaled, wait_until

STANZAS = [
    ("alpha", "Package: alpha\nVersion: 1.0\nDescription: the first\n with a second line\n"
     " .\n end\n"),
    ("beta", "Package: beta\nVersion: 2:3.4-5~deb12u1\n"),
    ("libgamma++", "Source: gamma\nPackage: libgamma++\nMaintainer: Jürgen <j@example.org>\n"),
]


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


def test_dump_default_format_loads_again(world):
    cli = world.cli(world.server())
    cli.put("a", b"\0\t\n\\")
    cli.put("b", b"")
    dump = cli.good("dump")
    reader = records_of_jsonl if dump.lstrip().startswith(b"{") else records_of_tsv
    assert reader(dump) == {b"a": b"\0\t\n\\", b"b": b""}


def test_dump_of_an_empty_store(world):
    assert world.cli(world.server()).good("dump") == b""


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


def test_load_deb822_and_verify(world, tmp_path):
    cli = world.cli(world.server())
    path = tmp_path / "Packages"
    path.write_text("\n".join(text for _, text in STANZAS))
    cli.good("load", "--format", "deb822", str(path))
    for name, text in STANZAS:
        assert cli.get(name).decode().rstrip("\n") == text.rstrip("\n")
    assert cli.stats()["records"] == len(STANZAS)


def test_load_guesses_or_asks_for_the_format(world, tmp_path):
    cli = world.cli(world.server())
    for name, text in (("a.tsv", "ta\tva\n"), ("b.jsonl", '{"key": "tb", "value": "vb"}\n')):
        (tmp_path / name).write_text(text)
        cli.good("load", str(tmp_path / name))
    assert cli.get("ta") == b"va" and cli.get("tb") == b"vb"
    (tmp_path / "c.bin").write_text("x\ty\n")
    assert_error(cli("load", str(tmp_path / "c.bin")), 2, "--format")


def test_load_takes_windows_ends_and_a_missing_last_newline_literally(world):
    cli = world.cli(world.server())
    cli.good("load", "--format", "tsv", "-", stdin=b"a\tb\r\nc\td")
    assert cli.get("c") == b"d"
    assert cli.get("a") == b"b\r"


@pytest.mark.parametrize("form,good,bad,line", [
    ("tsv", b"k1\tv1\nk2\tv2\n", b"no tab here\n", 3),
    ("tsv", b"k1\tv1\nk2\tv2\n", b"k3\tbad \\q escape\n", 3),
    ("tsv", b"k1\tv1\nk2\tv2\n", b"k3\tcut \\x4\n", 3),
    ("tsv", b"k1\tv1\nk2\tv2\n", b"\tempty key\n", 3),
    ("tsv", b"k1\tv1\nk2\tv2\n", b"k" * 1025 + b"\tlong key\n", 3),
    ("tsv", b"k1\tv1\nk2\tv2\n", b"k3\t" + b"v" * ((16 << 20) + 1) + b"\n", 3),
    ("jsonl", b'{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2"}\n', b'{"key":"k3"\n', 3),
    ("jsonl", b'{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2"}\n', b'{"value":"v"}\n', 3),
    ("jsonl", b'{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2"}\n', b'["k3", "v3"]\n', 3),
    ("jsonl", b'{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2"}\n',
     b'{"key":"k3","value_b64":"?"}\n', 3),
    ("jsonl", b'{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2"}\n', b'{"key":3,"value":"v"}\n',
     3),
    ("deb822", b"Package: k1\nA: v1\n\nPackage: k2\nA: v2\n\n", b"nonsense\n\n", 7),
    ("deb822", b"Package: k1\nA: v1\n\nPackage: k2\nA: v2\n\n", b"Version: 1\nA: v3\n\n", 7),
], ids=range(13))
def test_a_bad_record_in_the_middle_names_its_line(world, form, good, bad, line):
    cli = world.cli(world.server())
    after = {"tsv": b"k9\tv9\n", "jsonl": b'{"key":"k9","value":"v9"}\n',
             "deb822": b"Package: k9\nA: v9\n\n"}[form]
    result = cli("load", "--format", form, "-", stdin=good + bad + after)
    assert result.rc == 3, result
    assert f"line {line}" in result.err, result.err
    assert len(result.err) < 4000, "a message for a person"
    for key in ("k1", "k2"):
        assert b"v" + key[1:].encode() in cli.get(key), "records before the bad one are there"
    assert cli("exists", "k3").rc == 1


LONG_S = 1000  # does not expire during a test
# What kv-cli knows of the server's clock is late by 0.15 s, and by what the server does not run.
LATE_S = 5
GONE_EARLY_MS = 4000  # where the load took so long to be told the clock


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


def test_a_record_that_was_loaded_expires(world):
    cli = world.cli(world.server())
    soon = server_ms(cli) + 6000
    line = json.dumps({"key": "soon", "value": "v", "expiry_ms": soon}).encode()
    cli.good("load", "--format", "jsonl", "-", stdin=line)
    wait_until("it has expired", lambda: cli("exists", "soon").rc == 1, 30)
    assert server_ms(cli) > soon - GONE_EARLY_MS, "not at once"
    assert_error(cli("ttl", "soon"), 1, "not found")


def test_a_dump_in_tsv_says_that_it_loses_expiries(world, tmp_path):
    cli = world.cli(world.server())
    cli.put("stays", b"x")
    assert cli("dump").err == ""
    for number in range(3):
        cli.good("put", "--ttl", str(LONG_S), f"long {number}", "y")
    for words in ([], ["-o", str(tmp_path / "out.tsv")]):
        result = cli("dump", *words)
        assert result.rc == 0
        assert re.fullmatch(r"kv-cli: dump: 3 records had a time to live, .* "
                            r"\(use --format jsonl\)\n", result.err), result.err
    assert cli("dump", "--format", "jsonl").err == ""


@pytest.mark.parametrize("value", ['"1893456000000"', "-1", "1893456000000.0", "1e12", "null",
                                   "true", "[]", "253402300800000", "9223372036854775807",
                                   "9223372036854775808", "1" + 40 * "0"])
def test_garbage_as_expiry_is_refused(world, value):
    cli = world.cli(world.server())
    lines = '{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2","expiry_ms":%s}\n' % value
    assert_error(cli("load", "--format", "jsonl", "-", stdin=lines.encode()), 3,
                 "line 2: (expiry_ms is |not JSON)")
    assert cli.get("k1") == b"v1" and cli("exists", "k2").rc == 1
    result = cli("load", "--format", "jsonl", "--skip-bad", "-", stdin=lines.encode())
    assert result.rc == 1 and "line 2: " in result.err, result


def test_load_of_a_missing_file(world, tmp_path):
    cli = world.cli(world.server())
    path = str(tmp_path / "missing.tsv")
    assert_error(cli("load", path), 3, "missing.tsv", "No such file")


def test_load_of_a_folder(world, tmp_path):
    cli = world.cli(world.server())
    folder = tmp_path / "folder.tsv"
    folder.mkdir()
    assert_error(cli("load", str(folder)), 3, "folder.tsv", "directory")


def test_dump_into_a_full_device(world):
    server = world.server()
    cli = world.cli(server)
    world.client(server).ask("fill", "full", 0, 1000, 100)
    with open("/dev/full", "wb") as full:
        result = cli("dump", stdout=full)
    assert result.rc == 3
    assert "No space left" in result.err and len(result.err.splitlines()) == 1, result.err


def test_load_of_an_empty_file_says_so(world):
    cli = world.cli(world.server())
    assert_error(cli("load", "--format", "tsv", "-"), 3, "no records")
    assert cli.stats()["records"] == 0


def test_load_and_verify(world, tmp_path):
    cli = world.cli(world.server())
    path = tmp_path / "records.tsv"
    path.write_text("".join(f"{escape_tsv(k)}\t{escape_tsv(v)}\n"
                            for k, v in hard_records().items()))
    result = cli("load", "--verify", str(path))
    assert result.rc == 0, result.err
    assert str(len(hard_records())) in result.out.decode() + result.err
    assert cli.stats()["records"] == len(hard_records())


def test_load_that_skips_bad_records(world):
    cli = world.cli(world.server())
    lines = b"k1\tv1\nbad\nk2\tv2\n\tbad too\nk3\tv3\n"
    result = cli("load", "--format", "tsv", "--skip-bad", "-", stdin=lines)
    assert result.rc == 1
    assert "line 2" in result.err and "line 4" in result.err
    assert [cli.get(f"k{i}") for i in (1, 2, 3)] == [b"v1", b"v2", b"v3"]


def test_dump_into_a_file(world, tmp_path):
    cli = world.cli(world.server())
    cli.put("key", b"value\n")
    assert cli("dump", "-o", str(tmp_path / "out.jsonl")).rc == 0
    assert records_of_jsonl((tmp_path / "out.jsonl").read_bytes()) == {b"key": b"value\n"}
    assert [p.name for p in tmp_path.glob("out*")] == ["out.jsonl"], "nothing else is left"
    assert_error(cli("dump", "-o", str(tmp_path / "none" / "out.tsv")), 3, "No such file")
