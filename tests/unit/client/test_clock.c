/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The estimate of the server's clock, from samples made by hand. The client's own is the test's. */
#include <errno.h>
#include <stdio.h>

#include "client/src/link/clock.h"
#include "tests/lib/fake_clock.h"
#include "tests/lib/unit.h"
#include "fake_handle.h"

#define WALL	1700000000000ull /* what the server's clock said */
#define FRESH	(CLOCK_FRESH_MS * NS_PER_MS)
#define RUNS_MS 3600000u

static struct fake *f;
static struct gkv h;

static int set_up(void **state)
{
	fake_clock_begin(true);
	f = fake_create(0);
	fake_handle_begin(&h, f);
	h.reader.ctx = &h;
	return 0;
}

/* READs go to the fake, whoever asks. */
static int read_root(void *ctx, const struct read_op *ops, unsigned count)
{
	return f->reader.ops->read(f, ops, count);
}

static const struct reader_ops ops = { .read = read_root, .clock_ms = clock_estimate };

static int tear_down(void **state)
{
	h.reader.ctx = f;
	h.reader.ops = f->reader.ops;
	fake_handle_end(&h, f);
	fake_destroy(f);
	fake_clock_end();
	return 0;
}

/* The estimate is @clock_ms of @posted_ns, gone on since then. */
static void expect(uint64_t clock_ms, uint64_t posted_ns)
{
	h.reader.ops = &ops;
	assert_int_equal(clock_estimate(&h), clock_ms + (time_now_ns() - posted_ns) / NS_PER_MS);
}

UNIT_TEST(test_a_sample_goes_on_from_its_posting, set_up, tear_down)
{
	uint64_t now_ns = time_now_ns();

	clock_root(h.reader.world, WALL, now_ns - 300 * NS_PER_MS);
	expect(WALL, now_ns - 300 * NS_PER_MS);
	clock_reply(&h, WALL + 1000, now_ns - 200 * NS_PER_MS);
	expect(WALL + 1000, now_ns - 200 * NS_PER_MS);
	assert_int_equal(f->chains, 0);
}

UNIT_TEST(test_the_newer_sample_counts, set_up, tear_down)
{
	uint64_t now_ns = time_now_ns();

	clock_reply(&h, WALL, now_ns - 400 * NS_PER_MS);
	clock_root(h.reader.world, WALL + 5000, now_ns - 300 * NS_PER_MS); /* set forward */
	expect(WALL + 5000, now_ns - 300 * NS_PER_MS);
	clock_reply(&h, WALL + 90000, now_ns - 500 * NS_PER_MS); /* of a call that timed out */
	expect(WALL + 5000, now_ns - 300 * NS_PER_MS);
	clock_reply(&h, WALL - 5000, now_ns - 100 * NS_PER_MS); /* set back */
	expect(WALL - 5000, now_ns - 100 * NS_PER_MS);
	clock_reply(&h, WALL + 90000, now_ns - 350 * NS_PER_MS); /* late as well */
	clock_reply(&h, 0, now_ns); /* nothing */
	clock_root(h.reader.world, 0, now_ns);
	expect(WALL - 5000, now_ns - 100 * NS_PER_MS);
}

/* A root's word is late by as much as CLOCK_PERIOD_MS. What the server has said is over does not
 * come back by it, however long the reply took; and the estimate is not above what was said. */
UNIT_TEST(test_a_late_sample_does_not_put_it_back, set_up, tear_down)
{
	uint64_t now_ns = time_now_ns();

	h.reader.ops = &ops;
	clock_reply(&h, WALL, now_ns - 400 * NS_PER_MS);
	expect(WALL, now_ns - 400 * NS_PER_MS);
	clock_root(h.reader.world, WALL - CLOCK_PERIOD_MS, now_ns);
	assert_int_equal(clock_estimate(&h), WALL);
	fake_clock_ahead(CLOCK_PERIOD_MS + 10);
	expect(WALL - CLOCK_PERIOD_MS, now_ns);
	/* set back by more than that, it is followed */
	clock_root(h.reader.world, WALL - 2 * GKV_EXPIRY_LATE_MS, time_now_ns());
	expect(WALL - 2 * GKV_EXPIRY_LATE_MS, time_now_ns());
}

/* A server that is stopped does not write its clock, and its records expire all the same. */
UNIT_TEST(test_a_word_that_stands_still_is_no_sample, set_up, tear_down)
{
	uint64_t now_ns = time_now_ns();

	for (unsigned i = 0; i < 100; i++)
		clock_root(h.reader.world, WALL, now_ns - 4000 * NS_PER_MS + i * 10 * NS_PER_MS);
	expect(WALL, now_ns - 4000 * NS_PER_MS);
	assert_int_equal(f->chains, 0);
	/* also where the handle itself READs it */
	f->root->clock_ms = WALL;
	h.reader.world->clock_at_ns = now_ns - FRESH - NS_PER_MS;
	expect(WALL, now_ns - 4000 * NS_PER_MS);
	assert_int_equal(f->chains, 1);
}

UNIT_TEST(test_the_root_is_read_where_no_sample_is_fresh, set_up, tear_down)
{
	uint64_t now_ns = time_now_ns();

	f->root->clock_ms = WALL;
	expect(WALL, now_ns); /* the first one */
	assert_int_equal(f->chains, 1);
	for (unsigned i = 0; i < 100; i++)
		expect(WALL, h.reader.world->clock_at_ns);
	assert_int_equal(f->chains, 1);
	assert_int_equal(h.reader.stats.reads, 1);
	fake_clock_ahead(CLOCK_FRESH_MS - 1);
	f->root->clock_ms = WALL + RUNS_MS;
	expect(WALL, now_ns);
	assert_int_equal(f->chains, 1);
	fake_clock_ahead(1);
	expect(WALL + RUNS_MS, time_now_ns());
	assert_int_equal(f->chains, 2);
	/* a fresh reply is enough */
	fake_clock_ahead(CLOCK_FRESH_MS);
	clock_reply(&h, WALL, time_now_ns());
	expect(WALL, time_now_ns());
	assert_int_equal(f->chains, 2);
}

UNIT_TEST(test_what_is_not_known_is_said, set_up, tear_down)
{
	h.reader.ops = &ops;
	assert_int_equal(clock_estimate(&h), 0); /* a root without a clock */
	f->fail_at_chain = (int)f->chains;
	f->root->clock_ms = WALL;
	assert_int_equal(clock_estimate(&h), 0);
	assert_true(clock_estimate(&h) >= WALL);
}

/* The public call: the same estimate, in a section of its own, which is closed again. */
UNIT_TEST(test_the_call_tells_the_estimate, set_up, tear_down)
{
	uint64_t ms = 0;

	h.reader.ops = &ops;
	f->root->clock_ms = WALL;
	assert_int_equal(gkv_clock(&h, &ms), 0);
	assert_int_equal(f->chains, 1);
	assert_int_equal(ms, WALL);
	fake_clock_ahead(1);
	clock_reply(&h, WALL + RUNS_MS, time_now_ns());
	assert_int_equal(gkv_clock(&h, &ms), 0);
	assert_int_equal(f->chains, 1);
	assert_int_equal(ms, WALL + RUNS_MS);
	assert_int_equal(h.sections, 0);
	assert_int_equal(gkv_clock(&h, NULL), -EINVAL);
}
