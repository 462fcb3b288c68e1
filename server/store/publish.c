/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Publishing what was pending, once the log has committed it: the second half of a write
 * (decide.c).
 *
 * ORDER. The writes of a key are published in the order of the list, whoever publishes them: one
 * that is not the first of its key has to wait. So what is published here goes over what it was
 * judged against: a PUT over the record that stands there, or into the slot that is held for it; a
 * DEL over the record that stands there, which it leaves held for the key's next PUT, if that is
 * pending: it is the next write of the key, for a DEL of what is absent is not logged.
 *
 * It cannot fail: the slot stands in the index (index/write.c: HELD SLOTS), and what is retired was
 * taken off the budget at the decision.
 */
#include <string.h>

#include "server/store/store_internal.h"

/* must hold the lock. The first write of the key behind @after, or NULL. */
static struct store_pending *next_of_key(const struct cds_list_head *list,
					 const struct cds_list_head *after,
					 const struct store_pending *like)
{
	const struct cds_list_head *at;

	for (at = after->next; at != list; at = at->next) {
		struct store_pending *p = caa_container_of(at, struct store_pending, node);

		if (p->hash == like->hash && p->key_len == like->key_len &&
		    memcmp(p->key, like->key, p->key_len) == 0)
			return p;
	}
	return NULL;
}

/* must hold the lock. Returns whether index_shrink() should look at the segment. */
static bool publish_del(struct store *s, const struct store_pending *p, struct store_pending *next,
			const struct index_hit *old)
{
	if (!next)
		return index_remove(s->index, p->hash, old);
	assert(next->block && !next->holds);
	index_remove_hold(s->index, p->hash, old, next->slot);
	next->holds = true;
	return false;
}

/* must hold the lock. Retires, later, what was @found. Returns as publish_del(). */
static bool publish(struct store *s, struct store_pending *p, struct store_pending *next,
		    struct index_hit *old, bool *found)
{
	*found = index_lookup_locked(s->index, p->hash, p->key, p->key_len, old) == 0;
	assert(*found != p->holds); /* see ORDER */
	if (!p->block)
		return publish_del(s, p, next, old);
	if (p->holds)
		index_publish_held(s->index, p->hash, p->block, p->slot);
	else
		index_publish(s->index, p->hash, old, true, p->block, p->slot);
	return false;
}

int store_publish(struct store_worker *w, struct store_pending *p)
{
	struct store *s = w->store;
	struct cds_list_head *list = store_pending_list(s, p->hash);
	const uint64_t hash = p->hash;
	struct index_retired retired;
	struct index_hit old;
	bool found, sparse;

	store_retire_late(w);
	index_lock(s->index, hash);
	if (next_of_key(list, list, p) != p && !MUTANT(publish_order)) {
		index_unlock(s->index, hash);
		return -EAGAIN;
	}
	sparse = publish(s, p, next_of_key(list, &p->node, p), &old, &found);
	cds_list_del(&p->node);
	index_unlock(s->index, hash);
	if (found) {
		reclaim_give_back(w->reclaim, hit_bytes(&old));
		store_retire_old(w, &old);
	}
	if (sparse) {
		index_shrink(s->index, hash, &retired);
		store_retire_all(w, &retired);
	}
	return 0;
}

bool store_is_pending(struct store *s, uint64_t hash, uint64_t version)
{
	const struct store_pending *p;
	bool pending = false;

	index_lock(s->index, hash);
	cds_list_for_each_entry (p, store_pending_list(s, hash), node) {
		if (p->version == version) {
			pending = true;
			break;
		}
	}
	index_unlock(s->index, hash);
	return pending;
}
