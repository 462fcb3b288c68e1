/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What clients say of their one-sided look-ups, in their epoch slots. */
#include "server/reclaim/grace.h"

struct grace_figures grace_session_figures(const struct epoch_session *s)
{
	if (!s->slot)
		return (struct grace_figures){ 0 };
	/* relaxed: the client writes them when it likes; they are only shown */
	return (struct grace_figures){
		atomic_load_explicit(&s->slot->gets, memory_order_relaxed),
		atomic_load_explicit(&s->slot->reads, memory_order_relaxed),
		atomic_load_explicit(&s->slot->retries, memory_order_relaxed),
	};
}

void grace_figures_add(struct grace_figures *sum, struct grace_figures one)
{
	sum->gets += one.gets;
	sum->reads += one.reads;
	sum->retries += one.retries;
}

struct grace_figures grace_figures(struct grace *g)
{
	struct grace_figures sum;
	struct epoch_session *s;

	pthread_mutex_lock(&g->lock);
	sum = g->gone;
	cds_list_for_each_entry (s, &g->sessions, node)
		grace_figures_add(&sum, grace_session_figures(s));
	pthread_mutex_unlock(&g->lock);
	return sum;
}
