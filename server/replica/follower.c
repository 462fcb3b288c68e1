/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a member holds.
 *
 * Positions: applied <= committed <= held. The bytes between `base` and `held` are kept, base <=
 * applied; what was applied goes when room is wanted.
 *
 * A RECORD IS APPLIED WHEN THE PRIMARY HAS SAID THAT IT IS COMMITTED, and never before: until then
 * a new primary may come whose log ends before it, and a store does not take back.
 *
 * NOTHING IS DROPPED but by the first batch of another primary. That one was in sync, so it has
 * all that was ever acknowledged; its log ended at `end` when it became primary, and what this
 * member holds beyond was not acknowledged, or it would be there too. Until that batch has come,
 * whole, this member may have to take over itself, and what it holds may be what nobody else has.
 *
 * The new primary sends again what may not be at all: from what it knows to be committed up to its
 * end. This member may hold that already, in other batches. A position and the term in which the
 * record was decided name one record, and a log is the beginning of another's or the other way
 * round, once what lies beyond an end was dropped. So what comes again is the same, byte by byte;
 * where it is not, two logs have met, and this member goes no further.
 *
 * HOW MUCH is not committed: the log's writer begins a batch when the one before it is committed,
 * so it is one batch for each term that ended with one under way. HELD_MAX is four; a primary that
 * sends more breaks that rule, and is not believed.
 */
#include "server/replica/follower.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/mutant.h"

#define HELD_MAX  (4 * (uint64_t)LOG_BATCH_RECORDS_MAX)
#define SPANS_MAX 8u /* terms of what is not committed */

struct span {
	uint64_t from, term; /* position: up to the next span's */
};

struct follower {
	struct follower_config config;
	uint8_t *bytes; /* HELD_MAX; of position `base` and on */
	uint64_t base, applied, committed, held;
	uint64_t ring_term, clock_ms;
	struct span span[SPANS_MAX]; /* the oldest first; the last one goes on to `held` */
	unsigned spans;
};

int follower_open(struct follower **out, const struct follower_config *config, struct error *err)
{
	struct follower *f = calloc(1, sizeof(*f));

	if (f)
		f->bytes = mmap(NULL, HELD_MAX, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!f || f->bytes == MAP_FAILED) {
		free(f);
		return error_set(err, -ENOMEM, "there is no memory for what a backup holds");
	}
	f->config = *config;
	f->base = f->applied = f->committed = f->held = config->position;
	*out = f;
	return 0;
}

void follower_close(struct follower *f)
{
	if (!f)
		return;
	munmap(f->bytes, HELD_MAX);
	free(f);
}

static uint8_t *at_position(const struct follower *f, uint64_t position)
{
	return f->bytes + (position - f->base);
}

static int refuse(const struct ring_batch *b, const char *what, struct error *err)
{
	return error_set(err, -EPROTO,
			 "the primary of term %llu sent a batch at position %llu that %s (this "
			 "server is not fit to go on as its backup)",
			 (unsigned long long)b->ring_term, (unsigned long long)b->position, what);
}

/* Whether what comes again is what is held; what was dropped after it was applied is not looked at.
 */
static bool is_the_same(const struct follower *f, const struct ring_batch *b,
			const uint8_t *records, uint64_t held)
{
	const uint64_t end = b->position + b->bytes < held ? b->position + b->bytes : held;
	const uint64_t from = b->position > f->base ? b->position : f->base;

	return from >= end ||
	       memcmp(at_position(f, from), records + (from - b->position), end - from) == 0;
}

static uint64_t last_term(const struct follower *f)
{
	return f->spans ? f->span[f->spans - 1].term : 0;
}

/* What would be held if the batch was another primary's first word. */
static uint64_t held_then(const struct follower *f, const struct ring_batch *b)
{
	const bool first = b->ring_term != f->ring_term && f->ring_term;

	return first && b->end < f->held && !MUTANT(keep_beyond_end) ? b->end : f->held;
}

static int judge(const struct follower *f, const struct ring_batch *b, const void *records,
		 struct error *err)
{
	const uint64_t held = held_then(f, b), end = b->position + b->bytes;

	if (b->ring_term < f->ring_term)
		return refuse(b, "is of an earlier term than the one before", err);
	if (held < f->committed)
		return refuse(b, "says that its log ended before what was committed", err);
	if (b->position > held)
		return refuse(b, "does not continue what is held here", err);
	if (b->committed > (end > held ? end : held))
		return refuse(b, "says that something is committed which is not held here", err);
	if (end > held && b->term < last_term(f))
		return refuse(b, "was decided in an earlier term than what it follows", err);
	if (!is_the_same(f, b, records, held))
		return refuse(b, "says something else of what is held here already", err);
	return 0;
}

/* All below is not asked for any more. */
static void drop_spans(struct follower *f)
{
	unsigned gone = 0;

	while (gone + 1 < f->spans && f->span[gone + 1].from <= f->committed)
		gone++;
	f->spans -= gone;
	memmove(f->span, f->span + gone, f->spans * sizeof(*f->span));
}

static void cut_to(struct follower *f, uint64_t held)
{
	f->held = held;
	while (f->spans > 1 && f->span[f->spans - 1].from >= held)
		f->spans--;
}

static int make_room(struct follower *f, uint64_t bytes)
{
	if (f->held - f->base + bytes <= HELD_MAX)
		return 0;
	if (f->held - f->applied + bytes > HELD_MAX)
		return -ENOBUFS;
	memmove(f->bytes, at_position(f, f->applied), f->held - f->applied);
	f->base = f->applied;
	return 0;
}

/* The end of the batch, as much of it as is new. */
static int hold(struct follower *f, const struct ring_batch *b, const uint8_t *records,
		uint64_t held, struct error *err)
{
	const uint64_t end = b->position + b->bytes, more = end > held ? end - held : 0;
	const bool spans = more && b->term != last_term(f);

	drop_spans(f);
	if ((spans && f->spans == SPANS_MAX) || (more && make_room(f, more)))
		return error_set(err, -ENOBUFS,
				 "the primary of term %llu sends on while nothing is committed "
				 "(this server is not fit to go on as its backup)",
				 (unsigned long long)b->ring_term);
	cut_to(f, held);
	if (!more)
		return 0;
	memcpy(at_position(f, held), records + (held - b->position), more);
	if (spans)
		f->span[f->spans++] = (struct span){ held, b->term };
	f->held = end;
	return 0;
}

int follower_take(struct follower *f, const struct ring_batch *b, const void *records,
		  struct error *err)
{
	int rc = judge(f, b, records, err);

	if (!rc)
		rc = hold(f, b, records, held_then(f, b), err);
	if (rc)
		return rc;
	f->ring_term = b->ring_term;
	f->clock_ms = b->clock_ms > f->clock_ms ? b->clock_ms : f->clock_ms;
	if (b->committed > f->committed)
		f->committed = b->committed;
	if (MUTANT(apply_held))
		f->committed = f->held;
	return 0;
}

int follower_apply(struct follower *f, uint64_t bytes, struct error *err)
{
	const uint64_t until =
		f->committed - f->applied > bytes ? f->applied + bytes : f->committed;

	while (f->applied < until) {
		const struct log_record *r;
		const char *why;
		int rc = log_record_shape(at_position(f, f->applied), f->committed - f->applied,
					  f->applied, &r, &why);

		if (rc)
			return error_set(err, -EPROTO, "at position %llu of the log %s",
					 (unsigned long long)f->applied, why);
		rc = f->config.apply(f->config.ctx, r);
		if (rc)
			return error_set(err, rc,
					 "the record at position %llu cannot be applied: %s",
					 (unsigned long long)f->applied, error_name(rc));
		f->applied += r->length;
	}
	return f->applied < f->committed;
}

void follower_look(const struct follower *f, struct follower_state *out)
{
	*out = (struct follower_state){ .applied = f->applied,
					.committed = f->committed,
					.held = f->held,
					.ring_term = f->ring_term,
					.clock_ms = f->clock_ms };
}

/* The span that @at is in, and where it ends. */
static uint64_t term_at(const struct follower *f, uint64_t at, uint64_t *end)
{
	unsigned i = f->spans - 1;

	while (i && f->span[i].from > at)
		i--;
	*end = i + 1 < f->spans ? f->span[i + 1].from : f->held;
	return f->span[i].term;
}

bool follower_piece(const struct follower *f, uint64_t at, struct follower_piece *out)
{
	uint64_t end;

	if (at >= f->held || at < f->committed)
		return false;
	*out = (struct follower_piece){ .position = at, .bytes = at_position(f, at) };
	out->term = term_at(f, at, &end);
	while (at < end) {
		const struct log_record *r = (const void *)at_position(f, at);

		if (r->length < LOG_RECORD_BYTES || r->length > end - at ||
		    out->len + r->length > LOG_BATCH_RECORDS_MAX)
			break;
		out->len += r->length;
		out->records++;
		at += r->length;
	}
	return out->records;
}

const void *follower_rest(const struct follower *f)
{
	return at_position(f, f->committed);
}

void follower_lead(struct follower *f)
{
	f->committed = f->held;
}
