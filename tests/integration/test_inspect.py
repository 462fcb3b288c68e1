# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-inspect: what it decodes, what it says of a store that is broken, and what it refuses."""
import contextlib
import json
import os
import pathlib
import re
import struct
import subprocess

import pytest

from kvt_client import assert_error, run
from kvt_process import CONNECT, DEVICE, SLOW, environment, free_port, program, scaled, wait_until

RECORDS = 3000
WORD = (1 << 64) - 1


class Inspect:
    """kv-inspect on one server."""

    def __init__(self, address):
        self.base = [program("kv-inspect"), "-s", address, "-d", DEVICE, "--connect", CONNECT]

    def __call__(self, *words, **how):
        return run([*self.base, *words], **how)

    def json(self, *words, rc=0):
        """The document; it must exit as told and complain of nothing."""
        result = self("--json", *words)
        assert (result.rc, result.err) == (rc, ""), result.err
        doc = json.loads(result.out)
        assert (doc["tool"], doc["schema"]) == ("kv-inspect", 1) and doc["command"] in words
        assert doc["device"] == DEVICE and doc["software_device"] == DEVICE.startswith("soft")
        return doc

    def text(self, *words, rc=0):
        result = self(*words)
        assert (result.rc, result.err) == (rc, ""), (result.rc, result.err)
        return result.out.decode()


@pytest.fixture(scope="module")
def inspect(shared, cli, tmp_path_factory):
    """On a server with records of all kinds of lengths."""
    path = tmp_path_factory.mktemp("records") / "records.tsv"
    path.write_text("".join(f"record {i}\t{'v' * (i % 3000)}\n" for i in range(RECORDS)))
    cli.good("load", str(path))
    cli.put("known", b"a known value")
    cli.put(b"\xff\x01", bytes(range(256)) * 40)
    return Inspect(shared.address)


@pytest.mark.no_device
@pytest.mark.parametrize("words, said", [
    ([], "a command is wanted"), (["frobnicate"], "no command"), (["root", "x"], "too many words"),
    (["key"], "too few words"), (["key", ""], "0 bytes"), (["key", "k" * 1025], "1025 bytes"),
    (["block", "2"], "EXTENT:OFFSET"), (["directory", "012"], "no prefix"),
    (["segment", "0x12"], "no hash"), (["--rows", "x", "root"], "not a number"),
    (["--bytes", "999999999", "root"], "out of range"), (["-i", "0", "root"], "1 to 255"),
    (["--connect", "pigeon", "root"], "tcp|cm"), (["-s", "a:b:c", "root"], "HOST:PORT"),
    (["-x", "256", "root"], "0 to 255"), (["--timeout", "0", "root"], "3600000"),
])
def test_wrong_usage(words, said):
    result = run([program("kv-inspect"), *words])
    assert_error(result, 2, who="kv-inspect")
    assert result.out == b"" and said in result.err


@pytest.mark.no_device
@pytest.mark.parametrize("json_flag", ["--json", "-j", "-jh"])
def test_wrong_usage_before_json_is_read(json_flag):
    result = run([program("kv-inspect"), "--bogus", json_flag])
    assert_error(result, 2, "no option", who="kv-inspect")
    assert json.loads(result.err)["code"] == 2


def test_no_server():
    result = Inspect(f"127.0.0.1:{free_port()}")("--timeout", "500", "root")
    assert_error(result, 3, "connecting", who="kv-inspect")
    assert result.err.count("connecting") == 1, "said once"


def test_root(inspect, cli, kv_layout):
    root = inspect.json("root")["root"]
    assert root["layout_version"] == root["layout_version_ours"] == kv_layout[0]
    assert int(root["layout_hash"], 16) == int(root["layout_hash_ours"], 16) == kv_layout[1]
    assert root["fault"] is None and int(root["server_incarnation"], 16) != 0
    assert root["directory"]["checksum_good"] and root["extent_table"]["checksum_good"]
    assert root["hint_floor"] <= root["epoch"]

    def grown():
        cli.put("replaced", b"again and again")
        now = inspect.json("root")["root"]
        assert now["server_incarnation"] == root["server_incarnation"]
        return now["epoch"] > root["epoch"] and now["clock_ms"] > root["clock_ms"]
    wait_until("the epoch grows and the clock goes on", grown, 10)
    text = inspect.text("root")
    assert re.search(r"^epoch +\d+ +E: grows", text, re.M)
    assert re.search(rf"^layout version +{kv_layout[0]} ", text, re.M)


def columns_line_up(text, first):
    """The rows of the table whose first heading it is; its cells stand in columns."""
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.split("  ")[0].lstrip() == first or
                line.lstrip().startswith(first + "  "))
    table = lines[head:lines.index("", head) if "" in lines[head:] else None]
    width = max(map(len, table))
    blank = "".join(" " if all(line.ljust(width)[i] == " " for line in table) else "x"
                    for i in range(width))
    assert len(table) > 1
    columns = len(re.split(r" {2,}", blank.strip()))
    assert columns == len(re.split(r" {2,}", table[0].strip())), "\n".join(table)
    return table[1:]


def test_extents(inspect, cli):
    doc = inspect.json("extents")
    kinds = {row["kind"]: row for row in doc["kinds"]}
    stats = cli.stats()
    assert all(row["fault"] is None for row in doc["extents"])
    assert kinds["index"]["extents"] >= 1 and kinds["dir"]["extents"] >= 1
    assert sum(row["extents"] for row in doc["kinds"]) == len(doc["extents"])
    assert len(doc["extents"]) == stats["memory_extents"]
    assert len({row["rkey"] for row in doc["extents"]}) == len(doc["extents"])
    rows = columns_line_up(inspect.text("extents"), "extent")
    assert len(rows) == len(doc["extents"])


def place_of(record):
    return f"{record['slot']['extent']}:{record['slot']['offset']}"


def test_the_way_to_a_key(inspect, cli):
    version = int(re.search(r"version (\d+)", cli("put", "known", "a known value").out.decode() +
                            cli("get", "--meta", "known").err).group(1))
    doc = inspect.json("key", "known")
    names = [step["step"] for step in doc["steps"]]
    assert doc["result"] == "found" and names[:3] == ["hash", "directory", "bucket"]
    assert names[-1] == "block" and doc["attempts"] >= 1
    record = doc["record"]
    assert (record["key"], record["value_head"]) == ("known", "a known value")
    assert record["state"] == "live" and record["checksum_good"] and record["key_equal"]
    assert record["version"] == version and record["expiry_ms"] == 0
    text = inspect.text("key", "known")
    assert "found: version" in text and "a known value" in text and "checksum good" in text

    block = inspect.json("block", place_of(record))["block"]
    for field in ("version", "key", "value_hex", "key_hash", "incarnation", "address"):
        assert block[field] == {**record, "address": record["slot"]["address"]}[field]


def test_a_key_with_a_time_to_live(inspect, cli):
    cli.good("put", "--ttl", "3600", "leased", "x")
    record = inspect.json("key", "leased")["record"]
    assert 3500 < float(record["expires_in_s"]) < 3601 and not record["expired"]


def test_bytes_of_any_kind(inspect):
    doc = inspect.json("--bytes", "20000", "key", b"\xff\x01")
    assert bytes.fromhex(doc["record"]["value_hex"]) == bytes(range(256)) * 40
    assert doc["record"]["key_b64"] == "/wE="
    text = inspect.text("key", b"\xff\x01")
    assert r"key \xff\x01" in text and "... and 10176 bytes more" in text


def test_an_absent_key_is_explained(inspect):
    doc = inspect.json("key", "nobody wrote this", rc=1)
    assert doc["result"] == "absent" and doc["record"] is None
    assert [step["step"] for step in doc["steps"]][:3] == ["hash", "directory", "bucket"]
    assert "absent: no slot of the chain leads to the key" in inspect.text("key", "nope", rc=1)


def test_directory_segment_and_bucket_agree(inspect):
    doc = inspect.json("key", "known")
    entry, bucket, block = (next(s for s in doc["steps"] if s["step"] == name)
                            for name in ("directory", "bucket", "block"))
    prefix = f"{int(doc['steps'][0]['hash'], 16):064b}"[:entry["local_depth"]]
    rows = inspect.json("directory", prefix)["entries"]
    assert [row["prefix"] for row in rows] == [prefix]
    assert (rows[0]["word"], rows[0]["fault"]) == (entry["word"], None)

    segment = inspect.json("segment", prefix)
    assert segment["segment"]["prefix"] == prefix and len(segment["buckets"]) >= 64
    assert segment["fill"]["used"] == sum(b["used"] for b in segment["buckets"][:64])
    assert segment["buckets"][bucket["bucket"]]["address"] == bucket["address"]

    for name in (doc["steps"][0]["hash"], f"{prefix}:{bucket['bucket']}"):
        slots = inspect.json("bucket", name)["slots"]
        assert len(slots) == bucket["used"]
        assert block["slot"]["word"] in [s["word"] for s in slots]
    columns_line_up(inspect.text("segment", prefix), "bucket")
    columns_line_up(inspect.text("bucket", doc["steps"][0]["hash"]), "slot")


def test_the_whole_directory(inspect):
    doc = inspect.json("directory")
    assert sum(row["entries"] for row in doc["entries"]) == 1 << doc["directory"]["depth"]
    assert sum(row["segments"] for row in doc["by_depth"]) == len(doc["entries"])
    few = inspect.json("--rows", "3", "directory")
    assert len(few["entries"]) == 3 and few["left_out"] == len(doc["entries"]) - 3
    assert "more rows (--rows 0" in inspect.text("-n", "3", "directory")
    assert inspect.json("directory", "-")["entries"] == doc["entries"]


def test_places_where_nothing_is(inspect):
    extents = {row["kind"]: row for row in inspect.json("extents")["extents"]}
    data = extents["data"]
    for words, said in ((["block", "4095:0"], "no such extent"),
                        (["block", f"{data['number']}:{data['bytes']}"], "the extent ends at"),
                        (["block", f"{extents['index']['number']}:0"], "kind index")):
        assert_error(inspect(*words), 3, said, who="kv-inspect")
    assert_error(inspect("segment", "0"), 2, "give more", who="kv-inspect")
    block = inspect.json("block", f"{data['number']}:{data['bytes'] - 64}", rc=1)["block"]
    assert block["fault"]


def test_check_is_clean_and_counts(inspect, cli):
    doc = inspect.json("check")
    stats = cli.stats()
    assert doc["complete"] and doc["violations"] == [] and doc["open"] == []
    totals = doc["totals"]
    assert totals["records"] == totals["used"] == stats["records"] > RECORDS
    assert totals["segments"] == stats["index_segments"]
    assert totals["record_bytes"] == stats["memory_record_bytes"]
    assert sum(row["records"] for row in doc["by_depth"]) == totals["records"]
    assert "0 violations" in inspect.text("check")


def test_nothing_is_asked_of_the_server(inspect, cli):
    def counters():
        return {k: v for k, v in cli.stats().items() if k.startswith(("rpc_", "records"))
                and k != "rpc_stats"}
    before = counters()
    for words in (["root"], ["extents"], ["directory"], ["check"], ["key", "known"]):
        inspect.text(*words)
    assert counters() == before


@contextlib.contextmanager
def background(args, stdin=None):
    """A program beside the test; it must end well."""
    with open(stdin or os.devnull, "rb") as lines, subprocess.Popen(
            args, env=environment(), stdin=lines, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE) as it:
        try:
            yield it
            assert it.wait(60 * SLOW) == 0, it.stderr.read()
        finally:
            if it.poll() is None:
                it.kill()


def rotate(x, n):
    return (x << n | x >> (64 - n)) & WORD


def hash_of(seed, key):
    """XXH3 of a key of 8 bytes."""
    swapped = int.from_bytes((seed & 0xffffffff).to_bytes(4, "little"), "big")
    flip = ((0x1cad21f72c81017c ^ 0xdb979083e96dd4de) - (seed ^ swapped << 32)) & WORD
    low, high = struct.unpack("<II", key)
    h = flip ^ (high + (low << 32))
    h ^= rotate(h, 49) ^ rotate(h, 24)
    h = h * 0x9fb21c651e98df25 & WORD
    h ^= (h >> 35) + 8
    h = h * 0x9fb21c651e98df25 & WORD
    return h ^ h >> 28


def test_the_hash_is_that_of_the_key(inspect):
    seed = int(inspect.json("root")["root"]["hash_seed"], 16)
    for key in ("01234567", "abcdefgh"):
        said = int(inspect.json("key", key, rc=1)["steps"][0]["hash"], 16)
        assert said == hash_of(seed, key.encode())


def test_check_beside_writers_and_growth(world, tmp_path):
    """Keys of one segment, which is split and, when most are deleted, merged."""
    server = world.server()
    inspect, cli = Inspect(server.address), world.cli(server)
    seed = int(inspect.json("root")["root"]["hash_seed"], 16)
    keys = [key for key in (f"{i:08x}" for i in range(scaled(400000)))
            if hash_of(seed, key.encode()) >> 58 == 21]
    path, deletes = tmp_path / "grow.tsv", tmp_path / "deletes"
    path.write_text("".join(f"{key}\t{key * 20}\n" for key in keys))
    deletes.write_text("".join(f"del {key}\n" for key in keys))
    checks = 0
    for words, stdin in ((["load", str(path)], None), (["load", str(path)], None), ([], deletes)):
        with background([*cli.base, *words], stdin=stdin) as writer:
            while writer.poll() is None:
                doc = inspect.json("check")
                assert doc["violations"] == [], doc["violations"]
                checks += 1
        doc = inspect.json("check")
        assert doc["violations"] == [] and doc["complete"]
        assert doc["totals"]["records"] == (len(keys) if words else 0)
    assert checks >= 3
    stats = cli.stats()
    if len(keys) > 5000:
        assert stats["index_splits"] > 1 and stats["index_merges"] > 0


def test_a_server_that_dies(world, inspect):
    server = world.server(memory="64M")
    it = Inspect(server.address)
    with subprocess.Popen([*it.base, "--timeout", "800", "check"], env=environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as check:
        server.crash()
        out, err = check.communicate(timeout=60)
    assert check.returncode in (0, 3), (out, err)
    assert check.returncode == 0 or re.match(rb"kv-inspect: .{20,}\n$", err), err
    assert_error(it("--timeout", "300", "check"), 3, who="kv-inspect")


def test_stdout_that_is_full(inspect):
    with open("/dev/full", "wb") as full:
        for words in (["root"], ["--json", "extents"], ["check"]):
            result = inspect(*words, stdout=full)
            assert_error(result, 3, "writing to stdout", who="kv-inspect")


class Memory:
    """The extents of a server of this machine, through its descriptors."""

    def __init__(self, pid):
        files = {}
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                files.setdefault(fd.stat().st_ino, fd)
        self.areas = []
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, _, offset, _, inode = line.split()[:5]
            first, end = (int(x, 16) for x in span.split("-"))
            if int(inode) in files:
                self.areas.append((first, end, int(offset, 16), files[int(inode)]))

    def word(self, address, new=None):
        """A word, changed where another is given; what stood there."""
        first, _, offset, path = next(a for a in self.areas if a[0] <= address < a[1])
        with open(path, "r+b", buffering=0) as f:
            f.seek(address - first + offset)
            old = f.read(8)
            if new is not None:
                f.seek(address - first + offset)
                f.write(struct.pack("<Q", new))
        return struct.unpack("<Q", old)[0]


@pytest.fixture
def broken(world):
    """A server whose memory can be changed behind its back, and is as before in the end."""
    server = world.server(memory="64M")
    cli = world.cli(server)
    for i in range(5):
        cli.put(f"k{i}", b"value of %d" % i)
    memory = Memory(server.pid)
    changed = []

    def change(address, new):
        changed.append((address, memory.word(address, new)))
    yield Inspect(server.address), memory, change
    for address, old in reversed(changed):
        memory.word(address, old)


@pytest.mark.soft_device
def test_a_broken_block_is_found(broken):
    inspect, memory, change = broken
    record = inspect.json("key", "k1")["record"]
    address = int(record["slot"]["address"], 16)
    assert inspect.json("check")["violations"] == []
    change(address + 56, memory.word(address + 56) ^ 1)
    doc = inspect.json("check", rc=1)
    assert [v["kind"] for v in doc["violations"]] == ["block"] and doc["violation_count"] == 1
    assert "checksum" in doc["violations"][0]["words"] and doc["violations"][0]["certain"]
    assert "violation: block: segment" in inspect.text("check", rc=1)
    assert inspect.json("key", "k1", rc=1)["result"] == "unsettled"
    block = inspect.json("block", place_of(record), rc=1)["block"]
    assert not block["checksum_good"]
