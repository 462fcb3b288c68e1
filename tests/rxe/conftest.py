# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The fixtures of the integration tests, and the server's guest."""
import importlib.util
import json
import pathlib

import pytest

from kvt_remote import RemoteProcess, ask

EXTENT = 4 << 20  # bytes, the smallest

PATH = pathlib.Path(__file__).resolve().parents[1] / "integration" / "conftest.py"
spec = importlib.util.spec_from_file_location("integration_conftest", PATH)
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)
world = theirs.world
pytest_configure = theirs.pytest_configure


class Place:
    """The server's guest."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        self.started = []

    def start(self, *args):
        self.count += 1
        process = RemoteProcess(list(map(str, args)), self.folder / f"there.{self.count}.stderr")
        self.started.append(process)
        return process

    def run(self, *args):
        process = self.start(*args)
        assert process.wait(20) == 0, f"{args}: {process.stderr()}"

    def of_sessions(self):
        """What its device has, but for the regions that memory for records grows by."""
        process = self.start("rdma", "-j", "res", "show", "mr")
        small = [mr for mr in json.loads(process.read_line(20)) if mr.get("mrlen", 0) < EXTENT]
        return {**ask("resources"), "mr": len(small)}

    def end(self):
        for process in self.started:
            process.close()


@pytest.fixture
def there(tmp_path):
    place = Place(tmp_path)
    yield place
    place.end()
