/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A primary, whose group's thread the test plays, with a real etcd and a log without a disk, and
 * members that dial it. They come, follow, stand still, die, and start again.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/device.h"
#include "common/rdma/tcp.h"
#include "server/log/log.h"
#include "server/member/follow.h"
#include "server/member/lead.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/real.h"

#define LEASE_MS    500u
#define TIMEOUT_MS  20000u
#define SILENCE_MS  500u
#define MEMBERS	    3u
#define MEMORY	    (64ull << 20)
#define RING_BYTES  ((RING_BYTES_MIN + 4095) & ~4095ull)
#define PATIENCE_NS (120 * NS_PER_S)
#define SELF	    1u /* life */

static struct error err;
static struct real *etcd;

static struct member {
	struct rdma_device *dev;
	struct beat *beat;
	_Atomic uint64_t until, clock;
	struct follow *follow;
	bool beats; /* its thread of leases has a pulse */
	_Atomic unsigned walks; /* pieces that are left */
	_Atomic uint64_t applied; /* position */
	_Atomic bool still; /* what it applies waits */
	bool lives;
} member[MEMBERS];

static struct primary {
	struct group_registry *registry;
	struct proposer *proposer;
	struct mirror *mirror;
	struct log *log;
	struct lead *lead;
	struct beat *beat;
	_Atomic uint64_t until, clock;
	int wake_fd, listen_fd;
	char address[280];
	struct rdma_device *dev;
	unsigned opened;
	bool deposed;
	struct group_known known; /* as it was told */
} primary;

static const struct lease_terms terms = { LEASE_MS * NS_PER_MS, 10000 };

static int begin(void **state)
{
	struct rdma_options o = rdma_options_default();

	folder_make(state);
	o.device = "soft0";
	assert_ok(rdma_device_open(&primary.dev, &o, NULL, &err));
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_ok(rdma_device_open(&member[i].dev, &o, NULL, &err));
	return 0;
}

static int finish(void **state)
{
	for (unsigned i = 0; i < MEMBERS; i++)
		rdma_device_close(member[i].dev);
	rdma_device_close(primary.dev);
	return folder_remove(state);
}

UNIT_GROUP(begin, finish);

/* The primary. */

static uint64_t get_published(void *ctx)
{
	(void)ctx;
	return log_committed(primary.log);
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

/* Its log begins with what it holds. */
static void opened(void *ctx)
{
	const struct follower *held = ctx;
	struct log_config c = { .mirror = mirror_table(primary.mirror), .clock_ms = clock_ms };
	struct follower_state s;

	if (held) {
		follower_look(held, &s);
		c.first = s.committed;
		c.tail = follower_rest(held);
		c.tail_bytes = s.held - s.committed;
	}
	assert_ok(log_open(&primary.log, &c, &err));
	primary.opened++;
}

static void changed(void *ctx, const struct group_known *now)
{
	(void)ctx;
	primary.known = *now;
}

static void deposed(void *ctx, const struct group_known *now)
{
	changed(ctx, now);
	primary.deposed = true;
}

static void start_beat(struct beat **out, _Atomic uint64_t *until, _Atomic uint64_t *clock, int fd)
{
	const struct beat_config c = { terms, until, clock, fd };

	atomic_store(until, 0);
	atomic_store(clock, 0);
	assert_ok(beat_start(out, &c, &err));
}

static void ask_etcd(unsigned timeout_ms)
{
	const struct etcd_config c = { .endpoints = real_url(etcd), .timeout_ms = timeout_ms };

	assert_ok(group_registry_open(&primary.registry, &c, "test", "1", &err));
	assert_ok(proposer_start(&primary.proposer, primary.registry, primary.wake_fd, &err));
}

static void forget_etcd(void)
{
	proposer_stop(primary.proposer);
	group_registry_close(primary.registry);
}

/* What stands in etcd, as another one reads it. */
static struct group_known read_etcd(void)
{
	const struct etcd_config c = { .endpoints = real_url(etcd), .timeout_ms = TIMEOUT_MS };
	struct group_registry *r;
	struct group_known now;

	assert_ok(group_registry_open(&r, &c, "test", "1", &err));
	while (group_registry_read(r, &now, &err))
		time_sleep(NS_PER_MS);
	group_registry_close(r);
	return now;
}

/* In place of what stands: @c. */
static struct group_known write_etcd(const struct group_config *c)
{
	const struct etcd_config config = { .endpoints = real_url(etcd), .timeout_ms = TIMEOUT_MS };
	struct group_known from = read_etcd(), now;
	struct group_registry *r;

	assert_ok(group_registry_open(&r, &config, "test", "1", &err));
	assert_ok(group_registry_propose(r, &from, c, &now, &err));
	group_registry_close(r);
	return now;
}

static void lead(const struct group_known *known, uint64_t self, struct follower *brings,
		 unsigned etcd_ms)
{
	struct lead_config c = { .known = *known,
				 .self = self,
				 .cluster = { 11, 12 },
				 .group = "g",
				 .memory = MEMORY,
				 .brings = brings,
				 .dev = primary.dev,
				 .table = { NULL, get_published, no_clients },
				 .opened = opened,
				 .changed = changed,
				 .deposed = deposed,
				 .ctx = brings };
	struct follower_state s = { 0 };

	c.wake_fd = primary.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_ok(tcp_listen("127.0.0.1", "0", &primary.listen_fd, primary.address, &err));
	primary.opened = primary.deposed = 0;
	primary.known = *known;
	start_beat(&primary.beat, &primary.until, &primary.clock, primary.wake_fd);
	ask_etcd(etcd_ms);
	if (brings)
		follower_look(brings, &s);
	assert_ok(mirror_open(&primary.mirror, primary.dev, known->config.term, s.held, &err));
	c.beat = primary.beat;
	c.mirror = primary.mirror;
	c.proposer = primary.proposer;
	assert_ok(lead_start(&primary.lead, &c, &err));
}

/* A group of one. */
static void found(unsigned etcd_ms)
{
	const struct group_member self = { .life = SELF, .node = "p", .address = "p:1" };
	struct group_config c = { .lease_ms = LEASE_MS,
				  .rho_ppm = terms.rho_ppm,
				  .min_in_sync = 1 };
	struct group_known now;

	etcd = real_start("http", NULL);
	group_found(&c, &self);
	now = write_etcd(&c);
	lead(&now, SELF, NULL, etcd_ms);
	lead_turn(primary.lead);
	assert_int_equal(primary.opened, 1);
}

/* As the thread that accepts: a HELLO is handed over. */
static void accept_one(void)
{
	struct exchange_reader reader = { 0 };
	int fd = accept4(primary.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct wire_frame f;

	if (fd < 0)
		return;
	if (exchange_recv(fd, &reader, WIRE_PEER_HELLO, &f, time_now_ns() + PATIENCE_NS, &err))
		close(fd);
	else
		lead_hello(primary.lead, fd, &f.peer_hello);
}

/* As the group's thread of member @m. */
static void turn_member(struct member *m)
{
	struct follow_state s;

	follow_look(m->follow, &s);
	if (s.pulse && !m->beats)
		m->beats = beat_follow(m->beat, s.term, s.pulse) == 0;
}

static void turn(void)
{
	if (primary.lead) {
		accept_one();
		lead_turn(primary.lead);
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		if (member[i].lives)
			turn_member(&member[i]);
	time_sleep(NS_PER_MS);
}

#define TURN_UNTIL(condition)                                                     \
	for (uint64_t end_ns = time_now_ns() + PATIENCE_NS; !(condition); turn()) \
	assert_true(time_now_ns() < end_ns)

static void stop_primary(void)
{
	lead_stop(primary.lead);
	primary.lead = NULL;
	for (unsigned peer = 0; peer < MIRROR_PEERS_MAX; peer++)
		mirror_remove(primary.mirror, peer); /* nobody hears what it commits now */
	assert_ok(log_close(primary.log));
	mirror_close(primary.mirror);
	beat_stop(primary.beat);
	forget_etcd();
	close(primary.wake_fd);
	close(primary.listen_fd);
}

static void end_primary(void)
{
	stop_primary();
	real_end(etcd);
}

/* So many records more; they are committed when all that must have them do. */
static uint64_t append(unsigned records)
{
	const struct log_entry e = { .kind = LOG_FORGET, .client = { 1, 2 } };
	struct log_place at = { 0 };

	while (records--) {
		while (log_append_begin(primary.log, 0, 0, &at) == -EBUSY)
			turn();
		log_append_end(primary.log, &at, &e);
	}
	log_kick(primary.log);
	return at.end;
}

/* Members. */

static int apply(void *ctx, const struct log_record *r)
{
	struct member *m = ctx;

	while (atomic_load(&m->still))
		time_sleep(NS_PER_MS);
	atomic_store(&m->applied, r->position + r->length);
	return 0;
}

static int no_client(void *ctx, const struct snapshot_client *item)
{
	(void)ctx, (void)item;
	return -EINVAL;
}

static int walk(void *ctx, const char *address, struct error *e)
{
	struct member *m = ctx;

	if (strcmp(address, primary.address) != 0)
		return error_set(e, -EINVAL, "it walks over %s", address);
	return atomic_fetch_sub(&m->walks, 1) > 1;
}

static int learned(void *ctx, struct error *e)
{
	const struct member *m = ctx;

	return atomic_load(&m->walks) ? error_set(e, -EINVAL, "it has not walked") : 0;
}

static int begins(void *ctx, uint64_t term, uint64_t position, struct error *e)
{
	(void)ctx, (void)term, (void)position, (void)e;
	return 0;
}

static struct follow_config following(struct member *m, const char *node, uint64_t life)
{
	struct follow_config c = {
		.dev = m->dev,
		.ring_bytes = RING_BYTES,
		.who = { .cluster = { 11, 12 }, .life = life, .memory = MEMORY, .group = "g" },
		.wake_fd = primary.wake_fd,
		.hooks = { m, begins, no_client, apply, walk, learned }
	};

	strcpy(c.who.node, node);
	strcpy(c.who.address, "here:1");
	return c;
}

static void start_member(unsigned i, const char *node, uint64_t life)
{
	struct member *m = &member[i];
	const struct follow_config c = following(m, node, life);

	atomic_store(&m->walks, 5);
	atomic_store(&m->applied, 0);
	atomic_store(&m->still, false);
	start_beat(&m->beat, &m->until, &m->clock, primary.wake_fd);
	assert_ok(follow_create(&m->follow, &c, &err));
	assert_ok(follow_dial(m->follow, primary.address, &err));
	m->beats = false;
	m->lives = true;
}

/* Its process is killed: the line breaks, and nobody takes or answers anything. */
static void kill_member(unsigned i)
{
	struct member *m = &member[i];

	atomic_store(&m->still, false);
	beat_stop(m->beat);
	assert_ok(follow_leave(m->follow, &err));
	follow_destroy(m->follow);
	m->lives = false;
}

static enum follow_stage stage_of(unsigned i)
{
	struct follow_state s;

	follow_look(member[i].follow, &s);
	return s.stage;
}

static bool is_in_sync(uint64_t life)
{
	const struct group_member *m = group_find(&primary.known.config, life);

	return m && m->in_sync;
}

static bool is_member(uint64_t life)
{
	return group_find(&primary.known.config, life);
}

static uint64_t now_us(void)
{
	return time_read_ns(CLOCK_BOOTTIME) / 1000;
}

static void start_two(unsigned etcd_ms)
{
	found(etcd_ms);
	append(10);
	start_member(0, "n0", 100);
	start_member(1, "n1", 101);
	TURN_UNTIL(is_in_sync(100) && is_in_sync(101));
}

static void end_two(void)
{
	kill_member(0);
	kill_member(1);
	end_primary();
}

UNIT_TEST(members_come_and_follow)
{
	uint64_t end;

	start_two(TIMEOUT_MS);
	end = append(1000);
	TURN_UNTIL(log_committed(primary.log) >= end);
	append(1); /* tells that the others are committed */
	TURN_UNTIL(atomic_load(&member[0].applied) >= end &&
		   atomic_load(&member[1].applied) >= end);
	TURN_UNTIL(atomic_load(&primary.until) > now_us());
	assert_int_equal(read_etcd().config.term, primary.known.config.term);
	end_two();
}

UNIT_TEST(one_dies)
{
	uint64_t end;

	start_two(TIMEOUT_MS);
	kill_member(0);
	end = append(10);
	TURN_UNTIL(log_committed(primary.log) >= end);
	assert_false(is_member(100));
	assert_true(is_in_sync(101));
	/* It comes back, in another life. */
	start_member(0, "n0", 102);
	TURN_UNTIL(is_in_sync(102));
	end_two();
}

/* It is there, and its device takes what comes, until its ring is full. */
UNIT_TEST(one_takes_nothing)
{
	uint64_t end = 0;

	start_two(TIMEOUT_MS);
	atomic_store(&member[0].still, true);
	while (is_member(100)) {
		end = append(10000);
		turn();
	}
	TURN_UNTIL(log_committed(primary.log) >= end);
	assert_true(is_in_sync(101));
	end_two();
}

/* It takes the log, and does not answer beats. */
UNIT_TEST(one_answers_no_beat)
{
	start_two(TIMEOUT_MS);
	assert_ok(beat_follow(member[1].beat, 2, NULL));
	TURN_UNTIL(!is_member(101));
	assert_non_null(strstr(primary.known.config.why, "n1 is out: it does not answer beats"));
	TURN_UNTIL(atomic_load(&primary.until) > now_us());
	end_two();
}

/* Its node starts again, and what it was before still seems to be there. */
UNIT_TEST(one_starts_again)
{
	uint64_t end;

	start_two(TIMEOUT_MS);
	start_member(2, "n1", 103);
	end = append(10);
	TURN_UNTIL(is_in_sync(103));
	assert_false(is_member(101));
	TURN_UNTIL(log_committed(primary.log) >= end);
	kill_member(2);
	end_two();
}

/*
 * Etcd stands still while a member is put in sync. Nobody knows whether it is: so it counts. Then
 * it dies.
 */
UNIT_TEST(one_dies_while_it_is_put_in_sync)
{
	struct group_known now;
	struct lead_state s;
	uint64_t end, until;

	found(SILENCE_MS);
	start_member(0, "n0", 100);
	TURN_UNTIL(is_member(100));
	real_signal(etcd, SIGSTOP);
	do {
		turn();
		lead_look(primary.lead, 0, &s);
	} while (s.stage != LEAD_CATCHES_UP);
	TURN_UNTIL(beat_granted(primary.beat, 0));
	assert_ok(beat_follow(member[0].beat, 2, NULL));
	until = time_now_ns() + 4 * SILENCE_MS * NS_PER_MS;
	while (time_now_ns() < until)
		turn();
	assert_true(atomic_load(&primary.until) <= now_us());
	kill_member(0);
	end = append(10);
	until = time_now_ns() + 2 * SILENCE_MS * NS_PER_MS;
	while (time_now_ns() < until)
		turn();
	assert_true(log_committed(primary.log) < end);
	real_signal(etcd, SIGCONT);
	TURN_UNTIL(log_committed(primary.log) >= end);
	assert_false(is_member(100));
	now = read_etcd();
	assert_int_equal(group_in_sync(&now.config), 1);
	end_primary();
}

/* What a member that cannot be is told. */
static const char *refusal(const struct wire_peer_hello *hello)
{
	struct exchange_reader reader = { 0 };
	struct wire_frame f;
	int ends[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
	lead_hello(primary.lead, ends[0], hello);
	assert_true(exchange_recv(ends[1], &reader, WIRE_PEER_JOINED, &f,
				  time_now_ns() + PATIENCE_NS, &err) < 0);
	close(ends[1]);
	return err.text;
}

UNIT_TEST(those_who_cannot_be_members)
{
	struct wire_peer_hello good = { .layout_version = LAYOUT_VERSION,
					.layout_hash = layout_hash(),
					.cluster = { 11, 12 },
					.life = 7,
					.memory = MEMORY,
					.group = "g",
					.node = "x",
					.address = "x:1" },
			       h;

	found(TIMEOUT_MS);
	h = good, h.layout_hash++;
	assert_non_null(strstr(refusal(&h), "same GraceKV release"));
	h = good, h.cluster[1]++;
	assert_non_null(strstr(refusal(&h), "another cluster"));
	h = good, strcpy(h.group, "h");
	assert_non_null(strstr(refusal(&h), "group h"));
	h = good, h.memory--;
	assert_non_null(strstr(refusal(&h), "--memory 64M"));
	h = good, h.life = SELF;
	assert_non_null(strstr(refusal(&h), "start again"));
	end_primary();
}

/* What another one has written in etcd. */
static void write_other(struct group_config *next)
{
	const struct group_member other = { .life = 55, .node = "o", .address = "o:1" };

	*next = read_etcd().config;
	assert_ok(group_add(next, SELF, &other, &err));
	assert_ok(group_promote(next, SELF, 55, &err));
	assert_ok(group_take_over(next, 55, "o has taken over", &err));
	next->term = read_etcd().config.term + 1;
	write_etcd(next);
}

UNIT_TEST(another_one_is_primary)
{
	struct group_config next;

	found(TIMEOUT_MS);
	write_other(&next);
	/* It finds out by what it proposes itself, if nobody tells it before. */
	start_member(0, "n0", 100);
	TURN_UNTIL(primary.deposed);
	assert_int_equal(primary.known.config.primary, 55);
	assert_true(atomic_load(&primary.until) <= now_us() + LEASE_MS * 1000);
	start_member(1, "n1", 101); /* it is told to dial again */
	for (unsigned i = 0; i < 100; i++)
		turn();
	assert_int_equal(stage_of(1), FOLLOW_DIALS);
	lead_stop(primary.lead);
	primary.lead = NULL;
	end_two();
}

/* The primary is cut off from member @i, then writes on: member 0 holds what @i lacks. */
static void write_past(unsigned i)
{
	struct mirror_state has, lacks;
	unsigned place[2] = { 0 };
	struct lead_state s;

	for (unsigned peer = 0; peer < MIRROR_PEERS_MAX; peer++) {
		lead_look(primary.lead, peer, &s);
		if (s.life == 100 || s.life == 100 + i)
			place[s.life != 100] = peer;
	}
	mirror_cut(primary.mirror, place[1]);
	append(10);
	do {
		time_sleep(NS_PER_MS);
		mirror_look(primary.mirror, place[0], &has);
		mirror_look(primary.mirror, place[1], &lacks);
	} while (has.held <= lacks.held);
}

/* Another two who were members: one that was in sync and is dead, and one that learned. */
static struct group_known taken_over(uint64_t by)
{
	const struct group_member dead = { .life = 102, .node = "n2", .address = "n2:1" };
	const struct group_member learner = { .life = 103, .node = "n3", .address = "n3:1" };
	struct group_known now = read_etcd();
	struct group_config c = now.config;
	const uint64_t term = c.term;

	assert_ok(group_add(&c, SELF, &dead, &err));
	assert_ok(group_promote(&c, SELF, dead.life, &err));
	assert_ok(group_add(&c, SELF, &learner, &err));
	assert_ok(group_take_over(&c, by, "n0 has taken over", &err));
	c.term = term + 1;
	return write_etcd(&c);
}

/*
 * Member 0 takes over. Member 1 follows it, and lacks the end of what it holds; the third is dead.
 * Nobody is answered before both are settled.
 */
UNIT_TEST(one_takes_over)
{
	struct follower_state held;
	struct group_known now;
	uint64_t acknowledged;

	start_two(TIMEOUT_MS);
	acknowledged = append(100);
	TURN_UNTIL(log_committed(primary.log) >= acknowledged);
	write_past(1);
	stop_primary();
	assert_ok(beat_follow(member[0].beat, 3, NULL));
	assert_ok(beat_follow(member[1].beat, 3, NULL));
	assert_ok(follow_leave(member[0].follow, &err));
	assert_ok(follow_leave(member[1].follow, &err));
	follower_look(follow_held(member[0].follow), &held);
	assert_true(held.held > acknowledged);
	now = taken_over(100);
	lead(&now, 100, follow_held(member[0].follow), TIMEOUT_MS);
	turn();
	assert_int_equal(primary.opened, 0);
	member[1].beats = false;
	assert_ok(follow_dial(member[1].follow, primary.address, &err));
	TURN_UNTIL(primary.opened);
	assert_false(is_member(102)); /* it did not come in time */
	assert_true(is_in_sync(101));
	TURN_UNTIL(atomic_load(&member[1].applied) >= held.held);
	TURN_UNTIL(!is_member(103)); /* it learned from the one before */
	kill_member(1);
	stop_primary();
	kill_member(0);
	real_end(etcd);
}
