# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Strangers on the TCP port: whatever they send, the server refuses in words and goes on."""
import os
import random
import signal
import socket
import time

import pytest

import kvt_wire as wire
from kvt_client import layout
from kvt_process import FULL, HOST, scaled, wait_until

EPROTO, EPROTONOSUPPORT, ETIMEDOUT = -71, -93, -110


@pytest.fixture(autouse=True)
def still_serves(shared, cli):
    """After each test a good client is served, and nothing of the bad one is left."""
    yield
    assert shared.running(), shared.stderr()
    cli.put("still", b"serves")
    assert cli.get("still") == b"serves"
    wait_until("strangers and their sessions gone", lambda: quiet(cli.stats()), 8, step=0.1)


def quiet(stats):
    """Nobody is there but the client that asks."""
    return stats["sessions"] == 1 and stats["queue_pairs"] == 2 and stats["handshakes_pending"] == 0


def refused(server, data, code, *words):
    """The server answers data with REFUSE and closes."""
    with wire.Raw(server) as raw:
        raw.send(data)
        frame = raw.receive_frame(3)
        assert frame is not None, "closed without a word"
        assert frame.type == wire.REFUSE
        got, text = wire.refusal(frame.payload)
        assert got == code, text
        assert len(text) > 20
        for word in words:
            assert str(word) in text, text
        assert raw.closed(3) == b""
        return text


V, LAYOUT = wire.VERSION, layout()
REFUSED = {  # what is sent, the code, and what is said: both sides' values
    "magic": (wire.frame(wire.HELLO, bytes(128), magic=0x12345678), EPROTO,
              ["12345678", f"{wire.MAGIC:08x}"]),
    "a web browser": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", EPROTO, ["GraceKV"]),
    **{f"version {v}": (wire.frame(wire.HELLO, wire.hello(LAYOUT), version=v), EPROTONOSUPPORT,
                        [v, V]) for v in (0, V - 1, V + 1, 65535)},
    "layout version": (wire.frame(wire.HELLO, wire.hello(LAYOUT, layout_version=4242)),
                       EPROTONOSUPPORT, [4242, LAYOUT[0]]),
    "layout hash": (wire.frame(wire.HELLO, wire.hello(LAYOUT, layout_hash=0xfeedfacecafe)),
                    EPROTONOSUPPORT, ["feedfacecafe", f"{LAYOUT[1]:016x}"]),
    "a name without end": (wire.frame(wire.HELLO, wire.hello(LAYOUT, name=b"x" * 64)), EPROTO, []),
    "client id 0": (wire.frame(wire.HELLO, wire.hello(LAYOUT, client_id=bytes(16))), EPROTO, []),
    **{f"type {kind}": (wire.frame(kind), EPROTO, [kind]) for kind in (0, 9, 255, 65535)},
    **{f"type {kind}, not due": (wire.frame(kind, bytes(body)), EPROTO, []) for kind, body in
       ((wire.WELCOME, 192), (wire.QP_OPEN, 64), (wire.QP_READY, 8), (wire.QP_OPENED, 64),
        (wire.QP_LIVE, 8))},
}


@pytest.mark.no_device
@pytest.mark.parametrize("data, code, words", REFUSED.values(), ids=REFUSED.keys())
def test_refused_in_words(shared, data, code, words):
    refused(shared, data, code, *words)


@pytest.mark.no_device
@pytest.mark.parametrize("length", [0, 1, 127, 129, 1024, 1025, 65536, 0x7fffffff, 0xffffffff])
def test_lengths_that_lie(shared, kv_layout, length):
    body = wire.hello(kv_layout)
    data = wire.frame(wire.HELLO, body, length=length)
    data += bytes(max(0, min(length, wire.PAYLOAD_MAX) - len(body)))
    refused(shared, data, EPROTO, length)


@pytest.mark.no_device
@pytest.mark.parametrize("kind", [0, 9, 255, 65535])
def test_unknown_type(shared, kind):
    refused(shared, wire.frame(kind), EPROTO, kind)


@pytest.mark.no_device
@pytest.mark.parametrize("kind,body", [(wire.WELCOME, 192), (wire.QP_OPEN, 64), (wire.QP_READY, 8),
                                       (wire.QP_OPENED, 64), (wire.QP_LIVE, 8)])
def test_frames_that_are_not_due(shared, kind, body):
    refused(shared, wire.frame(kind, bytes(body)), EPROTO)


@pytest.mark.no_device
def test_name_that_does_not_end(shared, kv_layout):
    refused(shared, wire.frame(wire.HELLO, wire.hello(kv_layout, name=b"x" * 64)), EPROTO)


@pytest.mark.no_device
def test_client_id_zero(shared, kv_layout):
    refused(shared, wire.frame(wire.HELLO, wire.hello(kv_layout, client_id=bytes(16))), EPROTO)


@pytest.mark.no_device
def test_a_name_cannot_forge_a_line_of_the_log(shared, kv_layout):
    with wire.Raw(shared) as raw:
        raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout, name=b"a\nforged \x1b[31mline")))
        assert raw.receive_frame().type == wire.WELCOME
    time.sleep(0.2)
    assert "\nforged" not in shared.stderr()
    assert "\x1b" not in shared.stderr()


@pytest.mark.no_device
def test_half_a_handshake_is_closed_in_time(shared, kv_layout):
    data = wire.frame(wire.HELLO, wire.hello(kv_layout))
    raws = [(sent, wire.Raw(shared)) for sent in (0, 1, 4, 15, 16, 17, 100, 143)]
    started = time.monotonic()
    for sent, raw in raws:
        raw.send(data[:sent])
    for sent, raw in raws:
        with raw:
            frame = raw.receive_frame(8)
            if frame:
                assert frame.type == wire.REFUSE
                assert wire.refusal(frame.payload)[0] == ETIMEDOUT
                raw.closed(2)
            assert 4 <= time.monotonic() - started <= 7, f"after {sent} bytes: 5 s is due"


@pytest.mark.no_device
def test_half_a_handshake_then_gone(shared, kv_layout):
    data = wire.frame(wire.HELLO, wire.hello(kv_layout))
    for cut in range(0, len(data), 7):
        with wire.Raw(shared) as raw:
            raw.send(data[:cut])


def test_handshake_byte_by_byte(shared, kv_layout):
    with wire.Raw(shared) as raw:
        for byte in wire.frame(wire.HELLO, wire.hello(kv_layout)):
            raw.send(bytes([byte]))
        welcome = raw.receive_frame()
        assert welcome.type == wire.WELCOME
        fields = wire.WELCOME_BODY.unpack(welcome.payload)
        assert fields[15] == shared.pid
        assert fields[10:12] == (1024, 16 << 20), "key_max, value_max"
        raw.send(wire.frame(wire.BYE))
        assert raw.receive_frame(3) is None


@pytest.mark.no_device
def test_a_server_that_is_late_does_not_blame_its_clients(shared, kv_layout, cli):
    """It runs again after their time is over, and reads what has come before it looks at clocks."""
    with wire.Raw(shared) as good, wire.Raw(shared) as silent:
        wait_until("both are accepted", lambda: cli.stats()["handshakes_pending"] == 2, 8)
        shared.stop_threads()
        time.sleep(0.2)  # its timer is over before the HELLO comes
        good.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
        time.sleep(5.2)
        shared.signal(signal.SIGCONT)
        assert good.receive_frame().type == wire.WELCOME
        assert "no HELLO" in wire.refusal(silent.receive_frame().payload)[1]


@pytest.mark.no_device
def test_second_hello_is_refused(shared, kv_layout):
    hello = wire.frame(wire.HELLO, wire.hello(kv_layout))
    with wire.Raw(shared) as raw:
        raw.send(hello + hello)
        assert raw.receive_frame().type == wire.WELCOME
        assert raw.receive_frame().type == wire.REFUSE
        raw.closed(3)


def qp_open(handle=0, **changes):
    fields = {"gid": bytes(10) + b"\xff\xff" + socket.inet_aton("127.0.0.1"), "qpn": 0x123456,
              "psn": 1, "lid": 0, "link_layer": 2, "mtu": 5, "rd_initiator": 16,
              "rd_responder": 16, "ib_port": 1, "has_gid": 1, "handle": handle, "credits": 16,
              "gid_type": 2, "reserved": bytes(23)}
    fields.update(changes)
    return wire.frame(wire.QP_OPEN, wire.QP_BODY.pack(*fields.values()))


@pytest.mark.parametrize("changes", [
    {"handle": 64}, {"handle": 0xffffffff}, {"mtu": 0}, {"mtu": 77}, {"mtu": 255},
    {"qpn": 0xffffffff}, {"psn": 0xffffffff}, {"credits": 0}, {"credits": 0xffffffff},
    {"rd_initiator": 255, "rd_responder": 255}, {"rd_initiator": 0, "rd_responder": 0},
    {"ib_port": 255}, {"link_layer": 9}, {"gid": b"\xff" * 16}, {"has_gid": 0}, {"gid_type": 0},
    {"gid_type": 1}, {"gid_type": 255},
], ids=str)
def test_queue_pair_with_nonsense(shared, kv_layout, changes):
    """Accepted or refused, but never a crash, and it goes away with the connection."""
    with wire.Raw(shared) as raw:
        raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
        assert raw.receive_frame().type == wire.WELCOME
        raw.send(qp_open(**changes))
        frame = raw.receive_frame(3)
        assert frame is not None and frame.type in (wire.REFUSE, wire.QP_OPENED)
        if frame.type == wire.REFUSE:
            assert len(wire.refusal(frame.payload)[1]) > 20
        raw.send(wire.frame(wire.QP_READY, wire.HANDLE_BODY.pack(0xffffffff, 0)))
        frame = raw.receive_frame(3)
        assert frame is None or frame.type == wire.REFUSE


def test_64_queue_pairs_that_are_never_used(shared, kv_layout, cli):
    with wire.Raw(shared) as raw:
        raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
        assert raw.receive_frame().type == wire.WELCOME
        for handle in range(64):
            raw.send(qp_open(handle))
            assert raw.receive_frame().type in (wire.QP_OPENED, wire.REFUSE)
        assert cli("put", "beside", "them").rc == 0, "others still get a queue pair"


def test_same_client_id_twice_fences_the_first(shared, kv_layout):
    hello = wire.frame(wire.HELLO, wire.hello(kv_layout, client_id=b"the same client!"))
    with wire.Raw(shared) as first, wire.Raw(shared) as second:
        first.send(hello)
        assert first.receive_frame().type == wire.WELCOME
        second.send(hello)
        frame = second.receive_frame()
        assert frame.type == wire.WELCOME
        assert wire.WELCOME_BODY.unpack(frame.payload)[14] == 1, "resumed"
        first.closed(3)


def test_who_sends_and_never_reads_does_not_stop_others(shared, kv_layout, cli):
    with wire.Raw(shared) as raw:
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
        raw.sock.settimeout(0.5)
        deadline = time.monotonic() + 3
        try:
            while time.monotonic() < deadline:
                raw.sock.sendall(wire.frame(wire.QP_READY, wire.HANDLE_BODY.pack(5, 0)) * 100)
        except OSError:
            pass
        started = time.monotonic()
        cli.put("others", b"go on")
        assert time.monotonic() - started < 2


@pytest.mark.no_device
def test_300_idle_connections_do_not_stop_a_good_client(shared, cli):
    idle = [socket.create_connection((HOST, shared.port), 5) for _ in range(300)]
    try:
        started = time.monotonic()
        for i in range(3):
            cli.put("beside", b"%d" % i)
            assert cli.get("beside") == b"%d" % i
        assert time.monotonic() - started < 3
        for s in idle:
            s.settimeout(8)
            while s.recv(4096):
                pass
        assert 4 <= time.monotonic() - started <= 8
    finally:
        for s in idle:
            s.close()


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        where = rng.randrange(len(data))
        data[where] = rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)])
    return bytes(data[:rng.randint(1, len(data))] if rng.random() < 0.2 else data)


@pytest.mark.limit(120)
def test_garbage(shared, kv_layout):
    """Random bytes, and good conversations with a few bytes changed; the seed is printed."""
    seed = int(os.environ.get("GRACEKV_TEST_SEED", "0")) or 0x5eed
    print(f"seed {seed} (GRACEKV_TEST_SEED)")
    rng = random.Random(seed)
    for i in range(5000 if FULL else scaled(500)):
        good = wire.frame(wire.HELLO, wire.hello(kv_layout)) + qp_open(rng.randrange(70)) + \
            wire.frame(wire.QP_READY, wire.HANDLE_BODY.pack(0, 0)) + wire.frame(wire.BYE)
        data = rng.randbytes(rng.randint(1, 3000)) if i % 3 == 0 else mutate(rng, good)
        with wire.Raw(shared) as raw:
            raw.send(data)
            if i % 2:
                raw.sock.settimeout(0.02)
                try:
                    raw.sock.recv(4096)
                except OSError:
                    pass
        assert shared.running(), f"connection {i}: {data.hex()}\n{shared.stderr()[-3000:]}"


@pytest.mark.kernel_device
def test_gids_that_lead_nowhere_do_not_stop_the_server(shared, kv_layout, cli):
    """ibv_modify_qp waits a second for each: not for all of them, one after the other."""
    mapped = bytes(10) + b"\xff\xff"
    waited = 0
    for last in range(12):
        began = time.monotonic()
        with wire.Raw(shared) as raw:
            raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
            assert raw.receive_frame().type == wire.WELCOME
            raw.send(qp_open(gid=mapped + socket.inet_aton(f"203.0.113.{last}")))
            frame = raw.receive_frame(10)
            waited += time.monotonic() - began
            assert frame.type == wire.REFUSE and len(wire.refusal(frame.payload)[1]) > 20
        assert cli("put", "beside", "them").rc == 0
    assert waited < 10, "a second for each would be 12"
