/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The two ends of a ring (common/layout/ring_format.h): what the primary WRITEs next, and where;
 * and what a backup takes out. ring.c has the argument. Each end belongs to one thread at a time.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/layout/ring_format.h"

struct ring_sender {
	/* As agreed, from the beginning. */
	uint64_t ring_bytes; /* a multiple of RING_UNIT */
	uint64_t key;
	uint64_t ring_term;
	uint64_t end; /* position: of this primary's log, when it became primary */
	/* Both 0 at the beginning. */
	uint64_t place; /* of the next batch */
	uint64_t taken; /* what the backup has said last: below it the ring is free */
};

/* What a batch is to say; fields of struct ring_batch by their names. */
struct ring_say {
	uint64_t position, committed, term, clock_ms;
	uint64_t body; /* hash_bytes() of the records, which is the same for all rings */
	uint32_t bytes, records; /* 0, 0: RING_TELL */
};

/*
 * ring_send - headers to be written, each at its place modulo the ring's length: @out[0] alone, or
 * a RING_SKIP before @out[1]. The records follow the last one. Returns how many; 0: there is no
 * room until the backup has taken more, and nothing was changed.
 */
unsigned ring_send(struct ring_sender *s, const struct ring_say *say, struct ring_batch out[2]);

struct ring_receiver {
	/* As agreed, from the beginning. */
	const uint8_t *ring; /* another machine writes it */
	uint64_t ring_bytes;
	uint64_t key;
	uint64_t ring_term;
	uint8_t *copy; /* LOG_BATCH_RECORDS_MAX bytes of our own */
	/* 0 at the beginning. */
	uint64_t place; /* of the next batch */
	uint64_t taken; /* all below was copied out: what the primary is told */
	struct ring_batch batch; /* of the last one that was taken */
};

/*
 * ring_receive - take the next batch where it has come, whole: r->batch, its records in r->copy
 * until the next call. Returns true; false: nothing has come, or not all of it.
 */
bool ring_receive(struct ring_receiver *r);
