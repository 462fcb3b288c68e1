/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes, applied exactly once.
 *
 * ONE HOLD. A client's lock is held from decide() to remember(): the generation is checked, a
 * remembered reply is looked for, the write is applied, and its reply is remembered. Whoever fences
 * the session takes the same lock to clear the generation. So a write of the old session is either
 * applied and remembered before the fence, and a retry finds its reply, or it finds the generation
 * gone and changes nothing. Two frames of one request cannot both find no reply.
 *
 * NOT NOW. -EBUSY, and -ENOSPC and -EROFS of the log, are not remembered: nothing was applied, and
 * the client asks again, or is told why not and may.
 *
 * WITH A LOG apply() ends with the record's place in the log, the reply slot says that the request
 * is pending, and the lock goes. Publishing, remembering and the answer follow (write_log.c). A
 * retry that comes meanwhile finds the slot pending, and waits as well.
 *
 * The value of a large PUT or APPEND is fetched between write_take() and write_run(), and hashed,
 * without the lock, for which the client's other writes wait, on whichever worker. Before memory is
 * taken for it, is_over() looks up a retry, and a record that makes the condition fail.
 */
#include "server/write/write_internal.h"

#include <errno.h>

#include "common/base/time.h"
#include "server/reclaim/qsbr.h"

/* For memory that grows. The worker's other clients wait as well, so not again for a while. */
#define GROWTH_WAIT_MS	10u
#define GROWTH_PAUSE_MS 90u

/* Must hold the client's lock. Its first try is pending. */
static void await_first_try(struct write_door *d, struct write *w)
{
	struct write_waiting *x = waiting_take(d, w);

	if (!x) {
		w->result.status = -EBUSY;
		return;
	}
	waiting_join(d, w, x, FOR_FIRST_TRY);
	waiting_end(d, w, x);
}

/*
 * Must hold the client's lock. Returns true where the write is to be applied; false where the
 * result is there already, or w->waiting is set.
 */
static bool decide(struct write_door *d, struct write *w)
{
	const struct write_request *ask = &w->ask;
	const struct client_reply *last;

	switch (client_check(ask->client, ask->generation, ask->handle, ask->slot, ask->sequence,
			     ask->retry, &last)) {
	case CLIENT_APPLY:
		return true;
	case CLIENT_WAIT:
		await_first_try(d, w);
		return false;
	case CLIENT_REPEAT:
		w->result = *last;
		w->repeated = true;
		return false;
	case CLIENT_UNKNOWN:
		w->result.status = -EREMOTEIO;
		return false;
	case CLIENT_STALE:
		w->result.status = -ESTALE;
		return false;
	}
	return false;
}

static struct store_terms terms_of(const struct write_door *d, const struct write_request *ask)
{
	return (struct store_terms){
		.condition = ask->condition,
		.version = ask->operand,
		.keep = ask->keep,
		.now_ms = ask->now_ns / NS_PER_MS,
		.force = ask->waited_ms &&
			 reclaim_patience_over(d->store->store->reclaim, ask->waited_ms),
	};
}

static uint64_t expiry_of(const struct write_request *ask)
{
	return store_expiry(ask->now_ns, ask->ttl_ms);
}

/*
 * There is no memory (-ENOMEM), too much waits for grace periods (-EBUSY), or memory grows
 * (-EAGAIN). Where some is on its way the client is told to come again, for as long as sessions may
 * take to let go of it, or to be fenced; and so at the first time, as what was missing may have
 * come since. What grows comes in any case, or fails and is no longer on its way: only the client's
 * deadline bounds that. Anything else is its own status.
 */
static int short_status(const struct write_door *d, const struct write_request *ask, int rc)
{
	struct store *s = d->store->store;
	bool comes;

	if (rc == -EAGAIN)
		return -EBUSY;
	if (rc != -ENOMEM && rc != -EBUSY)
		return rc;
	comes = reclaim_wanting(s->reclaim) || store_sweeps(s);
	if (rc == -ENOMEM && !comes && ask->waited_ms)
		return -ENOMEM;
	return reclaim_patience_over(s->reclaim, ask->waited_ms) ? -ENOMEM : -EBUSY;
}

/* False: the worker waited for another write just now, and serves others for a while. */
static bool may_wait(const struct write_door *d)
{
	return time_now_ns() >= d->growth_pause_until_ns;
}

/* Nothing found by look-up is held here. */
static void growth_wait(struct write_door *d)
{
	qsbr_offline();
	memory_growth_wait(d->store->store->memory, GROWTH_WAIT_MS);
	qsbr_online();
	d->growth_pause_until_ns = time_now_ns() + GROWTH_PAUSE_MS * NS_PER_MS;
}

static void take_result(struct client_reply *to, int rc, const struct store_result *from)
{
	if (rc == 0 || rc == -EEXIST)
		to->version = from->version;
	if (rc)
		return;
	to->index_slot = from->slot;
	to->incarnation = from->incarnation;
	to->expiry_ms = from->expiry_ms;
	to->value_len = from->value_len;
}

/* Must hold the client's lock. What the store makes of it, and its result. */
static int apply(struct write_door *d, struct write *w)
{
	const struct write_request *ask = &w->ask;
	const struct store_terms terms = terms_of(d, ask);
	struct store_result result;
	int rc = -EINVAL;

	switch (ask->op) {
	case WRITE_PUT:
		rc = store_put_publish(d->store, &w->put, &terms, &result);
		break;
	case WRITE_APPEND:
		rc = store_append_commit(d->store, &w->put, &terms, &result);
		break;
	case WRITE_DEL:
		rc = store_del(d->store, ask->key, ask->key_len, &terms, &result);
		break;
	case WRITE_INCR:
		rc = store_incr(d->store, ask->key, ask->key_len, (int64_t)ask->operand,
				expiry_of(ask), &terms, &w->result.number, &result);
		break;
	case WRITE_TOUCH:
		rc = store_touch(d->store, ask->key, ask->key_len, expiry_of(ask), &terms, &result);
		break;
	}
	if (rc == 0)
		w->put.block = NULL; /* the store's now */
	take_result(&w->result, rc, &result);
	return rc;
}

/* Nothing was applied, and another time it may be. */
static bool is_not_now(int status)
{
	return status == -EBUSY || status == -ENOSPC || status == -EROFS;
}

/* Must hold the client's lock, since decide() said yes. */
static void remember(struct write *w)
{
	const struct write_request *ask = &w->ask;

	w->result.sequence = ask->sequence;
	if (!is_not_now(w->result.status))
		client_store(ask->client, ask->handle, ask->slot, &w->result);
}

/*
 * Must hold the client's lock, since decide() said yes. Nothing was appended, and @status is the
 * result. It waits where it was judged against a write that does. @x: NULL without a log.
 */
static void conclude(struct write_door *d, struct write *w, struct write_waiting *x, int status)
{
	w->result.status = status;
	if (x && x->decision.awaits && !is_not_now(status) && !MUTANT(refuse_early))
		waiting_join(d, w, x, FOR_WRITE);
	else
		remember(w);
}

/* Must hold the client's lock, since decide() said yes. Whether the condition fails by what is
 * there, and so there is a result. */
static bool is_refused(struct write_door *d, struct write *w)
{
	const struct write_request *ask = &w->ask;
	const struct store_terms terms = terms_of(d, ask);
	struct write_waiting *x = NULL;
	struct store_result found;
	int rc;

	if (d->store->store->log) {
		x = waiting_take(d, w);
		if (!x) {
			w->result.status = -EBUSY;
			return true;
		}
	}
	rc = store_put_refused(d->store, ask->key, ask->key_len, &terms, &found);
	if (rc) {
		take_result(&w->result, rc, &found);
		conclude(d, w, x, rc);
	}
	if (x)
		waiting_end(d, w, x);
	return rc;
}

/*
 * Do not take memory, or fetch a value, for what was done already or will not be: a full store
 * would call itself full where the record that is there decides. True: there is a result, or
 * w->waiting is set.
 */
static bool is_over(struct write_door *d, struct write *w)
{
	const struct write_request *ask = &w->ask;
	bool over;

	pthread_mutex_lock(&ask->client->lock);
	over = !decide(d, w) || (ask->condition != STORE_ALWAYS && is_refused(d, w));
	pthread_mutex_unlock(&ask->client->lock);
	return over;
}

/* Take a block, waiting a little for growth where it is under way. */
static int take_block(struct write_door *d, struct write *w)
{
	const struct write_request *ask = &w->ask;
	const uint64_t expiry_ms = store_expiry(ask->now_ns, ask->ttl_ms);

	for (bool again = false;; again = true) {
		int rc = ask->op == WRITE_APPEND
				 ? store_append_begin(d->store, ask->key, ask->key_len,
						      ask->value_len, expiry_ms,
						      ask->now_ns / NS_PER_MS, &w->put)
				 : store_put_begin(d->store, ask->key, ask->key_len, ask->value_len,
						   expiry_ms, &w->put);

		if (rc != -EAGAIN || again || !may_wait(d))
			return short_status(d, ask, rc);
		growth_wait(d);
	}
}

bool write_take(struct write_door *d, struct write *w, bool fetched)
{
	const struct write_request *ask = &w->ask;
	int rc;

	if ((ask->retry || ask->condition != STORE_ALWAYS) && is_over(d, w)) {
		if (!w->waiting)
			d->answer(d, w);
		return false;
	}
	if (fetched && store_put_waits(d->store, ask->key, ask->key_len))
		rc = short_status(d, ask, -EBUSY);
	else
		rc = take_block(d, w);
	if (rc == 0)
		return true;
	w->result.status = rc == -E2BIG ? -EINVAL : rc;
	d->answer(d, w);
	return false;
}

void write_drop(struct write_door *d, struct write *w)
{
	if (w->put.block)
		store_put_abort(d->store, &w->put);
}

/*
 * Must hold the client's lock, since decide() said yes. @again: memory for the index grew already,
 * and is not waited for any more. Returns -EAGAIN: wait for it; else there is a result, or
 * w->waiting is set.
 */
static int apply_at_once(struct write_door *d, struct write *w, bool again)
{
	int rc = apply(d, w);

	if (rc == -EAGAIN && !again && may_wait(d))
		return rc;
	conclude(d, w, NULL, short_status(d, &w->ask, rc));
	return 0;
}

/* What the log's refusal means to the client. -EIO: the server ends, which is no answer. */
static int log_status(int rc)
{
	return rc == -ENOSPC || rc == -EROFS ? rc : -EBUSY;
}

/* The same, with a log. */
static int apply_logged(struct write_door *d, struct write *w, bool again)
{
	struct write_waiting *x = waiting_take(d, w);
	int rc = 0, refused;

	if (!x) {
		w->result.status = -EBUSY;
		return 0;
	}
	refused = client_log(w->ask.client, d->store->store->log);
	if (refused == 0) {
		/* The client's own record, perhaps: others may wait behind it. */
		d->appended = true;
		rc = apply(d, w);
		refused = x->decision.refused;
	}
	if (x->decision.appended) {
		waiting_join(d, w, x, FOR_LOG);
		rc = 0;
	} else if (refused) {
		conclude(d, w, x, log_status(refused));
		rc = 0;
	} else if (rc != -EAGAIN || again || !may_wait(d)) {
		conclude(d, w, x, short_status(d, &w->ask, rc));
		rc = 0;
	}
	waiting_end(d, w, x);
	return rc;
}

static int apply_once(struct write_door *d, struct write *w, bool again)
{
	return d->store->store->log ? apply_logged(d, w, again) : apply_at_once(d, w, again);
}

/* Where memory for the index grows the lock is dropped once, and all is decided again. */
void write_run(struct write_door *d, struct write *w)
{
	struct client_entry *client = w->ask.client;
	bool again = false;

	if (w->ask.op == WRITE_PUT)
		store_put_seal(&w->put);
	else if (w->ask.op == WRITE_APPEND)
		store_append_seal(d->store, &w->put, w->ask.now_ns / NS_PER_MS);
	pthread_mutex_lock(&client->lock);
	while (decide(d, w) && apply_once(d, w, again) == -EAGAIN) {
		pthread_mutex_unlock(&client->lock);
		growth_wait(d);
		pthread_mutex_lock(&client->lock);
		again = true;
	}
	pthread_mutex_unlock(&client->lock);
	write_drop(d, w);
	if (w->waiting && w->waiting->what == FOR_LOG && MUTANT(ack_before_commit))
		write_forsake(w);
	if (!w->waiting)
		d->answer(d, w);
}
