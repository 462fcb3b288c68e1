/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* One thing is wrong behind the model's back, in answers that have come, to see it found. */
#include <errno.h>
#include <string.h>

#include "tests/stress/differ/differ.h"

#define HONEST 3000u /* operations at first */

bool lies(const struct differ *d, const char *what)
{
	return d->deeds > HONEST && strcmp(d->o.lie, what) == 0;
}

/* Another value of that length where this one is. */
static void swap(struct differ *d, struct action *a, const struct shape *s)
{
	shape_fill(d, s, d->want);
	memcpy(d->room, d->want, s->len);
	a->bytes = d->room;
}

static void lie_of_value(struct differ *d, struct action *a, const struct record *r)
{
	struct shape s = r->shape;

	if (a->status || !a->has_bytes || s.len < 32 || s.is_number)
		return;
	s.key += lies(d, "foreign");
	s.nonce -= lies(d, "stale");
	swap(d, a, &s);
	d->room[s.len - 1] ^= lies(d, "torn");
}

/* A value of the server's life before. */
static void lie_of_life(struct differ *d, struct action *a, const struct record *r)
{
	if (!lies(d, "old_life") || !a->has_bytes || a->status || r->old.len == UINT32_MAX ||
	    r->shape.len < 32)
		return;
	swap(d, a, &(struct shape){ .nonce = r->old.nonce, .key = a->key, .len = r->shape.len });
}

static void lie_of_read(struct differ *d, struct action *a, const struct record *r)
{
	enum presence p = presence(r, a->before_ms, a->after_ms, late_ms(d));

	if (lies(d, "foreign") || lies(d, "stale") || lies(d, "torn"))
		lie_of_value(d, a, r);
	lie_of_life(d, a, r);
	if (lies(d, "miss") && !r->expiry_last)
		a->status = a->status ? a->status : -ENOENT;
	if (lies(d, "early") && p == THERE && r->expiry_last)
		a->status = -ENOENT;
	if (!a->has_meta || a->has_bytes || a->status != -ENOENT)
		return;
	if (lies(d, r->there ? "late" : "ghost") && p == GONE)
		a->status = 0;
}

void lie(struct differ *d, struct action *a)
{
	const struct record *r = &d->record[a->key];

	if (r->doubt != SURE) /* it would be found as something else, or believed */
		return;
	if (a->op->kind == KIND_READ)
		lie_of_read(d, a, r);
	if (lies(d, "version") && a->status == -EEXIST)
		a->version++;
	if (lies(d, "expiry") && a->meta.expiry_ms)
		a->meta.expiry_ms += 500;
	if (lies(d, "condition") && a->status == -EEXIST)
		a->status = 0;
	if (lies(d, "sum"))
		a->sum++;
}
