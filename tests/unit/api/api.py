# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What the public header, the list of exported symbols and the manual pages say."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
INCLUDE = ROOT / "client" / "include"
HEADER = INCLUDE / "gracekv.h"
MAP = ROOT / "client" / "src" / "gracekv.map"
EXAMPLES = ROOT / "client" / "examples"
PAGES = ROOT / "docs" / "man"

CC = os.environ.get("CC", "cc").split()
CXX = os.environ.get("CXX", "c++").split()
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# A library with a sanitizer wants programs with the same one.
SANITIZE = os.environ.get("SANITIZE", "none")
SANITIZER = [] if SANITIZE == "none" else [f"-fsanitize={SANITIZE}"]


def run(*command, text="", env=None):
    """(return code, stdout, stderr) of a program that must end by itself."""
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", timeout=300, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})})
    return done.returncode, done.stdout, done.stderr


def good(*command, **how):
    """stdout of a program that must succeed and complain of nothing."""
    rc, out, err = run(*command, **how)
    assert rc == 0 and not err, f"{' '.join(map(str, command))}: exit {rc}\n{err}"
    return out


def code_of(text):
    """C without its comments."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def squeeze(text):
    """One space where there is any, none beside brackets, stars and commas."""
    return re.sub(r" ?([*(),;{}]) ?", r"\1", " ".join(text.split()))


class Header:
    """Functions, types and words of a header's text."""

    def __init__(self, text):
        code = re.sub(r"^\s*#(?!define).*$", "", code_of(text), flags=re.M)
        self.words = set(re.findall(r"\b(?:gkv|GKV)_\w+", code))
        self.exported = set(re.findall(r"\bGKV_API\b(?!\s+__)[^;(]*?\b(gkv_\w+)\(", code))
        self.inline = set(re.findall(r"\bstatic inline [^;(]*?\b(gkv_\w+)\(", code))
        self.functions = self.exported | self.inline
        bare = re.sub(r"\bGKV_API\b|\bstatic inline\b", "", code)
        self.declarations = {squeeze(one) for one in re.findall(
            r"^\s*((?:typedef |const )?\w[\w ]*[ *]\(?\*?gkv_\w+\)?\([^;{]*\))\s*[;{]",
            re.sub(r"^#.*$", "", bare, flags=re.M), flags=re.M)}
        self.structs = {name: squeeze(body) for name, body in re.findall(
            r"\bstruct (gkv_\w+)\s*\{(.*?)\};", code, flags=re.S)}

        self.errors, self.errors_of_all = self.told(text)

    @staticmethod
    def told(text):
        """({function: errors that the comment above it and its group names}, those that the
        comment on top of the header names). Comments beside code belong to nothing."""
        of, common = {}, set()
        for comment, below in re.findall(r"^/\*(.*?)\*/(.*?)(?=^/\*|\Z)", text, flags=re.S | re.M):
            errors = set(re.findall(r"-(E[A-Z]+)\b", comment))
            if "any call on a handle" in comment and "Errors" in comment:
                common |= errors
            code = re.sub(r"^\s*#.*$", "", code_of(below), flags=re.M)
            for name in re.findall(r"\b(?:GKV_API|static inline)\b[^;(]*?\b(gkv_\w+)\(", code):
                of[name] = errors
        return of, common

    def fields(self, struct):
        return re.findall(r"(\w+)(?:\[\w+\])?;", self.structs[struct])


def mapped(text):
    """The symbols that a version script exports."""
    code = re.sub(r"#.*", "", text)
    return set(re.findall(r"\b(\w+);", code.split("local:")[0]))


class Page:
    """A manual page's source."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        lines = re.sub(r"^;.*$", "", text, flags=re.M)
        self.sections = re.findall(r"^# (.*)$", lines, flags=re.M)
        parts = re.split(r"^# .*$", lines, flags=re.M)
        self.title = parts[0].strip()
        self.section = dict(zip(self.sections, parts[1:]))
        self.named = [word.strip() for word in
                      self.section.get("NAME", "").strip().split(" - ")[0].split(",")]

    def blocks(self, section):
        """Its literal blocks."""
        return re.findall(r"^```\n(.*?)^```$", self.section.get(section, ""), flags=re.S | re.M)


def read_pages():
    """{name: Page}"""
    suffix = ".3.scd"
    return {path.name[:-len(suffix)]: Page(path.name[:-len(suffix)], path.read_text("utf-8"))
            for path in sorted(PAGES.glob("*" + suffix))}
