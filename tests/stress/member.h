/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A thread in the process that holds the server: a writer or a local reader, which does what a
 * worker of the server does. It is a QSBR reader from member_begin() to member_end().
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/store/store.h"
#include "tests/stress/model.h"

struct member {
	unsigned number; /* among those of its kind */
	pthread_t thread;
	struct store_worker store;
	uint64_t seed, random; /* random: for model_random() */
	uint64_t tidy_at_ns; /* not before: there was no memory for it */
	char name[24];
};

/*
 * member_launch - @kind and @number make its name; @seed is that of the run and @id sets it apart
 * from all other members. main(arg) is its thread. Returns 0 or a negative errno.
 */
int member_launch(struct member *b, struct store *store, const char *kind, unsigned number,
		  uint64_t seed, unsigned id, void *(*main)(void *), void *arg);

/* member_join - wait for its end, which the caller has asked for. */
void member_join(struct member *b);

/* In its own thread, first and last. @disturb: interrupted at random moments in between. */
void member_begin(struct member *b, struct model *m, bool disturb);
void member_end(bool disturb);

/* member_tidy - go on with merges that were put off. What a look-up found is not held. */
void member_tidy(struct member *b);

/* member_quiescent - between two loops of a worker: the same, batches, a quiescent state. */
void member_quiescent(struct member *b);

/* member_nap - rest, offline. What a look-up found is not held. */
void member_nap(struct member *b, uint64_t us);

/*
 * member_put - one attempt at put @number of key @k, which has begun (model_begin()). Returns 0
 * with @out, or what store_put_begin() or store_put_commit() returned, and then nothing changed.
 */
int member_put(struct member *b, const struct model *m, uint32_t k, uint32_t number,
	       struct store_result *out);

/* member_wait - rest after @rc, which is for lack of memory; or return false: it is not. */
bool member_wait(struct member *b, int rc);
