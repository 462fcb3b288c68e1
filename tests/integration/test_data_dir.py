# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Data directories that a server must not start on, disks that are full, and disks that fail."""
import os
import re
import shutil
import signal
import subprocess

import pytest

import kvt_data
from kvt_client import CallFailed, assert_error
from kvt_data import DataDir, batches, flip, mounted, rewrite_foot
from kvt_process import AGENT, SANITIZED, Process, wait_until
from kvt_server import ServerFailed, refused
from test_durable import MIB, Lives

pytestmark = [pytest.mark.skipif(bool(AGENT), reason="looks into the directory of the server"),
              pytest.mark.soft_device]

ENOSPC = -28
RECORDS = 400
SEGMENT = 64 << 20  # bytes, the least


@pytest.fixture
def lives(world):
    return Lives(world)


@pytest.fixture
def killed(lives):
    """A directory whose server was killed: records in many batches, no snapshot."""
    lives.args = ("--snapshot-every", "0")
    lives.start()
    lives.client().ask("fill", "record", 0, RECORDS, 1000, seconds=60)
    lives.crash()
    return lives


def found(lives):
    seen = lives.client().ask("check", "record", 0, RECORDS, 1000, seconds=60)
    assert seen["wrong"] == "0"
    return int(seen["found"])


def refusal(lives, *words, args=()):
    """It says so, exits with 3 or 2, and the directory is as it was before."""
    before = {p: p.stat().st_size for p in lives.data.path.rglob("*.log")}
    line = assert_error(lives.refused(*args), (2, 3), *words, who="kv-server")
    assert {p: p.stat().st_size for p in lives.data.path.rglob("*.log")} == before
    return line


def test_two_servers(lives):
    lives.start()
    line = assert_error(lives.refused(), 3, "data", who="kv-server")
    assert str(lives.server.pid) in line
    assert lives.client().put(b"key", b"value"), "the first one goes on"
    lives.again()
    assert lives.client().get(b"key") == b"value"


def test_a_file_is_no_directory(lives):
    lives.data.path.write_text("x")
    assert_error(lives.refused(), (2, 3), "directory", str(lives.data.path), who="kv-server")


def test_parents_are_not_made(lives):
    lives.data = DataDir(lives.data.path / "deep" / "deeper")
    assert_error(lives.refused(), (2, 3), "No such file", str(lives.data.path), who="kv-server")


@pytest.mark.skipif(not shutil.which("setpriv"), reason="there is no setpriv")
@pytest.mark.parametrize("mode", [0, 0o500])
def test_without_permission(killed, mode):
    """Also as root: one without the capabilities to override it."""
    killed.data.path.chmod(mode)
    under = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    try:
        failure = refused_under(killed, under)
    finally:
        killed.data.path.chmod(0o700)
    assert_error(failure, (2, 3), "Permission denied", "data", who="kv-server")
    killed.start()
    assert found(killed) == RECORDS


def refused_under(lives, under):
    return refused(lives.world.folder, *lives.data.args(), under=under, seconds=30)


@pytest.mark.skipif(not kvt_data.can_mount(), reason="only root may mount")
def test_read_only_file_system(killed):
    view = killed.world.folder / "view"
    try:
        with mounted(view, "--bind", str(killed.data.path)):
            done = subprocess.run(["mount", "-o", "remount,ro,bind", str(view)], check=False)
            if done.returncode:
                pytest.skip("it cannot be remounted")
            real, killed.data = killed.data, DataDir(view)
            assert_error(killed.refused(), (2, 3), "Read-only file system", str(view),
                         who="kv-server")
            killed.data = real
    except kvt_data.CannotMount as why:
        pytest.skip(str(why))
    killed.start()
    assert found(killed) == RECORDS


def test_segment_of_another_store(world, killed):
    other = Lives(world)
    other.data = DataDir(world.folder / "other")
    other.start()
    other.client().put(b"foreign", b"value")
    other.crash()
    kept = killed.data.segments()[0].read_bytes()
    shutil.copy(other.data.segments()[0], killed.data.segments()[0])
    refusal(killed, killed.data.segments()[0].name, "another")
    killed.data.segments()[0].write_bytes(kept)
    killed.start()
    assert found(killed) == RECORDS


def test_meta_of_a_newer_format(killed):
    killed.data.rewrite_meta(kvt_data.FORMAT, 2)
    refusal(killed, "meta", "format 2|newer")
    killed.data.rewrite_meta(kvt_data.FORMAT, 1)
    killed.start()
    assert found(killed) == RECORDS


@pytest.mark.parametrize("offset", [0, 16, 40, 64])
def test_meta_that_is_damaged(killed, offset):
    flip(killed.data.meta, offset)
    refusal(killed, str(killed.data.path), "meta is corrupt", "back-up")
    flip(killed.data.meta, offset)
    killed.start()
    assert found(killed) == RECORDS


@pytest.mark.parametrize("what", ["meta", "segment"])
def test_what_is_no_file_is_refused_at_once(killed, what):
    """It does not wait for the other end of a pipe, and does not go on without."""
    path = killed.data.meta if what == "meta" else killed.data.segments()[-1]
    kept = path.with_suffix(".kept")
    path.rename(kept)
    os.mkfifo(path)
    refusal(killed, path.name)
    kept.replace(path)
    killed.start()
    assert found(killed) == RECORDS


def test_meta_that_is_gone(killed):
    """A directory with a log and without meta is no new one."""
    kept = killed.data.meta.read_bytes()
    killed.data.meta.unlink()
    refusal(killed, "meta")
    killed.data.meta.write_bytes(kept)
    killed.start()
    assert found(killed) == RECORDS


def test_corrupt_middle_of_the_log(killed):
    """Told with file and offset; what stands before it can be had, and is there in later lives."""
    segment = killed.data.segments()[0]
    offset, position, _ = batches(segment)[len(batches(segment)) // 2]
    flip(segment, offset + 64 + 200)
    line = refusal(killed, segment.name, "--recover-until", "kv-inspect log")
    told = re.search(r"--recover-until (\d+)", line)
    assert re.search(rf"\b{offset}\b|0x{offset:x}|\b{offset + 64}\b", line), line
    assert told is None or int(told.group(1)) >= position
    assert position > 0
    killed.start("--recover-until", str(position))
    count = found(killed)
    assert 0 < count < RECORDS
    assert list(killed.data.path.glob("cut-*")) or killed.data.segments()[0] == segment
    killed.again()
    assert found(killed) == count, "without being told where to end"
    killed.client().ask("fill", "record", 0, RECORDS, 1000, seconds=60)
    killed.again()
    assert found(killed) == RECORDS


def test_a_torn_end_of_the_log_is_cut(killed):
    """Zeroes where the last batch was: a power cut. The log ends there, and goes on elsewhere."""
    segment = killed.data.segments()[0]
    offset, _, length = batches(segment)[-1]
    kvt_data.patch(segment, offset, bytes(64 + length))
    killed.start()
    assert RECORDS - 64 < found(killed) < RECORDS
    killed.again()
    killed.again()
    assert RECORDS - 64 < found(killed) < RECORDS


def test_header_of_a_segment_that_is_damaged(killed):
    segment = killed.data.segments()[0]
    flip(segment, 24)
    refusal(killed, segment.name)


def test_a_segment_that_is_missing(killed):
    killed.start()
    killed.client().ask("fill", "more", 0, 10, 1000)
    killed.crash()
    killed.data.segments()[0].rename(killed.world.folder / "away")
    refusal(killed, "log")


@pytest.fixture
def saved(killed):
    """Two snapshots, and some log behind them."""
    cli = killed.start()
    cli.good("save", seconds=60)
    killed.client().ask("fill", "record", 0, RECORDS // 2, 1000, seconds=60)
    cli.good("save", seconds=60)
    killed.client().put(b"last", b"value")
    killed.crash()
    assert len(killed.data.snapshots()) == 2
    return killed


def test_snapshot_beyond_the_log(saved):
    newest = saved.data.snapshots()[-1]

    def lie(numbers):
        numbers[1] += 1 << 30

    rewrite_foot(newest, lie)
    refusal(saved, newest.name)


@pytest.mark.parametrize("what", ["foot", "middle", "head"])
def test_damaged_snapshot_is_never_half_taken(saved, what):
    """The one before it has all that the log has not; or the server says what is wrong."""
    newest = saved.data.snapshots()[-1]
    every = kvt_data.chunks(newest)
    at = {"head": 0, "middle": len(every) // 2, "foot": len(every) - 1}[what]
    flip(newest, every[at][0] + 80)
    try:
        saved.start()
    except ServerFailed as failure:
        assert newest.name in str(failure)
        newest.unlink()
        saved.start()
    assert found(saved) == RECORDS
    assert saved.client().get(b"last") == b"value"


# Disks that are full, and disks that fail


@pytest.fixture
def small_disk(world):
    """In memory: room for two segments, and for a third when a file goes."""
    if not kvt_data.can_mount():
        pytest.skip("only root may mount")
    disk = world.folder / "disk"
    try:
        with mounted(disk, "-t", "tmpfs", "-o", "size=240m", "none"):
            (disk / "ballast").write_bytes(bytes(90 * MIB))
            yield disk
            for server in world.servers:
                server.crash()
    except kvt_data.CannotMount as why:
        pytest.skip(str(why))


def test_full_disk(world, small_disk):
    """Writes are refused, with a sentence; reads go on; there is room again, and writes go on."""
    lives = Lives(world, "--snapshot-every", "0", memory="1G")
    lives.data = DataDir(small_disk / "data")
    lives.start()
    assert "tmpfs" in lives.server.stderr(), "it is said that this is no disk"
    client = lives.client()
    with pytest.raises(CallFailed) as failure:
        client.ask("fill", "big", 0, 1000, MIB // 2, seconds=60)
    assert failure.value.code == ENOSPC, failure.value
    assert re.search("disk|space|room", failure.value.text)
    done = int(re.search(r"done=(\d+)", failure.value.text).group(1))
    assert done > 20
    assert client.ask("check", "big", 0, done, MIB // 2)["found"] == str(done)
    (small_disk / "ballast").unlink()

    def writes():
        try:
            return client.put(b"again", b"value")
        except CallFailed as error:
            assert error.code == ENOSPC
            return None

    wait_until("there is room again", writes, 10)
    subprocess.run(["mount", "-o", "remount,size=400m", str(small_disk)], check=True)
    lives.again()  # a life begins with a segment of its own
    client = lives.client()
    assert client.ask("check", "big", 0, done, MIB // 2)["found"] == str(done)
    assert client.get(b"again") == b"value"


def test_disk_that_is_full_at_the_start(world, small_disk):
    (small_disk / "more").write_bytes(bytes(100 * MIB))
    lives = Lives(world)
    lives.data = DataDir(small_disk / "data")
    assert_error(lives.refused(), 3, "No space left|full|room", who="kv-server")


@pytest.mark.skipif(SANITIZED or not shutil.which("strace"), reason="strace is between")
@pytest.mark.parametrize("calls,slow", [("fdatasync", "pwritev2"),
                                        ("pwrite64,pwritev2", "fdatasync")])
def test_a_disk_that_fails_ends_the_server(killed, calls, slow):
    """It says why, acknowledges nothing more, and what was acknowledged is there in the next life.
    Without io_uring, whose writes strace does not see."""
    under = ["strace", "-D", "-f", "-qq", "-o", "/dev/null",
             "-e", f"trace={calls},{slow},io_uring_setup",
             "-e", "inject=io_uring_setup:error=ENOSYS",
             "-e", f"inject={slow}:delay_enter=20000",  # so the log is written the other way
             "-e", f"inject={calls}:error=EIO:when=600+"]  # behind those that try the disk
    killed.start(under=under)
    client = killed.client()
    client.start("stream", "during", 0, 100000, 200)
    acknowledged = 0
    killed.server.expected_dead = True
    wait_until("the server ends", lambda: not killed.server.running(), 60)
    client.kill()
    while (line := client.read_line(5) or "").startswith("ack"):
        acknowledged = int(line.split()[1]) + 1
    assert acknowledged, "it failed too early for this test"
    assert killed.server.returncode() == 3, killed.server.stderr()
    assert re.search("Input/output error", killed.server.stderr())
    killed.server.close()
    killed.start()
    assert found(killed) == RECORDS
    seen = killed.client().ask("check", "during", 0, acknowledged, 200)
    assert seen["found"] == str(acknowledged)


@pytest.mark.skipif(SANITIZED or not shutil.which("strace"), reason="strace is between")
def test_a_file_system_that_reserves_no_blocks(lives):
    """Its blocks are written instead, in large pieces: the log finds room there in any case."""
    trace = lives.data.path.parent / "trace"
    lives.args = ("--log-segment", str(SEGMENT))
    lives.start(under=["strace", "-D", "-f", "-qq", "-o", trace,
                       "-P", lives.data.path / "log/next.tmp",
                       "-e", "trace=fallocate,pwrite64,fsync",
                       "-e", "inject=fallocate:error=EOPNOTSUPP"])
    lives.client().ask("fill", "record", 0, RECORDS, 1000, seconds=60)
    wait_until("there is a segment, and the next one",
               lambda: len(list((lives.data.path / "log").iterdir())) == 2, 10)
    for segment in (lives.data.path / "log").iterdir():
        wait_until("it has its blocks", lambda: segment.stat().st_blocks * 512 >= SEGMENT, 10)
    lives.again()
    assert found(lives) == RECORDS
    calls = trace.read_text()
    assert "EOPNOTSUPP (Operation not supported) (INJECTED)" in calls
    assert "fsync" in calls, "where there is no room, that shows before a write"
    assert calls.count("pwrite64") < 4 * SEGMENT / (256 << 10)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_while_it_recovers(killed, how):
    killed.start()
    killed.client().ask("fill", "long", 0, 100, MIB, seconds=120)
    killed.crash()
    process = Process(killed.command(), killed.world.folder / "told.stderr")
    try:
        wait_until("it has begun", lambda: "data" in process.stderr() or not process.running(), 10,
                   step=0.002)
        process.signal(how)
        assert process.wait(20) == 0, process.stderr()
    finally:
        process.close()
    killed.start()
    assert found(killed) == RECORDS
