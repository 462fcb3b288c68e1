/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Scans, in one call and in chunks with anything else in between. What was not written meanwhile
 * must be found as it is, once; what was, with one of the values that it had since.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

#define CHUNK 100u
#define STEPS 8u

static const struct op scan_op = { .name = "scan", .kind = KIND_READ };

/* A scan under way. */
struct walk {
	struct differ *d;
	struct end *end;
	struct gkv_cursor *cursor; /* NULL: gkv_scan() */
	struct gkv_scan_options options;
	uint64_t lives, before_ms, deed; /* when it began */
	struct gkv_record last; /* of the last chunk: it must stand there until the next */
	uint64_t sum; /* of its bytes */
	bool found; /* any record */
	struct {
		uint64_t touched;
		struct shape shape;
		bool there;
		uint8_t seen;
		bool loose; /* it was being written when the scan began */
	} key[];
};

static bool is_uncertain(const struct record *r)
{
	return r->flying || r->doubt != SURE;
}

static struct walk *walk_begin(struct differ *d, struct end *end)
{
	struct walk *w = calloc(1, sizeof(*w) + d->o.keys * sizeof(w->key[0]));

	if (!w)
		wrong(d, 0, "error", "out of memory");
	w->d = d;
	w->end = end;
	w->lives = d->lives;
	w->deed = d->deeds;
	for (uint32_t k = 0; k < d->o.keys; k++) {
		w->key[k].touched = d->record[k].touched;
		w->key[k].there = d->record[k].there;
		w->key[k].shape = d->record[k].shape;
		w->key[k].loose = is_uncertain(&d->record[k]);
	}
	w->options.flags = below(d, 2) ? GKV_SCAN_KEYS : 0;
	w->options.prefix = d->keys[below(d, d->o.keys)].bytes;
	w->options.prefix_len = below(d, 4) ? 0 : 1 + below(d, 4);
	w->before_ms = time_wall_ms();
	return w;
}

static bool has_prefix(const struct walk *w, const void *key, size_t len)
{
	return len >= w->options.prefix_len &&
	       memcmp(key, w->options.prefix, w->options.prefix_len) == 0;
}

/* Whether it was written since, or may have been. */
static bool was_written(const struct walk *w, uint32_t k)
{
	const struct record *r = &w->d->record[k];

	return w->key[k].loose || is_uncertain(r) || r->touched != w->key[k].touched;
}

static bool is_value(const struct walk *w, const struct shape *s, const void *bytes, size_t len)
{
	struct differ *d = w->d;

	if (s->len != len || !bytes)
		return s->len == len;
	shape_fill(d, s, d->want);
	return !len || memcmp(d->want, bytes, len) == 0;
}

/* One of the values since the scan began, the one that was there then among them. */
static void judge_any(const struct walk *w, const struct action *a, const void *bytes, size_t len)
{
	struct differ *d = w->d;
	const struct past *p = &d->past[a->key];
	const bool loose = w->key[a->key].loose;

	d->met[MET_MEANWHILE]++;
	if (w->key[a->key].there && is_value(w, &w->key[a->key].shape, bytes, len))
		return;
	for (unsigned i = 1; i <= p->n; i++) {
		const unsigned at = (p->n - i) % DIFFER_PAST;

		if (i > DIFFER_PAST)
			return; /* too many: it may have been any of them */
		if (!loose && p->deed[at] < w->deed)
			break;
		if (is_value(w, &p->shape[at], bytes, len))
			return;
	}
	wrong(d, a->key, "walk", "a scan has found a value of %zu bytes that it did not have since",
	      len);
}

static void find(struct walk *w, const struct gkv_record *found, uint64_t before_ms)
{
	struct differ *d = w->d;
	uint32_t k = key_find(d, found->key, found->key_len);
	struct action a = { .op = &scan_op, .end = w->end, .key = k, .before_ms = before_ms };
	struct record *r;

	if (k == UINT32_MAX)
		wrong(d, 0, "foreign", "a scan has visited a key of %zu bytes that nobody wrote",
		      found->key_len);
	if (!has_prefix(w, found->key, found->key_len) ||
	    !found->value != (w->options.flags == GKV_SCAN_KEYS))
		wrong(d, k, "walk", "a scan has visited it, or its value, against its options");
	r = &d->record[k];
	a.after_ms = time_wall_ms();
	a.meta = found->meta;
	a.version = found->meta.version;
	remember(d, &a);
	w->found = true;
	if (w->key[k].seen++)
		wrong(d, k, "twice", "a scan has visited it twice");
	if (was_written(w, k)) {
		judge_any(w, &a, found->value, found->meta.value_len);
	} else {
		if (presence(r, a.before_ms, a.after_ms, late_ms(d)) == GONE)
			wrong(d, k, r->there ? "late" : "ghost",
			      "a scan has visited what has gone");
		judge_meta(d, &a, r);
		judge_value(d, &a, &r->shape, found->value, found->value ? r->shape.len : 0);
	}
	w->key[k].seen += lies(d, w->cursor ? "walk_twice" : "twice");
}

/* It has come to its end. */
static void judge_all(struct walk *w, uint64_t after_ms)
{
	struct differ *d = w->d;

	for (uint32_t k = 0; k < d->o.keys; k++) {
		if (w->key[k].seen > 1)
			wrong(d, k, "twice", "a scan has visited it twice");
		if (lies(d, w->cursor ? "walk_skipped" : "skipped") && k % 64 == 0)
			w->key[k].seen = 0;
		if (!w->key[k].seen && !was_written(w, k) &&
		    has_prefix(w, d->keys[k].bytes, d->keys[k].len) &&
		    presence(&d->record[k], w->before_ms, after_ms, 0) == THERE)
			wrong(d, k, "skipped", "a scan has not visited it");
	}
}

static int visit(void *arg, const void *key, size_t key_len, const void *value,
		 const struct gkv_meta *meta)
{
	struct walk *w = arg;

	find(w, &(struct gkv_record){ key, key_len, value, *meta, { 0 } }, w->before_ms);
	return 0;
}

void walk_scan(struct differ *d, struct end *end)
{
	struct walk *w = walk_begin(d, end);
	int rc;

	end_use(d, end);
	rc = gkv_scan(end->kv, &w->options, visit, w);
	if (rc && (rc != -ESTALE || w->found))
		wrong(d, 0, "error", "gkv_scan() returned %d: %s", rc, gkv_error(end->kv));
	if (rc == 0)
		judge_all(w, time_wall_ms());
	free(w);
}

static uint64_t sum_of(const struct gkv_record *r)
{
	const uint8_t *value = r->value;
	uint64_t sum = r->key_len;

	for (size_t i = 0; value && i < r->meta.value_len; i++)
		sum = sum * 31 + value[i];
	return sum;
}

static void walk_open(struct differ *d, struct end *end)
{
	int rc;

	end->walk = walk_begin(d, end);
	rc = gkv_scan_open(end->kv, &end->walk->options, &end->walk->cursor);
	if (rc)
		wrong(d, 0, "error", "gkv_scan_open() returned %d: %s", rc, gkv_error(end->kv));
}

void walk_end(struct end *end)
{
	if (!end->walk)
		return;
	gkv_scan_close(end->walk->cursor);
	free(end->walk);
	end->walk = NULL;
}

static void take_chunk(struct walk *w, const struct gkv_record *out, int n, uint64_t before_ms)
{
	struct differ *d = w->d;

	for (int i = 0; i < n; i++) {
		struct gkv_record r = out[i];

		if (lies(d, "walk_stale") && r.value && r.meta.value_len) {
			memcpy(d->room, r.value, r.meta.value_len);
			d->room[r.meta.value_len / 2] ^= 1;
			r.value = d->room;
			w->key[key_find(d, r.key, r.key_len)].loose = true;
		}
		find(w, &r, before_ms);
	}
	w->last = out[n - 1];
	w->sum = sum_of(&w->last);
}

static void step(struct differ *d, struct end *end)
{
	struct gkv_record out[CHUNK];
	const uint64_t before_ms = time_wall_ms();
	struct walk *w;
	int n;

	end_use(d, end);
	if (!end->walk)
		walk_open(d, end);
	w = end->walk;
	if (w->last.key && sum_of(&w->last) != w->sum)
		wrong(d, 0, "view", "what gkv_scan_next() gave has changed before the next call");
	n = gkv_scan_next(w->cursor, out, 1 + below(d, CHUNK));
	w->last.key = NULL;
	if (n > 0) {
		if (w->lives == d->lives) /* else found before, of the life that it is a scan of */
			take_chunk(w, out, n, before_ms);
		return;
	}
	/* before its first record it may have begun on the server that was, unaware of its end */
	if (n && (n != -ESTALE || (w->lives == d->lives && w->found)))
		wrong(d, 0, "walk", "gkv_scan_next() returned %d: %s", n, gkv_error(end->kv));
	if (n == 0 && w->lives == d->lives) {
		judge_all(w, time_wall_ms());
		d->met[MET_WALKED]++;
	}
	walk_end(end);
}

void walk_step(struct differ *d, struct end *end)
{
	uint64_t n = below(d, STEPS);

	do
		step(d, end);
	while (n-- && end->walk);
}
