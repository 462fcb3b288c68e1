/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The reclaimer thread.
 *
 *	queue --(grace period)--> held --(sessions gone)--> freed
 *	                                      |
 *	                                      +--(hazard)--> pinned --(cleared)--> freed
 *
 * One round: take all batches from the queue, close one grace period for all of them, sort them
 * into `held` by their stamps; free from its head what no session can reach any more, block by
 * block, but for those under a hazard, which wait in `pinned`. Then sleep until woken.
 *
 * WHY NO READER IS LEFT
 * 1. Local: the block was unlinked before it was retired, and the grace period began after that.
 * 2. Remote: the worker stamps a batch after the unlinking and a full barrier with the newest
 *    session's number. A session gets its number, and others can see it, before its client may
 *    post a READ. So a session that the stamp does not cover began after the unlinking, and its
 *    READs find nothing of the batch; the others have gone when the oldest number is above it.
 * 3. Hazards: set inside the section in which the block was found, hence before the end of the
 *    grace period, after which they are looked at. One that was clear then can not be set to this
 *    block later: nobody finds it. Clearing releases what the worker did with the block, and the
 *    look acquires it.
 *
 * Batches that wait for the same sessions are merged, so that a session of many days costs no
 * more than the blocks that it holds back. A merge is of batches after their grace period with
 * equal stamps, hence loses nothing.
 *
 * SLEEP. Wakers add to `wake`, then look at `sleeping`; the thread sets `sleeping`, then looks
 * at `wake`: sequentially consistent, so one of the two sees the other. For hazards likewise: the
 * thread sets `pinned`, then looks at the hazards once more; a worker clears, then looks at
 * `pinned`. Nothing is polled.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/reclaim/qsbr.h"
#include "server/reclaim/reclaim_internal.h"

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void reclaim_wake(struct reclaim *r)
{
	/* seq_cst, both: pairs with reclaimer_sleep() */
	atomic_fetch_add_explicit(&r->wake, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&r->sleeping, memory_order_seq_cst))
		futex(&r->wake, FUTEX_WAKE, INT_MAX);
}

/* Sleep unless someone has woken the thread since @seen was loaded. */
static void reclaimer_sleep(struct reclaim *r, uint32_t seen)
{
	/* seq_cst, both: pairs with reclaim_wake() */
	atomic_store_explicit(&r->sleeping, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&r->wake, memory_order_seq_cst) == seen)
		futex(&r->wake, FUTEX_WAIT, seen);
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

/* Into `held`, by stamp. New ones are the newest, but for a race between two workers. */
static void held_insert(struct reclaim *r, struct batch *batch)
{
	struct batch *before = TAILQ_LAST(&r->held, batch_list);

	while (before && before->stamp > batch->stamp)
		before = TAILQ_PREV(before, batch_list, link);
	if (before && before->stamp == batch->stamp &&
	    before->count + batch->count <= BATCH_BLOCKS) {
		memcpy(&before->block[before->count], batch->block,
		       batch->count * sizeof(batch->block[0]));
		before->count += batch->count;
		batch_recycle(r, batch);
	} else if (before) {
		TAILQ_INSERT_AFTER(&r->held, before, batch, link);
	} else {
		TAILQ_INSERT_HEAD(&r->held, batch, link);
	}
}

/* Take all from the queue and put them, one grace period later, into `held`. */
static void queue_drain(struct reclaim *r)
{
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;
	struct cds_wfcq_node *node, *next;

	__cds_wfcq_init(&head, &tail);
	if (__cds_wfcq_splice_blocking(&head, &tail, &r->head, &r->tail) == CDS_WFCQ_RET_SRC_EMPTY)
		return;
	qsbr_synchronize();
	atomic_fetch_add_explicit(&r->grace_periods, 1, memory_order_relaxed);
	for (node = __cds_wfcq_first_blocking(&head, &tail); node; node = next) {
		struct batch *batch = caa_container_of(node, struct batch, node);

		next = __cds_wfcq_next_blocking(&head, &tail, node);
		tsan_acquire(batch); /* pairs with hand_over() */
		held_insert(r, batch);
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
	atomic_fetch_add_explicit(&r->freed_bytes, bytes, memory_order_relaxed);
	/* release pairs with reclaim_stats_get(): who sees these freed, sees them retired */
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

/* Free from the head of `held` what every session up to the stamp is through with. */
static void held_free(struct reclaim *r, uint64_t oldest)
{
	struct batch *batch = TAILQ_FIRST(&r->held);
	unsigned n;

	if (!batch || batch->stamp >= oldest)
		return;
	n = hazards_collect(r);
	while (batch && batch->stamp < oldest) {
		TAILQ_REMOVE(&r->held, batch, link);
		batch_free(r, batch, n);
		if (batch->count)
			TAILQ_INSERT_TAIL(&r->pinned_list, batch, link);
		else
			batch_recycle(r, batch);
		batch = TAILQ_FIRST(&r->held);
	}
}

static void reclaimer_round(struct reclaim *r, bool stop)
{
	queue_drain(r);
	held_free(r, stop ? UINT64_MAX : r->sessions.oldest(r->sessions.ctx));
	if (!TAILQ_EMPTY(&r->pinned_list)) {
		/* seq_cst, before the look: pairs with reclaim_hazard_clear() */
		atomic_store_explicit(&r->pinned, true, memory_order_seq_cst);
		pinned_free(r);
	}
	if (TAILQ_EMPTY(&r->pinned_list))
		atomic_store_explicit(&r->pinned, false, memory_order_relaxed);
}

static void *reclaimer_main(void *arg)
{
	struct reclaim *r = arg;
	bool stop;

	do {
		/* acquire: what was done before the wake is seen below */
		uint32_t seen = atomic_load_explicit(&r->wake, memory_order_acquire);

		stop = atomic_load_explicit(&r->stop, memory_order_acquire);
		reclaimer_round(r, stop);
		if (!stop)
			reclaimer_sleep(r, seen);
	} while (!stop);
	return NULL;
}

int reclaim_create(struct reclaim **out, struct memory *m, const struct reclaim_sessions *sessions,
		   struct error *err)
{
	struct reclaim *r = aligned_alloc(CACHE_LINE, sizeof(*r));
	int rc;

	if (!r)
		return error_set(err, -ENOMEM, "no memory for the reclaimer; free memory");
	memset(r, 0, sizeof(*r));
	r->memory = m;
	r->sessions = *sessions;
	__cds_wfcq_init(&r->head, &r->tail);
	TAILQ_INIT(&r->held);
	TAILQ_INIT(&r->pinned_list);
	LIST_INIT(&r->workers);
	pthread_mutex_init(&r->lock, NULL);
	rc = pthread_create(&r->thread, NULL, reclaimer_main, r);
	if (rc) {
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
	reclaim_wake(r);
	pthread_join(r->thread, NULL);
	assert(TAILQ_EMPTY(&r->held) && TAILQ_EMPTY(&r->pinned_list));
	for (batch = atomic_load_explicit(&r->spare, memory_order_acquire); batch; batch = next) {
		next = batch->next;
		free(batch);
	}
	pthread_mutex_destroy(&r->lock);
	free(r->hazards);
	free(r);
}

void reclaim_kick(struct reclaim *r)
{
	reclaim_wake(r);
}
