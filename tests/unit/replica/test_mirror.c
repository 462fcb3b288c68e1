/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A log without a disk, and backups that hold it, on soft0: what they get, what is committed, and
 * what a backup finds that takes the primary's rights away, at any moment.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "common/rdma/device.h"
#include "server/log/log.h"
#include "server/replica/backup.h"
#include "server/replica/mirror.h"
#include "tests/lib/unit.h"

#define TERM	    5u
#define RING_BYTES  ((RING_BYTES_MIN + 4095) & ~4095ull)
#define WRITERS	    3u
#define PATIENCE_NS (60 * NS_PER_S)
#define REVOCATIONS 40u
#define VALUE_BYTES (1u << 20)

static struct error err;
static struct rdma_device *primary_dev, *backup_dev;
static uint8_t value[VALUE_BYTES];

static struct rdma_device *open_device(void)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;

	o.device = "soft0";
	assert_ok(rdma_device_open(&dev, &o, NULL, &err));
	return dev;
}

static int open_devices(void **state)
{
	uint64_t random = 3;

	(void)state;
	primary_dev = open_device();
	backup_dev = open_device();
	for (unsigned i = 0; i < VALUE_BYTES; i++)
		value[i] = (uint8_t)unit_random(&random);
	return 0;
}

static int close_devices(void **state)
{
	(void)state;
	rdma_device_close(backup_dev);
	rdma_device_close(primary_dev);
	return 0;
}

UNIT_GROUP(open_devices, close_devices);

/* One that takes out of its ring, in a thread. */
struct other {
	struct backup *backup;
	pthread_t thread;
	_Atomic bool stop, rests;
	_Atomic uint64_t end; /* position behind what it has taken */
	_Atomic uint64_t committed; /* that it was told */
	bool wrong;
};

struct group {
	struct mirror *mirror;
	struct log *log;
	struct other other[MIRROR_PEERS_MAX];
	_Atomic bool stop;
	_Atomic uint64_t appended;
};

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 4;
}

static struct group *open_group(void)
{
	struct group *g = calloc(1, sizeof(*g));
	struct log_config config = { .ring_bytes = 64u << 20, .first = 800, .clock_ms = clock_ms };

	assert_non_null(g);
	assert_ok(mirror_open(&g->mirror, primary_dev, TERM, 800, &err));
	config.mirror = mirror_table(g->mirror);
	assert_ok(log_open(&g->log, &config, &err));
	return g;
}

/* Records as they stand in the log, one behind the other. */
static bool are_right(const uint8_t *at, uint64_t position, uint32_t bytes, uint32_t records)
{
	for (uint32_t i = 0; i < records; i++) {
		const struct log_record *r = (const void *)at;

		if (r->position != position || r->body != hash_bytes(r->data, r->value_len))
			return false;
		at += r->length;
		position += r->length;
		bytes -= r->length;
	}
	return bytes == 0;
}

static uint64_t term_of(uint64_t position)
{
	return position < 320 ? TERM - 2 : position < 800 ? TERM - 1 : TERM;
}

/* What has come. Returns whether there was something. */
static bool take(struct other *o)
{
	const struct ring_receiver *r = backup_take(o->backup);
	const struct ring_batch *b;

	if (!r)
		return false;
	b = &r->batch;
	o->wrong |= b->position != atomic_load(&o->end) || b->committed > b->position ||
		    b->term != term_of(b->position) || b->end != 800 ||
		    !are_right(r->copy, b->position, b->bytes, b->records);
	atomic_store(&o->committed, b->committed);
	atomic_store(&o->end, b->position + b->bytes);
	return true;
}

static void *take_all(void *arg)
{
	struct other *o = arg;

	while (!atomic_load(&o->stop)) {
		if (atomic_load(&o->rests) || !take(o))
			time_sleep(100000);
		backup_tell(o->backup, atomic_load(&o->committed));
	}
	return NULL;
}

#define EARLIER 5u /* records of 160 bytes, before the log's first one */

/* What was decided in earlier terms, and a new primary has. */
static void resend(struct group *g, unsigned i)
{
	uint8_t bytes[800] = { 0 };

	for (unsigned k = 0; k < EARLIER; k++) {
		struct log_record *r = (void *)(bytes + 160 * k);

		*r = (struct log_record){ .length = 160, .position = 160 * k, .value_len = 64 };
		memset(r->data, (int)k, 64);
		r->body = hash_bytes(r->data, 64);
	}
	for (unsigned k = 0; k < 2; k++) {
		const struct ring_say say = { .position = k ? 320 : 0,
					      .term = TERM - 2 + k,
					      .bytes = k ? 480 : 320,
					      .records = k ? 3 : 2 };

		assert_ok(mirror_resend(g->mirror, i, &say, bytes + say.position,
					time_now_ns() + PATIENCE_NS, &err));
	}
}

/* With all that was, from position 0, where the log has not begun. */
static void join(struct group *g, unsigned i, bool must)
{
	struct other *o = &g->other[i];
	struct replica_ring_offer ring;
	struct replica_flow_offer flow;
	uint64_t from;

	memset(o, 0, sizeof(*o));
	assert_ok(backup_open(&o->backup, backup_dev, RING_BYTES, NULL, TERM, &ring, &err));
	assert_ok(mirror_add(g->mirror, i, &ring, &flow, &err));
	assert_ok(backup_connect(o->backup, &flow, &err));
	mirror_must(g->mirror, i, must);
	if (mirror_sent(g->mirror) == 800)
		resend(g, i);
	from = mirror_begin(g->mirror, i);
	atomic_store(&o->end, from == 800 ? 0 : from);
	assert_ok(pthread_create(&o->thread, NULL, take_all, o));
}

static void end_thread(struct other *o)
{
	atomic_store(&o->stop, true);
	pthread_join(o->thread, NULL);
}

/* Its thread has ended. */
static void leave(struct group *g, unsigned i)
{
	mirror_cut(g->mirror, i);
	mirror_remove(g->mirror, i);
	backup_close(g->other[i].backup);
	assert_false(g->other[i].wrong);
	g->other[i].backup = NULL;
}

static void close_group(struct group *g)
{
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i++) {
		if (!g->other[i].backup)
			continue;
		end_thread(&g->other[i]);
		leave(g, i);
	}
	assert_ok(log_close(g->log));
	mirror_close(g->mirror);
	free(g);
}

static int append(struct group *g, uint32_t len, uint64_t *end)
{
	struct log_entry e = { .kind = LOG_PUT,
			       .version = 1,
			       .value = value,
			       .value_len = len,
			       .body = hash_bytes(value, len) };
	struct log_place at;
	int rc = log_append_begin(g->log, 0, len, &at);

	if (rc)
		return rc;
	log_append_end(g->log, &at, &e);
	log_kick(g->log);
	atomic_fetch_add(&g->appended, 1);
	*end = at.end;
	return 0;
}

static void *write_on(void *arg)
{
	struct group *g = arg;
	uint64_t random = (uintptr_t)&random, end;

	while (!atomic_load(&g->stop)) {
		const uint64_t n = unit_random(&random);

		if (append(g, (uint32_t)(n % (n >> 20 & 127 ? 500 : VALUE_BYTES)), &end))
			time_sleep(100000);
		else if (n >> 40 & 1)
			time_sleep(n >> 41 & 0xffff);
	}
	return NULL;
}

static void start_writers(struct group *g, pthread_t thread[WRITERS])
{
	for (unsigned i = 0; i < WRITERS; i++)
		assert_ok(pthread_create(&thread[i], NULL, write_on, g));
}

static void stop_writers(struct group *g, const pthread_t thread[WRITERS])
{
	atomic_store(&g->stop, true);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&g->stop, false);
}

static void await(_Atomic uint64_t *position, uint64_t least)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;

	while (atomic_load(position) < least) {
		assert_true(time_now_ns() < until_ns);
		time_sleep(NS_PER_MS);
	}
}

static void await_committed(struct group *g, uint64_t least)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;

	while (log_committed(g->log) < least) {
		assert_true(time_now_ns() < until_ns);
		time_sleep(NS_PER_MS);
	}
}

static void await_more(struct group *g, uint64_t bytes)
{
	await_committed(g, log_committed(g->log) + bytes);
}

/* Look again, a while later: a mutex is not fair. */
static void look(struct group *g, unsigned i, struct mirror_state *s, uint64_t until_ns)
{
	assert_true(time_now_ns() < until_ns);
	time_sleep(200000);
	mirror_look(g->mirror, i, s);
}

/* A member that learns has all that it must have to count. */
static void promote(struct group *g, unsigned i)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;
	struct mirror_state s;
	uint64_t sent;

	mirror_must(g->mirror, i, true);
	sent = mirror_sent(g->mirror);
	do {
		look(g, i, &s, until_ns);
		assert_false(s.failed);
	} while (s.held < sent);
}

/* The log rests, and who looks at a member finds that it has what was sent last. Run with soft0
 * slow in its completions. */
UNIT_TEST(what_was_sent_last_completes)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS / (MUTANT(look_away) ? 10 : 1);
	struct group *g = open_group();
	struct mirror_state s;
	uint64_t end = 0;

	join(g, 0, true);
	assert_ok(append(g, 100, &end));
	await_committed(g, end);
	await(&g->other[0].committed, end); /* that is told when the log rests */
	do
		look(g, 0, &s, until_ns);
	while (s.since_ns);
	close_group(g);
}

/* A ring that was made before is taken, and only once. */
UNIT_TEST(a_ring_in_advance)
{
	struct rdma_buffer spare = { 0 };
	struct replica_ring_offer ring[2];
	struct backup *b[2];

	assert_ok(backup_spare(backup_dev, RING_BYTES, &spare, &err));
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t addr = (uintptr_t)spare.addr;

		assert_ok(backup_open(&b[i], backup_dev, RING_BYTES, &spare, TERM, &ring[i], &err));
		assert_null(spare.addr);
		assert_true(i || ring[i].addr == addr);
	}
	assert_int_not_equal(ring[0].rkey, ring[1].rkey);
	for (unsigned i = 0; i < 2; i++)
		backup_close(b[i]);
}

UNIT_TEST(all_get_everything)
{
	struct group *g = open_group();
	pthread_t thread[WRITERS];
	struct mirror_state s;
	uint64_t tail, until_ns;

	join(g, 0, true);
	join(g, 6, true);
	start_writers(g, thread);
	await_more(g, 20u << 20);
	join(g, 3, false); /* it learns, from where the log is */
	await_more(g, 20u << 20);
	promote(g, 3);
	await_more(g, 2 * RING_BYTES); /* several laps */
	stop_writers(g, thread);
	tail = log_tail(g->log);
	await_committed(g, tail);
	until_ns = time_now_ns() + PATIENCE_NS;
	for (unsigned i = 0; i < MIRROR_PEERS_MAX; i += 3) {
		await(&g->other[i].end, tail);
		await(&g->other[i].committed, tail); /* it is told when nothing comes, too */
		do
			look(g, i, &s, until_ns);
		while (s.applied != tail);
		assert_int_equal(s.held, tail);
		assert_int_equal(s.since_ns, 0);
	}
	close_group(g);
}

/* No thread of a backup is in the way of a write, until its ring is full. */
UNIT_TEST(a_backup_that_rests)
{
	struct group *g = open_group();
	pthread_t thread[WRITERS];
	uint64_t before, committed;
	struct mirror_state s;

	join(g, 0, true);
	join(g, 1, true);
	atomic_store(&g->other[1].rests, true);
	start_writers(g, thread);
	await_more(g, RING_BYTES / 2);
	assert_true(atomic_load(&g->other[1].end) <= 800);
	/* Then all waits for it. */
	do {
		before = log_committed(g->log);
		time_sleep(300 * NS_PER_MS);
		committed = log_committed(g->log);
	} while (committed != before);
	assert_true(committed < 800 + RING_BYTES);
	mirror_look(g->mirror, 1, &s);
	assert_true(s.since_ns && !s.failed);
	atomic_store(&g->other[1].rests, false);
	await_more(g, RING_BYTES);
	/* Once more, and it is taken out. */
	atomic_store(&g->other[1].rests, true);
	do {
		before = log_committed(g->log);
		time_sleep(300 * NS_PER_MS);
		committed = log_committed(g->log);
	} while (committed != before);
	end_thread(&g->other[1]);
	mirror_cut(g->mirror, 1);
	time_sleep(20 * NS_PER_MS);
	assert_int_equal(log_committed(g->log), committed); /* it must hold it still */
	mirror_must(g->mirror, 1, false);
	await_more(g, RING_BYTES);
	stop_writers(g, thread);
	leave(g, 1);
	close_group(g);
}

/*
 * Its rights are gone: the next WRITE to backup 1 fails. None comes where its ring is full, as the
 * primary waits for room there; then it only stands. Returns whether one has failed.
 */
static bool primary_is_stopped(struct group *g, uint64_t found)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;
	struct mirror_state s;
	bool stands;

	do {
		look(g, 1, &s, until_ns);
		stands = s.since_ns && time_now_ns() > s.since_ns + 200 * NS_PER_MS;
	} while (!s.failed && !stands && log_committed(g->log) <= found);
	assert_true(!s.failed || s.why[0]);
	return s.failed;
}

/* A backup that takes over has all that was committed, and nothing is committed after that. */
UNIT_TEST(rights_are_taken_away)
{
	struct group *g = open_group();
	pthread_t thread[WRITERS];
	uint64_t random = (uintptr_t)&random, found;
	unsigned failed = 0;

	join(g, 0, true);
	start_writers(g, thread);
	for (unsigned round = 0; round < REVOCATIONS; round++) {
		struct other *o = &g->other[1];

		join(g, 1, false);
		promote(g, 1);
		atomic_store(&o->rests, round % 3 == 0);
		/* A ring is full after the long rest. */
		time_sleep(round % 9 ? unit_random(&random) % (8 * NS_PER_MS) : 300 * NS_PER_MS);
		end_thread(o);
		assert_ok(backup_revoke(o->backup, &err));
		while (take(o))
			;
		found = atomic_load(&o->end);
		time_sleep(2 * NS_PER_MS);
		assert_true(log_committed(g->log) <= found);
		failed += primary_is_stopped(g, found);
		assert_true(log_committed(g->log) <= found);
		assert_null(backup_take(o->backup)); /* nothing comes any more */
		leave(g, 1);
		await_more(g, 1);
	}
	assert_true(failed);
	stop_writers(g, thread);
	close_group(g);
}

UNIT_TEST(offers_that_are_none)
{
	struct group *g = open_group();
	struct replica_ring_offer good, bad;
	struct replica_flow_offer flow;
	struct backup *b;

	assert_ok(backup_open(&b, backup_dev, RING_BYTES, NULL, TERM, &good, &err));
	for (unsigned i = 0; i < 7; i++) {
		bad = good;
		bad.ring_term += i == 0;
		bad.bytes = i == 1   ? RING_BYTES_MIN - RING_UNIT
			    : i == 2 ? bad.bytes + 1
				     : bad.bytes;
		bad.addr = i == 3 ? UINT64_MAX - 4096 : bad.addr;
		bad.key = i == 4 ? 0 : bad.key;
		bad.qp.mtu = i == 5 ? 0 : bad.qp.mtu;
		bad.qp.link_layer = i == 6 ? 77 : bad.qp.link_layer;
		err.text[0] = 0;
		assert_int_equal(mirror_add(g->mirror, 0, &bad, &flow, &err), -EPROTO);
		assert_true(err.text[0]);
	}
	assert_ok(mirror_add(g->mirror, 0, &good, &flow, &err));
	mirror_cut(g->mirror, 0);
	mirror_remove(g->mirror, 0);
	backup_close(b);
	close_group(g);
}
