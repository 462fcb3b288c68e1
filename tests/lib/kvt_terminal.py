# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""kv-cli on a terminal of its own: what is typed, and what a person would see."""
import fcntl
import os
import pty
import re
import resource
import select
import signal
import struct
import termios
import time

from kvt_process import SLOW, environment, sanitizer_report

# Control sequences of the terminal: they move the cursor, and are no text.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\([A-Z0-9]")
PIECES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b")


def screen(raw, rows, columns):
    """What a terminal shows that got these bytes: lines without the spaces at their ends. It knows
    the sequences of a page that is drawn from its top; a text that goes on beyond a line, or a page
    beyond the last one, is a failure."""
    lines = [[" "] * columns for _ in range(rows)]
    y = x = 0
    for piece in PIECES.findall(raw):
        if piece == "\r":
            x = 0
        elif piece == "\n":
            y += 1
            assert y < rows, f"the page is longer than {rows} lines: {raw!r}"
        elif piece == "\x1b[H":
            y = x = 0
        elif piece == "\x1b[K":  # after the last column the cursor stands on it
            lines[y][min(x, columns - 1):] = " " * (columns - min(x, columns - 1))
        elif piece in ("\x1b[J", "\x1b[2J"):
            if piece == "\x1b[2J":
                lines[0:y] = [[" "] * columns for _ in range(y)]
                lines[y] = [" "] * columns
            lines[y][x:] = " " * (columns - x)
            lines[y + 1:] = [[" "] * columns for _ in range(rows - y - 1)]
        elif piece[0] != "\x1b":
            assert x + len(piece) <= columns, f"wider than {columns}: {piece!r}"
            lines[y][x:x + len(piece)] = piece
            x += len(piece)
    return ["".join(line).rstrip() for line in lines]


class Terminal:
    """A program under a pseudo-terminal that it controls, as a shell would start it."""

    def __init__(self, args, env=None, rows=24, columns=120):
        full = environment({"TERM": "xterm", **(env or {})})
        self.seen = ""  # all that came, as text
        self.raw = ""  # as it was
        self.at = 0  # from here on expect() looks
        self.status = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.execve(args[0], args, full)
            finally:
                os._exit(127)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self.fd, data):]

    def line(self, text):
        self.type(text + "\r")

    def pump(self, seconds):
        """Read what comes within the time. False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the last one to have the terminal has closed it
            return False
        text = data.decode("utf-8", errors="replace")
        self.raw += text
        self.seen = CONTROL.sub("", self.seen + text)
        return bool(data)

    def expect(self, what, seconds=20):
        """The text up to what a regular expression finds, and that, are behind us then."""
        deadline = time.monotonic() + seconds * SLOW
        while True:
            found = re.compile(what).search(self.seen, self.at)
            if found:
                before = self.seen[self.at:found.start()]
                self.at = found.end()
                return before, found
            left = deadline - time.monotonic()
            assert left > 0, f"no {what!r} in {self.seen[self.at:]!r}, after {self.seen!r}"
            assert self.pump(left), f"ended without {what!r}: {self.seen!r}"

    def ask(self, line, prompt):
        """Type a line at the prompt; what is printed until the prompt comes again."""
        self.line(line)
        self.expect(r"\r\n")
        return self.expect(prompt)[0]

    def modes(self):
        """Are lines edited by the program: is the terminal raw?"""
        return not termios.tcgetattr(self.fd)[3] & termios.ICANON

    def wait(self, seconds=20):
        """The exit code, or minus the signal's number."""
        deadline = time.monotonic() + seconds * SLOW
        while self.status is None:
            self.pump(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                assert time.monotonic() < deadline, f"does not end: {self.seen!r}"
        while self.pump(0.2) and select.select([self.fd], [], [], 0)[0]:
            pass
        report = sanitizer_report(self.seen)
        assert not report, report
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self.fd)
