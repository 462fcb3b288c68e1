/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes: PUT and DEL, applied exactly once. Checking the generation, looking for a remembered
 * reply, applying and remembering are one hold of the client's lock (session/clients.h). The value
 * of a large PUT is pulled first, without the lock; a retry is looked up before memory is taken,
 * and so is a record that makes the PUT's condition fail.
 */
#include "server/worker/rpc_internal.h"

#include <errno.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"

#define GROWTH_WAIT_MS 10u /* once: the worker's other clients wait as well */

static int verdict_status(enum client_verdict verdict)
{
	return verdict == CLIENT_UNKNOWN ? -EREMOTEIO : -ESTALE;
}

/* Must hold the client's lock. True: apply the write; false: the lock is dropped, reply sent. */
static bool may_apply(struct rpc_worker *w, struct request *r, const struct rpc_request *q)
{
	struct conn *c = r->conn;
	const struct client_reply *last;
	struct client_reply said;
	enum client_verdict verdict;

	verdict = client_check(c->client, c->generation, c->handle, r->slot, q->sequence,
			       q->flags & RPC_RETRY, &last);
	if (verdict == CLIENT_APPLY)
		return true;
	if (verdict == CLIENT_REPEAT)
		said = *last;
	pthread_mutex_unlock(&c->client->lock);
	if (verdict == CLIENT_REPEAT) {
		rpc_count(&w->counters.repeats, 1);
		rpc_reply_write(w, r, q, &said);
	} else {
		rpc_reply_status(w, r, q, verdict_status(verdict));
	}
	return false;
}

bool rpc_patience_over(const struct rpc_worker *w, const struct rpc_request *q)
{
	return q->waited_ms && q->waited_ms >= reclaim_patience_ms(w->store.store->reclaim);
}

/*
 * There is no memory (-ENOMEM), too much waits for grace periods (-EBUSY), or memory grows
 * (-EAGAIN). Where some is on its way the client is told to come again, for as long as sessions may
 * take to let go of it, or to be fenced; and so at the first time, as what was missing may have
 * come since. Anything else is its own status.
 */
static int short_status(struct rpc_worker *w, const struct rpc_request *q, int rc)
{
	bool comes;

	if (rc != -ENOMEM && rc != -EBUSY && rc != -EAGAIN)
		return rc;
	comes = rc == -EAGAIN || reclaim_wanting(w->store.store->reclaim) ||
		store_sweeps(w->store.store);
	if (rc == -ENOMEM && !comes && q->waited_ms)
		return -ENOMEM;
	return rpc_patience_over(w, q) ? -ENOMEM : -EBUSY;
}

/* Nothing found by look-up is held here. */
static void growth_wait(struct rpc_worker *w)
{
	qsbr_offline();
	memory_growth_wait(w->store.store->memory, GROWTH_WAIT_MS);
	qsbr_online();
}

static struct store_terms terms_of(const struct rpc_worker *w, const struct rpc_request *q)
{
	return (struct store_terms){
		.condition = (enum rpc_condition)q->condition,
		.version = q->condition == RPC_IF_VERSION ? q->operand : 0,
		.now_ms = time_wall_ms(),
		.force = rpc_patience_over(w, q),
	};
}

static uint64_t expiry_of(const struct rpc_request *q)
{
	return q->ttl_ms ? store_expiry(time_wall_ns(), q->ttl_ms) : 0; /* most ask no clock */
}

/* What is to be remembered and said of a write that ended with @status. */
static void take_result(struct client_reply *said, int status, const struct store_result *result)
{
	said->status = status;
	if (status == 0 || status == -EEXIST)
		said->version = result->version;
	if (status)
		return;
	said->index_slot = result->slot;
	said->incarnation = result->incarnation;
	said->expiry_ms = result->expiry_ms;
	said->value_len = result->value_len;
}

/*
 * The value stands in the block: check, apply and remember in one hold of the client's lock. Where
 * memory for the index grows the lock is dropped once, and all is checked again.
 */
static void put_commit(struct rpc_worker *w, struct request *r, const struct rpc_request *q,
		       struct store_put *put)
{
	struct conn *c = r->conn;
	const struct store_terms terms = terms_of(w, q);
	struct client_reply said = { .sequence = q->sequence };
	struct store_result result;

	for (bool again = false;; again = true) {
		pthread_mutex_lock(&c->client->lock);
		if (!may_apply(w, r, q)) {
			store_put_abort(&w->store, put);
			return;
		}
		said.status = store_put_commit(&w->store, put, &terms, &result);
		if (said.status != -EAGAIN || again)
			break;
		pthread_mutex_unlock(&c->client->lock);
		growth_wait(w);
	}
	if (said.status == -EAGAIN)
		store_put_abort(&w->store, put);
	said.status = short_status(w, q, said.status);
	if (said.status == -EBUSY) { /* not applied, and nothing to remember: it comes again */
		pthread_mutex_unlock(&c->client->lock);
		rpc_reply_status(w, r, q, -EBUSY);
		return;
	}
	take_result(&said, said.status, &result);
	client_store(c->client, c->handle, r->slot, &said);
	pthread_mutex_unlock(&c->client->lock);
	rpc_reply_write(w, r, q, &said);
}

/* Take a block, waiting a little for growth where it is under way. */
static int put_begin(struct rpc_worker *w, const struct rpc_request_view *view,
		     struct store_put *put)
{
	const struct rpc_request *q = view->header;

	for (bool again = false;; again = true) {
		int rc = store_put_begin(&w->store, view->key, q->key_len, q->value_len,
					 expiry_of(q), put);

		if (rc != -EAGAIN || again)
			return short_status(w, q, rc);
		growth_wait(w);
	}
}

/*
 * Do not take memory, or pull a value, for what was done already or will not be: a full store would
 * call itself full where the record that is there decides. True: the reply is sent.
 */
static bool put_is_over(struct rpc_worker *w, struct request *r,
			const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	const struct store_terms terms = terms_of(w, q);
	struct conn *c = r->conn;
	struct client_reply said = { .sequence = q->sequence };
	struct store_result result;
	int rc = 0;

	pthread_mutex_lock(&c->client->lock);
	if (!may_apply(w, r, q))
		return true;
	if (q->condition != RPC_ALWAYS)
		rc = store_put_refused(&w->store, view->key, q->key_len, &terms, &result);
	if (rc) {
		take_result(&said, rc, &result);
		client_store(c->client, c->handle, r->slot, &said);
	}
	pthread_mutex_unlock(&c->client->lock);
	if (rc)
		rpc_reply_write(w, r, q, &said);
	return rc != 0;
}

void rpc_put(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct store_put put;
	int rc;

	rpc_count(&w->counters.puts, 1);
	if (((q->flags & RPC_RETRY) || q->condition != RPC_ALWAYS) && put_is_over(w, r, view))
		return;
	if (!(q->flags & RPC_INLINE_VALUE) && store_put_waits(&w->store, view->key, q->key_len))
		rc = short_status(w, q, -EBUSY); /* it would be pulled in vain */
	else
		rc = put_begin(w, view, &put);
	if (rc) {
		rpc_reply_status(w, r, q, rc == -E2BIG ? -EINVAL : rc);
		return;
	}
	if (!(q->flags & RPC_INLINE_VALUE)) {
		r->header = *q;
		r->put = put;
		r->state = REQUEST_PULLING;
		rpc_count(&w->counters.pulled_bytes, q->value_len);
		rpc_queue_add(w, r);
		return;
	}
	memcpy(put.block->data + q->key_len, view->value, q->value_len);
	put_commit(w, r, q, &put);
}

void rpc_pulled(struct rpc_worker *w, struct request *r, bool ok)
{
	const uint8_t *value = r->put.block->data + r->header.key_len;

	r->state = REQUEST_IDLE;
	if (!ok) {
		store_put_abort(&w->store, &r->put);
		rpc_conn_lost(w, r->conn, "its value could not be read");
	} else if (hash_bytes(value, r->header.value_len) != r->header.value_hash) {
		store_put_abort(&w->store, &r->put);
		rpc_reply_status(w, r, &r->header, -EBADMSG);
	} else {
		put_commit(w, r, &r->header, &r->put);
	}
}

void rpc_del(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct conn *c = r->conn;
	const struct store_terms terms = terms_of(w, q);
	struct client_reply said = { .sequence = q->sequence };
	struct store_result result;

	rpc_count(&w->counters.dels, 1);
	pthread_mutex_lock(&c->client->lock);
	if (!may_apply(w, r, q))
		return;
	said.status = store_del(&w->store, view->key, q->key_len, &terms, &result);
	if (said.status == -EBUSY) {
		pthread_mutex_unlock(&c->client->lock);
		reclaim_wanting(w->store.store->reclaim);
		rpc_reply_status(w, r, q, -EBUSY);
		return;
	}
	take_result(&said, said.status, &result);
	client_store(c->client, c->handle, r->slot, &said);
	pthread_mutex_unlock(&c->client->lock);
	rpc_reply_write(w, r, q, &said);
}

static int update(struct rpc_worker *w, const struct rpc_request_view *view,
		  struct client_reply *said)
{
	const struct rpc_request *q = view->header;
	const struct store_terms terms = terms_of(w, q);
	struct store_result result;
	int rc;

	if (q->op == RPC_INCR)
		rc = store_incr(&w->store, view->key, q->key_len, (int64_t)q->operand, &terms,
				&said->number, &result);
	else
		rc = store_touch(&w->store, view->key, q->key_len, expiry_of(q), &terms, &result);
	take_result(said, rc, &result);
	return rc;
}

void rpc_update(struct rpc_worker *w, struct request *r, const struct rpc_request_view *view)
{
	const struct rpc_request *q = view->header;
	struct conn *c = r->conn;
	struct client_reply said = { .sequence = q->sequence };

	rpc_count(&w->counters.updates, 1);
	for (bool again = false;; again = true) {
		pthread_mutex_lock(&c->client->lock);
		if (!may_apply(w, r, q))
			return;
		if (update(w, view, &said) != -EAGAIN || again)
			break;
		pthread_mutex_unlock(&c->client->lock);
		growth_wait(w);
	}
	said.status = short_status(w, q, said.status);
	if (said.status != -EBUSY) /* not applied, and nothing to remember: it comes again */
		client_store(c->client, c->handle, r->slot, &said);
	pthread_mutex_unlock(&c->client->lock);
	rpc_reply_write(w, r, q, &said);
}
