/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Explicit hugepages: taken where enough are free, small pages where not, whoever else wants them.
 * It reserves a few and gives them back; where it may not, or where somebody else has reserved some
 * already, it skips all but the last test, whose kernel only says that there are some.
 */
#include <dirent.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/memory/memory_internal.h"
#include "tests/unit/memory/recorder.h"

#define POOL  "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define PAGES 5u /* that the tests have */

static const char *why_not;
static bool taken_by_others;

/* A kernel that says 64 are free, and then has none, neither at memfd_create() nor later. */
static bool lying;
static unsigned refusals;

/* The same, but it says so at mmap() only; and small pages, which would take long, it refuses. */
static bool lying_until_mmap;

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode); /* what <stdio.h> makes of fopen() */
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

FILE *__wrap_fopen64(const char *path, const char *mode)
{
	static char many[] = "64\n", none[] = "0\n";

	if (!lying || strncmp(path, POOL, strlen(POOL)) != 0)
		return __real_fopen64(path, mode);
	return strstr(path, "resv") ? fmemopen(none, 2, "r") : fmemopen(many, 3, "r");
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (!lying || lying_until_mmap == !!(flags & MFD_HUGETLB))
		return __real_memfd_create(name, flags);
	refusals++;
	errno = ENOMEM;
	return -1;
}

static unsigned pool(const char *name)
{
	char path[128];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), POOL "%s", name);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%u", &n) != 1)
		n = UINT32_MAX;
	if (f)
		fclose(f);
	return n;
}

static bool reserve(unsigned pages)
{
	FILE *f = fopen(POOL "nr_hugepages", "we");

	if (!f)
		return false;
	fprintf(f, "%u\n", pages);
	return fclose(f) == 0 && pool("nr_hugepages") == pages;
}

/* However the process ends: nothing stays reserved. */
static void give_back(int signal_number)
{
	int fd = open(POOL "nr_hugepages", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		_exit(99);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* Before all tests. What is reserved here is given back by group_end(), pass or fail. */
static int group_begin(void **state)
{
	const int ends[] = { SIGABRT, SIGSEGV, SIGBUS, SIGTERM, SIGINT, SIGHUP };

	if (pool("nr_hugepages") == UINT32_MAX)
		why_not = "this kernel has no hugepages of 2 MiB";
	else if (pool("nr_hugepages") != 0)
		why_not = "somebody has reserved hugepages, which are not to be taken away";
	else if (!reserve(PAGES)) {
		why_not = "hugepages can not be reserved here: that needs root, and memory in one "
			  "piece";
		reserve(0);
	}
	if (why_not) {
		print_message("skipped: %s\n", why_not);
		return 0;
	}
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		signal(ends[i], give_back);
	return 0;
}

static int group_end(void **state)
{
	if (!why_not || taken_by_others) {
		reserve(0);
		check(pool("free_hugepages") == 0); /* what others have, they keep */
	}
	return 0;
}

/* Files in memory that this process has open: their hugepages need not be mapped. */
static unsigned own_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	unsigned n = 0;
	char to[64];

	while (d && (e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, to, sizeof(to));

		n += len >= 7 && memcmp(to, "/memfd:", 7) == 0;
	}
	if (d)
		closedir(d);
	return d ? n : UINT32_MAX;
}

/* Hugepages of this process that are mapped, in KiB. */
static unsigned own(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned kib = UINT32_MAX;
	char line[256];

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "HugetlbPages: %u", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

/* Each test begins and ends with all of them free, unless another program takes some. */
static int all_free(void **state)
{
	if (why_not)
		return 0;
	check(own() == 0 && own_files() == 0);
	if (pool("free_hugepages") == PAGES && pool("resv_hugepages") == 0)
		return 0;
	why_not = "another program has taken some of the hugepages that were reserved here";
	taken_by_others = true;
	print_message("skipped from here on: %s\n", why_not);
	return 0;
}

static void need_hugepages(void)
{
	if (why_not)
		skip();
}

static void map(struct mapping *map, unsigned mib)
{
	struct error err;

	assert_int_equal(mapping_create(map, "gracekv-test", (size_t)mib * MIB, NULL, &err), 0);
	assert_int_equal((uintptr_t)map->base % HUGEPAGE_BYTES, 0);
	memset(map->base, 1, map->bytes); /* all of it is there */
}

UNIT_TEST(taken_while_enough_are_free, all_free, all_free)
{
	struct mapping m[4];

	need_hugepages();
	map(&m[0], 4);
	assert_true(m[0].hugepages);
	assert_int_equal(pool("free_hugepages"), 3);
	map(&m[1], 8); /* one page too many */
	assert_false(m[1].hugepages);
	assert_int_equal(pool("free_hugepages"), 3);
	map(&m[2], 6);
	assert_true(m[2].hugepages);
	assert_int_equal(pool("free_hugepages"), 0);
	map(&m[3], 2);
	assert_false(m[3].hugepages);
	for (unsigned i = 0; i < 4; i++)
		mapping_destroy(&m[i]);
}

UNIT_TEST(lengths_that_are_no_multiple, all_free, all_free)
{
	struct mapping m;
	struct error err;

	need_hugepages();
	map(&m, 3);
	assert_false(m.hugepages);
	mapping_destroy(&m);
	assert_int_equal(mapping_create(&m, "gracekv-test", 4096, NULL, &err), 0);
	assert_false(m.hugepages);
	mapping_destroy(&m);
}

/* Free in the kernel's count, and yet promised to a mapping that has not touched them. */
UNIT_TEST(promised_ones_are_not_free, all_free, all_free)
{
	struct mapping m[2];
	void *p;

	need_hugepages();
	p = mmap(NULL, 2 * HUGEPAGE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(pool("free_hugepages"), PAGES);
	map(&m[0], 8);
	assert_false(m[0].hugepages);
	map(&m[1], 6);
	assert_true(m[1].hugepages);
	memset(p, 1, 2 * HUGEPAGE_BYTES); /* the promise was kept */
	mapping_destroy(&m[0]);
	mapping_destroy(&m[1]);
	munmap(p, 2 * HUGEPAGE_BYTES);
}

static pthread_barrier_t barrier;

static void *map_once(void *arg)
{
	struct mapping *m = arg;
	struct error err;

	pthread_barrier_wait(&barrier);
	check(mapping_create(m, "gracekv-test", 4 * MIB, NULL, &err) == 0);
	memset(m->base, 1, m->bytes);
	return NULL;
}

/* Four look at once and see enough for two: whoever comes late has small pages, and no error. */
UNIT_TEST(who_loses_the_race_has_small_pages, all_free, all_free)
{
	unsigned late = 0;

	need_hugepages();
	pthread_barrier_init(&barrier, NULL, 4);
	for (unsigned round = 0; round < 100; round++) {
		struct mapping m[4];
		pthread_t thread[4];
		unsigned huge = 0;

		for (unsigned i = 0; i < 4; i++)
			pthread_create(&thread[i], NULL, map_once, &m[i]);
		for (unsigned i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
		for (unsigned i = 0; i < 4; i++) {
			huge += m[i].hugepages;
			mapping_destroy(&m[i]);
		}
		assert_true(huge >= 1 && huge <= 2);
		late += 2 - huge;
		assert_int_equal(pool("free_hugepages"), PAGES);
	}
	printf("%u times a hugepage was left over\n", late);
	pthread_barrier_destroy(&barrier);
}

UNIT_TEST(statistics_say_what_is_in_hugepages, all_free, all_free)
{
	struct memory_stats stats;
	struct recorder r;
	struct memory *m;
	struct error err;
	unsigned x;

	need_hugepages();
	m = recorder_memory(&r, 64 * MIB);
	memory_stats_get(m, &stats);
	assert_int_equal(stats.hugepage_bytes, 0);
	assert_int_equal(memory_extent_add(m, EXTENT_INDEX, 4 * MIB, &x, &err), 0);
	assert_int_equal(memory_extent_add(m, EXTENT_DIR, 4 * MIB, &x, &err), 0);
	assert_int_equal(memory_extent_add(m, EXTENT_DATA, 8 * MIB, &x, &err), 0);
	memory_stats_get(m, &stats);
	assert_int_equal(stats.hugepage_bytes, 8 * MIB);
	assert_true(stats.hugepages);
	assert_int_equal(pool("free_hugepages"), 1);
	recorder_end(&r, m);
}

UNIT_TEST(gone_between_look_and_mapping)
{
	struct memory_stats stats;
	struct recorder r;
	struct memory *m;
	struct error err;
	unsigned x;

	lying = true;
	m = recorder_memory(&r, 64 * MIB);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(memory_extent_add(m, EXTENT_DATA, 4 * MIB, &x, &err), 0);
	assert_int_equal(refusals, 3); /* or this test is not what it says */
	memory_stats_get(m, &stats);
	assert_int_equal(stats.hugepage_bytes, 0);
	assert_false(stats.hugepages);
	memset(memory_addr(m, x, 0, 4 * MIB), 1, 4 * MIB);
	lying = false;
	recorder_end(&r, m);
}

static atomic_bool over;

/* Maps, fills, looks and unmaps, as malloc() or pthread_create() of another thread would. */
static void *map_for_itself(void *arg)
{
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		uint8_t *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		check(p != MAP_FAILED);
		for (size_t i = 0; i < 4 * MIB; i += MIB / 4)
			p[i] = (uint8_t)(i >> 18);
		for (size_t i = 0; i < 4 * MIB; i += MIB / 4)
			check(p[i] == (uint8_t)(i >> 18));
		check(munmap(p, 4 * MIB) == 0);
	}
	return NULL;
}

/* The place of a mapping that failed may be somebody else's a moment later. */
UNIT_TEST(a_mapping_that_fails_takes_nothing_from_others)
{
	struct mapping m;
	struct error err;
	pthread_t other[2];

	if (pool("nr_hugepages") == UINT32_MAX) {
		print_message("skipped: this kernel has no hugepages of 2 MiB\n");
		skip();
	}
	lying = lying_until_mmap = true;
	refusals = 0;
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&other[i], NULL, map_for_itself, NULL);
	for (unsigned i = 0; i < 30000; i++) /* more than there are */
		assert_int_equal(mapping_create(&m, "gracekv-test", 16 * MIB, NULL, &err), -ENOMEM);
	assert_int_equal(refusals, 30000); /* of small pages: it came to that each time */
	atomic_store_explicit(&over, true, memory_order_relaxed);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(other[i], NULL);
	lying = lying_until_mmap = false;
}

int main(void)
{
	int rc = unit_run(group_begin, group_end);

	return why_not && rc == 0 ? 77 : rc;
}
