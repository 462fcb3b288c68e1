/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Snapshots of a store that goes on being written, and what a directory is worth with them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/time.h"
#include "server/log/snapshot.h"
#include "server/reclaim/qsbr.h"
#include "tests/unit/data/life.h"

#define KEYS	 3000u
#define PATIENCE (20 * NS_PER_S)
#define LISTED	 8u

static void begin(struct life *l, struct sim_disk *disk, bool serve)
{
	const struct life_config config = { .disk = disk, .serve = serve };
	struct error err = { 0 };

	if (life_begin(l, &config, &err))
		fail_msg("%s", err.text);
}

static unsigned list(struct sim_disk *disk, struct snapshot_info *out)
{
	struct error err;
	int count = snapshot_list(sim_disk_io(disk), out, LISTED, &err);

	assert_true(count >= 0);
	return (unsigned)count;
}

/* A snapshot that was asked for, while @each is called again and again. */
static void save(struct life *l, void (*each)(struct life *l, uint64_t *state), uint64_t *state)
{
	uint64_t number = data_save(l->data), until = time_now_ns() + PATIENCE;
	struct data_stats stats;

	do {
		if (each)
			each(l, state);
		qsbr_quiescent();
		time_give_way();
		data_stats_get(l->data, &stats);
		assert_true(time_now_ns() < until);
	} while (stats.snapshots < number && !stats.snapshots_failed);
}

UNIT_TEST(a_snapshot_at_the_end)
{
	struct sim_disk *disk = life_disk();
	struct snapshot_info s[LISTED];
	struct data_stats stats;
	struct life l;

	begin(&l, disk, true);
	for (uint64_t key = 0; key < KEYS; key++)
		assert_ok(life_put(&l, key, key, 0));
	assert_ok(life_del(&l, 5, 0));
	life_end(&l);
	assert_int_equal(list(disk, s), 1);
	assert_null(s[0].why);
	assert_int_equal(s[0].foot.records, KEYS - 1);
	begin(&l, disk, true);
	data_stats_get(l.data, &stats);
	assert_int_equal(stats.recovery_records, KEYS - 1); /* none comes from the log */
	for (uint64_t key = 0; key < KEYS; key++)
		assert_int_equal(life_value(&l, key), key == 5 ? UINT64_MAX : key);
	life_end(&l);
	assert_int_equal(list(disk, s), 1); /* nothing was written: no other one */
	sim_disk_destroy(disk);
}

/* Each write says what it was: a counter a key, which only grows. */
static uint64_t told[64];

static void write_some(struct life *l, uint64_t *draws)
{
	for (unsigned i = 0; i < 8; i++) {
		uint64_t key = unit_random(draws) % 64;

		if (unit_random(draws) % 4 == 0 && told[key] && told[key] != UINT64_MAX) {
			assert_ok(life_del(l, key, 0));
			told[key] = UINT64_MAX;
		} else {
			told[key] = unit_random(draws) >> 1 | 1;
			assert_ok(life_put(l, key, told[key], 1));
		}
	}
}

/* Killed at any moment after, or while a snapshot is written: all that was told is there. */
UNIT_TEST(snapshots_while_writers_go_on)
{
	uint64_t seed = 20261125, draws = seed;
	struct sim_disk *disk = life_disk(), *left;
	struct life l;

	printf("seed %" PRIu64 "\n", seed);
	memset(told, 0, sizeof(told));
	for (unsigned life = 0; life < 12; life++) {
		begin(&l, disk, true);
		for (uint64_t key = 0; key < 64; key++) {
			uint64_t want = told[key] ? told[key] : UINT64_MAX;

			assert_int_equal(life_value(&l, key), want);
		}
		for (uint64_t key = 1000; life == 0 && key < 1000 + KEYS; key++)
			assert_ok(life_put(&l, key, key, 2));
		for (unsigned i = 0; i < 3; i++)
			save(&l, write_some, &draws);
		if (life % 2) /* one is under way */
			data_save(l.data);
		write_some(&l, &draws);
		left = life_kill(&l);
		sim_disk_destroy(disk);
		disk = left;
	}
	sim_disk_destroy(disk);
}

static void append_only(struct life *l, uint64_t *state)
{
	assert_ok(life_put(l, *state % 16, *state + 1, 0));
	++*state;
}

/* Two are kept, the log below the older one goes, and the remembered replies are in them. */
UNIT_TEST(what_a_snapshot_replaces)
{
	struct sim_disk *disk = life_disk();
	struct snapshot_info s[LISTED];
	uint64_t count = 0, sequence;
	struct data_stats stats;
	struct life l;

	begin(&l, disk, true);
	assert_ok(life_incr(&l, 1000, 2));
	sequence = l.sequence[2];
	for (unsigned i = 0; i < 4; i++)
		save(&l, append_only, &count);
	data_stats_get(l.data, &stats);
	assert_int_equal(stats.snapshots_failed, 0);
	life_end(&l);
	assert_int_equal(list(disk, s), 2);
	begin(&l, disk, true);
	assert_ok(life_again(&l, WRITE_INCR, 1000, sequence, 2));
	assert_true(l.repeated);
	assert_int_equal(l.said.number, 1);
	life_end(&l);
	sim_disk_destroy(disk);
}

/* A write that is committed, and that its worker has not published when a snapshot is taken. */
UNIT_TEST(snapshots_start_before_what_is_pending)
{
	struct sim_disk *disk = life_disk(), *left;
	struct data_stats stats;
	struct write w;
	struct life l;

	begin(&l, disk, true);
	assert_ok(life_put(&l, 1, 1, 0));
	life_put_begin(&l, &w, 2, 22, 1);
	do {
		time_give_way();
		data_stats_get(l.data, &stats);
	} while (stats.log.committed < stats.log.tail);
	save(&l, NULL, NULL);
	left = sim_disk_fork(disk);
	assert_ok(life_await(&l));
	life_end(&l);
	sim_disk_destroy(disk);
	begin(&l, left, true);
	assert_int_equal(life_value(&l, 1), 1);
	assert_int_equal(life_value(&l, 2), 22);
	life_end(&l);
	sim_disk_destroy(left);
}

/* A bit of the newest is wrong: the one before it, and the log from there on, have everything. */
UNIT_TEST(a_snapshot_that_is_corrupt)
{
	struct sim_disk *disk = life_disk();
	struct snapshot_info s[LISTED];
	uint64_t count = 0;
	uint8_t byte;
	struct life l;

	begin(&l, disk, true);
	for (uint64_t key = 100; key < 100 + KEYS; key++)
		assert_ok(life_put(&l, key, key, 0));
	save(&l, append_only, &count);
	for (uint64_t key = 100; key < 600; key++)
		assert_ok(life_del(&l, key, 0));
	save(&l, append_only, &count);
	life_end(&l);
	assert_int_equal(list(disk, s), 2);
	sim_disk_get(disk, s[0].name, &byte, 1, s[0].bytes / 2);
	byte ^= 4;
	sim_disk_set(disk, s[0].name, &byte, 1, s[0].bytes / 2);
	begin(&l, disk, false);
	for (uint64_t key = 100; key < 100 + KEYS; key++)
		assert_int_equal(life_value(&l, key), key < 600 ? UINT64_MAX : key);
	life_end(&l);
	sim_disk_destroy(disk);
}

/* A part of the log is gone that the snapshot had: refused, and named. */
UNIT_TEST(a_snapshot_that_outran_its_log)
{
	struct life_config config = { .disk = life_disk(), .serve = true };
	struct snapshot_info s[LISTED];
	struct sim_disk *early;
	struct error err = { 0 };
	struct life l;
	uint8_t *bytes;

	begin(&l, config.disk, true);
	assert_ok(life_put(&l, 1, 1, 0));
	early = sim_disk_fork(config.disk);
	for (uint64_t key = 0; key < 100; key++)
		assert_ok(life_put(&l, key, key, 0));
	life_end(&l);
	assert_int_equal(list(config.disk, s), 1);
	bytes = test_malloc(s[0].bytes);
	sim_disk_get(config.disk, s[0].name, bytes, s[0].bytes, 0);
	sim_disk_make(early, s[0].name);
	sim_disk_set(early, s[0].name, bytes, s[0].bytes, 0);
	test_free(bytes);
	sim_disk_destroy(config.disk);
	config.disk = early;
	assert_int_equal(life_begin(&l, &config, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, s[0].name));
	sim_disk_destroy(early);
}

/* The disk fails, or is full, under a snapshot: the log goes on, and a later one succeeds. */
UNIT_TEST(a_snapshot_that_fails)
{
	const enum sim_call calls[] = { SIM_WRITE, SIM_RENAME }; /* the log does none meanwhile */
	struct sim_disk *disk = life_disk();
	struct snapshot_info s[LISTED];
	struct data_stats stats;
	uint64_t count = 0;
	struct life l;

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		begin(&l, disk, true);
		append_only(&l, &count);
		sim_disk_fail(disk, calls[i], 0, -ENOSPC);
		save(&l, NULL, NULL);
		data_stats_get(l.data, &stats);
		assert_int_equal(stats.snapshots_failed, 1);
		assert_false(l.log_failed);
		append_only(&l, &count);
		life_end(&l);
		assert_true(list(disk, s) >= 1);
		assert_null(s[0].why);
		assert_true(sim_disk_size(disk, "snapshot/next.tmp") < 0);
	}
	sim_disk_destroy(disk);
}

/* Where all of a store's records are, at @at; what a file of that kind cannot be. */
UNIT_TEST(snapshots_that_lie)
{
	struct sim_disk *disk = life_disk();
	struct snapshot_info s[LISTED];
	struct snapshot_foot foot;
	struct snapshot_chunk chunk;
	uint64_t at;
	uint8_t block[SNAPSHOT_BLOCK];
	struct life l;

	begin(&l, disk, true);
	for (uint64_t key = 0; key < 100; key++)
		assert_ok(life_put(&l, key, key, 0));
	life_end(&l);
	assert_int_equal(list(disk, s), 1);
	at = s[0].bytes - SNAPSHOT_BLOCK;
	sim_disk_get(disk, s[0].name, block, sizeof(block), at);
	memcpy(&chunk, block, sizeof(chunk));
	memcpy(&foot, block + sizeof(chunk), sizeof(foot));
	foot.records++; /* more than there are */
	memcpy(block + sizeof(chunk), &foot, sizeof(foot));
	((struct snapshot_chunk *)block)->checksum =
		snapshot_chunk_checksum((struct snapshot_chunk *)block);
	sim_disk_set(disk, s[0].name, block, sizeof(block), at);
	begin(&l, disk,
	      false); /* the log has everything: there was one snapshot, and nothing went */
	for (uint64_t key = 0; key < 100; key++)
		assert_int_equal(life_value(&l, key), key);
	life_end(&l);
	sim_disk_destroy(disk);
}
