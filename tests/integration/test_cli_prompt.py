# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli without a command: the prompt on a terminal, and scripts from a pipe."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from kvt_client import Cli
from kvt_process import HOST, Process, free_port, scaled, wait_until
from kvt_terminal import Terminal


class Prompt(Terminal):
    """kv-cli at its prompt."""

    def __init__(self, address, home, *options, **env):
        super().__init__([*Cli(address).base, *options],
                         {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), **env})
        self.mark = re.escape(address) + "> "
        self.answers = 0

    def ready(self):
        self.expect(self.mark)
        return self

    def do(self, line):
        """What a line prints, with \\n for the terminal's \\r\\n."""
        return self.ask(line, self.mark).replace("\r\n", "\n")

    def settle(self):
        """All that was typed has been taken: the answer to a question of our own is there."""
        self.answers += 1
        self.line(f"get settle-{self.answers}")
        self.expect(rf"get settle-{self.answers}: not found")
        self.ready()

    def end(self):
        self.type("\x04")
        return self.wait()


@pytest.fixture
def prompt(shared, tmp_path):
    made = []

    def make(*options, address=shared.address, home=tmp_path, **env):
        made.append(Prompt(address, home, *options, **env))
        return made[-1]
    yield make
    for it in made:
        it.close()


def history(home):
    return (home / "state/gracekv/history").read_text().splitlines()


def test_commands_at_the_prompt(prompt, cli):
    p = prompt().ready()
    assert "help lists the commands" in p.seen
    assert re.fullmatch(r"stored, version \d+\n", p.do("put prompt 'one two'"))
    assert p.do("get prompt") == "one two\n"
    assert cli.get("prompt") == b"one two"
    p.do("put gr\u00fcn '\u00e4\u2713'")
    assert cli.get("gr\u00fcn") == "\u00e4\u2713".encode()
    assert p.do("get gr\u00fcn") == "\u00e4\u2713\n"
    assert re.fullmatch(r"stored, version \d+\n", p.do("put --ttl 100 prompt x"))
    assert re.fullmatch(r"\d+\.\d{3}\n", p.do("ttl prompt"))
    assert json.loads(p.do("get --json prompt"))["value"] == "x"
    assert "records" in p.do("stats")
    assert p.do("del prompt") == "deleted\n"
    assert p.end() == 0


def test_errors_do_not_end_the_prompt(prompt):
    p = prompt().ready()
    for line, words in [("frobnicate", "frobnicate: unknown command"), ("get", "too few words"),
                        ("get never-there", "not found"), ("put 'a b", "column 5 is not closed"),
                        ("put a -", "stdin is where the commands come from"),
                        ("load /none.tsv", "No such file")]:
        said = p.do(line)
        assert re.search(rf"(?m)^kv-cli: [^\n]*{re.escape(words)}[^\n]*\Z", said.strip()), said
    assert p.do("put still there").startswith("stored")
    assert p.end() == 0


@pytest.mark.parametrize("word", ["quit", "exit", "\x04"], ids=["quit", "exit", "^D"])
def test_the_end(prompt, word):
    p = prompt().ready()
    p.do("get never-there")
    p.type(word if word == "\x04" else word + "\r")
    assert p.wait() == 0
    assert p.seen.endswith("\r\n")


def test_keys_are_keys_as_soon_as_the_prompt_is_seen(prompt):
    """^D was lost where it came between the prompt and the terminal's change of modes."""
    p = prompt().ready()
    for _ in range(scaled(300)):
        assert p.modes()
        p.line("#")
        p.ready()
    assert p.end() == 0


def test_control_c_abandons_the_line(prompt, cli):
    cli("del", "abandoned")
    p = prompt().ready()
    for _ in range(3):
        p.type("put abandoned yes")
        p.expect("put abandoned yes")
        p.type("\x03")
        p.expect(r"\^C\r\n")
        p.ready()
    p.line("")
    p.ready()
    p.settle()
    assert cli("exists", "abandoned").rc == 1
    assert p.end() == 0


def test_control_c_ends_a_command_and_not_the_prompt(prompt):
    p = prompt().ready()
    for _ in range(2):
        p.line("ping -c 100000")
        p.expect("seq=1 ")
        p.type("\x03")
        p.expect(r"\d+ sent, \d+ answered")
        p.ready()
    assert "1 sent, 1 answered" in p.do("ping -c 1")
    assert "^C\r\n" in p.seen and "^C\r\n\r\n" not in p.seen
    assert p.end() == 0


def test_control_c_while_a_call_waits(prompt, world):
    server = world.server(memory="128M")
    p = prompt("--timeout", "2000", address=server.address).ready()
    server.stop_threads()
    p.line("put waits x")
    p.expect(r"\r\n")
    time.sleep(0.5)
    p.type("\x03")
    p.expect(r"\^C\r\nkv-cli: put waits: [^\r]*did not answer[^\r]*\r\n")
    p.ready()
    server.signal(signal.SIGCONT)
    wait_until("the server answers", lambda: "stored" in p.do("put waits y"), 20)
    assert p.end() == 0


def test_completion(prompt):
    p = prompt().ready()
    # by what the completed line does, as the terminal moves its cursor as it likes
    p.type("fro\t\x15")  # nothing fits: the line stays
    p.settle()
    p.type("tou\t")
    p.line("never-there 5")
    p.expect("touch never-there: not found")
    p.ready()
    p.type("e\t\t")
    p.expect("exists  exit  ")  # several fit, which have exi in common
    p.type("s\t")
    p.line("never-there")
    p.expect("no\r\n")
    p.ready()
    p.type("help ca\t\r")
    p.expect("Example: kv-cli cas")
    p.ready()
    p.type("get tou\t\r")  # no place for a command
    p.expect("get tou: not found")
    p.ready()
    assert p.end() == 0


def test_history(prompt, tmp_path):
    p = prompt().ready()
    p.do("get kept-1")
    p.do("get kept-2")
    p.do("get kept-2")
    p.do(" get secret")
    p.type("\x1b[A\r")  # up: the last line that is kept
    p.expect("get kept-2: not found")
    p.ready()
    assert p.end() == 0
    assert history(tmp_path) == ["get kept-1", "get kept-2"]
    assert os.stat(tmp_path / "state/gracekv/history").st_mode & 0o777 == 0o600
    p = prompt().ready()
    p.type("\x1b[A\x1b[A\r")
    p.expect("get kept-1: not found")
    p.ready()
    p.type("\x12pt-2\r")  # ^R
    p.expect("get kept-2: not found")
    p.ready()
    assert p.end() == 0
    assert history(tmp_path) == ["get kept-1", "get kept-2", "get kept-1", "get kept-2"]


def test_history_that_cannot_be_kept(prompt, tmp_path):
    (tmp_path / "state").write_text("a file, where a folder is wanted")
    p = prompt().ready()
    assert re.search(r"kv-cli: history /.*: (Not a directory|File exists)", p.seen), p.seen
    p.do("get x")
    p.type("\x1b[A\r")
    p.expect("get x: not found")
    p.ready()
    assert p.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_leave_the_terminal_as_it_was(prompt, number):
    p = prompt().ready()
    wait_until("the line is edited", p.modes, 10)
    p.type("get half")
    p.expect("get half")
    os.kill(p.pid, signal.SIGTSTP)
    wait_until("it is stopped", lambda: open(f"/proc/{p.pid}/stat").read().split()[2] == "T", 10)
    assert not p.modes()
    os.kill(p.pid, signal.SIGCONT)
    wait_until("the line is edited again", p.modes, 10)
    p.resize(10, 40)
    p.line("-way")
    p.expect("get half-way: not found")
    p.ready()
    p.type("get half")
    p.expect("get half")
    os.kill(p.pid, number)
    wait_until("it is gone", lambda: open(f"/proc/{p.pid}/stat").read().split()[2] == "Z", 10)
    assert not p.modes()
    assert p.wait() == -number


def test_dumb_terminal(prompt):
    p = prompt(TERM="dumb").ready()
    assert p.do("get never-there").endswith("kv-cli: get never-there: not found\n")
    assert p.end() == 0


def test_output_elsewhere(shared, tmp_path):
    """The prompt is on stderr where stdout is none; a terminal that only gives lines has none."""
    command = " ".join(Cli(shared.address).base)
    for to, prompted in (("out", True), ("out 2>err", False)):
        p = Terminal(["/bin/sh", "-c", f"cd {tmp_path} && {command} >{to}"],
                     {"HOME": str(tmp_path)})
        if prompted:
            p.expect("> ")
        p.line("exists never-there")
        p.line("quit")
        assert p.wait() == (0 if prompted else 1)
        assert (tmp_path / "out").read_text() == "no\n"
        assert ("> " in p.seen) == prompted
        p.close()


def test_long_lines_at_the_prompt(prompt, cli):
    p = prompt().ready()
    p.line("put long-line " + "v" * 20000)
    p.expect("stored, version")
    p.ready()
    assert cli.get("long-line") == b"v" * 20000
    assert p.end() == 0


def test_a_server_that_goes_away_and_comes_back(prompt, world):
    server = world.server(memory="128M")
    p = prompt("--timeout", "1000", address=server.address).ready()
    p.do("put gone soon")
    server.crash()
    for _ in range(2):
        said = p.do("get gone")
        assert re.search(r"kv-cli: get gone: .*(refused|lost|did not answer)", said), said
    again = world.server(listen=server.address, memory="128M")
    wait_until("it is connected again", lambda: "not found" in p.do("get gone"), 20)
    assert p.do("put back again").startswith("stored")
    assert world.cli(again).get("back") == b"again"
    assert p.end() == 0


def test_no_server(prompt):
    p = prompt(address=f"{HOST}:{free_port()}")
    assert p.wait() == 3
    assert re.fullmatch(r"kv-cli: [^\n]*refused[^\n]*\r\n", p.seen), p.seen


# Scripts: the rest in tests/unit/kv-cli/test_shell.c


def test_script(cli):
    result = cli(stdin=b"# numbers\nput scripted 'one two'\nget scripted\n\nincr scripts 5\n")
    assert result.rc == 0 and result.err == ""
    assert re.fullmatch(rb"stored, version \d+\none two\n5\n", result.out)
    assert b"> " not in result.out


def test_script_ends_with_a_signal(cli, tmp_path):
    """Also where the line under way watches for it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        it = Process(cli.base, tmp_path / "stderr", stdin=subprocess.PIPE)
        it.popen.stdin.write(b"ping -c 100000\nput s6 1\n")
        it.popen.stdin.close()
        assert "seq=0" in it.read_line(20)
        it.signal(number)
        assert it.wait(20) == -number
        assert cli("exists", "s6").rc == 1
