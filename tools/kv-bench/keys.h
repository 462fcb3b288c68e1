/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Which record is asked for. Numbers below `records` were loaded; inserts take the next ones, and
 * are read from when they, and all before them, were acknowledged (as YCSB's acknowledged counter
 * does it), so that a record that is missing is the store's fault.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/kv-bench/workload.h"
#include "tools/lib/zipf.h"

struct key_space {
	uint64_t records, most; /* loaded; and with inserts */
	_Atomic uint64_t next; /* the number of the next insert */
	_Atomic uint64_t limit; /* all below are there */
	pthread_mutex_t lock; /* protects there, and the way of limit */
	uint8_t *there; /* a bit for each insert */
};

/* key_space_init - for up to @inserts of them. Returns 0 or -ENOMEM. */
int key_space_init(struct key_space *k, uint64_t records, uint64_t inserts);
void key_space_free(struct key_space *k);

/* key_space_take - the number of an insert; false: there were as many as may be. Any thread. */
bool key_space_take(struct key_space *k, uint64_t *number);

/* key_space_acknowledge - it is there. Any thread. */
void key_space_acknowledge(struct key_space *k, uint64_t number);

/* Chooses for one thread. */
struct key_chooser {
	struct key_space *space;
	enum distribution distribution;
	struct zipf zipf; /* of all records that were loaded, or of latest: that there are */
};

/* key_choose - the number of a record that is there, for a random number. There is one. */
uint64_t key_choose(struct key_chooser *c, uint64_t random);
