/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Groups of three nodes in one process, with a real etcd: each has the thread of its group, leases
 * and rings on soft0, a log without a disk, and a port at which the others dial it. What stands for
 * a store is a set of numbers, each of which is a record of the log. One thread writes to whoever
 * is primary, while primaries and backups die and come back in another life.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/rdma/device.h"
#include "common/rdma/tcp.h"
#include "server/log/log.h"
#include "server/member/member.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/real.h"

#define NODES	    3u
#define NUMBERS_MAX 4000000u
#define TOGETHER    8u /* numbers that are appended before they are waited for */
#define LEASE_MS    300u
#define TIMEOUT_MS  5000u
#define MEMORY	    (64ull << 20)
#define RING_BYTES  ((RING_BYTES_MIN + 4095) & ~4095ull)
#define PATIENCE_NS (120 * NS_PER_S)
#define FAIL_OVERS  6u
#define SESSIONS_NS (20 * NS_PER_MS) /* until they have ended */

static struct error err;
static struct real *etcd;

static struct node {
	char name[8], address[280];
	struct rdma_device *dev;
	uint64_t life;
	struct member *member;
	int listen_fd;
	pthread_t acceptor;
	_Atomic bool deaf; /* the acceptor ends */
	struct log *_Atomic log; /* of a primary */
	_Atomic uint64_t published; /* position */
	_Atomic bool dead; /* what it commits from now on is no answer */
	_Atomic bool ended; /* as its member says */
	_Atomic int why; /* then: the code */
	_Atomic bool serves; /* it has sessions, which end some time after they were told to */
	_Atomic uint64_t rest_ns; /* they were told to; 0: they were not */
	_Atomic uint64_t until, clock;
	pthread_mutex_t lock;
	uint8_t *has; /* a byte for each number. Under the lock */
} node[NODES];

static struct node *_Atomic primary;
static uint8_t *acknowledged; /* by the writer, to whoever asks later */
static _Atomic unsigned numbers, lost, overlaps, leads;
static _Atomic bool stop_writing;
static uint64_t lives;

static uint64_t now_us(void)
{
	return time_read_ns(CLOCK_BOOTTIME) / 1000;
}

/* A node's hooks. */

static void add(struct node *n, uint64_t number)
{
	pthread_mutex_lock(&n->lock);
	n->has[number] = 1;
	pthread_mutex_unlock(&n->lock);
}

static int apply(void *ctx, const struct log_record *r)
{
	add(ctx, r->client[0]);
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
				add(to, number);
		return 0;
	}
	return error_set(e, -EINVAL, "nobody is at %s", address);
}

static int begins(void *ctx, uint64_t term, uint64_t position, struct error *e)
{
	(void)ctx, (void)term, (void)position, (void)e;
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
	(void)ctx, (void)life, (void)named, (void)e;
	*position = 0;
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

static void start_node(unsigned i)
{
	struct node *n = &node[i];
	struct member_config c = { .cluster = "test",
				   .group = "1",
				   .etcd = { .endpoints = real_url(etcd),
					     .timeout_ms = TIMEOUT_MS },
				   .cluster_id = { 11, 12 },
				   .lease_ms = LEASE_MS,
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
				   .rest = rest,
				   .rested = rested,
				   .ends = ends,
				   .ctx = n };

	n->life = ++lives;
	memset(n->has, 0, NUMBERS_MAX);
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
static void kill_node(struct node *n)
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

static int begin(void **state)
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

static int finish(void **state)
{
	for (unsigned i = 0; i < NODES; i++) {
		rdma_device_close(node[i].dev);
		free(node[i].has);
	}
	free(acknowledged);
	return folder_remove(state);
}

UNIT_GROUP(begin, finish);

/* The writer. */

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
		add(n, from + i);
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

/* It holds the node's log while it writes: kill_node() waits for that. */
static pthread_rwlock_t writing = PTHREAD_RWLOCK_INITIALIZER;

static void *write_on(void *arg)
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

static void kill_while_written(struct node *n)
{
	atomic_store(&n->dead, true); /* the writer lets go */
	pthread_rwlock_wrlock(&writing);
	kill_node(n);
	pthread_rwlock_unlock(&writing);
}

/* What etcd has. */
static struct group_known known(void)
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
static void check_so_far(uint64_t end_ns)
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
			start_node(i);
		}
}

static void await_in_sync(unsigned count)
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

static void await_written(void)
{
	const unsigned before = atomic_load(&numbers);
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;

	while (atomic_load(&numbers) < before + 20 * TOGETHER) {
		check_so_far(end_ns);
		time_sleep(NS_PER_MS);
	}
}

static void start_group(pthread_t *writer)
{
	etcd = real_start("http", NULL);
	memset(acknowledged, 0, NUMBERS_MAX);
	atomic_store(&numbers, 0);
	atomic_store(&lost, 0);
	atomic_store(&overlaps, 0);
	atomic_store(&leads, 0);
	atomic_store(&stop_writing, false);
	for (unsigned i = 0; i < NODES; i++)
		atomic_store(&node[i].until, 0); /* of another group */
	start_node(0);
	await_in_sync(1);
	assert_ok(pthread_create(writer, NULL, write_on, NULL));
	for (unsigned i = 1; i < NODES; i++)
		start_node(i);
	await_in_sync(NODES);
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

static void end_group(pthread_t writer)
{
	await_in_sync(NODES);
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	publish_all();
	check_all();
	for (unsigned i = 0; i < NODES; i++)
		kill_node(&node[i]);
	real_end(etcd);
}

UNIT_TEST(primaries_die)
{
	pthread_t writer;

	start_group(&writer);
	for (unsigned i = 0; i < FAIL_OVERS; i++) {
		struct node *dies = atomic_load(&primary);

		await_written();
		time_sleep(unit_below(50 * NS_PER_MS));
		kill_while_written(dies);
		await_in_sync(NODES - 1);
		await_written();
		start_node((unsigned)(dies - node));
		await_in_sync(NODES);
	}
	assert_true(atomic_load(&leads) > FAIL_OVERS);
	end_group(writer);
}

static void kill_all(pthread_t writer)
{
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	for (unsigned i = 0; i < NODES; i++)
		if (node[i].member)
			kill_node(&node[i]);
	real_end(etcd);
}

/* Nobody is left who has all: a machine that is busy makes a primary take out a backup that stands
 * still for too long, and then it died alone. */
static bool is_over(void)
{
	const struct group_known now = known();
	const uint64_t last = now.config.primary;

	for (unsigned i = 0; i < NODES; i++)
		if (node[i].member && node[i].life == last)
			return false;
	return now.modified && group_in_sync(&now.config) == 1;
}

/* The next one dies as soon as it leads, or before; the last one goes on alone. False: it did not
 * come to that. */
static bool two_die(void)
{
	struct node *first, *second = NULL;
	pthread_t writer;

	start_group(&writer);
	first = atomic_load(&primary);
	kill_while_written(first);
	if (!is_over()) {
		await_in_sync(1);
		second = atomic_load(&primary);
		time_sleep(unit_below(100 * NS_PER_MS));
		kill_while_written(second);
	}
	if (!second || is_over()) {
		kill_all(writer);
		return false;
	}
	await_in_sync(1);
	await_written();
	start_node((unsigned)(first - node));
	start_node((unsigned)(second - node));
	end_group(writer);
	return true;
}

UNIT_TEST(two_die_one_after_the_other)
{
	unsigned done = 0;

	for (unsigned i = 0; i < 3 * FAIL_OVERS && done < FAIL_OVERS / 2; i++)
		done += two_die();
	assert_int_equal(done, FAIL_OVERS / 2);
}

/* Backups die, and writes go on; etcd stands still, and writes go on. */
UNIT_TEST(backups_die_and_etcd_is_stopped)
{
	pthread_t writer;

	start_group(&writer);
	for (unsigned i = 0; i < FAIL_OVERS / 2; i++) {
		const unsigned at = (unsigned)(atomic_load(&primary) - node);
		const unsigned dies = (at + 1 + (unsigned)unit_below(NODES - 1)) % NODES;

		kill_while_written(&node[dies]);
		await_written();
		start_node(dies);
		await_in_sync(NODES);
		real_signal(etcd, SIGSTOP);
		await_written();
		time_sleep(2 * LEASE_MS * NS_PER_MS);
		await_written();
		real_signal(etcd, SIGCONT);
	}
	end_group(writer);
}

/* As kv-cluster: asks @n, and waits. Returns 0: @done; or what it was refused with. */
static int ask(const struct node *n, enum wire_group_what what, const char *name,
	       struct wire_group_done *done)
{
	struct wire_frame f = { .type = WIRE_GROUP_ASK, .group_ask = { .what = what } };
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	struct exchange_reader reader = { 0 };
	char host[256] = "", port[8] = "";
	int fd, rc;

	snprintf(f.group_ask.node, sizeof(f.group_ask.node), "%s", name);
	assert_ok(parse_host_port("", n->address, host, port, &err));
	assert_ok(tcp_connect(host, port, end_ns, &fd, &err));
	assert_ok(exchange_send(fd, &f, end_ns, &err));
	rc = exchange_recv(fd, &reader, WIRE_GROUP_DONE, &f, end_ns, &err);
	close(fd);
	*done = f.group_done;
	return rc;
}

static struct node *another(const struct node *than)
{
	return &node[((unsigned)(than - node) + 1 + (unsigned)unit_below(NODES - 1)) % NODES];
}

/* Until it is said, or the one that was asked is not primary any more. */
static int ask_primary(enum wire_group_what what, const char *name, struct wire_group_done *done)
{
	struct node *p;

	while (!(p = atomic_load(&primary)))
		time_sleep(NS_PER_MS);
	return ask(p, what, name, done);
}

/* Nobody serves while another one does, and nothing is lost. */
UNIT_TEST(primaries_give_way)
{
	struct wire_group_done done;
	pthread_t writer;

	start_group(&writer);
	for (unsigned i = 0; i < FAIL_OVERS; i++) {
		struct node *p = atomic_load(&primary), *to = another(p);
		const uint64_t term = known().config.term;

		await_written();
		assert_ok(ask(p, WIRE_GROUP_ASK_SWITCH, to->name, &done));
		assert_int_equal(done.term, term + 1);
		assert_int_equal(known().config.primary, to->life);
		await_written();
		await_in_sync(NODES);
	}
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_SWITCH, "nobody", &done), -ENOENT);
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_SWITCH, atomic_load(&primary)->name, &done),
			 -EALREADY);
	assert_int_equal(ask(another(atomic_load(&primary)), WIRE_GROUP_ASK_SWITCH, "", &done),
			 -EREMOTE);
	end_group(writer);
}

/* etcd stands still: the switch waits for it, or is off, and writes go on. */
UNIT_TEST(a_switch_that_etcd_does_not_answer)
{
	struct wire_group_done done;
	pthread_t writer;
	struct node *p;
	uint64_t term;

	start_group(&writer);
	p = atomic_load(&primary);
	term = known().config.term;
	real_signal(etcd, SIGSTOP);
	assert_true(ask(p, WIRE_GROUP_ASK_SWITCH, "", &done) < 0);
	await_written();
	real_signal(etcd, SIGCONT);
	assert_ptr_equal(atomic_load(&primary), p);
	assert_int_equal(known().config.term, term);
	end_group(writer);
}

/* Whoever is taken out by a person knows it, and does not come back by itself. */
UNIT_TEST(a_person_takes_one_out)
{
	struct wire_group_done done;
	struct group_known now;
	struct node *goes;
	pthread_t writer;

	start_group(&writer);
	goes = another(atomic_load(&primary));
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_REMOVE, "nobody", &done), -ENOENT);
	assert_int_equal(ask_primary(WIRE_GROUP_ASK_REMOVE, atomic_load(&primary)->name, &done),
			 -EINVAL);
	assert_ok(ask_primary(WIRE_GROUP_ASK_REMOVE, goes->name, &done));
	now = known();
	assert_int_equal(group_in_sync(&now.config), NODES - 1);
	for (const uint64_t end_ns = time_now_ns() + PATIENCE_NS; !atomic_load(&goes->ended);) {
		check_so_far(end_ns);
		time_sleep(NS_PER_MS);
	}
	assert_int_equal(atomic_load(&goes->why), WIRE_PEER_DISMISSED);
	await_written();
	end_group(writer); /* it is started again by a person */
}

/* All have died. A person says which one is to go on, and it is the only one that is asked. */
UNIT_TEST(all_are_gone_and_a_person_says_who_goes_on)
{
	struct wire_group_done done;
	pthread_t writer;
	uint64_t term;

	start_group(&writer);
	atomic_store(&stop_writing, true);
	pthread_join(writer, NULL);
	term = known().config.term;
	for (unsigned i = 0; i < NODES; i++) {
		kill_node(&node[i]);
		atomic_store(&node[i].serves, false); /* as the person says */
	}
	memset(acknowledged, 0, NUMBERS_MAX); /* it is lost */
	start_node(1);
	for (const uint64_t end_ns = time_now_ns() + PATIENCE_NS;
	     ask(&node[1], WIRE_GROUP_ASK_FORCE, "", &done);) {
		assert_int_equal(err.code, -EBUSY); /* it asks etcd yet */
		check_so_far(end_ns);
		time_sleep(10 * NS_PER_MS);
	}
	assert_int_equal(done.term, term + 1);
	assert_int_equal(ask(&node[1], WIRE_GROUP_ASK_FORCE, "", &done), -EBUSY);
	atomic_store(&stop_writing, false);
	await_in_sync(1);
	assert_ok(pthread_create(&writer, NULL, write_on, NULL));
	start_node(0);
	start_node(2);
	await_written();
	end_group(writer);
}
