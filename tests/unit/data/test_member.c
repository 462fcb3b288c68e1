/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The directory of a group's member: what it vouches for, and what goes aside, whatever crashes. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/data/data_internal.h"
#include "server/log/meta.h"
#include "tests/lib/folder.h"
#include "tests/unit/data/life.h"

#define CHOICES 6u /* of what survives a crash, of chance */

static struct error err;
static const struct data_member group = { .cluster = { 7, 8 }, .hash_seed = 9, .group = 10 };
static uint64_t seed = 1;

static const char *path = "DIR"; /* that the directory is said to stand at */

static struct data *open_dir(struct sim_disk *disk, enum log_sync sync)
{
	const struct data_config config = { .path = path,
					    .io = sim_disk_io(disk),
					    .sync = sync,
					    .sync_ms = 5,
					    .segment_bytes = LOG_SEGMENT_MIN,
					    .recover_until = UINT64_MAX,
					    .threads = 1 };
	struct data *d;

	if (data_open(&d, &config, &err))
		fail_msg("%s", err.text);
	return d;
}

static bool lose_all(void *ctx, unsigned i)
{
	(void)ctx, (void)i;
	return false;
}

static bool by_chance(void *ctx, unsigned i)
{
	(void)ctx, (void)i;
	return unit_random(&seed) % 2;
}

/* A directory with ten records, of no group yet. */
static struct sim_disk *with_records(void)
{
	const struct life_config config = { .disk = life_disk() };
	struct life l;

	assert_ok(life_begin(&l, &config, &err));
	for (uint64_t key = 0; key < 10; key++)
		assert_ok(life_put(&l, key, key + 1, 0));
	life_end(&l);
	return config.disk;
}

static bool has_records(struct sim_disk *disk)
{
	const struct life_config config = { .disk = disk };
	struct life l;
	bool has = true;

	if (life_begin(&l, &config, &err))
		return false;
	for (uint64_t key = 0; key < 10; key++)
		has &= life_value(&l, key) == key + 1;
	life_end(&l);
	return has;
}

UNIT_TEST(whose_it_is)
{
	struct sim_disk *disk = life_disk();
	struct data_member other = group, asked = { .hash_seed = 1 };
	struct data *d = open_dir(disk, LOG_SYNC_ALWAYS);

	data_proposes(d, &asked);
	assert_int_equal(asked.hash_seed, 1); /* it has no records, so any will do */
	assert_ok(data_alone(d, &err));
	assert_ok(data_join(d, &group, &err));
	assert_int_equal(data_hash_seed(d), 9);
	assert_ok(data_learn(d, NULL, NULL, 3, 4096, &err));
	data_close(d);
	d = open_dir(disk, LOG_SYNC_ALWAYS);
	assert_true(data_was_member(d));
	assert_int_equal(data_alone(d, &err), -EXDEV);
	other.group++;
	assert_int_equal(data_join(d, &other, &err), -EXDEV);
	other = group;
	other.cluster[1]++;
	assert_int_equal(data_join(d, &other, &err), -EXDEV);
	assert_ok(data_join(d, &group, &err));
	assert_int_equal(data_learn(d, NULL, NULL, 2, 4096, &err), -EEXIST); /* an earlier term */
	data_proposes(d, &asked);
	assert_memory_equal(asked.cluster, group.cluster, sizeof(asked.cluster));
	data_close(d);
	sim_disk_destroy(disk);
}

/* It was to found its group, and another one was faster. */
UNIT_TEST(one_that_came_second)
{
	const struct life_config config = { .disk = life_disk() };
	struct data_member asked = group;
	struct data *d;
	struct life l;

	assert_ok(life_begin(&l, &config, &err));
	life_end(&l);
	d = open_dir(config.disk, LOG_SYNC_ALWAYS);
	assert_false(data_is_empty(d));
	data_proposes(d, &asked);
	assert_ok(data_join(d, &asked, &err));
	assert_ok(data_learn(d, NULL, NULL, 1, 4096, &err));
	data_close(d);
	sim_disk_destroy(config.disk);
}

/* A store of one server becomes a group's first; a cluster that is there already orders records
 * otherwise. */
UNIT_TEST(one_with_records)
{
	struct sim_disk *disk = with_records();
	struct data *d = open_dir(disk, LOG_SYNC_ALWAYS);
	struct data_member asked = group;

	assert_int_equal(data_join(d, &group, &err), -EXDEV);
	data_proposes(d, &asked);
	assert_int_equal(asked.hash_seed, data_hash_seed(d));
	assert_memory_equal(asked.cluster, group.cluster, sizeof(asked.cluster));
	assert_ok(data_join(d, &asked, &err));
	assert_int_equal(data_learn(d, NULL, NULL, 1, 0, &err), -EEXIST); /* they stay */
	data_close(d);
	assert_true(has_records(disk));
	sim_disk_destroy(disk);
}

static void vouched(struct sim_disk *disk, uint64_t first, uint64_t second)
{
	struct data *d = open_dir(disk, LOG_SYNC_ALWAYS);
	uint64_t lives[2];

	assert_int_equal(data_vouches(d, lives), !!first + !!second);
	assert_int_equal(lives[0], first);
	assert_int_equal(lives[1], second);
	data_close(d);
}

/* A server that begins again and again, before etcd names another life of it. */
UNIT_TEST(the_life_that_etcd_names)
{
	struct sim_disk *disk = life_disk();

	vouched(disk, 0, 0);
	for (uint64_t life = 1; life <= 4; life++) {
		struct data *d = open_dir(disk, LOG_SYNC_ALWAYS);

		assert_ok(data_vouch(d, life, 1, &err));
		assert_ok(data_vouch(d, life, 1, &err)); /* no other life */
		data_close(d);
		vouched(disk, life, life > 1);
	}
	sim_disk_destroy(disk);
}

/* Without a sync for each write it holds as long as the kernel runs. */
UNIT_TEST(until_the_machine_starts_another_time)
{
	struct sim_disk *disk = life_disk();
	struct data *d = open_dir(disk, LOG_SYNC_NEVER);
	struct data_meta m;
	uint64_t lives[2];

	data_answered(d, lives);
	assert_int_equal(lives[0] | lives[1], 0);
	assert_ok(data_vouch(d, 5, 0, &err));
	data_close(d);
	vouched(disk, 5, 0);
	assert_ok(meta_read(sim_disk_io(disk), &m, &err));
	m.boot[0]++;
	assert_ok(meta_write(sim_disk_io(disk), &m, &err));
	vouched(disk, 0, 0);
	d = open_dir(disk, LOG_SYNC_NEVER);
	data_answered(d, lives);
	assert_int_equal(lives[0], 5); /* it may have, whatever there is of it */
	data_close(d);
	sim_disk_destroy(disk);
}

/* Moved on its file system it is the same; copied it is not, until it has vouched there. */
UNIT_TEST(a_copy_vouches_for_nothing, folder_make, folder_remove)
{
	struct sim_disk *disk = life_disk();
	char here[64], there[64];
	struct data *d;

	snprintf(here, sizeof(here), "%s/here", folder);
	snprintf(there, sizeof(there), "%s/there", folder);
	assert_ok(mkdir(here, 0700));
	path = here;
	d = open_dir(disk, LOG_SYNC_ALWAYS);
	d->meta.group = group.group;
	assert_ok(data_vouch(d, 5, 0, &err));
	data_close(d);
	vouched(disk, 5, 0);
	assert_ok(rename(here, there));
	path = there;
	vouched(disk, 5, 0);
	assert_ok(mkdir(here, 0700));
	path = here;
	vouched(disk, 0, 0);
	d = open_dir(disk, LOG_SYNC_ALWAYS);
	assert_true(data_is_copy(d));
	assert_ok(data_vouch(d, 6, 0, &err));
	assert_false(data_is_copy(d));
	data_close(d);
	vouched(disk, 6, 0);
	path = "DIR";
	sim_disk_destroy(disk);
}

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 1;
}

static int memory(void *ctx, void *base, uint64_t bytes)
{
	(void)ctx, (void)base, (void)bytes;
	return 0;
}

static void no_send(void *ctx, const struct log_sent *s)
{
	(void)ctx, (void)s;
}

static uint64_t nobody(void *ctx)
{
	(void)ctx;
	return UINT64_MAX;
}

static bool is_free(void *ctx, unsigned buffer)
{
	(void)ctx, (void)buffer;
	return true;
}

/* A backup that has taken over: whatever its meta vouches for is there after a power cut. */
UNIT_TEST(it_vouches_for_what_is_durable)
{
	static const struct log_mirror mirror = { NULL, memory, no_send, nobody, is_free };
	struct sim_disk *disk = life_disk(), *cut;
	struct data *d = open_dir(disk, LOG_SYNC_NEVER);
	const struct log_config from = { .first = 4096, .clock_ms = clock_ms };
	const struct log_entry e = { .kind = LOG_FORGET, .client = { 1, 2 } };
	struct log_survey survey;
	struct log_place at;
	struct data_meta m;

	assert_ok(data_join(d, &group, &err));
	assert_ok(data_begin_log(d, &from, &err));
	for (unsigned i = 0; i < 100; i++) {
		assert_ok(log_append_begin(data_log(d), 0, 0, &at));
		log_append_end(data_log(d), &at, &e);
	}
	assert_ok(data_lead(d, 77, 6, &mirror, &err));
	cut = sim_disk_crash(disk, lose_all, NULL);
	data_close(d);
	assert_ok(meta_read(sim_disk_io(cut), &m, &err));
	assert_int_equal(m.whole[0], 77);
	assert_int_equal(m.term, 6);
	assert_int_equal(m.group, 10);
	assert_ok(log_survey_make(&survey, sim_disk_io(cut), m.store, &err));
	assert_int_equal(survey.end, at.end);
	log_survey_free(&survey);
	sim_disk_destroy(cut);
	sim_disk_destroy(disk);
}

/* What a crash has left is the directory as it was, or all of it is aside. */
static void check_left(struct sim_disk *left)
{
	struct data_meta m;
	struct data *d;

	if (meta_read(sim_disk_io(left), &m, &err) == 0 && m.life) {
		assert_true(has_records(left));
		return;
	}
	d = open_dir(left, LOG_SYNC_ALWAYS);
	assert_true(data_is_empty(d) && data_has_aside(d->io));
	assert_int_equal(sim_disk_size(left, "aside/meta"), sizeof(m));
	assert_true(sim_disk_size(left, "aside/log/0000000000000000.log") > 0);
	data_close(d);
}

UNIT_TEST(whatever_crashes_while_it_goes_aside)
{
	struct sim_disk *disk = with_records();
	struct data *d = open_dir(disk, LOG_SYNC_ALWAYS);
	struct sim_disk *before = sim_disk_fork(disk);
	const unsigned begun = sim_disk_ops(disk);

	assert_ok(data_set_aside(d, &err));
	assert_true(data_is_empty(d));
	data_close(d);
	for (unsigned op = begun; op < sim_disk_ops(disk); op++) {
		sim_disk_apply(before, disk, op);
		for (unsigned i = 0; i < CHOICES; i++) {
			struct sim_disk *left =
				sim_disk_crash(before, i ? by_chance : lose_all, NULL);

			check_left(left);
			sim_disk_destroy(left);
		}
	}
	sim_disk_destroy(before);
	sim_disk_destroy(disk);
}

/* What is aside stays over a learner that dies, whose own part goes; then it goes itself. */
UNIT_TEST(until_it_is_not_needed)
{
	struct sim_disk *disk = with_records();
	struct data *d = open_dir(disk, LOG_SYNC_ALWAYS);
	const struct log_config from = { .first = 4096, .clock_ms = clock_ms };

	for (unsigned lives = 0; lives < 3; lives++) {
		assert_ok(data_set_aside(d, &err));
		assert_true(data_is_empty(d));
		assert_ok(data_begin_log(d, &from, &err));
		data_close(d);
		d = open_dir(disk, LOG_SYNC_ALWAYS);
		assert_false(data_is_empty(d));
		assert_true(sim_disk_size(disk, "aside/log/0000000000000000.log") > 0);
	}
	data_delete_aside(d);
	assert_true(data_has_aside(d->io)); /* nobody has said so */
	assert_int_equal(data_is_whole(d, &err), -EEXIST);
	data_forget_aside(d);
	data_delete_aside(d);
	assert_false(data_has_aside(d->io));
	assert_int_equal(sim_disk_size(disk, "aside/log/0000000000000000.log"), -ENOENT);
	data_close(d);
	sim_disk_destroy(disk);
}
