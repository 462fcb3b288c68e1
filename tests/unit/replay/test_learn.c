/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A member that learns: the log from some position on, and a walk which brings each key as it was
 * at some time since then, in any order, at any moment.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/reclaim/qsbr.h"
#include "server/replay/replay.h"
#include "tests/lib/no_device.h"

UNIT_GROUP(unit_seed, NULL);

#define SEED	 6u
#define KEYS	 50u
#define LATE	 10u /* of these keys, walked when the log has ended */
#define RECORDS	 600u /* of the log, in its order */
#define FIRST	 200u /* the one that is the first in the ring: what is before is walked only */
#define ROUNDS	 40u
#define THREADS	 3u
#define KEY_LEN	 5u
#define LONG_AGO 1000u /* ms */
#define HANDLE	 1u
#define SLOT	 2u

static struct store store;
static struct store_worker worker;
static struct clients *clients;
static struct replay *replay;

static int set_up(void **state)
{
	const struct store_config config = {
		.bytes_max = 256 << 20,
		.server_incarnation = 5,
		.hash_seed = SEED,
		.hooks = { take_region, drop_region, NULL },
	};
	const struct apply_config apply = { .store = &store, .threads = THREADS, .learning = true };
	struct error err;
	int rc;

	qsbr_register();
	rc = store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8) ||
	     clients_create(&clients);
	qsbr_offline(); /* others may wait for a grace period */
	return rc ? rc : replay_open(&replay, &apply, clients, &err);
}

static int tear_down(void **state)
{
	int rc = replay_close(replay);

	qsbr_online();
	clients_destroy(clients);
	store_worker_destroy(&worker);
	qsbr_unregister();
	store_destroy(&store);
	return rc;
}

struct entry {
	unsigned key;
	bool del, expired;
	uint64_t version;
	unsigned value;
};

static struct entry entries[RECORDS];

static void draw_entries(unsigned round)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		const uint64_t kind = unit_below(8);

		entries[i] = (struct entry){ .key = (unsigned)unit_below(KEYS),
					     .del = kind < 3,
					     .expired = kind == 3,
					     .version = (round + 1ull) * RECORDS + i,
					     .value = i };
	}
}

static void key_of(unsigned key, char out[8])
{
	snprintf(out, 8, "key%02u", key);
}

/* As the log has it. */
static void give_log(const struct entry *e)
{
	union {
		struct log_record record;
		uint8_t bytes[LOG_RECORD_BYTES + KEY_LEN + sizeof(unsigned) + 8];
	} at = { 0 };
	struct log_record *r = &at.record;
	char name[8];

	key_of(e->key, name);
	r->kind = e->del ? LOG_DEL : LOG_PUT;
	r->version = e->version;
	r->key_len = KEY_LEN;
	r->value_len = e->del ? 0 : sizeof(e->value);
	r->expiry_ms = e->expired ? LONG_AGO : 0;
	memcpy(r->data, name, KEY_LEN);
	if (!e->del)
		memcpy(r->data + KEY_LEN, &e->value, sizeof(e->value));
	r->body = hash_bytes(r->data, KEY_LEN + (size_t)r->value_len);
	assert_ok(replay_log(replay, r));
}

/* What stands there for a reader when all before @end was done; NULL: nothing. */
static const struct entry *at_time(unsigned key, unsigned end)
{
	while (end--) {
		const struct entry *e = &entries[end];

		if (e->key == key)
			return e->del || e->expired ? NULL : e;
	}
	return NULL;
}

static void give_walked(const struct entry *e)
{
	char name[8];
	const struct apply_record r = { .key = name,
					.key_len = KEY_LEN,
					.value = &e->value,
					.value_len = sizeof(e->value),
					.version = e->version,
					.walked = true };

	key_of(e->key, name);
	assert_ok(replay_record(replay, &r));
}

static void check_key(unsigned key)
{
	const struct entry *want = at_time(key, RECORDS);
	struct store_result r;
	char name[8];
	unsigned value;

	key_of(key, name);
	assert_int_equal(store_get(&worker, name, KEY_LEN, 0, false, &r), want ? 0 : -ENOENT);
	if (!want)
		return;
	assert_int_equal(r.version, want->version);
	assert_int_equal(block_verify(r.block, block_bytes(KEY_LEN, r.value_len), name, KEY_LEN,
				      r.block->key_hash, r.incarnation),
			 BLOCK_OK);
	memcpy(&value, r.block->data + KEY_LEN, sizeof(value));
	assert_int_equal(value, want->value);
}

static void check_all(void)
{
	assert_ok(replay_flush(replay));
	qsbr_online();
	for (unsigned key = 0; key < KEYS; key++)
		check_key(key);
	qsbr_offline();
}

/* Each key once, read at a time that is not before the walk began. */
static void walk_over(unsigned key, unsigned now)
{
	const unsigned read_at = FIRST + (unsigned)unit_below(now - FIRST + 1);
	const struct entry *e = at_time(key, read_at);

	if (e)
		give_walked(e);
}

/* The primary may be ahead of what comes here, or it may not: so may what is walked. */
UNIT_TEST(log_and_walk_at_once, set_up, tear_down)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned walked = 0;

		draw_entries(round);
		for (unsigned i = FIRST; i < RECORDS; i++) {
			give_log(&entries[i]);
			while (walked < KEYS - LATE && unit_below((RECORDS - i) / KEYS + 1) == 0)
				walk_over(walked++, unit_below(2) ? RECORDS : i + 1);
		}
		while (walked < KEYS)
			walk_over(walked++, RECORDS);
		check_all();
		for (unsigned key = 0; key < KEYS; key++) { /* the next round begins with nothing */
			const struct entry gone = { .key = key,
						    .del = true,
						    .version = (round + 2ull) * RECORDS - 1 };

			give_log(&gone);
		}
		assert_ok(replay_flush(replay));
	}
	assert_int_equal(replay_version(replay), (ROUNDS + 1ull) * RECORDS - 1);
}

UNIT_TEST(when_it_has_learned_it_follows, set_up, tear_down)
{
	draw_entries(0);
	for (unsigned i = FIRST; i < RECORDS; i++)
		give_log(&entries[i]);
	for (unsigned key = 0; key < KEYS; key++)
		walk_over(key, RECORDS);
	check_all();
	replay_learned(replay);
	draw_entries(1);
	for (unsigned key = 0; key < KEYS; key++)
		entries[key] = (struct entry){ key, false, false, 2 * RECORDS + key, key };
	for (unsigned i = 0; i < RECORDS; i++)
		give_log(&entries[i]);
	check_all();
}

static void give_client(unsigned id, uint64_t first_sequence, uint64_t sequence, int64_t number)
{
	const struct snapshot_client s = { .client = { id, 1 },
					   .first_sequence = first_sequence,
					   .sequence = sequence,
					   .number = number,
					   .handle = HANDLE,
					   .slot = SLOT };

	assert_ok(replay_client(replay, &s));
}

static void give_kind(enum log_kind kind, unsigned id, uint64_t first_sequence)
{
	const struct log_record r = { .kind = (uint8_t)kind,
				      .client = { id, 1 },
				      .version = first_sequence };

	assert_ok(replay_log(replay, &r));
}

static void give_reply(unsigned id, uint64_t sequence, int64_t number)
{
	union {
		struct log_record record;
		uint8_t bytes[LOG_RECORD_BYTES + 8];
	} at = { .record = { .kind = LOG_DEL,
			     .key_len = 1,
			     .handle = HANDLE,
			     .slot = SLOT,
			     .client = { id, 1 },
			     .version = sequence,
			     .sequence = sequence,
			     .number = number } };

	at.record.data[0] = 'k';
	assert_ok(replay_log(replay, &at.record));
}

/* What a retry of @sequence is told. */
static enum client_verdict ask(unsigned id, uint64_t sequence, int64_t *number)
{
	const uint64_t name[2] = { id, 1 };
	const struct client_reply *reply;
	struct client_entry *e;
	enum client_verdict v;
	bool resumed;

	assert_ok(clients_attach(clients, name, 7, 100, &e, &resumed));
	assert_ok(client_queue_pair(e, HANDLE, SLOT + 1));
	pthread_mutex_lock(&e->lock);
	v = client_check(e, 7, HANDLE, SLOT, sequence, true, &reply);
	if (v == CLIENT_REPEAT)
		*number = reply->number;
	pthread_mutex_unlock(&e->lock);
	clients_detach(clients, e);
	return v;
}

/* The table is of a later time than the log's first record, which goes over it. */
UNIT_TEST(clients_are_as_the_log_has_them, set_up, tear_down)
{
	int64_t number = 0;

	give_client(1, 10, 15, 150);
	give_client(2, 10, 12, 120);
	give_client(3, 50, 55, 550);
	give_reply(1, 14, 140); /* the table has a later one */
	give_reply(2, 13, 130);
	give_kind(LOG_FORGET, 3, 0); /* and 3 was begun again, which the table knew */
	give_kind(LOG_CLIENT, 3, 50);
	give_reply(3, 55, 551);
	give_kind(LOG_CLIENT, 4, 60);
	give_reply(4, 61, 610);
	give_client(5, 10, 15, 150);
	give_kind(LOG_FORGET, 5, 0);
	assert_ok(replay_flush(replay));
	assert_int_equal(ask(1, 15, &number), CLIENT_REPEAT);
	assert_int_equal(number, 150);
	assert_int_equal(ask(2, 13, &number), CLIENT_REPEAT);
	assert_int_equal(number, 130);
	assert_int_equal(ask(3, 55, &number), CLIENT_REPEAT);
	assert_int_equal(number, 551);
	assert_int_equal(ask(3, 49, &number), CLIENT_UNKNOWN);
	assert_int_equal(ask(4, 61, &number), CLIENT_REPEAT);
	assert_int_equal(number, 610);
	assert_int_equal(ask(5, 15, &number), CLIENT_UNKNOWN);
}

UNIT_TEST(what_cannot_be_is_refused, set_up, tear_down)
{
	const struct log_record unknown = { .kind = 9 };
	const struct snapshot_client far = { .client = { 1, 1 },
					     .sequence = 1,
					     .handle = SESSION_QPS_MAX };

	assert_int_equal(replay_log(replay, &unknown), -EINVAL);
	assert_int_equal(replay_client(replay, &far), -EINVAL);
}
