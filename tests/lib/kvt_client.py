# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Clients under test: kv-cli, and kv-test-client, a client that stays connected."""
import collections
import itertools
import json
import re
import subprocess

from kvt_process import (CONNECT, DEVICE, SLOW, Process, environment, program,
                         sanitizer_report)

CLI_S = 20
number = itertools.count(1)
Result = collections.namedtuple("Result", "rc out err")


def run(args, *, stdin=b"", env=None, seconds=CLI_S, stdout=subprocess.PIPE):
    """A program to its end: return code, stdout (bytes), stderr (text)."""
    done = subprocess.run(args, input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                          env=environment(env), timeout=seconds * SLOW, check=False)
    err = done.stderr.decode("utf-8", errors="replace")
    report = sanitizer_report(err)
    assert not report, f"{args[0]}: {report}"
    assert done.returncode >= 0, f"{args} died of signal {-done.returncode}\n{err}"
    return Result(done.returncode, done.stdout, err)


class Cli:
    """kv-cli on one server."""

    def __init__(self, address, device=DEVICE, connect=CONNECT):
        self.base = [program("kv-cli"), "-s", address]
        if device:
            self.base += ["-d", device]
        if connect != "tcp":
            self.base += ["--connect", connect]

    def __call__(self, *args, **how):
        return run([*self.base, *args], **how)

    def good(self, *args, **how):
        """It must exit 0 and complain of nothing; stdout."""
        result = self(*args, **how)
        assert result.rc == 0, f"kv-cli {args[:2]} exited {result.rc}: {result.err}"
        assert result.err == "", result.err
        return result.out

    def put(self, key, value):
        return self.good("put", key, "-", stdin=value)

    def get(self, key):
        return self.good("get", key)

    def stats(self):
        """The server's counters, by their names."""
        return flat_stats(json.loads(self.good("--json", "stats")))


# Counters whose names do not begin with their group's: in these groups, and with these first words.
WHOLE_GROUPS = ("process", "reclaim")
DURABLE_WORDS = ("snapshots",)
DURABLE_GROUPS = ("data", "log", "recovery", "snapshot", "group")
WHOLE_WORDS = ("sessions", "records", "queue", "handshakes", "connections", "protocol", "receives",
               "pulled", "pushed", "snapshots")


def flat_stats(doc):
    """Counters of kv-cli's JSON by the names that the server gives them."""
    flat = {}
    for group, entries in doc.items():
        if isinstance(entries, dict):
            for key, value in entries.items():
                words = DURABLE_WORDS if group in DURABLE_GROUPS else WHOLE_WORDS
                whole = group in WHOLE_GROUPS or key.split("_")[0] in words
                flat[key if whole else f"{group}_{key}"] = value
    for each in doc.get("classes", []) + doc.get("each_session", []):
        (kind, number), *entries = each.items()
        kind = "class" if kind == "size" else kind
        flat.update((f"{kind}_{number}_{key}", value) for key, value in entries)
    return flat


def sentence(line):
    """A line of stderr; of a document of --json what it says."""
    if not line.startswith("{"):
        return line
    doc = json.loads(line)
    why, action = (doc["why"] and f": {doc['why']}", doc["action"] and f" ({doc['action']})")
    return f"{doc['program']}: {doc['what']}{why or ''}{action or ''}"


def assert_error(result, rc, *words, who="kv-cli"):
    """The form that all errors have: `PROGRAM: what failed: why (what to do)`, one line; with
    --json a document."""
    codes = (rc,) if isinstance(rc, int) else rc
    assert result.rc in codes, f"exit {result.rc}, not {rc}: {result.err!r}"
    said = [sentence(line) for line in result.err.splitlines()]
    lines = [line for line in said if line.startswith(f"{who}: ")]
    assert len(lines) == 1, f"not one line of {who}: {result.err!r}"
    if who == "kv-cli":
        assert said == lines, f"more than an error: {result.err!r}"
    assert len(lines[0]) > len(who) + 12, f"no sentence: {result.err!r}"
    for word in words:
        assert re.search(word, lines[0], re.IGNORECASE), f"no {word!r} in {lines[0]!r}"
    return lines[0]


class CallFailed(Exception):
    """A call of the library failed: code, a negative errno, and its sentence."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Client(Process):
    """kv-test-client: one session and one handle of libgracekv, driven line by line."""

    name = "kv-test-client"

    def __init__(self, folder, address, *options, device=DEVICE, env=None, connect=CONNECT,
                 wait=True):
        super().__init__([program(self.name), address, device, *map(str, options)],
                         folder / f"{self.name}.{next(number)}.stderr",
                         stdin=subprocess.PIPE,
                         env={"GRACEKV_CONNECT": connect, **(env or {})})
        if wait:
            self.answer(15)

    def start(self, *words):
        """Give a command without waiting for its answer."""
        line = " ".join(w.hex() or "-" if isinstance(w, bytes) else str(w) for w in words)
        self.popen.stdin.write(line.encode() + b"\n")

    def answer(self, seconds=20):
        """{name: value} of an "ok" line; CallFailed of an "err" line."""
        line = self.read_line(seconds)
        assert line is not None, f"kv-test-client ended: {self.wait(5)}\n{self.stderr()}"
        head, _, rest = line.partition(" ")
        if head == "err":
            code, _, text = rest.partition(" ")
            raise CallFailed(int(code), text)
        assert head == "ok", line
        return dict(pair.split("=", 1) for pair in rest.split())

    def ask(self, *words, seconds=20):
        self.start(*words)
        return self.answer(seconds)

    def put(self, key, value):
        return int(self.ask("put", key, value)["version"])

    def get(self, key):
        """The value, or None."""
        try:
            return bytes.fromhex(self.ask("get", key)["value"])
        except CallFailed as error:
            if error.code == -2:
                return None
            raise

    def delete(self, key):
        self.ask("del", key)

    def stats(self):
        return {k: int(v) for k, v in self.ask("stats").items()}

    def quit(self):
        """Close handle and session; the process must exit 0."""
        self.start("quit")
        rc = self.wait(10)
        assert rc == 0, f"kv-test-client exited {rc}\n{self.stderr()}"


class Herd(Client):
    """kv-test-herd: many sessions and handles, each handle with a thread. rack: see kvt_herd.py."""

    name = "kv-test-herd"

    def __init__(self, folder, address, sessions, handles=1, timeout_ms=5000, lifeline_ms=2000,
                 *rack, **how):
        super().__init__(folder, address, sessions, handles, timeout_ms, lifeline_ms, *rack, **how)

    def run(self, key, seconds):
        self.start("run", key, int(seconds * 1000))

    def result(self, seconds):
        """{good, bad, longest_us, well, reconnects, error}"""
        return {k: int(v) for k, v in self.answer(seconds).items()}


def layout():
    """(version, hash) of the memory layout, as this build has it."""
    out = run([program("kv-test-client"), "--layout"]).out.decode().split()
    return int(out[0]), int(out[1])
