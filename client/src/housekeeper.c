/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The housekeeper.
 *
 * A round is one READ of the server's epoch (and of its clock: clock.c) and one WRITE of the
 * session's epoch slot, on a queue pair of its own: a READ and a WRITE behind it are not ordered on
 * an RC queue pair, so the READ's completion is polled in between. What may be announced is said in
 * epochs.c. A WRITE that fails shows in its completion, which is polled as well.
 *
 * Whose it is: a thread's, started with the first handle; or gkv_tick()'s, where the application
 * wants no thread. Both go through one lock; gkv_open() makes the first round of a queue pair
 * itself, so that a session without room for a housekeeper shows there and not after a lease.
 *
 * Pace: each round either finds that handles were at work since the last one (they count, and pay
 * no message for it), then the next one is due in HOUSEKEEPER_BUSY_MS, or it waits twice as long as
 * before, up to a quarter of the lease: four beats a lease, eight messages. Where a round takes
 * milliseconds itself, it is at most one part in HOUSEKEEPER_SHARE of the time: it waits as handles
 * do, and on a small machine in their place. A thread that is woken keeps to that as well.
 *
 * Connections: the housekeeper connects no lost session again; nobody may want it. It waits until a
 * handle does, is woken, and opens its queue pair at once. Where the server has no room for that
 * one, the handle's works for a lease, and is fenced; so the failure is said by gkv_tick() and by
 * calls that cannot connect again, and it is tried again, with pauses that double (backoff.h), as
 * connecting is.
 *
 * A session without handles needs no housekeeper: its queue pair goes with the last handle.
 *
 * What the handles have done travels with the announcement, for who watches the server, which sees
 * nothing of one-sided GETs by itself: it costs no message.
 */
#include "client/src/housekeeper.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/async.h"
#include "client/src/clock.h"
#include "common/base/mutant.h"
#include "common/layout/root.h"

#define NAME	       "gkv-housekeeper" /* of the thread; there is room for 15 characters */
#define CREDITS	       0u /* it sends no requests */
#define NUDGE_NS       (100 * NS_PER_MS) /* for a round that a waiting write makes */
#define NUDGE_LEAST_NS (10 * NS_PER_MS) /* less: none; one cut short costs its queue pair */
#define LINGER_US      3000u /* of a broken rule */
#define SPAN_START     offsetof(struct root, epoch)
#define SPAN_FLOOR     (offsetof(struct root, hint_floor) - SPAN_START)
#define SPAN_CLOCK     (offsetof(struct root, clock_ms) - SPAN_START)
#define SPAN_BYTES     (SPAN_CLOCK + sizeof(uint64_t))

static_assert(SPAN_BYTES <= HOUSEKEEPER_SLOT_AT, "scratch");
static_assert(HOUSEKEEPER_SLOT_AT + sizeof(struct epoch_slot) <= READER_SCRATCH_BYTES, "scratch");
static_assert(sizeof(NAME) <= 16, "name");

void housekeeper_init(struct housekeeper *k)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&k->round_lock, NULL);
	pthread_mutex_init(&k->wake_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k->wake, &attr);
	pthread_condattr_destroy(&attr);
	k->pause_ms = HOUSEKEEPER_BUSY_MS;
}

void housekeeper_destroy(struct housekeeper *k)
{
	pthread_cond_destroy(&k->wake);
	pthread_mutex_destroy(&k->wake_lock);
	pthread_mutex_destroy(&k->round_lock);
}

unsigned housekeeper_pause(unsigned last_ms, bool busy, uint64_t took_ms, unsigned lease_ms)
{
	unsigned most = lease_ms / 4 > 1 ? lease_ms / 4 : 1;
	uint64_t next = busy ? 0 : 2 * (uint64_t)last_ms;

	if (next < HOUSEKEEPER_SHARE * took_ms)
		next = HOUSEKEEPER_SHARE * took_ms;
	if (next < HOUSEKEEPER_BUSY_MS)
		next = HOUSEKEEPER_BUSY_MS;
	return next < most ? (unsigned)next : most;
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	/* relaxed: one writer, under round_lock; a figure to be shown */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static int create(struct gkv_session *s, struct error *err)
{
	struct gkv *h = handle_new(s, HOUSEKEEPER_QP, CREDITS);
	int rc;

	if (!h)
		return error_set(err, -ENOMEM, "out of memory for a session's housekeeper");
	rc = handle_fetch_create(h);
	if (rc) {
		*err = h->error;
		free(h);
		return rc;
	}
	s->keeper.h = h;
	return 0;
}

static void disconnect(struct housekeeper *k)
{
	if (!k->wrote) /* nothing that it carried was of use: the next one is not free */
		k->h->chains_done = 0;
	k->wrote = false;
	handle_disconnect(k->h);
}

/* The number of the round: its READs come after. */
static uint64_t begin_round(struct housekeeper *k)
{
	uint64_t number = atomic_load_explicit(&k->begun, memory_order_relaxed) + 1; /* ours */

	/* seq_cst: before the READ is posted; pairs with handle_hints_after() */
	atomic_store_explicit(&k->begun, number, memory_order_seq_cst);
	return number;
}

/* Another connection has another slot, which counts from 0. */
static void follow_connection(struct housekeeper *k)
{
	if (k->connection == k->h->session_number)
		return;
	k->connection = k->h->session_number;
	k->before.gets += k->said.gets;
	k->before.reads += k->said.reads;
	k->before.retries += k->said.retries;
	k->said = (struct handle_figures){ 0 };
}

/* What the handles have done that no earlier connection was told. */
static struct handle_figures figures_now(struct gkv_session *s)
{
	const struct handle_figures *before = &s->keeper.before;
	struct handle_figures all = figures_of_all(s);

	return (struct handle_figures){ all.gets - before->gets, all.reads - before->reads,
					all.retries - before->retries };
}

/* READ, announce, WRITE. Returns 0, or why not; the queue pair is then of no use any more. */
static int make_round(struct gkv_session *s)
{
	struct housekeeper *k = &s->keeper;
	struct gkv *h = k->h;
	const struct world *w = h->reader.world;
	const struct read_op op = reader_scratch_op(&h->reader, 0, w->root_addr + SPAN_START,
						    w->root_rkey, (uint32_t)SPAN_BYTES);
	struct epoch_slot *slot = (void *)((uint8_t *)h->reader.scratch + HOUSEKEEPER_SLOT_AT);
	const uint8_t *span = h->reader.scratch;
	const uint64_t number = begin_round(k);
	const struct handle_figures did = figures_now(s);
	struct announcement say;
	uint64_t early = 0, posted_ns;
	int rc;

	if (MUTANT(scan_first)) {
		early = epochs_lowest(&s->epochs);
		mutant_linger(LINGER_US);
	}
	posted_ns = time_now_ns();
	h->sections = 1; /* for READs; a section of its own needs no pin: it follows nothing */
	rc = channel_read(h, &op, 1);
	h->sections = 0;
	count(&k->messages, 1);
	if (rc)
		return rc;
	clock_root(h->reader.world, *(const uint64_t *)(span + SPAN_CLOCK), posted_ns);
	rc = epochs_announce(&s->epochs, h->session_number, *(const uint64_t *)span,
			     *(const uint64_t *)(span + SPAN_FLOOR), early, &say);
	if (rc)
		return rc;
	/* release pairs with handle_age(): what was dropped */
	atomic_store_explicit(&k->applied, number, memory_order_release);
	/* relaxed: ours alone, until posting hands it to the device */
	atomic_store_explicit(&slot->generation, h->generation, memory_order_relaxed);
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

/* No handle is left to look after: say what they have done since, and go. */
static void leave(struct gkv_session *s)
{
	struct housekeeper *k = &s->keeper;
	uint64_t soon = time_now_ns() + HANDLE_LEAVE_NS;

	if (!k->h || !k->h->qp.qp)
		return;
	if (handle_current(k->h) && figures_now(s).gets != k->said.gets) {
		k->h->deadline_ns = soon;
		k->h->live = make_round(s) == 0;
	}
	handle_leave(k->h);
	disconnect(k);
}

/* Returns 0; -ENOTCONN: the session has no connection; -EALREADY: not yet; why not, for good. */
static int attach(struct gkv_session *s, uint64_t deadline_ns, unsigned *due_ms)
{
	struct housekeeper *k = &s->keeper;
	uint64_t now = time_now_ns(), due;
	struct wire_welcome welcome;
	int rc;

	if (k->h->live || k->h->qp.qp)
		disconnect(k);
	due = backoff_due(&k->h->backoff, now);
	if (due > now) {
		*due_ms = (unsigned)((due - now) / NS_PER_MS + 1);
		return -EALREADY;
	}
	rc = handle_attach(k->h, deadline_ns, &welcome);
	if (rc == 0) {
		follow_connection(k);
		k->slot_addr = welcome.slot_addr;
		k->slot_rkey = welcome.slot_rkey;
		k->lease_ms = welcome.lease_ms;
		k->pause_ms = HOUSEKEEPER_BUSY_MS;
		return 0;
	}
	if (rc == -ENOTCONN)
		return rc;
	*due_ms = HOUSEKEEPER_BUSY_MS;
	if (handle_worth_another(rc))
		return -EALREADY;
	error_prefix(&k->h->error,
		     "no housekeeper: without one the server ends this session after its lease of "
		     "%u ms",
		     k->lease_ms);
	return rc;
}

static bool wanted(struct gkv_session *s)
{
	bool any;

	pthread_mutex_lock(&s->handles_lock);
	any = s->handle_count > 0;
	pthread_mutex_unlock(&s->handles_lock);
	return any;
}

/*
 * What is due now. Must hold round_lock. Returns ms until the next time at the latest, at least 1,
 * or a negative errno: there is no housekeeper, and k->h->error says why.
 */
static int keep(struct gkv_session *s, uint64_t deadline_ns)
{
	struct housekeeper *k = &s->keeper;
	const unsigned idle_ms = housekeeper_pause(UINT16_MAX, false, 0, k->lease_ms);
	unsigned due_ms = HOUSEKEEPER_BUSY_MS;
	uint64_t calls, start_ns;
	int rc = 0;

	k->took_ms = 0;
	if (!k->h || !wanted(s)) {
		leave(s);
		return (int)idle_ms;
	}
	k->h->deadline_ns = deadline_ns;
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
		k->h->live = false;
		return (int)HOUSEKEEPER_BUSY_MS;
	}
	calls = epochs_calls(&s->epochs);
	k->took_ms = (time_now_ns() - start_ns) / NS_PER_MS;
	k->pause_ms = housekeeper_pause(k->pause_ms, calls != k->calls, k->took_ms, k->lease_ms);
	k->calls = calls;
	return (int)k->pause_ms;
}

/* Until @until_ns; woken, until @soonest_ns; or until stopped. Returns whether to go on. */
static bool doze(struct housekeeper *k, uint64_t soonest_ns, uint64_t until_ns)
{
	struct timespec until;
	uint64_t end_ns;
	bool stop;

	pthread_mutex_lock(&k->wake_lock);
	while (!k->stop) {
		end_ns = k->woken ? soonest_ns : until_ns;
		if (time_now_ns() >= end_ns)
			break;
		until = (struct timespec){ (time_t)(end_ns / NS_PER_S), (long)(end_ns % NS_PER_S) };
		pthread_cond_timedwait(&k->wake, &k->wake_lock, &until);
	}
	k->woken = false;
	stop = k->stop;
	pthread_mutex_unlock(&k->wake_lock);
	return !stop;
}

static void *run(void *arg)
{
	struct gkv_session *s = arg;
	struct housekeeper *k = &s->keeper;
	unsigned least_ms, next = 0;
	uint64_t start;
	int pause_ms;

	do { /* a round behind each queue pair: the lease runs from the first on */
		start = time_now_ns();
		pthread_mutex_lock(&k->round_lock);
		pause_ms = keep(s, start + EXCHANGE_DEADLINE_MS * NS_PER_MS); /* nobody's call */
		if (pause_ms < 0) /* session->unkept says why, to the calls that it makes fail */
			pause_ms = (int)housekeeper_pause(UINT16_MAX, false, 0, k->lease_ms);
		least_ms = housekeeper_pause(0, true, k->took_ms, k->lease_ms);
		pthread_mutex_unlock(&k->round_lock);
	} while (connector_serve(s, &next) ||
		 doze(k, start + least_ms * NS_PER_MS, start + (uint64_t)pause_ms * NS_PER_MS));
	return NULL;
}

/* Must hold round_lock. Signals are the application's: its threads get them. */
static int start(struct gkv_session *s, struct error *err)
{
	struct housekeeper *k = &s->keeper;
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&k->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return error_set(err, -rc,
				 "starting a session's housekeeper thread failed: %s (raise the "
				 "limit of threads, or set the option housekeeper to "
				 "GKV_HOUSEKEEPER_TICK and call gkv_tick())",
				 error_name(rc));
	pthread_setname_np(k->thread, NAME);
	k->started = true;
	return 0;
}

static int lock_round(struct housekeeper *k, uint64_t deadline_ns, struct error *err)
{
	int rc = lock_until(&k->round_lock, deadline_ns);

	return rc ? error_set(err, rc,
			      "another thread was still busy with the session's housekeeping when "
			      "the time of this call was over (is the server reachable?)")
		  : 0;
}

/*
 * gkv_open() makes an attempt of its own, or a refusal would not show there: it waits until one is
 * due. Must hold round_lock, or another thread would take the turn.
 */
static int own_round(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	struct housekeeper *k = &s->keeper;
	uint64_t due = 0;
	int rc;

	if (!handle_current(k->h)) {
		disconnect(k); /* what did its work is forgotten by the back-off */
		due = backoff_due(&k->h->backoff, time_now_ns());
		backoff_sleep(due, deadline_ns);
	}
	if (due > deadline_ns) {
		*err = k->h->error;
		error_prefix(err, "the housekeeper's next queue pair is due after this call");
		err->code = -ETIMEDOUT;
		return -ETIMEDOUT;
	}
	rc = keep(s, deadline_ns);
	if (rc < 0)
		*err = k->h->error;
	return rc < 0 ? rc : 0;
}

bool housekeeper_stopped(struct housekeeper *k)
{
	bool stop;

	pthread_mutex_lock(&k->wake_lock);
	stop = k->stop;
	pthread_mutex_unlock(&k->wake_lock);
	return stop;
}

int housekeeper_begin(struct gkv_session *s, uint64_t deadline_ns, struct error *err)
{
	const bool by_thread = s->settings.housekeeper == GKV_HOUSEKEEPER_THREAD;
	struct housekeeper *k = &s->keeper;
	int rc = lock_round(k, deadline_ns, err);

	if (rc)
		return rc;
	if (housekeeper_stopped(k)) /* what is begun now would have no end */
		rc = error_set(err, -ECONNRESET, "the session was closed (open another one)");
	else if (!k->h)
		rc = create(s, err);
	/* without a thread, who opens many handles is not to be silent for a lease */
	if (rc == 0 && (!by_thread || !handle_current(k->h)))
		rc = own_round(s, deadline_ns, err);
	if (rc == 0 && by_thread && !k->started)
		rc = start(s, err);
	pthread_mutex_unlock(&k->round_lock);
	return rc;
}

bool housekeeper_serves(struct gkv_session *s)
{
	return s->settings.housekeeper == GKV_HOUSEKEEPER_THREAD &&
	       !housekeeper_stopped(&s->keeper);
}

void housekeeper_wake(struct housekeeper *k)
{
	pthread_mutex_lock(&k->wake_lock);
	k->woken = true;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->wake_lock);
}

void housekeeper_nudge(struct gkv_session *s, uint64_t deadline_ns)
{
	const uint64_t now = time_now_ns();
	struct housekeeper *k = &s->keeper;

	if (s->settings.housekeeper == GKV_HOUSEKEEPER_THREAD) {
		housekeeper_wake(k);
		return;
	}
	/* Who holds the lock makes a round, and the next pause brings us back. */
	if (now + NUDGE_LEAST_NS > deadline_ns || pthread_mutex_trylock(&k->round_lock))
		return;
	if (now + NUDGE_NS < deadline_ns)
		deadline_ns = now + NUDGE_NS;
	/* A queue pair is gkv_tick()'s to open: cut short, that costs all handles their session. */
	if (k->h && handle_current(k->h))
		keep(s, deadline_ns); /* why it fails is said by gkv_tick() */
	pthread_mutex_unlock(&k->round_lock);
}

void housekeeper_leave(struct gkv_session *s)
{
	struct housekeeper *k = &s->keeper;
	bool last;

	if (lock_until(&k->round_lock, time_now_ns() + HANDLE_LEAVE_NS))
		return; /* the next round sees to it */
	pthread_mutex_lock(&s->handles_lock);
	last = s->handle_count == 1;
	pthread_mutex_unlock(&s->handles_lock);
	if (last)
		leave(s);
	pthread_mutex_unlock(&k->round_lock);
}

void housekeeper_end(struct gkv_session *s)
{
	struct housekeeper *k = &s->keeper;
	bool started;

	pthread_mutex_lock(&k->wake_lock);
	k->stop = true;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->wake_lock);
	pthread_mutex_lock(&k->round_lock); /* who began before is done; who comes sees stop */
	started = k->started;
	pthread_mutex_unlock(&k->round_lock);
	if (started) /* without the lock: its last round takes it */
		pthread_join(k->thread, NULL);
	pthread_mutex_lock(&k->round_lock);
	if (k->h) {
		disconnect(k);
		reader_drop(&k->h->reader);
		rdma_buffer_destroy(&k->h->fetch);
		free(k->h);
		k->h = NULL;
	}
	pthread_mutex_unlock(&k->round_lock);
}

int gkv_tick(struct gkv_session *s)
{
	uint64_t deadline_ns;
	struct error err;
	int rc;

	if (!s)
		return -EINVAL;
	if (session_foreign(s))
		return -EPERM;
	deadline_ns = time_now_ns() + (uint64_t)s->settings.timeout_ms * NS_PER_MS;
	rc = lock_round(&s->keeper, deadline_ns, &err);
	if (rc) {
		session_failed(s, &err);
		return rc;
	}
	rc = keep(s, deadline_ns);
	if (rc < 0)
		session_failed(s, &s->keeper.h->error);
	pthread_mutex_unlock(&s->keeper.round_lock);
	return rc;
}
