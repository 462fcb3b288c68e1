# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The board: what all processes of a run share. The offsets are those of client/board.h."""
import mmap
import os
import struct

MAGIC = b"GKBARD01"
SLOTS_MAX = 256
BYTES = 192 + 64 * SLOTS_MAX

SWITCHES = {"stop": 24, "brief": 28, "mute": 32, "grow": 36, "press": 40}
COUNTS = ("operations", "sessions", "reads", "hint_hits", "hint_stale", "retries", "asked",
          "reconnects", "grown", "pressed", "refused")
FIRST_COUNT = 48


class Board:
    """Made again at path; switches are set by the supervisor alone, counts by the clients."""

    def __init__(self, path, slots, operations_max, open_max):
        self.path = path
        with open(path, "w+b") as f:
            os.posix_fallocate(f.fileno(), 0, BYTES)  # or a full disk is a SIGBUS
            f.write(MAGIC + struct.pack("<III", slots, operations_max, open_max))
            f.flush()
            self.map = mmap.mmap(f.fileno(), BYTES)

    def set(self, switch, on):
        struct.pack_into("<I", self.map, SWITCHES[switch], 1 if on else 0)

    def counts(self):
        values = struct.unpack_from(f"<{len(COUNTS)}Q", self.map, FIRST_COUNT)
        return dict(zip(COUNTS, values))
