# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Running programs with the interposing library in front of libibverbs.

environment: PRELOAD: the library; SOFTRDMA_RUN: the program; HELPERS: folder of the test programs.
"""
import functools
import os
import re
import subprocess

PRELOAD = os.environ["PRELOAD"]
SOFTRDMA_RUN = os.environ["SOFTRDMA_RUN"]
HELPERS = os.environ["HELPERS"]
TIMEOUT = 60


def helper(name):
    return os.path.join(HELPERS, name)


@functools.lru_cache(maxsize=None)
def sanitizer():
    """The runtime of AddressSanitizer, where the library was built with it: it must come first."""
    text = subprocess.run(["ldd", PRELOAD], check=True, stdout=subprocess.PIPE,
                          universal_newlines=True, timeout=TIMEOUT).stdout
    return re.findall(r"=> (\S*/libasan\S+)", text)


def environment(preload=(), leaks=False, **more):
    """An environment with these libraries preloaded, and no trace of another one's.

    LD_LIBRARY_PATH, as meson sets it, has the folder of the drop-in. leaks: a sanitizer shall look
    for leaks; programs and drivers of others have some.
    """
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("LD_", "SOFTRDMA_"))}
    libraries = sanitizer() + list(preload)
    if libraries:
        variables["LD_PRELOAD"] = ":".join(libraries)
    if sanitizer() and not leaks:
        variables["ASAN_OPTIONS"] = variables.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    variables.update(more)
    return variables


def run(*command, env=None):
    """Run a program to its end: exit code, output and errors."""
    return subprocess.run(command, env=env if env is not None else environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=TIMEOUT,
                          check=False)
