/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Three members on soft0, whose logs have no disk: one leads, under writers, until another one
 * takes its rights away, brings the third to its log, and leads; then the deposed one comes back,
 * empty. Some die while they take over. Whatever was committed is what every member applies.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/rdma/device.h"
#include "server/log/log.h"
#include "server/replica/backup.h"
#include "server/replica/mirror.h"
#include "server/replica/succession.h"
#include "tests/lib/unit.h"

#define MEMBERS	      3u
#define WRITERS	      2u
#define RING_BYTES    ((RING_BYTES_MIN + 4095) & ~4095ull)
#define PATIENCE_NS   (60 * NS_PER_S)
#define POSITIONS_MAX (256ull << 20)
#define VALUE_BYTES   2000u
#define ROUNDS	      24u

struct member {
	struct rdma_device *dev;
	/* One that follows. */
	struct follower *follower;
	struct backup *backup; /* NULL: it has no ring */
	pthread_t thread;
	bool runs;
	_Atomic bool stop;
	uint64_t next; /* position that it applies next */
	/* The one that leads. */
	struct mirror *mirror;
	struct log *log;
};

static struct error err;
static struct member member[MEMBERS];
static uint64_t term, *written; /* of each position / 8: what was last appended there */
static _Atomic bool stop_writing;
static struct log *_Atomic leading;
static uint8_t value[VALUE_BYTES];

static int open_members(void **state)
{
	struct rdma_options o = rdma_options_default();

	unit_seed(state);
	o.device = "soft0";
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_ok(rdma_device_open(&member[i].dev, &o, NULL, &err));
	written = calloc(POSITIONS_MAX / 8, sizeof(*written));
	assert_non_null(written);
	return 0;
}

static int close_members(void **state)
{
	(void)state;
	for (unsigned i = 0; i < MEMBERS; i++)
		rdma_device_close(member[i].dev);
	free(written);
	return 0;
}

UNIT_GROUP(open_members, close_members);

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 4;
}

static uint64_t atomic_body(uint64_t position)
{
	return __atomic_load_n(&written[position / 8], __ATOMIC_ACQUIRE);
}

/* In the order of the log, without a gap, and what was appended at its position. */
static int apply(void *ctx, const struct log_record *r)
{
	struct member *m = ctx;

	if (r->position != m->next || atomic_body(r->position) != r->body)
		return -EBADMSG;
	m->next += r->length;
	return 0;
}

static void follow_from(struct member *m, uint64_t position)
{
	const struct follower_config config = { .position = position, .apply = apply, .ctx = m };

	m->next = position;
	assert_ok(follower_open(&m->follower, &config, &err));
}

static struct follower_state state_of(const struct member *m)
{
	struct follower_state s;

	follower_look(m->follower, &s);
	return s;
}

static bool step(struct member *m)
{
	const struct ring_receiver *r = backup_take(m->backup);
	bool more;
	int rc;

	if (r)
		assert_ok(follower_take(m->follower, &r->batch, r->copy, &err));
	rc = follower_apply(m->follower, 100000, &err);
	assert_true(rc >= 0);
	more = rc;
	backup_tell(m->backup, state_of(m).applied);
	return r || more;
}

static void *follow(void *arg)
{
	struct member *m = arg;

	while (!atomic_load(&m->stop))
		if (!step(m))
			time_sleep(100000);
	return NULL;
}

static void start_following(struct member *m)
{
	atomic_store(&m->stop, false);
	assert_ok(pthread_create(&m->thread, NULL, follow, m));
	m->runs = true;
}

static void stop_following(struct member *m)
{
	atomic_store(&m->stop, true);
	if (m->runs)
		pthread_join(m->thread, NULL);
	m->runs = false;
}

/* The ring's primary has no rights any more; what it had WRITTEN is held. */
static void revoke(struct member *m)
{
	stop_following(m);
	if (!m->backup)
		return;
	assert_ok(backup_revoke(m->backup, &err));
	while (step(m))
		;
	backup_close(m->backup);
	m->backup = NULL;
}

static void *write_on(void *arg)
{
	uint64_t random = (uintptr_t)arg;

	while (!atomic_load(&stop_writing)) {
		const uint32_t len = (uint32_t)(unit_random(&random) % (VALUE_BYTES / 2));
		const uint8_t *from = value + unit_random(&random) % (VALUE_BYTES / 4);
		const struct log_entry e = { .kind = LOG_PUT,
					     .version = 1,
					     .key = from,
					     .key_len = 8,
					     .value = from + 8,
					     .value_len = len,
					     .body = hash_bytes(from, 8 + (size_t)len) };
		struct log *l = atomic_load(&leading);
		struct log_place at;

		if (log_append_begin(l, 8, len, &at)) {
			time_sleep(100000);
			continue;
		}
		__atomic_store_n(&written[at.start / 8], e.body, __ATOMIC_RELEASE);
		log_append_end(l, &at, &e);
		log_kick(l);
		if (unit_random(&random) % 16 == 0)
			time_sleep(unit_random(&random) % NS_PER_MS);
	}
	return NULL;
}

/* Its log begins behind what it holds; nobody else is there yet. */
static void open_log(struct member *m)
{
	const struct follower_state s = state_of(m);
	struct log_config config = { .ring_bytes = 64u << 20,
				     .first = s.committed,
				     .tail = follower_rest(m->follower),
				     .tail_bytes = s.held - s.committed,
				     .clock_ms = clock_ms };

	assert_ok(mirror_open(&m->mirror, m->dev, ++term, s.held, &err));
	config.mirror = mirror_table(m->mirror);
	assert_ok(log_open(&m->log, &config, &err));
}

static void connect(struct member *primary, unsigned i)
{
	struct replica_ring_offer ring;
	struct replica_flow_offer flow;

	assert_ok(
		backup_open(&member[i].backup, member[i].dev, RING_BYTES, NULL, term, &ring, &err));
	assert_ok(mirror_add(primary->mirror, i, &ring, &flow, &err));
	assert_ok(backup_connect(member[i].backup, &flow, &err));
}

/* One in sync gets what the new primary has, and counts. */
static void bring(struct member *primary, unsigned i)
{
	connect(primary, i);
	mirror_must(primary->mirror, i, true);
	start_following(&member[i]);
	assert_ok(succession_bring(primary->mirror, i, primary->follower,
				   time_now_ns() + PATIENCE_NS, &err));
	assert_int_equal(mirror_begin(primary->mirror, i), state_of(primary).held);
}

/* One that was deposed comes back with nothing, and counts when it has all from some position on;
 * what lies below it would get by a walk. */
static void learn(struct member *primary, unsigned i)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;
	struct mirror_state s;
	uint64_t sent;

	connect(primary, i);
	follow_from(&member[i], mirror_begin(primary->mirror, i));
	start_following(&member[i]);
	mirror_must(primary->mirror, i, true);
	sent = mirror_sent(primary->mirror);
	do {
		assert_true(time_now_ns() < until_ns);
		time_sleep(200000);
		mirror_look(primary->mirror, i, &s);
		assert_false(s.failed);
	} while (s.held < sent);
}

/* All that must has it: all of it is committed, and it is open to writers. */
static void lead(struct member *m)
{
	int rc;

	follower_lead(m->follower);
	while ((rc = follower_apply(m->follower, UINT64_MAX, &err)) == 1)
		;
	assert_ok(rc);
	memset(&written[state_of(m).held / 8], 0,
	       (POSITIONS_MAX - state_of(m).held) / 8 * sizeof(*written));
	atomic_store(&leading, m->log);
}

/* It is dead: nothing waits for it. */
static void bury(struct member *m)
{
	for (unsigned i = 0; m->mirror && i < MEMBERS; i++) {
		mirror_cut(m->mirror, i);
		mirror_remove(m->mirror, i);
	}
	if (m->log)
		assert_ok(log_close(m->log));
	mirror_close(m->mirror);
	follower_close(m->follower);
	m->log = NULL;
	m->mirror = NULL;
	m->follower = NULL;
}

static void start_writers(pthread_t thread[WRITERS])
{
	atomic_store(&stop_writing, false);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_ok(pthread_create(&thread[i], NULL, write_on,
					 (void *)(uintptr_t)(1 + unit_below(1ull << 40))));
}

static void stop_writers(const pthread_t thread[WRITERS])
{
	atomic_store(&stop_writing, true);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
}

static void write_for_a_while(struct member *primary)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS, before = log_committed(primary->log);

	time_sleep(unit_below(10 * NS_PER_MS));
	while (log_committed(primary->log) == before) {
		assert_true(time_now_ns() < until_ns);
		time_sleep(NS_PER_MS);
	}
}

/* Member @c is cut off, and the primary writes on until @b holds more. */
static void cut_off(struct mirror *m, unsigned b, unsigned c)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;
	struct mirror_state has, lacks;

	mirror_cut(m, c);
	do {
		assert_true(time_now_ns() < until_ns);
		time_sleep(200000);
		mirror_look(m, b, &has);
		mirror_look(m, c, &lacks);
	} while (has.held <= lacks.held);
}

/*
 * Member @b takes over from @a while it is written on; @c may have been cut off before, and then
 * @b has what @c has not. Returns what was acknowledged.
 */
static uint64_t depose(unsigned a, unsigned b, unsigned c, const pthread_t thread[WRITERS])
{
	uint64_t acknowledged;

	if (unit_below(2))
		cut_off(member[a].mirror, b, c);
	revoke(&member[b]);
	time_sleep(unit_below(2 * NS_PER_MS)); /* it writes on, to whom it can */
	stop_writers(thread);
	acknowledged = log_committed(member[a].log);
	assert_true(state_of(&member[b]).held >= acknowledged);
	return acknowledged;
}

/* How far the first one that takes over comes before it dies as well. */
enum { LIVES, DIES_AT_ONCE, DIES_HALFWAY, DIES_AT_THE_END, WAYS };

static void a_round(unsigned a, unsigned b, unsigned c, unsigned way, pthread_t thread[WRITERS])
{
	struct member *first = &member[b], *second = &member[c];
	uint64_t acknowledged;

	start_writers(thread);
	write_for_a_while(&member[a]);
	acknowledged = depose(a, b, c, thread);
	if (way != DIES_AT_ONCE)
		open_log(first);
	if (way != LIVES && way != DIES_AT_ONCE) {
		revoke(second);
		bring(first, c);
		if (way == DIES_HALFWAY)
			stop_following(second);
	}
	if (way == LIVES) {
		revoke(second);
		bring(first, c);
		bury(&member[a]);
		lead(first);
		start_writers(thread);
		learn(first, a);
		write_for_a_while(first);
		stop_writers(thread);
		return;
	}
	revoke(second);
	assert_true(state_of(second).held >= acknowledged);
	bury(&member[a]);
	bury(first);
	open_log(second);
	lead(second);
	start_writers(thread);
	learn(second, a);
	learn(second, b);
	write_for_a_while(second);
	stop_writers(thread);
}

UNIT_TEST(one_after_the_other)
{
	pthread_t thread[WRITERS];
	unsigned primary = 0;

	for (unsigned i = 0; i < VALUE_BYTES; i++)
		value[i] = (uint8_t)unit_below(256);
	follow_from(&member[0], 0);
	open_log(&member[0]);
	lead(&member[0]);
	learn(&member[0], 1);
	learn(&member[0], 2);
	for (unsigned i = 0; i < ROUNDS; i++) {
		const unsigned b = (primary + 1 + (unsigned)unit_below(2)) % MEMBERS;
		const unsigned c = MEMBERS - primary - b, way = i % WAYS;

		a_round(primary, b, c, way, thread);
		primary = way == LIVES ? b : c;
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i != primary)
			revoke(&member[i]);
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		bury(&member[i]);
}
