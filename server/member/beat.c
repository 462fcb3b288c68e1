/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Rounds. The thread makes sixteen in the length of a promise, but at least one each 100 ms, as two
 * have to pass before a reader knows the clock; at most one each millisecond; and one when it is
 * woken. It makes one each millisecond while a new primary may not answer yet, or a backup has had
 * no beat of a new one yet, for two promises at most: clients wait for both. It takes no lock and
 * calls no verb but posting and polling, so nothing but the scheduler keeps it from the next round;
 * and a round that comes late makes a lease shorter, never longer (lease.c).
 *
 * WHAT IT SHARES with the group's thread are words. That one writes who leads, which pulses there
 * are and which peers count; this one writes the count of its rounds, at the beginning of each.
 * All of these are seq_cst. So if the group's thread writes a word, then reads the count, and later
 * finds another count, the round under way began after the write and goes by it, and so will each
 * one after it. That is how a pulse is taken back before it is closed, and how an order is known to
 * be obeyed, while this thread waits for nobody.
 *
 * THE CLOCK IS READ BEFORE IT IS LOOKED WHO COUNTS. A peer counts before the transaction is sent
 * that could put it in sync, and its promise begins when it learns of that. So whoever did not
 * count at the look is bound until after the look plus the length, which is after the clock that
 * was read plus the length. The other way round, the thread could be stopped after the look, for
 * longer than any promise, and then take a time for granted that nobody has granted.
 *
 * THE CLOCK WORD is stored before the clock is read for the next one, with a full fence in between
 * (lease_word.h, client/src/know/fresh.c).
 *
 * AN ANSWER THAT IS OWED may go out late, even after the promise: it says what was promised when
 * its beat was seen, and that is kept.
 *
 * A NUMBER OF A BEAT IS NOTED ONCE, when its pulse can send it: the note of another clock under
 * the same place could make an older answer look newer.
 */
#include "server/member/beat.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "common/layout/lease_word.h"

#define ROUNDS	      16u /* in the length of a promise */
#define HURRY	      2u /* promises */
#define PERIOD_MIN_NS NS_PER_MS
#define PERIOD_MAX_NS (100 * NS_PER_MS)
#define LOOK_NS	      (200 * 1000ull) /* between two looks whether a round has come */

/* Of a pulse: what is known by it. The thread's while it is in place. */
struct end {
	struct pulse *pulse;
	struct lease_grant grant; /* of a peer */
	uint64_t owed; /* to the primary: the beat that is to be answered; 0: none */
	bool heard; /* of a primary: a beat */
};

enum verdict { PENDING, REVOKED, GOES_ON };

struct beat {
	struct beat_config config;
	pthread_t thread;
	int fd; /* eventfd: a round at once */
	/* The group's thread writes them. */
	_Atomic bool stop, leads;
	_Atomic unsigned counted; /* bits: peers */
	_Atomic(struct end *) peer[LEASE_PEERS_MAX];
	_Atomic(struct end *) primary;
	_Atomic uint64_t learned; /* term */
	_Atomic uint64_t revoke; /* term to be taken over from; 0: none */
	_Atomic uint64_t began_ns; /* to lead, or to follow another one */
	/* The thread writes them. */
	_Atomic uint64_t round;
	_Atomic uint64_t granted[LEASE_PEERS_MAX];
	_Atomic uint64_t over; /* term of the promise that is over; 0: none is */
	_Atomic int verdict; /* on `revoke`; PENDING is written by the other one */
	/* The thread's. */
	struct lease_promise promise;
	uint64_t until_us;
	uint16_t count;
};

static uint64_t clock_ns(void)
{
	return time_read_ns(CLOCK_BOOTTIME);
}

static void beat_one(struct end *e)
{
	if (pulse_may_say(e->pulse))
		pulse_say(e->pulse, lease_note(&e->grant, clock_ns()));
}

/* Beats and answers; who counts, and has granted how much. */
static unsigned take_grants(struct beat *b, struct lease_grant grants[LEASE_PEERS_MAX])
{
	const unsigned counted = atomic_load(&b->counted);

	for (unsigned i = 0; i < LEASE_PEERS_MAX; i++) {
		struct end *e = atomic_load(&b->peer[i]);

		grants[i] = (struct lease_grant){ 0 };
		if (e) {
			lease_answer(&e->grant, &b->config.terms, pulse_heard(e->pulse));
			beat_one(e);
			grants[i] = e->grant;
		}
		atomic_store(&b->granted[i], grants[i].until_ns);
	}
	return counted;
}

static void renew(struct beat *b)
{
	struct lease_grant grants[LEASE_PEERS_MAX];
	uint64_t now_ns = clock_ns(), until_us;
	unsigned counted = take_grants(b, grants);

	if (MUTANT(beat_counts_first))
		now_ns = clock_ns();
	until_us = lease_until(grants, counted, &b->config.terms, now_ns) / 1000;
	if (until_us > b->until_us)
		b->until_us = until_us;
	/* release: a READ that finds the clock of this round finds this `until`, or a later one */
	atomic_store_explicit(b->config.until, b->until_us, memory_order_release);
	atomic_store_explicit(b->config.clock, lease_clock(++b->count, clock_ns()),
			      memory_order_release);
	atomic_thread_fence(memory_order_seq_cst); /* before the next look at the clock */
}

/* Beats that have come. */
static void take_beats(struct beat *b, struct end *e)
{
	const uint64_t n = pulse_heard(e->pulse);

	if (n && lease_beat(&b->promise, b->promise.term, n, clock_ns()))
		e->owed = n;
	e->heard |= n;
	if (e->owed && pulse_say(e->pulse, e->owed))
		e->owed = 0;
}

/* Whether it takes over, where it is asked to. */
static void judge(struct beat *b, bool over)
{
	const uint64_t term = atomic_load(&b->revoke);

	if (!term || atomic_load(&b->verdict) != PENDING)
		return;
	if (over && term == b->promise.term)
		lease_revoke(&b->promise);
	atomic_store(&b->verdict, over && term == b->promise.term ? REVOKED : GOES_ON);
}

static void keep_promise(struct beat *b)
{
	struct end *e = atomic_load(&b->primary);
	uint64_t term = atomic_load(&b->learned);
	bool over;

	lease_learn(&b->promise, term, clock_ns());
	if (e)
		take_beats(b, e);
	over = lease_is_over(&b->promise, clock_ns());
	judge(b, over);
	term = over ? b->promise.term : 0;
	if (atomic_exchange(&b->over, term) != term && term)
		eventfd_write(b->config.wake_fd, 1);
}

static bool hurries(struct beat *b)
{
	const struct end *e = atomic_load(&b->primary);

	if (clock_ns() >= atomic_load(&b->began_ns) + HURRY * b->config.terms.length_ns)
		return false;
	return atomic_load(&b->leads) ? b->until_us * 1000 <= clock_ns() : e && !e->heard;
}

static uint64_t period_ns(struct beat *b)
{
	const uint64_t ns = b->config.terms.length_ns / ROUNDS;

	if (ns < PERIOD_MIN_NS || hurries(b))
		return PERIOD_MIN_NS;
	return ns > PERIOD_MAX_NS ? PERIOD_MAX_NS : ns;
}

static void *run(void *arg)
{
	struct beat *b = arg;
	struct pollfd woken = { .fd = b->fd, .events = POLLIN };
	eventfd_t times;

	while (!atomic_load(&b->stop)) {
		atomic_fetch_add(&b->round, 1);
		if (atomic_load(&b->leads))
			renew(b);
		else
			keep_promise(b);
		if (poll(&woken, 1, (int)(period_ns(b) / NS_PER_MS)) > 0)
			eventfd_read(b->fd, &times);
	}
	return NULL;
}

int beat_start(struct beat **out, const struct beat_config *config, struct error *err)
{
	struct beat *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return error_set(err, -ENOMEM, "there is no memory for leases");
	b->config = *config;
	b->promise.terms = config->terms;
	b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = b->fd < 0 ? -errno : -pthread_create(&b->thread, NULL, run, b);
	if (rc) {
		if (b->fd >= 0)
			close(b->fd);
		free(b);
		return error_set(err, rc,
				 "starting the thread of leases failed: %s (raise the limit of "
				 "threads or of open files)",
				 error_name(rc));
	}
	pthread_setname_np(b->thread, "gkv-beat");
	*out = b;
	return 0;
}

void beat_stop(struct beat *b)
{
	if (!b)
		return;
	atomic_store(&b->stop, true);
	eventfd_write(b->fd, 1);
	pthread_join(b->thread, NULL);
	for (unsigned i = 0; i < LEASE_PEERS_MAX; i++)
		free(atomic_load(&b->peer[i]));
	free(atomic_load(&b->primary));
	close(b->fd);
	free(b);
}

/* The thread goes by what was written before. */
static void await_round(struct beat *b)
{
	const uint64_t round = atomic_load(&b->round);

	eventfd_write(b->fd, 1);
	while (atomic_load(&b->round) == round)
		time_sleep(LOOK_NS);
}

void beat_lead(struct beat *b)
{
	atomic_store(&b->began_ns, clock_ns());
	atomic_store(&b->leads, true);
	eventfd_write(b->fd, 1);
}

void beat_rest(struct beat *b)
{
	atomic_store(&b->leads, false);
	await_round(b);
}

static int replace(struct beat *b, _Atomic(struct end *) *place, struct pulse *pulse)
{
	struct end *e = NULL, *before;

	if (pulse) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->pulse = pulse;
	}
	before = atomic_exchange(place, e);
	if (before)
		await_round(b);
	free(before);
	return 0;
}

int beat_peer(struct beat *b, unsigned peer, struct pulse *pulse)
{
	return replace(b, &b->peer[peer], pulse);
}

uint64_t beat_granted(const struct beat *b, unsigned peer)
{
	return atomic_load(&b->granted[peer]);
}

void beat_count(struct beat *b, unsigned peer, bool counts)
{
	if (counts)
		atomic_fetch_or(&b->counted, 1u << peer);
	else
		atomic_fetch_and(&b->counted, ~(1u << peer));
}

int beat_follow(struct beat *b, uint64_t term, struct pulse *pulse)
{
	int rc = 0;

	atomic_store(&b->learned, term);
	atomic_store(&b->began_ns, clock_ns());
	if (!atomic_load(&b->primary) || atomic_load(&b->primary)->pulse != pulse)
		rc = replace(b, &b->primary, pulse);
	eventfd_write(b->fd, 1);
	return rc;
}

bool beat_is_over(const struct beat *b, uint64_t term)
{
	return atomic_load(&b->over) == term;
}

bool beat_revoke(struct beat *b, uint64_t term)
{
	int verdict;

	assert(!atomic_load(&b->leads));
	atomic_store(&b->verdict, PENDING);
	atomic_store(&b->revoke, term);
	eventfd_write(b->fd, 1);
	while ((verdict = atomic_load(&b->verdict)) == PENDING)
		time_sleep(LOOK_NS);
	atomic_store(&b->revoke, 0);
	return verdict == REVOKED;
}
