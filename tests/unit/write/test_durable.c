/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The door with a log that commits when the test says so: what waits, for what, and in what
 * order. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/reclaim/qsbr.h"
#include "server/write/write.h"
#include "tests/lib/no_device.h"
#include "tests/unit/write/fake_log.h"

#define SEED   6u
#define ROOM   8u /* writes that may wait in a door */
#define TURNS  4000u /* of each thread */
#define FLIGHT 4u /* writes of a thread that wait at once */

/* A worker with its door, and a client of it. */
struct side {
	pthread_t thread;
	struct store_worker worker;
	struct write_door door;
	struct client_entry *client;
	uint64_t generation;
	_Atomic unsigned answers;
	struct client_reply said;
	bool repeated;
};

static struct store store;
static struct clients *clients;
static struct side one, two;

static void answer(struct write_door *door, struct write *w)
{
	struct side *s = caa_container_of(door, struct side, door);

	s->answers++;
	s->said = w->result;
	s->repeated = w->repeated;
	assert_null(w->put.block);
	assert_null(w->waiting);
}

static void connect_client(struct side *s, uint64_t number)
{
	const uint64_t id[2] = { 1, number };
	bool resumed;

	if (s->client)
		clients_detach(clients, s->client);
	s->generation++;
	assert_ok(clients_attach(clients, id, s->generation, 1, &s->client, &resumed));
	assert_ok(client_queue_pair(s->client, 0, ROOM));
}

static void side_open(struct side *s, uint64_t number)
{
	struct error err;

	memset(s, 0, sizeof(*s));
	s->door = (struct write_door){ .store = &s->worker, .answer = answer };
	assert_ok(store_worker_create(&s->worker, &store, 8));
	assert_ok(write_door_open(&s->door, ROOM, &err));
	connect_client(s, number);
}

static int set_up(void **state)
{
	const struct store_config config = {
		.bytes_max = 128 << 20,
		.server_incarnation = 5,
		.hash_seed = SEED,
		.hooks = { take_region, drop_region, NULL },
	};
	struct error err;

	qsbr_register();
	if (store_create(&store, &config, &err) || clients_create(&clients))
		return -1;
	fake_log_open(&store);
	side_open(&one, 1);
	side_open(&two, 2);
	return 0;
}

/* Returns whether nothing was left. */
static bool side_close(struct side *s)
{
	bool clean = !write_waits(&s->door) && s->door.oldest == UINT64_MAX;

	write_door_close(&s->door);
	store_worker_destroy(&s->worker);
	return clean;
}

static int tear_down(void **state)
{
	bool clean = side_close(&one) & side_close(&two);

	qsbr_unregister();
	store_destroy(&store);
	clients_destroy(clients);
	return clean ? 0 : -1;
}

static struct write write_of(struct side *s, enum write_op op, uint64_t sequence)
{
	struct write w;

	memset(&w, 1, sizeof(w)); /* as another write leaves it */
	write_begin(&w);
	w.ask = (struct write_request){ .client = s->client,
					.generation = s->generation,
					.sequence = sequence,
					.slot = (unsigned)(sequence % ROOM),
					.op = op,
					.operand = 1,
					.key_len = 3,
					.value_len = 1,
					.key = "key" };
	return w;
}

/* Begin it, up to the log. Returns the status where it was answered already; 1: it waits. */
static int begin(struct side *s, struct write *w)
{
	unsigned answers = s->answers;

	if (w->ask.op != WRITE_PUT && w->ask.op != WRITE_APPEND) {
		write_run(&s->door, w);
	} else if (write_take(&s->door, w, false)) {
		memset(write_value(w), '0', w->ask.value_len);
		write_run(&s->door, w);
	}
	assert_int_equal(s->answers - answers, w->waiting ? 0 : 1);
	return w->waiting ? 1 : s->said.status;
}

/* What is committed is answered. */
static void commit(struct side *s, unsigned answers)
{
	unsigned before = s->answers;

	fake_log_commit();
	write_poll(&s->door);
	assert_int_equal(s->answers - before, answers);
}

static int get(uint64_t *version)
{
	struct store_result r;
	int rc = store_get(&one.worker, "key", 3, 0, false, &r);

	*version = rc ? 0 : r.version;
	return rc;
}

/* A write that is there from the beginning. Returns its version. */
static uint64_t put(uint64_t sequence)
{
	struct write w = write_of(&one, WRITE_PUT, sequence);

	assert_int_equal(begin(&one, &w), 1);
	commit(&one, 1);
	assert_int_equal(one.said.status, 0);
	return one.said.version;
}

UNIT_TEST(nothing_is_told_before_the_commit, set_up, tear_down)
{
	struct write w = write_of(&one, WRITE_PUT, 1);
	uint64_t version;

	assert_int_equal(begin(&one, &w), 1);
	assert_false(write_poll(&one.door));
	assert_int_equal(get(&version), -ENOENT);
	assert_int_equal(fake_log.record[0].entry.kind, LOG_CLIENT);
	assert_int_equal(fake_log.record[0].entry.version, 1);
	assert_int_equal(fake_log.record[1].entry.kind, LOG_PUT);
	assert_int_equal(fake_log.record[1].entry.sequence, 1);
	assert_int_equal(fake_log.record[1].entry.slot, 1);
	assert_true(one.door.oldest <= fake_log.record[1].place.start);
	assert_int_equal(fake_log.kicks, 0);
	write_flush(&one.door);
	write_flush(&one.door);
	assert_int_equal(fake_log.kicks, 1);
	fake_log.committed = fake_log.tail - 1;
	assert_false(write_poll(&one.door));
	commit(&one, 1);
	assert_int_equal(one.said.status, 0);
	assert_int_equal(get(&version), 0);
	assert_int_equal(version, one.said.version);
	assert_int_equal(version, fake_log.record[1].entry.version);
	assert_false(one.repeated);
	put(2);
	assert_int_equal(fake_log.records, 3); /* the client was made known once */
}

/* What a thread that sleeps is told: for how long, and by which descriptor. */
UNIT_TEST(one_that_sleeps_is_woken, set_up, tear_down)
{
	struct write w = write_of(&two, WRITE_PUT, 1); /* the waiter that joined last */
	struct pollfd fd = { .fd = two.door.waiter.fd, .events = POLLIN };

	assert_true(write_sleep(&two.door) == UINT64_MAX);
	write_woke(&two.door);
	assert_int_equal(begin(&two, &w), 1);
	assert_true(write_sleep(&two.door) == UINT64_MAX);
	assert_int_equal(poll(&fd, 1, 0), 0);
	fake_log_commit();
	assert_int_equal(poll(&fd, 1, 0), 1);
	write_woke(&two.door);
	assert_int_equal(poll(&fd, 1, 0), 0);
	commit(&two, 1);
}

/* Refused because of a write that is pending: by a look before the value is there, at the commit of
 * the condition, and by another worker's door. */
UNIT_TEST(a_refusal_waits, set_up, tear_down)
{
	const enum write_op ops[] = { WRITE_PUT, WRITE_APPEND, WRITE_INCR, WRITE_DEL };
	struct write first, w;

	for (unsigned i = 0; i < 8; i++) {
		struct side *s = i < 4 ? &one : &two;

		put(3 * i + 1);
		first = write_of(&one, WRITE_PUT, 3 * i + 2);
		w = write_of(s, ops[i % 4], 3 * i + 3);
		w.ask.condition = ops[i % 4] == WRITE_DEL ? STORE_IF_VERSION : STORE_IF_ABSENT;
		w.ask.operand = one.said.version;
		assert_int_equal(begin(&one, &first), 1);
		assert_int_equal(begin(s, &w), 1);
		assert_false(write_poll(&s->door));
		fake_log_commit();
		if (s == &two) {
			assert_false(write_poll(&two.door));
			assert_in_range(write_sleep(&two.door), 1, 1000000);
			write_woke(&two.door);
		}
		write_poll(&one.door);
		if (s == &two)
			commit(&two, 1);
		assert_int_equal(s->said.status, -EEXIST);
		assert_int_equal(s->said.sequence, 3 * i + 3);
		assert_true(s->said.version == first.result.version);
		w.ask.retry = true;
		write_begin(&w);
		assert_int_equal(begin(s, &w), -EEXIST);
		assert_true(s->repeated);
	}
}

/* The same request again, while its first try is pending: by the other worker, after a fence. */
UNIT_TEST(a_retry_waits, set_up, tear_down)
{
	struct write first, again;

	for (unsigned i = 0; i < 5; i++) {
		const enum write_op ops[] = { WRITE_PUT, WRITE_INCR, WRITE_APPEND, WRITE_TOUCH,
					      WRITE_DEL };
		unsigned records;

		first = write_of(&one, ops[i], i + 1);
		assert_int_equal(begin(&one, &first), 1);
		write_forsake(&first);
		connect_client(&one, 1);
		records = fake_log.records;
		again = write_of(&one, ops[i], i + 1);
		again.ask.retry = true;
		assert_int_equal(begin(&two, &again), 1);
		assert_null(again.put.block);
		fake_log_commit();
		assert_false(write_poll(&two.door));
		commit(&one, 0);
		commit(&two, 1);
		assert_int_equal(two.said.status, 0);
		assert_true(two.repeated);
		assert_true(two.said.version == fake_log.record[records - 1].entry.version);
		assert_int_equal(fake_log.records, records);
	}
}

UNIT_TEST(a_retry_of_a_session_that_is_fenced, set_up, tear_down)
{
	struct write first = write_of(&one, WRITE_PUT, 1), again;

	assert_int_equal(begin(&one, &first), 1);
	again = write_of(&one, WRITE_PUT, 1);
	again.ask.retry = true;
	assert_int_equal(begin(&two, &again), 1);
	connect_client(&one, 1);
	write_poll(&two.door);
	assert_int_equal(two.answers, 1);
	assert_int_equal(two.said.status, -ESTALE);
	commit(&one, 1);
}

/* Nobody wants its answer: it is published and remembered all the same. */
UNIT_TEST(a_write_that_is_forsaken, set_up, tear_down)
{
	struct write w = write_of(&one, WRITE_PUT, 1);
	uint64_t version;

	assert_int_equal(begin(&one, &w), 1);
	assert_int_equal(one.client->pending, 1);
	write_forsake(&w);
	memset(&w, 1, sizeof(w));
	commit(&one, 0);
	assert_int_equal(one.client->pending, 0);
	assert_int_equal(get(&version), 0);
	w = write_of(&one, WRITE_PUT, 1);
	w.ask.retry = true;
	assert_int_equal(begin(&one, &w), 0);
	assert_true(one.repeated);
	assert_true(one.said.version == version);
}

/* The client has given a request up, and uses its slot for the next. */
UNIT_TEST(a_slot_that_is_used_again, set_up, tear_down)
{
	struct write w = write_of(&one, WRITE_PUT, 1), next = write_of(&one, WRITE_PUT, 1 + ROOM);

	assert_int_equal(begin(&one, &w), 1);
	write_forsake(&w);
	assert_int_equal(begin(&one, &next), 1);
	fake_log.committed = fake_log.record[1].place.end;
	write_poll(&one.door);
	assert_int_equal(one.client->replies[0][1].sequence, 1 + ROOM);
	assert_true(one.client->replies[0][1].pending);
	commit(&one, 1);
	assert_int_equal(one.client->replies[0][1].sequence, 1 + ROOM);
	assert_false(one.client->replies[0][1].pending);
}

UNIT_TEST(as_many_wait_as_there_is_room_for, set_up, tear_down)
{
	struct write w[ROOM], more;

	for (unsigned i = 0; i < ROOM; i++) {
		w[i] = write_of(&one, i ? WRITE_INCR : WRITE_PUT, i + 1);
		assert_int_equal(begin(&one, &w[i]), 1);
	}
	more = write_of(&one, WRITE_PUT, ROOM + 1);
	assert_int_equal(begin(&one, &more), -EBUSY);
	more = write_of(&one, WRITE_PUT, ROOM + 1);
	more.ask.condition = STORE_IF_ABSENT;
	assert_int_equal(begin(&one, &more), -EBUSY);
	more = write_of(&one, WRITE_PUT, 1);
	more.ask.retry = true;
	assert_int_equal(begin(&one, &more), -EBUSY);
	commit(&one, ROOM);
	assert_int_equal(one.said.number, ROOM - 1);
	more = write_of(&one, WRITE_PUT, ROOM + 1);
	assert_int_equal(begin(&one, &more), 1);
	commit(&one, 1);
}

/* What the log refuses is not remembered, and what the client is told says why. */
UNIT_TEST(a_log_that_is_full_or_slow, set_up, tear_down)
{
	const int errors[] = { -ENOSPC, -EROFS, -EBUSY, -EIO };
	const int told[] = { -ENOSPC, -EROFS, -EBUSY, -EBUSY };
	struct write w;

	for (unsigned known = 0; known < 2; known++) {
		for (unsigned i = 0; i < 4; i++) {
			fake_log.error = errors[i];
			w = write_of(&one, i ? WRITE_PUT : WRITE_INCR, 1 + known);
			assert_int_equal(begin(&one, &w), told[i]);
			assert_true(one.door.oldest == UINT64_MAX);
		}
		fake_log.error = 0;
		put(1 + known);
		assert_false(one.repeated);
	}
}

/* The other door's write of the key comes first, whoever polls first. */
UNIT_TEST(two_doors_and_one_key, set_up, tear_down)
{
	struct write first = write_of(&one, WRITE_PUT, 1), second = write_of(&two, WRITE_INCR, 1);
	uint64_t version;

	assert_int_equal(begin(&one, &first), 1);
	assert_int_equal(begin(&two, &second), 1);
	fake_log_commit();
	assert_false(write_poll(&two.door));
	assert_in_range(write_sleep(&two.door), 1, 1000000);
	write_woke(&two.door);
	assert_int_equal(get(&version), -ENOENT);
	commit(&one, 1);
	commit(&two, 1);
	assert_int_equal(two.said.number, 1);
	assert_true(two.said.version > one.said.version);
	assert_int_equal(get(&version), 0);
	assert_true(version == two.said.version);
}

/* A log that has failed: what waits gets no answer, and nobody sleeps for ever. */
UNIT_TEST(a_log_that_has_failed, set_up, tear_down)
{
	struct write w = write_of(&one, WRITE_PUT, 1);

	assert_int_equal(begin(&one, &w), 1);
	fake_log.failed = true;
	assert_false(write_poll(&one.door));
	assert_in_range(write_sleep(&one.door), 1, 1000000);
	write_woke(&one.door);
	commit(&one, 1); /* for the tear-down */
}

/*
 * Two threads add to one number, with some of each in flight, while the log commits a bit at a
 * time. Each write is applied once, and S0 as a snapshot takes it has nothing below it that is not
 * published or not remembered.
 */
static void *add(void *arg)
{
	struct side *s = arg;
	struct write w[FLIGHT];

	qsbr_register();
	for (unsigned i = 0; i < TURNS; i++) {
		struct write *mine = &w[i % FLIGHT];

		while (i >= FLIGHT && mine->waiting) {
			write_poll(&s->door);
			qsbr_quiescent();
		}
		*mine = write_of(s, WRITE_INCR, i + 1);
		while (begin(s, mine) == -EBUSY) {
			write_poll(&s->door);
			reclaim_poll(s->worker.reclaim, UINT64_MAX / 2);
			qsbr_quiescent();
			*mine = write_of(s, WRITE_INCR, i + 1);
		}
		reclaim_poll(s->worker.reclaim, UINT64_MAX / 2);
		qsbr_quiescent();
	}
	while (write_waits(&s->door)) {
		write_poll(&s->door);
		qsbr_quiescent();
	}
	qsbr_unregister();
	return NULL;
}

static uint64_t snapshot_start(void)
{
	uint64_t start = fake_log.tail, a = one.door.oldest, b = two.door.oldest;

	start = a < start ? a : start;
	return b < start ? b : start;
}

/* Whether its write is published and remembered. */
static bool is_over(const struct fake_record *r, uint64_t hash)
{
	struct client_entry *c = r->entry.client[1] == 1 ? one.client : two.client;
	const struct client_reply *last = &c->replies[0][r->entry.slot];
	bool over = !store_is_pending(&store, hash, r->entry.version);

	pthread_mutex_lock(&c->lock);
	over &= last->sequence > r->entry.sequence ||
		(last->sequence == r->entry.sequence && !last->pending);
	pthread_mutex_unlock(&c->lock);
	return over;
}

UNIT_TEST(what_a_snapshot_may_leave_out, set_up, tear_down)
{
	const uint64_t hash = hash_key(SEED, "key", 3);
	uint64_t seed = 7, looked = 0, early = 0, version;
	struct store_result r;

	print_message("seed %llu\n", (unsigned long long)seed);
	assert_ok(pthread_create(&one.thread, NULL, add, &one));
	assert_ok(pthread_create(&two.thread, NULL, add, &two));
	while (atomic_load(&one.answers) + atomic_load(&two.answers) < 2 * TURNS) {
		uint64_t ahead = fake_log.tail - fake_log.committed, start = snapshot_start();
		unsigned count = fake_log.records;

		for (unsigned i = count > 64 ? count - 64 : 0; i < count; i++) {
			const struct fake_record *f = &fake_log.record[i];

			if (f->filled && f->place.start < start && f->entry.kind == LOG_PUT) {
				early += !is_over(f, hash);
				looked++;
			}
		}
		fake_log.committed += ahead ? unit_random(&seed) % (ahead + 1) : 0;
		qsbr_quiescent();
	}
	qsbr_offline();
	pthread_join(one.thread, NULL);
	pthread_join(two.thread, NULL);
	qsbr_online();
	assert_true(looked > 0);
	assert_int_equal(early, 0);
	assert_int_equal(store_get(&one.worker, "key", 3, 0, false, &r), 0);
	assert_int_equal(strtoll((const char *)r.block->data + 3, NULL, 10), 2 * TURNS);
	assert_int_equal(get(&version), 0);
	assert_int_equal(one.client->pending + two.client->pending, 0);
}
