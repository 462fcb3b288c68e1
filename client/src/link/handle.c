/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/link/handle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/link/clock.h"
#include "client/src/link/device.h"

#define OWN_YIELDS   100u
#define OWN_PAUSE_NS 50000

static_assert(HANDLE_CREDITS <= RPC_SLOTS_MAX, "credits");
static_assert(READER_SCRATCH_BYTES >= ROOT_BYTES, "scratch");
static_assert(READER_BATCH <= UINT8_MAX, "batch");

int handle_foreign(struct gkv *h)
{
	return session_usable(h->session, &h->error);
}

uintptr_t handle_thread(void)
{
	static _Thread_local char here;

	return (uintptr_t)&here;
}

int handle_visiting(struct gkv *h)
{
	/* relaxed: as handle_begin() */
	if (atomic_load_explicit(&h->call.visitor, memory_order_relaxed) != handle_thread())
		return -EBUSY;
	return error_set(&h->error, -EDEADLK,
			 "the call was made from this handle's own gkv_visit (use another handle "
			 "there, or gkv_scan_next())");
}

int handle_own(struct gkv *h)
{
	uint32_t owner;

	for (unsigned i = 0;; i++) {
		owner = OWNER_NONE;
		/* acquire pairs with handle_end() and the housekeeper's: all that it did */
		if (atomic_compare_exchange_strong_explicit(&h->call.owner, &owner, OWNER_CALL,
							    memory_order_acquire,
							    memory_order_relaxed))
			return 0;
		if (owner == OWNER_CALL)
			return -EBUSY;
		if (i < OWN_YIELDS)
			time_give_way();
		else /* ours may be a thread that the housekeeper's does not get past */
			time_sleep(OWN_PAUSE_NS);
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
	epochs_unpin(&h->session->epochs, h->link.number, oldest);
}

static void use_arena(struct gkv *h)
{
	h->reader.fetch.arena = h->arena.addr;
	h->reader.fetch.arena_len = h->arena.len;
	h->reader.fetch.arena_lkey = h->arena.region.lkey;
	h->reader.fetch.batch_bytes = READER_ARENA_BYTES;
}

int handle_buffer(struct gkv *h, struct rdma_buffer *buffer, size_t len, unsigned access,
		  const char *what)
{
	int rc = rdma_buffer_create(h->device->rdma, len, access, what, buffer, &h->error);

	if (rc == -EAGAIN || rc == -ENOMEM)
		return -ENOMEM; /* either is RLIMIT_MEMLOCK */
	if (rc && session_device_gone(h->session, h->device))
		return channel_fail(h, "its device has failed");
	return rc;
}

int handle_grow(struct gkv *h, struct rdma_buffer *buffer, size_t len, unsigned access,
		const char *what)
{
	struct rdma_buffer larger;
	size_t want = buffer->len ? buffer->len : HANDLE_BUFFER_MIN;
	int rc;

	while (want < len)
		want *= 2;
	rc = handle_buffer(h, &larger, want, access, what);
	if (rc)
		return rc;
	rdma_buffer_destroy(buffer);
	*buffer = larger;
	return 0;
}

/* The fetch buffer's grow. */
static int grow_arena(struct fetch *f, size_t bytes)
{
	struct gkv *h = f->owner;
	int rc;

	rc = handle_grow(h, &h->arena, bytes, IBV_ACCESS_LOCAL_WRITE, "a buffer for values");
	if (rc == 0)
		use_arena(h);
	return rc;
}

void handle_disconnect(struct gkv *h)
{
	const bool before = h->down;

	h->link.live = false;
	h->down = true;
	if (!before) {
		h->why = h->link.lost;
		if (!h->why.code)
			error_set(&h->why, -ECONNRESET, "the connection to %s:%s was lost",
				  session_server(h->session)->host,
				  session_server(h->session)->port);
	}
	if (!before && h->on_lost)
		h->on_lost(h);
	link_close(&h->link);
	for (unsigned i = 0; i < HANDLE_CREDITS; i++)
		h->slot[i].reply_due = h->slot[i].send_due = false;
}

void handle_enter(struct gkv *h)
{
	h->down = false;
	if (h->reader.world == h->link.world)
		return;
	reader_drop(&h->reader); /* what was found in another life means nothing in this one */
	h->reader.world = world_get(h->link.world);
	h->call.clock_at_ns = 0;
}

static const struct reader_ops handle_reader_ops = {
	.read = channel_read,
	.clock_ms = clock_estimate,
};

static int fetch_create(struct gkv *h)
{
	int rc = rdma_buffer_create(h->device->rdma, FETCH_BYTES, IBV_ACCESS_LOCAL_WRITE,
				    "a handle's buffers", &h->fetch, &h->error);

	if (rc)
		return rc;
	h->reader.fetch.buckets = h->fetch.addr;
	h->reader.fetch.buckets_lkey = h->fetch.region.lkey;
	h->reader.scratch = (uint8_t *)h->fetch.addr + FETCH_SCRATCH;
	h->reader.scratch_lkey = h->fetch.region.lkey;
	return 0;
}

void handle_init(struct gkv *h, struct gkv_session *s, unsigned number, unsigned credits_wish)
{
	h->session = s;
	h->link = (struct link){
		.session = s,
		.number = number,
		.credits_wish = credits_wish,
		.lifeline = -1,
		.fetch = &h->fetch,
		.err = &h->error,
	};
	h->reader.ops = &handle_reader_ops;
	h->reader.ctx = h;
	h->reader.fetch.grow = grow_arena;
	h->reader.fetch.owner = h;
	h->reader.err = &h->error;
	h->reader.hints = s->hints.set ? &s->hints : NULL;
	h->call.owned = s->settings.flags & GKV_CHECK_THREADS;
}

void handle_buffers_destroy(struct gkv *h)
{
	rdma_buffer_destroy(&h->arena);
	rdma_buffer_destroy(&h->frames);
	rdma_buffer_destroy(&h->fetch);
	session_device_put(h->session, h->device); /* its last memory is gone */
	h->device = NULL;
}

/* The housekeeper sends no requests, and reads no values. */
static int buffers_create(struct gkv *h)
{
	const struct rdma_device *dev = h->device->rdma;
	int rc = fetch_create(h);

	if (rc || h->link.number == HOUSEKEEPER_QP)
		return rc;
	rc = rdma_buffer_create(dev, HANDLE_CREDITS * RPC_REQUEST_MAX, IBV_ACCESS_LOCAL_WRITE,
				"a handle's requests", &h->frames, &h->error);
	if (rc == 0)
		rc = rdma_buffer_create(dev, READER_ARENA_BYTES, IBV_ACCESS_LOCAL_WRITE,
					"a buffer for values", &h->arena, &h->error);
	if (rc)
		return rc;
	use_arena(h);
	return 0;
}

int handle_follow(struct gkv *h)
{
	struct gkv_session *s = h->session;
	struct session_device *to = session_device_get(s), *from = h->device;
	int rc;

	assert(!h->link.qp.qp);
	if (!to || to == from) { /* none: the next attempt to connect opens one */
		session_device_put(s, to);
		return 0;
	}
	h->device = NULL; /* no memory is left behind on it; it is closed last */
	s->services->follow(h);
	handle_buffers_destroy(h);
	h->device = to;
	h->call.spin_polls = channel_spin_polls(to->rdma);
	h->call.near = to->rdma->software;
	rc = buffers_create(h);
	if (rc == 0)
		rc = s->services->follow(h);
	if (rc && session_device_gone(s, to))
		rc = -ESTALE;
	if (rc)
		handle_buffers_destroy(h);
	else
		h->reader.device = to;
	session_device_put(s, from);
	return rc;
}
