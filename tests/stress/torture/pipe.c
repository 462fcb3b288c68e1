/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/stress/torture/pipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/layout/limits.h"

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct pipe *pipe_create(uint64_t memory_bytes)
{
	struct pipe *p = shared(sizeof(*p)); /* zeroed: nothing was ever used */

	if (!p)
		return NULL;
	p->units = memory_bytes < EXTENT_BYTES_MAX ? memory_bytes / OFFSET_UNIT
						   : EXTENT_BYTES_MAX / OFFSET_UNIT;
	p->place = shared(PIPE_EXTENTS * p->units * sizeof(*p->place));
	return p->place ? p : NULL;
}

struct pipe_place *pipe_at(struct pipe *p, unsigned extent, uint64_t offset)
{
	if (extent >= PIPE_EXTENTS || offset / OFFSET_UNIT >= p->units) {
		fprintf(stderr, "torture: %u:%llu is not watched; give less --memory\n", extent,
			(unsigned long long)offset);
		abort();
	}
	return &p->place[extent * p->units + offset / OFFSET_UNIT];
}
