/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Opening and closing handles. */
#include "client/src/call/open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/call/ready.h"
#include "client/src/call/session.h"
#include "client/src/flight/async.h"
#include "client/src/keeper/housekeeper.h"
#include "client/src/link/trace.h"
#include "client/src/request/rpc.h"

#define DEPTH_DEFAULT 64u

/* Take a number, of as many as the server grants. Returns 0, -EUSERS or -ETIMEDOUT. */
static int take_number(struct gkv *h)
{
	struct gkv_session *s = h->session;
	unsigned number, count, limit = SESSION_HANDLES_MAX;
	int rc = session_lock(s, handle_deadline(h), &h->error);

	if (rc)
		return rc;
	if (s->connected && s->welcome.qps_max < limit)
		limit = s->welcome.qps_max;
	session_unlock(s);
	pthread_mutex_lock(&s->handles_lock);
	for (number = 0; number < limit && s->handle_taken[number]; number++)
		;
	if (number < limit) {
		s->handle_taken[number] = true;
		s->handle[number] = h;
		s->handle_count++;
	}
	count = s->handle_count;
	pthread_mutex_unlock(&s->handles_lock);
	h->number = number;
	if (number < limit)
		return 0;
	return error_set(&h->error, -EUSERS,
			 "the session has %u handles already (close one, or open another session)",
			 count);
}

/*
 * READ root and directory: the first use of the queue pair, so part of connecting. The lock is
 * taken for whoever listens, so that he hears one call at a time.
 */
static int handle_prepare(struct gkv *h)
{
	static const uint64_t magic = ROOT_MAGIC;
	struct gkv_session *s = h->session;
	bool told = s->settings.trace && session_lock(s, handle_deadline(h), &h->error) == 0;
	int rc;

	if (told) {
		trace_begin(s, "root");
		session_unlock(s);
	}
	section_open(h, SECTION_CALL);
	rc = reader_prepare(&h->reader);
	section_close(h, SECTION_CALL);
	if (rc) {
		error_prefix(&h->error, "reading the server's root page, step root");
	} else if (told && session_lock(s, handle_deadline(h), &h->error) == 0) {
		/* other threads may have connected meanwhile; relaxed: as trace_begin() */
		atomic_store_explicit(&s->step, "root", memory_order_relaxed);
		trace_done(s,
			   "%" PRIu64 " one-sided READs: root page at 0x%" PRIx64
			   " with magic %.8s and layout %u; directory of depth %u",
			   h->reader.stats.reads, h->reader.world->root_addr, (const char *)&magic,
			   LAYOUT_VERSION, h->reader.dir->depth);
		trace_end(s);
		session_unlock(s);
	}
	return rc;
}

/* What gkv_open() ends with before there is a handle. Returns @code, with session->failed. */
static int refuse_open(struct gkv_session *s, int code, const char *words)
{
	struct error err = { 0 };

	error_set(&err, code, "%s", words);
	session_failed(s, &err);
	return code;
}

/* What each room keeps of a handle, in one piece of memory. */
struct parts {
	struct gkv h;
	struct requests requests;
};

/* NULL: no memory; session->failed says so. Its number is taken in a moment. */
static struct gkv *parts_new(struct gkv_session *s)
{
	struct parts *parts = calloc(1, sizeof(*parts));

	if (!parts) {
		refuse_open(s, -ENOMEM, "out of memory for a handle");
		return NULL;
	}
	handle_init(&parts->h, s, 0, HANDLE_CREDITS);
	parts->h.requests = &parts->requests;
	requests_init(&parts->requests);
	return &parts->h;
}

static int handle_open(struct gkv *h, bool unread)
{
	struct gkv_session *s = h->session;
	int rc;

	rc = take_number(h);
	if (rc) {
		session_failed(s, &h->error);
		return rc;
	}
	rc = handle_buffers_create(h);
	if (rc)
		goto err_number;
	for (;;) {
		rc = handle_ready(h);
		if (rc)
			goto err_disconnect;
		rc = unread ? 0 : handle_prepare(h);
		if (rc == 0)
			break;
		if (rc != -ECONNRESET || time_now_ns() >= handle_deadline(h))
			goto err_disconnect;
	}
	rc = housekeeper_begin(s, handle_deadline(h), &h->error);
	if (rc == 0)
		return 0;
	handle_leave(h);

err_disconnect:
	handle_disconnect(h);
	reader_drop(&h->reader);
	handle_buffers_destroy(h);
err_number:
	session_failed(s, &h->error);
	figures_retire(h);
	housekeeper_leave(s);
	session_release_handle(s, h->number);
	return rc;
}

void gkv_handle_options_init_sized(struct gkv_handle_options *options, size_t size)
{
	struct gkv_handle_options all = {
		.size = size < sizeof(all) ? size : sizeof(all),
		.depth = DEPTH_DEFAULT,
	};

	if (options)
		memcpy(options, &all, all.size);
}

/* Returns 0, or -EINVAL with session->failed. */
static int take_options(struct gkv_session *s, const struct gkv_handle_options *given,
			struct gkv_handle_options *out)
{
	struct error err = { 0 };

	gkv_handle_options_init(out);
	if (given && (given->size < offsetof(struct gkv_handle_options, depth) ||
		      given->size > sizeof(*out)))
		error_set(&err, -EINVAL,
			  "the handle's options have a size of %zu bytes, this library knows %zu "
			  "(call gkv_handle_options_init() first; does the header belong to this "
			  "library?)",
			  given->size, sizeof(*out));
	else if (given)
		memcpy(out, given, given->size);
	if (!err.code && (out->depth < 1 || out->depth > GKV_DEPTH_MAX))
		error_set(&err, -EINVAL, "depth is %u, it must be between 1 and %u", out->depth,
			  GKV_DEPTH_MAX);
	if (!err.code && out->no_hints > 1)
		error_set(&err, -EINVAL, "no_hints is %u, it must be 0 or 1", out->no_hints);
	if (err.code)
		session_failed(s, &err);
	return err.code;
}

int gkv_open_with(struct gkv_session *session, const struct gkv_handle_options *options,
		  struct gkv **out)
{
	struct gkv_handle_options o;
	struct gkv *h;
	int rc;

	if (!session)
		return -EINVAL;
	if (session_foreign(session)) /* its locks may be held, by threads that are not here */
		return -EPERM;
	if (!out)
		return refuse_open(session, -EINVAL,
				   "there is no place for the handle (out is NULL)");
	rc = take_options(session, options, &o);
	if (rc)
		return rc;
	h = parts_new(session);
	if (!h)
		return -ENOMEM;
	if (o.no_hints)
		h->reader.hints = NULL;
	h->depth = o.depth;
	h->reads_max = o.depth < HANDLE_READS_MAX ? o.depth : HANDLE_READS_MAX;
	rc = handle_open(h, false);
	if (rc)
		free(h);
	else
		*out = h;
	return rc;
}

int handle_open_unread(struct gkv_session *s, struct gkv **out)
{
	struct gkv *h = parts_new(s);
	int rc;

	if (!h)
		return -ENOMEM;
	h->reader.hints = NULL;
	rc = handle_open(h, true);
	if (rc)
		free(h);
	else
		*out = h;
	return rc;
}

int gkv_open(struct gkv_session *session, struct gkv **out)
{
	return gkv_open_with(session, NULL, out);
}

void gkv_close(struct gkv *h)
{
	struct gkv_session *s;
	unsigned number;

	if (!h || session_foreign(h->session)) /* a child has nothing of its own in it */
		return;
	s = h->session;
	number = h->number;
	if (h->async) {
		flights_remove(h);
		connector_end(h->async);
	}
	handle_leave(h);
	handle_disconnect(h);
	async_destroy(h->async);
	reader_drop(&h->reader);
	handle_buffers_destroy(h);
	requests_destroy(h->requests);
	figures_retire(h);
	free(h);
	housekeeper_leave(s);
	session_release_handle(s, number);
}
