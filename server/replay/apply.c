/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One thread reads and checks, and gives records away by the hash of their keys; each of the others
 * applies those that it gets. Records travel in boxes, so that a lock is taken once in a MiB: the
 * giver fills a box, and puts it into the thread's row; the thread empties it and puts it back.
 *
 *	giver: empty -> filled, when it is full     thread: filled -> empty, when all is applied
 *
 * An error of any thread is kept, and makes all of them, and the giver, drop what is left.
 *
 * LEARNING. A member that learns gets records by two ways at once: those of the log, in their
 * order, and those that a walk over another server's table brings, each as it was at some time.
 * The newer version of the two stays, and as a deletion leaves no version in the store, the thread
 * that applied it keeps that: what a walk brings is dropped where its key had gone at that version
 * or later. A record whose time is over goes like one that was deleted. apply_learned() forgets
 * all of it, when nothing of the walk can come any more.
 */
#include "server/replay/apply.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "server/replay/gone.h"

#define BOX_BYTES   (1u << 20)
#define BOXES	    3u /* of a thread */
#define GROWTH_MS   10u
#define PAUSE_NS    (NS_PER_MS / 2)
#define PATIENCE_NS NS_PER_S
#define QUIESCENT   64u /* records between two quiescent states */
#define THREADS_MAX 64u

struct box {
	struct box *next;
	uint8_t *bytes;
	size_t room, len;
};

/* In a box, before key and value. */
struct item {
	uint64_t version, expiry_ms, body;
	uint32_t key_len, value_len;
	uint32_t length; /* of all of it, a multiple of 8 */
	bool has_body, is_del, walked;
};

struct applier {
	struct apply *all;
	pthread_t thread;
	struct store_worker worker;
	struct box box[BOXES];
	struct gone gone; /* the thread's; the giver's while nothing is under way */
	struct box *filling; /* the giver's */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct box *empty, *filled, **filled_last;
	unsigned under_way; /* boxes that are filled, or being emptied */
	bool over; /* nothing more is given */
};

struct apply {
	struct apply_config config;
	bool learning; /* changed while nothing is under way */
	_Atomic int rc; /* the first error; relaxed: whoever acts on it only stops */
	unsigned count; /* of threads that run */
	struct applier applier[];
};

static int failed(const struct apply *a)
{
	return atomic_load_explicit(&a->rc, memory_order_relaxed);
}

static void fail(struct apply *a, int rc)
{
	int none = 0;

	atomic_compare_exchange_strong_explicit(&a->rc, &none, rc, memory_order_relaxed,
						memory_order_relaxed);
}

static int try(struct store_worker *w, const struct item *i)
{
	const uint8_t *key = (const uint8_t *)(i + 1);
	const uint64_t body =
		i->has_body ? i->body : hash_bytes(key, i->key_len + (size_t)i->value_len);

	if (i->is_del)
		return store_restore_del(w, key, i->key_len, i->version);
	return store_restore_put(w, key, i->key_len, key + i->key_len, i->value_len, i->version,
				 i->expiry_ms, body);
}

/* Memory is growing, or waits for a grace period. */
static void wait_for_memory(struct applier *t)
{
	uint64_t since_ns = time_now_ns();

	reclaim_poll(t->worker.reclaim, UINT64_MAX);
	qsbr_offline();
	memory_growth_wait(t->all->config.store->memory, GROWTH_MS);
	if (time_now_ns() - since_ns < PAUSE_NS) /* it does not grow */
		time_sleep(PAUSE_NS);
	qsbr_online();
}

/*
 * Where there is no memory, and none is said to be on its way, some may be on its way from one
 * thread to another all the same. So that is believed only after PATIENCE_NS.
 */
static int apply(struct applier *t, const struct item *i)
{
	const struct apply_config *c = &t->all->config;
	uint64_t full_ns = 0;
	int rc;

	while ((rc = try(&t->worker, i)) == -EAGAIN || rc == -ENOMEM) {
		if (rc == -ENOMEM && !full_ns)
			full_ns = time_now_ns();
		if (rc == -ENOMEM && time_now_ns() - full_ns > PATIENCE_NS)
			break;
		if (c->stopping && c->stopping(c->ctx))
			return -ECANCELED;
		if (failed(t->all))
			return 0;
		wait_for_memory(t);
	}
	return rc;
}

/* The same while it learns. */
static int apply_learning(struct applier *t, const struct item *i)
{
	const uint8_t *key = (const uint8_t *)(i + 1);
	int rc;

	if (i->walked && gone_since(&t->gone, key, i->key_len, i->version) &&
	    !MUTANT(walk_resurrects))
		return 0;
	rc = apply(t, i);
	if (rc == STORE_EXPIRED || (rc == 0 && i->is_del))
		return gone_add(&t->gone, key, i->key_len, i->version);
	return rc;
}

/* What the items from @at on will touch is brought into the caches at once, instead of one by one.
 * Returns where the next ones begin. */
static size_t look_ahead(const struct applier *t, const struct box *b, size_t at)
{
	struct store_key key[STORE_PREFETCH_MAX];
	unsigned n = 0;

	for (; n < STORE_PREFETCH_MAX && at < b->len; n++) {
		const struct item *i = (const struct item *)(b->bytes + at);

		key[n] = (struct store_key){ i + 1, i->key_len };
		at += i->length;
	}
	store_prefetch(t->all->config.store, key, n, true);
	return at;
}

static void empty_box(struct applier *t, struct box *b)
{
	size_t seen = 0;
	unsigned n = 0;
	int rc = 0;

	for (size_t at = 0; at < b->len && rc == 0 && !failed(t->all); n++) {
		const struct item *i = (const struct item *)(b->bytes + at);

		if (at == seen)
			seen = look_ahead(t, b, at);
		rc = t->all->learning ? apply_learning(t, i) : apply(t, i);
		rc = rc == STORE_EXPIRED ? 0 : rc;
		at += i->length;
		if (n % QUIESCENT == 0)
			qsbr_quiescent();
	}
	if (rc)
		fail(t->all, rc);
	/* all of it, however young: this thread may sleep next, and others wait for that memory */
	reclaim_poll(t->worker.reclaim, UINT64_MAX);
	b->len = 0;
}

/* The next filled box; NULL: there will be none. */
static struct box *take_filled(struct applier *t)
{
	struct box *b;

	qsbr_offline();
	pthread_mutex_lock(&t->lock);
	while (!t->filled && !t->over)
		pthread_cond_wait(&t->changed, &t->lock);
	b = t->filled;
	if (b)
		t->filled = b->next;
	if (!t->filled)
		t->filled_last = &t->filled;
	pthread_mutex_unlock(&t->lock);
	qsbr_online();
	return b;
}

static void *applier_main(void *arg)
{
	struct applier *t = arg;
	struct box *b;

	qsbr_register();
	while ((b = take_filled(t))) {
		empty_box(t, b);
		pthread_mutex_lock(&t->lock);
		b->next = t->empty;
		t->empty = b;
		t->under_way--;
		pthread_cond_signal(&t->changed);
		pthread_mutex_unlock(&t->lock);
	}
	qsbr_unregister();
	return NULL;
}

static void hand_over(struct applier *t)
{
	struct box *b = t->filling;

	pthread_mutex_lock(&t->lock);
	b->next = NULL;
	*t->filled_last = b;
	t->filled_last = &b->next;
	t->under_way++;
	t->filling = NULL;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

static struct box *take_empty(struct applier *t)
{
	struct box *b;

	pthread_mutex_lock(&t->lock);
	while (!t->empty)
		pthread_cond_wait(&t->changed, &t->lock);
	b = t->empty;
	t->empty = b->next;
	pthread_mutex_unlock(&t->lock);
	return b;
}

static int box_room(struct box *b, size_t room)
{
	uint8_t *grown;

	if (room <= b->room)
		return 0;
	grown = realloc(b->bytes, room);
	if (!grown)
		return -ENOMEM;
	b->bytes = grown;
	b->room = room;
	return 0;
}

/* One for all records of a key, so that they are applied in their order. */
static struct applier *applier_of(struct apply *a, uint64_t hash, const struct apply_record *r)
{
	uint64_t at = (hash >> 32) * a->count >> 32;

	if (MUTANT(replay_any_order) && r->is_del)
		at = (at + 1) % a->count;
	return &a->applier[at];
}

int apply_give(struct apply *a, const struct apply_record *r)
{
	uint64_t hash = hash_key(a->config.store->hash_seed, r->key, r->key_len);
	struct applier *t = applier_of(a, hash, r);
	size_t length = (sizeof(struct item) + r->key_len + (size_t)r->value_len + 7) & ~(size_t)7;
	struct item *i;

	if (t->filling && t->filling->len + length > BOX_BYTES)
		hand_over(t);
	if (!t->filling)
		t->filling = take_empty(t);
	if (box_room(t->filling, length))
		fail(a, -ENOMEM);
	if (failed(a))
		return failed(a);
	i = (struct item *)(t->filling->bytes + t->filling->len);
	*i = (struct item){
		.version = r->version,
		.expiry_ms = r->expiry_ms,
		.body = r->body,
		.key_len = r->key_len,
		.value_len = r->value_len,
		.length = (uint32_t)length,
		.has_body = r->has_body,
		.is_del = r->is_del,
		.walked = r->walked,
	};
	memcpy(i + 1, r->key, r->key_len);
	if (r->value_len)
		memcpy((uint8_t *)(i + 1) + r->key_len, r->value, r->value_len);
	t->filling->len += length;
	return 0;
}

int apply_flush(struct apply *a)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->applier[i].filling)
			hand_over(&a->applier[i]);
	for (unsigned i = 0; i < a->count; i++) {
		struct applier *t = &a->applier[i];

		pthread_mutex_lock(&t->lock);
		while (t->under_way)
			pthread_cond_wait(&t->changed, &t->lock);
		pthread_mutex_unlock(&t->lock);
	}
	return failed(a);
}

void apply_learned(struct apply *a)
{
	/* The locks of apply_flush() and of the next hand_over() order it. */
	for (unsigned i = 0; i < a->count; i++)
		gone_free(&a->applier[i].gone);
	a->learning = false;
}

static void applier_free(struct applier *t)
{
	for (unsigned i = 0; i < BOXES; i++)
		free(t->box[i].bytes);
	gone_free(&t->gone);
	store_worker_destroy(&t->worker);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->changed);
}

static int applier_start(struct apply *a, struct applier *t)
{
	sigset_t all, old;
	int rc = store_worker_create(&t->worker, a->config.store, 0);

	if (rc)
		return rc;
	t->all = a;
	t->filled_last = &t->filled;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	for (unsigned i = 0; i < BOXES; i++) {
		if (rc == 0)
			rc = box_room(&t->box[i], BOX_BYTES);
		t->box[i].next = t->empty;
		t->empty = &t->box[i];
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (rc == 0)
		rc = -pthread_create(&t->thread, NULL, applier_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		applier_free(t);
	return rc;
}

int apply_start(struct apply **out, const struct apply_config *config, struct error *err)
{
	const unsigned threads = config->threads > THREADS_MAX ? THREADS_MAX : config->threads;
	struct apply *a = calloc(1, sizeof(*a) + threads * sizeof(a->applier[0]));
	int rc = 0;

	assert(threads);
	if (!a)
		return error_set(err, -ENOMEM, "out of memory for the threads that apply records");
	a->config = *config;
	a->learning = config->learning;
	while (a->count < threads && rc == 0) {
		rc = applier_start(a, &a->applier[a->count]);
		a->count += rc == 0;
	}
	if (rc) {
		apply_end(a);
		return error_set(err, rc,
				 "starting %u threads that apply records failed: %s (free "
				 "memory, or raise the limit of threads)",
				 threads, error_name(rc));
	}
	*out = a;
	return 0;
}

int apply_end(struct apply *a)
{
	int rc;

	for (unsigned i = 0; i < a->count; i++) {
		struct applier *t = &a->applier[i];

		if (t->filling)
			hand_over(t);
		pthread_mutex_lock(&t->lock);
		t->over = true;
		pthread_cond_signal(&t->changed);
		pthread_mutex_unlock(&t->lock);
	}
	for (unsigned i = 0; i < a->count; i++) {
		pthread_join(a->applier[i].thread, NULL);
		applier_free(&a->applier[i]);
	}
	rc = failed(a);
	free(a);
	return rc;
}
