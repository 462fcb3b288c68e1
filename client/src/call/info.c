/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The server asked about itself: ping, clock, statistics, a snapshot. And errors in words,
 * version. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/call/rpc_run.h"
#include "client/src/keeper/housekeeper.h"
#include "client/src/link/clock.h"

#define STATS_ROOM (64u << 10)

int gkv_ping(struct gkv *h, uint64_t *ns)
{
	struct rpc_call c = { .op = RPC_PING };
	uint64_t start;
	int rc = handle_begin(h);

	if (rc)
		return rc;
	start = time_now_ns();
	rc = rpc_run(h, &c);
	if (rc == 0 && ns)
		*ns = time_now_ns() - start;
	return handle_end(h, rc);
}

/* What it says now; 0: not known, and the connection may be lost. */
static uint64_t clock_now(struct gkv *h)
{
	uint64_t now_ms;

	section_open(h, SECTION_CALL);
	now_ms = h->reader.ops->clock_ms(h->reader.ctx);
	section_close(h, SECTION_CALL);
	return now_ms;
}

/* Where the root does not say it a reply does, over a new connection if need be. */
static int find_out(struct gkv *h, uint64_t *ms)
{
	uint64_t now_ms;
	int rc;

	if (!ms)
		return error_set(&h->error, -EINVAL, "the place for the clock is NULL");
	do {
		struct rpc_call ping = { .op = RPC_PING };

		rc = handle_ready(h);
		if (rc)
			return rc;
		now_ms = clock_now(h);
		if (now_ms) {
			*ms = now_ms;
			return 0;
		}
		rc = rpc_run(h, &ping); /* the reply tells, in the next round */
		if (rc)
			return rc;
	} while (time_now_ns() < handle_deadline(h));
	return error_set(&h->error, -ETIMEDOUT,
			 "the server's clock could not be found out within %u ms",
			 h->session->settings.timeout_ms);
}

int gkv_clock(struct gkv *h, uint64_t *ms)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, find_out(h, ms));
}

static int server_stats(struct gkv *h, char **text)
{
	struct rpc_call c = { .op = RPC_STATS, .room = STATS_ROOM };
	uint32_t len;
	int rc;

	if (!text)
		return error_set(&h->error, -EINVAL, "the place for the text is NULL");
	rc = rpc_run(h, &c);
	if (rc)
		return rc;
	len = c.result ? c.reply->value_len : 0;
	*text = malloc((size_t)len + 1);
	if (!*text)
		return error_set(&h->error, -ENOMEM, "out of memory for %u bytes of statistics",
				 len);
	if (len)
		memcpy(*text, c.result, len);
	(*text)[len] = '\0';
	return 0;
}

int gkv_server_stats(struct gkv *h, char **text)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, server_stats(h, text));
}

static int save(struct gkv *h, uint64_t *number)
{
	struct rpc_call c = { .op = RPC_SAVE };
	int rc = rpc_run(h, &c);

	if (rc == 0 && number)
		*number = (uint64_t)c.reply->number;
	return rc;
}

int gkv_save(struct gkv *h, uint64_t *number)
{
	int rc = handle_begin(h);

	return rc ? rc : handle_end(h, save(h, number));
}

void gkv_stats_get(const struct gkv *h, struct gkv_stats *out)
{
	bool owned;

	if (!out)
		return;
	memset(out, 0, sizeof(*out));
	if (h) { /* the housekeeper may be counting */
		/* a child of fork() has no housekeeper that would give it back */
		owned = h->call.owned && !session_foreign(h->session) &&
			handle_own((struct gkv *)h) == 0;
		*out = h->reader.stats;
		if (owned)
			handle_end((struct gkv *)h, 0);
	}
}

void gkv_session_stats_get(const struct gkv_session *s, struct gkv_session_stats *out)
{
	if (!out)
		return;
	memset(out, 0, sizeof(*out));
	if (s) {
		/* relaxed: figures to be shown; they need not fit each other */
		out->rounds = atomic_load_explicit(&s->keeper->rounds, memory_order_relaxed);
		out->messages = atomic_load_explicit(&s->keeper->messages, memory_order_relaxed);
		out->epoch = atomic_load_explicit(&s->epochs.newest, memory_order_relaxed);
		out->announced = atomic_load_explicit(&s->epochs.announced, memory_order_relaxed);
		out->reconnects = atomic_load_explicit(&s->reconnects, memory_order_relaxed);
		out->polled = atomic_load_explicit(&s->keeper->polled, memory_order_relaxed);
		out->hint_bytes = s->hints.set ? s->hints.sets * HINT_BYTES : 0;
		out->hints = hints_count(&s->hints);
		out->hints_dropped = hints_age(&s->hints) - 1; /* the first age is 1 */
	}
}

const char *gkv_error(const struct gkv *h)
{
	return h ? h->error.text : "";
}

const char *gkv_version(void)
{
	return GRACEKV_VERSION;
}

const char *gkv_strerror(int code)
{
	switch (code) {
	case 0:
		return "success";
	case -ENOENT:
		return "no such key";
	case -EMSGSIZE:
		return "the value is longer than the buffer";
	case -EINVAL:
		return "an argument is outside its range";
	case -ETIMEDOUT:
		return "no answer in time";
	case -EREMOTEIO:
		return "outcome unknown: the write was applied once, or never";
	case -EEXIST:
		return "the key is there already, or has another version";
	case -EDOM:
		return "the value is not a number";
	case -ERANGE:
		return "a number is out of range";
	case -EDEADLK:
		return "the call was made from the handle's own gkv_visit";
	case -ESTALE:
		return "the server restarted during the scan";
	case -EPERM:
		return "the session belongs to the parent process";
	case -EBUSY:
		return "another thread is in a call on this handle, or the memory is in use";
	case -ECANCELED:
		return "cancelled, or not begun";
	case -EUSERS:
		return "no room for another session or handle";
	case -ENOSPC:
		return "the server's disk is full";
	case -EROFS:
		return "the server's group has too few servers in sync to write";
	case -EOPNOTSUPP:
		return "the server does not do that";
	case -EPROTONOSUPPORT:
		return "client and server are of different versions";
	}
	return error_name(code);
}
