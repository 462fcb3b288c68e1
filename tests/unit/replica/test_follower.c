/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a member holds of the log, over several primaries, and what it applies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/replica/follower.h"
#include "tests/lib/unit.h"

#define LOG_BYTES (88u << 20)
#define BEGIN	  4096u /* position */
#define TERM	  5u
#define ALL	  UINT64_MAX

UNIT_GROUP(unit_seed, NULL);

/* A primary's log from BEGIN on, and what a follower has applied of it. */
struct log {
	uint8_t *bytes;
	uint64_t end, random;
};

static struct error err;
static struct log ours;
static uint64_t next_applied; /* position */
static int apply_rc;

static const uint8_t *at(const struct log *l, uint64_t position)
{
	return l->bytes + (position - BEGIN);
}

/* One more record; returns its position. */
static uint64_t add(struct log *l, uint32_t value_len)
{
	struct log_record *r = (void *)(l->bytes + (l->end - BEGIN));
	const uint64_t position = l->end;

	assert_true(l->end - BEGIN + log_record_length(4, value_len) <= LOG_BYTES);
	memset(r, 0, log_record_length(4, value_len));
	r->length = log_record_length(4, value_len);
	r->key_len = 4;
	r->kind = LOG_PUT;
	r->position = position;
	r->value_len = value_len;
	for (uint32_t i = 0; i < 4 + value_len && i < 500; i++)
		r->data[i] = (uint8_t)unit_random(&l->random);
	r->body = hash_bytes(r->data, 4 + (size_t)value_len);
	l->end += r->length;
	return position;
}

static void begin_log(struct log *l)
{
	*l = (struct log){ .bytes = malloc(LOG_BYTES),
			   .end = BEGIN,
			   .random = unit_below(UINT64_MAX) };
	assert_non_null(l->bytes);
}

static int apply(void *ctx, const struct log_record *r)
{
	const struct log *l = ctx;

	assert_int_equal(r->position, next_applied);
	assert_memory_equal(r, at(l, r->position), r->length);
	if (!apply_rc)
		next_applied += r->length;
	return apply_rc;
}

static struct follower *begin(void)
{
	struct follower_config config = { .position = BEGIN, .apply = apply, .ctx = &ours };
	struct follower *f;

	begin_log(&ours);
	next_applied = BEGIN;
	apply_rc = 0;
	assert_ok(follower_open(&f, &config, &err));
	return f;
}

static void end(struct follower *f)
{
	follower_close(f);
	free(ours.bytes);
}

static struct follower_state state_of(const struct follower *f)
{
	struct follower_state s;

	follower_look(f, &s);
	return s;
}

struct say {
	uint64_t from, to, committed;
	uint64_t term, ring_term; /* 0: TERM */
	uint64_t end; /* of its primary's log; 0: BEGIN */
};

static struct say say(uint64_t from, uint64_t to, uint64_t committed)
{
	return (struct say){ .from = from, .to = to, .committed = committed };
}

static int give_of(struct follower *f, const struct log *l, struct say s)
{
	const struct ring_batch b = { .position = s.from,
				      .bytes = (uint32_t)(s.to - s.from),
				      .committed = s.committed,
				      .term = s.term ? s.term : TERM,
				      .ring_term = s.ring_term ? s.ring_term : TERM,
				      .end = s.end ? s.end : BEGIN,
				      .clock_ms = 7 };

	return follower_take(f, &b, at(l, s.from), &err);
}

static int give(struct follower *f, struct say s)
{
	return give_of(f, &ours, s);
}

/* It is refused, in words, and nothing has changed. */
static void refused_of(struct follower *f, const struct log *l, struct say s, int rc)
{
	const struct follower_state before = state_of(f);
	struct follower_state after;

	err.text[0] = 0;
	assert_int_equal(give_of(f, l, s), rc);
	assert_true(err.text[0]);
	after = state_of(f);
	assert_memory_equal(&after, &before, sizeof(before));
}

static void refused(struct follower *f, struct say s)
{
	refused_of(f, &ours, s, -EPROTO);
}

static void apply_all(struct follower *f)
{
	int rc;

	do
		rc = follower_apply(f, 1 + unit_below(2000), &err);
	while (rc == 1);
	assert_ok(rc);
	assert_int_equal(next_applied, state_of(f).committed);
}

/* Batches of a few records, some told that all before them is committed, some not; and words with
 * none between them. */
UNIT_TEST(in_order)
{
	struct follower *f = begin();
	uint64_t told = BEGIN;

	for (unsigned i = 0; i < 20000 && ours.end - BEGIN < LOG_BYTES - (2u << 20); i++) {
		const uint64_t from = ours.end;

		for (uint64_t k = unit_below(4); k; k--)
			add(&ours, (uint32_t)unit_below(i % 100 ? 300 : 1u << 19));
		told = unit_below(3) ? from : told;
		assert_ok(give(f, say(from, ours.end, told)));
		assert_int_equal(state_of(f).held, ours.end);
		if (unit_below(2))
			apply_all(f);
		assert_true(next_applied <= told);
	}
	assert_ok(give(f, say(ours.end, ours.end, ours.end)));
	apply_all(f);
	assert_int_equal(next_applied, ours.end);
	assert_int_equal(state_of(f).clock_ms, 7);
	end(f);
}

UNIT_TEST(only_what_is_committed)
{
	struct follower *f = begin();
	const uint64_t one = add(&ours, 100), two = add(&ours, 100);

	assert_ok(give(f, say(one, two, one)));
	assert_int_equal(follower_apply(f, ALL, &err), 0);
	assert_int_equal(next_applied, one);
	assert_ok(give(f, say(two, ours.end, two)));
	assert_int_equal(follower_apply(f, ALL, &err), 0);
	assert_int_equal(next_applied, two);
	end(f);
}

/* The new primary's log ends at @ends; this member holds four records. */
static struct follower *held_four(uint64_t r[5])
{
	struct follower *f = begin();

	for (unsigned i = 0; i < 4; i++)
		r[i] = add(&ours, 100);
	r[4] = ours.end;
	assert_ok(give(f, say(r[0], r[2], r[0])));
	assert_ok(give(f, say(r[2], r[4], r[1])));
	apply_all(f);
	return f;
}

UNIT_TEST(another_primary_has_less)
{
	uint64_t r[5];
	struct follower *f = held_four(r);

	/* Its first word, with nothing in it: what lies beyond its end goes. */
	assert_ok(give(f, (struct say){ r[1], r[1], r[1], TERM, TERM + 1, r[3] }));
	assert_int_equal(state_of(f).held, r[3]);
	/* It sends what was not committed again, and then other records than those were. */
	assert_ok(give(f, (struct say){ r[1], r[3], r[1], TERM, TERM + 1, r[3] }));
	ours.end = r[3];
	add(&ours, 200);
	assert_ok(give(f, (struct say){ r[3], ours.end, r[3], TERM + 1, TERM + 1, r[3] }));
	assert_ok(give(f, (struct say){ ours.end, ours.end, ours.end, TERM + 1, TERM + 1, r[3] }));
	apply_all(f);
	assert_int_equal(next_applied, ours.end);
	end(f);
}

UNIT_TEST(another_primary_has_more)
{
	uint64_t r[5], more;
	struct follower *f = held_four(r);

	more = ours.end;
	add(&ours, 300);
	/* Other batches than before: one begins in what is held, and ends beyond. */
	assert_ok(give(f, (struct say){ r[2], ours.end, r[2], TERM, TERM + 1, ours.end }));
	assert_int_equal(state_of(f).held, ours.end);
	assert_true(more < ours.end);
	assert_ok(give(f,
		       (struct say){ ours.end, ours.end, ours.end, TERM + 1, TERM + 1, ours.end }));
	apply_all(f);
	end(f);
}

/* Until the first batch has come, all is kept; after it, what lies below the end. */
UNIT_TEST(nothing_else_is_dropped)
{
	uint64_t r[5];
	struct follower *f = held_four(r);
	struct follower_piece p;

	assert_ok(give(f, (struct say){ r[1], r[2], r[1], TERM, TERM + 1, r[3] }));
	assert_int_equal(state_of(f).held, r[3]); /* though only some of it came again */
	assert_true(follower_piece(f, r[1], &p));
	assert_int_equal(p.len, r[3] - r[1]);
	assert_memory_equal(p.bytes, at(&ours, r[1]), p.len);
	end(f);
}

UNIT_TEST(what_is_refused)
{
	uint64_t r[5];
	struct follower *f = held_four(r);
	struct log other;

	add(&ours, 100);
	add(&ours, 100);
	begin_log(&other);
	for (unsigned i = 0; i < 6; i++)
		add(&other, 100);
	refused(f, say(r[4] + 8, ours.end, r[1])); /* a gap */
	refused(f, say(r[4], ours.end, ours.end + 8)); /* who has that? */
	refused(f, (struct say){ r[4], ours.end, r[1], TERM, TERM - 1, 0 });
	refused(f, (struct say){ r[4], ours.end, r[1], TERM - 1, 0, 0 });
	refused(f, (struct say){ r[0], r[0], r[0], TERM, TERM + 1, r[0] }); /* r[0] is committed */
	refused_of(f, &other, (struct say){ r[1], r[3], r[1], TERM, TERM + 1, r[4] }, -EPROTO);
	refused_of(f, &other, (struct say){ r[3], other.end, r[1], TERM, TERM + 1, r[4] }, -EPROTO);
	assert_ok(give(f, say(r[4], ours.end, r[1])));
	free(other.bytes);
	end(f);
}

/* The pieces are what is not committed, in runs of one term. */
UNIT_TEST(pieces)
{
	struct follower *f = begin();
	uint64_t from[5], position = BEGIN;
	struct follower_piece p;

	for (unsigned t = 0; t < 4; t++) {
		from[t] = ours.end;
		add(&ours, t == 2 ? 10000 : 100); /* one batch does not hold both */
		add(&ours, t == 2 ? VALUE_MAX : 200);
		assert_ok(give(
			f, (struct say){ from[t], ours.end, BEGIN, TERM + t, TERM + t, from[t] }));
	}
	for (unsigned t = 0; t < 4; t++) {
		uint64_t until = t < 3 ? from[t + 1] : ours.end;

		while (position < until) {
			assert_true(follower_piece(f, position, &p));
			assert_int_equal(p.position, position);
			assert_int_equal(p.term, TERM + t);
			assert_true(p.len <= LOG_BATCH_RECORDS_MAX);
			assert_int_equal(p.records, t == 2 ? 1 : 2);
			assert_memory_equal(p.bytes, at(&ours, position), p.len);
			position += p.len;
		}
		assert_int_equal(position, until);
	}
	assert_false(follower_piece(f, position, &p));
	follower_lead(f);
	apply_all(f);
	assert_int_equal(next_applied, ours.end);
	assert_false(follower_piece(f, BEGIN, &p));
	end(f);
}

/* Primaries that break their own rule: one sends too much, or too many have begun something. */
UNIT_TEST(nothing_is_ever_committed)
{
	struct follower *f = begin();

	for (unsigned i = 0; i < 5; i++) {
		const uint64_t from = add(&ours, VALUE_MAX);

		if (i < 4)
			assert_ok(give(f, say(from, ours.end, BEGIN)));
		else
			refused_of(f, &ours, say(from, ours.end, BEGIN), -ENOBUFS);
	}
	end(f);
	f = begin();
	for (unsigned i = 0; i < 9; i++) {
		const uint64_t from = add(&ours, 100), term = TERM + i;
		const struct say s = { from, ours.end, BEGIN, term, term, from };

		if (i < 8)
			assert_ok(give(f, s));
		else
			refused_of(f, &ours, s, -ENOBUFS);
	}
	end(f);
}

UNIT_TEST(it_cannot_be_applied)
{
	struct follower *f = begin();
	const uint64_t one = add(&ours, 100), two = add(&ours, 100), three = add(&ours, 100);

	((struct log_record *)(uintptr_t)at(&ours, three))->kind = 9;
	assert_ok(give(f, say(one, ours.end, one)));
	assert_ok(give(f, say(ours.end, ours.end, ours.end)));
	apply_rc = -ENOMEM;
	assert_int_equal(follower_apply(f, ALL, &err), -ENOMEM);
	assert_int_equal(state_of(f).applied, one);
	apply_rc = 0;
	assert_int_equal(follower_apply(f, 1, &err), 1);
	assert_int_equal(state_of(f).applied, two);
	assert_int_equal(follower_apply(f, ALL, &err), -EPROTO);
	assert_int_equal(state_of(f).applied, three);
	assert_true(err.text[0]);
	end(f);
}
