/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* One run of one strategy. */
#include "tools/kv-rcu-bench/strategy.h"

struct rcu_setup {
	unsigned readers, updaters, objects; /* at least 1 each */
	uint64_t duration_ns, pause_ns;
	uint64_t deferred_max; /* objects, at least RCU_DEFERRED_MIN */
	bool broken, slow; /* see rcu_domain */
};

#define RCU_DEFERRED_MIN (8 * BATCH_OBJECTS)

/* What came of it. */
struct rcu_figures {
	double seconds;
	uint64_t updates, reads;
	uint64_t failures; /* reads of objects that had been freed */
	uint64_t deferred; /* most objects that were seen waiting, looked at 50 times a second */
	uint64_t lost; /* objects not freed, or freed twice; 0, or the strategy is wrong */
	struct histogram update_ns; /* each update, without its pause */
	uint64_t periods; /* grace periods; at least those in grace */
	struct rcu_grace grace; /* those that were timed */
};

/*
 * rcu_run - @out: written. One run at a time. Returns 0, or a negative errno with @err; every
 * thread of the run has ended then too.
 */
int rcu_run(const struct rcu_strategy *strategy, const struct rcu_setup *setup,
	    struct rcu_figures *out, struct error *err);
