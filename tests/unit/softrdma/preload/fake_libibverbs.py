#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""A libibverbs for tests: each function that is interposed notes that it was called.

usage: fake_libibverbs.py functions FUNCTIONS.H > fake_functions.inc
       fake_libibverbs.py map FUNCTIONS.H SCRIPT > fake.map

functions: C code, to be included by fake_libibverbs.c, which has the functions that do more itself.
map: SCRIPT is the version script of the library under test; the fake gets its nodes, functions
and one more node for the test's handle on it.
"""
import re
import sys

# In fake_libibverbs.c.
WITH_CODE = {"ibv_get_device_list", "ibv_free_device_list", "ibv_import_device"}


def functions(header):
    with open(header, encoding="ascii") as file:
        names = re.findall(r'^\tF\((\w+),', file.read(), re.MULTILINE)
    return [name for name in names if name.startswith(("ibv_", "_ibv_"))]


def main():
    if sys.argv[1:2] == ["functions"] and len(sys.argv) == 3:
        for name in functions(sys.argv[2]):
            if name not in WITH_CODE:
                print(f"FAKE({name})")
    elif sys.argv[1:2] == ["map"] and len(sys.argv) == 4:
        with open(sys.argv[3], encoding="ascii") as file:
            lines = file.read().splitlines()
        text = "\n".join(line for line in lines if "\trdma_" not in line)
        print(text.replace("global:\n}", "}"))
        print("FAKE { global: fake_handle; };")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
