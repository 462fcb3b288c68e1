# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Fixtures: servers and clients that are ended and judged at the end of the test."""
import os

import pytest

from kvt_client import Cli, Client, layout
from kvt_group import NODES, Group
from kvt_process import DEVICE, wait_until
from kvt_remote import device_resources
from kvt_rogue import KEEPER, PATIENT, Rogue, settled
from kvt_server import Server


# Of each test with parameters at most so many of its cases, spread over them; 0: all.
CASES = int(os.environ.get("GRACEKV_TEST_CASES", "0"))


def spread(items, count):
    """count of the items: the middle one, or the first, the last, and some between."""
    if not count or len(items) <= count:
        return items
    if count == 1:
        return [items[len(items) // 2]]
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


# What a test needs of the device; a test for another kind is no part of the suite on this one.
KINDS = {"kernel_device": not DEVICE.startswith("soft"), "soft_device": DEVICE.startswith("soft")}


def pytest_configure(config):
    config.addinivalue_line("markers", "kernel_device: a test for devices that the kernel knows")
    config.addinivalue_line("markers", "soft_device: a test for the software device")
    config.addinivalue_line("markers", "no_device: the test comes to no RDMA device, so that it"
                            " says the same whichever there is")


def wants(item, kind):
    """By its marker, or a fixture of that name."""
    return item.get_closest_marker(kind) or kind in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(config, items):
    """What is for this kind of device; and fewer cases, where that is asked for. Which, is the same
    in every run."""
    fit = [item for item in items
           if all(here or not wants(item, kind) for kind, here in KINDS.items())]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(fit)])
    items[:] = fit
    if not CASES:
        return
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {item for all_of_one in cases.values() for item in spread(all_of_one, CASES)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


@pytest.fixture(scope="module", autouse=True)
def nothing_left_on_the_device():
    """What the tests of a module made on a device of the kernel is gone after them."""
    if DEVICE.startswith("soft"):
        yield
        return
    before = device_resources()
    yield
    wait_until(f"{DEVICE} has again what it had before: {before}",
               lambda: device_resources() == before, 5, step=0.2)


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


@pytest.fixture
def rogue(world):
    """Makes rogues, and ends them before the others."""
    def make(server, handles=((0, 16, 32), (KEEPER, 0, 0)), client_id=0):
        it = Rogue(world.folder, server, client_id)
        world.clients.append(it)
        for handle in handles:
            it.ask("open", *handle)
        return it
    return make


@pytest.fixture
def clean(world):
    """A patient server, and at the end: alive, sessions and queue pairs gone, nothing deferred."""
    server = world.server(*PATIENT, memory="256M")
    yield server
    for client in world.clients:
        client.close()
    settled(world.cli(server))


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
    """For tests whose fault is one of soft0: see KINDS."""


@pytest.fixture
def group(tmp_path):
    """Three servers that are one store, with an etcd."""
    it = Group(tmp_path)
    for node in NODES:
        it.start(node)
        it.await_in_sync(*it.servers)
    yield it
    it.end()


@pytest.fixture
def client(world, group):
    """Makes clients that follow the group."""
    return lambda: world.client(group)
