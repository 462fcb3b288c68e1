/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A reader's hands inside its sections: the library's look-ups run as they are, but each of their
 * READs goes through here. Some are held up, before or after, by a pause, a stop of the process or
 * its end; and before the section goes on, what it has reached is looked up in the pipe.
 */
#include "client/src/link/handle.h"
#include "tests/stress/torture/torture.h"

/* The moment at which a bucket was READ: between two counts of frees. */
struct hold_named {
	bool read; /* in this look-up */
	uint64_t before, since;
	struct memory_place segment; /* where the bucket is what the directory promised */
	bool segment_held;
};

struct hold {
	struct shared *s;
	struct seat *seat;
	struct gkv *h;
	const struct reader_ops *real;
	struct reader_ops ops;
	uint64_t *random;
	uint64_t pause_at_ns; /* the next one */
	unsigned extent; /* the last one that a READ went to */
	struct hold_named named[READER_BATCH];
	uint64_t torn; /* stats.retry_checksum so far */
};

/* hold_take - from now on READs of handle @h go through @hold, which lives as long as it does. */
void hold_take(struct hold *hold, struct shared *s, struct seat *seat, struct gkv *h,
	       uint64_t *random);

/* hold_begin - a look-up begins: what was reached before is let go of. */
void hold_begin(struct hold *hold);

/* hold_up - where it is time for it: pause, stop, or end this process. */
void hold_up(struct hold *hold);

/* hold_alive - whether the handle's queue pair still brings bytes: READs the epoch. */
bool hold_alive(struct hold *hold);

/*
 * hold_place - which address a READ goes to. False: none of an extent that is known. An extent that
 * was released may have stood at the same address: the key tells.
 */
bool hold_place(struct hold *hold, const struct read_op *op, struct memory_place *out,
		enum extent_kind *kind);
