/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Strategies in which the updater itself waits: sync, for each object; batch, for 256 or for what
 * came within 5 ms. And the floor that p99 of an update is held against, which does as batch does,
 * but outside the timing: what is timed is malloc and the exchange.
 */
#include "tools/kv-rcu-bench/strategy.h"

static void sync_retire(struct rcu_updater *u, struct rcu_object *old)
{
	rcu_count(&u->retired, 1);
	rcu_grace_wait(u->domain, &u->grace);
	object_free(old);
	rcu_count(&u->freed, 1);
}

static void batch_put(struct rcu_updater *u, struct rcu_object *old)
{
	rcu_count(&u->retired, 1);
	if (!u->bag[0].count)
		u->bag[0].since_ns = u->now_ns;
	rcu_bag_put(&u->bag[0], old);
}

static void batch_free(struct rcu_updater *u)
{
	struct rcu_bag *bag = &u->bag[0];

	if (bag->count < BATCH_OBJECTS && u->now_ns - bag->since_ns < BATCH_NS)
		return;
	rcu_grace_wait(u->domain, &u->grace);
	rcu_count(&u->freed, rcu_bag_free(bag));
}

static void batch_retire(struct rcu_updater *u, struct rcu_object *old)
{
	batch_put(u, old);
	batch_free(u);
}

const struct rcu_strategy rcu_sync = {
	.name = "sync",
	.how = "the updater waits for a grace period, for each object",
	.qsbr_readers = true,
	.qsbr_updaters = true,
	.read = rcu_read_qsbr,
	.retire = sync_retire,
};

const struct rcu_strategy rcu_batch = {
	.name = "batch",
	.how = "the updater waits for a grace period, for 256 of its objects or those of 5 ms",
	.qsbr_readers = true,
	.qsbr_updaters = true,
	.read = rcu_read_qsbr,
	.retire = batch_retire,
};

const struct rcu_strategy rcu_floor = {
	.name = "floor",
	.how = "no strategy: only malloc and exchange are in the time of an update, the rest is "
	       "batch",
	.qsbr_readers = true,
	.qsbr_updaters = true,
	.read = rcu_read_qsbr,
	.retire = batch_put,
	.after = batch_free,
};
