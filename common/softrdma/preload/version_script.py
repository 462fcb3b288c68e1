#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Write the version script of the library that stands in front of libibverbs.

usage: version_script.py READELF LIBIBVERBS FUNCTIONS.H > SCRIPT

The script has all version nodes of the real libibverbs, those without a function of ours too: the
loader looks for the nodes that a program or driver needs in the first library that has the name
libibverbs.so.1, which is ours. Each function of FUNCTIONS.H comes into its node. One whose node
the real library does not have (an older release) is left out, so that it is not promised.
"""
import os
import re
import subprocess
import sys

PRIVATE = "IBVERBS_PRIVATE_"


def version_nodes(readelf, library):
    """The nodes that a library defines, in its order: [(name, [parents])]."""
    text = subprocess.run([readelf, "--wide", "--version-info", library], check=True,
                          stdout=subprocess.PIPE, universal_newlines=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    nodes = []
    inside = False
    for line in text.splitlines():
        if line.startswith("Version "):
            inside = line.startswith("Version definition")
        if not inside:
            continue
        if name := re.search(r"Flags: (\S+).*Name: (\S+)", line):
            if name[1] != "BASE":
                nodes.append((name[2], []))
        elif parent := re.search(r"Parent \d+: (\S+)", line):
            nodes[-1][1].append(parent[1])
    return nodes


def functions(header):
    """[(function, node)] of functions.h; node PRIVATE is IBVERBS_PRIVATE_ and some number."""
    with open(header, encoding="ascii") as file:
        return re.findall(r'^\tF\((\w+), "?([\w.]+)"?\)', file.read(), re.MULTILINE)


def script(nodes, wanted):
    lines = ["/* Written by version_script.py. */"]
    for name, parents in nodes:
        own = [f for f, node in wanted
               if node == name or (node == "PRIVATE" and name.startswith(PRIVATE))]
        lines.append(f"{name} {{")
        if own:
            lines += ["global:"] + [f"\t{function};" for function in own]
        if name == nodes[0][0]:
            lines += ["local:", "\t*;"]
        lines.append("}" + "".join(f" {parent}" for parent in parents) + ";")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: version_script.py READELF LIBIBVERBS FUNCTIONS.H")
    readelf, library, header = sys.argv[1:]
    nodes = version_nodes(readelf, library)
    if not nodes:
        sys.exit(f"version_script.py: {library} defines no versions: it is no libibverbs "
                 "(give its path with -Dlibibverbs_path=...)")
    sys.stdout.write(script(nodes + [("RDMACM_1.0", [])], functions(header)))


if __name__ == "__main__":
    main()
