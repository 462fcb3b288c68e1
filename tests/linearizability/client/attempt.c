/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Operations: which one, on which key, and what its end means for the history. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/src/link/handle.h" /* the server's hash: to choose keys that lie close together */
#include "common/base/hash.h"
#include "tests/linearizability/client/actor.h"
#include "tests/linearizability/client/near.h"

#define WRONG_EXIT 1

static const struct {
	uint32_t op;
	uint32_t weight;
} weights[] = {
	{ HISTORY_GET, 50 },	{ HISTORY_EXISTS, 5 },	{ HISTORY_PUT, 12 },
	{ HISTORY_PUT_NEW, 6 }, { HISTORY_PUT_OLD, 4 }, { HISTORY_CAS, 9 },
	{ HISTORY_DEL, 8 },	{ HISTORY_DEL_IF, 3 },	{ HISTORY_INCR, 12 },
	{ HISTORY_APPEND, 8 },	{ HISTORY_GETDEL, 4 },
};

static uint8_t choose_op(struct actor *a, uint32_t kinds)
{
	const unsigned n = sizeof(weights) / sizeof(weights[0]);
	uint64_t all = 0, at;

	for (unsigned i = 0; i < n; i++)
		all += kinds & 1u << weights[i].op ? weights[i].weight : 0;
	at = actor_below(a, all);
	for (unsigned i = 0;; i++) {
		uint32_t w = kinds & 1u << weights[i].op ? weights[i].weight : 0;

		if (at < w)
			return (uint8_t)weights[i].op;
		at -= w;
	}
}

/* The first slots are chosen most often: their keys see many at once; the last ones live long. */
static uint32_t choose_slot(struct actor *a)
{
	const uint64_t range = 1 << 16;
	uint64_t u = actor_below(a, range);

	return (uint32_t)(u * u / range * a->board->slots / range);
}

static void name_key(struct attempt *d)
{
	d->key_len = (size_t)snprintf(d->key, sizeof(d->key), "lin.%u.%u.%08x", d->as.slot,
				      d->as.generation, (uint32_t)d->key_word);
}

/* The next key of the slot lies where the index is made to grow and shrink. */
static void replace(struct actor *a, const struct attempt *d)
{
	struct world *world = a->kv ? a->kv->reader.world : NULL; /* the session may be over */
	struct attempt next = { .as = { .slot = d->as.slot, .generation = d->as.generation + 1 } };
	uint32_t salt = (uint32_t)model_random(&a->random);

	for (unsigned i = 0; i < NEAR_TRIES; i++, salt++) {
		next.key_word = salt;
		name_key(&next);
		if (world && world_has_root(world) &&
		    near_is(hash_key(world->hash_seed, next.key, next.key_len)))
			break;
	}
	board_key_replace(a->board, d->as.slot, d->key_word, salt);
	a->old_key = d->key_word;
	a->old_slot = d->as.slot;
}

bool attempt_old(struct actor *a, struct attempt *d)
{
	if (!a->old_key)
		return false;
	d->as = (struct history_record){ .slot = a->old_slot,
					 .generation = (uint32_t)(a->old_key >> 32),
					 .op = HISTORY_DEL };
	d->key_word = a->old_key;
	name_key(d);
	a->old_key = 0;
	return actor_below(a, 4) != 0;
}

static uint64_t choose_version(struct actor *a, const struct attempt *d)
{
	const struct memory_of *m = &a->seen[d->as.slot];

	if (m->generation != d->as.generation || !m->version)
		return 1 + actor_below(a, 1000);
	return actor_below(a, 8) || !m->older ? m->version : m->older;
}

/* Every third slot has numbers, as a rule. */
static uint64_t choose_value(struct actor *a, const struct attempt *d)
{
	bool number = d->as.slot % 3 == 0;

	if (actor_below(a, 20) == 0)
		number = !number;
	return number ? actor_below(a, 1000000) : value_bytes(a->process, a->thread, ++a->sequence);
}

void attempt_choose(struct actor *a, struct attempt *d, uint32_t kinds)
{
	struct history_record *as = &d->as;
	uint32_t bit;

	*as = (struct history_record){ .slot = choose_slot(a), .op = choose_op(a, kinds) };
	bit = 1u << as->op;
	d->key_word = board_key(a->board, as->slot);
	as->generation = (uint32_t)(d->key_word >> 32);
	name_key(d);
	d->len = 0;
	d->record = NULL;
	if (bit & (ATTEMPT_PUTS | ATTEMPT_CAS)) {
		as->value = choose_value(a, d);
		d->len = value_write(as->value, d->place);
	}
	if (as->op == HISTORY_CAS || as->op == HISTORY_DEL_IF)
		as->expected = choose_version(a, d);
	if (as->op == HISTORY_APPEND) {
		as->value = value_bytes(a->process, a->thread, ++a->sequence);
		d->len = value_tail(as->value, d->place);
	}
	if (as->op == HISTORY_INCR) {
		d->delta = (int64_t)actor_below(a, 2000) - 1000;
		as->value = (uint64_t)d->delta;
	}
}

struct gkv_write_options attempt_options(const struct attempt *d)
{
	switch (d->as.op) {
	case HISTORY_PUT_NEW:
		return (struct gkv_write_options){ .condition = GKV_IF_ABSENT };
	case HISTORY_PUT_OLD:
		return (struct gkv_write_options){ .condition = GKV_IF_PRESENT };
	case HISTORY_CAS:
	case HISTORY_DEL_IF:
		return (struct gkv_write_options){ .condition = GKV_IF_VERSION,
						   .version = d->as.expected };
	default:
		return (struct gkv_write_options){ 0 };
	}
}

void actor_begins(struct actor *a, struct attempt *d, unsigned way)
{
	d->as.way = (uint8_t)way;
	d->record = recorder_begin(&a->recorder, &d->as, time_now_ns());
}

static bool is_read(const struct attempt *d)
{
	return 1u << d->as.op & ATTEMPT_READS;
}

/* Statuses that say what became of it; anything else is looked at by outcome_of(). */
static bool is_answer(const struct attempt *d, int status)
{
	const uint32_t bit = 1u << d->as.op;

	switch (status) {
	case 0:
		return true;
	case -ENOENT:
		return bit & (ATTEMPT_READS | ATTEMPT_CAS | ATTEMPT_DELS | ATTEMPT_GETDEL |
			      1u << HISTORY_PUT_OLD);
	case -EEXIST:
		return bit & (ATTEMPT_CAS | 1u << HISTORY_PUT_NEW | 1u << HISTORY_DEL_IF);
	case -EDOM:
		return bit & ATTEMPT_INCR;
	default:
		return false;
	}
}

/* What gracekv.h says of each code; a code that it does not give ends the program. */
static uint8_t outcome_of(const struct actor *a, const struct attempt *d, int status,
			  const char *why)
{
	if (is_answer(d, status))
		return HISTORY_DONE;
	switch (status) {
	case -ETIMEDOUT:
		return is_read(d) ? HISTORY_FAILED : HISTORY_OPEN;
	case -EREMOTEIO:
		if (!is_read(d))
			return HISTORY_UNKNOWN;
		break;
	case -ENOMEM:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
	case -EUSERS:
	case -ECANCELED:
		return HISTORY_FAILED;
	}
	fprintf(stderr, "WRONG error: operation %u by way %u of thread %u.%u returned %d: %s\n",
		d->as.op, d->as.way, a->process, a->thread, status, why);
	exit(WRONG_EXIT);
}

static void remember(struct actor *a, const struct history_record *as)
{
	struct memory_of *m = &a->seen[as->slot];

	if (!as->version || as->version == m->version)
		return;
	m->older = m->generation == as->generation ? m->version : 0;
	m->version = as->version;
	m->generation = as->generation;
}

static void look(const struct actor *a, struct attempt *d, const void *value, size_t len)
{
	const unsigned char *b = value;

	d->as.seen = value_read(value, len);
	if (d->as.seen != HISTORY_GARBAGE)
		return;
	fprintf(stderr, "WRONG value: %s read by thread %u.%u, way %u, is no value: %zu bytes",
		d->key, a->process, a->thread, d->as.way, len);
	for (size_t i = 0; i < len && i < 32; i++)
		fprintf(stderr, "%s%02x", i % 8 ? "" : " ", b[i]);
	fputc('\n', stderr);
}

void actor_ends(struct actor *a, struct attempt *d, int status, const void *value, size_t len,
		uint64_t version, int64_t sum, const char *why)
{
	const uint64_t return_ns = time_now_ns();
	struct history_record *as = &d->as;

	as->status = status;
	as->outcome = outcome_of(a, d, status, why);
	if (as->outcome == HISTORY_DONE && (status == 0 || status == -EEXIST)) {
		as->version = version;
		if (!(1u << as->op & (ATTEMPT_DELS | ATTEMPT_GETDEL)) ||
		    status) /* a delete's is of no record */
			remember(a, as);
	}
	if (as->outcome == HISTORY_DONE && status == 0 &&
	    (as->op == HISTORY_GET || as->op == HISTORY_GETDEL))
		look(a, d, value, len);
	if (as->outcome == HISTORY_DONE && status == 0 && as->op == HISTORY_INCR)
		as->seen = (uint64_t)sum;
	if (status == -ENOMEM && !is_read(d))
		board_count(&a->board->refused, 1);
	recorder_end(d->record, as, return_ns);
	d->record = NULL;
	a->done++;
	if (board_key_worn(a->board, as->slot, d->key_word, as->outcome == HISTORY_OPEN))
		replace(a, d);
}
