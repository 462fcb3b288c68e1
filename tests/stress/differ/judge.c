/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What must have come.
 *
 * Time. A record that is written with a time to live expires between two moments: that after which
 * the call began, and that before which it ended, plus the time, both in whole ms, rounded up: it
 * is never early. What a call told of the expiry must lie between the two and makes them one.
 * Server and model go by one clock, that of the machine. A call that was over before the first
 * moment must find the record, one that began at the last or later must not; in between either is
 * right, and the model goes by what came. What was seen to be gone stays gone. Reads go by the
 * client's estimate of the clock: they may return a record for GKV_EXPIRY_LATE_MS longer, and for
 * as long as this machine let threads wait.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

enum presence presence(const struct record *r, uint64_t before_ms, uint64_t after_ms, uint64_t late)
{
	if (!r->there)
		return GONE;
	if (!r->expiry_last || after_ms < r->expiry_first)
		return THERE;
	return !r->or_never && before_ms >= r->expiry_last + late ? GONE : MAYBE;
}

void begins(struct differ *d, struct action *a, uint64_t now_ns)
{
	a->life = d->lives;
	a->met = line_of(d, a->end)->life == d->lives;
	a->before_ms = now_ns / NS_PER_MS;
	a->begun_ms = (now_ns + NS_PER_MS - 1) / NS_PER_MS;
}

uint64_t late_ms(const struct differ *d)
{
	return GKV_EXPIRY_LATE_MS + stall_ms();
}

int expected(const struct differ *d, const struct action *a, const struct record *r, bool there)
{
	int64_t number, sum;

	switch (a->op->kind) {
	case KIND_READ:
		return !there ? -ENOENT : a->has_len && a->cap < r->shape.len ? -EMSGSIZE : 0;
	case KIND_TOUCH:
	case KIND_GETDEL:
		return there ? 0 : -ENOENT;
	case KIND_INCR:
		if (!there)
			return 0;
		if (!shape_number(d, &r->shape, &number))
			return -EDOM;
		return __builtin_add_overflow(number, a->delta, &sum) ? -ERANGE : 0;
	case KIND_PUT:
	case KIND_APPEND:
	case KIND_DEL:
		break;
	}
	switch (a->options.condition) {
	case GKV_IF_ABSENT:
		return there ? -EEXIST : 0;
	case GKV_IF_PRESENT:
		return there ? 0 : -ENOENT;
	case GKV_IF_VERSION: /* one that was not told was not asked for */
		return !there						? -ENOENT
		       : r->version && r->version == a->options.version ? 0
									: -EEXIST;
	}
	return there || a->op->kind != KIND_DEL ? 0 : -ENOENT;
}

/* How many bytes of the value the call has shown. */
static size_t shown(const struct action *a, const struct record *r)
{
	return a->has_len && a->cap < r->shape.len ? a->cap : r->shape.len;
}

bool fits(struct differ *d, const struct action *a, const struct record *r)
{
	const uint64_t late = a->op->kind == KIND_READ ? late_ms(d) : 0;
	const enum presence p = presence(r, a->before_ms, a->after_ms, late);

	if (p != THERE && a->status == expected(d, a, r, false))
		return true;
	if (p == GONE || a->status != expected(d, a, r, true))
		return false;
	if (a->op->kind != KIND_READ)
		return true;
	if (a->has_len && a->len != r->shape.len)
		return false;
	if (a->has_meta &&
	    (a->meta.value_len != r->shape.len ||
	     (r->version ? a->meta.version != r->version : a->meta.version <= r->floor)))
		return false;
	shape_fill(d, &r->shape, d->want);
	return !a->has_bytes || !shown(a, r) || memcmp(a->bytes, d->want, shown(a, r)) == 0;
}

/* It is no value of the key as it is: whose is it? */
static _Noreturn void wrong_value(struct differ *d, const struct shape *s, const uint8_t *bytes,
				  size_t len)
{
	struct shape found = { .len = (uint32_t)len };
	uint64_t key;
	size_t i = 0;

	while (i < len && bytes[i] == d->want[i])
		i++;
	if (len >= 32) {
		memcpy(&found.nonce, bytes, 8);
		memcpy(&key, bytes + 8, 8);
		found.key = (uint32_t)key;
		shape_fill(d, &found, d->want);
		if (memcmp(d->want, bytes, len))
			wrong(d, s->key, "torn", "byte %zu of %zu differs", i, len);
		wrong(d, s->key,
		      found.nonce <= d->life_nonce ? "old_life"
		      : found.key != s->key	   ? "foreign"
						   : "stale",
		      "the value of key %u, write %" PRIu64 "; life of the server since %" PRIu64,
		      found.key, found.nonce, d->life_nonce);
	}
	wrong(d, s->key, "torn", "byte %zu of %zu differs", i, len);
}

void judge_value(struct differ *d, const struct action *a, const struct shape *s,
		 const uint8_t *bytes, size_t len)
{
	shape_fill(d, s, d->want);
	if (len && memcmp(bytes, d->want, len))
		wrong_value(d, s, bytes, len);
}

static void learn_version(struct differ *d, const struct action *a, struct record *r,
			  uint64_t version)
{
	if (r->version ? version != r->version : version <= r->floor)
		wrong(d, a->key, "version",
		      "%" PRIu64 " instead of %" PRIu64 " (above %" PRIu64 ")", version, r->version,
		      r->floor);
	r->version = version;
	if (version > d->version)
		d->version = version;
}

void judge_meta(struct differ *d, const struct action *a, struct record *r)
{
	uint64_t expiry = a->meta.expiry_ms;

	learn_version(d, a, r, a->meta.version);
	if (a->meta.value_len != r->shape.len)
		wrong(d, a->key, "length", "%u instead of %u", a->meta.value_len, r->shape.len);
	if (r->or_never && !expiry)
		r->expiry_first = r->expiry_last = 0;
	r->or_never = false;
	if (expiry < r->expiry_first || expiry > r->expiry_last)
		wrong(d, a->key, "expiry", "%" PRIu64 " instead of %" PRIu64 " to %" PRIu64, expiry,
		      r->expiry_first, r->expiry_last);
	r->expiry_first = r->expiry_last = expiry;
}

static void judge_read(struct differ *d, struct action *a, struct record *r)
{
	if (a->has_len && a->len != r->shape.len)
		wrong(d, a->key, "length", "%zu instead of %u", a->len, r->shape.len);
	if (a->has_meta)
		judge_meta(d, a, r);
	if (a->has_bytes)
		judge_value(d, a, &r->shape, a->bytes, shown(a, r));
	d->met[a->status ? MET_CUT : MET_FOUND]++;
}

/*
 * A record was written, with a version that is new. @kept: what it was before, where it expires as
 * that; @unsure: or, as that may have expired just before, as a new one.
 */
static void written(struct differ *d, struct action *a, struct record *r, const struct record *kept,
		    bool unsure)
{
	const uint64_t ttl_ms = a->options.ttl_ms;

	r->there = true;
	r->version = 0;
	r->floor = a->floor;
	past_add(d, a->key, &r->shape);
	r->or_never = false;
	r->expiry_first = ttl_ms ? a->begun_ms + ttl_ms : 0;
	r->expiry_last = ttl_ms ? a->after_ms + 1 + ttl_ms : 0;
	if (kept) {
		r->or_never = kept->or_never || (unsure && !ttl_ms);
		if (!unsure || !ttl_ms || kept->expiry_first < r->expiry_first)
			r->expiry_first = kept->expiry_first;
		if (!unsure || !ttl_ms || kept->expiry_last > r->expiry_last)
			r->expiry_last = kept->expiry_last;
	}
	if (a->has_meta)
		judge_meta(d, a, r);
	else if (a->has_version)
		learn_version(d, a, r, a->version);
}

static void judge_incr(struct differ *d, struct action *a, struct record *r, bool as_there,
		       bool as_gone)
{
	struct record before = *r;
	int64_t number = 0;

	if (as_there)
		shape_number(d, &r->shape, &number);
	if (as_there && as_gone && a->has_sum) /* most often the sum says which it was */
		as_there = a->sum == (int64_t)((uint64_t)number + (uint64_t)a->delta);
	if (!as_there)
		number = 0;
	number = (int64_t)((uint64_t)number + (uint64_t)a->delta);
	if (a->has_sum && a->sum != number)
		wrong(d, a->key, "sum", "%" PRId64 " instead of %" PRId64, a->sum, number);
	r->shape = shape_of_number(d, a->key, number);
	written(d, a, r, as_there ? &before : NULL, as_gone);
}

static void judge_append(struct differ *d, struct action *a, struct record *r, bool as_there,
			 bool as_gone)
{
	const struct record before = *r;
	int64_t number = 0;

	if (as_there && as_gone && a->has_meta) /* the length says which it was */
		as_there = a->meta.value_len > 1;
	if (as_there)
		shape_number(d, &r->shape, &number);
	r->shape = shape_append(d, a->key, number, a->delta);
	written(d, a, r, as_there ? &before : NULL, as_gone);
}

static void judge_done(struct differ *d, struct action *a, struct record *r, bool as_there,
		       bool as_gone)
{
	const struct record before = *r;
	const bool keeps = a->options.flags & GKV_KEEP_EXPIRY && as_there;

	r->touched += a->op->kind != KIND_READ;
	switch (a->op->kind) {
	case KIND_READ:
		judge_read(d, a, r);
		break;
	case KIND_PUT:
		r->shape = a->shape;
		written(d, a, r, keeps ? &before : NULL, as_gone);
		break;
	case KIND_GETDEL:
		judge_read(d, a, r);
		r->there = false;
		break;
	case KIND_DEL:
		r->there = false;
		break;
	case KIND_TOUCH:
		written(d, a, r, NULL, false);
		break;
	case KIND_APPEND:
		judge_append(d, a, r, as_there, as_gone);
		break;
	case KIND_INCR:
		judge_incr(d, a, r, as_there, as_gone);
		break;
	}
}

void judge_applied(struct differ *d, struct action *a, bool as_there)
{
	judge_done(d, a, &d->record[a->key], as_there, !as_there);
}

/* What a wrong status is called. */
static const char *kind_of(const struct action *a, const struct record *r, enum presence p)
{
	if (a->status && a->status != -ENOENT && a->status != -EEXIST && a->status != -EMSGSIZE)
		return "error";
	if (a->op->kind != KIND_READ)
		return "status";
	if (p != THERE)
		return r->there ? "late" : "ghost";
	return !a->status ? "status" : r->expiry_last ? "early" : "miss";
}

static _Noreturn void wrong_status(struct differ *d, const struct action *a, enum presence p,
				   int want, uint64_t late)
{
	const struct record *r = &d->record[a->key];
	char when[100] = "";

	if (r->there && r->expiry_last)
		snprintf(when, sizeof(when),
			 ", %" PRId64 " to %" PRId64 " ms after its expiry, %" PRIu64
			 " of them allowed",
			 (int64_t)(a->before_ms - r->expiry_last),
			 (int64_t)(a->after_ms - r->expiry_first), late);
	wrong(d, a->key, kind_of(a, r, p), "%s returned %d (%s), not %d%s", a->op->name, a->status,
	      gkv_strerror(a->status), want, when);
}

void judge(struct differ *d, struct action *a)
{
	struct record *r = &d->record[a->key];
	uint64_t late = a->op->kind == KIND_READ ? late_ms(d) : 0;
	enum presence p;
	int if_there, if_gone;
	bool as_there, as_gone;

	if (a->status == -EREMOTEIO && a->op->kind != KIND_READ && !a->met)
		return; /* it went to the server before, and is gone with it */
	if (a->life == d->lives)
		line_of(d, a->end)->life = d->lives;
	if (r->doubt != SURE && !doubt_read(d, a))
		return;
	p = presence(r, a->before_ms, a->after_ms, late);
	if_there = expected(d, a, r, true);
	if_gone = expected(d, a, r, false);
	as_there = p != GONE && a->status == if_there;
	as_gone = p != THERE && a->status == if_gone;
	if (!as_there && !as_gone)
		wrong_status(d, a, p, p == GONE ? if_gone : if_there, late);
	d->in_doubt += p == MAYBE;
	d->met[MET_EXPIRED] += r->there && as_gone;
	d->met[MET_NONE] += a->status == -ENOENT;
	d->met[MET_EXISTS] += a->status == -EEXIST;
	d->met[MET_NO_NUMBER] += a->status == -EDOM;
	d->met[MET_RANGE] += a->status == -ERANGE;
	if (as_there && p == MAYBE && r->expiry_last < a->before_ms &&
	    a->before_ms - r->expiry_last > d->late_ms)
		d->late_ms = a->before_ms - r->expiry_last;
	if (!as_there)
		r->there = false;
	if (a->status == -EEXIST && a->has_version)
		learn_version(d, a, r, a->version);
	if (a->status == 0 || a->status == -EMSGSIZE)
		judge_done(d, a, r, as_there, as_gone);
}
