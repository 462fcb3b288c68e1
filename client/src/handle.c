/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/handle.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/src/async.h"
#include "client/src/clock.h"
#include "client/src/trace.h"

#define DEPTH_DEFAULT 64u
#define OWN_YIELDS    100u
#define OWN_PAUSE_NS  50000

static_assert(HANDLE_CREDITS <= RPC_SLOTS_MAX, "credits");
static_assert(READER_SCRATCH_BYTES >= ROOT_BYTES, "scratch");
static_assert(READER_BATCH <= UINT8_MAX, "batch");

int handle_foreign(struct gkv *h)
{
	return error_set(&h->error, -EPERM,
			 "the session belongs to the parent of this process (open another one "
			 "after fork())");
}

uintptr_t handle_thread(void)
{
	static _Thread_local char here;

	return (uintptr_t)&here;
}

int handle_visiting(struct gkv *h)
{
	/* relaxed: as handle_begin() */
	if (atomic_load_explicit(&h->visitor, memory_order_relaxed) != handle_thread())
		return -EBUSY;
	return error_set(&h->error, -EDEADLK,
			 "the call was made from this handle's own gkv_visit (use another handle "
			 "there, or gkv_scan_next())");
}

int handle_own(struct gkv *h)
{
	const struct timespec pause = { 0, OWN_PAUSE_NS };
	uint32_t owner;

	for (unsigned i = 0;; i++) {
		owner = OWNER_NONE;
		/* acquire pairs with handle_end() and the housekeeper's: all that it did */
		if (atomic_compare_exchange_strong_explicit(&h->owner, &owner, OWNER_CALL,
							    memory_order_acquire,
							    memory_order_relaxed))
			return 0;
		if (owner == OWNER_CALL)
			return -EBUSY;
		if (i < OWN_YIELDS)
			sched_yield();
		else /* ours may be a thread that the housekeeper's does not get past */
			nanosleep(&pause, NULL);
	}
}

int handle_key(struct gkv *h, const void *key, size_t key_len)
{
	if (key && key_len >= KEY_MIN && key_len <= KEY_MAX)
		return 0;
	return error_set(&h->error, -EINVAL,
			 key ? "the key has %zu bytes, it must have 1 to %u"
			     : "the key is NULL (length %zu, at most %u)",
			 key_len, KEY_MAX);
}

void sections_repin(struct gkv *h)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i < HANDLE_SECTIONS; i++) {
		if (h->pin[i] && h->pin[i] < oldest)
			oldest = h->pin[i];
	}
	epochs_unpin(&h->session->epochs, h->number, oldest);
}

static void use_arena(struct gkv *h)
{
	h->reader.fetch.arena = h->arena.addr;
	h->reader.fetch.arena_len = h->arena.len;
	h->reader.fetch.arena_lkey = h->arena.region.lkey;
	h->reader.fetch.batch_bytes = READER_ARENA_BYTES;
}

int handle_grow(struct gkv *h, struct rdma_buffer *buffer, size_t len, unsigned access,
		const char *what)
{
	struct rdma_buffer larger;
	size_t want = buffer->len ? buffer->len : HANDLE_STAGING_MIN;
	int rc;

	while (want < len)
		want *= 2;
	rc = rdma_buffer_create(h->session->dev, want, access, what, &larger, &h->error);
	if (rc)
		return rc == -EAGAIN ? -ENOMEM : rc; /* either is RLIMIT_MEMLOCK */
	rdma_buffer_destroy(buffer);
	*buffer = larger;
	return 0;
}

static int grow_arena(void *ctx, struct fetch *f, size_t bytes)
{
	struct gkv *h = ctx;
	int rc;

	if (f != &h->reader.fetch)
		return lane_grow(h, f, bytes);
	rc = handle_grow(h, &h->arena, bytes, IBV_ACCESS_LOCAL_WRITE, "a buffer for values");
	if (rc == 0)
		use_arena(h);
	return rc;
}

int handle_staging(struct gkv *h, size_t len)
{
	assert(h->staging_slot == STAGING_FREE);
	if (len <= h->staging.len)
		return 0;
	return handle_grow(h, &h->staging, len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE,
			   "staging memory for values");
}

static const struct reader_ops handle_reader_ops = {
	.read = channel_read,
	.grow = grow_arena,
	.clock_ms = clock_estimate,
};

static void buffers_destroy(struct gkv *h)
{
	rdma_buffer_destroy(&h->staging);
	rdma_buffer_destroy(&h->arena);
	rdma_buffer_destroy(&h->requests);
	rdma_buffer_destroy(&h->fetch);
}

int handle_fetch_create(struct gkv *h)
{
	int rc = rdma_buffer_create(h->session->dev, FETCH_BYTES, IBV_ACCESS_LOCAL_WRITE,
				    "a handle's buffers", &h->fetch, &h->error);

	if (rc)
		return rc;
	h->reader.fetch.buckets = h->fetch.addr;
	h->reader.fetch.buckets_lkey = h->fetch.region.lkey;
	h->reader.scratch = (uint8_t *)h->fetch.addr + FETCH_SCRATCH;
	h->reader.scratch_lkey = h->fetch.region.lkey;
	return 0;
}

static int buffers_create(struct gkv *h)
{
	const struct rdma_device *dev = h->session->dev;
	int rc;

	rc = handle_fetch_create(h);
	if (rc == 0)
		rc = rdma_buffer_create(dev, HANDLE_CREDITS * RPC_REQUEST_MAX,
					IBV_ACCESS_LOCAL_WRITE, "a handle's requests", &h->requests,
					&h->error);
	if (rc == 0)
		rc = rdma_buffer_create(dev, READER_ARENA_BYTES, IBV_ACCESS_LOCAL_WRITE,
					"a buffer for values", &h->arena, &h->error);
	if (rc) {
		buffers_destroy(h);
		return rc;
	}
	use_arena(h);
	return 0;
}

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

static int handle_open(struct gkv *h, bool unread)
{
	struct gkv_session *s = h->session;
	int rc;

	rc = take_number(h);
	if (rc) {
		session_failed(s, &h->error);
		return rc;
	}
	rc = buffers_create(h);
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
	buffers_destroy(h);
err_number:
	session_failed(s, &h->error);
	figures_retire(h);
	housekeeper_leave(s);
	session_release_handle(s, h->number);
	return rc;
}

struct gkv *handle_new(struct gkv_session *s, unsigned number, unsigned credits_wish)
{
	struct gkv *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->session = s;
	h->number = number;
	h->credits_wish = credits_wish;
	h->lifeline = -1;
	h->staging_slot = STAGING_FREE;
	h->spin_polls = channel_spin_polls();
	h->reader.ops = &handle_reader_ops;
	h->reader.ctx = h;
	h->reader.err = &h->error;
	h->reader.hints = s->hints.set ? &s->hints : NULL;
	h->owned = s->settings.flags & GKV_CHECK_THREADS;
	return h;
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

/* What gkv_open() ends with before there is a handle. Returns @code, with session->failed. */
static int refuse_open(struct gkv_session *s, int code, const char *words)
{
	struct error err = { 0 };

	error_set(&err, code, "%s", words);
	session_failed(s, &err);
	return code;
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
	h = handle_new(session, 0, HANDLE_CREDITS); /* its number is taken in a moment */
	if (!h)
		return refuse_open(session, -ENOMEM, "out of memory for a handle");
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
	struct gkv *h = handle_new(s, 0, HANDLE_CREDITS);
	int rc;

	if (!h)
		return refuse_open(s, -ENOMEM, "out of memory for a handle");
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
		session_async_remove(s, number);
		connector_end(h->async);
	}
	handle_leave(h);
	handle_disconnect(h);
	async_destroy(h->async);
	reader_drop(&h->reader);
	buffers_destroy(h);
	figures_retire(h);
	free(h);
	housekeeper_leave(s);
	session_release_handle(s, number);
}
