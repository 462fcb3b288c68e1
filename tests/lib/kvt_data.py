# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Data directories of kv-server, as tests look into them, spoil them, and have them on disks that
are small or cannot be written. The layouts are those of common/layout/{log,meta,snapshot}_format.h.
"""
import contextlib
import ctypes
import ctypes.util
import os
import pathlib
import struct
import subprocess

BLOCK = 4096
SEGMENT = "64M"  # the least that there may be
SEGMENT_BYTES = 64 << 20
LOG_MAGIC, BATCH_MAGIC = b"GKVLOG01", b"GKVBATCH"
FOOT = 4  # enum snapshot_kind
META = struct.Struct("<Q8sII2Q2QQQQI44s")
FORMAT = 2  # fields of META
BATCH = struct.Struct("<Q8sQQQII")
CHUNK = struct.Struct("<Q8sQIIII24s")
CHUNK_BYTES = 64
xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
xxhash.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def xxh3(data, seed=0):
    return xxhash.XXH3_64bits_withSeed(bytes(data), len(data), seed)


def with_checksum(data, seed=0):
    """Bytes that begin with the checksum of those behind it."""
    return struct.pack("<Q", xxh3(data[8:], seed)) + data[8:]


def patch(path, offset, data):
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(data)


def flip(path, offset):
    """One bit is another."""
    with open(path, "rb") as f:
        f.seek(offset)
        patch(path, offset, bytes([f.read(1)[0] ^ 0x10]))


class DataDir:
    """A directory, whether there is one or not."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.meta = self.path / "meta"

    def args(self, *more):
        """For a server."""
        return ["--data-dir", str(self.path), "--log-segment", SEGMENT, *more]

    def segments(self):
        return sorted((self.path / "log").glob("*.log"))

    def snapshots(self):
        """The complete ones, the newest last."""
        return sorted((self.path / "snapshot").glob("*.snap"))

    def unfinished(self):
        """What a snapshot that was not completed has left."""
        return [p for p in (self.path / "snapshot").iterdir() if p.suffix != ".snap"]

    def rewrite_meta(self, index, value):
        """A field of it, with the checksum that belongs to it."""
        fields = list(META.unpack(self.meta.read_bytes()[:META.size]))
        fields[index] = value
        patch(self.meta, 0, with_checksum(META.pack(*fields)))


def position(path):
    """Of a segment's first record; where a snapshot's replay begins."""
    return int(path.stem, 16)


def batches(segment):
    """[(offset, position, bytes)] of the batches in it, by their headers alone."""
    found = []
    with open(segment, "rb") as f:
        offset = BLOCK
        while True:
            f.seek(offset)
            head = f.read(BATCH.size)
            if len(head) < BATCH.size or head[8:16] != BATCH_MAGIC:
                return found
            _, _, first, _, _, length, _ = BATCH.unpack(head)
            found.append((offset, first, length))
            offset += (64 + length + BLOCK - 1) // BLOCK * BLOCK


def chunks(snapshot):
    """[(offset, header fields)] of a snapshot."""
    found, offset = [], 0
    with open(snapshot, "rb") as f:
        while True:
            f.seek(offset)
            head = f.read(CHUNK.size)
            if len(head) < CHUNK.size:
                return found
            fields = CHUNK.unpack(head)
            found.append((offset, fields))
            offset += (CHUNK_BYTES + fields[5] + BLOCK - 1) // BLOCK * BLOCK


def rewrite_foot(snapshot, change):
    """change() the numbers of its struct snapshot_foot; with the checksum that belongs to it."""
    offset, fields = chunks(snapshot)[-1]
    assert fields[4] == FOOT
    with open(snapshot, "rb") as f:
        f.seek(offset)
        whole = f.read(CHUNK_BYTES + 64)
    numbers = list(struct.unpack("<8Q", whole[CHUNK_BYTES:]))
    change(numbers)
    data = whole[:CHUNK_BYTES] + struct.pack("<8Q", *numbers)
    patch(snapshot, offset, with_checksum(data, fields[2]))


def foot(snapshot):
    """start, end, records, record_bytes, clients, clock_ms, version, chunks"""
    numbers = []
    with open(snapshot, "rb") as f:
        f.seek(chunks(snapshot)[-1][0] + CHUNK_BYTES)
        numbers = struct.unpack("<8Q", f.read(64))
    return numbers


class CannotMount(Exception):
    """This user, or this kernel, does not allow it."""


@contextlib.contextmanager
def mounted(target, *words):
    """mount WORDS target, for the time of a test."""
    target.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *words, str(target)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise CannotMount(done.stderr.strip())
    try:
        yield target
    finally:
        subprocess.run(["umount", "--lazy", str(target)], check=False)


def can_mount():
    return os.geteuid() == 0
