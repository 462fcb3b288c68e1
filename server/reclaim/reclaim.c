/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The reclaimer thread.
 *
 *	queue --(epoch, grace period)--> held --(sessions)--> freed
 *	                                      |
 *	                                      +--(hazard)--> pinned --> freed
 *
 * One round: take all batches from the queue, end the epoch, close one grace period for all of
 * them, put them into `held`; free from its head what no session can reach any more, block by
 * block, but for those under a hazard, which wait in `pinned`; let slabs that fell empty go where
 * no hint leads into them. Then sleep until woken, or, while something waits for sessions, for a
 * little while: they announce by RDMA WRITE, which wakes nobody.
 *
 * WHY NO READER IS LEFT
 * 1. Local: the block was unlinked before it was retired, and the grace period began after that.
 * 2. Remote: the epoch ends after the unlinking and a full barrier, and a batch is freed only when
 *    every session has announced a later one, or was fenced. The argument is grace.c's.
 * 3. Hazards: set inside the section in which the block was found, hence before the end of the
 *    grace period, after which they are looked at. One that was clear then can not be set to this
 *    block later: nobody finds it. Clearing releases what the worker did with the block, and the
 *    look acquires it.
 *
 * A session that does not announce for long makes `held` long: small batches are then merged
 * under the later one's epoch, which loses nothing but time, so that it costs no more than the
 * blocks that it holds back.
 *
 * SLEEP. Wakers add to `wake`, then look at `sleeping`; the thread sets `sleeping`, then looks
 * at `wake`: sequentially consistent, so one of the two sees the other. For hazards likewise: the
 * thread sets `pinned`, then looks at the hazards once more; a worker clears, then looks at
 * `pinned`. Only slots are polled, ever more seldom while nothing moves.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim_internal.h"

#define POLL_NS_MIN 500000u
#define POLL_NS_MAX 8000000u
#define HELD_FEW    64u /* batches: more are merged where they are small */

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

void reclaim_kick(struct reclaim *r)
{
	/* seq_cst, both: pairs with reclaimer_sleep() */
	atomic_fetch_add_explicit(&r->wake, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&r->sleeping, memory_order_seq_cst))
		futex(&r->wake, FUTEX_WAKE, INT_MAX, NULL);
}

/* Sleep unless someone has woken the thread since @seen was loaded; at most @ns, 0: any time. */
static void reclaimer_sleep(struct reclaim *r, uint32_t seen, uint64_t ns)
{
	const struct timespec ts = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

	/* seq_cst, both: pairs with reclaim_kick() */
	atomic_store_explicit(&r->sleeping, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&r->wake, memory_order_seq_cst) == seen)
		futex(&r->wake, FUTEX_WAIT, seen, ns ? &ts : NULL);
	atomic_store_explicit(&r->sleeping, 0, memory_order_relaxed);
}

void batch_recycle(struct reclaim *r, struct batch *batch)
{
	struct batch *top;

	if (atomic_load_explicit(&r->spares, memory_order_relaxed) >= SPARE_BATCHES) {
		free(batch);
		return;
	}
	atomic_fetch_add_explicit(&r->spares, 1, memory_order_relaxed);
	batch->count = 0;
	top = atomic_load_explicit(&r->spare, memory_order_relaxed);
	do {
		batch->next = top;
		/* release pairs with batch_take(): next before the pointer to it */
	} while (!atomic_compare_exchange_weak_explicit(
		&r->spare, &top, batch, memory_order_release, memory_order_relaxed));
}

/* To the end of `held`. Where that is long, what fits goes into its last batch. */
static void held_append(struct reclaim *r, struct batch *batch)
{
	struct batch *last = TAILQ_LAST(&r->held, batch_list);

	if (r->held_count < HELD_FEW || last->count + batch->count > BATCH_BLOCKS) {
		TAILQ_INSERT_TAIL(&r->held, batch, link);
		r->held_count++;
		return;
	}
	memcpy(&last->block[last->count], batch->block, batch->count * sizeof(batch->block[0]));
	last->count += batch->count;
	last->bytes += batch->bytes;
	last->stamp = batch->stamp;
	last->since_ns = batch->since_ns;
	batch_recycle(r, batch);
}

/* A broken rule, for tests: segments go at once. */
static void segments_free_early(struct reclaim *r, struct batch *batch)
{
	const struct extent_entry *extent = memory_extent_table(r->memory);
	unsigned kept = 0;

	for (unsigned i = 0; i < batch->count; i++) {
		const struct retired *b = &batch->block[i];

		if (extent[b->place.extent].kind == EXTENT_INDEX) {
			memory_free(r->memory, b->place);
			batch->bytes -= b->bytes;
			atomic_fetch_add_explicit(&r->freed_bytes, b->bytes, memory_order_relaxed);
			atomic_fetch_add_explicit(&r->freed, 1, memory_order_release);
		} else {
			batch->block[kept++] = *b;
		}
	}
	batch->count = kept;
}

/* Take all from the queue and put them, an epoch and a grace period later, into `held`. */
static void queue_drain(struct reclaim *r)
{
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;
	struct cds_wfcq_node *node, *next;
	uint64_t stamp, now_ns;

	__cds_wfcq_init(&head, &tail);
	if (__cds_wfcq_splice_blocking(&head, &tail, &r->head, &r->tail) == CDS_WFCQ_RET_SRC_EMPTY)
		return;
	stamp = grace_advance(&r->grace);
	now_ns = time_now_ns();
	qsbr_synchronize();
	atomic_fetch_add_explicit(&r->grace_periods, 1, memory_order_relaxed);
	for (node = __cds_wfcq_first_blocking(&head, &tail); node; node = next) {
		struct batch *batch = caa_container_of(node, struct batch, node);

		next = __cds_wfcq_next_blocking(&head, &tail, node);
		tsan_acquire(batch); /* pairs with hand_over() */
		batch->stamp = stamp;
		batch->since_ns = now_ns;
		if (MUTANT(no_segment_grace))
			segments_free_early(r, batch);
		held_append(r, batch);
	}
}

static int word_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* All hazards that are set, sorted into r->hazards. Returns how many. */
static unsigned hazards_collect(struct reclaim *r)
{
	struct reclaim_worker *w;
	unsigned n = 0;

	pthread_mutex_lock(&r->lock);
	LIST_FOREACH(w, &r->workers, link)
	{
		for (unsigned i = 0; i < w->hazards; i++) {
			/* seq_cst: pairs with reclaim_hazard_clear(); also acquires its uses */
			uint64_t word = atomic_load_explicit(&w->hazard[i], memory_order_seq_cst);

			if (word)
				r->hazards[n++] = word;
		}
	}
	if (n > 1)
		qsort(r->hazards, n, sizeof(r->hazards[0]), word_compare);
	pthread_mutex_unlock(&r->lock);
	return n;
}

/* Free what no hazard names; the rest stays in the batch. The first @n hazards are current. */
static void batch_free(struct reclaim *r, struct batch *batch, unsigned n)
{
	uint64_t freed = 0, bytes = 0;
	unsigned kept = 0;

	for (unsigned i = 0; i < batch->count; i++) {
		struct retired *b = &batch->block[i];
		uint64_t word = place_word(b->place);

		if (n && bsearch(&word, r->hazards, n, sizeof(word), word_compare)) {
			batch->block[kept++] = *b;
			continue;
		}
		freed++;
		bytes += b->bytes;
		memory_free(r->memory, b->place);
	}
	batch->count = kept;
	batch->bytes -= bytes;
	/* release, as below */
	atomic_fetch_add_explicit(&r->freed_bytes, bytes, memory_order_release);
	atomic_fetch_add_explicit(&r->budget, (int64_t)bytes, memory_order_relaxed);
	/* release pairs with reclaim_stats_get(): whatever it sees freed it sees retired */
	atomic_fetch_add_explicit(&r->freed, freed, memory_order_release);
}

/* Look at the pinned blocks again. */
static void pinned_free(struct reclaim *r)
{
	struct batch *batch, *next;
	unsigned n = hazards_collect(r);

	for (batch = TAILQ_FIRST(&r->pinned_list); batch; batch = next) {
		next = TAILQ_NEXT(batch, link);
		batch_free(r, batch, n);
		if (batch->count == 0) {
			TAILQ_REMOVE(&r->pinned_list, batch, link);
			batch_recycle(r, batch);
		}
	}
}

/* Free from the head of `held` what every session is through with. Returns whether any was. */
static bool held_free(struct reclaim *r, uint64_t reach)
{
	struct batch *batch = TAILQ_FIRST(&r->held);
	unsigned n;

	if (!batch || batch->stamp >= reach)
		return false;
	n = hazards_collect(r);
	while (batch && batch->stamp < reach) {
		TAILQ_REMOVE(&r->held, batch, link);
		r->held_count--;
		batch_free(r, batch, n);
		if (batch->count)
			TAILQ_INSERT_TAIL(&r->pinned_list, batch, link);
		else
			batch_recycle(r, batch);
		batch = TAILQ_FIRST(&r->held);
	}
	return true;
}

/* Returns whether anything went. */
static bool reclaimer_round(struct reclaim *r, bool stop)
{
	bool any;

	queue_drain(r);
	any = held_free(r, stop ? UINT64_MAX : grace_reach(&r->grace));
	if (!TAILQ_EMPTY(&r->pinned_list)) {
		/* seq_cst, before the look: pairs with reclaim_hazard_clear() */
		atomic_store_explicit(&r->pinned, true, memory_order_seq_cst);
		pinned_free(r);
	}
	if (TAILQ_EMPTY(&r->pinned_list))
		atomic_store_explicit(&r->pinned, false, memory_order_relaxed);
	reclaim_recut(r, stop);
	reclaim_tell(r);
	return any;
}

/* How long to sleep: 0, until woken, where nothing waits for sessions. */
static uint64_t next_poll(const struct reclaim *r, uint64_t last_ns, bool any)
{
	if (TAILQ_EMPTY(&r->held) && !memory_recut_waits(r->memory) &&
	    !atomic_load_explicit(&r->short_of, memory_order_relaxed))
		return 0;
	if (any || !last_ns || atomic_load_explicit(&r->short_of, memory_order_relaxed))
		return POLL_NS_MIN;
	return last_ns < POLL_NS_MAX ? 2 * last_ns : POLL_NS_MAX;
}

static void *reclaimer_main(void *arg)
{
	struct reclaim *r = arg;
	uint64_t poll_ns = 0;
	bool stop, any;

	do {
		/* acquire: what was done before the wake is seen below */
		uint32_t seen = atomic_load_explicit(&r->wake, memory_order_acquire);

		stop = atomic_load_explicit(&r->stop, memory_order_acquire);
		any = reclaimer_round(r, stop);
		poll_ns = next_poll(r, poll_ns, any);
		if (!stop)
			reclaimer_sleep(r, seen, poll_ns);
	} while (!stop);
	return NULL;
}

int reclaim_create(struct reclaim **out, struct memory *m, const struct reclaim_config *config,
		   struct error *err)
{
	struct reclaim *r = aligned_alloc(CACHE_LINE, sizeof(*r));
	int rc;

	if (!r)
		return error_set(err, -ENOMEM, "no memory for the reclaimer; free memory");
	memset(r, 0, sizeof(*r));
	r->memory = m;
	r->config = *config;
	grace_init(&r->grace);
	atomic_init(&r->budget, budget_full(r));
	__cds_wfcq_init(&r->head, &r->tail);
	TAILQ_INIT(&r->held);
	TAILQ_INIT(&r->pinned_list);
	LIST_INIT(&r->workers);
	pthread_mutex_init(&r->lock, NULL);
	rc = pthread_create(&r->thread, NULL, reclaimer_main, r);
	if (rc) {
		grace_destroy(&r->grace);
		pthread_mutex_destroy(&r->lock);
		free(r);
		return error_set(err, -rc,
				 "starting the reclaimer thread failed: %s; raise the limit of "
				 "threads",
				 error_name(rc));
	}
	pthread_setname_np(r->thread, "gkv-reclaim");
	*out = r;
	return 0;
}

void reclaim_destroy(struct reclaim *r)
{
	struct batch *batch, *next;

	assert(LIST_EMPTY(&r->workers));
	atomic_store_explicit(&r->stop, true, memory_order_release);
	reclaim_kick(r);
	pthread_join(r->thread, NULL);
	assert(TAILQ_EMPTY(&r->held) && TAILQ_EMPTY(&r->pinned_list));
	for (batch = atomic_load_explicit(&r->spare, memory_order_acquire); batch; batch = next) {
		next = batch->next;
		free(batch);
	}
	grace_destroy(&r->grace);
	pthread_mutex_destroy(&r->lock);
	free(r->hazards);
	free(r);
}

struct grace *reclaim_grace(struct reclaim *r)
{
	return &r->grace;
}
