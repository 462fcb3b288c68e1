/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/link/handle.h"

static uint64_t look(const uint64_t *figure)
{
	return __atomic_load_n(figure, __ATOMIC_RELAXED); /* pairs with nothing: figure_add() */
}

static void add(struct handle_figures *sum, const struct gkv *h)
{
	const struct gkv_stats *did = &h->reader.stats;

	sum->gets += look(&did->gets);
	sum->reads += look(&did->reads);
	sum->retries += look(&did->retry_obsolete) + look(&did->retry_checksum) +
			look(&did->retry_directory);
}

struct handle_figures figures_of_all(struct gkv_session *s)
{
	struct handle_figures sum;

	pthread_mutex_lock(&s->handles_lock);
	sum = s->gone;
	for (unsigned i = 0; i < SESSION_HANDLES_MAX; i++) {
		if (s->handle[i])
			add(&sum, s->handle[i]);
	}
	pthread_mutex_unlock(&s->handles_lock);
	return sum;
}

void figures_retire(struct gkv *h)
{
	struct gkv_session *s = h->session;

	pthread_mutex_lock(&s->handles_lock);
	add(&s->gone, h);
	s->handle[h->link.number] = NULL;
	pthread_mutex_unlock(&s->handles_lock);
}
