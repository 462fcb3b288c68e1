/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Having the system give pages to a mapping, by several threads.
 *
 * One core zeroes and maps a GiB in about half a second, so a store of 16 GiB would take eight, and
 * an extent of 256 MiB keeps writers waiting for an eighth of one. The faults of different pages
 * hardly disturb each other, so threads take pieces from one counter until there are none. They
 * live for one mapping: starting them costs nothing beside it. Half of the cores that the process
 * may use do this, for the others serve; where those are the cores of one NUMA node, so are these.
 *
 * ORDERING. The counter and the result are relaxed: nothing follows from them before the threads
 * are joined.
 */
#include <errno.h>
#include <sys/mman.h>

#include "common/base/cores.h"
#include "server/memory/memory_internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

#define PIECE_BYTES (8u << 20) /* some milliseconds; the system is asked to stop between two */
#define THREADS_MAX 8u

struct populating {
	uint8_t *base;
	size_t bytes;
	const struct memory *memory;
	_Atomic size_t next;
	_Atomic int rc;
};

static void *populate_pieces(void *arg)
{
	struct populating *p = arg;
	size_t at;

	while (atomic_load_explicit(&p->rc, memory_order_relaxed) == 0 &&
	       (at = atomic_fetch_add_explicit(&p->next, PIECE_BYTES, memory_order_relaxed)) <
		       p->bytes) {
		size_t len = p->bytes - at < PIECE_BYTES ? p->bytes - at : PIECE_BYTES;
		int rc = 0;

		if (p->memory && memory_stopping(p->memory))
			rc = -ECANCELED;
		else if (madvise(p->base + at, len, MADV_POPULATE_WRITE))
			rc = -errno;
		if (rc)
			atomic_store_explicit(&p->rc, rc, memory_order_relaxed);
	}
	return NULL;
}

unsigned populate_threads(void)
{
	unsigned threads = cores_usable() / 2;

	return threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
}

int populate(void *base, size_t bytes, unsigned threads, const struct memory *m)
{
	struct populating p = { .base = base, .bytes = bytes, .memory = m };
	size_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
	pthread_t helper[THREADS_MAX];
	unsigned helpers = 0;

	while (helpers + 1 < threads && helpers + 1 < pieces && helpers < THREADS_MAX &&
	       pthread_create(&helper[helpers], NULL, populate_pieces, &p) == 0)
		helpers++; /* with fewer it takes longer, and that is all */
	populate_pieces(&p);
	while (helpers)
		pthread_join(helper[--helpers], NULL);
	return atomic_load_explicit(&p.rc, memory_order_relaxed);
}
