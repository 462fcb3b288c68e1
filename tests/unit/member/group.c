/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The writer of a group, and what is waited for. */
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tests/unit/member/group.h"

#define TOGETHER 8u /* numbers that are appended before they are waited for */

_Atomic bool stop_writing;
static _Atomic unsigned numbers;

/* Numbers from @from on. Returns the position behind them; 0: the primary takes none. */
static uint64_t append(struct log *log, unsigned from)
{
	struct log_place at = { 0 };

	for (unsigned i = 0; i < TOGETHER; i++) {
		const struct log_entry e = { .kind = LOG_FORGET, .client = { from + i, 1 } };

		if (log_append_begin(log, 0, 0, &at))
			return 0;
		log_append_end(log, &at, &e);
	}
	log_kick(log);
	return at.end;
}

/* What is committed is published, then acknowledged, where the primary is not dead by then. */
static void acknowledge(struct node *n, unsigned from, uint64_t end)
{
	for (unsigned i = 0; i < TOGETHER; i++)
		node_add(n, from + i);
	atomic_store(&n->published, end);
	if (atomic_load(&n->dead))
		return;
	for (unsigned i = 0; i < TOGETHER; i++)
		__atomic_store_n(&acknowledged[from + i], 1, __ATOMIC_RELEASE);
}

static bool write_some(struct node *n)
{
	const unsigned from = atomic_fetch_add(&numbers, TOGETHER);
	struct log *log = atomic_load(&n->log);
	const uint64_t end = append(log, from);

	while (log_committed(log) < end) {
		if (atomic_load(&n->dead) || atomic_load(&stop_writing))
			return false;
		time_give_way();
	}
	if (end)
		acknowledge(n, from, end);
	return end;
}

/* It holds the node's log while it writes: node_kill() waits for that. */
static pthread_rwlock_t writing = PTHREAD_RWLOCK_INITIALIZER;

void *write_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_writing) && atomic_load(&numbers) < NUMBERS_MAX - TOGETHER) {
		bool wrote = false;

		pthread_rwlock_rdlock(&writing);
		if (atomic_load(&primary))
			wrote = write_some(atomic_load(&primary));
		pthread_rwlock_unlock(&writing);
		/* There are numbers enough for what takes long, too. */
		if (!wrote || atomic_load(&numbers) > NUMBERS_MAX / 4)
			time_sleep(NS_PER_MS);
	}
	return NULL;
}

void kill_while_written(struct node *n)
{
	atomic_store(&n->dead, true); /* the writer lets go */
	pthread_rwlock_wrlock(&writing);
	node_kill(n);
	pthread_rwlock_unlock(&writing);
}

/* What etcd has. */
struct group_known known(void)
{
	const struct etcd_config c = { .endpoints = real_url(etcd), .timeout_ms = TIMEOUT_MS };
	struct group_known now = { 0 };
	struct group_registry *r;

	assert_ok(group_registry_open(&r, &c, "test", "1", &err));
	group_registry_read(r, &now, &err);
	group_registry_close(r);
	return now;
}

/* For a test that waits in vain. */
static void print_node(const struct node *n)
{
	struct member_state s;

	if (!n->member)
		return;
	member_look(n->member, &s);
	print_message(
		"%s, life %llx: role %d, term %llu of primary %llx, %u in sync; follows: stage %d, "
		"learned %d, line ended %d, %s; %s; ended %d\n",
		n->name, (unsigned long long)n->life, s.role,
		(unsigned long long)s.known.config.term, (unsigned long long)s.known.config.primary,
		group_in_sync(&s.known.config), s.follow.stage, s.follow.learned,
		s.follow.line_ended, s.follow.err.text, s.why, atomic_load(&n->ended));
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++)
		if (s.peer[i].stage != LEAD_FREE)
			print_message("  peer %u: stage %d\n", i, s.peer[i].stage);
}

/* Whatever is waited for: nobody has seen what must not be. */
void check_so_far(uint64_t end_ns)
{
	const bool late = time_now_ns() >= end_ns;

	for (unsigned i = 0; late && i < NODES; i++)
		print_node(&node[i]);
	assert_int_equal(atomic_load(&lost), 0);
	assert_int_equal(atomic_load(&overlaps), 0);
	assert_false(late);
}

/* One that was deposed or taken out starts again. */
static void revive(void)
{
	for (unsigned i = 0; i < NODES; i++)
		if (node[i].member && atomic_load(&node[i].ended)) {
			kill_while_written(&node[i]);
			node_start(i);
		}
}

void await_in_sync(unsigned count)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	struct group_known now;

	do {
		check_so_far(end_ns);
		time_sleep(5 * NS_PER_MS);
		revive();
		now = known();
	} while (!now.modified || group_in_sync(&now.config) < count || !atomic_load(&primary) ||
		 now.config.primary != atomic_load(&primary)->life);
}

void await_written(void)
{
	const unsigned before = atomic_load(&numbers);
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;

	while (atomic_load(&numbers) < before + 20 * TOGETHER) {
		check_so_far(end_ns);
		time_sleep(NS_PER_MS);
	}
}

void group_prepare(bool keep, unsigned lease)
{
	lease_ms = lease;
	etcd = real_start("http", NULL);
	memset(acknowledged, 0, NUMBERS_MAX);
	atomic_store(&numbers, 0);
	atomic_store(&lost, 0);
	atomic_store(&overlaps, 0);
	atomic_store(&leads, 0);
	atomic_store(&stop_writing, false);
	atomic_store(&keeps, keep);
	atomic_store(&dies_opening, false);
	atomic_store(&forgets, false);
	for (unsigned i = 0; i < NODES; i++) { /* of another group */
		atomic_store(&node[i].until, 0);
		node[i].was_member = false;
		node_clear(&node[i]);
	}
}

static void begin(pthread_t *writer, bool keep, unsigned lease)
{
	group_prepare(keep, lease);
	node_start(0);
	await_in_sync(1);
	assert_ok(pthread_create(writer, NULL, write_on, NULL));
	for (unsigned i = 1; i < NODES; i++)
		node_start(i);
	await_in_sync(NODES);
}

void group_start(pthread_t *writer)
{
	begin(writer, false, LEASE_MS);
}

void group_start_calmly(pthread_t *writer)
{
	begin(writer, false, CALM_MS);
}

void group_keep(pthread_t *writer)
{
	begin(writer, true, LEASE_MS);
}

/* All have all that was acknowledged. */
static void check_all(void)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;

	for (unsigned i = 0; i < NODES; i++) {
		for (unsigned number = 0; number < NUMBERS_MAX; number++) {
			while (acknowledged[number] &&
			       !__atomic_load_n(&node[i].has[number], __ATOMIC_ACQUIRE)) {
				if (time_now_ns() > end_ns)
					fail_msg("%s lacks %u, which was acknowledged",
						 node[i].name, number);
				revive();
				time_sleep(NS_PER_MS);
			}
		}
	}
	check_so_far(UINT64_MAX);
}

/* What the writer let go of: whoever learns yet waits for it. */
static void publish_all(void)
{
	struct node *n = atomic_load(&primary);
	struct log *log = n ? atomic_load(&n->log) : NULL;

	if (log)
		atomic_store(&n->published, log_tail(log));
}

void group_end(pthread_t writer)
{
	await_in_sync(NODES);
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	publish_all();
	check_all();
	for (unsigned i = 0; i < NODES; i++)
		node_kill(&node[i]);
	real_end(etcd);
}

void group_kill(pthread_t writer)
{
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	for (unsigned i = 0; i < NODES; i++)
		if (node[i].member)
			node_kill(&node[i]);
	real_end(etcd);
}
