/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A segment is left and the next one begun: crashes around that, choices of chance for each. The
 * records are large, since segments are; only their place and number are looked at.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "server/log/log.h"
#include "server/log/read.h"
#include "tests/lib/sim_disk.h"
#include "tests/lib/unit.h"

UNIT_GROUP(unit_seed, NULL);

/* What survives: the first so many loose things in time; of the others so many of 8. */
struct choice {
	unsigned first, of_8;
};

static bool keep(void *ctx, unsigned i)
{
	const struct choice *c = ctx;

	return i < c->first || unit_below(8) < c->of_8;
}

static struct sim_disk *empty_disk(void)
{
	struct sim_disk *d = sim_disk_create(4096);

	assert_ok(sim_disk_io(d)->make_dir(d, "log"));
	assert_ok(sim_disk_io(d)->sync_dir(d, ""));
	sim_disk_short_files(d, 1 << 20);
	return d;
}

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 1000;
}

static struct log *begin(struct sim_disk *d)
{
	const struct log_config config = { .io = sim_disk_io(d),
					   .sync = LOG_SYNC_ALWAYS,
					   .segment_bytes = LOG_SEGMENT_MIN,
					   .ring_bytes = 36 << 20,
					   .store = { 1, 2 },
					   .life = 1,
					   .clock_ms = clock_ms };
	struct error err = { 0 };
	struct log *log;

	if (log_open(&log, &config, &err))
		fail_msg("%s", err.text);
	return log;
}

#define LARGE (8u << 20)

static int take_large(void *ctx, const struct log_record *r)
{
	uint64_t *next = ctx;

	if (r->position != *next * log_record_length(8, LARGE) || r->sequence != *next)
		return -ERANGE;
	++*next;
	return 0;
}

static void check_large(struct sim_disk *d, uint64_t appended)
{
	struct log_survey s;
	struct error err = { 0 };
	uint64_t next = 0;
	const struct log_reader reader = { .each = take_large, .ctx = &next };

	if (log_survey_make(&s, sim_disk_io(d), NULL, &err) ||
	    log_read(&s, sim_disk_io(d), 0, s.end, &reader, &err))
		fail_msg("%s", err.text);
	assert_true(next <= appended && s.end >= sim_disk_noted(d));
	log_survey_free(&s);
}

static unsigned append_large(struct sim_disk *d, struct log *log, uint64_t number,
			     const uint8_t *value)
{
	const struct log_entry e = {
		.kind = LOG_PUT,
		.version = number + 1,
		.sequence = number,
		.key = &number,
		.value = value,
		.key_len = 8,
		.value_len = LARGE,
		.body = hash_pieces((const struct hash_piece[]){ { &number, 8 }, { value, LARGE } },
				    2)
	};
	struct log_place at;
	unsigned before = sim_disk_ops(d);

	while (log_append_begin(log, e.key_len, e.value_len, &at))
		time_give_way();
	log_append_end(log, &at, &e);
	log_kick(log);
	while (log_committed(log) < at.end)
		time_give_way();
	sim_disk_note(d, at.end);
	return before;
}

UNIT_TEST(segments_change)
{
	struct sim_disk *base = empty_disk(), *d = sim_disk_fork(base);
	struct log *log = begin(d);
	const uint64_t records = LOG_SEGMENT_MIN / LARGE + 1;
	uint8_t *value = calloc(1, LARGE);
	unsigned around = 0, crashes = 0;

	for (uint64_t i = 0; i < records; i++) {
		unsigned before = append_large(d, log, i, value);

		around = i == records - 2 ? before : around; /* the one that does not fit */
	}
	assert_ok(log_close(log));
	free(value);
	assert_true(sim_disk_calls(d, SIM_RENAME) >= 2);
	for (unsigned op = 0; op < sim_disk_ops(d); op++) {
		sim_disk_apply(base, d, op);
		for (unsigned i = 0; op >= around && i < 4; i++) {
			struct choice c = { .first = (unsigned)unit_below(sim_disk_loose(base) + 1),
					    .of_8 = 2 * i };
			struct sim_disk *after = sim_disk_crash(base, keep, &c);

			check_large(after, records);
			sim_disk_destroy(after);
			crashes++;
		}
	}
	print_message("%u crashes around a change of segments\n", crashes);
	sim_disk_destroy(base);
	sim_disk_destroy(d);
}
