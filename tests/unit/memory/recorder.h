/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Hooks that record instead of registering, and the small things that these tests share. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/memory/memory.h"
#include "tests/lib/unit.h"

#define MIB (1u << 20)

/* For threads: cmocka's own checks work in the test's thread only. */
#define check(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                   \
		}                                                                  \
	} while (0)

struct recorder {
	unsigned registered;
	unsigned unregistered;
	unsigned fail_at; /* the call with this number fails; 0: none */
	unsigned fail_all;
	bool keys_stay; /* unregistering fails */
	unsigned calls;
};

static inline int recorder_register(void *ctx, int fd, void *addr, size_t len,
				    struct memory_region *out, struct error *err)
{
	struct recorder *r = ctx;
	struct stat st;
	uint64_t word = 0x5eed;

	r->calls++;
	if (r->calls == r->fail_at || r->fail_all)
		return error_set(err, -ENOMEM, "the recorder was told to fail");
	/* The fd backs the range, and all of it is committed. */
	check(fstat(fd, &st) == 0 && (size_t)st.st_size == len);
	check((uint64_t)st.st_blocks * 512 >= len);
	check(memcmp(addr, "\0\0\0\0\0\0\0", 8) == 0);
	memcpy((uint8_t *)addr + len - 8, &word, 8);
	word = 0;
	check(pread(fd, &word, 8, (off_t)len - 8) == 8 && word == 0x5eed);
	memset((uint8_t *)addr + len - 8, 0, 8);
	r->registered++;
	out->handle = r;
	out->lkey = r->calls;
	out->rkey = r->calls + 1000;
	return 0;
}

static inline int recorder_unregister(void *ctx, struct memory_region *region)
{
	struct recorder *r = ctx;

	check(region->handle == r);
	r->unregistered++;
	return r->keys_stay ? -EIO : 0;
}

static inline struct memory *recorder_memory(struct recorder *r, uint64_t bytes_max)
{
	const struct memory_config config = {
		.bytes_max = bytes_max,
		.hooks = { recorder_register, recorder_unregister, r },
	};
	struct memory *m;
	struct error err = { 0 };

	memset(r, 0, sizeof(*r));
	if (memory_create(&m, &config, &err)) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	return m;
}

static inline void recorder_end(struct recorder *r, struct memory *m)
{
	memory_destroy(m);
	check(r->registered == r->unregistered);
}

/* memory_alloc(), waiting for growth; a bounded number of times. */
static inline int alloc_wait(struct memory *m, struct memory_cache *cache, uint32_t bytes,
			     struct memory_place *place, struct block **b)
{
	int rc = -EAGAIN;

	for (unsigned i = 0; i < 100 && rc == -EAGAIN; i++) {
		rc = memory_alloc(cache, bytes, place, b);
		if (rc == -EAGAIN)
			memory_growth_wait(m, 1000);
	}
	return rc;
}

static inline uint64_t test_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20240611;

	printf("seed %llu (TEST_SEED)\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

/* xorshift64* */
static inline uint64_t rng_next(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1dull;
}

static inline uint64_t rng_below(uint64_t *s, uint64_t n)
{
	return rng_next(s) % n;
}

static inline uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}
