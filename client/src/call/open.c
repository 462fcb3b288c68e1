/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Opening and closing handles. */
#include "client/src/call/open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/base/options.h"
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
	h->link.number = number;
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

/* What each room keeps of a handle, in one piece of memory. */
struct parts {
	struct gkv h;
	struct requests requests;
};

/* NULL: no memory. Its number is taken in a moment. */
static struct gkv *parts_new(struct gkv_session *s)
{
	struct parts *parts = calloc(1, sizeof(*parts));

	if (!parts)
		return NULL;
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
	if (rc)
		return rc;
	rc = handle_follow(h);
	if (rc && rc != -ESTALE) /* where the device has failed it follows to the next one */
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
	link_leave(&h->link);

err_disconnect:
	handle_disconnect(h);
	reader_drop(&h->reader);
	handle_buffers_destroy(h);
err_number:
	figures_retire(h);
	housekeeper_leave(s);
	session_release_handle(s, h->link.number);
	return rc;
}

static int check_options(const struct gkv_handle_options *o, struct error *err)
{
	if (o->depth > GKV_DEPTH_MAX)
		return error_set(err, -EINVAL, "depth is %u, it must be at most %u (0: %u)",
				 o->depth, GKV_DEPTH_MAX, DEPTH_DEFAULT);
	if (o->flags & ~GKV_NO_HINTS)
		return error_set(err, -EINVAL,
				 "the handle's flags are 0x%x, known are 0x%x (GKV_NO_HINTS)",
				 o->flags, GKV_NO_HINTS);
	if (options_reserved(o->reserved, sizeof(o->reserved)))
		return error_set(err, -EINVAL,
				 "a reserved field of the handle's options is not 0 (zero them "
				 "before you set fields)");
	return 0;
}

/* @unread: see handle_open_unread(). Returns 0, or a negative errno with the sentence. */
static int create(struct gkv_session *s, const struct gkv_handle_options *o, bool unread,
		  struct gkv **out, struct error *err)
{
	struct gkv *h = parts_new(s);
	int rc;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory for a handle");
	if (o->flags & GKV_NO_HINTS)
		h->reader.hints = NULL;
	h->depth = o->depth ? o->depth : DEPTH_DEFAULT;
	h->link.reads_max = h->depth < HANDLE_READS_MAX ? h->depth : HANDLE_READS_MAX;
	rc = handle_open(h, unread);
	if (rc) {
		*err = h->error;
		free(h);
	} else {
		*out = h;
	}
	return rc;
}

int gkv_open(struct gkv_session *session, const struct gkv_handle_options *options,
	     struct gkv **out, char *why, size_t cap)
{
	static const struct gkv_handle_options defaults;
	const struct gkv_handle_options *o = options ? options : &defaults;
	struct error err = { 0 };
	int rc = session_usable(session, &err);

	if (out)
		*out = NULL;
	else if (rc == 0)
		rc = error_set(&err, -EINVAL, "there is no place for the handle (out is NULL)");
	if (rc == 0)
		rc = check_options(o, &err);
	if (rc == 0)
		rc = create(session, o, false, out, &err);
	return error_tell(&err, rc, why, cap);
}

int handle_open_unread(struct gkv_session *s, struct gkv **out, struct error *err)
{
	static const struct gkv_handle_options no_hints = { .flags = GKV_NO_HINTS };

	return create(s, &no_hints, true, out, err);
}

int gkv_connect(const char *server, const struct gkv_options *options, struct gkv **out, char *why,
		size_t cap)
{
	struct gkv_session *session;
	struct gkv_options o;
	int rc;

	if (options)
		o = *options;
	else
		gkv_options_init(&o);
	if (server)
		o.server = server;
	if (out)
		*out = NULL;
	rc = gkv_session_open(&o, &session, why, cap);
	if (rc)
		return rc;
	rc = gkv_open(session, NULL, out, why, cap);
	if (rc)
		gkv_session_close(session);
	return rc;
}

struct gkv_session *gkv_session_of(const struct gkv *h)
{
	return h ? h->session : NULL;
}

void gkv_close(struct gkv *h)
{
	struct gkv_session *s;
	unsigned number;

	if (!h || session_foreign(h->session)) /* a child has nothing of its own in it */
		return;
	s = h->session;
	number = h->link.number;
	if (h->async)
		flights_remove(h);
	link_leave(&h->link);
	handle_disconnect(h);
	async_destroy(h->async);
	reader_drop(&h->reader);
	requests_destroy(h->requests);
	handle_buffers_destroy(h);
	figures_retire(h);
	free(h);
	housekeeper_leave(s);
	session_release_handle(s, number);
}

void gkv_disconnect(struct gkv *h)
{
	struct gkv_session *session = gkv_session_of(h);

	gkv_close(h);
	gkv_session_close(session);
}
