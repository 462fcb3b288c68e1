#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Try GraceKV on a real RDMA device, on this machine or between two, and write one report.

It changes nothing on either machine: it installs nothing, sets nothing and reserves nothing. What
it writes, besides the report, lies in a folder below the one for temporary files, on both machines,
and is removed.

Exit status: 0 nothing failed; 1 something failed, and the report says what; 2 wrong usage; 3 it
could not be tried.
"""
import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "lib"))

import report  # noqa: E402
from far import Far, NoPeer  # noqa: E402
from kvt_rdma import address_of  # noqa: E402

PARTS = ("doctor", "conformance", "integration", "ratios", "gate")
GATE = "get,warm,depth,zipf-few,grace"
CONFORMANCE = "tests/unit/rdma/rdma-test_conformance"
SMALL_S, LONG_S = 300, 3600
# What is about the server's own memory, where distance changes nothing: not between two machines.
NEAR = ("memory", "space", "expiry", "deleted_bytes", "epoch_slots", "rogue", "rogue_sessions",
        "inspect", "kv_bench", "hardware")


def said(line):
    print(line, flush=True)


class Trial:
    """What is run, and what came of it."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.report = report.Report(options)
        self.env = {**os.environ, "GRACEKV_TEST_DEVICE": options.device,
                    "GRACEKV_TEST_HOST": options.address, "PYTHONDONTWRITEBYTECODE": "1",
                    "GRACEKV_TEST_BUILD": str(options.build), "PYTHONPATH": f"{ROOT}/tests/lib"}

    def run(self, name, words, parse, *, seconds=SMALL_S, env=None):
        """One program to its end; its output is what parse() makes results of."""
        said(f"== {name}")
        start = time.monotonic()
        try:
            with subprocess.Popen(list(map(str, words)), env={**self.env, **(env or {})}, cwd=ROOT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, start_new_session=True) as child:
                try:
                    out = child.communicate(timeout=seconds)[0]
                    code = child.returncode
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, 9)
                    out, code = child.communicate()[0], f"none after {seconds} s"
        except OSError as error:
            out, code = str(error).encode(), "none: it did not start"
        text = out.decode("utf-8", errors="replace")
        part = self.report.part(name, text, parse(text), code, time.monotonic() - start)
        said(f"   {part.words()}")

    def pytest(self, name, *words, env=None):
        only = ["-k", self.options.tests] if self.options.tests else []
        self.run(name, [
            sys.executable, "-m", "pytest", "-p", "kvt_report", "-p", "no:cacheprovider", "-p",
            "no:xdist", "--rootdir", ROOT / "tests/integration", "-c",
            ROOT / "tests/integration/pytest.ini", "--basetemp", self.folder / "pytest", "-m",
            "not no_device", *only, *words], report.lines, seconds=LONG_S,
            env={"GRACEKV_TEST_COUNTS": str(self.folder / "counts"), "GRACEKV_TEST_NAME": name,
                 **(env or {})})

    def here(self):
        o, tests = self.options, ROOT / "tests/integration"
        if "doctor" in o.only:
            self.run("doctor", [o.build / "bin/kv-cli", "-d", o.device, "doctor"], report.whole)
        if "conformance" in o.only:
            self.run("conformance", [o.build / CONFORMANCE, o.device], report.cmocka)
        if "integration" in o.only:
            self.pytest("integration", f"--ignore={tests}/test_ratios.py",
                        f"--ignore={tests}/test_hardware.py", tests)
        if "ratios" in o.only:
            self.pytest("ratios", tests / "test_ratios.py")
        if "gate" in o.only:
            self.run("gate", [sys.executable, ROOT / "tests/performance/gate", "--build", o.build,
                              "--device", o.device, "--host", o.address, "--only", GATE,
                              *(["--quick"] if o.quick else [])], report.whole, seconds=LONG_S)

    def between(self):
        """Servers on the peer, tests and clients here."""
        o, tests = self.options, ROOT / "tests/integration"
        with Far(o, self.folder) as far:
            env = {"GRACEKV_TEST_AGENT": far.agent(), "GRACEKV_TEST_HOST": far.address,
                   "GRACEKV_TEST_BUILD": str(far.build)}
            self.report.peer = far
            if "doctor" in o.only:
                self.run("doctor of the peer",
                         far.command([far.build / "bin/kv-cli", "-d", o.device, "doctor"]),
                         report.whole)
            if "integration" in o.only:
                self.pytest("integration between two", f"--ignore={tests}/test_ratios.py",
                            *(f"--ignore={tests}/test_{part}.py" for part in NEAR), tests, env=env)
            if "ratios" in o.only:
                self.pytest("ratios between two", tests / "test_ratios.py", env=env)

    def all(self):
        try:
            self.here()
            if self.options.peer:
                self.between()
        except NoPeer as why:
            self.report.part("the peer", str(why), None, 3, 0)
            said(f"   the peer: {why}")
        finally:
            self.report.write()


def options_of(argv):
    p = argparse.ArgumentParser(prog="tests/run hardware", allow_abbrev=False,
                                description=__doc__.split("\n", maxsplit=1)[0],
                                epilog=__doc__.split("\n\n", maxsplit=1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", required=True, metavar="DEV", help="RDMA device; the same name on"
                   " both machines")
    p.add_argument("--address", metavar="ADDR", help="of its network device, where servers listen"
                   " [the first IPv4 address that it has]")
    p.add_argument("--peer", metavar="HOST", help="another machine, which ssh reaches without a"
                   " password, for tests between two")
    p.add_argument("--peer-address", metavar="ADDR", help="of its network device [as above]")
    p.add_argument("--ssh", default="ssh -o BatchMode=yes", metavar="COMMAND",
                   help="what runs a command there [%(default)s]")
    p.add_argument("--report", type=pathlib.Path, default=pathlib.Path("hardware-report.md"),
                   metavar="FILE", help="where the report goes [%(default)s]")
    p.add_argument("--names", action="store_true", help="leave names of machines, addresses and"
                   " GUIDs in the report")
    p.add_argument("--only", default=",".join(PARTS), metavar="PART,...",
                   help="some of %(default)s")
    p.add_argument("--tests", metavar="EXPR", help="for pytest -k: some integration tests only")
    p.add_argument("--quick", action="store_true", help="a glimpse of the gate's figures, which"
                   " proves nothing")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build-test", metavar="DIR",
                   help="where the programs were built [build-test]")
    options = p.parse_args(argv)
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(PARTS):
        p.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    options.build = options.build.resolve()
    options.ssh = shlex.split(options.ssh)
    options.address = options.address or address_of(options.device)
    if not options.address:
        p.error(f"no network device of {options.device} has an IPv4 address here (is the name"
                " right? `rdma link` lists them; --address names another address)")
    if not (options.build / CONFORMANCE).is_file():
        p.error(f"nothing is built in {options.build} (tests/run hardware builds it)")
    return options


def main(argv):
    options = options_of(argv)
    try:
        options.report.open("a", encoding="utf-8").close()
    except OSError as error:
        print(f"tests/run hardware: report {options.report}: {error.strerror} (--report names"
              " another)", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="gracekv-hardware-") as name:
        trial = Trial(options, pathlib.Path(name))
        trial.all()
    said(f"report: {options.report}")
    said(trial.report.counts())
    return trial.report.status()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
