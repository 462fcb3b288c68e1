# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Frames of the TCP exchange, built and taken apart by hand: common/layout/wire_tcp.h."""
import collections
import os
import socket
import struct
import time

MAGIC = 0x58564B47
VERSION = 7
PAYLOAD_MAX = 1024
HELLO, WELCOME, REFUSE, QP_OPEN, QP_OPENED, QP_READY, QP_LIVE, BYE = range(1, 9)

HEADER = struct.Struct("<IHHII")
HELLO_BODY = struct.Struct("<IIQ16sQQ64s16s")
WELCOME_BODY = struct.Struct("<QQQQQQ10I64sQI28s")
REFUSE_BODY = struct.Struct("<iI504s")
QP_BODY = struct.Struct("<16sIIHBBBBBBIIB23s")
HANDLE_BODY = struct.Struct("<II")
assert [s.size for s in (HEADER, HELLO_BODY, WELCOME_BODY, REFUSE_BODY, QP_BODY, HANDLE_BODY)] == [
    16, 128, 192, 512, 64, 8]

Frame = collections.namedtuple("Frame", "magic version type payload")


def frame(kind, payload=b"", *, magic=MAGIC, version=VERSION, length=None, reserved=0):
    """A frame; length, where given, lies about the payload."""
    return HEADER.pack(magic, version, kind, len(payload) if length is None else length,
                       reserved) + payload


def hello(layout, *, layout_version=None, layout_hash=None, client_id=None, first_sequence=1,
          incarnation=0, name=b"raw", reserved=bytes(16)):
    """The payload of HELLO; layout is (version, hash)."""
    return HELLO_BODY.pack(layout[0] if layout_version is None else layout_version, os.getpid(),
                           layout[1] if layout_hash is None else layout_hash,
                           client_id or os.urandom(16), first_sequence, incarnation, name,
                           reserved)


def refusal(payload):
    """(code, text) of a REFUSE."""
    code, _, text = REFUSE_BODY.unpack(payload)
    assert b"\0" in text, "the text of REFUSE is not terminated"
    return code, text.split(b"\0", 1)[0].decode()


class Raw:
    """A TCP connection to a server that sends what it likes."""

    def __init__(self, server, seconds=5):
        self.sock = socket.create_connection((server.ready["host"], server.port), seconds)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def send(self, data):
        """Send; True, or False where the server has closed already."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def receive(self, size, seconds=8):
        """Up to size bytes, fewer at the end of the connection; fails after the seconds."""
        deadline = time.monotonic() + seconds
        data = b""
        while len(data) < size:
            left = deadline - time.monotonic()
            assert left > 0, f"the server neither answered nor closed in {seconds} s"
            self.sock.settimeout(left)
            try:
                piece = self.sock.recv(size - len(data))
            except socket.timeout:
                continue
            except ConnectionResetError:
                break
            if not piece:
                break
            data += piece
        return data

    def receive_frame(self, seconds=8):
        """A frame, or None where the server closed the connection."""
        header = self.receive(HEADER.size, seconds)
        if len(header) < HEADER.size:
            assert header == b"", f"half a header: {header!r}"
            return None
        magic, version, kind, length, reserved = HEADER.unpack(header)
        assert magic == MAGIC and reserved == 0 and length <= PAYLOAD_MAX, header
        payload = self.receive(length, seconds)
        assert len(payload) == length, "the server closed inside a frame"
        return Frame(magic, version, kind, payload)

    def closed(self, seconds=8):
        """Read until the server closes; what came before."""
        data = b""
        deadline = time.monotonic() + seconds
        while True:
            piece = self.receive(1, max(0.01, deadline - time.monotonic()))
            if not piece:
                return data
            data += piece
