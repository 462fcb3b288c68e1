# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Writes on terms as frames: what a retry of one is answered, and that it is not applied again.
What else there is to a retry: tests/unit/write/test_write.c."""
import time

import pytest

from kvt_process import wait_until
from kvt_rogue import DEL, GET, INCR, INLINE, PUT, RETRY, TOUCH, used_blocks

ENOENT = -2
IF_ABSENT, IF_PRESENT, IF_VERSION = 1, 2, 3
FIVE = ord("5")
MINUTE = 60000


def number(it, key, digits, **fields):
    """A record whose value is so many fives; its version."""
    reply = it.call(op=PUT, key=key, value_len=digits, flags=INLINE, fill=FIVE, **fields)
    assert reply["status"] == 0
    return reply["version"]


def write(it, key, **fields):
    """The reply to it, without what stands in the staging memory."""
    reply = it.call(key=key, **fields)
    del reply["first"]
    return reply


def there(it, key):
    """(status, version, value_len) of a key."""
    reply = it.call(op=GET, key=key)
    return reply["status"], reply["version"], reply["value_len"]


# What is applied is remembered: (what to ask, given the record's version; what else of the reply)
APPLIED = {
    "incr": (lambda version: {"op": INCR, "operand": 7}, {"number": 562}),
    "decr": (lambda version: {"op": INCR, "operand": (1 << 64) - 556}, {"number": -1}),
    "touch": (lambda version: {"op": TOUCH, "ttl_ms": MINUTE}, {"value_len": 3}),
    "put_if_version": (lambda version: {"op": PUT, "flags": INLINE, "value_len": 4,
                                        "condition": IF_VERSION, "operand": version},
                       {"value_len": 4}),
    "put_if_present": (lambda version: {"op": PUT, "flags": INLINE, "value_len": 5,
                                        "condition": IF_PRESENT}, {"value_len": 5}),
    "put_if_version_large": (lambda version: {"op": PUT, "value_len": 30000,
                                              "condition": IF_VERSION, "operand": version},
                             {"value_len": 30000}),
    "del_if_version": (lambda version: {"op": DEL, "condition": IF_VERSION, "operand": version},
                       {}),
}


@pytest.mark.parametrize("reconnect", [False, True], ids=["same", "reconnect"])
@pytest.mark.parametrize("what", APPLIED)
def test_retry_of_what_was_applied_gets_its_reply(world, clean, rogue, what, reconnect):
    it, other = rogue(clean, client_id=77), rogue(clean)
    make, more = APPLIED[what]
    fields = {"key": 1, "sequence": 1000, **make(number(it, 1, 3))}
    first = write(it, **fields)
    assert first["status"] == 0 and first.items() >= more.items()
    state = there(other, 1)
    assert state[1] == (0 if what.startswith("del") else first["version"])
    for _ in range(2):
        if reconnect:
            it.close()
            it = rogue(clean, client_id=77)
        again = write(it, **{**fields, "flags": fields.get("flags", 0) | RETRY})
        assert again == first
        assert there(other, 1) == state, "it was applied again"
    last = number(other, 1, 3)
    again = write(it, **{**fields, "flags": fields.get("flags", 0) | RETRY})
    assert again == first, "whatever was written since"
    assert there(other, 1) == (0, last, 3)
    it.close()
    other.close()
    wait_until("one block is left", lambda: used_blocks(world.cli(clean)) == 1, 10)


def test_what_has_expired_is_absent_for_all(world, clean, rogue):
    it, cli = rogue(clean), world.cli(clean)
    for fields, status in [({"op": GET}, ENOENT), ({"op": DEL}, ENOENT),
                           ({"op": DEL, "condition": IF_VERSION}, ENOENT),
                           ({"op": TOUCH, "ttl_ms": MINUTE}, ENOENT),
                           ({"op": PUT, "condition": IF_PRESENT, "flags": INLINE}, ENOENT),
                           ({"op": PUT, "condition": IF_VERSION, "flags": INLINE}, ENOENT),
                           ({"op": PUT, "condition": IF_ABSENT, "flags": INLINE}, 0),
                           ({"op": INCR, "operand": 3}, 0)]:
        version = number(it, 1, 2, ttl_ms=1)
        time.sleep(0.01)
        if fields.get("condition") == IF_VERSION:
            fields["operand"] = version
        reply = it.call(key=1, **fields)
        assert reply["status"] == status, fields
        assert cli.stats()["records"] == (status == 0)
        if fields["op"] == INCR:
            assert (reply["number"], reply["expiry_ms"]) == (3, 0)
        assert it.call(op=DEL, key=1)["status"] == status
    assert number(it, 1, 1, ttl_ms=MINUTE) > 0
    before = it.call(op=GET, key=1)["expiry_ms"]
    assert it.call(op=INCR, key=1, operand=1)["expiry_ms"] == before > 0
    assert it.call(op=TOUCH, key=1, ttl_ms=2 * MINUTE)["expiry_ms"] > before
    assert it.call(op=TOUCH, key=1)["expiry_ms"] == 0
    assert it.call(op=GET, key=1)["expiry_ms"] == 0
