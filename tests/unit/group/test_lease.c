/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A primary, two backups and a client, whose clocks differ, whose messages are late or lost, and
 * whose threads stop between any two steps, in a time that is made up. Whenever the client takes a
 * value for good, each backup's promise must stand, in true time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/know/fresh.h"
#include "common/layout/lease_word.h"
#include "server/group/lease.h"
#include "tests/lib/unit.h"

#define MS	  1000000ull
#define LENGTH_NS (300 * MS)
#define RHO_PPM	  10000u
#define BACKUPS	  2u
#define ROUNDS	  400u
#define RUN_NS	  (20000 * MS) /* of a round */

static const struct lease_terms terms = { .length_ns = LENGTH_NS, .rho_ppm = RHO_PPM };

UNIT_GROUP(unit_seed, NULL);

/* A machine's clock: what it shows at a true time. Rates of two differ by RHO_PPM at most. */
struct clock {
	uint64_t offset_ns, rate_ppm;
};

static uint64_t shows(const struct clock *c, uint64_t true_ns)
{
	return c->offset_ns + true_ns / 1000000 * c->rate_ppm +
	       true_ns % 1000000 * c->rate_ppm / 1000000;
}

static struct clock any_clock(void)
{
	static const uint64_t rates[] = { 1000000, 1004000, 1009900 };

	return (struct clock){ unit_below(1ull << 45), rates[unit_below(3)] };
}

static uint64_t calm; /* one step in so many takes long */

/* How long a step takes: a moment as a rule, now and then as long as leases do. */
static uint64_t a_while(void)
{
	switch (unit_below(calm)) {
	case 0:
		return unit_below(2 * LENGTH_NS);
	case 1:
		return unit_below(LENGTH_NS / 2);
	default:
		return 1000 + unit_below(LENGTH_NS / 100);
	}
}

/* What is on its way, or stands in memory that a READ finds. */
struct note {
	uint64_t at_ns; /* it arrives */
	uint64_t n;
};

#define NOTES 64u

struct backup {
	struct clock clock;
	struct lease_promise promise;
	struct note beat[NOTES], answer[NOTES];
	uint64_t next_ns; /* its thread's next step */
	uint64_t seen; /* a beat that it has seen and not yet promised */
};

enum step { NOTE, SEND, ANSWERS, UNTIL_LOOK, UNTIL_STORE, CLOCK_READ, CLOCK_STORE, STEPS };

struct world {
	uint64_t now_ns; /* true */
	struct backup backup[BACKUPS];
	/* The primary's thread. */
	struct clock clock;
	struct lease_grant grant[LEASE_PEERS_MAX];
	enum step step;
	uint64_t next_ns, beat[BACKUPS], until_ns, clock_ns;
	uint16_t count;
	/* Its root page. */
	uint64_t until_word, clock_word;
	/* The client: a READ under way, or one of a value. */
	struct clock client;
	struct fresh fresh;
	uint64_t client_ns, posted_ns, sampled_clock, sampled_until;
	unsigned client_step;
	unsigned good, late;
};

static void send_note(struct note notes[NOTES], uint64_t at_ns, uint64_t n)
{
	if (unit_below(10)) /* else it is lost */
		notes[n % NOTES] = (struct note){ at_ns, n };
}

/* The latest of those that have arrived; nothing is said of those before it. */
static uint64_t latest(const struct note notes[NOTES], uint64_t now_ns)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < NOTES; i++)
		if (notes[i].n && notes[i].at_ns <= now_ns && notes[i].n > n)
			n = notes[i].n;
	return n;
}

static void primary_step(struct world *w)
{
	const uint64_t now = shows(&w->clock, w->now_ns);

	switch (w->step) {
	case NOTE:
		for (unsigned i = 0; i < BACKUPS; i++)
			w->beat[i] = lease_note(&w->grant[i], now);
		break;
	case SEND:
		for (unsigned i = 0; i < BACKUPS; i++)
			send_note(w->backup[i].beat, w->now_ns + a_while(), w->beat[i]);
		break;
	case ANSWERS:
		for (unsigned i = 0; i < BACKUPS; i++) {
			/* Any that has come, not the latest only. */
			for (unsigned j = 0; j < NOTES; j++)
				if (w->backup[i].answer[j].n &&
				    w->backup[i].answer[j].at_ns <= w->now_ns)
					lease_answer(&w->grant[i], &terms,
						     w->backup[i].answer[j].n);
		}
		break;
	case UNTIL_LOOK:
		w->until_ns = lease_until(w->grant, 3, &terms, now);
		break;
	case UNTIL_STORE:
		if (w->until_ns / 1000 > w->until_word)
			w->until_word = w->until_ns / 1000;
		break;
	case CLOCK_READ:
		w->clock_ns = now;
		break;
	case CLOCK_STORE:
		w->clock_word = lease_clock(++w->count, w->clock_ns);
		break;
	default:
		break;
	}
	w->step = (w->step + 1) % STEPS;
	w->next_ns = w->now_ns + a_while();
}

static void backup_step(struct world *w, struct backup *b)
{
	if (b->seen) {
		if (lease_beat(&b->promise, 1, b->seen, shows(&b->clock, w->now_ns)))
			send_note(b->answer, w->now_ns + a_while(), b->seen);
		b->seen = 0;
	} else {
		b->seen = latest(b->beat, w->now_ns);
	}
	b->next_ns = w->now_ns + a_while();
}

/* A value is good: nobody may have taken over yet. */
static void judge(struct world *w)
{
	if (!fresh_at(&w->fresh, shows(&w->client, w->now_ns))) {
		w->late++;
		return;
	}
	w->good++;
	for (unsigned i = 0; i < BACKUPS; i++)
		assert_false(lease_is_over(&w->backup[i].promise,
					   shows(&w->backup[i].clock, w->now_ns)));
}

static void client_step(struct world *w)
{
	switch (w->client_step) {
	case 0:
		w->posted_ns = shows(&w->client, w->now_ns);
		break;
	case 1: /* the READ, at the primary */
		w->sampled_clock = w->clock_word;
		w->sampled_until = w->until_word;
		break;
	case 2:
		fresh_look(&w->fresh, w->posted_ns, w->sampled_clock, w->sampled_until);
		break;
	default:
		judge(w);
	}
	w->client_step = (w->client_step + 1) % 6;
	w->client_ns = w->now_ns + a_while();
}

static void any_step(struct world *w)
{
	uint64_t *next = &w->next_ns;

	for (unsigned i = 0; i < BACKUPS; i++)
		if (w->backup[i].next_ns < *next)
			next = &w->backup[i].next_ns;
	if (w->client_ns < *next)
		next = &w->client_ns;
	w->now_ns = *next;
	if (next == &w->next_ns)
		primary_step(w);
	else if (next == &w->client_ns)
		client_step(w);
	for (unsigned i = 0; i < BACKUPS; i++)
		if (next == &w->backup[i].next_ns)
			backup_step(w, &w->backup[i]);
}

static void begin(struct world *w)
{
	calm = 10 + unit_below(100);
	*w = (struct world){ .now_ns = 1, .clock = any_clock(), .client = any_clock() };
	w->count = (uint16_t)unit_below(1 << 16);
	w->clock_word = lease_clock(w->count, 0);
	fresh_begin(&w->fresh, RHO_PPM);
	for (unsigned i = 0; i < BACKUPS; i++) {
		w->backup[i].clock = any_clock();
		w->backup[i].promise.terms = terms;
		lease_learn(&w->backup[i].promise, 1, shows(&w->backup[i].clock, 1));
		w->backup[i].next_ns = unit_below(LENGTH_NS);
	}
}

UNIT_TEST(what_is_taken_for_good_is)
{
	uint64_t good = 0, late = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct world w;

		begin(&w);
		while (w.now_ns < RUN_NS)
			any_step(&w);
		good += w.good;
		late += w.late;
	}
	print_message("%llu values were good, %llu were late\n", (unsigned long long)good,
		      (unsigned long long)late);
	assert_true(good > ROUNDS && late > ROUNDS);
}

/* Clocks at both ends of what they may be, and the latest moment that is still good. */
UNIT_TEST(drift)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct clock slow = { 77, 1000000 }, fast = { 1ull << 44, 1009999 };
		const struct clock *primary = i ? &slow : &fast, *other = i ? &fast : &slow;
		struct lease_promise p = { .terms = terms };
		struct lease_grant g[LEASE_PEERS_MAX] = { { .sent = 0 } };
		struct fresh f;
		uint64_t until;

		lease_learn(&p, 1, shows(other, 1));
		assert_true(
			lease_beat(&p, 1, lease_note(g, shows(primary, 1000)), shows(other, 1000)));
		lease_answer(g, &terms, 1);
		until = lease_until(g, 1, &terms, 0);
		fresh_begin(&f, RHO_PPM);
		fresh_look(&f, shows(other, 1000), lease_clock(1, shows(primary, 1000)), 0);
		fresh_look(&f, shows(other, 1000), lease_clock(3, shows(primary, 1000)),
			   until / 1000);
		for (uint64_t t = 280 * MS; t < 310 * MS; t += 1000) {
			if (shows(primary, t) < until || fresh_at(&f, shows(other, t)))
				assert_false(lease_is_over(&p, shows(other, t)));
			/* What a client on the other clock believes, the primary does as well. */
			if (fresh_at(&f, shows(other, t)))
				assert_true(shows(primary, t) < until);
		}
		assert_true(lease_is_over(&p, shows(other, 310 * MS)));
	}
}

/* A primary that is dead is not waited for longer than was promised. */
UNIT_TEST(over_in_time)
{
	struct lease_promise p = { .terms = terms };
	uint64_t t;

	assert_false(lease_is_over(&p, UINT64_MAX)); /* it is in no term */
	lease_learn(&p, 3, MS);
	assert_true(lease_beat(&p, 3, 1, 2 * MS));
	for (t = 2 * MS; !lease_is_over(&p, t) && t < 1000 * MS; t += MS)
		lease_beat(&p, 3, 1, t); /* it stands in memory, and is seen again and again */
	assert_in_range(t, 302 * MS, 308 * MS);
}

UNIT_TEST(terms_of_office)
{
	struct lease_promise p = { .terms = terms };

	lease_learn(&p, 3, 0);
	assert_true(lease_beat(&p, 3, 9, MS));
	assert_false(lease_beat(&p, 2, 10, MS)); /* an old primary's */
	assert_false(lease_beat(&p, 4, 10, MS)); /* one that is not known yet */
	lease_revoke(&p);
	assert_false(lease_beat(&p, 3, 10, MS));
	assert_true(lease_is_over(&p, 310 * MS));
	/* Taken out and added again: the time begins when it learns of it. */
	lease_learn(&p, 5, 1000 * MS);
	assert_false(lease_is_over(&p, 1290 * MS));
	lease_learn(&p, 4, 1290 * MS); /* late news */
	assert_true(lease_is_over(&p, 1310 * MS));
	assert_true(lease_beat(&p, 5, 1, 1310 * MS)); /* its numbers begin at 1 */
}

UNIT_TEST(answers)
{
	struct lease_grant g[LEASE_PEERS_MAX] = { { .sent = 0 } };

	assert_int_equal(lease_until(g, 0, &terms, 7), 7 + LENGTH_NS); /* alone */
	assert_int_equal(lease_until(g, 1, &terms, 7), 0); /* nothing is known */
	for (unsigned i = 1; i <= LEASE_BEATS_MAX + 4; i++)
		assert_int_equal(lease_note(g, i * MS), i);
	lease_answer(g, &terms, 0); /* none of ours */
	lease_answer(g, &terms, LEASE_BEATS_MAX + 5);
	lease_answer(g, &terms, UINT64_MAX);
	lease_answer(g, &terms, 4); /* too old: its note is gone */
	assert_int_equal(lease_until(g, 1, &terms, 7), 0);
	lease_answer(g, &terms, 7);
	assert_int_equal(lease_until(g, 1, &terms, 7), 7 * MS + LENGTH_NS);
	lease_answer(g, &terms, 6); /* late */
	assert_int_equal(lease_until(g, 1, &terms, 7), 7 * MS + LENGTH_NS);
	assert_int_equal(lease_until(g, 3, &terms, 7), 0); /* the other one has not answered */
}

/* The count may go round, and a client may have slept for as long as it likes. */
UNIT_TEST(counts)
{
	struct fresh f;

	fresh_begin(&f, RHO_PPM);
	assert_false(fresh_at(&f, 0));
	fresh_look(&f, 1000, lease_clock(65535, 50 * MS), 60000);
	assert_false(fresh_at(&f, 1000));
	fresh_look(&f, 2000, lease_clock(0, 51 * MS), 60000); /* one change */
	assert_false(fresh_at(&f, 1000));
	fresh_look(&f, 3000, lease_clock(1, 52 * MS), 60000);
	assert_true(fresh_at(&f, 1000 + 7 * MS));
	assert_false(fresh_at(&f, 1000 + 8 * MS));
	/* A lease that has not been renewed. */
	fresh_look(&f, 20 * MS, lease_clock(3, 61 * MS), 60000);
	assert_false(fresh_at(&f, 20 * MS));
	/* All of 2^16 renewals, and one, between two looks: as if it were one. */
	fresh_begin(&f, RHO_PPM);
	fresh_look(&f, 1000, lease_clock(5, 50 * MS), 60000);
	fresh_look(&f, 2000, lease_clock(6, 90 * MS), 99000);
	assert_false(fresh_at(&f, 1000));
}
