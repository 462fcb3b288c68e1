/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* One thread of a run, and what the threads of a run share. */
#include <pthread.h>

#include "tools/lib/pace.h"
#include "tools/kv-bench/record.h"
#include "tools/kv-bench/run.h"

/* Of all threads of a run: they begin together, and close their connections together. */
struct run_shared {
	const struct run_plan *plan;
	struct key_space keys;
	_Atomic uint64_t next_delete;
	_Atomic bool over; /* one has failed, or there is no insert any more */
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t changed;
	unsigned ready, through; /* threads */
	bool go, close;
	uint64_t start_ns;
};

/* An operation of a workload in flight. */
struct client_slot {
	struct kv_op op;
	enum operation what;
	uint64_t number, start_ns;
	char key[RECORD_KEY_MAX];
	bool free;
};

struct client {
	struct run_shared *shared;
	const struct run_plan *plan;
	unsigned index;
	pthread_t thread;
	void *connection;
	struct client_slot *slot; /* depth of them */
	struct kv_op **done;
	char *values; /* record_len for each */
	unsigned in_flight;
	struct key_chooser chooser;
	struct pace pace;
	uint64_t random, version; /* states */
	uint64_t begun, left; /* operations: so far; how many it may still begin */
	uint64_t now_ns, end_ns, last_ns; /* last: when its last operation was through */
	bool ended;
	struct run_result result; /* its part */
	struct error err;
};

/* client_open - memory and a connection. Returns 0 or a negative errno with c->err. */
int client_open(struct client *c);
void client_close(struct client *c);

/* client_work - from c->pace.start_ns on, until the plan's end. What failed is in c->err. */
void client_work(struct client *c);
