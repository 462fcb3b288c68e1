/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Many records in one call: mget, scan. Each record is judged as a read of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

static const struct op mget_op = { .name = "mget", .kind = KIND_READ };
static const struct op scan_op = { .name = "scan", .kind = KIND_READ };

void batch_mget(struct differ *d, struct end *end)
{
	struct gkv_item item[DIFFER_BATCH] = { 0 };
	struct action a[DIFFER_BATCH] = { 0 };
	unsigned n = 1 + (unsigned)below(d, below(d, 4) ? 20 : DIFFER_BATCH);
	uint64_t before_ms, after_ms;
	int rc;

	end_use(d, end);
	for (unsigned i = 0; i < n; i++) {
		a[i] = (struct action){ .op = &mget_op, .end = end, .key = key_choose(d) };
		a[i].cap = below(d, 3) ? DIFFER_VALUE_MAX : below(d, 100);
		a[i].place = d->room + (size_t)i * DIFFER_VALUE_MAX;
		item[i].key = d->keys[a[i].key].bytes;
		item[i].key_len = d->keys[a[i].key].len;
		item[i].value = a[i].place;
		item[i].cap = a[i].cap;
		item[i].status = 1;
	}
	before_ms = time_wall_ms();
	rc = gkv_mget(end->kv, item, n);
	after_ms = time_wall_ms();
	if (rc)
		wrong(d, a[0].key, "error", "gkv_mget() returned %d: %s", rc, gkv_error(end->kv));
	for (unsigned i = 0; i < n; i++) {
		a[i].before_ms = before_ms;
		a[i].after_ms = after_ms;
		a[i].status = item[i].status;
		a[i].len = item[i].len;
		a[i].meta = item[i].meta;
		a[i].bytes = a[i].place;
		a[i].has_len = a[i].has_meta = a[i].has_bytes = true;
		lie(d, &a[i]);
		remember(d, &a[i]);
		judge(d, &a[i]);
	}
}

/* A scan under way. */
struct walk {
	struct differ *d;
	struct end *end;
	uint8_t *seen; /* of each key */
	uint64_t before_ms;
};

static int visit(void *arg, const void *key, size_t key_len, const void *value,
		 const struct gkv_meta *meta)
{
	struct walk *w = arg;
	struct differ *d = w->d;
	uint32_t k = key_find(d, key, key_len);
	struct action a = { .op = &scan_op, .key = k, .before_ms = w->before_ms };
	struct record *r;

	if (k == UINT32_MAX)
		wrong(d, 0, "foreign", "a scan has visited a key of %zu bytes that nobody wrote",
		      key_len);
	r = &d->record[k];
	a.after_ms = time_wall_ms();
	a.meta = *meta;
	a.version = meta->version;
	remember(d, &a);
	if (w->seen[k]++)
		wrong(d, k, "twice", "a scan has visited it twice");
	if (presence(r, a.before_ms, a.after_ms, late_ms(d)) == GONE)
		wrong(d, k, r->there ? "late" : "ghost", "a scan has visited what has gone");
	judge_meta(d, &a, r);
	judge_value(d, &a, &r->shape, value, r->shape.len);
	if (lies(d, "twice"))
		w->seen[k]++;
	return 0;
}

void batch_scan(struct differ *d, struct end *end)
{
	struct walk w = { .d = d, .end = end, .seen = calloc(d->o.keys, 1) };
	uint64_t after_ms;
	int rc;

	if (!w.seen)
		wrong(d, 0, "error", "out of memory");
	end_use(d, end);
	w.before_ms = time_wall_ms();
	rc = gkv_scan(end->kv, visit, &w);
	after_ms = time_wall_ms();
	if (rc)
		wrong(d, 0, "error", "gkv_scan() returned %d: %s", rc, gkv_error(end->kv));
	for (uint32_t k = 0; k < d->o.keys; k++) {
		if (lies(d, "twice") && w.seen[k] > 1)
			wrong(d, k, "twice", "a scan has visited it twice");
		if (lies(d, "skipped") && k % 64 == 0)
			w.seen[k] = 0;
		if (!w.seen[k] && presence(&d->record[k], w.before_ms, after_ms, 0) == THERE)
			wrong(d, k, "skipped", "a scan has not visited it");
	}
	free(w.seen);
}
