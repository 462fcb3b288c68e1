# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Print a line for each test of a meson run, and its output where it failed.

usage: meson_report.py TESTLOG.JSON SUITE COUNTS

A cmocka program counts as the tests that it names; any other program as one. COUNTS receives
"PASSED FAILED SKIPPED" and the names of what failed, a line each; it is not written where there is
no log to read.
"""
import json
import re
import signal
import sys

CMOCKA = re.compile(r"^\[\s*(RUN|OK|FAILED|SKIPPED|ERROR)\s*\] (\S+)$")
GOOD = ("OK", "EXPECTEDFAIL")


class Counts:
    def __init__(self):
        self.passed = self.skipped = 0
        self.failures = []

    @property
    def failed(self):
        return len(self.failures)

    def ok(self, name):
        self.passed += 1
        print(f"ok    {name}")

    def fail(self, name, why):
        self.failures.append(f"{name}: {why}")
        print(f"FAIL  {self.failures[-1]}")

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip  {name}: {why}")


def last_words(text, default):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else default


def cmocka_results(out, err):
    """{test: (result, words printed before it)} of one program, in the order they ran."""
    results = {}
    words = []
    for line in out.splitlines() + err.splitlines():
        match = CMOCKA.match(line.strip())
        if not match:
            words.append(line)
            continue
        result, name = match.groups()
        if result == "RUN":
            results.setdefault(name, ("RUN", ""))
        elif name in results and results[name][0] in ("RUN", "OK"):
            results[name] = (result, last_words("\n".join(words), ""))
        words = []
    return results


def how_it_ended(test):
    """Why a program has no result for a test that it began."""
    code = test.get("returncode")
    if test["result"] == "TIMEOUT":
        return f"did not end within {test.get('duration', 0):.0f} s"
    if isinstance(code, int) and (code < 0 or 128 < code <= 192):
        number = -code if code < 0 else code - 128
        try:
            return f"ended by {signal.Signals(number).name}"
        except ValueError:
            return f"ended by signal {number}"
    return f"the program left with code {code}"


def report(test, suite, counts):
    program = test["name"].split(" / ")[-1]
    name = f"{suite}: {program}"
    out, err = test.get("stdout") or "", test.get("stderr") or ""
    result = test["result"]
    failed_before = counts.failed
    tests = cmocka_results(out, err)
    if result == "SKIP":
        counts.skip(name, last_words(out + err, "the program gave no reason"))
        return
    for inner, (outcome, words) in tests.items():
        if outcome == "OK":
            counts.ok(f"{name}: {inner}")
        elif outcome == "SKIPPED":
            counts.skip(f"{name}: {inner}", words or "the test gave no reason")
        else:
            why = how_it_ended(test) if outcome == "RUN" else "failed"
            counts.fail(f"{name}: {inner}", why)
    if result in GOOD:
        if not tests:
            counts.ok(name)
    elif counts.failed == failed_before:
        counts.fail(name, f"{result.lower()}, return code {test.get('returncode')}")
    if counts.failed != failed_before:
        for line in (out + err).splitlines()[-200:]:
            print(f"      | {line}")


def main():
    log, suite, path = sys.argv[1:]
    counts = Counts()
    try:
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                report(json.loads(line), suite, counts)
    except FileNotFoundError:
        return 1
    with open(path, "w", encoding="utf-8") as out:
        print(counts.passed, counts.failed, counts.skipped, file=out)
        out.writelines(f"{name}\n" for name in counts.failures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
