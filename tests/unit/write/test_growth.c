/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Memory grows, and there is none meanwhile: a worker waits a little for it, and not for each write
 * of a batch, or its other clients would wait for the sum. Here every block is "on its way", and
 * waiting for it takes as long as it may.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "server/reclaim/qsbr.h"
#include "server/write/write.h"
#include "tests/lib/fake_clock.h"
#include "tests/lib/no_device.h"

#define BATCH	 128u
#define WAIT_MS	 10u
#define PAUSE_MS 90u

static struct store store;
static struct store_worker worker;
static struct clients *clients;
static struct client_entry *client;
static unsigned answers, busy, waits;
static uint32_t waited_ms; /* the client's word */

static void answer(struct write_door *door, struct write *w)
{
	answers++;
	busy += w->result.status == -EBUSY;
}

static struct write_door door;

void __wrap_memory_growth_wait(struct memory *m, unsigned ms);
int __wrap_memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
			struct block **block);

void __wrap_memory_growth_wait(struct memory *m, unsigned ms)
{
	assert_int_equal(ms, WAIT_MS);
	waits++;
	fake_clock_ahead(ms);
}

int __wrap_memory_alloc(struct memory_cache *cache, uint32_t bytes, struct memory_place *place,
			struct block **block)
{
	return -EAGAIN;
}

static int set_up(void **state)
{
	const struct store_config config = {
		.bytes_max = 64 << 20,
		.server_incarnation = 5,
		.hash_seed = 6,
		.hooks = { take_region, drop_region, NULL },
	};
	const uint64_t id[2] = { 1, 2 };
	struct error err;
	bool resumed;

	answers = busy = waits = waited_ms = 0;
	door = (struct write_door){ .store = &worker, .answer = answer };
	qsbr_register();
	if (store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8) ||
	    clients_create(&clients) || clients_attach(clients, id, 7, 1, &client, &resumed) ||
	    client_queue_pair(client, 0, 4))
		return -1;
	fake_clock_begin(false); /* it runs: others of this process sleep by it */
	return 0;
}

static int tear_down(void **state)
{
	fake_clock_end();
	store_worker_destroy(&worker);
	qsbr_unregister();
	store_destroy(&store);
	clients_destroy(clients);
	return 0;
}

static void run(enum write_op op, uint64_t sequence)
{
	struct write w;

	memset(&w, 0, sizeof(w));
	write_begin(&w);
	w.ask = (struct write_request){ .client = client,
					.generation = 7,
					.sequence = sequence,
					.op = op,
					.waited_ms = waited_ms,
					.operand = 1,
					.key_len = 3,
					.value_len = 100,
					.key = "key" };
	if (op != WRITE_PUT || write_take(&door, &w, false))
		write_run(&door, &w);
}

UNIT_TEST(a_batch_waits_once_for_memory_that_grows, set_up, tear_down)
{
	const enum write_op ops[] = { WRITE_PUT, WRITE_INCR };
	uint64_t sequence = 0, begun_ns, took_ms;

	for (unsigned i = 0; i < 2; i++) {
		answers = busy = waits = 0;
		fake_clock_ahead(PAUSE_MS);
		begun_ns = time_now_ns();
		for (unsigned n = 0; n < BATCH; n++)
			run(ops[i], ++sequence);
		took_ms = (time_now_ns() - begun_ns) / NS_PER_MS;
		assert_int_equal(answers, BATCH);
		assert_int_equal(busy, BATCH); /* "not now", each of them */
		assert_in_range(waits, 1, 1 + took_ms / (WAIT_MS + PAUSE_MS));
	}
	fake_clock_ahead(PAUSE_MS + 1); /* others were served: it may wait again */
	run(WRITE_PUT, ++sequence);
	assert_in_range(waits, 2, 3 + took_ms / (WAIT_MS + PAUSE_MS));
}

/* A slow machine is no full store, however long its growth takes. */
UNIT_TEST(a_client_that_has_waited_for_long_waits_on, set_up, tear_down)
{
	waited_ms = 60000;
	run(WRITE_PUT, 1);
	run(WRITE_INCR, 2);
	assert_int_equal(answers, 2);
	assert_int_equal(busy, 2);
}
