/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "tools/lib/words.h"
#include "tools/kv-rcu-bench/rcu_bench.h"

#define STUDY_READERS  32u /* of the study that this one repeats */
#define STUDY_UPDATERS 8u
#define SECONDS_MIN    0.01
#define SECONDS_MAX    3600.0
#define ITEM_MAX       32

static unsigned cores(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)CPU_COUNT(&set);
	return online > 0 ? (unsigned)online : 1;
}

/* A core for each, in the study's proportion, and not more than it had. */
void rcu_options_defaults(struct rcu_options *o)
{
	unsigned n = cores();
	unsigned updaters = n * STUDY_UPDATERS / (STUDY_READERS + STUDY_UPDATERS);

	updaters = updaters < 1 ? 1 : updaters > STUDY_UPDATERS ? STUDY_UPDATERS : updaters;
	*o = (struct rcu_options){
		.updaters = updaters,
		.readers = n <= updaters		  ? 1
			   : n - updaters > STUDY_READERS ? STUDY_READERS
							  : n - updaters,
		.objects = 1,
		.deferred_max = 256u << 20,
		.time = "3",
		.pauses_text = "1,2,5,20,100",
	};
}

static int settle_pauses(struct rcu_options *o, struct error *err)
{
	const char *list = o->pauses_text;
	char item[ITEM_MAX];
	uint64_t us;
	int rc;

	while ((rc = words_next("--pause", &list, item, sizeof(item), err)) > 0) {
		rc = parse_u64("--pause", item, 1, PAUSE_US_MAX, &us, err);
		if (rc)
			return rc;
		if (o->pauses == PAUSES_MAX)
			return error_set(err, -E2BIG, "--pause: more than %u pauses (give fewer)",
					 PAUSES_MAX);
		if (o->pauses && us <= o->pause_us[o->pauses - 1])
			return error_set(err, -EINVAL,
					 "--pause: %s comes after %u; give them in rising order",
					 item, o->pause_us[o->pauses - 1]);
		o->pause_us[o->pauses++] = (unsigned)us;
	}
	return rc;
}

static bool has(const struct rcu_options *o, const struct rcu_strategy *s)
{
	for (unsigned i = 0; i < o->strategies; i++) {
		if (o->strategy[i] == s)
			return true;
	}
	return false;
}

static int unknown_strategy(const char *name, struct error *err)
{
	char names[160] = "";

	for (unsigned i = 0; rcu_strategies[i]; i++) {
		strcat(names, i ? "," : "");
		strcat(names, rcu_strategies[i]->name);
	}
	return error_set(err, -EINVAL, "--strategy: '%s' is none of %s", name, names);
}

static int settle_strategies(struct rcu_options *o, struct error *err)
{
	const char *list = o->strategies_text;
	char item[ITEM_MAX];
	int rc;

	for (unsigned i = 0; !list && rcu_strategies[i]; i++) {
		if (!o->broken || !rcu_strategies[i]->unbreakable)
			o->strategy[o->strategies++] = rcu_strategies[i];
	}
	while ((rc = words_next("--strategy", &list, item, sizeof(item), err)) > 0) {
		const struct rcu_strategy *s = rcu_strategy_find(item, strlen(item));

		if (!s)
			return unknown_strategy(item, err);
		if (o->broken && s->unbreakable)
			return error_set(err, -EINVAL,
					 "--broken does not reach %s, which is the store's own",
					 item);
		if (has(o, s))
			return error_set(err, -EINVAL, "--strategy: %s stands there twice", item);
		o->strategy[o->strategies++] = s;
	}
	/* What gpc's updates are held against. */
	if (rc == 0 && has(o, &rcu_gpc) && !has(o, &rcu_floor))
		o->strategy[o->strategies++] = &rcu_floor;
	return rc;
}

int rcu_options_settle(struct rcu_options *o, struct error *err)
{
	int rc = words_seconds("--time", o->time, SECONDS_MIN, SECONDS_MAX, &o->duration_ns, err);

	if (rc == 0)
		rc = settle_pauses(o, err);
	if (rc == 0)
		rc = settle_strategies(o, err);
	if (rc)
		return rc;
	if (o->check && (!has(o, &rcu_gpc) || !has(o, &rcu_liburcu)))
		return error_set(err, -EINVAL,
				 "--check is of gpc against liburcu: --strategy wants both");
	if (o->check && o->broken)
		return error_set(err, -EINVAL, "--check and --broken do not go together");
	if (!o->rounds)
		o->rounds = o->check ? CHECK_ROUNDS : 1;
	if (o->check && o->rounds < 2)
		return error_set(err, -EINVAL,
				 "--check wants at least 2 --rounds: one bounds nothing");
	return 0;
}
