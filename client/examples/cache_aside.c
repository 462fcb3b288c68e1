/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A cache in front of a slow database: look into the cache, else ask the database and leave what it
 * said in the cache for others, for a while. The cache is never needed: where it fails, the answer
 * comes from the database, later but right.
 *
 * usage: cache_aside [REQUESTS [KEYS [TTL_MS [TIMEOUT_MS]]]]
 */
#include <errno.h>
#include <gracekv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_MAX     64u
#define DATABASE_MS    5
#define LEAVE_ALONE_MS 1000u /* a cache that failed is not asked for this long */

struct cache {
	struct gkv *kv; /* NULL: there is none */
	uint64_t ttl_ms, alone_until_ms;
	unsigned hits, misses, raced, full, failures, without;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Stands for a query that takes its time. */
static size_t slow_database(unsigned id, char *answer)
{
	nanosleep(&(struct timespec){ .tv_nsec = DATABASE_MS * 1000000 }, NULL);
	return (size_t)snprintf(answer, ANSWER_MAX, "user %u, born %u", id, 1930 + id * 7 % 80);
}

/* A failure is worth a line in the log, and the cache a pause: it may not slow everything down. */
static void failed(struct cache *c, const char *what, int rc)
{
	c->failures++;
	c->alone_until_ms = now_ms() + LEAVE_ALONE_MS;
	fprintf(stderr, "cache_aside: %s: %s: %s\n", what, gkv_strerror(rc), gkv_error(c->kv));
}

static void store(struct cache *c, const char *key, const char *answer, size_t len)
{
	/*
	 * Only where the key is absent: a slow loader does not replace what others have loaded
	 * meanwhile, which may be newer.
	 */
	const struct gkv_write_options options = { .condition = GKV_IF_ABSENT,
						   .ttl_ms = c->ttl_ms };
	int rc = gkv_put_with(c->kv, key, strlen(key), answer, len, &options, NULL);

	switch (rc) {
	case 0:
		break;
	case -EEXIST: /* another process asked the same, and was first */
		c->raced++;
		break;
	case -ENOMEM: /* the store is full: reads go on, and records expire */
		c->full++;
		break;
	case -ETIMEDOUT: /* it may be stored or not, and either does no harm */
	default: /* no connection; a later call makes another */
		failed(c, "put", rc);
	}
}

/* The answer for @id, in @answer, with a zero after it. */
static size_t ask(struct cache *c, unsigned id, char *answer)
{
	char key[32];
	size_t len;
	int rc;

	if (!c->kv || now_ms() < c->alone_until_ms) {
		c->without++;
		return slow_database(id, answer);
	}
	snprintf(key, sizeof(key), "user:%u", id);
	rc = gkv_get(c->kv, key, strlen(key), answer, ANSWER_MAX - 1, &len);
	if (rc == 0) {
		c->hits++;
		answer[len] = '\0';
		return len;
	}
	if (rc == -ENOENT) {
		c->misses++;
		len = slow_database(id, answer);
		store(c, key, answer, len);
		return len;
	}
	failed(c, "get", rc);
	return slow_database(id, answer);
}

static void cache_open(struct cache *c, unsigned timeout_ms)
{
	struct gkv_options options;
	char why[256];

	gkv_options_init(&options);
	options.timeout_ms = timeout_ms; /* what a call may cost at most */
	if (gkv_connect(NULL, &options, &c->kv, why, sizeof(why)))
		fprintf(stderr, "cache_aside: no cache: %s\n", why);
}

/* Argument @i, or @otherwise. */
static unsigned number(int argc, char **argv, int i, unsigned otherwise)
{
	return i < argc ? (unsigned)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	const unsigned requests = number(argc, argv, 1, 1000), keys = number(argc, argv, 2, 100);
	struct cache cache = { .ttl_ms = number(argc, argv, 3, 10000) };
	uint64_t begin, sum = 0;
	char answer[ANSWER_MAX];

	cache_open(&cache, number(argc, argv, 4, 250));
	begin = now_ms();
	for (unsigned i = 0; i < requests; i++) {
		ask(&cache, keys ? i % keys : 0, answer);
		for (const char *p = answer; *p; p++) /* the same with the cache and without */
			sum = sum * 31 + (unsigned char)*p;
	}
	printf("%u requests in %llu ms: %u hits, %u misses (%u raced, %u full), %u failures, "
	       "%u without the cache; sum %016llx\n",
	       requests, (unsigned long long)(now_ms() - begin), cache.hits, cache.misses,
	       cache.raced, cache.full, cache.failures, cache.without, (unsigned long long)sum);
	gkv_disconnect(cache.kv); /* NULL is fine */
	return 0;
}
