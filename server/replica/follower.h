/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What a member that is not primary holds of the log: batches go in as they come out of its ring,
 * records come out when they are committed. It lives as long as the member, over rings and terms;
 * follower.c has the argument. No queue pairs here, and no memory that others write. One thread at
 * a time.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/ring_format.h"

struct follower;

struct follower_config {
	uint64_t position; /* where it begins: all below is had in another way */
	/* A record that is committed, in their order. Returns 0, or a negative errno: it cannot. */
	int (*apply)(void *ctx, const struct log_record *r);
	void *ctx;
};

/* follower_open - returns 0 or -ENOMEM with @err. Takes addresses, and memory as records come. */
int follower_open(struct follower **out, const struct follower_config *config, struct error *err);
void follower_close(struct follower *f);

/*
 * follower_take - a batch that is whole (ring_receive()), and its records. Of a later ring_term
 * than the one before it is the first word of another primary: what lies beyond the end of that
 * one's log is dropped. Returns 0; -EPROTO with @err: it does not continue what is held, or says
 * what cannot be; -ENOBUFS: more is not committed than there may be. Then nothing was changed, and
 * the member is not fit to go on.
 */
int follower_take(struct follower *f, const struct ring_batch *b, const void *records,
		  struct error *err);

/*
 * follower_apply - what is committed, @bytes of it at most, or one record. Returns 1: there is
 * more; 0: there is none; negative, with @err: what apply() returned, and it was not applied;
 * -EPROTO: no record stands there.
 */
int follower_apply(struct follower *f, uint64_t bytes, struct error *err);

struct follower_state {
	uint64_t applied, committed, held; /* positions, in this order */
	uint64_t ring_term; /* of the last batch; 0: none has come */
	uint64_t clock_ms; /* of the group, as the last batch said */
};

void follower_look(const struct follower *f, struct follower_state *out);

/* What is held and may not be at others: whole records of one term. */
struct follower_piece {
	uint64_t position, term;
	const void *bytes;
	uint32_t len, records;
};

/*
 * follower_piece - from @at, which is in what is held, committed or later: as much as a batch
 * takes. False: nothing is held there. It stays until the next call of another function.
 * follower_rest - all of that at once: of committed to held. Returns its bytes.
 * follower_lead - this member is primary now, and all that must has what it holds: all of it is
 * committed. Nothing may be taken any more.
 */
bool follower_piece(const struct follower *f, uint64_t at, struct follower_piece *out);
const void *follower_rest(const struct follower *f);
void follower_lead(struct follower *f);
