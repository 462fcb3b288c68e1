/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Leases end for sessions that lie, are silent, stuck, or hoard hints; and what is forgiven. One
 * thread is the clock thread, the queue-pair thread and the control thread by turns.
 */
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "server/memory/memory.h"
#include "server/session/lease.h"
#include "tests/lib/no_device.h"

#define LEASE_NS (1000 * NS_PER_MS)
#define LOOK_NS	 (LEASE_NS / 20)

static struct grace *grace;
static struct root root;
static struct memory *memory;
static struct reclaim *reclaim;
static struct mailbox left, told;
static struct leases leases;
static enum lease_verdict why;

/* A session, and its client's half. */
struct member {
	struct lease lease;
	struct epoch_slot slot;
};

static struct member a, b;

static int set_up(void **state)
{
	const struct memory_config memory_config = {
		.bytes_max = 16 << 20,
		.hooks = { take_region, drop_region, NULL },
	};
	const struct reclaim_config config = { .limit_ms = LEASE_NS / NS_PER_MS };
	struct error err;

	memset(&root, 0, sizeof(root));
	assert_int_equal(memory_create(&memory, &memory_config, &err), 0);
	assert_int_equal(reclaim_create(&reclaim, memory, &config, &err), 0);
	grace = reclaim_grace(reclaim);
	grace_set_root(grace, &root);
	assert_int_equal(mailbox_create(&left), 0);
	assert_int_equal(mailbox_create(&told), 0);
	assert_int_equal(leases_init(&leases, reclaim, LEASE_NS / NS_PER_MS, &left, &told), 0);
	why = LEASE_KEPT;
	return 0;
}

static int tear_down(void **state)
{
	assert_true(cds_list_empty(&leases.list));
	leases_destroy(&leases);
	mailbox_destroy(&told);
	mailbox_destroy(&left);
	grace_set_root(grace, NULL);
	reclaim_destroy(reclaim);
	memory_destroy(memory);
	return 0;
}

/* It comes, and opens its first queue pair. */
static void comes(struct member *m, uint64_t generation, uint64_t now_ns)
{
	memset(m, 0, sizeof(*m));
	lease_join(&leases, &m->lease, &m->slot, generation);
	lease_wait(&leases, &m->lease, true, now_ns);
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
	lease_leave(&leases, &m->lease);
	leases_take(&leases);
	assert_ptr_equal(mailbox_take(&left), &m->lease.goes.mail);
	grace_close_slot(grace, &m->lease.epoch);
	grace_leave(grace, &m->lease.epoch);
}

static struct lease *find_stuck(uint64_t now_ns, struct grace_stuck stuck)
{
	struct lease *found;

	leases_take(&leases);
	found = leases_find(&leases, now_ns, stuck);
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
		grace_advance(grace);
	comes(&a, 1, LOOK_NS);
	comes(&b, 2, LOOK_NS);
	comes(&c, 3, LOOK_NS);
	assert_null(find(LOOK_NS, 0));
	announces(&a, grace_now(grace) + 1);
	assert_ptr_equal(find(LOOK_NS, 0), &a.lease);
	assert_int_equal(why, LEASE_LIED);
	goes(&a);
	announces(&b, grace_now(grace) - 1);
	assert_ptr_equal(find(LOOK_NS, 0), &b.lease);
	assert_int_equal(why, LEASE_LIED);
	goes(&b);
	atomic_store(&c.slot.h, grace_now(grace) + 1);
	assert_ptr_equal(find(LOOK_NS, 0), &c.lease);
	assert_int_equal(why, LEASE_LIED);
	assert_int_equal(grace_reach(grace), grace_now(grace)); /* it is still waited for */
	goes(&c);
}

UNIT_TEST(a_silent_session, set_up, tear_down)
{
	uint64_t at;

	comes(&a, 1, 0);
	comes(&b, 2, 0);
	lease_wait(&leases, &b.lease, false, 0); /* no queue pair: it need not beat */
	for (at = LOOK_NS; at < LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	announces(&a, grace_now(grace));
	for (; at < 2 * LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	atomic_store(&a.slot.generation, 5); /* a beat of another generation is none */
	atomic_fetch_add(&a.slot.beat, 1);
	assert_ptr_equal(find(at, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	assert_true(grace_reach(grace) != UINT64_MAX); /* I4: a lease that is over frees nothing */
	goes(&a);
	assert_int_equal(grace_reach(grace), UINT64_MAX);
	lease_wait(&leases, &b.lease, true, at); /* its lease begins now */
	assert_null(find(at + LOOK_NS, 0));
	goes(&b);
}

/* A server that was stopped finds old beats everywhere. */
UNIT_TEST(the_server_was_stopped, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	announces(&a, grace_now(grace));
	assert_null(find(at, 0));
	at += 10 * LEASE_NS;
	assert_null(find(at, 0));
	for (unsigned i = 1; i < LEASE_NS / LOOK_NS; i++)
		assert_null(find(at += LOOK_NS, 0));
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
	announces(&a, grace_now(grace));
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
	r = grace_advance(grace);
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
		announces(&a, grace_now(grace));
		announces(&b, grace_now(grace));
		assert_null(find(at += LEASE_NS / 2, 0));
	}
	r = grace_advance(grace);
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
	announces(&a, grace_now(grace));
	assert_null(find(0, 0));
	for (uint64_t at = LOOK_NS; at < LEASE_NS; at += LOOK_NS) {
		lease_wait(&leases, &a.lease, true, at); /* as pairs_open() does */
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
		if (i < HERD)
			comes(&herd[i], i + 1, at);
		for (; at >= next_look; next_look += LOOK_NS) {
			for (unsigned n = 0; n < i % HERD && i / HERD == STEPS - 1; n++)
				announces(&herd[n], grace_now(grace));
			assert_null(find(at, 0));
		}
	}
	assert_null(find(at, 0));
	for (unsigned i = 0; i < HERD; i++)
		goes(&herd[i]);
	free(herd);
}

/* No first beat is waited for without an end, and for no longer than a lease where memory is
 * wanted. */
UNIT_TEST(a_first_beat_that_does_not_come, set_up, tear_down)
{
	uint64_t at, r;

	comes(&a, 1, LOOK_NS);
	for (at = LOOK_NS; at < LOOK_NS + LEASE_FIRST_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	assert_ptr_equal(find(at, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	goes(&a);
	comes(&b, 2, at);
	r = grace_advance(grace);
	for (uint64_t from = at; at < from + LEASE_NS; at += LOOK_NS)
		assert_null(find(at, r));
	assert_ptr_equal(find(at, r), &b.lease);
	assert_int_equal(why, LEASE_STUCK);
	goes(&b);
}

/* A session whose queue pairs have all gone, and that opens one, has its first beat to make. */
UNIT_TEST(a_session_that_is_waited_for_again, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	announces(&a, grace_now(grace));
	assert_null(find(at, 0));
	at += LEASE_NS - LOOK_NS;
	lease_wait(&leases, &a.lease, false, at); /* and nobody looked in between */
	lease_wait(&leases, &a.lease, true, at);
	for (uint64_t from = at; at < from + LEASE_FIRST_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	assert_ptr_equal(find(at, 0), &a.lease);
	goes(&a);
}

/* What the server makes for a session is waited for, and the session for no longer than for a first
 * beat. */
UNIT_TEST(a_queue_pair_that_is_being_made, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	comes(&b, 2, at);
	announces(&a, grace_now(grace));
	announces(&b, grace_now(grace));
	assert_null(find(at, 0));
	atomic_store(&a.lease.asks, true);
	atomic_store(&b.lease.asks_cm, true);
	for (; at < LOOK_NS + 2 * LEASE_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	atomic_store(&a.lease.asks, false); /* it was asked of at the last look */
	for (unsigned i = 1; i < LEASE_NS / LOOK_NS; i++, at += LOOK_NS)
		assert_null(find(at, 0));
	assert_ptr_equal(find(at, 0), &a.lease);
	assert_int_equal(why, LEASE_SILENT);
	for (at += LOOK_NS; at < LOOK_NS + LEASE_FIRST_NS; at += LOOK_NS)
		assert_null(find(at, 0));
	assert_ptr_equal(find(at, 0), &b.lease);
	assert_int_equal(why, LEASE_SILENT);
	goes(&a);
	goes(&b);
}

/* The control thread hears of all that are over at once, of each once, and first what it has heard
 * is seen to. A lease that goes meanwhile goes after that note. */
UNIT_TEST(verdicts_are_told_in_order, set_up, tear_down)
{
	uint64_t at = LOOK_NS;

	comes(&a, 1, at);
	comes(&b, 2, at);
	leases_take(&leases);
	leases_look(&leases, at);
	assert_null(mailbox_take(&told));
	announces(&a, grace_now(grace) + 1);
	leases_look(&leases, at += LOOK_NS);
	assert_ptr_equal(mailbox_take(&told), &leases.note.mail);
	assert_ptr_equal(leases.found, &a.lease);
	announces(&b, grace_now(grace) + 1);
	leases_look(&leases, at += LOOK_NS); /* it has not answered */
	assert_null(mailbox_take(&told));
	assert_ptr_equal(leases.found, &a.lease);
	assert_null(a.lease.next_found);
	leases_carry_on(&leases);
	leases_look(&leases, at += LOOK_NS);
	assert_ptr_equal(mailbox_take(&told), &leases.note.mail);
	assert_ptr_equal(leases.found, &b.lease);
	assert_null(b.lease.next_found);
	leases_carry_on(&leases);
	goes(&a);
	goes(&b);
}
