# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Fixtures: servers and clients that are ended and judged at the end of the test."""
import pytest

from kvt_client import Cli, Client, layout
from kvt_process import DEVICE
from kvt_server import Server


class World:
    """What a test started."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = []
        self.clients = []

    def server(self, *args, **how):
        """A kv-server that is ready; kvt_server.Server says what can be given."""
        server = Server(self.folder, *args, **how)
        self.servers.append(server)
        return server

    def client(self, server, *options, **how):
        """A connected kv-test-client."""
        client = Client(self.folder, server.address, *options, **how)
        self.clients.append(client)
        return client

    def cli(self, server, **how):
        return Cli(server.address, **how)

    def end(self):
        """Clients first; then each server that no test has ended must stop in order."""
        failures = []
        for process, last in [(c, c.close) for c in self.clients] + [
                (s, s.finish) for s in self.servers]:
            try:
                last()
            except AssertionError as failure:
                failures.append(failure)
                process.kill()
        if failures:
            raise failures[0]


@pytest.fixture
def world(tmp_path):
    it = World(tmp_path)
    yield it
    it.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests of a module; each test uses keys of its own."""
    it = World(tmp_path_factory.mktemp("shared"))
    it.server(memory="512M")
    yield it.servers[0]
    it.end()


@pytest.fixture(scope="module")
def cli(shared):
    return Cli(shared.address)


@pytest.fixture(scope="session")
def kv_layout():
    return layout()


@pytest.fixture
def soft_device():
    if DEVICE != "soft0":
        pytest.skip(f"the fault is one of soft0, not of {DEVICE}")
