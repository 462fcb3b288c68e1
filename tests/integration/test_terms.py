# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Writes on terms as frames: what a retry of one is answered, and that it is not applied again."""
import time

import pytest

from kvt_process import wait_until
from kvt_rogue import DEL, GET, INCR, INLINE, PATIENT, PUT, RETRY, TOUCH, used_blocks

ENOENT, ENOMEM, EEXIST, ERANGE, EDOM = -2, -12, -17, -34, -33
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


def test_retry_of_what_was_lost_is_applied_once(world, clean, rogue):
    it = rogue(clean)
    number(it, 1, 1)
    fields = {"op": INCR, "key": 1, "operand": 1, "flags": RETRY, "sequence": 500}
    first = write(it, **fields)
    assert (first["status"], first["number"]) == (0, 6)
    assert write(it, **fields) == first
    assert there(it, 1)[1] == first["version"]
    fields = {"op": PUT, "key": 2, "condition": IF_ABSENT, "flags": INLINE | RETRY,
              "value_len": 1, "sequence": 600}
    first = write(it, **fields)
    assert first["status"] == 0
    assert write(it, **fields) == first, "not: it is there"


def test_retry_of_what_was_refused_gets_its_reply(world, clean, rogue):
    """Also where it would be applied by now."""
    it, other = rogue(clean), rogue(clean)
    version = number(it, 1, 1)
    largest = (1 << 63) - 1
    for sequence, status, fields in [
            (100, EEXIST, {"op": PUT, "condition": IF_ABSENT, "flags": INLINE, "value_len": 1}),
            (101, EEXIST, {"op": PUT, "condition": IF_VERSION, "operand": version + 1,
                           "flags": INLINE, "value_len": 1}),
            (102, EEXIST, {"op": DEL, "condition": IF_VERSION, "operand": version + 1}),
            (103, ERANGE, {"op": INCR, "operand": largest})]:
        first = write(it, key=1, sequence=sequence, **fields)
        assert (first["status"], first["number"]) == (status, 0)
        assert first["version"] == (version if status == EEXIST else 0)
        assert other.call(op=DEL, key=1)["status"] == 0
        fields["flags"] = fields.get("flags", 0) | RETRY
        assert write(it, key=1, sequence=sequence, **fields) == first
        assert there(it, 1)[0] == ENOENT
        version = number(other, 1, 1)
    for sequence, status, fields in [
            (200, ENOENT, {"op": PUT, "condition": IF_PRESENT, "flags": INLINE, "value_len": 1}),
            (201, ENOENT, {"op": TOUCH, "ttl_ms": MINUTE})]:
        first = write(it, key=2, sequence=sequence, **fields)
        assert first["status"] == status
        made = number(other, 2, 1)
        fields["flags"] = fields.get("flags", 0) | RETRY
        assert write(it, key=2, sequence=sequence, **fields) == first
        assert there(it, 2)[1] == made
        assert other.call(op=DEL, key=2)["status"] == 0
    it.put(3, 2, fill=ord("x"))
    assert it.call(op=INCR, key=3, operand=1)["status"] == EDOM


@pytest.mark.parametrize("size", [1000, 100000], ids=["inline", "pulled"])
def test_a_full_store_says_what_the_record_decides(world, rogue, size):
    """Not that it is full; and no value is fetched for that."""
    server = world.server(*PATIENT, memory="16M")
    it, other, keys = rogue(server), rogue(server), 1
    version = number(it, 1, 1)
    for fill in (100000, size):
        while it.put(keys + 1, fill) == 0:
            keys += 1
            assert keys < 10000
    assert it.put(keys + 1, size, waited_ms=1000000) == ENOMEM
    pulled = world.cli(server).stats()["pulled_bytes"]
    inline = INLINE if size <= 1000 else 0
    for sequence, status, fields in [
            (1 << 40, EEXIST, {"key": 1, "condition": IF_ABSENT}),
            (1 << 41, EEXIST, {"key": 1, "condition": IF_VERSION, "operand": version + 1}),
            (1 << 42, ENOENT, {"key": keys + 1, "condition": IF_PRESENT}),
            (1 << 43, ENOENT, {"key": keys + 1, "condition": IF_VERSION, "operand": version})]:
        fields |= {"op": PUT, "value_len": size, "sequence": sequence}
        first = write(it, flags=inline, **fields)
        assert (first["status"], first["version"]) == (status, version if status == EEXIST else 0)
        if fields["key"] == 1 and sequence == 1 << 41:
            assert other.call(op=DEL, key=1)["status"] == 0
        assert write(it, flags=inline | RETRY, **fields) == first, "whatever was done since"
    assert world.cli(server).stats()["pulled_bytes"] == pulled


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
