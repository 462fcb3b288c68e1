/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Exactly once: the table of remembered replies. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdbool.h>

#include "server/clients/clients.h"

static const uint64_t alice[2] = { 1, 2 }, bob[2] = { 1, 3 };

static struct client_entry *come(struct clients *c, const uint64_t id[2], uint64_t generation,
				 uint64_t first, bool *resumed)
{
	struct client_entry *e;

	assert_int_equal(clients_attach(c, id, generation, first, &e, resumed), 0);
	assert_int_equal(client_queue_pair(e, 0, 4), 0);
	return e;
}

static enum client_verdict ask(struct client_entry *e, uint64_t generation, uint64_t sequence,
			       bool retry, const struct client_reply **reply)
{
	enum client_verdict v;

	pthread_mutex_lock(&e->lock);
	v = client_check(e, generation, 0, 3, sequence, retry, reply);
	pthread_mutex_unlock(&e->lock);
	return v;
}

static void remember(struct client_entry *e, uint64_t sequence, int status)
{
	struct client_reply r = { .sequence = sequence,
				  .status = status,
				  .version = sequence * 10 };

	pthread_mutex_lock(&e->lock);
	client_store(e, 0, 3, &r);
	pthread_mutex_unlock(&e->lock);
}

UNIT_TEST(a_repeat_gets_the_first_reply)
{
	const struct client_reply *reply = NULL;
	struct clients *c;
	struct client_entry *e;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	e = come(c, alice, 1, 1, &resumed);
	assert_false(resumed);
	assert_int_equal(ask(e, 1, 1, false, &reply), CLIENT_APPLY);
	remember(e, 1, -ENOENT);
	clients_detach(c, e);
	assert_int_equal(ask(e, 1, 2, false, &reply), CLIENT_STALE); /* fenced */
	e = come(c, alice, 2, 2, &resumed);
	assert_true(resumed);
	assert_int_equal(ask(e, 2, 1, true, &reply), CLIENT_REPEAT);
	assert_int_equal(reply->status, -ENOENT);
	assert_int_equal(reply->version, 10);
	assert_int_equal(ask(e, 1, 2, false, &reply), CLIENT_STALE); /* the old generation */
	assert_int_equal(ask(e, 2, 2, false, &reply), CLIENT_APPLY);
	clients_destroy(c);
}

/* A request that was lost on its way, and nothing else happened: it may be applied. */
UNIT_TEST(a_lost_request_is_applied)
{
	const struct client_reply *reply = NULL;
	struct clients *c;
	struct client_entry *e;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	e = come(c, alice, 1, 1, &resumed);
	clients_detach(c, e);
	e = come(c, alice, 2, 8, &resumed);
	assert_true(resumed);
	assert_int_equal(ask(e, 2, 7, true, &reply), CLIENT_APPLY);
	clients_destroy(c);
}

/* A server that restarted knows nothing of what was sent to the one before it. */
UNIT_TEST(a_retry_to_a_stranger_is_unknown)
{
	const struct client_reply *reply = NULL;
	struct clients *c;
	struct client_entry *e;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	e = come(c, alice, 1, 8, &resumed);
	assert_int_equal(ask(e, 1, 7, true, &reply), CLIENT_UNKNOWN);
	assert_int_equal(ask(e, 1, 8, true, &reply), CLIENT_APPLY);
	remember(e, 8, 0);
	assert_int_equal(ask(e, 1, 7, true, &reply), CLIENT_UNKNOWN);
	assert_int_equal(ask(e, 1, 7, false, &reply), CLIENT_STALE);
	clients_destroy(c);
}

UNIT_TEST(the_longest_absent_gives_way)
{
	struct clients *c;
	struct client_entry *e;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	e = come(c, alice, 1, 1, &resumed);
	clients_detach(c, e);
	come(c, bob, 2, 1, &resumed);
	for (uint64_t i = 0; i < CLIENTS_MAX - 2; i++) {
		const uint64_t id[2] = { 9, i + 1 };

		assert_int_equal(clients_attach(c, id, i + 3, 1, &e, &resumed), 0);
		clients_detach(c, e);
	}
	e = come(c, alice, 5000, 1, &resumed); /* the table is full, and knows her */
	assert_true(resumed);
	clients_detach(c, e);
	const uint64_t more[2] = { 10, 1 };

	assert_int_equal(clients_attach(c, more, 5001, 1, &e, &resumed), 0);
	assert_false(resumed);
	const uint64_t first_to_leave[2] = { 9, 1 };

	assert_int_equal(clients_attach(c, first_to_leave, 5002, 1, &e, &resumed), 0);
	assert_false(resumed); /* it had given way */
	come(c, bob, 5003, 1, &resumed);
	assert_true(resumed); /* connected ones never do */
	clients_destroy(c);
}

/* One whose write waits for the log does not give way, however long it is absent. */
UNIT_TEST(one_with_pending_writes_stays)
{
	const struct client_reply done = { .sequence = 7, .version = 70 };
	const struct client_reply *reply = NULL;
	struct clients *c;
	struct client_entry *e, *pending;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	pending = come(c, alice, 1, 1, &resumed);
	client_pend(pending, 0, 3, 7);
	assert_int_equal(ask(pending, 1, 7, true, &reply), CLIENT_WAIT);
	clients_detach(c, pending);
	for (uint64_t i = 0; i < CLIENTS_MAX; i++) {
		const uint64_t id[2] = { 9, i + 1 };

		assert_int_equal(clients_attach(c, id, i + 3, 1, &e, &resumed), 0);
		clients_detach(c, e);
	}
	e = come(c, alice, 5000, 8, &resumed);
	assert_true(resumed);
	assert_ptr_equal(e, pending);
	assert_int_equal(ask(e, 5000, 7, true, &reply), CLIENT_WAIT);
	client_settle(e, 0, 3, &done);
	assert_int_equal(ask(e, 5000, 7, true, &reply), CLIENT_REPEAT);
	assert_int_equal(reply->version, 70);
	clients_destroy(c);
}

static void restore(struct clients *c, const uint64_t id[2], unsigned slot, uint64_t sequence)
{
	const struct client_reply r = { .sequence = sequence, .version = sequence * 10 };

	assert_int_equal(clients_restore_reply(c, id, 0, slot, &r), 0);
}

/* What recovery has told: the newest reply of each slot, and whom the client is. */
UNIT_TEST(what_was_remembered_before_a_restart)
{
	const struct client_reply *reply = NULL, r = { .sequence = 1 };
	struct clients *c;
	struct client_entry *e;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	restore(c, alice, 3, 4); /* not known yet: left out */
	assert_int_equal(clients_restore(c, alice, 2, true), 0);
	restore(c, alice, 3, 5);
	assert_int_equal(clients_restore(c, alice, 9, false), 0); /* of a snapshot: stays */
	restore(c, alice, 3, 4);
	assert_int_equal(clients_restore_reply(c, alice, SESSION_QPS_MAX, 0, &r), -EINVAL);
	assert_int_equal(clients_restore_reply(c, alice, 0, RPC_SLOTS_MAX, &r), -EINVAL);
	e = come(c, alice, 1, 6, &resumed);
	assert_true(resumed);
	assert_int_equal(e->first_sequence, 2);
	assert_int_equal(ask(e, 1, 5, true, &reply), CLIENT_REPEAT);
	assert_int_equal(reply->version, 50);
	assert_int_equal(ask(e, 1, 6, true, &reply), CLIENT_APPLY);
	clients_destroy(c);
	assert_int_equal(clients_create(&c), 0);
	assert_int_equal(clients_restore(c, alice, 2, true), 0);
	restore(c, alice, 3, 5);
	assert_int_equal(clients_restore(c, alice, 6, true), 0); /* she came again, from nothing */
	assert_int_equal(clients_restore(c, bob, 1, true), 0);
	clients_restore_forget(c, bob);
	clients_restore_forget(c, bob);
	e = come(c, alice, 1, 6, &resumed);
	assert_int_equal(ask(e, 1, 5, true, &reply), CLIENT_UNKNOWN);
	come(c, bob, 1, 6, &resumed);
	assert_false(resumed);
	clients_destroy(c);
}

struct walked {
	unsigned clients, items, limit;
	struct snapshot_client item[8];
};

static int walk_each(void *ctx, const struct snapshot_client *items, unsigned count)
{
	struct walked *w = ctx;

	w->clients++;
	for (unsigned i = 0; i < count; i++)
		w->item[w->items++] = items[i];
	return w->clients == w->limit ? 1 : 0;
}

/* What a snapshot gets: whom the log knows, with what was answered. */
UNIT_TEST(what_a_snapshot_has_of_clients)
{
	const uint64_t carol[2] = { 1, 4 };
	struct walked w = { 0 };
	struct clients *c;
	struct client_entry *e;
	bool resumed;

	assert_int_equal(clients_create(&c), 0);
	assert_int_equal(clients_restore(c, alice, 2, true), 0);
	assert_int_equal(clients_restore(c, bob, 3, true), 0);
	come(c, carol, 1, 1, &resumed); /* she only reads */
	restore(c, alice, 3, 5);
	restore(c, alice, 1, 6);
	e = come(c, alice, 1, 7, &resumed);
	client_pend(e, 0, 1, 7);
	assert_int_equal(clients_walk(c, walk_each, &w), 0);
	assert_int_equal(w.clients, 2);
	assert_int_equal(w.items, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct snapshot_client *s = &w.item[i];

		if (s->client[1] == bob[1]) {
			assert_int_equal(s->sequence, 0);
			assert_int_equal(s->first_sequence, 3);
			continue;
		}
		assert_int_equal(s->client[1], alice[1]);
		assert_int_equal(s->sequence, 5);
		assert_int_equal(s->version, 50);
		assert_int_equal(s->slot, 3);
		assert_int_equal(s->first_sequence, 2);
	}
	w = (struct walked){ .limit = 1 };
	assert_int_equal(clients_walk(c, walk_each, &w), 1);
	assert_int_equal(w.clients, 1);
	clients_destroy(c);
}
