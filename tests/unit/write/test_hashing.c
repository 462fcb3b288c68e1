/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Values are hashed while the client's lock is free: its other writes, on other workers, do not
 * wait for it. And what was hashed ahead is what stands in the record.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/block.h"
#include "server/reclaim/qsbr.h"
#include "server/store/store_internal.h"
#include "server/write/write.h"
#include "tests/lib/no_device.h"

#define GENERATION 7u
#define KEY	   "key"
#define KEY_LEN	   3u
#define LARGE	   (1u << 20)

static struct store store;
static struct store_worker worker;
static struct write_door door;
static struct client_entry *client;
static struct client_reply said;
static uint64_t sequence;
static unsigned hashed, hashed_locked;

uint64_t __real_block_body_hash(const struct block *b);
uint64_t __wrap_block_body_hash(const struct block *b);

uint64_t __wrap_block_body_hash(const struct block *b)
{
	hashed++;
	if (client && pthread_mutex_trylock(&client->lock))
		hashed_locked++;
	else if (client)
		pthread_mutex_unlock(&client->lock);
	return __real_block_body_hash(b);
}

static void answer(struct write_door *d, struct write *w)
{
	said = w->result;
}

static struct clients *clients;

static int set_up(void **state)
{
	static const uint64_t id[2] = { 1, 2 };
	const struct store_config config = {
		.bytes_max = 256 << 20,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err;
	bool resumed;

	sequence = hashed = hashed_locked = 0;
	qsbr_register();
	if (store_create(&store, &config, &err) || clients_create(&clients) ||
	    store_worker_create(&worker, &store, 8))
		return -1;
	door = (struct write_door){ .store = &worker, .answer = answer };
	return clients_attach(clients, id, GENERATION, 1, &client, &resumed) ||
	       client_queue_pair(client, 0, 1);
}

static int tear_down(void **state)
{
	client = NULL;
	store_worker_destroy(&worker);
	qsbr_unregister();
	store_destroy(&store);
	clients_destroy(clients);
	return 0;
}

/* Up to where its value is to be filled in. */
static void take(struct write *w, enum write_op op, uint32_t len)
{
	do {
		reclaim_poll(worker.reclaim, UINT64_MAX / 2);
		qsbr_quiescent();
		write_begin(w);
		w->ask = (struct write_request){
			.client = client,
			.generation = GENERATION,
			.sequence = ++sequence,
			.op = op,
			.now_ns = NS_PER_S,
			.key = KEY,
			.key_len = KEY_LEN,
			.value_len = len,
		};
		if (write_take(&door, w, false))
			return;
		assert_int_equal(said.status, -EBUSY);
		memory_growth_wait(store.memory, 100);
	} while (sequence < 1000);
	fail();
}

static void run(struct write *w, int byte)
{
	memset(write_value(w), byte, w->ask.value_len);
	write_run(&door, w);
}

static void expect(uint32_t len, const char *bytes, uint32_t each)
{
	const uint64_t hash = hash_key(store.hash_seed, KEY, KEY_LEN);
	struct index_hit hit;

	assert_int_equal(store_look_up(&store, hash, KEY, KEY_LEN, &hit), 0);
	assert_int_equal(hit.block->value_len, len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(hit.block->data[KEY_LEN + i], bytes[i / each]);
	assert_int_equal(hit.block->checksum,
			 block_checksum(hit.block, __real_block_body_hash(hit.block)));
}

UNIT_TEST(test_a_value_is_hashed_without_the_lock, set_up, tear_down)
{
	struct write w;

	take(&w, WRITE_PUT, LARGE);
	run(&w, 'a');
	assert_int_equal(said.status, 0);
	take(&w, WRITE_APPEND, LARGE);
	run(&w, 'b');
	assert_int_equal(said.status, 0);
	assert_int_equal(hashed, 2);
	assert_int_equal(hashed_locked, 0);
	expect(2 * LARGE, "ab", LARGE);
}

/* It was made for a record that is not there any more: of the same length, and of another one. */
UNIT_TEST(test_an_append_that_was_hashed_too_early, set_up, tear_down)
{
	struct store_result r;
	struct write first, w;

	take(&w, WRITE_PUT, 4);
	run(&w, 'a');
	for (unsigned i = 0; i < 2; i++) {
		take(&first, WRITE_APPEND, 4);
		memset(write_value(&first), 'b', 4);
		store_append_seal(&worker, &first.put, NS_PER_S / NS_PER_MS);
		assert_true(first.put.sealed);
		take(&w, WRITE_PUT, i ? 8 : 4);
		run(&w, 'c');
		assert_int_equal(store_append_commit(&worker, &first.put, &store_always, &r), 0);
		expect(i ? 12 : 8, i ? "ccb" : "cb", 4);
	}
}
