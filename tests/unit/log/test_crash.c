/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The log on a disk that crashes: after each operation, with each choice (few loose things) or with
 * choices of chance (many) of what survives; then a recovery, which crashes as well, and another
 * one.
 *
 * A life's HISTORY is what it found and what it appended. Whatever is found after a crash must be a
 * beginning of it, each record whole and at its position, and no shorter than what was
 * acknowledged.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "tests/unit/log/segments.h"

/* Loose things of which every choice is tried, and choices of chance where there are more: with
 * tests/run --full, and without. */
static unsigned exhaustive_max = 6, samples = 8;

#define EXHAUSTIVE_FULL 10u
#define SAMPLES_FULL	24u
#define DEEPEST		3u
#define RING_BYTES	(36ull << 20)
#define FILE_BYTES	(32u << 10)

struct history {
	uint64_t number[256];
	unsigned count;
};

struct lives {
	enum log_sync sync;
	unsigned batches; /* of a life */
	unsigned recover_every; /* crashes that are only read, for each that is recovered from */
	bool power; /* crashes lose what is loose; false: the process is killed */
	bool then_power; /* those that follow the first one do */
	unsigned crashes, recoveries, shorter; /* shorter: found less than was appended */
};

static unsigned noticed; /* with the mutant: crashes that lost what was acknowledged */

static int set_up(void **state)
{
	const char *full = getenv("GRACEKV_TEST_FULL");

	if (full && strcmp(full, "1") == 0) {
		exhaustive_max = EXHAUSTIVE_FULL;
		samples = SAMPLES_FULL;
	}
	return unit_seed(state);
}

UNIT_GROUP(set_up, NULL);

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 1000;
}

struct tail {
	uint8_t bytes[1 << 20];
	uint64_t len;
};

static int take_tail(void *ctx, const struct log_record *r)
{
	struct tail *t = ctx;

	assert_true(t->len + r->length <= sizeof(t->bytes));
	memcpy(t->bytes + t->len, r, r->length);
	t->len += r->length;
	return 0;
}

/* What every crash must leave. */
static void check(struct sim_disk *d, const struct history *h, struct found *found,
		  struct log_survey *s, bool acknowledged)
{
	struct error err = { 0 };
	int rc = found_read(found, d, 0, s, &err);

	if (rc && MUTANT(no_rewrite)) {
		noticed++;
		found->count = 0;
		return;
	}
	if (rc)
		fail_msg("%d: %s", rc, err.text);
	assert_true(found->count <= h->count);
	for (unsigned i = 0; i < found->count; i++)
		assert_int_equal(found->number[i], h->number[i]);
	if (acknowledged && found->behind < sim_disk_noted(d) && MUTANT(no_rewrite))
		noticed++;
	else if (acknowledged && found->behind < sim_disk_noted(d))
		fail_msg("found up to %llu, acknowledged up to %llu",
			 (unsigned long long)found->behind, (unsigned long long)sim_disk_noted(d));
}

/* Go on with what @d has. The history becomes that. */
static struct log *recover(struct sim_disk *d, struct history *h, struct lives *l, uint64_t life)
{
	static struct found found;
	static struct tail tail;
	struct log_survey s;
	const struct log_reader reader = { .each = take_tail, .ctx = &tail };
	struct log_config config = { .io = sim_disk_io(d),
				     .sync = l->sync,
				     .sync_ms = 10,
				     .segment_bytes = LOG_SEGMENT_MIN,
				     .ring_bytes = RING_BYTES,
				     .store = SEG_STORE,
				     .life = life,
				     .tail = tail.bytes,
				     .clock_ms = clock_ms,
				     .older = &s };
	struct error err = { 0 };
	struct log *log;

	check(d, h, &found, &s, l->sync == LOG_SYNC_ALWAYS || !l->power);
	h->count = found.count;
	tail.len = 0;
	assert_ok(log_read(&s, config.io, s.durable, s.end, &reader, &err));
	config.first = MUTANT(no_rewrite) ? s.end : s.durable;
	config.tail_bytes = MUTANT(no_rewrite) ? 0 : tail.len;
	assert_int_equal(s.durable + tail.len, s.end);
	if (log_open(&log, &config, &err))
		fail_msg("%s", err.text);
	log_survey_free(&s);
	sim_disk_note(d, log_tail(log));
	return log;
}

/* Appends the next record; returns where it ends. */
static uint64_t append(struct log *log, struct history *h, uint64_t number)
{
	const struct log_entry e = seg_entry(number);
	struct log_place at;

	assert_true(h->count < sizeof(h->number) / sizeof(*h->number));
	h->number[h->count++] = number;
	while (log_append_begin(log, e.key_len, e.value_len, &at))
		time_give_way();
	log_append_end(log, &at, &e);
	return at.end;
}

static void run_life(struct sim_disk *d, struct history *h, struct lives *l, uint64_t life)
{
	struct log *log = recover(d, h, l, life);
	uint64_t end = 0, number = life * 100000;

	for (unsigned b = 0; b < l->batches; b++) {
		for (uint64_t n = 1 + unit_below(5); n; n--)
			end = append(log, h, number++);
		log_kick(log);
		while (log_committed(log) < end)
			time_give_way();
		sim_disk_note(d, end);
	}
	assert_ok(log_close(log));
}

/* Which loose things survive. */
struct choice {
	uint64_t mask; /* of exhaustive_max */
	unsigned first, of_8; /* the first so many in time; of the others so many of 8 */
	bool by_mask;
};

static bool keep(void *ctx, unsigned i)
{
	const struct choice *c = ctx;

	if (c->by_mask)
		return c->mask >> i & 1;
	return i < c->first || unit_below(8) < c->of_8;
}

static void every_crash(struct sim_disk *base, const struct sim_disk *run, const struct history *h,
			struct lives *l, unsigned depth);

/* At the first depth some for sure, or a run could have none. */
static bool is_recovered_from(const struct lives *l, unsigned depth)
{
	if (depth == 1)
		return l->crashes % l->recover_every == 0;
	return depth < DEEPEST && unit_below((uint64_t)l->recover_every << 3 * (depth - 1)) == 0;
}

/* @d is as after a crash; it goes. */
static void after_crash(struct sim_disk *d, const struct history *h, struct lives *l,
			unsigned depth)
{
	static struct found found;
	struct sim_disk *base;
	struct history more;

	l->crashes++;
	check(d, h, &found, NULL, l->sync == LOG_SYNC_ALWAYS || !l->power);
	l->shorter += found.count < h->count;
	if (is_recovered_from(l, depth)) {
		struct lives next = *l;

		base = sim_disk_fork(d);
		more = *h;
		sim_disk_short_files(d, FILE_BYTES);
		next.batches = 2;
		next.power |= next.then_power;
		run_life(d, &more, &next, depth + 1);
		next.recoveries++;
		every_crash(base, d, &more, &next, depth + 1);
		l->crashes = next.crashes;
		l->recoveries = next.recoveries;
	}
	sim_disk_destroy(d);
}

static void crash_here(const struct sim_disk *at, const struct history *h, struct lives *l,
		       unsigned depth)
{
	unsigned loose = sim_disk_loose(at);
	unsigned exhaustive = depth == 1 ? exhaustive_max : 5;

	if (!l->power) {
		after_crash(sim_disk_fork(at), h, l, depth);
		return;
	}
	for (unsigned m = 0; loose <= exhaustive && m < 1u << loose; m++) {
		struct choice c = { .mask = m, .by_mask = true };

		after_crash(sim_disk_crash(at, keep, &c), h, l, depth);
	}
	for (unsigned i = 0; loose > exhaustive && i < samples; i++) {
		struct choice c = { .first = i == 0 ? 0 : (unsigned)unit_below(loose + 1),
				    .of_8 = i == 1	      ? 8
					    : i < samples / 2 ? 0
							      : (unsigned)unit_below(8) };

		after_crash(sim_disk_crash(at, keep, &c), h, l, depth);
	}
}

/* @base is as before @run, and goes. */
static void every_crash(struct sim_disk *base, const struct sim_disk *run, const struct history *h,
			struct lives *l, unsigned depth)
{
	for (unsigned op = 0; op < sim_disk_ops(run); op++) {
		sim_disk_apply(base, run, op);
		crash_here(base, h, l, depth);
	}
	sim_disk_destroy(base);
}

static struct sim_disk *empty_disk(unsigned sector)
{
	struct sim_disk *d = sim_disk_create(sector);

	assert_ok(sim_disk_io(d)->make_dir(d, "log"));
	assert_ok(sim_disk_io(d)->sync_dir(d, ""));
	sim_disk_short_files(d, FILE_BYTES);
	return d;
}

static void run(struct lives *l, unsigned sector)
{
	struct sim_disk *base = empty_disk(sector), *d = sim_disk_fork(base);
	struct history h = { .count = 0 };

	run_life(d, &h, l, 1);
	every_crash(base, d, &h, l, 1);
	print_message("%u crashes, %u recoveries from them, %u found less than all\n", l->crashes,
		      l->recoveries, l->shorter);
	assert_true(l->crashes > 0 && l->recoveries > 0);
	assert_true(!l->power || l->shorter > 0);
	sim_disk_destroy(d);
}

UNIT_TEST(always_small_sectors)
{
	struct lives l = { LOG_SYNC_ALWAYS, .batches = 4, .recover_every = 60, .power = true };

	run(&l, 512);
}

UNIT_TEST(always_large_sectors)
{
	struct lives l = { LOG_SYNC_ALWAYS, .batches = 12, .recover_every = 8, .power = true };

	run(&l, 4096);
}

UNIT_TEST(always_killed)
{
	struct lives l = { LOG_SYNC_ALWAYS, .batches = 4, .recover_every = 2 };

	run(&l, 512);
}

/* What a killed process had only written is found, acknowledged then, and must be durable. With the
 * mutant a few runs in ten meet no crash that shows it, so it is sought for longer. */
UNIT_TEST(killed_then_power)
{
	unsigned runs = MUTANT(no_rewrite) ? 20 : 1;

	for (noticed = 0; runs && !noticed; runs--) {
		struct lives l = { LOG_SYNC_ALWAYS, .batches = 3, .recover_every = 4,
				   .then_power = true };

		run(&l, 512);
	}
	assert_int_equal(noticed > 0, MUTANT(no_rewrite));
}

/* What is acknowledged may be lost; what is found is a beginning nevertheless. */
UNIT_TEST(never_power)
{
	struct lives l = { LOG_SYNC_NEVER, .batches = 6, .recover_every = 30, .power = true };

	run(&l, 4096);
}

UNIT_TEST(by_time_power)
{
	struct lives l = { LOG_SYNC_MS, .batches = 6, .recover_every = 30, .power = true };

	run(&l, 4096);
}

UNIT_TEST(never_killed)
{
	struct lives l = { LOG_SYNC_NEVER, .batches = 8, .recover_every = 2 };

	run(&l, 512);
}

static bool nothing(void *ctx, unsigned i)
{
	(void)ctx;
	(void)i;
	return false;
}

/*
 * PostgreSQL 2018: a sync fails, the next one succeeds, and what the first one was for is gone. The
 * log ends with the first one. @kill: the process ends, and what it had written is still in memory:
 * a recovery reads it there, and must write it again before the power goes.
 */
static void failed_sync(bool kill)
{
	struct sim_disk *d = empty_disk(512), *after;
	struct lives l = { LOG_SYNC_ALWAYS, .batches = 2, .power = true };
	struct history h = { .count = 0 }, more;
	static struct found found;
	struct log *log;
	uint64_t end;

	log = recover(d, &h, &l, 1);
	end = append(log, &h, 1);
	log_kick(log);
	while (log_committed(log) < end)
		time_give_way();
	sim_disk_note(d, end);
	sim_disk_fail(d, SIM_SYNC, 0, -EIO);
	end = append(log, &h, 2);
	log_kick(log);
	while (!log_has_failed(log) && log_committed(log) < end)
		time_give_way();
	if (MUTANT(retry_fsync)) {
		/* It says that it is durable, and a crash takes it away. */
		assert_int_equal(log_committed(log), end);
		assert_ok(log_close(log));
		after = sim_disk_crash(d, nothing, NULL);
		assert_ok(found_read(&found, after, 0, NULL, NULL));
		assert_true(found.behind < end);
		sim_disk_destroy(after);
		sim_disk_destroy(d);
		return;
	}
	assert_true(log_has_failed(log));
	assert_true(log_committed(log) < end);
	assert_int_equal(log_close(log), -EIO);
	after = kill ? sim_disk_fork(d) : sim_disk_crash(d, nothing, NULL);
	sim_disk_destroy(d);
	more = h;
	run_life(after, &more, &l, 2);
	assert_int_equal(more.number[1], kill ? 2 : 200000);
	d = sim_disk_crash(after, nothing, NULL);
	check(d, &more, &found, NULL, true);
	assert_int_equal(found.count, more.count);
	sim_disk_destroy(after);
	sim_disk_destroy(d);
}

UNIT_TEST(failed_sync_then_success_power)
{
	failed_sync(false);
}

UNIT_TEST(failed_sync_then_success_killed)
{
	failed_sync(true);
}
