# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""README's "Try it", pasted whole into bash: as its input, and typed at its prompt."""
import os
import re
import signal
import subprocess

import pytest

from kvt_process import BUILD, ROOT, SLOW, environment, free_port
from kvt_terminal import Terminal

# What stands in the output, in this order, whatever the machine.
PRINTED = [
    r"kv-server ready tcp=127\.0\.0\.1:\d+ .* pid=\d+",
    r"hello, fabric\n?version=\d+ size=13 expiry=never",
    r"(29|30)(\.\d+)?",
    r"loaded 10000 records, .*", r"10000", r"user/999\nuser/9990\n(user/999[1-8]\n){8}user/9999",
    r"user/7\tnumber 7\nuser/0\t\\N", r"5\n5",
    r"rpc_gets +0", r"records +10003",
    r".*BW average.*", r" 64 .*", r"hello, fabric",
]


def block_of(heading, word):
    """The indented block below the heading in which the word stands."""
    text = (ROOT / "README.md").read_text("utf-8").split(f"\n## {heading}\n")[1]
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", text.split("\n## ")[0], flags=re.M)
    return next(re.sub("^    ", "", b, flags=re.M).strip("\n") + "\n" for b in blocks if word in b)


@pytest.fixture
def env(tmp_path):
    """The shell's environment; afterwards no server is left."""
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    yield environment({"PATH": f"{BUILD}/bin:{os.environ['PATH']}", "HOME": str(tmp_path),
                       "GRACEKV_LISTEN": address, "GRACEKV_SERVER": address})
    pid = int(re.search(r"pid=(\d+)", (tmp_path / "server.out").read_text())[1])
    if os.path.exists(f"/proc/{pid}"):
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the server was left running")


def judge(text, folder):
    at = 0
    for what in PRINTED:
        found = re.compile(f"^{what}$", re.M).search(text, at)
        assert found, f"{what} is missing after {text[:at][-200:]!r} in {text}"
        at = found.end()
    assert sorted(p.name for p in folder.iterdir()) == ["server.log", "server.out"]


@pytest.mark.soft_device
def test_it_is_pasted_into_the_input(env, tmp_path):
    done = subprocess.run(["bash"], input=block_of("Try it", "kv-server --memory"), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, env=env,
                          timeout=60 * SLOW, check=False)
    assert done.returncode == 0, done.stdout
    judge(done.stdout, tmp_path)


@pytest.mark.soft_device
def test_it_is_pasted_at_the_prompt(env, tmp_path):
    bash = Terminal(["/bin/bash", "--norc", "--noprofile", "-i"],
                    {**env, "PS1": "paste> ", "HISTFILE": ""}, columns=200)
    bash.expect("paste> ")
    bash.line(f"cd {tmp_path}")
    bash.type(block_of("Try it", "kv-server --memory").replace("\n", "\r") + "exit\r")
    assert bash.wait(60) == 0, bash.seen
    judge("\n".join(filter(None, bash.seen.splitlines())), tmp_path)
