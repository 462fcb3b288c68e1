/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A primary and a backup, each with its thread of leases, and pulses on soft0 between them. Both
 * read one clock, which the test may set forward; what is shown holds however late a thread runs.
 */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/layout/lease_word.h"
#include "common/rdma/device.h"
#include "server/member/beat.h"
#include "tests/lib/unit.h"

#define LENGTH_NS   (100 * NS_PER_MS)
#define PATIENCE_NS (60 * NS_PER_S)
#define ROUNDS	    5u
#define LOOKS	    3 /* at the clock, in a round of one that is alone, and more */

static const struct lease_terms terms = { LENGTH_NS, 10000 };
static struct error err;
static struct rdma_device *dev;

/* A server, as far as leases go. */
struct server {
	struct beat *beat;
	struct pulse *pulse;
	_Atomic uint64_t until, clock;
	int wake_fd;
};

static struct server primary, backup;

/* The clock: real time, and what was added. */
static _Atomic uint64_t ahead_ns;
static _Atomic int jump_in; /* so many looks, then it is set forward */
static _Atomic uint64_t counted_ns; /* when peer 0 was made to count */

static int read_clock(clockid_t clock, struct timespec *now)
{
	uint64_t ns;

	clock_gettime(clock, now);
	ns = (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec;
	if (clock == CLOCK_BOOTTIME) {
		if (atomic_load(&jump_in) && atomic_fetch_sub(&jump_in, 1) == 1) {
			beat_count(primary.beat, 0, true);
			atomic_store(&counted_ns, ns + atomic_load(&ahead_ns));
			atomic_fetch_add(&ahead_ns, 10 * LENGTH_NS);
		}
		ns += atomic_load(&ahead_ns);
	}
	*now = (struct timespec){ (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };
	return 0;
}

static int open_device(void **state)
{
	struct rdma_options o = rdma_options_default();

	(void)state;
	time_table.read = read_clock;
	o.device = "soft0";
	assert_ok(rdma_device_open(&dev, &o, NULL, &err));
	return 0;
}

static int close_device(void **state)
{
	(void)state;
	rdma_device_close(dev);
	return 0;
}

UNIT_GROUP(open_device, close_device);

static uint64_t now_ns(void)
{
	return time_read_ns(CLOCK_BOOTTIME);
}

static void start(struct server *s)
{
	struct beat_config c = { terms, &s->until, &s->clock, -1 };

	s->wake_fd = c.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	atomic_store(&s->until, 0);
	atomic_store(&s->clock, 0);
	assert_ok(beat_start(&s->beat, &c, &err));
}

static int start_both(void **state)
{
	struct replica_pulse_offer ours, theirs;

	(void)state;
	start(&primary);
	start(&backup);
	assert_ok(pulse_open(&primary.pulse, dev, &ours, &err));
	assert_ok(pulse_open(&backup.pulse, dev, &theirs, &err));
	assert_ok(pulse_connect(primary.pulse, &theirs, &err));
	assert_ok(pulse_connect(backup.pulse, &ours, &err));
	return 0;
}

static int start_primary(void **state)
{
	(void)state;
	start(&primary);
	return 0;
}

static void end(struct server *s)
{
	if (s->beat)
		close(s->wake_fd);
	beat_stop(s->beat);
	pulse_close(s->pulse);
	*s = (struct server){ 0 };
}

static int end_both(void **state)
{
	(void)state;
	end(&primary);
	end(&backup);
	return 0;
}

static uint64_t until_ns(void)
{
	return atomic_load(&primary.until) * 1000;
}

/* So many rounds of the primary from now on. */
static void await_rounds(unsigned rounds)
{
	const uint16_t from = lease_clock_count(atomic_load(&primary.clock));
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;

	while ((uint16_t)(lease_clock_count(atomic_load(&primary.clock)) - from) < rounds) {
		assert_true(time_now_ns() < end_ns);
		time_sleep(NS_PER_MS);
	}
}

/* The primary may answer until later than @ns. */
static void await_lease(uint64_t ns)
{
	const uint64_t end_ns = time_now_ns() + PATIENCE_NS;

	while (until_ns() <= ns) {
		assert_true(time_now_ns() < end_ns);
		time_sleep(NS_PER_MS);
	}
}

static void await_over(uint64_t term)
{
	struct pollfd woken = { .fd = backup.wake_fd, .events = POLLIN };

	assert_int_equal(poll(&woken, 1, (int)(PATIENCE_NS / NS_PER_MS)), 1);
	assert_true(beat_is_over(backup.beat, term));
}

/* Peer 0 is the backup, and the primary's lease begins. */
static void lead_with_backup(void)
{
	assert_ok(beat_follow(backup.beat, 1, backup.pulse));
	beat_count(primary.beat, 0, true);
	assert_ok(beat_peer(primary.beat, 0, primary.pulse));
	beat_lead(primary.beat);
	await_lease(now_ns());
}

UNIT_TEST(a_primary_alone_relies_on_itself, start_both, end_both)
{
	uint64_t before;

	beat_lead(primary.beat);
	await_rounds(1);
	for (unsigned i = 0; i < ROUNDS; i++) {
		before = until_ns();
		await_rounds(2);
		assert_true(until_ns() > before);
		assert_true(until_ns() <= now_ns() + LENGTH_NS);
	}
	beat_rest(primary.beat);
	before = until_ns();
	time_sleep(LENGTH_NS);
	assert_int_equal(until_ns(), before);
}

/* It may answer for no longer than the backup has granted, and that one keeps its word. */
UNIT_TEST(a_backup_takes_over_when_nobody_answers_any_more, start_both, end_both)
{
	lead_with_backup();
	for (unsigned i = 0; i < ROUNDS; i++) {
		assert_true(until_ns() <= now_ns() + LENGTH_NS);
		await_lease(until_ns());
	}
	if (now_ns() + LENGTH_NS / 2 < until_ns()) /* else the machine is too slow to tell */
		assert_false(beat_revoke(backup.beat, 1));
	assert_ok(beat_peer(primary.beat, 0, NULL)); /* it counts, and hears no beat */
	await_over(1);
	assert_true(until_ns() < now_ns());
	assert_false(beat_revoke(backup.beat, 2));
	assert_true(beat_revoke(backup.beat, 1));
	await_rounds(ROUNDS);
	assert_true(until_ns() < now_ns());
}

/* After that it answers nothing of the term, whatever comes. */
UNIT_TEST(beats_of_one_that_was_deposed, start_both, end_both)
{
	uint64_t heard;

	lead_with_backup();
	beat_rest(primary.beat);
	await_over(1);
	assert_true(beat_revoke(backup.beat, 1));
	heard = pulse_heard(primary.pulse);
	beat_lead(primary.beat);
	await_rounds(ROUNDS);
	time_sleep(LENGTH_NS);
	assert_int_equal(pulse_heard(primary.pulse), heard);
	assert_true(until_ns() < now_ns());
	/* It learns that the other one is primary all the same: a promise begins. */
	assert_ok(beat_follow(backup.beat, 2, backup.pulse));
	await_lease(now_ns());
}

/* One that comes to count while the thread is between its looks at the clock and at the peers. */
UNIT_TEST(one_that_counts_at_the_worst_moment, start_primary, end_both)
{
	beat_lead(primary.beat);
	await_rounds(1);
	for (int look = 1; look <= LOOKS; look++) {
		beat_count(primary.beat, 0, false);
		await_rounds(2); /* it sleeps, and begins another one */
		atomic_store(&jump_in, look);
		await_rounds(2);
		assert_int_equal(atomic_load(&jump_in), 0);
		assert_true(until_ns() <= atomic_load(&counted_ns) + LENGTH_NS);
	}
}
