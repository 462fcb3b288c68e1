/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* mput, mdel: many writes, as many in flight as the server grants requests. */
#include <errno.h>

#include "client/src/call/rpc_run.h"
#include "client/src/request/fill.h"

struct many {
	struct gkv *h;
	struct gkv_item *item;
	size_t next, count;
	enum rpc_op op;
	uint32_t age; /* of all: taken before the first was posted */
};

static bool next(void *arg, struct rpc_call *c)
{
	struct many *m = arg;

	while (m->next < m->count) {
		struct gkv_item *item = &m->item[m->next++];
		int rc = write_key(m->h, c, m->op, item->key, item->key_len);

		if (rc == 0)
			rc = item_known(m->h, item);
		if (rc == 0)
			rc = m->op == RPC_PUT
				     ? write_put(m->h, c, item->value, item->len, &item->options)
				     : write_del(m->h, c, &item->options);
		c->item = item;
		if (rc == 0)
			return true;
		item->status = rc;
		*c = (struct rpc_call){ 0 };
	}
	return false;
}

static void done(void *arg, struct rpc_call *c, int status)
{
	struct many *m = arg;
	struct gkv_item *item = c->item;

	item->status = status;
	write_done(m->h, c, m->age, status, m->op == RPC_PUT ? &item->meta : NULL);
}

static int many(struct gkv *h, struct gkv_item *items, size_t count, enum rpc_op op)
{
	struct many m = { .h = h, .item = items, .count = count, .op = op };
	int rc = handle_begin(h);

	if (rc)
		return rc;
	if (!items && count)
		return handle_end(
			h, error_set(&h->error, -EINVAL, "the items are NULL, %zu of them", count));
	for (size_t i = 0; i < count; i++) {
		items[i].status = -ECANCELED; /* should the call end early */
		items[i].meta = (struct gkv_meta){ 0 };
	}
	m.age = handle_age(h);
	return handle_end(h, rpc_run_many(h, next, done, &m));
}

int gkv_mput(struct gkv *h, struct gkv_item *items, size_t count)
{
	return many(h, items, count, RPC_PUT);
}

int gkv_mdel(struct gkv *h, struct gkv_item *items, size_t count)
{
	return many(h, items, count, RPC_DEL);
}
