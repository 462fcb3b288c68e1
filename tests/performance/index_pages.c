/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/index_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES_OF "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define TUNABLES "GLIBC_TUNABLES"
#define HUGETLB	 "glibc.malloc.hugetlb"

static uint64_t pages(const char *file)
{
	uint64_t n = 0;
	FILE *f = fopen(file, "re");

	if (f) {
		if (fscanf(f, "%" SCNu64, &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

uint64_t index_pages_free(void)
{
	uint64_t there = pages(PAGES_OF "free_hugepages");
	uint64_t promised = pages(PAGES_OF "resv_hugepages");

	return there > promised ? there - promised : 0;
}

bool index_pages_for_malloc(char **argv)
{
	const char *old = getenv(TUNABLES);
	char text[4096];
	int n;

	if (old && strstr(old, HUGETLB))
		return strstr(old, HUGETLB "=2") != NULL;
	n = snprintf(text, sizeof(text), "%s%s" HUGETLB "=2", old ? old : "",
		     old && *old ? ":" : "");
	if (n < 0 || (size_t)n >= sizeof(text) || setenv(TUNABLES, text, 1))
		return false;
	execv("/proc/self/exe", argv);
	return false;
}

/* A line of figures, in KiB, of a mapping. */
static void figure(const char *line, struct index_backing *to)
{
	static const struct {
		const char *name;
		bool resident, huge;
	} figures[] = {
		{ "Rss:", true, false },
		{ "Private_Hugetlb:", true, true }, /* not part of Rss */
		{ "Shared_Hugetlb:", true, true },
		{ "AnonHugePages:", false, true },
		{ "ShmemPmdMapped:", false, true },
		{ "FilePmdMapped:", false, true },
	};

	for (unsigned i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		size_t len = strlen(figures[i].name);
		uint64_t bytes;

		if (strncmp(line, figures[i].name, len) != 0)
			continue;
		bytes = strtoull(line + len, NULL, 10) << 10;
		to->bytes += figures[i].resident ? bytes : 0;
		to->huge += figures[i].huge ? bytes : 0;
	}
}

int index_pages_backing(uintptr_t arena, uintptr_t arena_end,
			struct index_backing out[INDEX_BACKINGS])
{
	FILE *f = fopen("/proc/self/smaps", "re");
	struct index_backing other = { 0 }, *to = &other;
	unsigned long start, end, inode;
	char *line = NULL;
	size_t room = 0;

	memset(out, 0, INDEX_BACKINGS * sizeof(*out));
	if (!f)
		return -errno;
	while (getline(&line, &room, f) > 0) {
		/* address perms offset dev inode path */
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode) == 3) {
			to = strstr(line, "gracekv-")		  ? &out[BACKING_EXTENTS]
			     : start >= arena && end <= arena_end ? &out[BACKING_ARENA]
			     : strstr(line, "anon_hugepage") || strstr(line, "[heap]") || !inode
				     ? &out[BACKING_HEAP]
				     : &other;
			continue;
		}
		figure(line, to);
	}
	free(line);
	fclose(f);
	return 0;
}
