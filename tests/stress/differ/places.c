/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Registered memory: each get into it has a place of its own, with bytes around it that nobody may
 * write. A place at rest is filled, and must be so when it is taken again: no READ may come late.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stress/differ/differ.h"

#define PLACE_BYTES (DIFFER_VALUE_MAX + 2 * DIFFER_BEYOND)

void places_open(struct differ *d, struct line *l)
{
	char why[640];
	int rc;

	l->area = malloc((size_t)DIFFER_PLACES * PLACE_BYTES);
	if (!l->area)
		wrong(d, 0, "error", "out of memory");
	memset(l->area, DIFFER_FILL, (size_t)DIFFER_PLACES * PLACE_BYTES);
	for (unsigned i = 0; i < DIFFER_PLACES; i++)
		l->place[i] = (struct place){ l->area + (size_t)i * PLACE_BYTES + DIFFER_BEYOND, 0,
					      false };
	rc = gkv_memory_register(l->session, l->area, (size_t)DIFFER_PLACES * PLACE_BYTES,
				 &l->memory, why, sizeof(why));
	if (rc)
		wrong(d, 0, "error", "gkv_memory_register() returned %d: %s", rc, why);
}

static void check(struct differ *d, const char *kind, const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != DIFFER_FILL)
			wrong(d, 0, kind, "byte %zu of %zu of registered memory was written", i,
			      bytes);
}

static bool in_use(const struct line *l)
{
	for (unsigned i = 0; i < DIFFER_PLACES; i++)
		if (l->place[i].taken)
			return true;
	return false;
}

void places_release(struct differ *d, struct line *l)
{
	int rc = gkv_memory_release(l->memory);

	if (rc == 0)
		l->memory = NULL;
	else if (rc != -EBUSY || !in_use(l))
		wrong(d, 0, "error", "gkv_memory_release() returned %d", rc);
}

void places_close(struct differ *d, struct line *l)
{
	if (l->memory)
		places_release(d, l);
	check(d, "rest", l->area, (size_t)DIFFER_PLACES * PLACE_BYTES);
	free(l->area);
	l->area = NULL;
}

struct place *place_take(struct differ *d, struct line *l, size_t cap)
{
	unsigned first = (unsigned)below(d, DIFFER_PLACES);

	for (unsigned i = 0; i < DIFFER_PLACES; i++) {
		struct place *p = &l->place[(first + i) % DIFFER_PLACES];

		if (p->taken)
			continue;
		if (lies(d, "rest"))
			*p->at = 0;
		check(d, "rest", p->at - DIFFER_BEYOND, p->cap + 2 * DIFFER_BEYOND);
		p->taken = true;
		p->cap = cap;
		return p;
	}
	return NULL;
}

void place_leave(struct differ *d, struct place *p)
{
	check(d, "beyond", p->at - DIFFER_BEYOND, DIFFER_BEYOND);
	check(d, "beyond", p->at + p->cap, DIFFER_BEYOND);
	memset(p->at, DIFFER_FILL, p->cap);
	p->taken = false;
}
