/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What expires, against a running kv-server: what a client knows of its clock, and when. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/clock.h"
#include "client/src/link/handle.h"
#include "client/src/call/scan.h"
#include "tests/lib/unit.h"
#include "one_client.h"
#include "with_server.h"

#define WAIT_NS	   (20 * NS_PER_S) /* for what takes milliseconds where the machine is idle */
#define HOUR_MS	   3600000u
#define LONG_MS	   GKV_TTL_MAX
#define TTL_MS	   300u
#define BRIEF_MS   5000u
#define SOON_MS	   2000u /* a call ends then */
#define TRIES	   60u
#define AWAY_MS	   20u
#define CUTS	   200u
#define NUMBER_MAX 3000u /* some 50 in a segment */
#define BUFFERED   10u

static struct gkv *other;

static int open_session(unsigned housekeeper)
{
	struct gkv_options o = patient();

	o.housekeeper = housekeeper;
	return one_client("64M", o) || server_handle(session, &other);
}

static int set_up(void **state)
{
	return open_session(GKV_HOUSEKEEPER_THREAD);
}

static int set_up_ticks(void **state)
{
	return open_session(GKV_HOUSEKEEPER_TICK);
}

static int tear_down_both(void **state)
{
	gkv_close(other);
	return tear_down(state);
}

static uint64_t put(struct gkv *h, const char *key, uint64_t ttl_ms)
{
	const struct gkv_write_options options = { .ttl_ms = ttl_ms };
	struct gkv_meta meta;

	assert_int_equal(gkv_put_with(h, key, strlen(key), "value", 5, &options, &meta), 0);
	return meta.expiry_ms;
}

/* The server's clock, by a reply to another handle: in ms that have begun. */
static uint64_t server_ms(void)
{
	return put(other, "clock", LONG_MS) - LONG_MS;
}

static int get(struct gkv *h, const char *key)
{
	char value[8];

	return gkv_get(h, key, strlen(key), value, sizeof(value), NULL);
}

/* The server's clock is this machine's: neither before a time to live is over, nor a ms later. */
UNIT_TEST(test_a_time_to_live_is_never_cut_short, set_up, tear_down_both)
{
	for (unsigned i = 0; i < CUTS; i++) {
		uint64_t first = time_wall_ns() + HOUR_MS * NS_PER_MS, expiry_ms, last;
		struct gkv_meta meta;

		if (i % 2) {
			assert_int_equal(gkv_touch(kv, "k", 1, HOUR_MS, &meta), 0);
			expiry_ms = meta.expiry_ms;
		} else {
			expiry_ms = put(kv, "k", HOUR_MS);
		}
		last = time_wall_ns() + HOUR_MS * NS_PER_MS;
		assert_true(expiry_ms * NS_PER_MS >= first);
		assert_true((expiry_ms - 1) * NS_PER_MS < last);
	}
}

UNIT_TEST(test_the_housekeeper_takes_samples, set_up, tear_down_both)
{
	struct world *w = kv->reader.world;
	uint64_t reads, at_ns, until_ns = time_now_ns() + WAIT_NS;

	put(kv, "k", HOUR_MS);
	assert_int_equal(get(kv, "k"), 0); /* a hint is remembered */
	at_ns = atomic_load(&w->clock_at_ns);
	while (atomic_load(&w->clock_at_ns) == at_ns && time_now_ns() < until_ns)
		usleep(1000); /* nobody calls */
	assert_true(atomic_load(&w->clock_at_ns) > at_ns);
	reads = kv->reader.stats.reads;
	for (unsigned i = 0; i < 1000; i++) {
		kv->call.clock_at_ns = 1; /* nothing of its own that is fresh */
		assert_int_equal(get(kv, "k"), 0);
	}
	assert_in_range(kv->reader.stats.reads - reads, 1000, 1100); /* hints may be dropped */
	assert_int_equal(kv->reader.stats.rpc_fallbacks, 0);
}

/* Nobody ticks: a handle READs the root itself, once in a while. */
UNIT_TEST(test_without_ticks_the_handle_reads_the_root, set_up_ticks, tear_down_both)
{
	struct world *w = kv->reader.world;
	uint64_t reads, first;

	put(kv, "k", HOUR_MS);
	assert_int_equal(get(kv, "k"), 0);
	kv->call.clock_at_ns = 0;
	atomic_store(&w->clock_at_ns, 0);
	atomic_store(&w->clock_ms, 0);
	reads = kv->reader.stats.reads;
	assert_int_equal(get(kv, "k"), 0);
	first = kv->reader.stats.reads - reads;
	assert_true(atomic_load(&w->clock_at_ns) > 0);
	assert_int_equal(get(kv, "k"), 0);
	if (kv->reader.stats.reconnects == 0) /* else it took a lease to come here */
		assert_int_equal(kv->reader.stats.reads - reads, 2 * first - 1);
	assert_int_equal(kv->reader.stats.rpc_fallbacks, 0);
}

/* What the old life's clock said would send each get to the server. */
UNIT_TEST(test_another_life_has_another_clock, set_up, tear_down_both)
{
	uint64_t asked;

	put(kv, "k", HOUR_MS);
	clock_root(kv->reader.world, server_ms() + 10 * HOUR_MS, time_now_ns() + WAIT_NS);
	clock_reply(kv, server_ms() + 10 * HOUR_MS, time_now_ns() + WAIT_NS);
	asked = kv->reader.stats.rpc_fallbacks;
	assert_int_equal(get(kv, "k"), 0);
	assert_int_equal(kv->reader.stats.rpc_fallbacks, asked + 1); /* it decides */
	server_stop(server, SIGKILL);
	server = server_start(&port, "64M");
	assert_int_equal(get(kv, "none"), -ENOENT); /* connects, and gets no reply */
	put(other, "k", HOUR_MS);
	assert_int_equal(get(kv, "k"), 0);
	assert_int_equal(kv->reader.stats.rpc_fallbacks, asked + 1);
}

/* As if nobody had heard of the server for long. */
static void forget(struct gkv *h)
{
	h->call.clock_at_ns = 0;
	atomic_store(&h->reader.world->clock_at_ns, 0);
	atomic_store(&h->reader.world->clock_ms, 0);
}

/* What gkv_clock() says is right, but for a thread of the server or of ours that does not run. */
static void clock_is_right(struct gkv *h)
{
	uint64_t before_ms = server_ms(), ms = 0;

	assert_int_equal(gkv_clock(h, &ms), 0);
	assert_in_range(ms, before_ms - WAIT_NS / NS_PER_MS, server_ms() + WAIT_NS / NS_PER_MS);
	assert_int_equal(h->sections, 0);
}

UNIT_TEST(test_the_clock_is_read_where_nothing_is_known, set_up_ticks, tear_down_both)
{
	uint64_t reads = kv->reader.stats.reads, set_ms = server_ms() + 10 * HOUR_MS, ms;

	forget(kv);
	clock_is_right(kv);
	if (kv->reader.stats.reconnects == 0)
		assert_int_equal(kv->reader.stats.reads, reads + 1);
	assert_int_equal(kv->call.clock_at_ns, 0); /* no reply: it was one-sided */
	reads = kv->reader.stats.reads;
	clock_reply(kv, set_ms, time_now_ns()); /* told that it was set */
	assert_int_equal(gkv_clock(kv, &ms), 0);
	assert_in_range(ms, set_ms, set_ms + HOUR_MS);
	assert_int_equal(kv->reader.stats.reads, reads);
	channel_fail(kv, "it is lost");
	assert_int_equal(gkv_clock(kv, &ms), 0);
	assert_true(kv->link.live); /* as any call: not by what is known alone */
	channel_fail(kv, "it is lost");
	forget(kv);
	clock_is_right(kv);
	assert_true(kv->link.live);
}

static unsigned unknown; /* times that the root tells nothing */

static uint64_t no_clock(void *ctx)
{
	if (!unknown)
		return clock_estimate(ctx);
	unknown--;
	return 0;
}

UNIT_TEST(test_the_clock_is_asked_for_where_the_root_says_nothing, set_up, tear_down_both)
{
	const struct reader_ops *ops = kv->reader.ops;
	struct reader_ops mute = *ops;
	uint64_t ms = 7;

	mute.clock_ms = no_clock;
	kv->reader.ops = &mute;
	forget(kv);
	unknown = 1;
	clock_is_right(kv);
	assert_true(kv->call.clock_at_ns > 0); /* by a reply */
	unknown = UINT32_MAX;
	kv->session->settings.timeout_ms = SOON_MS;
	assert_int_equal(gkv_clock(kv, &ms), -ETIMEDOUT);
	assert_non_null(strstr(gkv_error(kv), "2000 ms"));
	assert_int_equal(ms, 7);
	kv->reader.ops = ops;
}

/* How old the root's word is, in ms by the server's clock. */
static uint64_t word_age(uint64_t now_ms)
{
	struct reader *r = &other->reader;
	const struct world *w = r->world;
	struct read_op op = reader_scratch_op(r, 0, w->root_addr + offsetof(struct root, clock_ms),
					      w->root_rkey, sizeof(uint64_t));
	uint64_t word;

	section_open(other, SECTION_CALL);
	assert_int_equal(r->ops->read(r->ctx, &op, 1), 0);
	section_close(other, SECTION_CALL);
	word = *(const uint64_t *)r->scratch;
	return word < now_ms ? now_ms - word : 0;
}

/*
 * One record, got until it is gone. Returns how late it was got last, by the server's clock before
 * the get; -1: the server's clock thread, or this one, did not run when it should have.
 */
static int64_t live_and_expire(void)
{
	uint64_t expiry_ms = put(other, "brief", TTL_MS), before_ms, last_ms = server_ms();
	int64_t late = 0;
	bool well = true;
	int rc;

	do {
		before_ms = server_ms();
		well = well && before_ms - last_ms <= AWAY_MS &&
		       word_age(before_ms) <= CLOCK_PERIOD_MS;
		last_ms = before_ms;
		rc = get(kv, "brief");
		assert_true(rc == 0 || rc == -ENOENT);
		if (rc == 0 && before_ms > expiry_ms)
			late = (int64_t)(before_ms - expiry_ms);
		if (rc) /* not missed before its time */
			assert_true(server_ms() >= expiry_ms);
	} while (rc == 0);
	return well ? late : -1;
}

UNIT_TEST(test_no_later_than_the_bound, set_up, tear_down_both)
{
	unsigned well = 0;

	for (unsigned i = 0; i < TRIES && well < 3; i++) {
		int64_t late = live_and_expire();

		if (late < 0)
			continue;
		assert_in_range(late, 0, GKV_EXPIRY_LATE_MS);
		well++;
	}
	if (!well) {
		print_message("skipped: the machine is too busy to say\n");
		skip();
	}
	assert_true(kv->reader.stats.hits > 0);
}

/* Records lie in a scan's memory until they are asked for, and their time comes there. */
UNIT_TEST(test_a_scan_hands_out_nothing_that_has_expired, set_up, tear_down_both)
{
	unsigned seen = 0, brief = 0;
	uint64_t last_ms;
	struct gkv_record rec;
	struct gkv_cursor *s;
	char key[24];

	for (unsigned i = 0; i < NUMBER_MAX; i++) {
		snprintf(key, sizeof(key), "%s %u", i % 2 ? "long" : "brief", i);
		put(other, key, i % 2 ? LONG_MS : BRIEF_MS);
	}
	last_ms = put(other, "brief last", BRIEF_MS);
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	do {
		assert_int_equal(gkv_scan_next(s, &rec, 1), 1);
		assert_int_equal(rec.meta.value_len, 5);
		assert_true(rec.meta.version > 0 && rec.meta.expiry_ms > 0);
		seen += memcmp(rec.key, "long", 4) == 0;
	} while (s->count - s->next < BUFFERED);
	while (server_ms() < last_ms + GKV_EXPIRY_LATE_MS)
		usleep(10000);
	while (gkv_scan_next(s, &rec, 1) == 1) {
		seen += memcmp(rec.key, "long", 4) == 0;
		brief += memcmp(rec.key, "brief", 5) == 0;
	}
	gkv_scan_close(s);
	assert_int_equal(brief, 0);
	assert_int_equal(seen, NUMBER_MAX / 2);
}

/* The server decides: what only seems to have expired is handed out, once, and without an end. */
UNIT_TEST(test_a_scan_beside_a_clock_that_was_set_back, set_up, tear_down_both)
{
	unsigned seen = 0;
	struct gkv_record rec;
	struct gkv_cursor *s;
	char key[24];

	for (unsigned i = 0; i < NUMBER_MAX; i++) {
		snprintf(key, sizeof(key), "key %u", i);
		put(other, key, HOUR_MS);
	}
	assert_int_equal(gkv_scan_open(kv, NULL, &s), 0);
	do {
		assert_int_equal(gkv_scan_next(s, &rec, 1), 1);
		seen += memcmp(rec.key, "key", 3) == 0;
	} while (s->count - s->next < BUFFERED);
	clock_reply(kv, server_ms() + 2 * HOUR_MS, time_now_ns() + HOUR_MS * NS_PER_MS);
	while (gkv_scan_next(s, &rec, 1) == 1)
		seen += memcmp(rec.key, "key", 3) == 0;
	assert_int_equal(seen, NUMBER_MAX);
	assert_true(kv->reader.stats.rpc_fallbacks > 0);
	gkv_scan_close(s);
}
