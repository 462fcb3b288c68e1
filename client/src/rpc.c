/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests.
 *
 * A request takes a slot and the session's next sequence number. Both stay with it until it has
 * its reply: after the loss of a connection the same pair is sent again with RPC_RETRY, and the
 * server applies it unless it remembers that it did, or answers -EREMOTEIO where it cannot know.
 * A request that was never posted is sent without the flag.
 *
 * A request whose time is over leaves its slot busy, and the staging memory with it where it
 * names that, until its reply comes late or the queue pair is destroyed (late DMA, DESIGN
 * section 7). Its reply is then taken and dropped: it is matched by slot and sequence.
 *
 * Who finds all slots busy, or the staging memory taken, waits until its own deadline: a handle has
 * one thread, so they are those of its calls that timed out, and a late reply may free one at any
 * moment. Patience with the transport (channel_patience()) is for the SEND that a call has posted
 * itself; a stopped server looks the same from here as a slow one.
 *
 * A write that is answered -EBUSY was not applied. It is sent again as another request, after a
 * pause that doubles from BUSY_FIRST_MS to BUSY_LAST_MS, and says how long it has waited: when that
 * is enough, the server ends it with -ENOMEM.
 *
 * A frame is rewritten only after the completion of its SEND and the reply were both polled.
 */
#include "client/src/rpc.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "common/base/hash.h"

#define ROOM_ATTEMPTS 8u /* a value may grow while we make room for it */
#define PULL_ATTEMPTS 3u
#define BUSY_FIRST_MS 1u /* pauses before a write that was answered "not now" is sent again */
#define BUSY_LAST_MS  5u

static bool is_write(const struct rpc_call *c)
{
	return c->op == RPC_PUT || c->op == RPC_DEL || c->op == RPC_INCR || c->op == RPC_TOUCH;
}

static bool slot_free(const struct rpc_slot *slot)
{
	return !slot->reply_due && !slot->send_due;
}

static int slots_busy(struct gkv *h, const char *what)
{
	return error_set(&h->error, -ETIMEDOUT,
			 "the server at %s:%s still has %s of earlier calls, unanswered (is it "
			 "stopped or overloaded?)",
			 h->session->settings.host, h->session->settings.port, what);
}

/* Wait for a free slot; a request that is sent again has its own. */
static int take_slot(struct gkv *h, struct rpc_call *c)
{
	struct waiter w = { 0 };
	int rc;

	if (!c->posted || !is_write(c))
		c->sequence = 0; /* nobody has seen it, or it changes nothing: any slot will do */
	if (c->sequence && c->slot >= h->credits)
		return error_set(&h->error, -EREMOTEIO,
				 "the server grants %u requests in flight now, so request %llu "
				 "cannot be asked about again: its outcome is unknown",
				 h->credits, (unsigned long long)c->sequence);
	if (c->sequence) { /* every slot of a new queue pair is free */
		assert(slot_free(&h->slot[c->slot]));
		return 0;
	}
	for (;;) {
		for (unsigned i = 0; i < h->credits; i++) {
			if (slot_free(&h->slot[i])) {
				c->slot = i;
				/* relaxed: the number is all that counts */
				c->sequence = atomic_fetch_add_explicit(&h->session->next_sequence,
									1, memory_order_relaxed);
				return 0;
			}
		}
		rc = channel_progress(h, &w);
		if (rc)
			return rc == -ETIMEDOUT ? slots_busy(h, "all requests") : rc;
	}
}

/* Wait for the staging memory, make it large enough, and take it for the call's slot. */
static int take_staging(struct gkv *h, struct rpc_call *c, size_t len)
{
	struct waiter w = { 0 };
	int rc;

	while (h->staging_slot != STAGING_FREE) {
		rc = channel_progress(h, &w);
		if (rc)
			return rc == -ETIMEDOUT ? slots_busy(h, "a large value") : rc;
	}
	rc = handle_staging(h, len);
	if (rc == 0)
		h->staging_slot = c->slot;
	return rc;
}

/* Since the first "not now"; at least 1 then: 0 says that there was none. */
static uint32_t waited_ms(const struct rpc_call *c)
{
	uint64_t ms = c->busy_ns ? (time_now_ns() - c->busy_ns) / NS_PER_MS + 1 : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static struct rpc_request *frame_begin(const struct gkv *h, const struct rpc_call *c)
{
	struct rpc_request *q = handle_request_at(h, c->slot);

	*q = (struct rpc_request){
		.magic = RPC_REQUEST_MAGIC,
		.op = (uint8_t)c->op,
		.flags = c->posted && is_write(c) ? RPC_RETRY : 0,
		.slot = (uint16_t)c->slot,
		.client_id = { h->session->client_id[0], h->session->client_id[1] },
		.generation = h->generation,
		.sequence = c->sequence,
		.key_len = c->key_len,
		.value_len = c->value_len,
		.ttl_ms = c->ttl_ms,
		.waited_ms = waited_ms(c),
		.condition = c->condition,
		.operand = c->operand,
	};
	if (c->key_len)
		memcpy(q + 1, c->key, c->key_len);
	return q;
}

/* Write the frame. Returns its length, or a negative errno. */
static int build(struct gkv *h, struct rpc_call *c)
{
	struct rpc_request *q = frame_begin(h, c);
	uint32_t len = RPC_REQUEST_BYTES + c->key_len;
	size_t staged = c->op == RPC_PUT && c->value_len > RPC_EAGER_MAX ? c->value_len : c->room;
	int rc;

	if (c->op == RPC_PUT && c->value_len <= RPC_EAGER_MAX) {
		q->flags |= RPC_INLINE_VALUE;
		if (c->value_len)
			memcpy((uint8_t *)q + len, c->value, c->value_len);
		return (int)(len + c->value_len);
	}
	if (!staged)
		return (int)len;
	rc = take_staging(h, c, staged);
	if (rc)
		return rc;
	if (c->op == RPC_PUT) {
		memcpy(h->staging.addr, c->value, c->value_len);
		q->value_hash = hash_bytes(h->staging.addr, c->value_len);
	}
	q->staging_addr = (uintptr_t)h->staging.addr;
	q->staging_len = (uint32_t)h->staging.len;
	q->staging_rkey = h->staging.region.rkey;
	return (int)len;
}

/* A status that a server gives (wire_rpc.h); anything else would be taken for one of ours. */
static int known_status(int status)
{
	switch (status) {
	case 0:
	case -ENOENT:
	case -ENOMEM:
	case -EINVAL:
	case -EMSGSIZE:
	case -EBADMSG:
	case -ESTALE:
	case -EREMOTEIO:
	case -EOPNOTSUPP:
	case -EBUSY:
	case -EEXIST:
	case -EDOM:
	case -ERANGE:
		return status;
	}
	return -EPROTO;
}

/* Over the present connection, once. */
static int send_once(struct gkv *h, struct rpc_call *c)
{
	struct rpc_slot *slot;
	struct waiter w = { 0 };
	int rc;

	c->reply = NULL;
	rc = take_slot(h, c);
	if (rc)
		return rc;
	rc = build(h, c);
	if (rc < 0)
		return rc;
	slot = &h->slot[c->slot];
	slot->sequence = c->sequence;
	slot->reply_due = slot->send_due = true;
	c->posted = true;
	rc = channel_send(h, c->slot, (uint32_t)rc);
	while (rc == 0 && slot->reply_due) {
		/* a reply may take its time, that the request arrived may not */
		w.patience_ns = slot->send_due ? channel_patience(h, RPC_REQUEST_MAX) : 0;
		rc = channel_progress(h, &w);
	}
	if (rc == -ETIMEDOUT)
		return error_set(&h->error, rc, "the server at %s:%s did not answer within %u ms%s",
				 h->session->settings.host, h->session->settings.port,
				 h->session->settings.timeout_ms,
				 is_write(c) ? "; whether the write was applied is not known"
					     : " (is it stopped or overloaded?)");
	if (rc)
		return rc;
	c->reply = &slot->reply;
	c->result = NULL;
	if (slot->reply.flags & RPC_INLINE_VALUE)
		c->result = slot->reply_bytes + RPC_REPLY_BYTES;
	else if (c->room && slot->reply.status == 0 && slot->reply.value_len <= h->staging.len)
		c->result = h->staging.addr;
	return known_status(slot->reply.status);
}

/* What to do, or to know, of a refusal. */
static const char *advice(const struct rpc_call *c, int rc)
{
	switch (rc) {
	case -ENOMEM:
		return " (its store is full, and nothing was changed: delete records, or start it "
		       "with more --memory)";
	case -EREMOTEIO:
		return "; the connection was lost while the request was on its way and the server "
		       "has no memory of it: it was applied once, or never";
	case -EEXIST:
		return c->condition == RPC_IF_VERSION
			       ? " (the record has another version: get it again)"
			       : " (the key is there already)";
	case -EDOM:
		return " (the value is no decimal number of 64 bits)";
	case -ERANGE:
		return " (the sum would have more than 64 bits; nothing was changed)";
	}
	return "";
}

static int refused(struct gkv *h, const struct rpc_call *c, int rc)
{
	static const char *const names[] = { "?",   "PING",  "GET",  "PUT",
					     "DEL", "STATS", "INCR", "TOUCH" };

	return error_set(&h->error, rc, "%s on the server at %s:%s failed: %s%s", names[c->op],
			 h->session->settings.host, h->session->settings.port, error_name(rc),
			 advice(c, rc));
}

/* Our session was ended, and the news of it is on its way. */
static void session_stale(struct gkv *h)
{
	struct gkv_session *s = h->session;
	struct error ignored;

	channel_fail(h, "the server knows a newer connection of this client");
	if (session_lock(s, handle_deadline(h), &ignored))
		return; /* who connects holds it, and the time of this call is over */
	/* relaxed: under the lock */
	if (h->session_number == atomic_load_explicit(&s->number, memory_order_relaxed))
		session_lost(s);
	session_unlock(s);
}

static bool reply_wants_another(int rc)
{
	return rc == -EMSGSIZE || rc == -EBUSY || rc == -EBADMSG || rc == -ESTALE;
}

/*
 * Not now: the store has little room until sessions have announced, or the request's twin is at
 * work. Ours is one of them, and may have been idle: the housekeeper is not to wait.
 */
static void pause_busy(struct gkv *h, struct rpc_call *c)
{
	uint64_t now = time_now_ns();

	if (!c->busy_ns) {
		c->busy_ns = now;
		if (!is_write(c)) { /* most often its twin, which is soon done */
			sched_yield();
			return;
		}
	}
	c->pause_ms = !c->pause_ms		       ? BUSY_FIRST_MS
		      : 2 * c->pause_ms < BUSY_LAST_MS ? 2 * c->pause_ms
						       : BUSY_LAST_MS;
	housekeeper_nudge(h->session, handle_deadline(h));
	backoff_sleep(now + c->pause_ms * NS_PER_MS, handle_deadline(h));
}

/* A reply that asks for another try. Returns 0: try; or the error to end with. */
static int prepare_another(struct gkv *h, struct rpc_call *c, int rc, unsigned *tries)
{
	if ((rc == -EMSGSIZE && c->reply->value_len > VALUE_MAX) ||
	    (rc == -EMSGSIZE && ++*tries > ROOM_ATTEMPTS) ||
	    (rc == -EBADMSG && ++*tries > PULL_ATTEMPTS))
		return refused(h, c, -EPROTO);
	if (time_now_ns() >= handle_deadline(h)) /* it was answered "not now" all the time */
		return refused(h, c, rc == -EBUSY && is_write(c) ? -ENOMEM : -ETIMEDOUT);
	if (rc == -ESTALE) { /* an earlier copy may have been applied: the same number again */
		session_stale(h);
		return 0;
	}
	if (rc == -EMSGSIZE)
		c->room = c->reply->value_len;
	if (rc == -EBUSY)
		pause_busy(h, c);
	/* It was answered, and not applied: what follows is another request. */
	c->sequence = 0;
	c->posted = false;
	return 0;
}

int rpc_run(struct gkv *h, struct rpc_call *c)
{
	unsigned tries = 0;
	int rc;

	if (is_write(c))
		channel_probe(h);
	epochs_note(&h->session->epochs, h->number);
	for (;;) {
		rc = handle_ready(h);
		if (rc && c->posted && is_write(c)) {
			error_prefix(&h->error, "whether the write was applied is not known");
			return rc == -ETIMEDOUT ? rc : -EREMOTEIO;
		}
		if (rc)
			return rc;
		rc = send_once(h, c);
		if (rc == -ECONNRESET) { /* ours alone: replies have other codes */
			if (time_now_ns() < handle_deadline(h))
				continue;
			return is_write(c) && c->posted ? -ETIMEDOUT : rc;
		}
		if (!c->reply || rc == 0 || rc == -ENOENT)
			return rc;
		if (!reply_wants_another(rc))
			return refused(h, c, rc);
		rc = prepare_another(h, c, rc, &tries);
		if (rc)
			return rc;
	}
}

int rpc_lookup(struct gkv *h, struct lookup *l, uint32_t age)
{
	struct rpc_call c = {
		.op = RPC_GET,
		.key = l->key,
		.key_len = l->key_len,
		.room = h->staging_slot == STAGING_FREE ? h->staging.len : 0,
	};
	int rc;

	h->reader.stats.rpc_fallbacks++;
	rc = rpc_run(h, &c);
	if (rc == -ENOENT) {
		l->state = LOOKUP_ABSENT;
		return 0;
	}
	if (rc)
		return rc;
	l->value = c.result;
	l->value_len = c.reply->value_len;
	l->version = c.reply->version;
	l->expiry_ms = c.reply->expiry_ms;
	if (!c.result)
		return error_set(&h->error, -EPROTO,
				 "the server answered a GET without its value (%u bytes)",
				 l->value_len);
	if (age && c.reply->index_slot)
		hints_remember(h->reader.hints, l->hash, age, c.reply->index_slot,
			       c.reply->incarnation);
	if (l->cap && l->value_len)
		memcpy(l->dest, l->value, l->value_len < l->cap ? l->value_len : l->cap);
	l->state = LOOKUP_FOUND;
	return 0;
}
