/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * One thread, many operations in flight: writes records, then reads them back and compares every
 * byte. While nothing is ready it sleeps in poll(2), as an event loop does.
 */
#include <errno.h>
#include <gracekv.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RECORDS	  10000u
#define DEPTH	  32u /* operations in flight; gkv_connect() allows 64 */
#define VALUE_MAX 128u

/* What an operation names is the library's until its completion: each in flight has its own. */
struct slot {
	unsigned number; /* of the record */
	char key[24];
	char value[VALUE_MAX];
};

struct run {
	struct gkv *kv;
	unsigned op, next, done, wrong, sleeps, free_count;
	struct slot *free_slot[DEPTH], slot[DEPTH];
};

static size_t value_of(unsigned number, char *value)
{
	return (size_t)snprintf(value, VALUE_MAX, "%0*u", (int)(10 + number % 100), number);
}

/* Fill all free slots. Returns 0, or a negative errno. */
static int submit(struct run *r)
{
	struct gkv_request requests[DEPTH];
	unsigned count = 0;
	int taken;

	while (count < r->free_count && r->next + count < RECORDS) {
		struct slot *s = r->free_slot[r->free_count - 1 - count];
		struct gkv_request *q = &requests[count];
		size_t key_len;

		s->number = r->next + count++;
		key_len = (size_t)snprintf(s->key, sizeof(s->key), "item:%u", s->number);
		if (r->op == GKV_OP_PUT)
			gkv_request_put(q, s->key, key_len, s->value, value_of(s->number, s->value),
					s);
		else
			gkv_request_get(q, s->key, key_len, s->value, VALUE_MAX, s);
	}
	taken = count ? gkv_submit(r->kv, requests, count) : 0;
	if (taken < 0)
		return taken == -EAGAIN ? 0 : taken; /* as many in flight as there may be */
	r->next += (unsigned)taken; /* the others' slots are free still */
	r->free_count -= (unsigned)taken;
	return 0;
}

/* Returns 0, or the negative errno that it failed with. */
static int complete(struct run *r, const struct gkv_completion *c)
{
	struct slot *s = c->user;
	char right[VALUE_MAX];

	if (c->status) /* the others would go on; here it ends the run */
		return c->status;
	if (c->op == GKV_OP_GET &&
	    (c->len != value_of(s->number, right) || memcmp(s->value, right, c->len) != 0)) {
		fprintf(stderr, "pipeline: %s: another value\n", s->key);
		r->wrong++;
	}
	r->free_slot[r->free_count++] = s;
	r->done++;
	return 0;
}

/* Nothing was ready. Between the look and the sleep something may come: gkv_arm() says so. */
static int sleep_until_ready(struct run *r)
{
	struct pollfd ready = { .fd = gkv_fd(r->kv), .events = POLLIN };
	int rc = ready.fd < 0 ? ready.fd : gkv_arm(r->kv);

	if (rc)
		return rc == -EAGAIN ? 0 : rc;
	r->sleeps++;
	return poll(&ready, 1, 1000) < 0 && errno != EINTR ? -errno : 0;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* All records once. Returns 0, or a negative errno: what is in flight then ends by gkv_close(). */
static int run(struct run *r, unsigned op, const char *name)
{
	struct gkv_completion completions[DEPTH];
	const double begin = now_s();
	int got, rc = 0;

	r->op = op;
	r->next = r->done = r->sleeps = 0;
	while (rc == 0 && r->done < RECORDS) {
		rc = submit(r);
		got = rc ? rc : gkv_poll(r->kv, completions, DEPTH);
		if (got <= 0)
			rc = got ? got : sleep_until_ready(r);
		for (int i = 0; i < got && rc == 0; i++)
			rc = complete(r, &completions[i]);
	}
	if (rc)
		fprintf(stderr, "pipeline: %s: %s\n", gkv_strerror(rc), gkv_error(r->kv));
	else
		printf("%u %s, %.0f a second, %u sleeps\n", RECORDS, name,
		       RECORDS / (now_s() - begin), r->sleeps);
	return rc;
}

int main(void)
{
	static struct run r; /* outlives the handle, since what is in flight names it */
	char why[256];
	int status = 3;

	if (gkv_connect(NULL, NULL, &r.kv, why, sizeof(why))) {
		fprintf(stderr, "pipeline: %s\n", why);
		return 3;
	}
	for (; r.free_count < DEPTH; r.free_count++)
		r.free_slot[r.free_count] = &r.slot[r.free_count];
	if (run(&r, GKV_OP_PUT, "PUTs") == 0 && run(&r, GKV_OP_GET, "GETs") == 0)
		status = r.wrong ? 1 : 0;
	gkv_disconnect(r.kv);
	return status;
}
