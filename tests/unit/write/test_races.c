/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes that depend on what is there, while others write the same key all the time: each is
 * applied, and nobody takes a lost race for a shortage of memory. Here store_put_publish() first
 * lets another writer write the key, so that every race is lost.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/reclaim/qsbr.h"
#include "server/write/write.h"
#include "tests/lib/no_device.h"

#define GENERATION 7u
#define THREADS	   4u
#define TURNS	   2000u

static struct store store;
static struct clients *clients;

/* A client, and the thread that writes for it. */
struct writer {
	pthread_t thread;
	struct client_entry *client;
	struct store_worker worker;
	struct write_door door;
	struct client_reply said;
	unsigned busy; /* answers of "not now" */
};

static struct writer us, rival;
static bool racing;
static bool growing; /* the rival's value has another length each time */
static unsigned races;
static unsigned last; /* this race is lost to what is no number, or to a DEL; 0: none */
static bool deletes;

static void answer(struct write_door *door, struct write *w)
{
	struct writer *me = caa_container_of(door, struct writer, door);

	me->said = w->result;
}

static int writer_create(struct writer *w, unsigned number)
{
	const uint64_t id[2] = { 1, number };
	bool resumed;

	w->door = (struct write_door){ .store = &w->worker, .answer = answer };
	return store_worker_create(&w->worker, &store, 8) ||
	       clients_attach(clients, id, GENERATION, number + 1, &w->client, &resumed) ||
	       client_queue_pair(w->client, 0, 1);
}

static int set_up(void **state)
{
	const struct store_config config = {
		.bytes_max = 256 << 20,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err;

	racing = growing = deletes = false;
	races = last = 0;
	qsbr_register();
	return store_create(&store, &config, &err) || clients_create(&clients) ||
	       writer_create(&us, 0) || writer_create(&rival, 1);
}

static int tear_down(void **state)
{
	store_worker_destroy(&us.worker);
	store_worker_destroy(&rival.worker);
	qsbr_unregister();
	store_destroy(&store);
	clients_destroy(clients);
	return 0;
}

static void quiet(struct writer *w)
{
	reclaim_poll(w->worker.reclaim, UINT64_MAX / 2);
	qsbr_quiescent();
}

static void put(struct store_worker *w, const char *value, size_t len)
{
	struct store_result r;
	struct store_put p;
	int rc;

	while ((rc = store_put_begin(w, "key", 3, (uint32_t)len, 0, &p)) == -EAGAIN)
		memory_growth_wait(store.memory, 100);
	assert_int_equal(rc, 0);
	memset(p.block->data + 3, '0', len);
	memcpy(p.block->data + 3, value, strlen(value));
	assert_int_equal(store_put_commit(w, &p, &store_always, &r), 0);
}

int __real_store_put_publish(struct store_worker *w, struct store_put *p,
			     const struct store_terms *terms, struct store_result *out);
int __wrap_store_put_publish(struct store_worker *w, struct store_put *p,
			     const struct store_terms *terms, struct store_result *out);

int __wrap_store_put_publish(struct store_worker *w, struct store_put *p,
			     const struct store_terms *terms, struct store_result *out)
{
	struct store_result r;
	char number[24];
	int len;

	if (racing && w == &us.worker && ++races == last) {
		if (deletes)
			assert_int_equal(store_del(&rival.worker, "key", 3, &store_always, &r), 0);
		else
			put(&rival.worker, "no number", 9);
	} else if (racing && w == &us.worker) {
		len = snprintf(number, sizeof(number), "1%0*u", growing ? (int)(races % 9) : 1,
			       races);
		put(&rival.worker, number, (size_t)len);
	}
	return __real_store_put_publish(w, p, terms, out);
}

static int run(struct writer *me, enum write_op op, uint64_t sequence, uint32_t value_len)
{
	struct write w;

	memset(&w, 1, sizeof(w));
	write_begin(&w);
	w.ask = (struct write_request){ .client = me->client,
					.generation = GENERATION,
					.sequence = sequence,
					.op = op,
					.operand = 1,
					.key_len = 3,
					.value_len = value_len,
					.key = "key" };
	if (op == WRITE_APPEND) {
		if (!write_take(&me->door, &w, false))
			return me->said.status;
		memset(write_value(&w), 'x', value_len);
	}
	write_run(&me->door, &w);
	me->busy += me->said.status == -EBUSY;
	return me->said.status;
}

static void find(char *value, size_t cap, uint64_t version)
{
	struct store_result r;

	assert_int_equal(store_get(&us.worker, "key", 3, 0, false, &r), 0);
	assert_int_equal(r.version, version);
	assert_int_equal(block_verify(r.block, block_bytes(3, r.value_len), "key", 3,
				      r.block->key_hash, r.incarnation),
			 BLOCK_OK);
	assert_true(r.value_len < cap);
	memcpy(value, r.block->data + 3, r.value_len);
	value[r.value_len] = '\0';
}

/* Each op loses every race that it can lose, against values of one length and of many. */
UNIT_TEST(a_write_that_loses_each_race_is_applied, set_up, tear_down)
{
	const enum write_op ops[] = { WRITE_INCR, WRITE_TOUCH, WRITE_APPEND };
	uint64_t sequence = 0;
	char value[64], want[64];

	for (unsigned i = 0; i < 6; i++) {
		growing = i / 3;
		put(&rival.worker, "1", 1);
		racing = true;
		races = 0;
		assert_int_equal(run(&us, ops[i % 3], ++sequence, 2), 0);
		racing = false;
		assert_true(races > 1);
		find(value, sizeof(value), us.said.version);
		snprintf(want, sizeof(want), "1%0*u%s", growing ? (int)(races % 9) : 1,
			 races + (ops[i % 3] == WRITE_INCR),
			 ops[i % 3] == WRITE_APPEND ? "xx" : "");
		assert_string_equal(value, want);
		if (ops[i % 3] == WRITE_INCR)
			assert_int_equal(us.said.number, strtoll(want, NULL, 10));
		quiet(&us);
		quiet(&rival);
	}
	assert_false(reclaim_short(store.reclaim)); /* nobody was asked for hints, or fenced */
}

/* The last race is lost to one that takes the record away, or puts what is no number there. */
UNIT_TEST(the_last_try_finds_what_is_there, set_up, tear_down)
{
	uint64_t version;
	char value[64];

	put(&rival.worker, "1", 1);
	racing = true;
	assert_int_equal(run(&us, WRITE_INCR, 1, 0), 0);
	for (unsigned i = 0; i < 4; i++) {
		const enum write_op op = i == 1 ? WRITE_TOUCH : WRITE_INCR;

		put(&rival.worker, "1", 1);
		last = races;
		races = 0;
		deletes = i != 2;
		version = atomic_load(&store.version);
		assert_int_equal(run(&us, op, 2 + i, 0), i == 1 ? -ENOENT : i == 2 ? -EDOM : 0);
		assert_int_equal(races, last);
		assert_int_equal(atomic_load(&store.version) - version, races + (i % 3 == 0));
		if (i % 3 == 0) {
			find(value, sizeof(value), us.said.version);
			assert_string_equal(value, "1"); /* it began at zero */
		}
	}
}

static void *count_and_touch(void *arg)
{
	struct writer *me = arg;
	uint64_t sequence = 0;

	qsbr_register();
	for (unsigned i = 0; i < TURNS; i++) {
		int rc = run(me, i % 2 ? WRITE_TOUCH : WRITE_INCR, ++sequence, 0);

		while (rc == -EBUSY) {
			quiet(me);
			rc = run(me, i % 2 ? WRITE_TOUCH : WRITE_INCR, ++sequence, 0);
		}
		assert_int_equal(rc, 0);
		quiet(me);
	}
	qsbr_unregister();
	return NULL;
}

UNIT_TEST(many_writers_of_one_key, set_up, tear_down)
{
	static struct writer writers[THREADS];
	char value[64];

	put(&rival.worker, "0", 1);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(writer_create(&writers[i], i + 2), 0);
		assert_int_equal(
			pthread_create(&writers[i].thread, NULL, count_and_touch, &writers[i]), 0);
	}
	qsbr_offline();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	qsbr_online();
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(writers[i].busy, 0);
		store_worker_destroy(&writers[i].worker);
	}
	find(value, sizeof(value), atomic_load(&store.version));
	assert_int_equal(strtoll(value, NULL, 10), THREADS * TURNS / 2);
}
