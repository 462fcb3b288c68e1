/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writers: threads that write straight into the server's store, as its workers do. Each has the
 * keys whose numbers leave its own number when divided by the number of writers. How they go
 * through them is the program's: face->write().
 */
#include <errno.h>

#include "tests/stress/home.h"

#define WAIT_NS_MAX  (100 * NS_PER_MS) /* of one wait for memory, that counts */
#define LEAVE_ONE_IN 16u /* waits: remote readers are asked to go */

bool writer_ended(const struct writer *w)
{
	return atomic_load(&w->home->end) || atomic_load(&w->home->m->any_wrong);
}

/*
 * Nothing found by a look-up is held. Returns whether to try again. @waited_ns: how long key @k has
 * waited; of one wait no more than is its own, for a machine may stand still.
 */
static bool wait_for_memory(struct writer *w, uint32_t k, int rc, uint64_t *waited_ns)
{
	uint64_t start = time_now_ns(), took;

	if (writer_ended(w))
		return false;
	/* What is retired comes back when the readers that were there have gone. */
	if (rc != -EAGAIN && (w->full + w->busy) % LEAVE_ONE_IN == 0)
		atomic_fetch_add(&w->home->s->leave, 1);
	if (!member_wait(&w->member, rc))
		return false;
	count(rc == -EAGAIN ? &w->grown : rc == -EBUSY ? &w->busy : &w->full, 1);
	took = time_now_ns() - start;
	*waited_ns += took < WAIT_NS_MAX ? took : WAIT_NS_MAX;
	if (*waited_ns < shared_patience_ns(w->home->s))
		return true;
	model_wrong(w->home->m, WRONG_STATE, k, "memory did not come back within %llu ms: %s",
		    (unsigned long long)(*waited_ns / NS_PER_MS), error_name(rc));
	return false;
}

static void failed(struct writer *w, uint32_t k, const char *what, int rc)
{
	if (!writer_ended(w))
		model_wrong(w->home->m, WRONG_ERROR, k, "%s: %s", what, error_name(rc));
}

void writer_put(struct writer *w, uint32_t k)
{
	struct model *m = w->home->m;
	uint32_t number = model_next_put(m, k);
	struct store_result result;
	uint64_t waited_ns = 0;
	int rc;

	model_begin(m, k, number);
	do
		rc = member_put(&w->member, m, k, number, &result);
	while (rc && wait_for_memory(w, k, rc, &waited_ns));
	if (rc) {
		failed(w, k, "store_put", rc);
		return;
	}
	w->home->s->face->published(w, k, &result);
	model_end(m, w->member.number, k, number,
		  (uint64_t)result.place.extent << 32 | result.place.offset, result.incarnation);
	count(&w->puts, 1);
	if (result.incarnation > 1)
		count(&w->reused, 1);
}

void writer_del(struct writer *w, uint32_t k)
{
	struct model *m = w->home->m;
	uint32_t number = model_next_del(m, k);
	struct store_result result;
	char key[MODEL_KEY_MAX];
	uint64_t waited_ns = 0;
	int rc;

	model_begin(m, k, number);
	do
		rc = store_del(&w->member.store, key, model_key(k, key), &store_always, &result);
	while (rc && wait_for_memory(w, k, rc, &waited_ns));
	if (rc) {
		failed(w, k, "store_del of a key that lives", rc);
		return;
	}
	model_end(m, w->member.number, k, number, 0, 0);
	count(&w->dels, 1);
}

uint32_t writer_key(const struct writer *w, uint32_t own)
{
	const struct shared *s = w->home->s;
	uint32_t n = own * (uint32_t)s->o.writers + w->member.number;

	return s->key ? s->key[n] : n;
}

uint32_t writer_owned(const struct writer *w, uint64_t limit)
{
	uint32_t writers = (uint32_t)w->home->s->o.writers, n = (uint32_t)limit;

	return n > w->member.number ? (n - w->member.number + writers - 1) / writers : 0;
}

void writer_change(struct writer *w, uint32_t range, bool del)
{
	uint32_t k;

	if (!range)
		return;
	k = writer_key(w, (uint32_t)(model_random(&w->member.random) % range));
	if (del && model_lives(w->home->m, k))
		writer_del(w, k);
	else
		writer_put(w, k);
}

bool writer_approach(struct writer *w, uint64_t target)
{
	uint32_t own = writer_owned(w, target), k;

	if (w->frontier < own) {
		writer_put(w, writer_key(w, w->frontier++));
	} else if (w->frontier > own) {
		k = writer_key(w, --w->frontier);
		if (model_lives(w->home->m, k))
			writer_del(w, k);
	} else {
		return false;
	}
	/* relaxed: which keys are worth reading */
	atomic_store_explicit(&w->home->s->frontier[w->member.number],
			      w->frontier * (uint32_t)w->home->s->o.writers, memory_order_relaxed);
	return true;
}

static void *write_all(void *arg)
{
	struct writer *w = arg;
	bool disturb = w->home->s->o.disturb;

	member_begin(&w->member, w->home->m, disturb);
	w->home->s->face->write(w);
	member_end(disturb);
	return NULL;
}

int writers_start(struct home *h)
{
	for (unsigned i = 0; i < h->s->o.writers; i++) {
		struct writer *w = &h->writer[i];
		int rc;

		w->home = h;
		rc = member_launch(&w->member, &h->server.server.store, "writer", i, h->s->o.seed,
				   i, write_all, w);
		if (rc)
			return rc;
		h->writers++;
	}
	return 0;
}

void writers_stop(struct home *h)
{
	atomic_store(&h->end, true);
	while (h->writers)
		member_join(&h->writer[--h->writers].member);
}
