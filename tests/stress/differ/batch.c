/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Many records in one call. Each record is judged as an operation of its own. */
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"

static const struct op mget_op = { .name = "mget", .kind = KIND_READ };
static const struct op mput_op = { .name = "mput", .kind = KIND_PUT };
static const struct op mdel_op = { .name = "mdel", .kind = KIND_DEL };

#define WRITES_MAX 40u

void batch_mget(struct differ *d, struct end *end)
{
	struct gkv_item item[DIFFER_BATCH] = { 0 };
	struct action a[DIFFER_BATCH] = { 0 };
	unsigned n = 1 + (unsigned)below(d, below(d, 4) ? 20 : DIFFER_BATCH);
	uint64_t before_ns, after_ms;
	int rc;

	end_use(d, end);
	for (unsigned i = 0; i < n; i++) {
		a[i] = (struct action){ .op = &mget_op,
					.end = end,
					.key = key_choose(d, KIND_READ) };
		a[i].cap = below(d, 3) ? DIFFER_VALUE_MAX : below(d, 100);
		a[i].place = d->room + (size_t)i * DIFFER_VALUE_MAX;
		item[i].key = d->keys[a[i].key].bytes;
		item[i].key_len = d->keys[a[i].key].len;
		item[i].value = a[i].place;
		item[i].cap = a[i].cap;
		item[i].status = 1;
	}
	before_ns = time_wall_ns();
	for (unsigned i = 0; i < n; i++)
		begins(d, &a[i], before_ns);
	rc = gkv_mget(end->kv, item, n);
	after_ms = time_wall_ms();
	if (rc)
		wrong(d, a[0].key, "error", "gkv_mget() returned %d: %s", rc, gkv_error(end->kv));
	for (unsigned i = 0; i < n; i++) {
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

/* Keys that are all different: of two items with one key either may be the later. */
static unsigned choose_different(struct differ *d, struct action *a, const struct op *op,
				 struct end *end)
{
	unsigned n = 1 + (unsigned)below(d, below(d, 4) ? 8 : WRITES_MAX), have = 0;

	for (unsigned i = 0; i < n; i++) {
		uint32_t key = key_choose(d, op->kind);
		unsigned k = 0;

		while (k < have && a[k].key != key)
			k++;
		if (k == have)
			a[have++] = (struct action){
				.op = op, .end = end, .key = key, .floor = d->version
			};
	}
	return have;
}

static void choose_options(struct differ *d, struct action *a)
{
	const struct op *like = &ops[0];

	while (like->kind != a->op->kind || !like->prepare)
		like++;
	for (const struct op *op = like; op->name; op++) /* a random one of the kind */
		if (op->kind == a->op->kind && op->prepare && below(d, 2))
			like = op;
	like->prepare(d, a);
}

static void writes(struct differ *d, struct end *end, const struct op *op,
		   int (*call)(struct gkv *, struct gkv_item *, size_t))
{
	struct gkv_item item[WRITES_MAX] = { 0 };
	struct action a[WRITES_MAX];
	unsigned n = choose_different(d, a, op, end);
	uint64_t before_ns, after_ms;
	int rc;

	end_use(d, end);
	for (unsigned i = 0; i < n; i++) {
		choose_options(d, &a[i]);
		item[i].key = d->keys[a[i].key].bytes;
		item[i].key_len = d->keys[a[i].key].len;
		item[i].value = d->room + (size_t)i * DIFFER_VALUE_MAX;
		item[i].len = a[i].shape.len;
		item[i].options = a[i].options;
		item[i].status = 1;
		if (op->kind == KIND_PUT)
			shape_fill(d, &a[i].shape, item[i].value);
	}
	before_ns = time_wall_ns();
	for (unsigned i = 0; i < n; i++)
		begins(d, &a[i], before_ns);
	rc = call(end->kv, item, n);
	after_ms = time_wall_ms();
	if (rc)
		wrong(d, a[0].key, "error", "%s returned %d: %s", op->name, rc, gkv_error(end->kv));
	for (unsigned i = 0; i < n; i++) {
		a[i].after_ms = after_ms;
		a[i].status = item[i].status;
		a[i].meta = item[i].meta;
		a[i].version = item[i].meta.version;
		a[i].has_meta = a[i].has_version = op->kind == KIND_PUT;
		lie(d, &a[i]);
		remember(d, &a[i]);
		judge(d, &a[i]);
	}
}

void batch_mput(struct differ *d, struct end *end)
{
	writes(d, end, &mput_op, gkv_mput);
}

void batch_mdel(struct differ *d, struct end *end)
{
	writes(d, end, &mdel_op, gkv_mdel);
}
