/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Committed memfd mappings.
 *
 * A READ by another process, or by a NIC, must never meet a page that the system cannot provide:
 * that would be a SIGBUS or a broken queue pair. So all pages are allocated at once, by faults of
 * several threads (populate.c); transparent hugepages come with a fault only. Where that fails,
 * fallocate() says why, and does it where the kernel is too old. Explicit hugepages are taken where
 * enough of them are free, otherwise transparent ones are asked for.
 *
 * The file is sealed against shrinking: peers of the software device hold it open as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "server/memory/memory_internal.h"

#define HUGEPAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static uint64_t hugepages(const char *path)
{
	unsigned long pages = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return 0;
	if (fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages;
}

/* Those that nobody has, nor has been promised. */
static uint64_t hugepages_available(void)
{
	uint64_t promised = hugepages(HUGEPAGES "resv_hugepages");
	uint64_t unused = hugepages(HUGEPAGES "free_hugepages");

	return unused > promised ? unused - promised : 0;
}

/*
 * Map @fd, whose pages are small, at a multiple of 2 MiB: transparent hugepages can back it there.
 *
 * A mapping over an area of our own that fails leaves a hole (mmap(2), MAP_FIXED), and the next
 * mmap() of any thread may have it: of the area, what is beside the hole is unmapped, and the hole
 * is nobody's to touch.
 */
static void *map_aligned(int fd, size_t bytes)
{
	size_t span = bytes + HUGEPAGE_BYTES, before;
	uint8_t *area, *base;
	void *p;
	int saved;

	area = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return NULL;
	base = (uint8_t *)(((uintptr_t)area + HUGEPAGE_BYTES - 1) &
			   ~((uintptr_t)HUGEPAGE_BYTES - 1));
	before = (size_t)(base - area);
	p = mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	saved = errno;
	if (before)
		munmap(area, before);
	munmap(base + bytes, span - bytes - before);
	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

/* Explicit hugepages: the kernel itself finds a multiple of their size. It may have none left. */
static void *map_huge(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* All pages of @fd, which is mapped at @base. */
static int commit(int fd, void *base, size_t bytes, const struct memory *m)
{
	int rc = populate(base, bytes, populate_threads(), m);

	if (rc == 0 || rc == -ECANCELED)
		return rc;
	do {
		rc = fallocate(fd, 0, 0, (off_t)bytes) < 0 ? -errno : 0;
	} while (rc == -EINTR);
	return rc;
}

static int try_map(struct mapping *map, const char *name, size_t bytes, bool hugepages,
		   const struct memory *m)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	autoclose int fd = -1;
	void *base;
	int rc;

	fd = memfd_create(name, hugepages ? flags | MFD_HUGETLB | MFD_HUGE_2MB : flags);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	base = hugepages ? map_huge(fd, bytes) : map_aligned(fd, bytes);
	if (!base)
		return -errno;
	if (!hugepages)
		madvise(base, bytes, MADV_HUGEPAGE); /* a wish */
	rc = commit(fd, base, bytes, m);
	if (rc) {
		munmap(base, bytes);
		return rc;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	*map = (struct mapping){
		.base = base,
		.bytes = bytes,
		.fd = cleanup_take_fd(&fd),
		.hugepages = hugepages,
	};
	return 0;
}

/*
 * All of it in hugepages; false: small pages have to do, which the log says where somebody has
 * reserved hugepages. Another process may take them between the look and the mapping.
 */
static bool try_hugepages(struct mapping *map, const char *name, size_t bytes,
			  const struct memory *m)
{
	uint64_t needed = bytes / HUGEPAGE_BYTES, available;
	int rc;

	if (bytes < HUGEPAGE_BYTES || hugepages(HUGEPAGES "nr_hugepages") == 0)
		return false;
	available = hugepages_available();
	if (bytes % HUGEPAGE_BYTES) {
		log_info("memory", "%s: %zu MiB in small pages: no multiple of 2 MiB", name,
			 bytes >> 20);
		return false;
	}
	if (available < needed) {
		log_info(
			"memory",
			"%s: %zu MiB in small pages: of %llu hugepages that it needs %llu are free; "
			"reserve more in /proc/sys/vm/nr_hugepages before kv-server starts",
			name, bytes >> 20, (unsigned long long)needed,
			(unsigned long long)available);
		return false;
	}
	rc = try_map(map, name, bytes, true, m);
	if (rc && rc != -ECANCELED)
		log_info(
			"memory",
			"%s: %zu MiB in small pages: mapping %llu hugepages that were free failed: "
			"%s; another process may have taken them, or a control group limits them",
			name, bytes >> 20, (unsigned long long)needed, error_name(rc));
	return rc == 0;
}

int mapping_create(struct mapping *map, const char *name, size_t bytes, const struct memory *m,
		   struct error *err)
{
	int rc;

	if (try_hugepages(map, name, bytes, m))
		return 0;
	rc = try_map(map, name, bytes, false, m);
	if (rc == 0)
		return 0;
	if (rc == -ECANCELED)
		return error_set(err, rc, "told to stop while memory was taken");
	return error_set(err, -ENOMEM,
			 "committing %zu bytes of shared memory for %s failed: %s; free memory, "
			 "raise the limit of the control group, or lower the store's size",
			 bytes, name, error_name(rc));
}

void mapping_destroy(struct mapping *map)
{
	munmap(map->base, map->bytes);
	close(map->fd);
}

void mapping_give_back(struct mapping *map)
{
	/* Peers of the software device unmap it when they come by, a stopped one never. A hole
	 * reads as zeroes; in a file of hugepages it may be a SIGBUS, so those are waited for. */
	if (!map->hugepages)
		fallocate(map->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			  (off_t)map->bytes);
	mapping_destroy(map);
}
