/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The floor of what reads: READs on a queue pair of the library's, nothing around the verbs. For a
 * handle that has written nothing: the completion of a request's SEND may come after its reply.
 */
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "client/src/link/handle.h"

#define RAW_READS_MAX READER_BATCH /* of one chain */

/* Where they are posted, and where they go: a handle's, while no call on it is under way. */
struct raw_reads {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint8_t *to;
	uint32_t lkey;
};

static inline struct raw_reads raw_reads_of(const struct gkv *kv)
{
	return (struct raw_reads){ kv->qp.qp, kv->cq.cq, kv->reader.fetch.arena,
				   kv->reader.fetch.arena_lkey };
}

/* raw_read - one READ, waited for by polling. Returns 0 or a negative errno. */
int raw_read(const struct raw_reads *r, uint64_t addr, uint32_t rkey, uint32_t len);

/* A place in the server's memory. */
struct raw_place {
	uint64_t addr;
	uint32_t rkey;
};

/*
 * raw_place_of - where the block of a key lies, by a hint of the session's, so that READs of the
 * same blocks can be compared with gets. The handle's thread. Returns whether there is a hint.
 */
bool raw_place_of(const struct gkv *kv, const void *key, uint32_t len, struct raw_place *out);

/*
 * raw_read_chain - @count READs of @len bytes, at most RAW_READS_MAX, behind one doorbell, the last
 * of them signalled; they stand one after the other in @r->to. Likewise.
 */
int raw_read_chain(const struct raw_reads *r, const struct raw_place *at, unsigned count,
		   uint32_t len);
