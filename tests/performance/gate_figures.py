# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What a figure is, and how one is taken from what a program printed.

A figure that is not there, is no number, or is a ratio of 0, since then one of its sides was not
measured, is an error: it never counts as a promise that was kept.
"""
import dataclasses
import json
import math
import re
import shutil

PAUSES_US = [1, 2, 5, 20, 100]  # that are promised of kv-rcu-bench


class NoFigure(Exception):
    """A program came to its end and did not say what it was run for."""


class NotRun(Exception):
    """It cannot be measured here, and that is no failure."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """What is judged, and the least and the most that were measured, where that is known."""

    value: float
    low: float | None = None
    high: float | None = None
    floor: float | None = None  # of the same run, where it says more than the bound


def at(doc, path):
    """What stands in a document at "a.0.c"."""
    for key in path.split("."):
        if isinstance(doc, list) and key.isdigit() and int(key) < len(doc):
            doc = doc[int(key)]
            continue
        if not isinstance(doc, dict) or key not in doc:
            raise NoFigure(f"its document has no {path}")
        doc = doc[key]
    return doc


def number(doc, path):
    value = at(doc, path)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise NoFigure(f"{path} in its document is no number: {value!r}")
    return value


def positive(doc, path):
    value = number(doc, path)
    if value <= 0:
        raise NoFigure(f"{path} in its document is {value:g}: nothing was measured")
    return value


def ratio(path, rounds=None, floor=None, scale=1):
    """A number above 0; the object at rounds has min and max of it."""
    def read(doc):
        ends = [number(doc, f"{rounds}.{end}") * scale for end in ("min", "max")] if rounds else []
        return Figure(positive(doc, path) * scale, *ends,
                      floor=positive(doc, floor) if floor else None)
    return read


def spread(path, floor=None):
    """An object with median, min and max; that at @floor has the floor's."""
    return ratio(f"{path}.median", path, floor and f"{floor}.median")


def slower(path, key, floor=None):
    """Of what writes and what reads have waited, the longer one, and both."""
    def read(doc):
        both = [positive(doc, f"{path}.{kind}.{key}") for kind in ("put", "get")]
        return Figure(max(both), min(both), max(both), positive(doc, floor) if floor else None)
    return read


def percent(path):
    """A share, which may be 0."""
    return lambda doc: Figure(100 * number(doc, path))


def server_percent(path, less=None):
    """The server's CPU in a span of kv-lat's; less that in another one."""
    def share(doc, where):
        return number(doc, f"{where}.server_cpu_s") / positive(doc, f"{where}.duration_s")
    return lambda doc: Figure(100 * (share(doc, path) - (share(doc, less) if less else 0)))


def megabytes_of_a_million(doc):
    """Of waste: slabs and segments."""
    taken = positive(doc, "million.slab_bytes") + positive(doc, "million.index_bytes")
    return Figure(taken / positive(doc, "million.records"))  # MB for 10^6 are bytes for one


def longest_pause(doc):
    """Of index-bench, in ms: p99.9 of an insert, by one writer and by several."""
    pauses = [positive(doc, f"{phase}.gracekv.ns_p999") / 1e6
              for phase in ("insert_one_writer", "insert_writers")]
    return Figure(max(pauses), min(pauses), max(pauses))


def of_pauses(key, worst):
    """Of kv-rcu-bench: the worst of the pauses that are promised."""
    def read(doc):
        promises = at(doc, "promises")
        if not isinstance(promises, list):
            raise NoFigure("promises in its document is no list")
        values = [positive(one, key) for one in promises]
        pauses = [at(one, "pause_us") for one in promises]
        if pauses != PAUSES_US:
            raise NoFigure(f"its pauses are {pauses}, not {PAUSES_US}")
        return Figure(worst(values), min(values), max(values))
    return read


def leases_until_fenced(doc):
    lease = positive(doc, "lease_ms")
    ends = [positive(doc, f"stop.fenced_after_ms.{end}") / lease for end in ("min", "max")]
    return Figure(ends[1], *ends)


def reads_over_reads_at_rest(doc):
    return Figure(positive(doc, "cost.reads_per_get") / positive(doc, "cost.reads_per_get_at_rest"))


def unless(missing, measured):
    """A document may say why it lacks something that the machine does not have."""
    def read(doc):
        if doc.get(missing):
            raise NotRun(f"{doc['tool']}: {doc[missing]}")
        return measured(doc)
    return read


def over_peer(peer, program, size, words):
    """Of kv-bench: the one of its promises whose name has the peer and the size."""
    def read(doc):
        found = [one for one in at(doc, "promises") if isinstance(one, dict)
                 and peer in str(one.get("name")).lower()
                 and re.search(rf"\b({words})\b", str(one.get("name")))]
        if not any(one.get("median") for one in found) and not shutil.which(program):
            raise NotRun(f"{program} is not installed")
        if len(found) == 1:
            return spread_of(found[0])
        raise NoFigure(f"{len(found)} of its promises are about {peer} and {size}, not one")
    return read


def spread_of(one):
    return Figure(positive(one, "median"), number(one, "min"), number(one, "max"))


def parse_json(name):
    """A document of the program of that name."""
    def parse(text):
        try:
            doc = json.loads(text)
        except ValueError as error:
            raise NoFigure(f"what it printed is no JSON: {error}") from None
        if not isinstance(doc, dict) or doc.get("tool") != name:
            raise NoFigure(f"what it printed is no document of {name}")
        return doc
    return parse


def parse_torture(text):
    """The lines of torture: how many look-ups, how many of them brought a torn block."""
    gets = re.search(r"^(\d+) look-ups in sections", text, re.M)
    wrong = re.search(r"^wrong answers (\d+): .* checksum (\d+)$", text, re.M)
    if not gets or not wrong:
        raise NoFigure("its last lines are not there")
    return {"gets": int(gets[1]), "wrong": int(wrong[1]), "checksum": int(wrong[2])}


def torn_blocks(doc):
    positive(doc, "gets")
    return Figure(number(doc, "checksum"))


TEST = re.compile(r"\w+ +rxe \(([a-z ]+)\): test_(?:ratios|two_members)\.py::(\w+)")
RATIO = re.compile(r"^ +\| .*: ([\d.]+), (?:at most [\d.]+|not judged here)"
                   r" \(rounds: ([\d. ]+)\)$")
SHARE = re.compile(r"^ +\| user CPU .*: (-?[\d.]+)% of a core, at most 1%$")


def parse_rxe(text):
    """The lines of tests/run rxe: by test and place what its tests measured. A part of the suite
    that ran twice counts with its last."""
    doc, current = {}, None
    for line in text.splitlines():
        if line.startswith(("ok ", "FAIL ", "skip ")):
            test = TEST.match(line)
            current = {"passed": line.startswith("ok ")} if test else None
            if test:
                doc[f"{test[1]}: {test[2]}"] = current
        elif current is not None and (found := RATIO.match(line)):
            rounds = [float(one) for one in found[2].split()]
            current.update(ratio=float(found[1]), min=min(rounds), max=max(rounds))
        elif current is not None and (found := SHARE.match(line)):
            current["percent"] = float(found[1])
    return doc


def of_test(place, test):
    """What a test of the suite rxe measured."""
    def read(doc):
        one = doc.get(f"{place}: {test}")
        if not one:
            raise NoFigure(f"{test} did not run ({place})")
        if "percent" in one:
            return Figure(one["percent"])
        if "ratio" not in one:
            raise NoFigure(f"{test} printed no figure ({place})")
        return Figure(positive(one, "ratio"), one["min"], one["max"])
    return read


def inverse(read):
    """A rate from a time."""
    def inverted(doc):
        figure = read(doc)
        if not figure.low:
            raise NoFigure("a round took no time")
        return Figure(1 / figure.value, 1 / figure.high, 1 / figure.low)
    return inverted
