/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a client did, as it stands in a file: one for each thread, written through a shared mapping,
 * so that nothing of it is lost when the process is killed. Little-endian. check/history.go reads
 * it; both change together, with HISTORY_MAGIC.
 *
 * A file is a head of 64 bytes and records of 64 bytes, in the order in which they were begun. The
 * first one with call_ns 0 is the end: the file is longer.
 *
 * Times are CLOCK_MONOTONIC of the one machine on which all clients and the supervisor run. An
 * operation begins after call_ns was taken and has ended before return_ns was taken.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/layout/fields.h"

#define HISTORY_MAGIC 0x3230545349484b47ull /* "GKHIST02" */

struct history_head {
	uint64_t magic;
	uint32_t process; /* number of the client process, from 1; never given twice in a run */
	uint32_t thread; /* of the process, from 0 */
	uint64_t reserved[6]; /* 0 */
};

static_assert(sizeof(struct history_head) == 64, "history_head");

enum history_op {
	HISTORY_GET = 1,
	HISTORY_EXISTS = 2, /* a get that tells the version and not the value */
	HISTORY_PUT = 3,
	HISTORY_PUT_NEW = 4, /* if the key is absent */
	HISTORY_PUT_OLD = 5, /* if it is present */
	HISTORY_CAS = 6, /* if it has the version `expected` */
	HISTORY_DEL = 7,
	HISTORY_DEL_IF = 8, /* if it has the version `expected` */
	HISTORY_INCR = 9,
	HISTORY_APPEND = 10,
	HISTORY_GETDEL = 11,
};

/* By which of the client's ways it went; the model does not depend on it. */
enum history_way {
	HISTORY_CALL = 0, /* a call; of a get: one-sided, with hints */
	HISTORY_NO_HINTS = 1, /* a get one-sided, without hints */
	HISTORY_VIEW = 2,
	HISTORY_INTO = 3, /* a get into registered memory */
	HISTORY_BATCH = 4, /* part of an mget, mput or mdel: each part is an operation */
	HISTORY_FLIGHT = 5, /* gkv_submit() */
	HISTORY_ASKED = 6, /* a get by request to the server */
};

enum history_outcome {
	HISTORY_OPEN = 0, /* may have been applied, or may be at any later time, once at most */
	HISTORY_DONE = 1, /* status says what it did */
	HISTORY_UNKNOWN = 2, /* was applied between call_ns and return_ns, once, or never will be */
	HISTORY_FAILED = 3, /* did nothing, never will: `status` says why */
};

/*
 * A value is told as one number. What clients write as bytes has bits 63 and 62 of 01, and is
 * unique in a run; what they write as decimal text, for INCR, is that number, as an int64_t, of
 * less than 2^61. HISTORY_GARBAGE: what was read is no value that anyone writes: torn, or foreign.
 *
 * What is appended is 16 bytes that have such a number, too. What is appended where nothing is
 * makes a value that is told as this number. A value with more at its end is told as a hash of the
 * number before and that of the addition, with bits 63 to 61 of 101 (value_fold()).
 */
#define HISTORY_BYTES	 0x4000000000000000ull
#define HISTORY_GARBAGE	 0x8000000000000000ull
#define HISTORY_APPENDED 0xa000000000000000ull

/*
 * offset  size
 *      0     8  call_ns     stored last, with release: then the fields up to `expected` stand
 *      8     8  return_ns   stored after all others, with release; of an OPEN one: when its call
 *                           gave up, or 0: it never returned
 *     16     4  slot        which of the keys that there are at a time
 *     20     4  generation  a slot's key is replaced by another one now and then; slot and
 *                           generation together name a key
 *     24     1  op          enum history_op
 *     25     1  way         enum history_way
 *     26     1  outcome     enum history_outcome
 *     27     1  reserved    0
 *     28     4  status      0 or a negative errno, as the client library returned it
 *     32     8  value       PUT, PUT_NEW, PUT_OLD, CAS: what is written; APPEND: what is added;
 *                           INCR: the delta, int64_t
 *     40     8  expected    CAS, DEL_IF: the version that must be there
 *     48     8  seen        GET, GETDEL: the value; INCR: the sum, int64_t; status 0 only
 *     56     8  version     of the record that was read or written, with -EEXIST of the one that
 *                           is there; GETDEL: of the one that it deleted; DEL: its own, which no
 *                           record has; 0: was not told
 */
struct history_record {
	_Atomic uint64_t call_ns;
	_Atomic uint64_t return_ns;
	uint32_t slot;
	uint32_t generation;
	uint8_t op;
	uint8_t way;
	uint8_t outcome;
	uint8_t reserved;
	int32_t status;
	uint64_t value;
	uint64_t expected;
	uint64_t seen;
	uint64_t version;
};

LAYOUT(struct history_record, 64, call_ns, 0, return_ns, 8, slot, 16, generation, 20, op, 24, way,
       25, outcome, 26, reserved, 27, status, 28, value, 32, expected, 40, seen, 48, version, 56);
