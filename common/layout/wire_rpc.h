/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * RPC frames, carried by RC SENDs.
 *
 * Request, RPC_REQUEST_BYTES, then the key, then the value where RPC_INLINE_VALUE is set:
 *     0  magic         4 B   "GKRQ"
 *     4  op            1 B   enum rpc_op
 *     5  flags         1 B   enum rpc_flags
 *     6  slot          2 B   request slot of this queue pair, below its credits
 *     8  client_id    16 B   random, of the client process, registered at connect
 *    24  generation    8 B   of the session
 *    32  sequence      8 B   grows with every request of this client; never 0
 *    40  key_len       4 B
 *    44  value_len     4 B
 *    48  value_hash    8 B   XXH3 of the value, checked after it was pulled
 *    56  staging_addr  8 B   registered memory of the client: the value to pull (PUT, APPEND), or
 *    64  staging_len   4 B   room for the reply's value (GET, STATS, MEASURE)
 *    68  staging_rkey  4 B
 *    72  ttl_ms        8 B   writes but DEL: the record expires this long after the request; 0:
 *                          never. Where a record keeps its expiry: of one that is created
 *    80  waited_ms     4 B   since the first -EBUSY that this call got; 0: none yet
 *    84  condition     4 B   enum rpc_condition, which says of which operations
 *    88  operand       8 B   RPC_IF_VERSION: the version; INCR: what is added, two's complement
 *
 * A request slot carries one request at a time. A request in a slot acknowledges the reply of
 * the request before it there. A retry repeats slot and sequence with RPC_RETRY set.
 *
 * Reply, RPC_REPLY_BYTES, then the value where RPC_INLINE_VALUE is set; a longer value was
 * written into the staging memory before this SEND:
 *     0  magic         4 B   "GKRP"
 *     4  status        4 B   0, or a negative errno
 *     8  slot          2 B
 *    10  flags         2 B   RPC_INLINE_VALUE
 *    12  value_len     4 B   of the record, also where it did not fit (status -EMSGSIZE)
 *    16  sequence      8 B
 *    24  version       8 B   of the record read or written
 *    32  index_slot    8 B   where the record is: material for a hint; 0: none
 *    40  expiry_ms     8 B
 *    48  clock_ms      8 B   the server's wall clock
 *    56  incarnation   4 B   of the block at index_slot
 *    60  reserved      4 B
 *    64  number        8 B   INCR: the sum, two's complement; SAVE: of the snapshot
 *
 * PING may carry a value, which nobody looks at: what a SEND of that length costs. MEASURE carries
 * what a tool is about to measure, and is answered with what the server knows of it
 * (wire_measure.h). SAVE has nothing: a server with a data directory takes a snapshot, and answers
 * at once with the number of the one that will have all that was acknowledged until then.
 *
 * INCR takes a value that is a decimal number of 64 bits, with its sign, and nothing else; a key
 * that is not there counts as 0. It writes the sum as such, and keeps the record's expiry. APPEND
 * adds its value at the end of the record's, or creates the record, and keeps its expiry. TOUCH
 * rewrites the record with another expiry.
 *
 * Status values: -ENOENT no such key, -ENOMEM the store is full, -EINVAL malformed,
 * -EMSGSIZE staging too small, -EBADMSG the pulled value had another hash, -ESTALE the
 * generation is not current, -EREMOTEIO outcome unknown (a retry of a request that the server
 * has no memory of), -EOPNOTSUPP unknown op, or a SAVE without a data directory, -EBUSY not now:
 * try again. Of a condition: -EEXIST the record is there, or has another version, which is told,
 * and -ENOENT it is not there. Of INCR: -EDOM the value is no number, -ERANGE the sum is none of 64
 * bits. Of APPEND: -EFBIG the value would be longer than VALUE_MAX.
 */
#include <stdint.h>

#include "common/layout/fields.h"
#include "common/layout/limits.h"

#define RPC_REQUEST_MAGIC 0x51524b47u
#define RPC_REPLY_MAGIC	  0x50524b47u

enum rpc_op {
	RPC_PING = 1,
	RPC_GET = 2,
	RPC_PUT = 3,
	RPC_DEL = 4,
	RPC_STATS = 5,
	RPC_INCR = 6,
	RPC_TOUCH = 7,
	RPC_MEASURE = 8,
	RPC_APPEND = 9,
	RPC_SAVE = 10,
};

/* A write is applied only where the record is so. */
enum rpc_condition {
	RPC_ALWAYS = 0,
	RPC_IF_ABSENT = 1, /* PUT, APPEND, INCR */
	RPC_IF_PRESENT = 2, /* PUT, APPEND, INCR */
	RPC_IF_VERSION = 3, /* PUT, APPEND, DEL: it is there, in this version */
};

enum rpc_flags {
	RPC_INLINE_VALUE = 1, /* the value follows in this frame */
	RPC_RETRY = 2, /* may have been sent before, over a queue pair that was lost */
	RPC_KEEP_EXPIRY = 4, /* PUT: a record that it replaces expires as before */
};

struct rpc_request {
	uint32_t magic;
	uint8_t op;
	uint8_t flags;
	uint16_t slot;
	uint64_t client_id[2];
	uint64_t generation;
	uint64_t sequence;
	uint32_t key_len;
	uint32_t value_len;
	uint64_t value_hash;
	uint64_t staging_addr;
	uint32_t staging_len;
	uint32_t staging_rkey;
	uint64_t ttl_ms;
	uint32_t waited_ms;
	uint32_t condition;
	uint64_t operand;
};

struct rpc_reply {
	uint32_t magic;
	int32_t status;
	uint16_t slot;
	uint16_t flags;
	uint32_t value_len;
	uint64_t sequence;
	uint64_t version;
	uint64_t index_slot;
	uint64_t expiry_ms;
	uint64_t clock_ms;
	uint32_t incarnation;
	uint32_t reserved;
	int64_t number;
};

#define RPC_REQUEST_BYTES 96u
#define RPC_REPLY_BYTES	  72u
#define RPC_TTL_MAX_MS	  (100ull * 366 * 24 * 3600 * 1000) /* more than a hundred years */

/* What fits: a receive buffer for requests, and a reply that travels inline. */
#define RPC_REQUEST_MAX	     (RPC_REQUEST_BYTES + KEY_MAX + RPC_EAGER_MAX)
#define RPC_REPLY_INLINE_MAX 128u /* value bytes inside a reply */
#define RPC_REPLY_MAX	     (RPC_REPLY_BYTES + RPC_REPLY_INLINE_MAX)

/* A reply is one packet at every MTU: it comes whole or not at all, however a queue pair ends. */
static_assert(RPC_REPLY_MAX <= 256, "the smallest MTU");

LAYOUT(struct rpc_request, RPC_REQUEST_BYTES, magic, 0, op, 4, flags, 5, slot, 6, client_id, 8,
       generation, 24, sequence, 32, key_len, 40, value_len, 44, value_hash, 48, staging_addr, 56,
       staging_len, 64, staging_rkey, 68, ttl_ms, 72, waited_ms, 80, condition, 84, operand, 88);

LAYOUT(struct rpc_reply, RPC_REPLY_BYTES, magic, 0, status, 4, slot, 8, flags, 10, value_len, 12,
       sequence, 16, version, 24, index_slot, 32, expiry_ms, 40, clock_ms, 48, incarnation, 56,
       reserved, 60, number, 64);

/* A decoded request: pointers into the receive buffer. */
struct rpc_request_view {
	const struct rpc_request *header;
	const uint8_t *key; /* NULL for PING, STATS, MEASURE and SAVE */
	const uint8_t *value; /* NULL where the value is to be pulled, or there is none */
};

/*
 * rpc_request_decode - check a received frame of @len bytes; @frame is 8-byte aligned.
 * The frame is untrusted: every length is checked against @len and the limits.
 * Returns 0, or -EINVAL: it is no request, -EOPNOTSUPP: unknown op. @why: a short sentence on
 * failure. The caller checks client id, generation and slot against its session.
 */
int rpc_request_decode(const void *frame, uint32_t len, struct rpc_request_view *out,
		       const char **why);

/*
 * rpc_reply_decode - the same for a reply. @value: the inline value, or NULL.
 * Returns 0 or -EBADMSG.
 */
int rpc_reply_decode(const void *frame, uint32_t len, const struct rpc_reply **out,
		     const uint8_t **value);
