# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The report: one Markdown file, without names of machines, addresses or GUIDs."""
import ipaddress
import os
import pathlib
import platform
import re
import resource
import subprocess
import time

TAIL = 150  # lines of a log
LINE = re.compile(r"^(ok   |FAIL |skip ) (.*)$")
CMOCKA = re.compile(r"^\[ +(OK|FAILED) +\] (\w+)")
WORDS = {"ok": "passed", "FAIL": "FAILED", "skip": "skipped"}
ROOT = pathlib.Path(__file__).resolve().parents[2]


# What a program printed, as results: (result, name, log)

def lines(text):
    """Of the form of tests/run."""
    results = []
    for line in text.splitlines():
        if match := LINE.match(line):
            results.append([match[1].strip(), match[2], []])
        elif results and line.startswith("      | "):
            results[-1][2].append(line[8:])
    return results


def cmocka(text):
    """A failed test's words stand before the line that says so."""
    results, log = [], []
    for line in text.splitlines():
        match = CMOCKA.match(line)
        if match and match[2] != "tests":
            ok = match[1] == "OK"
            if [match[2]] != [name for _, name, _ in results[-1:]]:  # they are listed at the end
                results.append(["ok" if ok else "FAIL", match[2], [] if ok else log])
            log = []
        elif not line.startswith("[ RUN"):
            log.append(line)
    seen = set()
    return [one for one in results if not (one[1] in seen or seen.add(one[1]))]


def whole(_text):
    """One result, by the exit status."""
    return None


class Part:
    """A program that was run."""

    def __init__(self, name, text, results, code, seconds):
        self.name, self.text, self.code, self.seconds = name, text, code, seconds
        single = results is None
        self.results = [["ok" if code == 0 else "FAIL", name, []]] if single else results
        self.shown = single  # all that it printed is of interest
        if not single and code != 0 and not any(one[0] == "FAIL" for one in self.results):
            self.results.append(["FAIL", f"{name}: exit status {code}", []])
            self.shown = True

    def count(self, result):
        return sum(one[0] == result for one in self.results)

    def words(self):
        return (f"{self.name}: {self.count('ok')} passed, {self.count('FAIL')} failed,"
                f" {self.count('skip')} skipped, {self.seconds:.0f} s")


def output(*words):
    """What a program says, or why it says nothing."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              check=False, text=True, errors="replace")
        return done.stdout.strip()
    except FileNotFoundError:
        return f"{words[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def distribution():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown"


def limit(which):
    soft, hard = resource.getrlimit(which)
    return " / ".join("none" if one == resource.RLIM_INFINITY else f"{one}" for one in (soft, hard))


class Masks:
    """What names a machine or a network, replaced by words that are the same each time."""

    TOKEN = re.compile(r"(?<![\w:.])(?<!libibverbs )"
                       r"(?:\d+\.\d+\.\d+\.\d+(?::\d+)?|[0-9a-fA-F]{0,4}:[0-9a-fA-F:.]*)(?![\w:])")
    GUID = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?![\w:])")

    def __init__(self, names):
        names = {name: word for name, word in names.items() if name and name != "localhost"}
        self.names = sorted(names.items(), key=lambda pair: -len(pair[0]))
        self.seen = {}

    def numbered(self, kind, token):
        return self.seen.setdefault(token, f"{kind}-{len(self.seen) + 1}")

    def address(self, match):
        text = match[0].rstrip(".:") if not match[0].endswith("::") else match[0]
        rest = match[0][len(text):]
        port = ""
        try:
            if text.count(":") == 1:
                text, port = text.split(":")
                port = ":" + port
            it = ipaddress.ip_address(text)
        except ValueError:
            return match[0]
        inner = getattr(it, "ipv4_mapped", None) or it
        if inner.is_loopback or inner.is_unspecified:
            return match[0]
        return f"{self.numbered('address', text)}{port}{rest}"

    def __call__(self, text):
        for name, word in self.names:
            text = re.sub(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", word, text)
        text = self.GUID.sub(lambda match: self.numbered("guid", match[0]), text)
        return self.TOKEN.sub(self.address, text)


def guids(device):
    """In the forms in which programs print them."""
    folder = pathlib.Path("/sys/class/infiniband") / device
    found = {}
    for name in "node_guid", "sys_image_guid":
        try:
            text = (folder / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        found |= {text: name.replace("_", "-"), text.replace(":", ""): name.replace("_", "-")}
    return found


class Report:
    def __init__(self, options):
        self.options = options
        self.parts = []
        self.peer = None
        self.begun = time.strftime("%Y-%m-%d")

    def part(self, *what):
        self.parts.append(Part(*what))
        return self.parts[-1]

    def count(self, result):
        return sum(part.count(result) for part in self.parts)

    def counts(self):
        return (f"{self.count('ok')} passed, {self.count('FAIL')} failed, {self.count('skip')}"
                " skipped")

    def status(self):
        return 1 if self.count("FAIL") or not self.count("ok") else 0

    def facts(self):
        o = self.options
        facts = {
            "GraceKV": output(o.build / "bin/kv-server", "--version").replace("\n", "; "),
            "commit": output("git", "-C", ROOT, "describe", "--always", "--dirty"),
            "system": f"{distribution()}, Linux {platform.release()}, {platform.machine()}",
            "cores": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}",
            "device": o.device,
            "peer": f"Linux {self.peer.words}" if self.peer else "none: one machine",
            "locked memory, soft / hard": limit(resource.RLIMIT_MEMLOCK),
            "open files, soft / hard": limit(resource.RLIMIT_NOFILE)}
        if not o.device.startswith("soft"):
            facts["links"] = output("rdma", "link", "show").replace("\n", "; ")
        if o.quick or o.tests or self.left_out():
            facts["not all of it"] = "; ".join(filter(None, [
                "a glimpse of the gate's figures" if o.quick else "",
                f"tests {o.tests}" if o.tests else "",
                f"without {', '.join(self.left_out())}" if self.left_out() else ""]))
        return facts

    def left_out(self):
        return [name for name in ("doctor", "conformance", "integration", "ratios", "gate")
                if name not in self.options.only]

    def sections(self):
        yield f"# GraceKV on {self.options.device}\n"
        yield f"{self.begun}: {self.counts()}.\n"
        yield table(["", ""], [[name, text] for name, text in self.facts().items()])
        yield "\n## Results\n"
        yield table(["part", "passed", "failed", "skipped", "seconds"], [
            [part.name, *(str(part.count(r)) for r in ("ok", "FAIL", "skip")),
             f"{part.seconds:.0f}"] for part in self.parts])
        for part in self.parts:
            rows = [one for one in part.results if one[0] == "FAIL"]
            for _, name, log in rows if not part.shown else ():
                yield f"\n### FAILED {name}\n"
                yield fence(log[-TAIL:])
            if part.shown:
                yield f"\n## {part.name}{' (FAILED)' if rows else ''}\n"
                yield fence(part.text.splitlines()[-TAIL * 2:])
        if not self.options.device.startswith("soft"):
            yield "\n## ibv_devinfo\n"
            yield fence(output("ibv_devinfo", "-v", "-d", self.options.device).splitlines()
                        [:TAIL])
        yield "\n## All tests\n"
        yield table(["", "test", ""], [
            [WORDS[result], name, "; ".join(log) if result != "FAIL" else ""]
            for part in self.parts for result, name, log in part.results])

    def write(self):
        names = {platform.node(): "this-machine", platform.node().split(".")[0]: "this-machine",
                 os.path.expanduser("~"): "~" if os.getuid() else "",
                 self.options.peer or "": "the-peer", **guids(self.options.device)}
        if self.peer:
            names |= {self.peer.name: "the-peer", self.peer.name.split(".")[0]: "the-peer"}
        text = "\n".join(self.sections()) + "\n"
        if not self.options.names:
            text = Masks(names)(text.replace(f"{ROOT}/", ""))
        self.options.report.write_text(text, encoding="utf-8")


def table(head, rows):
    def line(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


def fence(text):
    """A block of code; nothing in it ends it."""
    return "\n".join(["~~~~~~", *(line.replace("~~~~~~", "~~~~~") for line in text), "~~~~~~"])
