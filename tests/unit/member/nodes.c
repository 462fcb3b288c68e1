/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The nodes, and what their members do to them. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/rdma/tcp.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tests/unit/member/group.h"

#define MEMORY	    (64ull << 20)
#define RING_BYTES  ((RING_BYTES_MIN + 4095) & ~4095ull)
#define SESSIONS_NS (20 * NS_PER_MS) /* until they have ended */

struct node node[NODES];
struct node *_Atomic primary;
struct real *etcd;
struct error err;
uint8_t *acknowledged;
_Atomic unsigned lost, overlaps, leads;
unsigned lease_ms;
_Atomic bool keeps, dies_opening, forgets;
void (*at_own)(struct node *n);
static uint64_t lives;

static uint64_t now_us(void)
{
	return time_read_ns(CLOCK_BOOTTIME) / 1000;
}

/* A node's hooks. */

void node_add(struct node *n, uint64_t number)
{
	pthread_mutex_lock(&n->lock);
	n->has[number] = 1;
	pthread_mutex_unlock(&n->lock);
}

static int apply(void *ctx, const struct log_record *r)
{
	node_add(ctx, r->client[0]);
	return 0;
}

static int no_client(void *ctx, const struct snapshot_client *item)
{
	(void)ctx, (void)item;
	return -EINVAL;
}

/* It takes all that the primary at @address has published. */
static int walk(void *ctx, const char *address, struct error *e)
{
	struct node *to = ctx;

	for (unsigned i = 0; i < NODES; i++) {
		struct node *from = &node[i];

		if (strcmp(from->address, address) != 0)
			continue;
		for (unsigned number = 0; number < NUMBERS_MAX; number++)
			if (from->has[number])
				node_add(to, number);
		return 0;
	}
	return error_set(e, -EINVAL, "nobody is at %s", address);
}

/* What it had goes aside. */
void node_clear(struct node *n)
{
	pthread_mutex_lock(&n->lock);
	memset(n->has, 0, NUMBERS_MAX);
	pthread_mutex_unlock(&n->lock);
	n->answered[0] = n->answered[1] = 0;
}

static int begins(void *ctx, uint64_t term, uint64_t position, struct error *e)
{
	(void)term, (void)position, (void)e;
	node_clear(ctx);
	return 0;
}

static int learned(void *ctx, struct error *e)
{
	(void)ctx, (void)e;
	return 0;
}

static void news(void *ctx, bool in_sync)
{
	(void)ctx, (void)in_sync;
}

static int own(void *ctx, uint64_t life, uint64_t named, uint64_t *position, struct error *e)
{
	struct node *n = ctx;

	(void)e;
	n->answered[0] = life;
	n->answered[1] = named;
	*position = 0;
	if (at_own)
		at_own(n);
	return 0;
}

static uint64_t get_published(void *ctx)
{
	const struct node *n = ctx;

	return atomic_load(&n->published);
}

static int no_clients(void *ctx,
		      int (*each)(void *each_ctx, const struct snapshot_client *items,
				  unsigned count),
		      void *each_ctx)
{
	(void)ctx, (void)each, (void)each_ctx;
	return 0;
}

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 4;
}

/* What must hold when a primary begins: nobody else may answer, and nothing is lost. */
static void check_beginning(const struct node *n)
{
	for (unsigned i = 0; i < NODES; i++)
		if (&node[i] != n && atomic_load(&node[i].serves) &&
		    atomic_load(&node[i].until) > now_us())
			atomic_fetch_add(&overlaps, 1);
	for (unsigned number = 0; number < NUMBERS_MAX; number++)
		if (__atomic_load_n(&acknowledged[number], __ATOMIC_ACQUIRE) && !n->has[number])
			atomic_fetch_add(&lost, 1);
}

static int lead(void *ctx, const struct member_lead *how, struct error *e)
{
	struct node *n = ctx;
	struct log_config c = { .mirror = mirror_table(how->mirror), .clock_ms = clock_ms };
	struct follower_state s = { 0 };
	struct log *log;
	int rc;

	if (atomic_load(&dies_opening))
		return error_set(e, -ECANCELED, "it dies");
	n->answered[0] = how->life;
	if (how->held) {
		follower_look(how->held, &s);
		c.first = s.committed;
		c.tail = follower_rest(how->held);
		c.tail_bytes = s.held - s.committed;
	}
	rc = log_open(&log, &c, e);
	if (rc)
		return rc;
	if (how->held) {
		follower_lead(how->held);
		while ((rc = follower_apply(how->held, UINT64_MAX, e)) == 1)
			;
	}
	check_beginning(n);
	atomic_fetch_add(&leads, 1);
	atomic_store(&n->published, s.held);
	atomic_store(&n->log, log);
	atomic_store(&n->serves, true);
	atomic_store(&primary, n);
	return rc;
}

static void rest(void *ctx, bool rests)
{
	struct node *n = ctx;

	atomic_store(&n->rest_ns, rests ? time_now_ns() : 0);
	atomic_store(&primary, rests ? NULL : n);
	atomic_store(&n->serves, true);
}

static bool rested(void *ctx)
{
	struct node *n = ctx;

	if (time_now_ns() < atomic_load(&n->rest_ns) + SESSIONS_NS)
		return false;
	atomic_store(&n->serves, false);
	return true;
}

static void changed(void *ctx, const struct group_known *now)
{
	(void)ctx, (void)now;
}

static void ends(void *ctx, const struct error *why)
{
	struct node *n = ctx;

	atomic_store(&n->why, why->code);
	atomic_store(&n->dead, true);
	atomic_store(&n->ended, true);
}

/* Its process. */

static bool hears(int fd, struct wire_frame *first)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	struct exchange_reader reader = { 0 };
	struct error e;
	int rc;

	while ((rc = exchange_read(fd, &reader, first, &e)) == 0 && time_now_ns() < end_ns)
		time_sleep(NS_PER_MS);
	return rc > 0;
}

static void *accept_all(void *arg)
{
	struct node *n = arg;
	struct pollfd come = { .fd = n->listen_fd, .events = POLLIN };

	while (!atomic_load(&n->deaf)) {
		struct wire_frame f;
		int fd;

		if (poll(&come, 1, 20) <= 0)
			continue;
		fd = accept4(n->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0 && hears(fd, &f))
			member_call(n->member, fd, &f);
		else if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void no_turn(void *ctx, bool others)
{
}

void node_start(unsigned i)
{
	struct node *n = &node[i];
	struct member_config c = { .cluster = "test",
				   .group = "1",
				   .etcd = { .endpoints = real_url(etcd),
					     .timeout_ms = TIMEOUT_MS },
				   .cluster_id = { 11, 12 },
				   .lease_ms = lease_ms,
				   .min_in_sync = 1,
				   .rho_ppm = 10000,
				   .memory = MEMORY,
				   .ring_bytes = RING_BYTES,
				   .dev = n->dev,
				   .until = &n->until,
				   .clock = &n->clock,
				   .follow = { n, begins, no_client, apply, walk, learned },
				   .own = own,
				   .news = news,
				   .table = { n, get_published, no_clients },
				   .lead = lead,
				   .changed = changed,
				   .turn = no_turn,
				   .rest = rest,
				   .rested = rested,
				   .ends = ends,
				   .ctx = n };

	n->life = ++lives;
	if (!atomic_load(&keeps))
		node_clear(n);
	if (!atomic_load(&forgets))
		memcpy(c.before, n->answered, sizeof(c.before));
	memcpy(c.answered, n->answered, sizeof(c.answered));
	c.was_member = n->was_member;
	n->was_member = atomic_load(&keeps);
	atomic_store(&n->dead, false);
	atomic_store(&n->ended, false);
	atomic_store(&n->serves, false);
	atomic_store(&n->deaf, false);
	atomic_store(&n->published, 0);
	assert_ok(tcp_listen("127.0.0.1", "0", &n->listen_fd, n->address, &err));
	c.self.life = n->life;
	memcpy(c.self.node, n->name, sizeof(n->name));
	memcpy(c.self.address, n->address, sizeof(n->address));
	assert_ok(member_start(&n->member, &c, &err));
	assert_ok(pthread_create(&n->acceptor, NULL, accept_all, n));
}

/* Its process is killed, as far as the others can tell. */
void node_kill(struct node *n)
{
	struct node *was = n;
	struct log *log;

	atomic_store(&n->dead, true);
	atomic_compare_exchange_strong(&primary, &was, NULL);
	atomic_store(&n->deaf, true);
	pthread_join(n->acceptor, NULL);
	close(n->listen_fd);
	member_stop(n->member);
	log = atomic_exchange(&n->log, NULL);
	if (log)
		assert_ok(log_close(log));
	member_destroy(n->member);
	n->member = NULL;
}

int nodes_begin(void **state)
{
	struct rdma_options o = rdma_options_default();

	folder_make(state);
	unit_seed(state);
	log_change(LOG_ERROR, LOG_TEXT);
	o.device = "soft0";
	acknowledged = calloc(NUMBERS_MAX, 1);
	for (unsigned i = 0; i < NODES; i++) {
		snprintf(node[i].name, sizeof(node[i].name), "n%u", i);
		node[i].has = calloc(NUMBERS_MAX, 1);
		pthread_mutex_init(&node[i].lock, NULL);
		assert_ok(rdma_device_open(&node[i].dev, &o, NULL, &err));
	}
	return 0;
}

int nodes_finish(void **state)
{
	for (unsigned i = 0; i < NODES; i++) {
		rdma_device_close(node[i].dev);
		free(node[i].has);
	}
	free(acknowledged);
	return folder_remove(state);
}
