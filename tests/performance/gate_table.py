# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The table of promised against measured: for a terminal, as Markdown, as a document."""
import dataclasses
import json

from gate_figures import Figure
from gate_promises import Group, Promise

KEPT, NOT_KEPT, NOT_RUN = "kept", "NOT KEPT", "not run"
HEAD = ["group", "promise", "bound", "measured (spread)", "result"]
SOFTWARE = ("soft0 is a software stand-in: what is measured on it is memory copies and our code,"
            " not RDMA.")
QUICK = "--quick: shorter spans and fewer records than were promised; these figures prove nothing."
SPREAD = ("Measured: what is judged, a median where there are rounds; in brackets the least and the"
          " most of them.")


@dataclasses.dataclass
class Row:
    group: Group
    promise: Promise
    result: str = NOT_RUN
    figure: Figure | None = None
    why: str = ""
    failed: bool = False  # not run, though it should have been


@dataclasses.dataclass
class Report:
    """All that is said."""

    version: str
    machine: str
    quick: bool
    rows: list
    software: bool = False

    def count(self, result):
        return sum(row.result == result for row in self.rows)

    def status(self):
        """What the program exits with: a broken promise is certain, whatever else failed."""
        if self.count(NOT_KEPT):
            return 1
        return 3 if any(row.failed for row in self.rows) or not self.count(KEPT) else 0

    def words(self):
        counts = [f"{self.count(one)} {one}" for one in (KEPT, NOT_KEPT, NOT_RUN)]
        return f"{', '.join(counts)}, of {len(self.rows)} promises"


def measured(figure):
    if figure is None:
        return ""
    text = f"{figure.value:.4g}"
    if figure.low is not None:
        text += f" ({figure.low:.4g} to {figure.high:.4g})"
    if figure.floor is not None:
        text += f", floor {figure.floor:.4g}"
    return text


def cells(rows):
    """A list of cells for each row, and the notes that they refer to."""
    notes, lines = [], []
    for row in rows:
        refers = []
        for note in (row.why, row.promise.note):
            if note and note not in notes:
                notes.append(note)
            if note:
                refers.append(f"[{notes.index(note) + 1}]")
        lines.append([row.group.name, row.promise.words, row.promise.bound_words(),
                      measured(row.figure), " ".join([row.result, *refers])])
    return lines, [f"[{i}] {note}" for i, note in enumerate(notes, 1)]


def aligned(head, lines):
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return [" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            for line in [head, ["-" * width for width in widths], *lines]]


def remarks(report):
    return [text for text, said in ((QUICK, report.quick), (SOFTWARE, report.software)) if said]


def as_text(report):
    lines, notes = cells(report.rows)
    parts = [[f"gate of GraceKV {report.version}: promised against measured; {report.machine}"],
             aligned(HEAD, lines), notes, [SPREAD, *remarks(report)], [report.words()]]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def as_list(groups, report):
    """What is promised, and how each group is measured."""
    lines, _ = cells(report.rows)
    how = [[group.name, " ".join([*(f"{name}='{value}'" for name, value in group.env),
                                  *(["kv-server", *group.server, "+"] if group.server else []),
                                  group.title(), *group.args]),
            f"{group.why}: only with {group.asked}" if group.asked else ""] for group in groups]
    parts = [aligned(HEAD[:3], [line[:3] for line in lines]),
             aligned(["group", "measured by", ""], how), [f"{len(lines)} promises"]]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def as_markdown(report):
    lines, notes = cells(report.rows)
    parts = [["# Promised against measured"],
             [f"GraceKV {report.version}, `tests/performance/gate`; {report.machine}. {SPREAD}"],
             *([f"**{text}**"] for text in remarks(report)),
             [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
              for line in [HEAD, ["---"] * len(HEAD), *lines]],
             *([note] for note in notes), [f"{report.words()}."]]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def row_document(row):
    figure = row.figure or Figure(None)
    return {"group": row.group.name, "name": row.promise.words, "program": row.group.title(),
            "promised": row.promise.promised, "bound": row.promise.bound,
            "unit": row.promise.unit, "measured": figure.value, "min": figure.low,
            "max": figure.high, "floor": figure.floor,
            "kept": None if row.figure is None else row.result == KEPT, "result": row.result,
            "failed": row.failed, "why": row.why, "note": row.promise.note}


def as_json(report):
    doc = {"tool": "gate", "schema": 1, "version": report.version, "machine": report.machine,
           "quick": report.quick, "software_device": report.software,
           "kept": report.count(KEPT), "not_kept": report.count(NOT_KEPT),
           "not_run": report.count(NOT_RUN), "promises": [row_document(row) for row in report.rows]}
    return json.dumps(doc, indent=2) + "\n"
