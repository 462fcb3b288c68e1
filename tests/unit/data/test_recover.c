/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What was acknowledged is there in the next life, and what a client was told is told again. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/data/life.h"

static void begin(struct life *l, struct sim_disk *disk)
{
	const struct life_config config = { .disk = disk };
	struct error err = { 0 };

	if (life_begin(l, &config, &err))
		fail_msg("%s", err.text);
}

/* Expects that it is refused. */
static struct error refused(const struct life_config *config, int code)
{
	struct error err = { 0 };
	struct life l;

	assert_int_equal(life_begin(&l, config, &err), code);
	assert_true(strlen(err.text) > 20);
	return err;
}

static bool lose_all(void *ctx, unsigned i)
{
	return false;
}

UNIT_TEST(records_over_a_clean_stop)
{
	struct sim_disk *disk = life_disk();
	struct life l;

	begin(&l, disk);
	for (uint64_t key = 0; key < 100; key++)
		assert_ok(life_put(&l, key, key * 3, key % LIFE_SLOTS));
	for (uint64_t key = 0; key < 100; key += 5)
		assert_ok(life_del(&l, key, 0));
	for (uint64_t key = 0; key < 100; key += 7)
		assert_ok(life_put(&l, key, 7, 1));
	life_end(&l);
	for (unsigned lives = 0; lives < 3; lives++) {
		begin(&l, disk);
		for (uint64_t key = 0; key < 100; key++)
			assert_int_equal(life_value(&l, key), key % 7 == 0   ? 7
							      : key % 5 == 0 ? UINT64_MAX
									     : key * 3);
		life_end(&l);
	}
	sim_disk_destroy(disk);
}

/* With --sync always a power cut takes nothing of what was acknowledged. */
UNIT_TEST(records_over_a_power_cut)
{
	struct sim_disk *disk = life_disk(), *cut;
	struct life l;

	begin(&l, disk);
	for (uint64_t key = 0; key < 50; key++)
		assert_ok(life_put(&l, key, key + 1, 0));
	cut = sim_disk_crash(disk, lose_all, NULL);
	life_end(&l);
	sim_disk_destroy(disk);
	begin(&l, cut);
	for (uint64_t key = 0; key < 50; key++)
		assert_int_equal(life_value(&l, key), key + 1);
	life_end(&l);
	sim_disk_destroy(cut);
}

/*
 * kill -9 with --sync never: what was acknowledged stands in the page cache. The next life may give
 * it out, so after a power cut in that life, or the one after it, it must still be there.
 */
UNIT_TEST(what_was_not_durable_is_written_again)
{
	struct life_config config = { .disk = life_disk(), .sync = LOG_SYNC_NEVER };
	struct sim_disk *killed, *cut;
	struct error err;
	struct life l;

	assert_ok(life_begin(&l, &config, &err));
	for (uint64_t key = 0; key < 50; key++)
		assert_ok(life_put(&l, key, key + 1, 0));
	killed = life_kill(&l);
	sim_disk_destroy(config.disk);
	config.disk = killed;
	assert_ok(life_begin(&l, &config, &err));
	assert_int_equal(life_value(&l, 49), 50); /* a reader has seen it now */
	cut = sim_disk_crash(killed, lose_all, NULL);
	life_end(&l);
	sim_disk_destroy(killed);
	begin(&l, cut);
	for (uint64_t key = 0; key < 50; key++)
		assert_int_equal(life_value(&l, key), key + 1);
	life_end(&l);
	sim_disk_destroy(cut);
}

/* A record that was deleted does not come back, and one that was written after that does. */
UNIT_TEST(deletions_stay)
{
	struct sim_disk *disk = life_disk(), *killed;
	struct life l;

	begin(&l, disk);
	for (uint64_t key = 0; key < 300; key++) {
		assert_ok(life_put(&l, key, key, 0));
		assert_ok(life_del(&l, key, 0));
		if (key % 3 == 0)
			assert_ok(life_put(&l, key, key + 1, 0));
	}
	killed = life_kill(&l); /* so that there is no snapshot */
	sim_disk_destroy(disk);
	begin(&l, killed);
	for (uint64_t key = 0; key < 300; key++)
		assert_int_equal(life_value(&l, key), key % 3 ? UINT64_MAX : key + 1);
	life_end(&l);
	sim_disk_destroy(killed);
}

/* A file that a disk kept the name of, and nothing else, is not in the way of later lives. */
UNIT_TEST(a_segment_that_was_never_begun)
{
	struct sim_disk *disk = life_disk(), *killed;
	struct life l;

	for (unsigned life = 0; life < 3; life++) {
		begin(&l, disk);
		for (uint64_t key = 0; key < 100 * life; key++)
			assert_int_equal(life_value(&l, key), key + life - 1);
		for (uint64_t key = 0; key < 100 * (life + 1); key++)
			assert_ok(life_put(&l, key, key + life, 0));
		killed = life_kill(&l);
		sim_disk_destroy(disk);
		disk = killed;
		if (life == 0) /* behind the log's end, and soon within it */
			sim_disk_make(disk, "log/0000000000008000.log");
	}
	sim_disk_destroy(disk);
}

/* Versions of a life are greater than all of those before, whatever was lost of them. */
UNIT_TEST(no_version_twice)
{
	struct sim_disk *disk = life_disk(), *left;
	uint64_t value, version, last = 0;
	struct life l;

	for (unsigned life = 0; life < 5; life++) {
		struct life_config config = { .disk = disk, .sync = LOG_SYNC_NEVER };
		struct error err;

		assert_ok(life_begin(&l, &config, &err));
		for (uint64_t key = 0; key < 10; key++) {
			assert_ok(life_put(&l, key, life, 0));
			assert_true(life_get(&l, key, &value, &version));
			assert_true(version > last);
			last = version;
		}
		left = sim_disk_crash(disk, lose_all, NULL);
		life_end(&l);
		sim_disk_destroy(disk);
		disk = left;
	}
	sim_disk_destroy(disk);
}

/* A retry over a restart gets its first answer, and is not applied a second time. */
UNIT_TEST(a_retry_over_a_restart)
{
	struct sim_disk *disk = life_disk(), *left;
	struct client_reply first;
	uint64_t sequence;
	struct life l;

	begin(&l, disk);
	assert_ok(life_incr(&l, 1, 0));
	assert_ok(life_incr(&l, 1, 0));
	first = l.said;
	sequence = l.sequence[0];
	left = life_kill(&l);
	sim_disk_destroy(disk);
	begin(&l, left);
	assert_ok(life_again(&l, WRITE_INCR, 1, sequence, 0));
	assert_true(l.repeated);
	assert_int_equal(l.said.number, first.number);
	assert_int_equal(l.said.version, first.version);
	assert_int_equal(life_again(&l, WRITE_INCR, 1, 1, 1),
			 -EREMOTEIO); /* nobody knows that one */
	life_end(&l);
	sim_disk_destroy(left);
}

UNIT_TEST(directories_that_are_refused)
{
	struct life_config config = { .disk = life_disk() };
	struct data_meta meta;
	struct error err;
	struct life l;

	begin(&l, config.disk);
	assert_ok(life_put(&l, 1, 1, 0));
	life_end(&l);
	sim_disk_get(config.disk, "meta", &meta, sizeof(meta), 0);
	meta.life++;
	sim_disk_set(config.disk, "meta", &meta, sizeof(meta), 0);
	refused(&config, -EUCLEAN); /* its checksum is wrong */
	meta.life = LIFE_MAX;
	meta.checksum = meta_checksum(&meta);
	sim_disk_set(config.disk, "meta", &meta, sizeof(meta), 0);
	err = refused(&config, -EOVERFLOW);
	assert_non_null(strstr(err.text, "lives"));
	meta.life = 1;
	meta.format++;
	meta.checksum = meta_checksum(&meta);
	sim_disk_set(config.disk, "meta", &meta, sizeof(meta), 0);
	refused(&config, -EPROTO);
	meta.format--;
	meta.store[0]++;
	meta.checksum = meta_checksum(&meta);
	sim_disk_set(config.disk, "meta", &meta, sizeof(meta), 0);
	refused(&config, -EXDEV); /* the log is another store's */
	assert_ok(sim_disk_io(config.disk)->unlink(sim_disk_io(config.disk)->ctx, "meta"));
	err = refused(&config, -EUCLEAN);
	assert_non_null(strstr(err.text, "meta is missing"));
	sim_disk_destroy(config.disk);
}

/* The store is too small for what the log has. */
UNIT_TEST(too_little_memory)
{
	struct life_config config = { .disk = life_disk() };
	struct error err;
	struct life l;

	begin(&l, config.disk);
	for (uint64_t key = 0; key < 20; key++)
		assert_ok(life_put_long(&l, key, key, 1 << 20, 0));
	life_end(&l);
	config.memory = 16 << 20;
	err = refused(&config, -ENOMEM);
	assert_non_null(strstr(err.text, "--memory"));
	begin(&l, config.disk); /* and nothing has happened to it */
	assert_int_equal(life_value(&l, 19), 19);
	life_end(&l);
	sim_disk_destroy(config.disk);
}

/* --recover-until: everything before, nothing after, and what is written then stays. */
UNIT_TEST(a_log_that_is_cut)
{
	struct life_config config = { .disk = life_disk() };
	uint64_t at;
	struct error err;
	struct life l;

	begin(&l, config.disk);
	for (uint64_t key = 0; key < 20; key++)
		assert_ok(life_put(&l, key, 1, 0));
	at = log_committed(data_log(l.data));
	for (uint64_t key = 10; key < 30; key++)
		assert_ok(life_put(&l, key, 2, 0));
	life_end(&l);
	config.recover_until = at + 8;
	refused(&config, -EINVAL);
	config.recover_until = 1ull << 40;
	refused(&config, -ERANGE);
	config.recover_until = at;
	if (life_begin(&l, &config, &err))
		fail_msg("%s", err.text);
	for (uint64_t key = 0; key < 30; key++)
		assert_int_equal(life_value(&l, key), key < 20 ? 1 : UINT64_MAX);
	assert_ok(life_put(&l, 100, 3, 0));
	life_end(&l);
	/* The option was left in place: what was acknowledged since is not given up. */
	if (life_begin(&l, &config, &err))
		fail_msg("%s", err.text);
	assert_int_equal(life_value(&l, 100), 3);
	life_end(&l);
	for (unsigned lives = 0; lives < 2; lives++) {
		begin(&l, config.disk);
		for (uint64_t key = 0; key < 30; key++)
			assert_int_equal(life_value(&l, key), key < 20 ? 1 : UINT64_MAX);
		assert_int_equal(life_value(&l, 100), 3);
		life_end(&l);
	}
	sim_disk_destroy(config.disk);
}

/* A directory whose disk fails while it is recovered: an error, and the next start finds all. */
UNIT_TEST(a_disk_that_fails_meanwhile)
{
	const enum sim_call calls[] = { SIM_OPEN,   SIM_PREALLOCATE, SIM_WRITE, SIM_SYNC,
					SIM_RENAME, SIM_SYNC_DIR,    SIM_READ };
	struct sim_disk *disk = life_disk();
	unsigned fails = 0;
	struct life l;

	begin(&l, disk);
	for (uint64_t key = 0; key < 20; key++)
		assert_ok(life_put(&l, key, key, 0));
	life_end(&l);
	for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
		for (unsigned after = 0; after < 6; after++) {
			struct sim_disk *fork = sim_disk_fork(disk);
			const struct life_config config = { .disk = fork };
			struct error err = { 0 };

			sim_disk_fail(fork, calls[c], after, -EIO);
			if (life_begin(&l, &config, &err)) {
				assert_true(strlen(err.text) > 20);
				fails++;
			} else {
				life_end(&l);
			}
			sim_disk_fail(fork, calls[c], UINT32_MAX, 0);
			begin(&l, fork);
			for (uint64_t key = 0; key < 20; key++)
				assert_int_equal(life_value(&l, key), key);
			life_end(&l);
			sim_disk_destroy(fork);
		}
	}
	printf("%u starts failed\n", fails);
	assert_true(fails > 8);
	sim_disk_destroy(disk);
}
