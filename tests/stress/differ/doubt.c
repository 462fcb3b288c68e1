/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes of which nobody knows whether they were applied: their time was over, or their handle was
 * closed, with -EREMOTEIO, or the server was killed and the answer fits more than one of its lives.
 *
 * The model keeps two records for such a key, and reads may find either. Where the write may still
 * be on its way (LATER) the old one says nothing, the new one ends the doubt; else either does. No
 * other write goes to the key meanwhile, so there are never more than two; and there are few such
 * keys, since doubt may last as long as the server's life.
 */
#include "tests/stress/differ/differ.h"

#define LATE_MS	  100000u /* it is applied within that, or never */
#define DARK_PART 16u

unsigned doubt_room(const struct differ *d)
{
	uint64_t most = d->o.keys / DARK_PART;

	return d->dark < most ? (unsigned)(most - d->dark) : 0;
}

static void begin(struct differ *d, uint32_t key, const struct record *other, enum doubt doubt)
{
	struct record *r = &d->record[key];

	r->touched++;
	d->dark += r->doubt == SURE;
	r->doubt = doubt;
	d->other[key] = *other;
	d->met[MET_UNKNOWN]++;
}

void doubt_either(struct differ *d, uint32_t key, const struct record *other)
{
	begin(d, key, other, EITHER);
}

void doubt_write(struct differ *d, const struct action *a)
{
	struct record *r = &d->record[a->key], before = *r, other;
	const bool there = presence(r, a->before_ms, a->after_ms, 0) == THERE;
	struct action as_done = *a;

	if (expected(d, a, r, there))
		return; /* it changes nothing */
	as_done.status = 0;
	as_done.has_version = as_done.has_meta = as_done.has_sum = false;
	judge_applied(d, &as_done, there);
	other = *r;
	*r = before;
	if (other.expiry_last)
		other.expiry_last += LATE_MS;
	begin(d, a->key, &other, LATER);
}

static void end(struct differ *d, struct record *r)
{
	r->doubt = SURE;
	d->dark--;
}

bool doubt_read(struct differ *d, const struct action *a)
{
	struct record *r = &d->record[a->key];
	const struct record *other = &d->other[a->key];
	const bool this = fits(d, a, r), that = fits(d, a, other);

	if (this && that)
		return false;
	if (that) {
		const struct record old = *r;

		*r = *other;
		r->old = old.old;
		r->flying = old.flying;
		r->touched = old.touched + 1;
		end(d, r);
	} else if (this && r->doubt == EITHER) {
		end(d, r);
	}
	return true;
}
