/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The loop of a worker thread.
 *
 * Between two quiescent states the thread is one RCU read-side section (QSBR), so what a request
 * found stays while it is answered; what outlives that is held by hazards (rpc.c). Asleep, the
 * thread is offline for liburcu and holds back no grace period.
 *
 * Sleeping without losing a wake-up: arm the channel, poll once more, and only then sleep on the
 * channel's fd and that of the mailbox. A completion after the arming makes the channel readable
 * (ibv_req_notify_cq); one before it is seen by the poll. A command makes the mailbox readable.
 */
#include "server/worker/worker_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/cores.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rdma/post.h"
#include "server/reclaim/qsbr.h"

#define POLL_BATCH (2 * (int)RPC_SLOTS_MAX) /* more than the credits of one: see rpc.c */
/*
 * Of WORKER_SPIN_NS: then let others run between polls. On an only core, at once. Where that is
 * dear (base/time.c) spin on, unless it was in vain the time before.
 */
#define SPIN_YIELD_NS	  10000u
#define DISK_SPIN_NS	  200000u /* instead, while a write waits for the log on its disk */
#define HOLDERS_SPIN_NS	  (5 * NS_PER_MS) /* for other machines alone, which wake nobody */
#define TIDY_BUSY_NS	  (5 * NS_PER_MS) /* between a few merges each, of a busy worker */
#define TIDY_NS		  (100 * NS_PER_MS) /* the index waits for memory: ask again, ... */
#define LEAVING_NS	  (1 * NS_PER_MS) /* asleep at most, while connections leave */
#define FINISH_NS	  (10 * NS_PER_MS) /* as LEAVING_NS, while the last writes are finished */
#define TIDY_BACK_OFF_MAX 6u /* ... after twice as long each time, up to 6.4 s */

static struct conn *conn_find(struct worker *w, uint32_t qpn)
{
	struct conn *c = *worker_chain(w, qpn);

	while (c && c->qp.qp->qp_num != qpn)
		c = c->next;
	return c;
}

/* One that the queue-pair thread takes apart fails because of that: nobody is to be told. */
static void expect_failure(struct conn *c)
{
	/* relaxed: the queue pair went to ERR after it was set, and so this completion came */
	if (atomic_load_explicit(&c->doomed, memory_order_relaxed))
		c->failed = true;
}

static void handle_receive(struct worker *w, const struct ibv_wc *wc)
{
	struct conn *c = conn_find(w, wc->qp_num);

	if (c)
		c->heard = w->receives.now;
	if (c && wc->status != IBV_WC_SUCCESS)
		expect_failure(c);
	if (wc->status == IBV_WC_SUCCESS && c)
		rpc_receive(&w->rpc, c, receives_frame(&w->receives, wc->wr_id), wc->byte_len);
	else if (c)
		rpc_conn_lost(&w->rpc, c, "a receive on it failed");
	receives_again(&w->receives, wc->wr_id);
}

static void handle(struct worker *w, const struct ibv_wc *wc)
{
	if (wc->wr_id & RECEIVE_WR) {
		handle_receive(w, wc);
	} else if ((wc->wr_id & RPC_WR_WHAT) == RPC_WR_MARKER) {
		((struct conn *)rpc_wr_pointer(wc->wr_id))->drained = true;
	} else {
		if (wc->status != IBV_WC_SUCCESS)
			expect_failure(((struct request *)rpc_wr_pointer(wc->wr_id))->conn);
		rpc_completed(&w->rpc, wc->wr_id, wc->status == IBV_WC_SUCCESS);
	}
}

/* The earliest time at which a connection that lives was heard, or, if that tells nothing, came. */
static receives_time silent_since(const struct worker *w)
{
	const bool heard = w->rpc.config.dev->software; /* receives.c, G4 */
	receives_time silent = UINT64_MAX;

	for (unsigned i = 0; i < WORKER_CONNS; i++) {
		for (const struct conn *c = w->conns[i]; c; c = c->next) {
			receives_time at = heard ? c->heard : c->came;

			silent = c->credits && at < silent ? at : silent;
		}
	}
	return silent;
}

int worker_poll(struct worker *w)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = rdma_poll(w->cq.cq, POLL_BATCH, wc);

	w->rpc.batch++;
	worker_prefetch(w, wc, n);
	for (int i = 0; i < n; i++)
		handle(w, &wc[i]);
	w->polled += n > 0 ? (unsigned)n : 0;
	w->emptied += n < POLL_BATCH; /* ibv_poll_cq(3) */
	if (n > 0 && w->receives.pending)
		receives_flush(&w->receives);
	write_flush(&w->rpc.door);
	if (receives_audit_due(&w->receives))
		receives_audit(&w->receives, silent_since(w));
	return n;
}

/*
 * Go on with merges that were put off, a few every @pause_ns. Returns nanoseconds until it wants to
 * be called again.
 */
static uint64_t tidy_poll(struct worker *w, uint64_t now, uint64_t pause_ns)
{
	uint64_t wait_ns;

	if (!store_untidy(w->rpc.store.store))
		return UINT64_MAX;
	if (now < w->tidy_at_ns)
		return w->tidy_at_ns - now;
	if (store_tidy(&w->rpc.store)) {
		w->tidy_back_off = 0;
		wait_ns = pause_ns;
	} else {
		wait_ns = TIDY_NS << w->tidy_back_off;
		w->tidy_back_off += w->tidy_back_off < TIDY_BACK_OFF_MAX;
	}
	w->tidy_at_ns = now + wait_ns;
	return wait_ns;
}

/* What is done beside requests. Returns nanoseconds until it wants to be called again. */
static uint64_t chores_poll(struct worker *w, uint64_t now, uint64_t tidy_pause_ns)
{
	uint64_t sweep = store_sweep(&w->rpc.store, now), tidy = tidy_poll(w, now, tidy_pause_ns);
	uint64_t due = reclaim_poll(w->rpc.store.reclaim, now); /* what they retired as well */

	due = sweep < due ? sweep : due;
	return tidy < due ? tidy : due;
}

/* Sleep until a completion, a command, the log's commit of what waits for it, or the open batch of
 * retired blocks is due. */
static void sleep_until_work(struct worker *w)
{
	struct pollfd fds[3] = { { .fd = rdma_cq_fd(&w->cq), .events = POLLIN },
				 { .fd = w->commands.fd, .events = POLLIN },
				 { .fd = w->rpc.door.waiter.fd, .events = POLLIN } };
	uint64_t due = chores_poll(w, time_now_ns(), 0), log = write_sleep(&w->rpc.door);
	struct timespec ts;

	if (w->leaving && due > LEAVING_NS)
		due = LEAVING_NS;
	due = log < due ? log : due;
	ts = (struct timespec){ (time_t)(due / NS_PER_S), (long)(due % NS_PER_S) };
	qsbr_offline();
	ppoll(fds, 3, due == UINT64_MAX ? NULL : &ts, NULL);
	qsbr_online();
	write_woke(&w->rpc.door);
	if (fds[0].revents)
		rdma_cq_drain_events(&w->cq);
	if (fds[1].revents)
		worker_take_commands(w);
	atomic_fetch_add_explicit(&w->rpc.counters.wakeups, 1, memory_order_relaxed);
}

/* A write waits for the log's thread, and mostly for the disk. */
static bool waits_for_disk(const struct worker *w)
{
	return write_waits(&w->rpc.door) && log_needs_thread(w->rpc.store.store->log);
}

/* A write waits for other machines, which have not been slow lately. */
static bool waits_for_holders(const struct worker *w)
{
	return write_waits(&w->rpc.door) && !log_needs_thread(w->rpc.store.store->log) &&
	       !w->holders_are_slow;
}

/* A fast disk's sync is over before a thread that sleeps would be awake. */
static uint64_t spin_ns(const struct worker *w)
{
	return waits_for_disk(w)      ? DISK_SPIN_NS
	       : waits_for_holders(w) ? HOLDERS_SPIN_NS
				      : WORKER_SPIN_NS;
}

static void idle(struct worker *w, uint64_t *idle_since)
{
	uint64_t now = time_now_ns();

	if (!*idle_since)
		*idle_since = now;
	/* what waits for the disk needs the log's thread to run: let it have this core */
	if (now - *idle_since < w->spin_yield_ns && !waits_for_disk(w)) {
		time_relax();
		return;
	}
	if (now - *idle_since < spin_ns(w) &&
	    (time_yield() || waits_for_holders(w) || (!waits_for_disk(w) && !w->spun_in_vain)))
		return;
	w->spun_in_vain = true;
	w->holders_are_slow |= waits_for_holders(w);
	if (rdma_cq_arm(&w->cq) == 0 && worker_poll(w) == 0 && !mailbox_any(&w->commands))
		sleep_until_work(w);
	*idle_since = 0;
}

/* No connection is left. What waits for the log goes its way, unless that has failed. */
static void finish_writes(struct worker *w)
{
	struct write_door *door = &w->rpc.door;

	while (write_waits(door) && !log_has_failed(w->rpc.store.store->log)) {
		struct pollfd fd = { .fd = door->waiter.fd, .events = POLLIN };
		struct timespec ts = { 0 };
		uint64_t ns;

		qsbr_quiescent();
		if (write_poll(door))
			continue;
		ns = write_sleep(door);
		ts.tv_nsec = (long)(ns < FINISH_NS ? ns : FINISH_NS);
		qsbr_offline();
		ppoll(&fd, 1, &ts, NULL);
		qsbr_online();
		write_woke(door);
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint64_t idle_since = 0;

	qsbr_register();
	while (!w->stopping) {
		int n = worker_poll(w);
		bool wrote = write_poll(&w->rpc.door);

		if (w->leaving)
			worker_leave(w, n);
		w->holders_are_slow &= !wrote;
		if (n > 0 || wrote) {
			w->spun_in_vain &= !idle_since;
			idle_since = 0;
			chores_poll(w, time_now_ns(), TIDY_BUSY_NS);
			write_rest(&w->rpc.door);
		} else {
			idle(w, &idle_since);
		}
		if (mailbox_any(&w->commands))
			worker_take_commands(w);
		qsbr_quiescent();
	}
	finish_writes(w);
	qsbr_unregister();
	return NULL;
}

static void rpc_worker_init(struct rpc_worker *r, const struct worker_config *config)
{
	r->config = *config;
	r->door = (struct write_door){ .store = &r->store, .answer = rpc_answer };
	r->hazards_free = WORKER_RECEIVES;
	for (unsigned i = 0; i < WORKER_RECEIVES; i++)
		r->hazard_free[i] = (uint16_t)i;
}

static int start_thread(struct worker *w, struct error *err)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return error_set(err, rc, "starting worker %u failed: %s", w->number,
				 error_name(rc));
	pthread_setname_np(w->thread, "gkv-worker");
	return 0;
}

int worker_create(struct worker **out, const struct worker_config *config, unsigned number,
		  struct error *err)
{
	struct worker *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return error_set(err, -ENOMEM, "out of memory for worker %u", number);
	w->number = number;
	w->spin_yield_ns = cores_alone() ? 0 : SPIN_YIELD_NS;
	rpc_worker_init(&w->rpc, config);
	rc = receives_create(&w->receives, config->dev, WORKER_RECEIVES, err);
	if (rc)
		goto err_free;
	rc = rdma_cq_create(config->dev, CQ_ENTRIES, number, true, &w->cq, err);
	if (rc)
		goto err_receives;
	rc = rdma_buffer_create(config->dev, RPC_ROOMS * RPC_ROOM_BYTES, IBV_ACCESS_LOCAL_WRITE,
				"rooms for statistics", &w->rpc.rooms, err);
	if (rc)
		goto err_cq;
	rc = store_worker_create(&w->rpc.store, config->store, WORKER_RECEIVES);
	if (rc) {
		error_set(err, rc, "out of memory for worker %u", number);
		goto err_rooms;
	}
	rc = write_door_open(&w->rpc.door, WORKER_RECEIVES, err);
	if (rc)
		goto err_store;
	rc = mailbox_create(&w->commands);
	if (rc) {
		error_set(err, rc, "making the mailbox of worker %u failed: %s", number,
			  error_name(rc));
		goto err_door;
	}
	rc = start_thread(w, err);
	if (rc)
		goto err_commands;
	*out = w;
	return 0;

err_commands:
	mailbox_destroy(&w->commands);
err_door:
	write_door_close(&w->rpc.door);
err_store:
	store_worker_destroy(&w->rpc.store);
err_rooms:
	rdma_buffer_destroy(&w->rpc.rooms);
err_cq:
	rdma_cq_destroy(&w->cq);
err_receives:
	receives_destroy(&w->receives);
err_free:
	free(w);
	return rc;
}

void worker_stop(struct worker *w)
{
	if (w->stopped)
		return;
	mailbox_post(&w->commands, &w->stop);
	pthread_join(w->thread, NULL);
	w->stopped = true;
}

void worker_destroy(struct worker *w)
{
	if (!w)
		return;
	worker_stop(w);
	mailbox_destroy(&w->commands);
	write_door_close(&w->rpc.door);
	store_worker_destroy(&w->rpc.store);
	rdma_buffer_destroy(&w->rpc.rooms);
	rdma_cq_destroy(&w->cq);
	receives_destroy(&w->receives);
	free(w);
}
