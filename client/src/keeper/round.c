/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A round of the housekeeper is one READ of the server's epoch (and of its clock: clock.c) and one
 * WRITE of the session's epoch slot, on a queue pair of its own: a READ and a WRITE after it are
 * not ordered on an RC queue pair, so the READ's completion is polled in between. What may be
 * announced is said in epochs.c. A WRITE that fails shows in its completion, which is polled as
 * well.
 *
 * Connections: the housekeeper connects no lost session again; nobody may want it. It waits until a
 * handle does, is woken, and opens its queue pair at once. Where the server has no room for that
 * one, the handle's works for a lease, and is fenced; so the failure is said by gkv_tick() and by
 * calls that cannot connect again, and it is tried again, with pauses that double (backoff.h), as
 * connecting is.
 *
 * The device's asynchronous events have no other reader: a round takes them where the last look is
 * EVENTS_NS back. Most need nothing done, since a queue pair that fails shows in its completions,
 * and port, LID, MTU and GID are read when one is made; a device that has failed takes the
 * connection along, and is opened again with the next one (link/device.c).
 *
 * A session without handles needs no housekeeper: its queue pair goes with the last handle.
 *
 * What the handles have done travels with the announcement, for people that watch the server,
 * which sees nothing of one-sided GETs by itself: it costs no message.
 */
#include "client/src/keeper/housekeeper.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "client/src/flight/async.h"
#include "client/src/keeper/pace.h"
#include "client/src/link/clock.h"
#include "client/src/link/device.h"
#include "common/base/mutant.h"
#include "common/layout/root.h"

#define CREDITS	      0u /* it sends no requests */
#define SILENT_LEASES 2u /* that a lease stands still before its server is left */
#define LINGER_US     3000u /* of a broken rule */
#define EVENTS_NS     (50 * NS_PER_MS) /* between two looks at the device's events */
#define SPAN_START    offsetof(struct root, epoch)
#define SPAN_FLOOR    (offsetof(struct root, hint_floor) - SPAN_START)
#define SPAN_CLOCK    (offsetof(struct root, clock_ms) - SPAN_START)
#define SPAN_UNTIL    (offsetof(struct root, lease_until) - SPAN_START)
#define SPAN_LEASE    (offsetof(struct root, lease_clock) - SPAN_START)
#define SPAN_BYTES    (SPAN_LEASE + sizeof(uint64_t))

static_assert(SPAN_BYTES <= HOUSEKEEPER_SLOT_AT, "scratch");
static_assert(HOUSEKEEPER_SLOT_AT + sizeof(struct epoch_slot) <= READER_SCRATCH_BYTES, "scratch");

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	/* relaxed: one writer, under round_lock; a figure to be shown */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

int round_create(struct gkv_session *s, struct error *err)
{
	struct gkv *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory for a session's housekeeper");
	handle_init(h, s, HOUSEKEEPER_QP, CREDITS);
	rc = handle_follow(h);
	if (rc && rc != -ESTALE) {
		*err = h->error;
		free(h);
		return rc;
	}
	s->keeper->h = h;
	return 0;
}

void round_disconnect(struct housekeeper *k)
{
	if (!k->wrote) /* nothing that it carried was of use: the next one is not free */
		k->h->link.chains_done = 0;
	k->wrote = false;
	handle_disconnect(k->h);
}

/* The number of the round: its READs come after. */
static uint64_t begin_round(struct gkv_session *s)
{
	uint64_t number =
		atomic_load_explicit(&s->rounds_begun, memory_order_relaxed) + 1; /* ours */

	/* seq_cst: before the READ is posted; pairs with attach() */
	atomic_store_explicit(&s->rounds_begun, number, memory_order_seq_cst);
	return number;
}

/* Another connection has another slot, which counts from 0. */
static void follow_connection(struct housekeeper *k)
{
	if (k->connection == k->h->link.session_number)
		return;
	k->connection = k->h->link.session_number;
	k->before.gets += k->said.gets;
	k->before.reads += k->said.reads;
	k->before.retries += k->said.retries;
	k->said = (struct handle_figures){ 0 };
}

/* What the handles have done that no earlier connection was told. */
static struct handle_figures figures_now(struct gkv_session *s)
{
	const struct handle_figures *before = &s->keeper->before;
	struct handle_figures all = figures_of_all(s);

	return (struct handle_figures){ all.gets - before->gets, all.reads - before->reads,
					all.retries - before->retries };
}

/* READ, announce, WRITE. Returns 0, or why not; the queue pair is then of no use any more. */
static int make_round(struct gkv_session *s)
{
	struct housekeeper *k = s->keeper;
	struct gkv *h = k->h;
	const struct world *w = h->reader.world;
	const struct read_op op = reader_scratch_op(&h->reader, 0, w->root_addr + SPAN_START,
						    w->root_rkey, (uint32_t)SPAN_BYTES);
	struct epoch_slot *slot = (void *)((uint8_t *)h->reader.scratch + HOUSEKEEPER_SLOT_AT);
	const uint8_t *span = h->reader.scratch;
	const uint64_t number = begin_round(s);
	const struct handle_figures did = figures_now(s);
	struct announcement say;
	uint64_t early = 0, posted_ns, boot_ns;
	int rc;

	if (MUTANT(scan_first)) {
		early = epochs_lowest(&s->epochs);
		mutant_linger(LINGER_US);
	}
	posted_ns = time_now_ns();
	boot_ns = time_read_ns(CLOCK_BOOTTIME);
	h->sections = 1; /* for READs; a section of its own needs no pin: it follows nothing */
	rc = channel_read(h, &op, 1);
	h->sections = 0;
	count(&k->messages, 1);
	if (rc)
		return rc;
	clock_root(h->reader.world, *(const uint64_t *)(span + SPAN_CLOCK), posted_ns);
	k->until = *(const uint64_t *)(span + SPAN_UNTIL);
	if (w->group_lease_ms)
		fresh_look(&h->reader.world->fresh, boot_ns, *(const uint64_t *)(span + SPAN_LEASE),
			   *(const uint64_t *)(span + SPAN_UNTIL));
	rc = epochs_announce(&s->epochs, h->link.session_number, *(const uint64_t *)span,
			     *(const uint64_t *)(span + SPAN_FLOOR), early, &say);
	if (rc)
		return rc;
	k->epoch_grew = *(const uint64_t *)span != k->epoch;
	k->epoch = *(const uint64_t *)span;
	k->all_said = say.e >= k->epoch && say.h >= *(const uint64_t *)(span + SPAN_FLOOR);
	/* release pairs with handle_age(): what was dropped */
	atomic_store_explicit(&s->rounds_applied, number, memory_order_release);
	/* relaxed: ours alone, until posting hands it to the device */
	atomic_store_explicit(&slot->generation, h->link.generation, memory_order_relaxed);
	atomic_store_explicit(&slot->e, say.e, memory_order_relaxed);
	atomic_store_explicit(&slot->not_e, ~say.e, memory_order_relaxed);
	atomic_store_explicit(&slot->beat, ++k->beat, memory_order_relaxed);
	atomic_store_explicit(&slot->h, say.h, memory_order_relaxed);
	atomic_store_explicit(&slot->gets, did.gets, memory_order_relaxed);
	atomic_store_explicit(&slot->reads, did.reads, memory_order_relaxed);
	atomic_store_explicit(&slot->retries, did.retries, memory_order_relaxed);
	rc = channel_write(h, k->slot_addr, k->slot_rkey, slot, sizeof(*slot));
	count(&k->messages, 1);
	if (rc)
		return rc;
	k->wrote = true;
	k->said = did;
	count(&k->rounds, 1);
	return 0;
}

void round_leave(struct gkv_session *s)
{
	struct housekeeper *k = s->keeper;
	uint64_t soon = time_now_ns() + LINK_LEAVE_NS;

	if (!k->h || !k->h->link.qp.qp)
		return;
	if (handle_current(k->h) && figures_now(s).gets != k->said.gets) {
		k->h->call.deadline_ns = soon;
		k->h->link.live = make_round(s) == 0;
	}
	link_leave(&k->h->link);
	round_disconnect(k);
}

/* Returns 0; -ENOTCONN: the session has no connection; -EALREADY: not yet; why not, for good. */
static int attach(struct gkv_session *s, uint64_t deadline_ns, unsigned *due_ms)
{
	struct housekeeper *k = s->keeper;
	uint64_t now = time_now_ns(), due;
	struct wire_welcome welcome;
	int rc;

	if (k->h->link.live || k->h->link.qp.qp)
		round_disconnect(k);
	due = backoff_due(&k->h->link.backoff, now);
	if (due > now) {
		*due_ms = (unsigned)((due - now) / NS_PER_MS + 1);
		return -EALREADY;
	}
	rc = handle_follow(k->h);
	if (rc == -ESTALE)
		return -ENOTCONN; /* a handle connects it again, and wakes us */
	if (rc == 0)
		rc = link_attach(&k->h->link, deadline_ns, &welcome);
	if (rc == 0) {
		handle_enter(k->h);
		follow_connection(k);
		k->slot_addr = welcome.slot_addr;
		k->slot_rkey = welcome.slot_rkey;
		k->lease_ms = welcome.lease_ms;
		k->pause_ms = HOUSEKEEPER_BUSY_MS;
		k->until_ns = time_now_ns();
		return 0;
	}
	handle_disconnect(k->h);
	if (rc == -ENOTCONN)
		return rc;
	*due_ms = HOUSEKEEPER_BUSY_MS;
	if (link_worth_another(rc))
		return -EALREADY;
	error_prefix(&k->h->error,
		     "no housekeeper: without one the server ends this session after its lease of "
		     "%u ms",
		     k->lease_ms);
	return rc;
}

/* After a round. */
static enum housekeeper_work work_of(struct gkv_session *s)
{
	struct housekeeper *k = s->keeper;
	const uint64_t calls = epochs_calls(&s->epochs);
	const bool busy = calls != k->calls;

	k->calls = calls;
	if (!busy)
		return HOUSEKEEPER_IDLE;
	if (!k->all_said)
		return HOUSEKEEPER_HURRY;
	return k->epoch_grew ? HOUSEKEEPER_FOLLOW : HOUSEKEEPER_STILL;
}

/* Of a group whose other servers are known: the lease stands still, and so may the server. */
static void watch_lease(struct gkv_session *s)
{
	struct housekeeper *k = s->keeper;
	const unsigned lease_ms = k->h->reader.world->group_lease_ms;
	const uint64_t now = time_now_ns();

	if (k->until != k->until_before) {
		k->until_before = k->until;
		k->until_ns = now;
	} else if (lease_ms && session_servers(s) > 1 &&
		   now - k->until_ns > SILENT_LEASES * lease_ms * NS_PER_MS) {
		session_silent(s, k->h->link.session_number);
	}
}

static bool wanted(struct gkv_session *s)
{
	bool any;

	pthread_mutex_lock(&s->handles_lock);
	any = s->handle_count > 0;
	pthread_mutex_unlock(&s->handles_lock);
	return any;
}

int round_keep(struct gkv_session *s, uint64_t deadline_ns)
{
	struct housekeeper *k = s->keeper;
	const unsigned idle_ms = housekeeper_pause(UINT16_MAX, HOUSEKEEPER_IDLE, 0, k->lease_ms, 0);
	unsigned due_ms = HOUSEKEEPER_BUSY_MS;
	enum housekeeper_work work;
	uint64_t start_ns;
	int rc = 0;

	k->took_ms = 0;
	if (time_now_ns() - k->looked_ns >= EVENTS_NS) {
		k->looked_ns = time_now_ns();
		session_device_look(s);
	}
	if (!k->h || !wanted(s)) {
		round_leave(s);
		return (int)idle_ms;
	}
	k->h->call.deadline_ns = deadline_ns;
	if (!handle_current(k->h))
		rc = attach(s, deadline_ns, &due_ms);
	if (rc == -ENOTCONN)
		return (int)idle_ms;
	if (rc == -EALREADY)
		return (int)due_ms;
	if (rc)
		return rc;
	start_ns = time_now_ns();
	count(&k->polled, async_tend(s, k->lease_ms / 4 * NS_PER_MS));
	if (make_round(s)) { /* soon again, over another one */
		k->h->link.live = false;
		return (int)HOUSEKEEPER_BUSY_MS;
	}
	k->took_ms = (time_now_ns() - start_ns) / NS_PER_MS;
	watch_lease(s);
	work = work_of(s);
	due_ms = housekeeper_pause(k->pause_ms, work, k->took_ms, k->lease_ms,
				   k->h->reader.world->group_lease_ms);
	if (work != HOUSEKEEPER_HURRY)
		k->pause_ms = due_ms;
	return (int)due_ms;
}
