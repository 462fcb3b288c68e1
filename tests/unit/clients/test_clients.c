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
