/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/data/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tests/lib/no_device.h"
#include "tests/lib/unit.h"

#define FIRST_SEQUENCE 1000u
#define SECTOR	       4096u

static struct life *current;
static uint64_t next_sequence = FIRST_SEQUENCE; /* over all lives */

static void answer(struct write_door *door, struct write *w)
{
	current->answered = true;
	current->said = w->result;
	current->repeated = w->repeated;
}

static void failed(void *ctx, const char *why)
{
	((struct life *)ctx)->log_failed = true;
}

struct sim_disk *life_disk(void)
{
	struct sim_disk *d = sim_disk_create(SECTOR);

	assert_non_null(d);
	sim_disk_short_files(d, 1 << 20);
	return d;
}

static int make_store(struct life *l, const struct life_config *c, struct error *err)
{
	const struct store_config config = {
		.bytes_max = c->memory ? c->memory : 64 << 20,
		.server_incarnation = 5,
		.hash_seed = data_hash_seed(l->data),
		.hooks = { take_region, drop_region, NULL },
	};

	return store_create(&l->store, &config, err);
}

static uint64_t first_unpublished(void *ctx)
{
	const struct life *l = ctx;

	return write_first_unpublished(data_log(l->data), l->doors, 1);
}

static int attach(struct life *l)
{
	const uint64_t id[2] = { 1, 2 };
	bool resumed;

	return clients_attach(l->clients, id, LIFE_GENERATION, FIRST_SEQUENCE, &l->client,
			      &resumed) ||
	       client_queue_pair(l->client, 0, LIFE_SLOTS);
}

int life_begin(struct life *l, const struct life_config *c, struct error *err)
{
	const struct data_config config = {
		.path = "DIR",
		.io = sim_disk_io(c->disk),
		.sync = c->sync,
		.sync_ms = 5,
		.segment_bytes = LOG_SEGMENT_MIN,
		.snapshot_bytes = c->snapshot_bytes,
		.recover_until = c->recover_until ? c->recover_until : UINT64_MAX,
		.threads = c->threads ? c->threads : 2,
		.failed = failed,
		.ctx = l,
	};
	int rc;

	*l = (struct life){ .disk = c->disk };
	rc = data_open(&l->data, &config, err);
	if (rc)
		return rc;
	assert_ok(make_store(l, c, err));
	assert_ok(clients_create(&l->clients));
	rc = data_recover(l->data, &l->store, l->clients, err);
	if (rc) {
		data_close(l->data);
		store_destroy(&l->store);
		clients_destroy(l->clients);
		return rc;
	}
	qsbr_register();
	current = l;
	assert_ok(store_worker_create(&l->worker, &l->store, 8));
	assert_ok(attach(l));
	l->door = (struct write_door){ .store = &l->worker, .answer = answer };
	assert_ok(write_door_open(&l->door, 64, err));
	l->doors[0] = &l->door;
	l->serves = c->serve;
	if (c->serve)
		assert_ok(
			data_serve(l->data, &(struct data_published){ first_unpublished, l }, err));
	return 0;
}

void life_end(struct life *l)
{
	if (l->serves) {
		qsbr_offline();
		data_rest(l->data, true);
		qsbr_online();
	}
	write_door_close(&l->door);
	store_worker_destroy(&l->worker);
	qsbr_unregister();
	data_close(l->data);
	store_destroy(&l->store);
	clients_destroy(l->clients);
}

struct sim_disk *life_kill(struct life *l)
{
	struct sim_disk *left = sim_disk_fork(l->disk);

	life_end(l);
	return left;
}

static struct write write_of(struct life *l, enum write_op op, const uint64_t *key, unsigned slot)
{
	struct write w;

	write_begin(&w);
	w.ask = (struct write_request){
		.client = l->client,
		.generation = LIFE_GENERATION,
		.sequence = l->sequence[slot] = next_sequence++,
		.slot = slot,
		.op = op,
		.operand = 1,
		.now_ns = store_now_ns(&l->store),
		.key_len = sizeof(*key),
		.value_len = op == WRITE_PUT ? sizeof(uint64_t) : 0,
		.key = key,
	};
	return w;
}

int life_await(struct life *l)
{
	write_flush(&l->door);
	while (!l->answered) {
		write_poll(&l->door);
		qsbr_quiescent();
		reclaim_poll(l->worker.reclaim, time_now_ns());
		time_give_way();
	}
	return l->said.status;
}

static int run(struct life *l, struct write *w, uint64_t value)
{
	l->answered = false;
	if (w->ask.op != WRITE_PUT) {
		write_run(&l->door, w);
	} else if (write_take(&l->door, w, false)) {
		memset(write_value(w), 0, w->ask.value_len);
		memcpy(write_value(w), &value, sizeof(value));
		write_run(&l->door, w);
	}
	return life_await(l);
}

int life_put_long(struct life *l, uint64_t key, uint64_t value, uint32_t bytes, unsigned slot)
{
	uint64_t until = time_now_ns() + 10 * NS_PER_S;
	struct write w;
	int rc;

	do { /* memory grows */
		w = write_of(l, WRITE_PUT, &key, slot);
		w.ask.value_len = bytes;
		rc = run(l, &w, value);
	} while (rc == -EBUSY && time_now_ns() < until);
	return rc;
}

int life_put(struct life *l, uint64_t key, uint64_t value, unsigned slot)
{
	struct write w = write_of(l, WRITE_PUT, &key, slot);

	return run(l, &w, value);
}

void life_put_begin(struct life *l, struct write *w, uint64_t key, uint64_t value, unsigned slot)
{
	*w = write_of(l, WRITE_PUT, &key, slot);
	l->answered = false;
	assert_true(write_take(&l->door, w, false));
	memcpy(write_value(w), &value, sizeof(value));
	write_run(&l->door, w);
	assert_false(l->answered);
	write_flush(&l->door);
}

int life_del(struct life *l, uint64_t key, unsigned slot)
{
	struct write w = write_of(l, WRITE_DEL, &key, slot);

	return run(l, &w, 0);
}

int life_incr(struct life *l, uint64_t key, unsigned slot)
{
	struct write w = write_of(l, WRITE_INCR, &key, slot);

	return run(l, &w, 0);
}

int life_again(struct life *l, enum write_op op, uint64_t key, uint64_t sequence, unsigned slot)
{
	struct write w = write_of(l, op, &key, slot);

	w.ask.sequence = sequence;
	w.ask.retry = true;
	return run(l, &w, 0);
}

bool life_get(struct life *l, uint64_t key, uint64_t *value, uint64_t *version)
{
	struct store_result found;
	int rc = store_get(&l->worker, &key, sizeof(key), store_now_ns(&l->store) / NS_PER_MS,
			   false, &found);

	if (rc == -ENOENT)
		return false;
	assert_ok(rc);
	memcpy(value, found.block->data + sizeof(key), sizeof(*value));
	if (version)
		*version = found.version;
	qsbr_quiescent();
	return true;
}

uint64_t life_value(struct life *l, uint64_t key)
{
	uint64_t value = 0;

	return life_get(l, key, &value, NULL) ? value : UINT64_MAX;
}
