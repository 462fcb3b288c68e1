# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""pytest plugin: a line for each test, in the form of tests/run, and a bound on its time.

Environment: GRACEKV_TEST_NAME, the suite's name; GRACEKV_TEST_COUNTS, a file that receives
"PASSED FAILED SKIPPED" and the names of what failed, a line each.
"""
import io
import os
import signal
import sys

import pytest
from _pytest.config import create_terminal_writer

from kvt_process import SLOW

LIMIT_S = 120  # of a test; what it waits for has bounds of its own, below that


class Report:
    def __init__(self):
        self.suite = os.environ.get("GRACEKV_TEST_NAME", "integration")
        self.counts = {"passed": 0, "skipped": 0}
        self.failures = []
        self.spent = {}

    def name(self, nodeid):
        return f"{self.suite}: {nodeid.split('/')[-1]}"

    def fail(self, nodeid, phase, text):
        where = "" if phase == "call" else f" ({phase})"
        self.failures.append(f"{self.name(nodeid)}{where}")
        print(f"FAIL  {self.failures[-1]}")
        for line in str(text).splitlines()[-200:]:
            print(f"      | {line}")
        sys.stdout.flush()  # the machine may not live to see the end

    @staticmethod
    def figures(report):
        """What a test measured, right below its line or what it failed of."""
        for name, text in report.user_properties:
            if name == "figures":
                print(f"      | {text}", flush=True)

    def pytest_runtest_logreport(self, report):
        self.spent[report.nodeid] = self.spent.get(report.nodeid, 0) + report.duration
        if report.failed:
            text = report.longreprtext
            for title, content in report.sections:
                text += f"\n--- {title}\n{content}"
            self.fail(report.nodeid, report.when, text)
            self.figures(report)
        elif report.skipped:
            self.counts["skipped"] += 1
            reason = getattr(report, "wasxfail", None) or report.longrepr[2]
            print(f"skip  {self.name(report.nodeid)}: {reason.removeprefix('Skipped: ')}")
        elif report.when == "call":
            self.counts["passed"] += 1
            print(f"ok    {self.name(report.nodeid)} ({self.spent[report.nodeid]:.1f} s)",
                  flush=True)
            self.figures(report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.fail(report.nodeid, "collection", report.longrepr)

    def pytest_internalerror(self, excrepr):
        self.fail("pytest", "internal error", excrepr)

    def pytest_sessionfinish(self, session):
        path = os.environ.get("GRACEKV_TEST_COUNTS")
        if path:
            with open(path, "w", encoding="utf-8") as out:
                print(self.counts["passed"], len(self.failures), self.counts["skipped"], file=out)
                out.writelines(f"{name}\n" for name in self.failures)


class OutOfTime(Exception):
    """The test ran longer than it may."""


def bounded(item):
    """One phase of a test, ended by an alarm: a hang is a failure like another."""
    marker = item.get_closest_marker("limit")
    seconds = (marker.args[0] if marker else LIMIT_S)
    seconds *= SLOW

    def ring(signum, frame):
        raise OutOfTime(f"not done after {seconds} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from bounded(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    return (yield from bounded(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    return (yield from bounded(item))


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): the time that each phase of a test has")
    # a worker's reports are made where the others come together
    if os.environ.get("GRACEKV_TEST_COUNTS") and not hasattr(config, "workerinput"):
        # pytest's own reporter stays, since its formatting is used, and writes nowhere
        quiet = create_terminal_writer(config, io.StringIO())
        config.pluginmanager.get_plugin("terminalreporter")._tw = quiet
        config.pluginmanager.register(Report(), "kvt-report-lines")
