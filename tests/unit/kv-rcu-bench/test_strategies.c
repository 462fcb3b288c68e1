/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Each strategy frees everything, nothing too early, and no more waits than may; and one that does
 * free too early is found out. Not how fast. */
#include <string.h>
#include <unistd.h>

#include "server/reclaim/qsbr.h"
#include "tests/lib/unit.h"
#include "tools/kv-rcu-bench/run.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define MS	    1000000ull
#define DURATION_NS (150 * MS)
#define ATTEMPTS    20u /* a machine that is busy may let a thread run too little */
#define LONGER	    5u /* attempts, after which they take twice as long */

static struct rcu_setup setup(void)
{
	return (struct rcu_setup){
		.readers = 3,
		.updaters = 2,
		.objects = 3,
		.duration_ns = DURATION_NS,
		.pause_ns = 1000,
		.deferred_max = 100000,
	};
}

/*
 * ThreadSanitizer cannot see into liburcu's worker, which frees there; and what readers of remote
 * copy may be torn by design: they check it afterwards.
 */
static bool left_out(const struct rcu_strategy *s)
{
#ifdef __SANITIZE_THREAD__
	return s == &rcu_liburcu || s == &rcu_remote;
#else
	return false;
#endif
}

static void run(const struct rcu_strategy *s, const struct rcu_setup *how, struct rcu_figures *out)
{
	struct error err = { 0 };

	if (rcu_run(s, how, out, &err))
		fail_msg("%s: %s", s->name, err.text);
	if (out->lost)
		fail_msg("%s: %lld objects were not freed", s->name, (long long)out->lost);
}

UNIT_TEST(every_strategy_frees_all_and_nothing_early)
{
	static struct rcu_figures f;
	struct rcu_setup how = setup();

	for (unsigned i = 0; rcu_strategies[i]; i++) {
		const struct rcu_strategy *s = rcu_strategies[i];
		uint64_t updates = 0, reads = 0, graces = 0;

		if (left_out(s))
			continue;
		for (unsigned n = 0; n < ATTEMPTS && (!updates || !reads || !graces); n++) {
			how.duration_ns = DURATION_NS << n / LONGER;
			run(s, &how, &f);
			if (f.failures)
				fail_msg("%s: %llu reads of freed objects", s->name,
					 (unsigned long long)f.failures);
			assert_int_equal(f.update_ns.count, f.updates);
			updates += f.updates;
			reads += f.reads;
			graces += f.grace.times.count;
		}
		if (!updates || !reads || !graces)
			fail_msg("%s: %llu updates, %llu reads, %llu grace periods", s->name,
				 (unsigned long long)updates, (unsigned long long)reads,
				 (unsigned long long)graces);
	}
}

UNIT_TEST(readers_find_out_a_strategy_that_waits_for_nobody)
{
	static struct rcu_figures f;
	struct rcu_setup how = setup();

	if (SANITIZED) {
		print_message("skipped: the sanitizer would find it out first\n");
		skip();
	}
	how.broken = true;
	for (unsigned i = 0; rcu_strategies[i]; i++) {
		uint64_t failures = 0;

		if (rcu_strategies[i]->unbreakable)
			continue;
		for (unsigned n = 0; n < ATTEMPTS && !failures; n++) {
			run(rcu_strategies[i], &how, &f);
			failures += f.failures;
		}
		if (!failures)
			fail_msg("%s: broken, and not found out", rcu_strategies[i]->name);
	}
}

/* More readers than cores make grace periods long. */
UNIT_TEST(no_more_waits_than_may)
{
	static const struct rcu_strategy *const bounded[] = { &rcu_delay, &rcu_gpc, &rcu_liburcu,
							      &rcu_epoch };
	static struct rcu_figures f;
	struct rcu_setup how = setup();

	how.readers = 8;
	how.deferred_max = RCU_DEFERRED_MIN;
	for (unsigned i = 0; i < sizeof(bounded) / sizeof(bounded[0]); i++) {
		if (left_out(bounded[i]))
			continue;
		run(bounded[i], &how, &f);
		/* each updater looks once in so many objects, and then has one more */
		if (f.deferred > how.deferred_max + how.updaters * (BATCH_OBJECTS + 1))
			fail_msg("%s: %llu objects waited", bounded[i]->name,
				 (unsigned long long)f.deferred);
	}
}

/* What comes last comes right before the end. */
UNIT_TEST(what_waits_at_the_end_is_freed)
{
	static const struct rcu_strategy *const helped[] = { &rcu_delay, &rcu_gpc, &rcu_liburcu };
	static struct rcu_updater u;
	static struct rcu_domain d;
	struct error err = { 0 };

	for (unsigned i = 0; i < sizeof(helped) / sizeof(helped[0]); i++) {
		if (left_out(helped[i]))
			continue;
		memset(&d, 0, sizeof(d));
		memset(&u, 0, sizeof(u));
		d.deferred_max = 100000;
		u.domain = &d;
		assert_int_equal(helped[i]->open(&d, &err), 0);
		usleep(2000); /* its thread has started, and lets objects gather */
		qsbr_register();
		for (unsigned n = 0; n < 1000; n++) {
			struct rcu_object *o = malloc(sizeof(*o));

			assert_non_null(o);
			object_fill(o, n);
			helped[i]->retire(&u, o);
		}
		qsbr_unregister();
		assert_int_equal(helped[i]->close(&d, &err), 0);
		assert_int_equal(atomic_load(&u.retired), 1000);
		if (atomic_load(&d.freed) != 1000)
			fail_msg("%s: %llu of 1000 were not freed", helped[i]->name,
				 1000 - (unsigned long long)atomic_load(&d.freed));
	}
}

/* Stopped inside sections, and between finding an object or an epoch and announcing it. */
UNIT_TEST(readers_may_stop_anywhere)
{
	static struct rcu_figures f;
	struct rcu_setup how = setup();

	how.slow = true;
	how.objects = 1;
	how.duration_ns = 300 * MS;
	for (unsigned i = 0; rcu_strategies[i]; i++) {
		if (left_out(rcu_strategies[i]))
			continue;
		run(rcu_strategies[i], &how, &f);
		if (f.failures)
			fail_msg("%s: %llu reads of freed objects", rcu_strategies[i]->name,
				 (unsigned long long)f.failures);
	}
}

/* Updates so far apart that the reclaimer sleeps between them: each must wake it. */
UNIT_TEST(a_sleeping_reclaimer_is_woken)
{
	static struct rcu_figures f;
	struct rcu_setup how = setup();

	how.pause_ns = 40 * MS;
	how.duration_ns = 500 * MS;
	f.periods = 0;
	for (unsigned n = 0; n < ATTEMPTS && f.periods < 4; n++)
		run(&rcu_gpc, &how, &f);
	assert_true(f.periods >= 4);
}

/* What the fields of an object say when it is alive, freed, and another. */
UNIT_TEST(objects_tell)
{
	struct rcu_object o;
	uint64_t serial;

	object_fill(&o, 77);
	assert_true(object_read(&o, &serial));
	assert_int_equal(serial, 77);
	atomic_store(&o.word[OBJECT_WORDS - 1], OBJECT_POISON);
	assert_false(object_read(&o, &serial));
	object_fill(&o, 77);
	object_poison(&o);
	assert_false(object_read(&o, &serial));
	object_fill(&o, 78);
	assert_true(object_read(&o, &serial));
	assert_int_equal(serial, 78);
}

UNIT_TEST(strategies_have_names)
{
	assert_ptr_equal(rcu_strategy_find("gpc", 3), &rcu_gpc);
	assert_ptr_equal(rcu_strategy_find("epochs", 5), &rcu_epoch);
	assert_null(rcu_strategy_find("gp", 2));
	assert_null(rcu_strategy_find("", 0));
	assert_null(rcu_strategy_find("gpcc", 4));
}
