/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Wrong answers: counted by kind, the first ones printed with the history of their key. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/stress/model.h"

#define SHOWN_MAX   16u
#define HISTORY_MAX 12u

static const char *const names[WRONG_KINDS] = {
	[WRONG_MISS] = "false_miss", [WRONG_STALE] = "stale",	[WRONG_EARLY] = "early",
	[WRONG_FOREIGN] = "foreign", [WRONG_TORN] = "torn",	[WRONG_CHANGED] = "changed",
	[WRONG_SCAN] = "scan",	     [WRONG_REUSED] = "reused", [WRONG_STATE] = "state",
	[WRONG_ERROR] = "error",     [WRONG_PIPE] = "pipe",	[WRONG_LIFE] = "life",
	[WRONG_HINT] = "hint",	     [WRONG_FORGED] = "forged", [WRONG_CHECKSUM] = "checksum",
};

static _Thread_local const char *who = "main";

void model_who(const char *name)
{
	who = name;
}

static void show_deed(char *text, size_t cap, size_t *len, unsigned writer, const struct deed *d)
{
	uint32_t number = atomic_load_explicit(&d->number, memory_order_relaxed);
	uint64_t place = atomic_load_explicit(&d->place, memory_order_relaxed);

	*len += (size_t)snprintf(text + *len, cap - *len, "\n  %10.6f s  writer %u %s %u",
				 (double)atomic_load_explicit(&d->ns, memory_order_relaxed) / 1e9,
				 writer, number % 2 ? "put" : "del", number);
	if (number % 2)
		*len += (size_t)snprintf(
			text + *len, cap - *len, " at %u:%u incarnation %u",
			(unsigned)(place >> 32), (unsigned)place,
			atomic_load_explicit(&d->incarnation, memory_order_relaxed));
}

/* The newest operations on a key that are still remembered. */
static void show_history(const struct model *m, uint32_t k, char *text, size_t cap, size_t *len)
{
	unsigned found = 0;

	for (unsigned w = 0; w < MODEL_WRITERS; w++) {
		const struct deeds *all = &m->deeds[w];
		uint64_t n = atomic_load_explicit(&all->count, memory_order_relaxed);

		for (uint64_t i = 0; i < MODEL_DEEDS && i < n && found < HISTORY_MAX; i++) {
			const struct deed *d = &all->deed[(n - 1 - i) % MODEL_DEEDS];

			if (atomic_load_explicit(&d->key, memory_order_relaxed) != k)
				continue;
			show_deed(text, cap, len, w, d);
			found++;
		}
	}
	if (!found)
		*len += (size_t)snprintf(
			text + *len, cap - *len,
			"\n  no operation on it is among the last %u of its writer", MODEL_DEEDS);
}

void model_wrong(struct model *m, enum wrong kind, uint32_t k, const char *fmt, ...)
{
	char text[6144], key[MODEL_KEY_MAX];
	size_t len;
	va_list ap;

	atomic_fetch_add(&m->wrong[kind], 1);
	atomic_store(&m->any_wrong, true);
	if (atomic_fetch_add(&m->shown, 1) >= SHOWN_MAX)
		return;
	len = (size_t)snprintf(text, 512, "WRONG %s: %.6f s, phase %u, %s: ", names[kind],
			       (double)(time_now_ns() - m->start_ns) / 1e9, atomic_load(&m->phase),
			       who);
	va_start(ap, fmt);
	vsnprintf(text + len, 2048, fmt, ap);
	va_end(ap);
	len = strlen(text);
	if (k < m->keys) {
		const struct key_state *s = &m->key[k];

		len += (size_t)snprintf(
			text + len, sizeof(text) - len,
			"\n  key %u \"%.*s\": begun %u, done %u, deleted %u, seen %u", k,
			(int)model_key(k, key), key, atomic_load(&s->begun), atomic_load(&s->done),
			atomic_load(&s->deleted), atomic_load(&s->seen));
		show_history(m, k, text, sizeof(text), &len);
	}
	dprintf(STDOUT_FILENO, "%s\n", text);
}

uint64_t model_wrongs(const struct model *m)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WRONG_KINDS; i++)
		sum += atomic_load(&m->wrong[i]);
	return sum;
}

void model_report(const struct model *m)
{
	char text[512];
	size_t len = (size_t)snprintf(text, sizeof(text),
				      "wrong answers %llu:", (unsigned long long)model_wrongs(m));

	for (unsigned i = 0; i < WRONG_KINDS; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, " %s %llu", names[i],
					(unsigned long long)atomic_load(&m->wrong[i]));
	dprintf(STDOUT_FILENO, "%s\n", text);
}
