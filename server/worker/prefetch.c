/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests that were polled together: what they will touch is brought into the caches for all of
 * them at once, so that the worker waits for memory once a batch and not twice a request. A hint
 * only: every frame is decoded and judged again when its turn comes.
 */
#include "server/worker/worker_internal.h"

#define WORTH_IT 4 /* requests; for fewer the second look costs more than it gains */

struct keys {
	unsigned count;
	struct store_key key[STORE_PREFETCH_MAX];
};

static void keys_add(struct worker *w, struct keys *keys, bool write,
		     const struct rpc_request_view *view)
{
	keys->key[keys->count++] = (struct store_key){ view->key, view->header->key_len };
	if (keys->count == STORE_PREFETCH_MAX) {
		store_prefetch(w->rpc.store.store, keys->key, keys->count, write);
		keys->count = 0;
	}
}

void worker_prefetch(struct worker *w, const struct ibv_wc *wc, int n)
{
	struct keys reads = { .count = 0 }, writes = { .count = 0 };

	if (n < WORTH_IT)
		return;
	for (int i = 0; i < n; i++) {
		struct rpc_request_view view;
		const char *why;

		if (!(wc[i].wr_id & RECEIVE_WR) || wc[i].status != IBV_WC_SUCCESS ||
		    rpc_request_decode(receives_frame(&w->receives, wc[i].wr_id), wc[i].byte_len,
				       &view, &why) ||
		    !view.key)
			continue;
		if (view.header->op == RPC_GET)
			keys_add(w, &reads, false, &view);
		else
			keys_add(w, &writes, true, &view);
	}
	if (reads.count)
		store_prefetch(w->rpc.store.store, reads.key, reads.count, false);
	if (writes.count)
		store_prefetch(w->rpc.store.store, writes.key, writes.count, true);
}
