# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli stats --watch: pages on a terminal, and what a pipe gets."""
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import termios
import time

import pytest

from kvt_client import Cli, flat_stats
from kvt_process import DEVICE, SLOW, Process, die_with_parent, environment, wait_until
from kvt_terminal import Terminal, screen

pytestmark = pytest.mark.soft_device  # the device makes no difference

ENTER, LEAVE, TOP = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H"
LEAVING = "\x1b[m\x1b[?7h"  # how the end begins
FAST = ["--interval", "0.1"]


def fresh_modes():
    """Those of a terminal that nobody has touched."""
    master, slave = os.openpty()
    try:
        return termios.tcgetattr(slave)
    finally:
        os.close(master)
        os.close(slave)


class Watch(Terminal):
    """kv-cli stats --watch on a terminal of its own."""

    def __init__(self, address, *words, rows=24, columns=80, options=(), **env):
        super().__init__([*Cli(address).base, *options, "stats", "--watch", *words], env, rows,
                         columns)
        self.rows, self.columns = rows, columns

    def pages(self):
        """What came, cut where a page begins; the last one may not have come as a whole."""
        return self.raw.split(TOP)[1:]

    def page(self, has="", seconds=20):
        """The lines of the first new page that has what a regular expression finds."""
        deadline = time.monotonic() + seconds * SLOW
        at = len(self.pages())
        while True:
            for page in self.pages()[at:-1]:
                at += 1
                if re.search(has, page):
                    return screen(page, self.rows, self.columns)
            self.pump(0.1)
            assert time.monotonic() < deadline, f"no page with {has!r}: {self.raw!r}"

    def stands(self):
        """Is the terminal as it was, and does it show what it showed?"""
        return termios.tcgetattr(self.fd) == fresh_modes() and \
            self.raw.count(ENTER) == self.raw.count(LEAVE) and \
            self.raw.count("\x1b[?25l") == self.raw.count("\x1b[?25h")

    def state(self):
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
            return stat.read().split()[2]


@pytest.fixture
def watch(shared):
    made = []

    def make(*words, address=shared.address, **how):
        made.append(Watch(address, *words, **how))
        return made[-1]
    yield make
    for it in made:
        it.close()


def ends(lines, heading):
    """Where the headings of a line end, and that line's number."""
    at = next(i for i, line in enumerate(lines) if re.search(heading, line))
    return {match.end() for match in re.finditer(r"\S+", lines[at])}, at


def test_pages(watch, world, shared, cli, tmp_path):
    records = tmp_path / "some.tsv"
    records.write_text("".join(f"watched {i}\t{'v' * (i % 900)}\n" for i in range(300)))
    cli.good("load", str(records))
    client = world.client(shared)
    it = watch(*FAST)
    lines = it.page(r"every 0\.1 s; q leaves")
    assert it.raw.startswith(ENTER) and it.modes()
    assert lines[0].startswith(f"kv-server {shared.address} on ")
    assert ("software" in lines[0]) == (DEVICE or "").startswith("soft")
    assert re.match(rf"pid {shared.ready['pid']}   up 0d \d\d:\d\d:\d\d   epoch \d+   version \d+",
                    lines[1])
    assert lines[3].split() == ["per", "second", "memory"]
    for i, row in enumerate([("GET", "PUT", "total"), ("READ", "DEL", "data"),
                             ("READ/GET", "update", "index"), ("retry", "RPC GET", "directory"),
                             ("pulled B", "ping", "blocks"), ("pushed B", "stats", "waiting"),
                             ("expired", "refused", "deferred")]):
        line = lines[4 + i]
        for label, end, name in zip((0, 18, 36), (15, 33, 52), row):
            assert line[label:].startswith(name), line
            assert re.fullmatch(r" *([\d.]+[KkMGTPE]?|-)", line[end - 6:end]), line
        assert re.search(r"\d% \[[#.]+\]$", line) and len(line) == 80, line
    # each figure ends where its heading does
    for heading in ("^ records", "^sessions", "^session "):
        places, at = ends(lines, heading)
        for figure in re.finditer(r"\S+", lines[at + 1]):
            assert figure.end() in places, lines[at:at + 2]
    assert f"{client.pid}" in "\n".join(lines[ends(lines, "^session ")[1]:])
    # it is drawn again, with what is new
    version = int(lines[1].split()[-1])
    cli.put("watched", b"more")
    assert int(it.page(rf"version (?!{version}\b)")[1].split()[-1]) == version + 1
    client.quit()
    it.type("q")
    assert it.wait() == 0
    assert it.stands()


def test_another_size(watch):
    it = watch("--interval", "60")
    it.expect("q leaves")
    for rows, columns in ((50, 120), (5, 30)):
        drawn = len(it.pages())
        it.resize(rows, columns)
        wait_until("it is redrawn", lambda n=drawn: it.pump(0.01) and len(it.pages()) > n, 20)
    it.type("q")
    assert it.wait() == 0
    assert it.stands()
    small, large, tiny = [page.split(LEAVING)[0] for page in it.pages()]
    assert re.search(r"\d% \[[#.]{10}\]", small) and re.search(r"\d% \[[#.]{30}\]", large)
    screen(small, 24, 80)
    assert "" in screen(large, 50, 120)[:-20], "there are empty lines between the parts"
    assert all(screen(tiny, 5, 30)[i] for i in (0, 1, 2, 3, 4))


def test_leaving(watch):
    for key in ("q", "Q", "xyzq", "\x03"):
        it = watch(*FAST)
        it.expect("q leaves")
        it.type(key)
        assert it.wait() == 0
        assert it.stands(), it.raw
        assert it.raw.endswith(LEAVE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_leave_the_terminal_as_it_was(watch, number):
    it = watch(*FAST)
    it.expect("q leaves")
    os.kill(it.pid, number)
    assert it.wait() == -number
    assert it.stands()


def test_stopped_and_continued(watch):
    it = watch(*FAST)
    it.expect("q leaves")
    for stop in ("\x1a", signal.SIGTSTP):  # ^Z
        if isinstance(stop, str):
            it.type(stop)
        else:
            os.kill(it.pid, stop)
        wait_until("it is stopped", lambda: it.pump(0.01) and it.state() == "T", 20)
        while it.pump(0.05) and not it.stands():
            pass
        entered = it.raw.count(ENTER)
        os.kill(it.pid, signal.SIGCONT)
        wait_until("it is back", lambda: it.pump(0.01) and it.raw.count(ENTER) > entered, 20)
        it.page("every")
        assert it.modes()
    it.type("q")
    assert it.wait() == 0
    assert it.stands()


def test_a_terminal_that_takes_nothing(watch):
    """It is full, as after ^S or behind a line that is down: a signal ends it all the same."""
    it = watch(*FAST)
    it.expect("q leaves")
    fd = os.open(f"/proc/{it.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    full = 0
    while full < 5:  # what was written comes through in parts
        try:
            os.write(fd, b"x" * 65536)
            full = 0
        except BlockingIOError:
            full += 1
            time.sleep(0.05)
    os.close(fd)
    time.sleep(0.3)  # pages that do not come out
    os.kill(it.pid, signal.SIGTERM)
    wait_until("it has ended", lambda: it.state() == "Z", 20)
    assert termios.tcgetattr(it.fd) == fresh_modes()
    assert it.wait() == -signal.SIGTERM


def test_a_dumb_terminal_gets_pages(watch):
    it = watch(*FAST, "--count", "2", TERM="dumb")
    assert it.wait() == 0
    assert "\x1b" not in it.raw
    assert it.raw.count("kv-server ") == 2


def test_at_the_prompt(shared, tmp_path):
    p = Terminal(Cli(shared.address).base, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
                 rows=40)
    prompt = re.escape(shared.address) + "> "
    p.expect(prompt)
    for key in ("q", "\x03"):
        p.line("stats --watch --interval 0.1")
        p.expect("q leaves")
        p.type(key)
        p.expect(prompt)
        assert p.raw.count(ENTER) == p.raw.count(LEAVE)
        assert "not found" in p.ask("get never-there", prompt)
    p.line("stats --watch --interval 0.1 -c 2")
    p.expect("q leaves")
    p.expect(prompt)
    p.line("stats --watch")
    p.expect("q leaves")
    os.kill(p.pid, signal.SIGTERM)
    assert p.wait() == -signal.SIGTERM
    assert p.raw.count(ENTER) == p.raw.count(LEAVE)
    p.close()


def test_a_server_that_does_not_answer_does_not_hold_it(watch, world):
    server = world.server(memory="128M")
    it = watch(*FAST, address=server.address, options=["--timeout", "600000"])
    it.expect("q leaves")
    server.stop_threads()
    it.expect(r"reconnecting: no answer for \d+ s")
    it.type("q")
    assert it.wait() == 0
    assert it.stands()
    server.signal(signal.SIGCONT)


def test_a_server_that_is_started_anew(watch, world):
    server = world.server(memory="128M")
    it = watch(*FAST, address=server.address, options=["--timeout", "1000"])
    it.expect("q leaves")
    server.crash()
    it.expect(r"reconnecting")
    assert it.modes() and it.state() != "Z"
    again = world.server(listen=server.address, memory="128M")
    it.expect(rf"pid {again.ready['pid']} ")
    lines = it.page(r"every 0\.1 s; q leaves")
    assert re.match(r"GET +0 +PUT +0 ", lines[4]), "rates are there again"
    it.type("q")
    assert it.wait() == 0
    assert it.stands()


# What a pipe gets


def documents(process, good):
    """Documents until good() says so of all that came."""
    docs = []
    while not docs or not good(docs):
        docs.append(json.loads(process.read_line(20)))
        assert len(docs) < 300, docs[-1]
    return docs


def counted(docs, name):
    """How much grew in the time that rates are told of."""
    rates = [(flat_stats(doc["rates"])[name], doc["interval_s"]) for doc in docs
             if doc["interval_s"]]
    return sum(round(rate * seconds) for rate, seconds in rates if rate is not None)


def test_documents_and_their_rates(cli, shared, world, tmp_path):
    client = world.client(shared)
    it = Process([*cli.base, "--json", "stats", "--watch", *FAST], tmp_path / "stderr")
    first = documents(it, len)[0]
    assert first["interval_s"] is None and first["rates"]["rpc"]["puts"] is None
    assert first["server"] == shared.address and first["process"]["pid"] == int(shared.ready["pid"])
    assert first["software_device"] == first["device"].startswith("soft")
    plain = cli.stats().keys()
    assert {"rpc_puts", "records", "uptime_ms", "client_gets"} <= plain
    assert {name for name in plain if not name.startswith("session_")} <= flat_stats(first).keys()
    for i in range(70):
        client.put(b"rated %d" % i, b"value")
    for i in range(50):
        assert client.get(b"rated %d" % i) == b"value"
    docs = documents(it, lambda docs: counted(docs, "rpc_puts") >= 70 and
                     counted(docs, "client_gets") >= 50)
    assert counted(docs, "rpc_puts") == 70
    assert counted(docs, "client_gets") == 50
    assert counted(docs, "client_reads") >= 50
    number = next(each["session"] for each in docs[-1]["each_session"] if each["pid"] == client.pid)
    assert counted(docs, f"session_{number}_gets") == 50
    ratios = [ratio for ratio in (doc["rates"]["client"]["reads_per_get"] for doc in docs) if ratio]
    assert ratios and all(1 <= ratio <= 3 for ratio in ratios)
    assert all(doc["interval_s"] > 0 for doc in docs)
    it.signal(signal.SIGINT)
    assert it.wait(20) == 0
    assert it.stderr() == ""
    client.quit()


def test_a_reader_that_stands_still(cli):
    """Nobody reads the pipe, which is full: a second interrupt ends it, as other commands."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    looks = itertools.count(cli.stats()["rpc_stats"] + 1)
    it = subprocess.Popen([*cli.base, "stats", "--watch"], stdout=writer, env=environment(),
                          preexec_fn=die_with_parent())

    def caught():
        with open(f"/proc/{it.pid}/status", encoding="utf-8") as status:
            mask = re.search(r"SigCgt:\s*(\w+)", status.read()).group(1)
        return int(mask, 16) >> (signal.SIGINT - 1) & 1

    try:
        wait_until("it has asked", lambda: cli.stats()["rpc_stats"] > next(looks), 20)
        time.sleep(0.3)
        it.send_signal(signal.SIGINT)
        wait_until("it was noted", lambda: not caught(), 20)
        it.send_signal(signal.SIGINT)
        wait_until("it has ended", lambda: it.poll() is not None, 20)
        assert it.returncode == -signal.SIGINT
    finally:
        it.kill()
        it.wait()
    os.close(reader)
    os.close(writer)
