# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The other machine: programs are copied to it, to the path that they have here, and removed."""
import json
import pathlib
import shlex
import shutil
import subprocess

WAIT_S = 120
WANTED = ("bin", "client", "tests/integration")  # of a build folder
LEFT_OUT = shutil.ignore_patterns("*.p", "*.a", "*.symbols", "CMakeFiles")
LIB = pathlib.Path(__file__).resolve().parents[1] / "lib"


class NoPeer(Exception):
    """Nothing can be run there."""


class Far:
    """Its folder there, while the block lasts."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder / "peer"  # of both machines
        self.build = self.folder / "build"
        self.shared = False
        self.address = options.peer_address
        self.words = ""  # what the machine is

    def command(self, words):
        """What runs a command there, as a list."""
        return [*self.options.ssh, self.options.peer, shlex.join(map(str, words))]

    def do(self, *words, stdin=None):
        try:
            done = subprocess.run(self.command(words), stdin=stdin or subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=WAIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoPeer(f"{self.options.ssh[0]}: {error}") from None
        if done.returncode:
            raise NoPeer(f"`{shlex.join(map(str, words))[:200]}` on the peer exited with"
                         f" {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def agent(self):
        """For GRACEKV_TEST_AGENT: a connection for each process, which ends it."""
        env = [f"GRACEKV_TEST_DEVICE={self.options.device}", f"GRACEKV_TEST_BUILD={self.build}",
               "PYTHONDONTWRITEBYTECODE=1"]
        return "command " + shlex.join(self.command(
            ["env", *env, "python3", self.folder / "lib/kvt_agent.py", "-"]))

    def copy(self):
        for name in WANTED:
            shutil.copytree(self.options.build / name, self.build / name, ignore=LEFT_OUT,
                            symlinks=True)
        shutil.copytree(LIB, self.folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
        # where both see one file system it is there already
        probe = "import os, sys; print(os.path.isdir(sys.argv[1]))"
        self.shared = self.do("python3", "-c", probe, self.folder).strip() == "True"
        if self.shared:
            return
        with subprocess.Popen(["tar", "-c", "-z", "-C", str(self.folder), "."],
                              stdout=subprocess.PIPE) as tar:
            self.do("sh", "-c", 'umask 077 && mkdir -p "$1" && tar -x -z -C "$1"', "sh",
                    self.folder, stdin=tar.stdout)

    def __enter__(self):
        try:
            self.copy()
            self.do(self.build / "bin/kv-server", "--version")
            ask = ("import json, platform; from kvt_rdma import address_of; "
                   "print(json.dumps([address_of(), platform.node(), platform.release()]))")
            answer = self.do("env", f"PYTHONPATH={self.folder}/lib", "PYTHONDONTWRITEBYTECODE=1",
                             f"GRACEKV_TEST_DEVICE={self.options.device}", "python3", "-c", ask)
            found, self.name, self.words = json.loads(answer)
        except BaseException:
            self.__exit__()
            raise
        self.address = self.address or found
        if not self.address:
            self.__exit__()
            raise NoPeer(f"no network device of {self.options.device} has an IPv4 address there"
                         " (--peer-address names one)")
        return self

    def __exit__(self, *_):
        if not self.shared:
            try:
                self.do("rm", "-rf", self.folder.parent)
            except NoPeer as why:
                print(f"   {self.folder.parent} may be left on the peer: {why}")
