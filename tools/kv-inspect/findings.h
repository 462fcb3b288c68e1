/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What a check finds, and finds again. One thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FINDINGS_MAX 4096u /* of a list; more are counted */
#define FINDING_TEXT 320u

enum finding_kind {
	FINDING_ROOT, /* the root page */
	FINDING_EPOCH, /* it went backwards */
	FINDING_EXTENT, /* an entry of the extent table */
	FINDING_DIRECTORY, /* header, or root's place of it */
	FINDING_ENTRY, /* a directory entry, or where it leads to */
	FINDING_BUCKET, /* a bucket's header */
	FINDING_LINK, /* a chain of overflow buckets */
	FINDING_ORPHAN, /* an overflow bucket that no chain leads to, and that is not empty */
	FINDING_SLOT, /* a slot leads to no place of a block */
	FINDING_STATE, /* a slot leads to an OBSOLETE block */
	FINDING_BLOCK, /* a block that is not sound */
	FINDING_RECORD, /* a sound block where its hash does not belong */
	FINDING_TWICE, /* a key in two slots */
	FINDING_KINDS
};

/* finding_name - "root", "epoch", ...: static. */
const char *finding_name(enum finding_kind kind);

/* One is the same as another where kind, place and word are. */
struct finding {
	enum finding_kind kind;
	uint64_t place; /* address of what is wrong */
	uint64_t word; /* what stands there */
	uint64_t first, last; /* hashes that are to be looked at again; of kinds from BUCKET on,
			       * and of some of ENTRY: where ranged is set */
	bool ranged;
	bool certain; /* nothing that a writer does explains it: seen once is enough */
	uint64_t since_ms; /* pauses of the check until it was first seen */
	uint64_t since_clock_ms; /* the server's clock of then */
	char text[FINDING_TEXT];
};

struct findings {
	struct finding *list;
	size_t count, room;
	uint64_t more; /* that found no room */
};

/* findings_add - a copy of @f. Where there is no memory, it is counted in more. */
void findings_add(struct findings *l, const struct finding *f);

/* findings_has - the same one; NULL: there is none. */
const struct finding *findings_has(const struct findings *l, const struct finding *f);

/* findings_cut - back to @count of them. */
void findings_cut(struct findings *l, size_t count);
void findings_free(struct findings *l);
