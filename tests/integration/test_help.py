# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What INTERFACE promises of every program: --help, --version, an option that there is not, errors
as documents."""
import json
import re

import pytest

from kvt_client import run
from kvt_process import free_port, program

USERS = ["kv-server", "kv-cli", "kv-inspect", "kv-bw", "kv-lat", "kv-bench", "kv-rcu-bench",
         "kv-cluster"]
MAINTAINERS = ["grace-bench", "growth-bench", "index-bench", "soft-bench"]


@pytest.mark.no_device
@pytest.mark.parametrize("name", USERS + MAINTAINERS)
def test_help_version_and_an_unknown_option(name):
    for flag in ("--help", "-h"):
        result = run([program(name), flag])
        assert result.rc == 0 and result.err == "" and len(result.out.splitlines()) > 10
        assert result.out.startswith(f"Usage: {name} ".encode())
        assert b"\nExample" in result.out or name in MAINTAINERS
        assert max(map(len, result.out.splitlines())) <= 100
    for flag in ("--version", "-V"):
        result = run([program(name), flag])
        assert result.rc == 0 and result.err == ""
        assert re.fullmatch(name.encode() + rb" \S+ \(libibverbs \S+, liburcu \S+, layout \d+ "
                            rb"hash [0-9a-f]{16}\)\n", result.out)
    result = run([program(name), "--frobnicate"])
    assert result.rc == 2 and result.out == b"" and "--frobnicate" in result.err
    assert f"see {name} --help" in result.err and result.err.count("\n") == 1


# kv-bw and kv-lat have perftest's letters.
LETTERS = {"s": ["server"], "d": ["device"], "c": ["count"], "t": ["seconds", "time"]}


@pytest.mark.no_device
@pytest.mark.parametrize("name", ["kv-cli", "kv-inspect", "kv-bench", "kv-rcu-bench",
                                  "kv-cluster"])
def test_a_letter_means_the_same_in_all_tools(name):
    text = run([program(name), "--help"]).out.decode()
    found = re.findall(r"^ +-([a-z]), --([a-z-]+)", text, re.M)
    assert found
    for letter, word in found:
        assert word in LETTERS.get(letter, [word]), f"-{letter} is --{word}"


NOWHERE = f"127.0.0.1:{free_port('127.0.0.1')}"
FAILS = {"kv-cli": ["-s", NOWHERE, "-d", "soft0", "ping"],
         "kv-inspect": ["-s", NOWHERE, "-d", "soft0", "--timeout", "300", "root"],
         "kv-bw": ["-d", "soft0", NOWHERE], "kv-lat": ["-d", "soft0", NOWHERE],
         "kv-bench": ["-s", NOWHERE, "-d", "soft0"], "kv-rcu-bench": ["-o", "/nowhere/x"],
         "kv-cluster": ["-s", NOWHERE, "status"]}


def failed(name, words, code):
    """The document that a program leaves on stderr, and nothing on stdout."""
    result = run([program(name), *words])
    doc = json.loads(result.err)
    assert result.rc == doc["code"] == code and result.out == b"" and result.err.count("\n") == 1
    assert set(doc) - {"error"} == {"program", "line", "what", "why", "action", "code"}
    assert doc["program"] == name and doc["line"] is None
    return doc


@pytest.mark.no_device
@pytest.mark.parametrize("name", [*FAILS, *(m for m in MAINTAINERS if m != "soft-bench")])
def test_errors_of_json_are_documents_on_stderr(name):
    """Of usage, wherever --json stands, and of what cannot be done."""
    for words in (["--json", "--frobnicate"], ["--frobnicate", "--json"]):
        doc = failed(name, words, 2)
        assert "--frobnicate" in doc["what"] + doc["why"] and f"{name} --help" in doc["action"]
    if name in FAILS:
        doc = failed(name, ["--json", *FAILS[name]], 3)
        assert re.search("refused|No such file", doc["why"]), doc
    text = run([program(name), "--frobnicate", "--", "--json"]).err
    assert text.startswith(f"{name}: "), "after -- it is no option"
