/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Requests.
 *
 *	          a slot, and staging memory where it needs that
 *	QUEUED ------------------------------------------------> SENT --> its reply: ended
 *	  ^  ^                                                    |  |
 *	  |  +------- the connection is lost, another made -------+  |
 *	  +---------- PAUSED <------------- "not now" ---------------+
 *
 * A request takes a slot and the session's next sequence number. Both stay with it until it has
 * its reply: after the loss of a connection the same pair is sent again with RPC_RETRY, and the
 * server applies it unless it remembers that it did, or answers -EREMOTEIO where it cannot know.
 * A request that was never posted is sent without the flag. Until it has ended no other call takes
 * its slot, not even over another connection: a request in a slot acknowledges the one before it
 * there, and the server would forget what it answered.
 *
 * A request whose time is over leaves its slot busy, and the staging memory with it where it
 * names that, until its reply comes late or the queue pair is destroyed (DESIGN 7.4, late
 * DMA). Its reply is then taken and dropped: it is matched by slot and sequence.
 *
 * A call that finds all slots busy, or the staging memory taken, waits until its own deadline: a
 * late reply may free one at any moment. The staging memory is one call's at a time, until that is
 * ended: its reply's value stands there. Patience with the transport (channel_patience()) is for
 * SENDs that are posted; a stopped server looks the same from here as a slow one.
 *
 * A write that is answered -EBUSY was not applied. It is sent again as another request, after a
 * pause that doubles from BUSY_FIRST_MS to BUSY_LAST_MS, and says how long it has waited: when that
 * is enough, the server ends it with -ENOMEM.
 *
 * A frame is rewritten only after the completion of its SEND and the reply were both polled.
 */
#include "client/src/request/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mutant.h"
#include "common/base/time.h"

#define ROOM_ATTEMPTS 8u /* a value may grow while we make room for it */
#define PULL_ATTEMPTS 3u
#define BUSY_FIRST_MS 1u /* pauses before a write that was answered "not now" is sent again */
#define BUSY_LAST_MS  5u
#define STALE_NS      (2 * NS_PER_MS)

/* Nothing that is on its way names its frame. */
static bool slot_idle(const struct rpc_slot *slot)
{
	return !slot->reply_due && !slot->send_due;
}

void rpc_end(struct gkv *h, struct rpc_call *c)
{
	if (!c->sequence)
		return;
	h->requests->taken[c->slot] = false;
	c->sequence = 0;
}

/* Returns 0; -EINPROGRESS: all are busy; -EREMOTEIO: a request can not be asked about again. */
static int take_slot(struct gkv *h, struct rpc_call *c)
{
	if (c->sequence && c->slot < h->link.credits)
		return slot_idle(&h->slot[c->slot]) ? 0 : -EINPROGRESS;
	if (c->sequence && c->posted)
		return error_set(&h->error, -EREMOTEIO,
				 "the server grants %u requests in flight now, so request %llu "
				 "cannot be asked about again: its outcome is unknown",
				 h->link.credits, (unsigned long long)c->sequence);
	rpc_end(h, c);
	for (unsigned i = 0; i < h->link.credits; i++) {
		if (h->requests->taken[i] || !slot_idle(&h->slot[i]))
			continue;
		h->requests->taken[i] = true;
		if (h->requests->staging_slot == i) /* of a call that has ended */
			h->requests->staging_slot = STAGING_FREE;
		c->slot = i;
		/* relaxed: the number is all that counts */
		c->sequence = atomic_fetch_add_explicit(&h->session->next_sequence, 1,
							memory_order_relaxed);
		return 0;
	}
	return -EINPROGRESS;
}

void requests_init(struct requests *r)
{
	r->staging_slot = STAGING_FREE;
}

void requests_destroy(struct requests *r)
{
	rdma_buffer_destroy(&r->staging);
}

/* Its last call has ended, and no reply comes to it any more. */
static bool staging_free(const struct gkv *h)
{
	const uint32_t slot = h->requests->staging_slot;

	return slot == STAGING_FREE || (!h->requests->taken[slot] && !h->slot[slot].reply_due);
}

size_t rpc_spare(const struct gkv *h)
{
	return staging_free(h) ? h->requests->staging.len : 0;
}

/* The staging memory, large enough, for the call's slot. Returns 0, -EINPROGRESS, -ENOMEM. */
static int take_staging(struct gkv *h, const struct rpc_call *c)
{
	struct requests *r = h->requests;
	size_t bytes = rpc_staging_bytes(c);
	int rc = 0;

	if (!bytes)
		return 0;
	if (r->staging_slot != c->slot &&
	    !staging_free(h)) /* its own, of an earlier turn, is free */
		return -EINPROGRESS;
	if (bytes > r->staging.len)
		rc = handle_grow(h, &r->staging, bytes,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_WRITE,
				 "staging memory for values");
	r->staging_slot = rc ? STAGING_FREE : c->slot;
	return rc;
}

/* Over the present connection. Returns -EINPROGRESS, or why it ends. */
static int post(struct gkv *h, struct rpc_call *c)
{
	struct rpc_slot *slot;
	uint32_t len;
	int rc;

	c->reply = NULL;
	c->result = NULL;
	if (c->server && !c->posted && c->server != h->reader.world->incarnation)
		return error_set(&h->error, -EEXIST, "another server has taken over since the get");
	rc = take_slot(h, c);
	if (rc == 0)
		rc = take_staging(h, c);
	if (rc == -ECONNRESET) /* h->link.live says so */
		return -EINPROGRESS;
	if (rc && rc != -EINPROGRESS && rc != -EREMOTEIO && c->posted) /* over another */
		return rpc_cut(h, c, rc); /* connection: it may have been applied */
	if (rc)
		return rc;
	len = rpc_frame(h, c);
	slot = &h->slot[c->slot];
	slot->sequence = c->sequence;
	slot->reply_due = slot->send_due = true;
	c->posted = true;
	c->state = RPC_SENT;
	channel_send(h, c->slot, len); /* where it fails h->link.live says so */
	return -EINPROGRESS;
}

/* Our session was ended, and the news of it is on its way. */
static void session_stale(struct gkv *h, const struct rpc_call *c)
{
	struct gkv_session *s = h->session;
	struct error ignored;

	channel_fail(h, "the server knows a newer connection of this client");
	/* an operation in flight has another poll */
	if (session_lock(s, c->deadline_ns ? time_now_ns() + STALE_NS : handle_deadline(h),
			 &ignored))
		return; /* a thread that connects holds it, and this call's time is over */
	/* relaxed: under the lock */
	if (h->link.session_number == atomic_load_explicit(&s->number, memory_order_relaxed))
		session_lost(s);
	session_unlock(s);
}

/*
 * Not now: the store has little room until sessions have announced. Ours is one of them, and may
 * have been idle: the housekeeper is not to wait. A request that changes nothing may be told so as
 * well, where the server is busy with another one like it.
 */
static void pause_busy(struct gkv *h, struct rpc_call *c)
{
	uint64_t now = time_now_ns();

	c->state = RPC_PAUSED;
	c->resume_ns = now;
	if (!c->busy_ns) {
		c->busy_ns = now;
		if (!rpc_is_write(c)) { /* most often its twin, which is soon done */
			time_yield();
			return;
		}
	}
	c->pause_ms = !c->pause_ms		       ? BUSY_FIRST_MS
		      : 2 * c->pause_ms < BUSY_LAST_MS ? 2 * c->pause_ms
						       : BUSY_LAST_MS;
	c->resume_ns = now + c->pause_ms * NS_PER_MS;
	h->session->services->nudge(h->session, rpc_deadline(h, c));
}

static bool reply_wants_another(int rc)
{
	return rc == -EMSGSIZE || rc == -EBUSY || rc == -EBADMSG || rc == -ESTALE;
}

/* A reply that asks for another try. Returns -EINPROGRESS, or the error to end with. */
static int prepare_another(struct gkv *h, struct rpc_call *c, int rc)
{
	if ((rc == -EMSGSIZE && c->reply->value_len > VALUE_MAX) ||
	    (rc == -EMSGSIZE && ++c->tries > ROOM_ATTEMPTS) ||
	    (rc == -EBADMSG && ++c->tries > PULL_ATTEMPTS))
		return rpc_refused(h, c, -EPROTO);
	if (time_now_ns() >= rpc_deadline(h, c)) /* it was answered "not now" all the time */
		return rpc_refused(h, c, rc == -EBUSY && rpc_is_write(c) ? -ENOMEM : -ETIMEDOUT);
	c->state = RPC_QUEUED;
	if (rc == -ESTALE) { /* an earlier copy may have been applied: the same number again */
		session_stale(h, c);
		return -EINPROGRESS;
	}
	if (rc == -EMSGSIZE)
		c->room = c->reply->value_len;
	if (rc == -EBUSY)
		pause_busy(h, c);
	/* It was answered, and not applied: what follows is another request. */
	rpc_end(h, c);
	c->posted = false;
	return -EINPROGRESS;
}

/* The reply has come. Returns as rpc_step(). */
static int judge(struct gkv *h, struct rpc_call *c)
{
	const struct rpc_slot *slot = &h->slot[c->slot];
	int rc = rpc_known_status(slot->reply.status);

	c->reply = &slot->reply;
	if (slot->reply.flags & RPC_INLINE_VALUE)
		c->result = slot->reply_bytes + RPC_REPLY_BYTES;
	else if (c->room && rc == 0 && slot->reply.value_len <= h->requests->staging.len)
		c->result = h->requests->staging.addr;
	if (rc == 0 || rc == -ENOENT)
		return rc;
	return reply_wants_another(rc) ? prepare_another(h, c, rc) : rpc_refused(h, c, rc);
}

int rpc_step(struct gkv *h, struct rpc_call *c)
{
	int rc;

	if (!h->link.live)
		return -EINPROGRESS;
	if (c->state == RPC_SENT) {
		if (h->slot[c->slot].reply_due)
			return -EINPROGRESS;
		rc = judge(h, c);
		if (rc != -EINPROGRESS || !h->link.live)
			return rc;
	}
	if (c->state == RPC_PAUSED) {
		if (time_now_ns() < c->resume_ns)
			return -EINPROGRESS;
		c->state = RPC_QUEUED;
	}
	return post(h, c);
}

void rpc_again(struct gkv *h, struct rpc_call *c)
{
	if (c->state == RPC_SENT)
		c->state = RPC_QUEUED;
	/* it changes nothing: any slot, another number */
	if (!c->posted || !rpc_is_write(c) || MUTANT(retry_as_new))
		rpc_end(h, c);
}

/* What kept a request from being sent: the other requests, or nothing but its own time. */
static const char *hindrance(const struct gkv *h, const struct rpc_call *c)
{
	bool sending = false;

	if (c->sequence)
		return "the server has not answered for a large value before it (is it stopped or "
		       "overloaded?)";
	for (unsigned i = 0; i < h->link.credits; i++) {
		if (h->slot[i].reply_due)
			return "the server has not answered those before it (is it stopped or "
			       "overloaded?)";
		sending |= h->slot[i].send_due;
	}
	return sending ? "those before it are answered, but the device has not told that they are "
			 "sent (is this machine overloaded?)"
		       : "give it more time";
}

static const char *time_of(const struct gkv *h, const struct rpc_call *c, char text[32])
{
	if (c->deadline_ns)
		return "in the request's time";
	snprintf(text, 32, "within %u ms", h->session->settings.timeout_ms);
	return text;
}

static int not_sent(struct gkv *h, const struct rpc_call *c)
{
	const struct settings_server *o = session_server(h->session);
	char text[32];

	return error_set(&h->error, -ETIMEDOUT, "no request could be sent to %s:%s %s: %s", o->host,
			 o->port, time_of(h, c, text), hindrance(h, c));
}

static int no_answer(struct gkv *h, const struct rpc_call *c)
{
	const struct settings_server *o = session_server(h->session);
	char text[32];

	return error_set(&h->error, -ETIMEDOUT, "the server at %s:%s did not answer %s%s", o->host,
			 o->port, time_of(h, c, text),
			 rpc_is_write(c) ? "; whether the write was applied is not known"
					 : " (is it stopped or overloaded?)");
}

int rpc_expired(struct gkv *h, struct rpc_call *c)
{
	int rc;

	if (c->state == RPC_PAUSED)
		rc = rpc_refused(h, c, rpc_is_write(c) ? -ENOMEM : -ETIMEDOUT);
	else if (c->state == RPC_QUEUED && !c->posted)
		rc = not_sent(h, c);
	else
		rc = no_answer(h, c);
	rpc_end(h, c);
	return rc;
}

int rpc_cut(struct gkv *h, struct rpc_call *c, int rc)
{
	static const char unknown[] = "whether the write was applied is not known";

	if (c->posted && rpc_is_write(c)) {
		if (strncmp(h->error.text, unknown, sizeof(unknown) - 1) != 0) /* of many */
			error_prefix(&h->error, "%s", unknown);
		if (rc != -ETIMEDOUT)
			rc = -EREMOTEIO;
	}
	rpc_end(h, c);
	return rc;
}

void rpc_note(struct gkv *h, bool writes)
{
	if (writes)
		channel_probe(h);
	epochs_note(&h->session->epochs, h->link.number);
}
