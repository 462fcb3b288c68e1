/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/store/pending.h"

#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/meta_format.h"
#include "server/reclaim/qsbr.h"

_Atomic uint64_t fake_log_records, fake_log_tail, fake_log_wrong;
_Atomic int fake_log_error;

int log_append_begin(struct log *l, uint32_t key_len, uint32_t value_len, struct log_place *out)
{
	uint64_t bytes = log_record_length(key_len, value_len);

	if (fake_log_error)
		return fake_log_error;
	out->start = atomic_fetch_add(&fake_log_tail, bytes);
	out->end = out->start + bytes;
	return 0;
}

void log_append_end(struct log *l, const struct log_place *at, const struct log_entry *e)
{
	uint32_t value_len = e->kind == LOG_PUT ? e->value_len : 0;
	struct hash_piece piece[2] = { { e->key, e->key_len }, { e->value, value_len } };

	if (e->value_len != value_len || hash_pieces(piece, value_len ? 2 : 1) != e->body ||
	    at->end - at->start != log_record_length(e->key_len, value_len) || !e->version ||
	    e->client[0] != 1 || e->client[1] != 2 || e->sequence != 3 || e->handle != 4 ||
	    e->slot != 5)
		atomic_fetch_add(&fake_log_wrong, 1);
	atomic_fetch_add(&fake_log_records, 1);
}

void fake_log_open(struct store *s)
{
	fake_log_records = fake_log_tail = fake_log_wrong = 0;
	fake_log_error = 0;
	assert_ok(store_log_open(s, (struct log *)s, life_first(1)));
}

static int put(struct store_worker *w, const struct pending_ask *ask, struct store_result *out)
{
	uint32_t key_len = (uint32_t)strlen(ask->key), len = (uint32_t)strlen(ask->value);
	struct store_put p;
	int rc = ask->op == PENDING_PUT
			 ? store_put_begin(w, ask->key, key_len, len, ask->expiry_ms, &p)
			 : store_append_begin(w, ask->key, key_len, len, ask->expiry_ms,
					      ask->terms.now_ms, &p);

	if (rc)
		return rc;
	memcpy(p.block->data + key_len + p.base, ask->value, len);
	if (ask->op == PENDING_PUT) {
		rc = store_put_publish(w, &p, &ask->terms, out);
	} else {
		store_append_seal(w, &p, ask->terms.now_ms);
		rc = store_append_commit(w, &p, &ask->terms, out);
	}
	if (rc)
		store_put_abort(w, &p);
	return rc;
}

static int decide(struct store_worker *w, const struct pending_ask *ask, struct pending_write *x)
{
	uint32_t key_len = (uint32_t)strlen(ask->key);

	switch (ask->op) {
	case PENDING_PUT:
	case PENDING_APPEND:
		return put(w, ask, &x->result);
	case PENDING_DEL:
		return store_del(w, ask->key, key_len, &ask->terms, &x->result);
	case PENDING_INCR:
		return store_incr(w, ask->key, key_len, ask->delta, ask->expiry_ms, &ask->terms,
				  &x->sum, &x->result);
	case PENDING_TOUCH:
		return store_touch(w, ask->key, key_len, ask->expiry_ms, &ask->terms, &x->result);
	}
	return -EINVAL;
}

int pending_decide(struct store_worker *w, const struct pending_ask *ask, struct pending_write *x)
{
	for (;;) {
		*x = (struct pending_write){ 0 };
		x->decision = (struct store_decision){
			.client = { 1, 2 },
			.sequence = 3,
			.handle = 4,
			.request_slot = 5,
			.pending = &x->pending,
		};
		w->decision = &x->decision;
		x->rc = decide(w, ask, x);
		w->decision = NULL;
		if (x->rc != -EAGAIN)
			break;
		qsbr_offline();
		memory_growth_wait(w->store->memory, 100);
		qsbr_online();
	}
	assert_int_equal(x->decision.appended, x->rc == 0);
	if (x->rc == 0) {
		assert_int_equal(x->decision.awaits, 0);
		assert_int_equal(x->pending.version, x->result.version);
		assert_int_equal(x->decision.number, ask->op == PENDING_INCR ? x->sum : 0);
	}
	return x->rc;
}
