# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The exchange over IPv6, and the GID that a connection gets then."""
import pytest

from kvt_client import Cli
from kvt_process import CONNECT, HOST6


def put_and_get(world, connect):
    """A server on the IPv6 address and its client; what the server said."""
    server = world.server("--log-level", "debug", memory="64M", listen=f"[{HOST6}]:0",
                          connect=connect)
    assert server.address.startswith(f"[{HOST6}]:")
    cli = Cli(server.address, connect=connect)
    cli.put("family", b"six" * 5000)
    assert cli.get("family") == b"six" * 5000
    return server.stderr()


def test_exchange_over_ipv6(world):
    put_and_get(world, CONNECT)


@pytest.mark.kernel_device
def test_gid_of_the_exchange_over_ipv6(world):
    said = put_and_get(world, "tcp")
    assert f" {HOST6}: RoCE v2, the address of the TCP exchange" in said.split("session 1:")[1]


@pytest.mark.kernel_device
def test_gid_that_the_cm_takes_for_ipv6(world):
    chosen = [line for line in put_and_get(world, "cm").splitlines() if "the CM chose" in line]
    assert chosen and all(f" {HOST6} (RoCE v2)" in line for line in chosen), chosen
