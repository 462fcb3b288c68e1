/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Leases end for sessions that lie, are silent, stuck, or hoard hints; and what is forgiven. */
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "server/session/lease.h"

#define LEASE_NS (1000 * NS_PER_MS)
#define LOOK_NS	 (LEASE_NS / 20)

static struct grace grace;
static struct root root;
static uint64_t look_ns;
static enum lease_verdict why;

/* A session, and its client's half. */
struct member {
	struct lease lease;
	struct epoch_slot slot;
};

static struct member a, b;

static int set_up(void **state)
{
	memset(&root, 0, sizeof(root));
	grace_init(&grace);
	grace_set_root(&grace, &root);
	look_ns = 0;
	why = LEASE_KEPT;
	return 0;
}

static int tear_down(void **state)
{
	grace_destroy(&grace);
	return 0;
}

/* It comes, and opens its first queue pair. */
static void comes(struct member *m, uint64_t generation, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	lease_join(&grace, &m->lease, &m->slot, generation);
	lease_wait(&grace, &m->lease, true, now_ns);
}

static void announces(struct member *m, uint64_t e)
{
	atomic_store(&m->slot.e, e);
	atomic_store(&m->slot.not_e, ~e);
	atomic_store(&m->slot.h, e);
	atomic_fetch_add(&m->slot.beat, 1);
}

static void goes(struct member *m)
{
	grace_close_slot(&grace, &m->lease.epoch);
	grace_leave(&grace, &m->lease.epoch);
}

static struct lease *find_stuck(uint64_t now_ns, struct grace_stuck stuck)
{
	struct lease *found = lease_find(&grace, &look_ns, now_ns, LEASE_NS, stuck);

	if (found)
		why = found->why;
	return found;
}

static struct lease *find(uint64_t now_ns, uint64_t stuck)
{
	return find_stuck(now_ns, (struct grace_stuck){ .epoch = stuck });
}

/* I3: announcements lie in [last, E]. */
UNIT_TEST(lies, set_up, tear_down)
{
	struct member c;

	for (unsigned i = 0; i < 5; i++)
		grace_advance(&grace);
	comes(&a, 1, LOOK_NS);
	comes(&b, 2, LOOK_NS);
	comes(&c, 3, LOOK_NS);
	assert_null(find(LOOK_NS, 0));
	announces(&a, grace_now(&grace) + 1);
	assert_ptr_equal(find(LOOK_NS, 0), &a.lease);
	assert_int_equal(why, LEASE_LIED);
	goes(&a);
	announces(&b, grace_now(&grace) - 1);
	assert_ptr_equal(find(LOOK_NS, 0), &b.lease);
	assert_int_equal(why, LEASE_LIED);
	goes(&b);
	atomic_store(&c.slot.h, grace_now(&grace) + 1);
	assert_ptr_equal(find(LOOK_NS, 0), &c.lease);
	assert_int_equal(why, LEASE_LIED);
	assert_int_equal(grace_reach(&grace), grace_now(&grace)); /* it is still waited for */
	goes(&c);
}

UNIT_TEST(a_silent_session, set_up, tear_down)
{
	uint64_t at;

	comes(&a, 1, 0);
	comes(&b, 2, 0);
	lease_wait(&grace, &b.lease, false, 0); /* no queue pair: it need not beat */
	for (at = LOOK_NS; at < LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	announces(&a, grace_now(&grace));
	for (; at < 2 * LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	atomic_store(&a.slot.generation, 5); /* a beat of another generation is none */
	atomic_fetch_add(&a.slot.beat, 1);
	assert_ptr_equal(find(at, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	assert_true(grace_reach(&grace) != UINT64_MAX); /* I4: a lease that is over frees nothing */
	goes(&a);
	assert_int_equal(grace_reach(&grace), UINT64_MAX);
	lease_wait(&grace, &b.lease, true, at); /* its lease begins now */
	assert_null(find(at + LOOK_NS, 0));
	goes(&b);
}

/* A server that was stopped finds old beats everywhere. */
UNIT_TEST(the_server_was_stopped, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	assert_null(find(at, 0));
	at += 10 * LEASE_NS;
	assert_null(find(at, 0));
	for (unsigned i = 0; i < 20; i++)
		assert_true(!find(at += LOOK_NS, 0) || i == 19);
	assert_ptr_equal(find(at + LOOK_NS, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	goes(&a);
}

/* One that is kept busy, by that very session maybe, forgives a pause of its own once. */
UNIT_TEST(the_server_is_busy, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	assert_null(find(at, 0));
	assert_null(find(at += 2 * LEASE_NS, 0));
	announces(&a, grace_now(&grace));
	assert_null(find(at += 2 * LEASE_NS, 0));
	assert_null(find(at += 2 * LEASE_NS, 0));
	assert_ptr_equal(find(at + 2 * LEASE_NS, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	goes(&a);
}

/* It beats and does not move: only while somebody wants memory, and not before a lease. */
UNIT_TEST(a_stuck_session, set_up, tear_down)
{
	uint64_t at, r;

	comes(&a, 1, 0);
	r = grace_advance(&grace);
	for (at = LOOK_NS; at < LEASE_NS; at += LOOK_NS) {
		announces(&a, r);
		assert_null(find(at, r));
	}
	announces(&a, r);
	assert_null(find(at, 0));
	assert_null(find(at, r - 1));
	assert_ptr_equal(find(at, r), &a.lease);
	assert_int_equal(why, LEASE_STUCK);
	goes(&a);
}

/* It beats, and the server is kept busy for longer than a look in every lease. */
UNIT_TEST(a_stuck_session_of_a_busy_server, set_up, tear_down)
{
	uint64_t at = LOOK_NS, r;

	comes(&a, 1, at);
	comes(&b, 2, at);
	assert_null(find(at, 0));
	for (unsigned i = 0; i < 5; i++) { /* nobody is stuck: forgiven each time */
		announces(&a, grace_now(&grace));
		announces(&b, grace_now(&grace));
		assert_null(find(at += LEASE_NS / 2, 0));
	}
	r = grace_advance(&grace);
	for (unsigned i = 0; i < 2; i++) {
		announces(&a, r);
		announces(&b, r + 1);
		assert_null(find(at += LEASE_NS / 2, r));
	}
	announces(&a, r);
	assert_ptr_equal(find(at += LEASE_NS / 2, r), &a.lease);
	assert_int_equal(why, LEASE_STUCK);
	goes(&a);
	goes(&b);
}

/* A session that reopens its only queue pair all the time is waited for all the time. */
UNIT_TEST(queue_pairs_that_come_and_go, set_up, tear_down)
{
	comes(&a, 1, 0);
	for (uint64_t at = LOOK_NS; at < LEASE_NS; at += LOOK_NS) {
		lease_wait(&grace, &a.lease, true, at); /* as session_qp_make() does */
		assert_null(find(at, 0));
	}
	assert_ptr_equal(find(LEASE_NS, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	goes(&a);
}

/* A server that is stopped again and again forgives hints once, as it does sections. */
UNIT_TEST(who_keeps_hints_is_forgiven_once, set_up, tear_down)
{
	const struct grace_stuck stuck = { .hints = 1 };

	comes(&a, 1, 0);
	for (unsigned i = 1; i <= 3; i++) {
		atomic_fetch_add(&a.slot.beat, 1);
		assert_ptr_equal(find_stuck(i * LEASE_NS - LOOK_NS, stuck),
				 i < 3 ? NULL : &a.lease);
	}
	assert_int_equal(why, LEASE_HOARDS);
	atomic_store(&a.slot.h, 1); /* it has followed */
	assert_null(find_stuck(4 * LEASE_NS, stuck));
	goes(&a);
}

#define HERD	 1000u
#define STEPS	 4u /* frames of a session before its first beat */
#define FRAME_NS (2 * NS_PER_MS) /* that the server takes for one */

/* Each pass over the life lines takes two leases: the server is late, and fences nobody for it. */
UNIT_TEST(a_thousand_come_at_once, set_up, tear_down)
{
	struct member *herd = calloc(HERD, sizeof(*herd));
	uint64_t at = LOOK_NS, next_look = at;

	assert_non_null(herd);
	for (unsigned i = 0; i < HERD * STEPS; i++, at += FRAME_NS) {
		struct member *m = &herd[i % HERD];

		if (i < HERD)
			comes(m, i + 1, at);
		lease_heard(&m->lease, at);
		for (; at >= next_look; next_look += LOOK_NS) {
			struct lease *l;

			for (unsigned n = 0; n < i % HERD && i / HERD == STEPS - 1; n++)
				announces(&herd[n], grace_now(&grace));
			while ((l = find(at, 0))) { /* its next frame stands there unread */
				assert_int_equal(why, LEASE_SILENT);
				assert_true(lease_heard(l, at));
			}
		}
	}
	assert_null(find(at, 0));
	for (unsigned i = 0; i < HERD; i++)
		goes(&herd[i]);
	free(herd);
}

/* Frames without a beat keep a session for a while, and no longer than a lease where memory is
 * wanted. */
UNIT_TEST(frames_for_ever, set_up, tear_down)
{
	uint64_t at = LOOK_NS, r;

	comes(&a, 1, at);
	while (lease_heard(&a.lease, at)) {
		assert_null(find(at, 0));
		at += LOOK_NS;
		assert_true(at < LEASE_FIRST_NS + 2 * LEASE_NS);
	}
	assert_true(at >= LEASE_FIRST_NS);
	for (unsigned i = 0; !find(at, 0); i++) {
		lease_heard(&a.lease, at += LOOK_NS);
		assert_true(i <= LEASE_NS / LOOK_NS);
	}
	assert_int_equal(why, LEASE_SILENT);
	goes(&a);
	comes(&b, 2, at);
	r = grace_advance(&grace);
	for (uint64_t from = at; at < from + LEASE_NS; at += LOOK_NS) {
		assert_true(lease_heard(&b.lease, at));
		assert_null(find(at, r));
	}
	assert_true(lease_heard(&b.lease, at));
	assert_ptr_equal(find(at, r), &b.lease);
	assert_int_equal(why, LEASE_STUCK);
	goes(&b);
}

/* A session that has beaten has a housekeeper: its frames are no beats, until it has left. */
UNIT_TEST(frames_after_the_first_beat, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	announces(&a, grace_now(&grace));
	assert_null(find(at, 0));
	for (unsigned i = 1; i < LEASE_NS / LOOK_NS; i++) {
		assert_false(lease_heard(&a.lease, at += LOOK_NS));
		assert_null(find(at, 0));
	}
	assert_ptr_equal(find(at += LOOK_NS, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	lease_wait(&grace, &a.lease, false, at);
	lease_wait(&grace, &a.lease, true, at);
	assert_true(lease_heard(&a.lease, at += LEASE_NS / 2));
	assert_null(find(at += LEASE_NS / 2, 0));
	goes(&a);
}
