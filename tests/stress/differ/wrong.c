/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The first wrong answer ends the program, with the history of its key. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/stress/differ/differ.h"

#define SHOWN_MAX 24u

void remember(struct differ *d, const struct action *a)
{
	static uint64_t number;
	struct done *deed = &d->deed[number % DIFFER_DEEDS];

	*deed = (struct done){
		.number = ++number,
		.before_ms = a->before_ms,
		.after_ms = a->after_ms,
		.nonce = a->shape.nonce,
		.version = a->has_version ? a->version : a->meta.version,
		.expiry_ms = a->meta.expiry_ms,
		.op = a->op->name,
		.key = a->key,
		.len = a->op->kind == KIND_READ ? (uint32_t)a->len : a->shape.len,
		.status = a->status,
	};
	for (uint8_t l = 0; l < DIFFER_LINKS; l++)
		for (uint8_t e = 0; e < DIFFER_ENDS; e++)
			if (a->end == &d->link[l].end[e])
				deed->link = l, deed->end = e;
}

static void show(const struct done *deed, uint64_t from_ms)
{
	printf("  %10" PRIu64 " %7" PRId64 " to %" PRId64 " ms  %-8s handle %u.%u: %d",
	       deed->number, (int64_t)(deed->before_ms - from_ms),
	       (int64_t)(deed->after_ms - from_ms), deed->op, deed->link, deed->end, deed->status);
	if (deed->nonce)
		printf(", write %" PRIu64, deed->nonce);
	printf(", %u bytes, version %" PRIu64, deed->len, deed->version);
	if (deed->expiry_ms)
		printf(", expires %" PRId64, (int64_t)(deed->expiry_ms - from_ms));
	printf("\n");
}

static void show_history(const struct differ *d, uint32_t key)
{
	const struct done *found[SHOWN_MAX];
	uint64_t from_ms = 0, newest = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < DIFFER_DEEDS; i++)
		if (d->deed[i].number > newest)
			newest = d->deed[i].number;
	for (uint64_t i = newest; i > 0 && newest - i < DIFFER_DEEDS && n < SHOWN_MAX; i--) {
		const struct done *deed = &d->deed[(i - 1) % DIFFER_DEEDS];

		if (deed->key == key)
			found[n++] = deed;
	}
	if (n)
		from_ms = found[n - 1]->before_ms;
	printf("the last %u operations on key %u, ms since the first of them; what is last is "
	       "wrong:\n",
	       n, key);
	while (n--)
		show(found[n], from_ms);
}

void wrong(const struct differ *d, uint32_t key, const char *kind, const char *fmt, ...)
{
	const struct record *r = &d->record[key];
	va_list ap;

	printf("WRONG %s: key %u: ", kind, key);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\nmodel: %s, write %" PRIu64 ", %u bytes, version %" PRIu64 " (above %" PRIu64
	       "), expiry %" PRIu64 " to %" PRIu64 "\n",
	       r->there ? "there" : "gone", r->shape.nonce, r->shape.len, r->version, r->floor,
	       r->expiry_first, r->expiry_last);
	show_history(d, key);
	printf("again: differ --seed %" PRIu64 " --keys %" PRIu64 " --weak %" PRIu64 "\n",
	       d->o.seed, d->o.keys, d->o.weak);
	fflush(stdout);
	_Exit(1); /* the server ends with its starter */
}
