/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Hugepages: how many are free, what makes malloc take them, and what really lies on them. */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define INDEX_HUGEPAGE_BYTES (2ull << 20)

/* hugepages_free - of 2 MiB, that nobody has taken or reserved. */
uint64_t index_pages_free(void);

/*
 * index_pages_for_malloc - glibc's malloc, and with it cds_lfht's tables, takes hugepages only
 * where a variable of the environment said so when the program started: set it and start again.
 * Returns where that was done already, or cannot be done: whether it was.
 */
bool index_pages_for_malloc(char **argv);

/* Mappings of this process, in three parts. */
enum index_backing_of { BACKING_EXTENTS, BACKING_ARENA, BACKING_HEAP, INDEX_BACKINGS };

struct index_backing {
	uint64_t bytes; /* resident */
	uint64_t huge; /* of these on hugepages, reserved or transparent */
};

/*
 * index_pages_backing - what /proc/self/smaps says: of mappings named "gracekv", of
 * [@arena, @arena_end), and of other anonymous memory. Returns 0 or a negative errno.
 */
int index_pages_backing(uintptr_t arena, uintptr_t arena_end,
			struct index_backing out[INDEX_BACKINGS]);
