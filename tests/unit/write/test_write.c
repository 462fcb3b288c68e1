/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The door for writes, without RPC: each write is answered once and applied at most once. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "server/reclaim/qsbr.h"
#include "server/write/write.h"
#include "tests/lib/no_device.h"

#define GENERATION 7u
#define CAP	   (64u << 10)

static struct store store;
static struct store_worker worker;
static struct clients *clients;
static struct client_entry *client;
static unsigned answers; /* of the write that was run last */
static struct client_reply said;
static bool repeated;

static void answer(struct write_door *door, struct write *w)
{
	answers++;
	said = w->result;
	repeated = w->repeated;
	assert_null(w->put.block); /* a block that was not published went back before */
}

static struct write_door door = { .store = &worker, .answer = answer };

static int set_up(void **state)
{
	const struct store_config config = {
		.bytes_max = 64 << 20,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
		.deferred_max = CAP,
	};
	const uint64_t id[2] = { 1, 2 };
	struct error err;
	bool resumed;

	qsbr_register();
	return store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8) ||
	       clients_create(&clients) ||
	       clients_attach(clients, id, GENERATION, 1, &client, &resumed) ||
	       client_queue_pair(client, 0, 4);
}

static int tear_down(void **state)
{
	store_worker_destroy(&worker);
	qsbr_unregister();
	store_destroy(&store);
	clients_destroy(clients);
	return 0;
}

static struct write write_of(enum write_op op, uint64_t sequence, uint32_t value_len)
{
	struct write w;

	memset(&w, 1, sizeof(w)); /* as another write leaves it */
	write_begin(&w);
	w.ask = (struct write_request){ .client = client,
					.generation = GENERATION,
					.sequence = sequence,
					.op = op,
					.operand = 1,
					.key_len = 3,
					.value_len = value_len,
					.key = "key" };
	return w;
}

/* Run it to its one answer. Returns the status. */
static int run(struct write w)
{
	answers = 0;
	if (w.ask.op != WRITE_PUT && w.ask.op != WRITE_APPEND) {
		write_run(&door, &w);
	} else if (write_take(&door, &w, false)) {
		assert_int_equal(answers, 0);
		memset(write_value(&w), '0', w.ask.value_len);
		write_run(&door, &w);
	}
	assert_int_equal(answers, 1);
	return said.status;
}

static uint64_t blocks_used(void)
{
	struct memory_stats stats;
	uint64_t used = 0;

	memory_stats_get(store.memory, &stats);
	for (unsigned i = 0; i < stats.classes; i++)
		used += stats.class[i].blocks_used;
	return used;
}

/* Each operation, sent twice: the second one gets the reply of the first and changes nothing. */
UNIT_TEST(a_write_that_comes_twice, set_up, tear_down)
{
	const enum write_op ops[] = { WRITE_PUT, WRITE_INCR, WRITE_APPEND, WRITE_TOUCH, WRITE_DEL };
	const uint32_t lengths[] = { 1, 1, 2, 2, 2 };

	for (unsigned i = 0; i < 5; i++) {
		struct write w = write_of(ops[i], i + 1, 1);
		struct client_reply first;
		uint64_t version;

		assert_int_equal(run(w), 0);
		assert_false(repeated);
		assert_int_equal(said.sequence, i + 1);
		first = said;
		version = atomic_load(&store.version);
		w.ask.retry = true;
		assert_int_equal(run(w), 0);
		assert_true(repeated);
		assert_int_equal(said.version, first.version);
		assert_int_equal(said.number, ops[i] == WRITE_INCR ? 1 : 0);
		assert_int_equal(said.value_len, lengths[i]);
		assert_int_equal(atomic_load(&store.version), version);
	}
}

UNIT_TEST(a_write_of_a_fenced_session, set_up, tear_down)
{
	uint64_t used = blocks_used(), version = atomic_load(&store.version);
	struct write w = write_of(WRITE_PUT, 1, 100);

	w.ask.generation--;
	assert_int_equal(run(w), -ESTALE);
	w.ask.op = WRITE_DEL;
	assert_int_equal(run(w), -ESTALE);
	assert_int_equal(blocks_used(), used);
	assert_int_equal(atomic_load(&store.version), version);
	assert_int_equal(run(write_of(WRITE_PUT, 1, 100)), 0); /* nothing was remembered of it */
	assert_false(repeated);
}

UNIT_TEST(a_retry_that_nobody_remembers, set_up, tear_down)
{
	struct write w = write_of(WRITE_PUT, 5, 100);

	assert_int_equal(run(w), 0);
	w.ask.sequence = 4;
	w.ask.retry = true;
	assert_int_equal(run(w), -EREMOTEIO);
	w.ask.op = WRITE_INCR;
	assert_int_equal(run(w), -EREMOTEIO);
}

/* A condition that failed is remembered: the retry is told so, though it would hold by now. */
UNIT_TEST(a_refusal_is_remembered, set_up, tear_down)
{
	struct write w = write_of(WRITE_PUT, 2, 100), gone = write_of(WRITE_DEL, 3, 0);
	uint64_t there;

	assert_int_equal(run(write_of(WRITE_PUT, 1, 100)), 0);
	there = said.version;
	w.ask.condition = STORE_IF_ABSENT;
	assert_int_equal(run(w), -EEXIST);
	assert_int_equal(said.version, there);
	gone.ask.slot = 1;
	assert_int_equal(run(gone), 0);
	w.ask.retry = true;
	assert_int_equal(run(w), -EEXIST);
	assert_true(repeated);
}

/* A value that never came: the block goes back, and the same request may be sent again. */
UNIT_TEST(a_value_that_cannot_be_had, set_up, tear_down)
{
	uint64_t used = blocks_used();
	struct write w = write_of(WRITE_PUT, 1, 10000);

	answers = 0;
	assert_true(write_take(&door, &w, true));
	assert_int_equal(blocks_used(), used + 1);
	write_drop(&door, &w);
	assert_int_equal(blocks_used(), used);
	assert_int_equal(answers, 0);
	assert_int_equal(run(write_of(WRITE_PUT, 1, 10000)), 0);
}

/* Too much waits for a session: "not now" is not remembered, and the same request is applied once
 * the session has gone. What is to be fetched is refused before anybody fetches it. */
UNIT_TEST(not_now_is_not_remembered, set_up, tear_down)
{
	const enum write_op ops[] = { WRITE_PUT, WRITE_APPEND, WRITE_TOUCH, WRITE_DEL };
	struct grace *g = reclaim_grace(store.reclaim);
	struct epoch_session s;
	struct epoch_slot slot;
	struct write w;
	uint64_t sequence = 1;

	memset(&slot, 0, sizeof(slot));
	grace_join(g, &s, &slot, 1);
	grace_wait_for(g, &s, true);
	while (run(write_of(WRITE_PUT, sequence, 8000)) == 0)
		assert_true(sequence++ < 100);
	assert_int_equal(said.status, -EBUSY);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(run(write_of(ops[i], sequence, 8000)), -EBUSY);
	w = write_of(WRITE_PUT, sequence, 8000);
	answers = 0;
	assert_false(write_take(&door, &w, true));
	assert_int_equal(answers, 1);
	assert_int_equal(said.status, -EBUSY);
	grace_close_slot(g, &s);
	grace_leave(g, &s);
	reclaim_kick(store.reclaim);
	do {
		reclaim_poll(worker.reclaim, UINT64_MAX / 2);
		qsbr_quiescent();
	} while (run(write_of(WRITE_PUT, sequence, 8000)) == -EBUSY);
	assert_int_equal(said.status, 0);
	assert_false(repeated);
}
