/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Every address that was published, with its incarnation: none may come twice. Of blocks, what a
 * writer's put has just published; of segments, what the directory names whenever it is looked at.
 */
#include <stdint.h>

#include "server/server.h"
#include "tests/stress/model.h"

struct watch;

struct watch *watch_create(struct model *m); /* NULL: no memory */
void watch_destroy(struct watch *w); /* NULL is fine */

/*
 * watch_block - a put has published this place. Called before the writer's next quiescent state:
 * until then nobody can free it and have it published again. Any thread.
 */
void watch_block(struct watch *w, struct memory_place place, uint32_t incarnation);

/* watch_segments - look at the directory now. One thread at a time, no QSBR reader. */
void watch_segments(struct watch *w, struct server *s);

struct watch_counts {
	uint64_t blocks, blocks_reused; /* addresses published; those of them more than once */
	uint64_t segments, segments_reused;
	uint32_t block_incarnation, segment_incarnation; /* highest seen */
};

/* watch_counts_get - nobody writes meanwhile. */
void watch_counts_get(const struct watch *w, struct watch_counts *out);
