/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A handle: one queue pair with its buffers, used by one thread at a time. All of it is that
 * thread's own; what is shared lies in the session and the world.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/include/gracekv.h"
#include "client/src/know/reader.h"
#include "client/src/link/connector.h"
#include "client/src/link/link.h"
#include "common/base/error.h"
#include "common/base/time.h"
#include "common/layout/wire_rpc.h"
#include "common/rdma/region.h"

#define HANDLE_CREDITS	  8u /* requests in flight that are asked for; one call uses one */
#define HANDLE_BUFFER_MIN (64u << 10)
#define HANDLE_LANES	  8u /* chains of READs in flight, of operations that were submitted */
#define HANDLE_SECTIONS	  (1 + HANDLE_LANES)
#define SECTION_CALL	  0u /* of the call under way; lanes have the others */
#define HANDLE_READS_MAX  256u /* in flight, of operations that were submitted */

/* A request on its way. */
struct rpc_slot {
	bool reply_due; /* the server has, or will have, the request */
	bool send_due; /* the SEND's completion was not polled: its frame is not ours */
	uint64_t sequence; /* of the request in it */
	uint64_t posted_ns; /* the time before it was posted */
	union {
		struct rpc_reply reply; /* the last one received, with what is inline */
		uint8_t reply_bytes[RPC_REPLY_MAX];
	};
};

enum handle_owner { OWNER_NONE, OWNER_CALL, OWNER_HOUSEKEEPER };

/* The call under way, and what one call leaves to the next. */
struct call {
	/* The thread at work with it; looked at where owned is set: by GKV_CHECK_THREADS. */
	bool owned; /* written by its thread only */
	_Atomic uint32_t owner; /* enum handle_owner */
	_Atomic uintptr_t visitor; /* handle_thread() of the one in gkv_visit; 0: none is */
	bool tended; /* by the housekeeper: the application may be reading the handle's error */

	uint64_t deadline_ns; /* of the call under way; 0: no clock was read for it yet */
	unsigned spin_polls; /* empty polls before a wait yields */
	bool near; /* the server is on this machine, and may need our core */
	bool spun_in_vain; /* the wait before had to sleep: half of them */
	uint64_t heard_ns; /* when the last reply was polled */

	/* By the last reply the server's wall clock was so far ahead of our monotonic one. */
	uint64_t clock_ahead_ms; /* modulo 2^64 */
	uint64_t clock_at_ns; /* when the request of it was posted; 0: there was none */
	uint64_t clock_floor_ms; /* the latest that a reply has told */
};

struct async;

struct gkv {
	struct gkv_session *session;
	unsigned sections; /* open now */
	uint64_t pin[HANDLE_SECTIONS]; /* of each; 0: it is not open */

	/*
	 * The queue pair that calls use. Where it is down another one is on its way, or is made by
	 * the next call that needs it.
	 */
	struct link link;
	struct connector connector;
	bool connected_before;
	bool down; /* it was destroyed, */
	struct error why; /* and this is why there is no other one */

	/*
	 * Operations in flight (flight/); NULL: none were ever submitted. The handle's owner calls
	 * on_lost(), under no lock, before it destroys the queue pair; NULL: nobody listens. It
	 * neither connects nor disconnects.
	 */
	struct async *async;
	void (*on_lost)(struct gkv *h);
	unsigned depth; /* of operations in flight, at most */

	/* READs. */
	struct ibv_send_wr wr[READER_BATCH];
	struct ibv_sge sge[READER_BATCH][READ_PIECES];
	struct reader reader;

	/* Requests on their way, and which calls have them (request/rpc.h; NULL: none is sent). */
	struct rpc_slot slot[HANDLE_CREDITS];
	struct requests *requests;

	/* Registered memory. */
	struct session_device *device; /* where it is; NULL: none. See device.c */
	struct rdma_buffer fetch; /* buckets, scratch, reply frames */
	struct rdma_buffer frames; /* RPC_REQUEST_MAX each, by slot */
	struct rdma_buffer arena;

	struct call call;
	struct error error;
};

/* handle_init - @h, which is zero, of @s, without buffers and connection. @credits_wish: requests
 * in flight that it asks for. */
void handle_init(struct gkv *h, struct gkv_session *s, unsigned number, unsigned credits_wish);

/* handle_thread - which thread this is, as a number. */
uintptr_t handle_thread(void);

/* handle_foreign - -EPERM, handle_visiting - -EDEADLK, with their sentences; or -EBUSY without. */
int handle_foreign(struct gkv *h);
int handle_visiting(struct gkv *h);

/*
 * handle_own - the handle is this thread's until handle_end(). Waits for the housekeeper, which has
 * it for microseconds. Returns 0 or -EBUSY.
 */
int handle_own(struct gkv *h);

/*
 * handle_follow - the handle, which has no queue pair, gets its registered memory, on the device
 * that the session has, where that is another one than its own. Where the session has none it
 * stays. Its own thread. Returns 0; -ESTALE: the device has failed meanwhile; or as verbs. Then it
 * has no device, and no memory.
 * handle_buffers_destroy - it has neither any more.
 */
int handle_follow(struct gkv *h);
void handle_buffers_destroy(struct gkv *h);

/* figures_of_all - by all handles, those that were closed included. Any thread. */
struct handle_figures figures_of_all(struct gkv_session *s);

/* figures_retire - the handle goes: what it has done is kept, and nobody looks at it any more. */
void figures_retire(struct gkv *h);

/*
 * handle_begin - every call starts here, and ends in handle_end() where it returns 0.
 * Returns 0; -EINVAL, -EPERM, -EDEADLK; -EBUSY: another thread is in a call, and h->error is that
 * one's.
 */
static inline int handle_begin(struct gkv *h)
{
	int rc;

	if (!h)
		return -EINVAL;
	if (session_foreign(h->session))
		return handle_foreign(h);
	/* relaxed: one's own, or a thread too many, which is to be told */
	if (atomic_load_explicit(&h->call.visitor, memory_order_relaxed))
		return handle_visiting(h);
	if (h->call.owned) {
		rc = handle_own(h);
		if (rc)
			return rc;
	}
	h->call.deadline_ns = 0;
	return 0;
}

/* handle_end - the call is over. Returns @rc. */
static inline int handle_end(struct gkv *h, int rc)
{
	if (h->call.owned) /* release pairs with handle_own(), and tend.c's */
		atomic_store_explicit(&h->call.owner, OWNER_NONE, memory_order_release);
	return rc;
}

/* handle_deadline - when the call under way must have ended. */
static inline uint64_t handle_deadline(struct gkv *h)
{
	if (!h->call.deadline_ns)
		h->call.deadline_ns =
			time_now_ns() + (uint64_t)h->session->settings.timeout_ms * NS_PER_MS;
	return h->call.deadline_ns;
}

/* handle_key - check a key. Returns 0 or -EINVAL. */
int handle_key(struct gkv *h, const void *key, size_t key_len);

/*
 * handle_buffer - registered memory on the handle's device, which it has.
 * handle_grow - make @buffer at least @len bytes long; its contents are lost.
 * Returns 0; -ENOMEM; -ECONNRESET: the device has failed, and the queue pair is given up; as verbs.
 */
int handle_buffer(struct gkv *h, struct rdma_buffer *buffer, size_t len, unsigned access,
		  const char *what);
int handle_grow(struct gkv *h, struct rdma_buffer *buffer, size_t len, unsigned access,
		const char *what);

static inline bool handle_current(const struct gkv *h)
{
	return link_current(&h->link);
}

/* handle_connect - another queue pair, and another connection where the session's is lost. May
 * take until the call's deadline. Returns 0 or why not. */
int handle_connect(struct gkv *h);

/* handle_ready - the queue pair is of the session's current connection, or why not. */
static inline int handle_ready(struct gkv *h)
{
	return handle_current(h) ? 0 : handle_connect(h);
}

/* handle_disconnect - close its link: see link_close(). */
void handle_disconnect(struct gkv *h);

/* handle_enter - it has another link, which may lead to another life of the server. */
void handle_enter(struct gkv *h);

/*
 * handle_age - of the hints that may be used and remembered now; 0: none. Ask before READs or a
 * request are posted, of a section after its pin.
 */
static inline uint32_t handle_age(struct gkv *h)
{
	if (!h->reader.hints)
		return 0;
	if (!h->link.hints_ready) {
		/* acquire pairs with the housekeeper's round: what it dropped */
		if (atomic_load_explicit(&h->session->rounds_applied, memory_order_acquire) <=
		    h->link.hints_after)
			return 0;
		h->link.hints_ready = true;
	}
	return hints_age(h->reader.hints);
}

/* sections_repin - one has closed, others are open. */
void sections_repin(struct gkv *h);

/*
 * Sections (DESIGN 5.2): the span of a batch of READs, under a pin of the session's newest epoch.
 * They post on one connection only, and nothing found in one is followed in another but hints, of
 * the age that section_open() returns. Several may be open at once, one for each @which: what the
 * housekeeper sees is the oldest one's pin (epochs.c).
 */
static inline uint32_t section_open(struct gkv *h, unsigned which)
{
	struct epochs *ep = &h->session->epochs;

	assert(!h->pin[which]);
	h->pin[which] = h->sections++ ? epochs_pin_beside(ep, h->link.number)
				      : epochs_pin(ep, h->link.number);
	return handle_age(h);
}

static inline void section_close(struct gkv *h, unsigned which)
{
	assert(h->pin[which]);
	h->pin[which] = 0;
	if (--h->sections == 0)
		epochs_unpin(&h->session->epochs, h->link.number, 0);
	else
		sections_repin(h);
}

/* A wait for completions: zero it to start. */
struct waiter {
	unsigned empty; /* polls that found nothing */
	bool slept;
	uint64_t since_ns;
	uint64_t patience_ns; /* then the queue pair is given up; 0: as long as the call may take */
};

/* handle_spin_polls - how many polls in vain the next wait of @h spins for. */
static inline unsigned handle_spin_polls(const struct gkv *h)
{
	return h->call.spun_in_vain ? h->call.spin_polls / 2 : h->call.spin_polls;
}

/* Of a wait, spinning and yielding, before it sleeps: a fast disk's sync, which a reply may wait
 * for, is over by then. */
#define HANDLE_SPIN_NS 200000u

/* handle_spins_on - whether a wait does, where yielding is dear; else it sleeps. */
static inline bool handle_spins_on(const struct gkv *h)
{
	return !h->call.spun_in_vain && !h->call.near;
}

/* channel_spin_polls - how many polls in vain a wait spins for, on handles of @dev. */
unsigned channel_spin_polls(const struct rdma_device *dev);

/*
 * channel_progress - poll once and take what came: chains_done grows, slots change. Where nothing
 * came it spins, yields, then sleeps on completion channel and life line.
 * Returns 0; -ETIMEDOUT: the call's deadline has passed; -ECONNRESET: the queue pair is lost, or
 * patience is over.
 */
int channel_progress(struct gkv *h, struct waiter *w);

/*
 * channel_probe - look at the life line, where nothing was heard of the server for a while: a write
 * that is posted to a server that has gone has an unknown outcome, one that is not has none.
 */
void channel_probe(struct gkv *h);

/* channel_look - at the life line, now. */
void channel_look(struct gkv *h);

/*
 * channel_patience - how long the transport may take for @bytes. The peer's device answers by
 * itself, so what takes longer than the life line's time-out is stuck, whatever retries are left;
 * the life line may go another way, and know nothing of it.
 */
uint64_t channel_patience(const struct gkv *h, uint64_t bytes);

/* channel_read - reader_ops.read of a handle. */
int channel_read(void *ctx, const struct read_op *ops, unsigned count);

/*
 * channel_post - the same without waiting: chains_posted is its number, and the bytes are there
 * when chains_done has come to it. Returns 0 or -ECONNRESET.
 */
int channel_post(struct gkv *h, const struct read_op *ops, unsigned count);

/* channel_poll - take what came, and do not wait. Returns how many completions, or -ECONNRESET. */
int channel_poll(struct gkv *h);

/*
 * channel_write - WRITE @len bytes to @remote and wait for the completion. They stand in registered
 * memory of the fetch buffer. Returns as channel_read().
 */
int channel_write(struct gkv *h, uint64_t remote, uint32_t rkey, const void *bytes, uint32_t len);

/* channel_send - post the frame of @len bytes that stands in the slot's buffer. */
int channel_send(struct gkv *h, unsigned slot, uint32_t len);

/* channel_fail - the queue pair is of no use any more; says why. Returns -ECONNRESET. */
int channel_fail(struct gkv *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline void *handle_request_at(const struct gkv *h, unsigned slot)
{
	return (uint8_t *)h->frames.addr + (size_t)slot * RPC_REQUEST_MAX;
}

/* Places in the fetch buffer. */
#define FETCH_SCRATCH (READER_BATCH * BUCKET_BYTES)
#define FETCH_REPLIES (FETCH_SCRATCH + READER_SCRATCH_BYTES)
#define FETCH_BYTES   (FETCH_REPLIES + HANDLE_CREDITS * RPC_REPLY_MAX)

static inline void *link_reply_at(const struct link *l, unsigned number)
{
	return (uint8_t *)l->fetch->addr + FETCH_REPLIES + (size_t)number * RPC_REPLY_MAX;
}
