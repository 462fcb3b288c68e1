# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Clients that keep the rules of the exchange and then break those of the queue pairs."""
import itertools
import random
import signal
import socket
import subprocess
import threading
import time

import pytest

import kvt_wire as wire
from kvt_client import CallFailed, Client
from kvt_process import FULL, SANITIZED, Process, program, scaled, wait_until
from kvt_server import Server, ServerFailed

MIB = 1 << 20
EINVAL, ENOENT, EBADMSG, EMSGSIZE, ESTALE, EREMOTEIO, EOPNOTSUPP, EPROTO, ETIMEDOUT, EUSERS = (
    -22, -2, -74, -90, -116, -121, -95, -71, -110, -87)
WC_OK, WC_ACCESS = 0, 10
MAGIC = 0x51524B47
PING, GET, PUT, DEL, STATS = range(1, 6)
INLINE, RETRY = 1, 2
number = itertools.count(1)


class Rogue(Client):
    """kv-rogue-client: the words after a handle's number are fields of the request."""

    def __init__(self, folder, server, client_id=0):
        Process.__init__(self, [program("kv-rogue-client"), server.address,
                                server.ready["device"], str(client_id)],
                         folder / f"kv-rogue-client.{next(number)}.stderr",
                         stdin=subprocess.PIPE)
        self.answer(15)

    def answer(self, seconds=20):
        got = super().answer(seconds)
        return {k: int(v) for k, v in got.items()}

    def send(self, handle=0, **fields):
        return self.ask("send", handle, *(f"{k}={v}" for k, v in fields.items()))

    def reply(self, handle=0, ms=5000):
        return self.ask("reply", handle, ms)

    def call(self, handle=0, **fields):
        self.send(handle, **fields)
        return self.reply(handle)

    def put(self, key, size, handle=0, **fields):
        flags = fields.pop("flags", 0) | (INLINE if size <= 1000 else 0)
        return self.call(handle, op=PUT, key=key, value_len=size, flags=flags, **fields)["status"]

    def ended(self, ms=5000):
        """The server ends the session; what it said."""
        with pytest.raises(CallFailed) as end:
            self.ask("line", ms)
        return end.value.text


class Bystander:
    """A good client that writes and reads all the time; no call of it may fail."""

    def __init__(self, client):
        self.client = client
        self.stop = threading.Event()
        self.failure = None
        self.rounds = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop.is_set():
                self.client.ask("fill", "bystander", 0, 10, 100)
                got = self.client.ask("check", "bystander", 0, 10, 100)
                assert got["found"] == "10", got
                self.rounds += 1
        except Exception as failure:  # judged in __exit__
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the bystander hangs"
        if self.failure:
            raise self.failure
        assert self.rounds > 0
        assert self.client.stats()["reconnects"] == 0, "its queue pair broke"


@pytest.fixture
def rogue(world):
    """Makes rogues, and ends them before the others."""
    def make(server, handles=((0, 16, 32),), client_id=0):
        it = Rogue(world.folder, server, client_id)
        world.clients.append(it)
        for handle in handles:
            it.ask("open", *handle)
        return it
    return make


@pytest.fixture
def clean(world):
    """A server, and at the end: alive, sessions and queue pairs gone, nothing deferred."""
    server = world.server(memory="256M")
    yield server
    for client in world.clients:
        client.close()
    settled(world.cli(server))


def settled(cli):
    def gone():
        s = cli.stats()
        return s["sessions"] == 1 and s["queue_pairs"] == 1 and s["handshakes_pending"] == 0
    wait_until("sessions and queue pairs are gone", gone, 10, step=0.1)
    wait_until("nothing is deferred", lambda: cli.stats()["blocks_deferred"] == 0, 10, step=0.1)
    cli.put("after all", b"it serves")
    assert cli.get("after all") == b"it serves"


def used_blocks(cli):
    return sum(v for k, v in cli.stats().items() if k.startswith("class_") and k.endswith("_used"))


# Requests that lie: answered, and the session goes on


@pytest.mark.parametrize("status, fields", [
    (EOPNOTSUPP, {"op": 0}), (EOPNOTSUPP, {"op": 6}), (EOPNOTSUPP, {"op": 255}),
    (EINVAL, {"flags": 4}), (EINVAL, {"flags": 128}), (EINVAL, {"reserved[0]": 1}),
    (EINVAL, {"op": GET}), (EINVAL, {"op": GET, "key": 1, "key_len": 9}),
    (EINVAL, {"op": GET, "key": 1, "key_len": 0xffffffff}),
    (EINVAL, {"op": GET, "key": 1, "key_len": 1025, "len": 96 + 1025}),
    (EINVAL, {"op": GET, "key": 1, "len": 103}), (EINVAL, {"op": GET, "key": 1, "value_len": 5}),
    (EINVAL, {"op": PING, "len": 97}), (EINVAL, {"op": PING, "key": 1}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "value_len": 10, "len": 96 + 8 + 9}),
    (EINVAL, {"op": PUT, "key": 1, "flags": INLINE, "value_len": 8193, "len": 9000}),
    (EINVAL, {"op": PUT, "key": 1, "value_len": 0}),
    (EINVAL, {"op": PUT, "key": 1, "value_len": 16 * MIB + 1}),
    (EINVAL, {"op": PUT, "key": 1, "value_len": 20000, "staging_len": 19999}),
    (EINVAL, {"sequence": 0}), (ESTALE, {"generation": 0}), (ESTALE, {"generation": 1 << 63}),
    (ESTALE, {"client_id[0]": 1}), (ESTALE, {"op": DEL, "key": 1, "client_id[0]": 1}),
    (ENOENT, {"op": GET, "key": 1}), (ENOENT, {"op": DEL, "key": 1}),
    (EMSGSIZE, {"op": STATS, "staging_len": 0}), (EMSGSIZE, {"op": STATS, "staging_len": 10}),
    (EBADMSG, {"op": PUT, "key": 1, "value_len": 20000, "value_hash": 5}),
])
def test_request_that_lies_is_answered(world, clean, rogue, status, fields):
    it = rogue(clean)
    assert it.call(**fields)["status"] == status
    assert it.call(op=PING)["status"] == 0
    assert used_blocks(world.cli(clean)) == 0, "a block was lost"


@pytest.mark.parametrize("words, fields", [
    ("no request", {"len": 0}), ("no request", {"len": 1}), ("no request", {"len": 95}),
    ("no request", {"magic": 1}),
    ("credits", {"slot": 16}), ("credits", {"slot": 63}), ("range", {"slot": 64}),
    ("range", {"slot": 65535}),
])
def test_frame_that_is_none_ends_the_session_with_a_word(world, clean, rogue, words, fields):
    good = world.client(clean)
    with Bystander(good):
        it = rogue(clean)
        it.send(**fields)
        said = it.ended()
    assert words in said, said
    assert world.cli(clean).stats()["protocol_errors"] == 1


@pytest.mark.parametrize("length", [9313, 60000])
def test_frame_beyond_the_receive_buffer_breaks_its_queue_pair_only(world, clean, rogue, length):
    good = world.client(clean)
    with Bystander(good):
        it = rogue(clean, [(0, 16, 32), (1, 4, 8)])
        it.send(len=length)
        wait_until("the queue pair is lost",
                   lambda: world.cli(clean).stats()["queue_pairs_lost"] == 1, 5)
        assert it.call(1, op=PING)["status"] == 0, "the session's other queue pair goes on"


def test_sequences(world, clean, rogue):
    it = rogue(clean)
    assert it.put(1, 100, sequence=1000, fill=1) == 0
    first = it.call(op=PUT, key=1, value_len=100, flags=INLINE, sequence=1001, fill=2)
    again = it.call(op=PUT, key=1, value_len=100, flags=INLINE | RETRY, sequence=1001, fill=2)
    assert again == first, "the repeat of a request gets its reply"
    assert it.put(1, 100, sequence=1001, fill=4) == 0, "the same, without the flag"
    assert it.put(1, 100, sequence=999, fill=5) == ESTALE
    assert it.put(1, 100, sequence=999, flags=RETRY, fill=5) == EREMOTEIO
    assert it.put(1, 30000, sequence=998, fill=5) == ESTALE
    assert it.put(1, 30000, sequence=998, flags=RETRY, fill=5) == EREMOTEIO
    assert it.put(1, 100, sequence=1 << 64 - 1, slot=1, fill=6) == 0
    assert it.call(op=GET, key=1)["value_len"] == 100
    assert it.call(op=GET, key=1)["version"] > first["version"]
    it.close()
    wait_until("one block is left", lambda: used_blocks(world.cli(clean)) == 1, 5)


@pytest.mark.parametrize("pairs, credits", [(8, 32), (4, 64), (7, 32)])
def test_who_keeps_to_the_credits_never_meets_rnr(world, clean, pairs, credits):
    """Credits that fill whole chunks of receives: none may be missing, ever."""
    if (pairs, credits) != (7, 32):
        assert pairs * credits % 256 == 0
    done = subprocess.run([program("kv-credits-client"), clean.address, clean.ready["device"],
                           str(pairs), str(credits), "3"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 1000


# Staging memory that is not there


@pytest.mark.parametrize("fields", [
    {"staging_rkey": 0}, {"staging_rkey": 0xffffffff}, {"rkey": 3}, {"staging_addr": 4096},
    {"staging_addr": (1 << 64) - 1},
])
@pytest.mark.parametrize("op", [PUT, GET])
def test_bad_staging_memory_breaks_that_queue_pair_only(world, clean, rogue, op, fields):
    good = world.client(clean)
    good.put(bytes([1]) + bytes(7), bytes(30000))
    before = used_blocks(world.cli(clean))
    with Bystander(good):
        it = rogue(clean, [(0, 16, 32), (1, 4, 8)])
        size = {"value_len": 30000, "key": 2} if op == PUT else {"key": 1}
        it.send(op=op, **size, **fields)
        wait_until("the queue pair is lost",
                   lambda: world.cli(clean).stats()["queue_pairs_lost"] == 1, 5)
        assert it.call(1, op=PING)["status"] == 0, "the session's other queue pair goes on"
        it.close()
    good.ask("drop", "bystander", 0, 10)
    good.quit()
    wait_until("the block is back", lambda: used_blocks(world.cli(clean)) == before, 5)


def test_staging_memory_that_may_not_be_written(world, clean, rogue):
    it = rogue(clean)
    assert it.put(1, 30000, rkey=2, fill=9) == 0, "reading it is enough for a PUT"
    for lost, request in enumerate([{"op": GET, "key": 1}, {"op": STATS}]):
        it = rogue(clean)
        it.send(rkey=2, **request)
        wait_until("the queue pair is lost",
                   lambda: world.cli(clean).stats()["queue_pairs_lost"] == lost + 1, 5)


def test_staging_memory_that_is_too_small(world, clean, rogue):
    it = rogue(clean)
    assert it.put(1, 30000, fill=9) == 0
    got = it.call(op=GET, key=1, staging_len=29999, fill=5)
    assert (got["status"], got["value_len"]) == (EMSGSIZE, 30000)
    got = it.call(op=GET, key=1, staging_len=30000)
    assert (got["status"], got["first"]) == (0, 9)


def test_two_puts_at_once_in_one_slot(world, clean, rogue):
    it = rogue(clean)
    it.send(op=PUT, key=1, value_len=16 * MIB, count=4)
    assert "slot" in it.ended()
    it.close()
    settled(world.cli(clean))
    assert used_blocks(world.cli(clean)) <= 2


# More than the credits, replies that nobody takes


@pytest.mark.parametrize("step, handles", [(0, 1), (1, 1), (0, 8), (1, 8)])
def test_flood_does_not_starve_others(world, clean, rogue, step, handles):
    good, count = [world.client(clean) for _ in range(3)], scaled(2000)
    with Bystander(good[0]), Bystander(good[1]), Bystander(good[2]):
        for flood in range(40):
            it = rogue(clean, [(handle, 64, count) for handle in range(handles)])
            for _ in range(5):
                for handle in range(handles):
                    it.send(handle, op=PING, count=count, step=step)
            it.close()
            # a worker that keeps up with all of one has nothing to complain of
            if flood >= scaled(4) and world.cli(clean).stats()["protocol_errors"] > 0:
                break
    assert world.cli(clean).stats()["protocol_errors"] > 0, "a flood was seen"


def test_replies_that_nobody_takes_do_not_stall_others(world, clean, rogue):
    good = world.client(clean)
    with Bystander(good):
        mute = [rogue(clean, [(0, 64, 0)]) for _ in range(4)]
        for it in mute:
            it.send(op=PING, count=50, step=1)
        started = time.monotonic()
        time.sleep(0.5)
        for it in mute:
            it.close()
    assert time.monotonic() - started < 15


def test_no_receives_and_large_gets(world, clean, rogue):
    good = world.client(clean)
    good.put(bytes([1]) + bytes(7), bytes(100000))
    with Bystander(good):
        mute = [rogue(clean, [(0, 64, 0)]) for _ in range(4)]
        for it in mute:
            it.send(op=GET, key=1, count=64, step=1)
            it.send(op=STATS, count=2, step=1)
        time.sleep(0.5)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_client_that_dies_or_stops_while_it_is_read_from(world, clean, rogue, how):
    good = world.client(clean)
    with Bystander(good):
        for _ in range(2):  # what they replace is kept for the bystander: 8 values must fit
            it = rogue(clean, [(0, 16, 32)])
            it.start("send", 0, f"op={PUT}", "key=3", f"value_len={16 * MIB}", "count=4",
                     "step=1")
            time.sleep(0.15)
            it.signal(how)
            if how == signal.SIGSTOP:
                time.sleep(0.2)
            it.kill()
    good.quit()
    wait_until("one value at most is left",
               lambda: world.cli(clean).stats()["memory_large_record_bytes"] < 34 * MIB, 10)


# Memory of the server


def test_epoch_slot_belongs_to_its_session_by_its_key(world, clean, rogue):
    """Keys of two slots differ, and one does not open the other's memory."""
    one, two = rogue(clean), rogue(clean)
    a, b = one.ask("where"), two.ask("where")
    assert a["slot_rkey"] != b["slot_rkey"]
    assert two.ask("rdma", 0, "write", a["slot"], b["slot_rkey"], 8)["wc"] == WC_ACCESS


@pytest.mark.parametrize("access, what, offset, length", [
    ("write", "root", 0, 8), ("write", "root", 192, 8), ("write", "table", 0, 32),
    ("write", 0, 0, 8), ("write", 1, 0, 8), ("write", 2, 64, 4096),
    ("read", "root", 4090, 8), ("read", "root", -8, 8), ("read", "table", 131072, 8),
    ("read", 0, 1 << 40, 8), ("read", 2, 4 * MIB - 8, 16), ("read", "slot", 0, 64),
    ("write", "slot", 60, 8), ("write", "slot", 4096, 8), ("write", "slot", 1 << 20, 8),
])
def test_memory_that_is_not_the_clients(world, clean, rogue, access, what, offset, length):
    good = world.client(clean)
    with Bystander(good):
        it = rogue(clean)
        inside = what == "slot" and offset == 60  # of its own slot's page
        wc = it.ask(access, 0, what, offset, length)["wc"]
        assert wc == (WC_OK if inside else WC_ACCESS), wc
    assert good.ask("check", "bystander", 0, 10, 100)["found"] == "10"


def test_epoch_slot_of_a_session_that_has_gone(world, clean, rogue):
    gone = rogue(clean)
    where = gone.ask("where")
    gone.close()
    settled(world.cli(clean))
    it = rogue(clean)
    got = it.ask("rdma", 0, "write", where["slot"], where["slot_rkey"], 8)["wc"]
    assert got == WC_ACCESS


# The exchange


def test_queue_pairs_that_there_cannot_be(world, clean, rogue):
    it = rogue(clean, [])
    for words in [("open", 64, 1, 1), ("open", 0xffffffff, 1, 1), ("ready", 5), ("ready", 64),
                  ("ready", 0xffffffff)]:
        with pytest.raises(CallFailed) as refusal:
            it.ask(*words)
        assert refusal.value.code == EPROTO and len(refusal.value.text) > 20
    for credits, granted in [(0, 64), (65, 64), (0xffffffff, 64), (3, 3)]:
        assert it.ask("open", 0, credits, 4)["credits"] == granted
        assert it.call(op=PING)["status"] == 0, "the same handle opened again"
    assert world.cli(clean).stats()["queue_pairs"] == 2
    with pytest.raises(CallFailed) as refusal:
        it.ask("hello")
    assert refusal.value.code == EPROTO


def test_queue_pairs_until_there_are_no_more(world, clean, rogue):
    good = world.client(clean)
    greedy = []
    with Bystander(good):
        with pytest.raises(CallFailed) as refusal:
            for _ in range(70):
                greedy.append(rogue(clean, []))
                for handle in range(64):
                    greedy[-1].ask("open", handle, 64, 1)
        assert refusal.value.code in (EUSERS, -12, -24), refusal.value
        assert len(refusal.value.text) > 40, refusal.value.text
        for it in greedy:
            it.close()
    good.quit()
    settled(world.cli(clean))


def test_one_greedy_session_leaves_room_for_others(world, clean, rogue):
    it = rogue(clean, [(i, 64, 1) for i in range(64)])
    for client in [world.client(clean) for _ in range(5)]:
        client.put(b"key", b"value")
    it.close()


def test_session_that_is_refused_again_and_again_is_ended(world, clean, rogue):
    it = rogue(clean, [])
    with pytest.raises(CallFailed) as refusal:
        for _ in range(1000):
            with pytest.raises(CallFailed) as refusal:
                it.ask("ready", 5)
            if refusal.value.code != EPROTO:
                raise refusal.value
    assert refusal.value.code in (-104, -32)
    assert clean.stderr().count("refused") < 100


def test_frames_without_end_do_not_stop_others(world, clean, kv_layout):
    """One connection that always has one more frame to read."""
    with wire.Raw(clean) as raw:
        raw.send(wire.frame(wire.HELLO, wire.hello(kv_layout)))
        assert raw.receive_frame().type == wire.WELCOME
        stop = threading.Event()
        many = wire.frame(wire.QP_READY, bytes(8)) * 500

        def flood():
            while not stop.is_set() and raw.send(many):
                pass

        def swallow():
            while not stop.is_set():
                try:
                    if not raw.sock.recv(1 << 16):
                        return
                except OSError:
                    return
        raw.sock.settimeout(1)
        threads = [threading.Thread(target=f) for f in (flood, swallow)]
        for t in threads:
            t.start()
        try:
            for _ in range(5):
                assert world.cli(clean)("ping", seconds=10).rc == 0
        finally:
            stop.set()
            for t in threads:
                t.join(10)


@pytest.mark.limit(90)
def test_1500_connections(world, clean):
    good = world.client(clean)
    with Bystander(good):
        socks = []
        for _ in range(scaled(1500)):
            socks.append(socket.create_connection((clean.ready["host"], clean.port), 5))
        assert world.cli(clean)("ping").rc in (0, 3), "served, or refused in words"
        for s in socks:
            s.close()


def test_no_descriptors_left(world):
    """The server cannot accept: it says so now and then, sleeps, and recovers."""
    server = world.server(memory="32M")
    good = world.client(server)
    limit = server.limit_descriptors(server.descriptors() + 20)
    socks = [socket.create_connection((server.ready["host"], server.port), 5) for _ in range(40)]
    time.sleep(0.3)
    before = server.cpu_seconds()
    time.sleep(1)
    assert server.cpu_seconds() - before < 0.3, "it spins"
    good.put(b"key", b"value")
    for s in socks:
        s.close()
    wait_until("connections again", lambda: world.cli(server)("ping").rc == 0, 10, step=0.2)
    assert server.stderr().count("accept failed") < 50
    server.limit_descriptors(limit)


def test_same_client_id_from_two_processes(world, clean, rogue):
    for turn in range(scaled(10)):
        first = rogue(clean, client_id=77)
        first.start("send", 0, f"op={PUT}", "key=1", f"value_len={4 * MIB}", "count=8", "step=1",
                    f"sequence={turn * 1000 + 1}")
        second = rogue(clean, client_id=77)
        first.answer()
        first.ended()
        assert second.put(1, 100, sequence=turn * 1000 + 500, fill=3) == 0
        first.close()
        got = second.call(op=GET, key=1)
        assert got["value_len"] == 100, "nothing of the fenced session came after"
        second.close()


# Churn and memory


@pytest.mark.limit(120)
def test_churn_under_a_session_that_stays(world, clean):
    cli, keeper = world.cli(clean), world.client(clean)
    turns = 500 if FULL else 25 if SANITIZED else scaled(100)
    for _ in range(turns):
        client = Client(world.folder, clean.address)
        client.ask("fill", "churn", 0, 10, 1000)
        client.quit()
        client.close()
    s = cli.stats()
    assert s["blocks_deferred"] == (turns - 1) * 10, "the session that stays holds all back"
    assert s["blocks_retired"] - s["blocks_freed"] == s["blocks_deferred"]
    assert used_blocks(cli) == turns * 10
    assert keeper.ask("check", "churn", 0, 10, 1000)["found"] == "10"
    keeper.quit()
    wait_until("all is back", lambda: cli.stats()["blocks_deferred"] == 0, 5)
    assert used_blocks(cli) == 10


@pytest.mark.limit(120)
def test_large_values_from_8_clients_in_a_small_store(world):
    server = world.server(memory="64M")
    clients = [world.client(server, 20000) for _ in range(8)]
    for i, client in enumerate(clients):
        client.start("fill", f"large{i}-", 0, 2, 16 * MIB - 100)
    done = []
    for client in clients:
        try:
            done.append(int(client.answer(60)["done"]))
        except CallFailed as failure:
            assert failure.code == -12, failure
            done.append(int(failure.text.split()[0].split("=")[1]))
    assert 1 <= sum(done) <= 4, done
    for i, count in enumerate(done):
        got = clients[i].ask("check", f"large{i}-", 0, 2, 16 * MIB - 100, seconds=60)
        assert (int(got["found"]), int(got["wrong"])) == (count, 0), (i, count, got)
        clients[i].ask("drop", f"large{i}-", 0, 2)
    for client in clients:
        client.quit()
    settled(world.cli(server))


# The operator


@pytest.mark.no_device
@pytest.mark.parametrize("content", [
    b"\0\1\2\3" * 1000, random.Random(7).randbytes(5000), b"listen = " + b"x" * MIB, b"x" * MIB,
    b"nonsense = 1\n",
    b"memory = -1\n", b"memory = 1X\n", b"workers = 9999999999999999999999\n", b"= 5\n",
    b"[kv-server\n", b"listen = 127.0.0.1:99999\n", b"listen\n",
    b"# " + b"x" * 300 + b"\nmemory = 32M\nmemory = 64M\n", b"workers = 1\n  worker = 2\n",
    b"log-level = " + b"\xff\xfe" * 20 + b"\n", b"[kv-server]\nmemory = 32M\nmemroy = 32M\n",
], ids=lambda content: content[:12].hex())
def test_config_file_of_garbage(world, tmp_path, content):
    path = tmp_path / "conf"
    path.write_bytes(content)
    with pytest.raises(ServerFailed) as failed:
        Server(world.folder, "--config", str(path), listen=None, memory=None)
    words = failed.value.stderr
    assert failed.value.rc in (2, 3), words
    assert words.startswith("kv-server: ") and words.count("\n") == 1 and len(words) < 700, words


def test_config_file_with_a_long_comment_and_indented_lines(world, tmp_path):
    path = tmp_path / "conf"
    path.write_bytes(b"\xef\xbb\xbf\n# " + b"x" * 198 + b" memory = 1X\r\n\n[other]\nx = y\n"
                     b"[kv-server]\n  workers = 1 ; one\n\tmemory=48M")
    server = world.server("--config", str(path), memory=None)
    assert int(server.ready["memory"]) == 48 * MIB


@pytest.mark.no_device
def test_config_file_that_is_none(world, tmp_path):
    for path in [tmp_path, tmp_path / "missing", "/proc/self/mem", ""]:
        with pytest.raises(ServerFailed) as failed:
            Server(world.folder, "--config", str(path), memory="32M")
        assert failed.value.rc == 2 and str(path) in failed.value.stderr, failed.value.stderr


@pytest.mark.no_device
@pytest.mark.parametrize("name, value", [
    ("LISTEN", " "), ("LISTEN", "no port"), ("LISTEN", "a" * 5000), ("MEMORY", " "),
    ("MEMORY", "\x01\x02"), ("MEMORY", "99999999999G"), ("WORKERS", "-1"), ("WORKERS", "1e3"),
    ("LEASE", "0"), ("MTU", "1000"), ("DEVICE", "d" * 500), ("LOG_FORMAT", "xml"),
    ("CONFIG", "/nowhere"), ("INDEX_SLOTS", "4294967295"),
])
def test_environment_of_garbage(world, name, value):
    with pytest.raises(ServerFailed) as failed:
        Server(world.folder, env={f"GRACEKV_{name}": value}, listen=None, memory=None,
               device=None)
    words = failed.value.stderr
    assert failed.value.rc in (2, 3), words
    assert "kv-server: " in words and len(words) < 7000, words


@pytest.mark.limit(90)
def test_sigterm_under_load_ends_in_time(world, rogue):
    server = world.server(memory="512M")
    clients = [world.client(server, 1000) for _ in range(8)]
    rogues = [rogue(server, [(i, 64, 0 if r % 2 else 128) for i in range(8)]) for r in range(4)]
    for i, client in enumerate(clients):
        client.start("stream", f"load{i}-", 0, 1000000, 20000 if i % 2 else 100)
    for r in rogues:
        for handle in range(8):
            r.start("send", handle, f"op={PUT}", "key=1", f"value_len={MIB}", "count=60", "step=1")
    time.sleep(1)
    server.stop(signal.SIGTERM)
    for client in clients + rogues:
        client.kill()


def test_restart_on_the_port_right_after_kill_9(world):
    server = world.server()
    client = world.client(server, 10000)
    for _ in range(3):
        client.put(b"key", b"value")
        client.start("fill", "x", 0, 200, 9000)
        time.sleep(0.05)
        server.crash()
        server = world.server(listen=server.address)
        try:
            client.answer()
        except CallFailed as failed:  # the one that was on its way: an honest answer
            assert failed.code == EREMOTEIO, failed
        assert client.get(b"key") is None, "a new life of the store"
