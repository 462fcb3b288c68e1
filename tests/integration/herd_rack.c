/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * See herd_rack.h. A member is one session with its thread. The thread alone uses the handles and
 * adds to the counts; the main thread looks at the session's figures, which any thread may, and
 * reads and clears the counts while the thread goes on: they are atomic, one cell of a histogram
 * as well as a sum, and need not fit each other.
 */
#include "tests/integration/herd_rack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/lib/histogram.h"

#define MEMBERS_MAX 1024u
#define LOOK_NS	    (20 * NS_PER_MS)
#define NAP_NS	    (20 * NS_PER_MS) /* a thread looks up at least this often */
#define AGAIN_NS    (50 * NS_PER_MS) /* after an attempt that failed */
#define VALUE_MAX   65536u
#define FRESH_NS    NS_PER_S /* a beat that is older is none */

struct entry {
	_Atomic uint64_t acknowledged, begun;
};

/* Of one kind of call. Only the cells of the histogram are used. */
struct calls {
	_Atomic uint64_t count, longest_ns;
	_Atomic uint32_t cell[HISTOGRAM_CELLS];
};

enum { GETS, PUTS, KINDS };

struct member {
	pthread_t thread;
	bool started;
	unsigned number; /* of its first handle's key */
	struct gkv_session *_Atomic session; /* once it is open */
	struct gkv **handle;
	struct calls calls[KINDS];
	_Atomic uint64_t attempts, bad, lost;
	_Atomic int error; /* of the last call that failed */
	/* the main thread's, of the present connection: since when it beats, and the last beat */
	uint64_t reconnects, rounds, since_ns, grew_ns;
};

static struct member member[MEMBERS_MAX];
static struct rack_options opt;
static struct entry *ledger;
static size_t ledger_bytes;
static unsigned value_len;
static uint64_t opens_ns;
static _Atomic uint32_t pause_us;
static atomic_bool reads_only;
static atomic_bool closing;

/* Until @end_ns, or the end. */
static void sleep_until(uint64_t end_ns)
{
	uint64_t now;

	while (!atomic_load(&closing) && (now = time_now_ns()) < end_ns)
		time_sleep(end_ns - now < NAP_NS ? end_ns - now : NAP_NS);
}

/* Returns whether it went well. */
static bool called(struct member *m, unsigned kind, uint64_t start_ns, int rc)
{
	uint64_t ns = time_now_ns() - start_ns;
	struct calls *c = &m->calls[kind];

	/* relaxed, all: figures of one writer */
	atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->cell[histogram_cell(ns)], 1, memory_order_relaxed);
	if (ns > atomic_load_explicit(&c->longest_ns, memory_order_relaxed))
		atomic_store_explicit(&c->longest_ns, ns, memory_order_relaxed);
	if (rc == 0 || (kind == GETS && rc == -ENOENT))
		return true;
	atomic_fetch_add_explicit(&m->bad, 1, memory_order_relaxed);
	atomic_store_explicit(&m->error, rc, memory_order_relaxed);
	return false;
}

/* What the key of @number holds: 0, -ENOENT, or why it cannot be told. Leaves the record in
 * @value and its count in @count, 0 where there is none. */
static int read_count(struct gkv *h, unsigned number, uint8_t *value, uint64_t *count)
{
	char key[32];
	size_t key_len = (size_t)snprintf(key, sizeof(key), "herd/%u", number);
	int rc = gkv_get(h, key, key_len, value, VALUE_MAX, NULL);

	*count = 0;
	if (rc == 0)
		memcpy(count, value, sizeof(*count));
	return rc;
}

/* Whether @count may be there, where at least @acknowledged was when the read began. */
static bool may_be(unsigned number, uint64_t count, uint64_t acknowledged)
{
	uint64_t begun = atomic_load(&ledger[number].begun);

	if (count >= acknowledged && count <= begun)
		return true;
	fprintf(stderr, "LOST herd/%u: %" PRIu64 " was read, %" PRIu64 " to %" PRIu64 " may be\n",
		number, count, acknowledged, begun);
	return false;
}

/* Read what is there, write the next one. */
static void turn(struct member *m, unsigned i, uint8_t *value)
{
	unsigned number = m->number + i;
	struct entry *e = &ledger[number];
	uint64_t acknowledged = atomic_load(&e->acknowledged), count, start = time_now_ns();
	char key[32];
	int rc = read_count(m->handle[i], number, value, &count);

	if (!called(m, GETS, start, rc))
		return;
	if (!may_be(number, count, acknowledged))
		atomic_fetch_add_explicit(&m->lost, 1, memory_order_relaxed);
	if (atomic_load(&reads_only))
		return;
	/* one more than any that may still be on its way */
	count = atomic_load(&e->begun) + 1;
	memset(value, (int)(count & 0xff), value_len);
	memcpy(value, &count, sizeof(count));
	atomic_store(&e->begun, count);
	start = time_now_ns();
	rc = gkv_put(m->handle[i], key, (size_t)snprintf(key, sizeof(key), "herd/%u", number),
		     value, value_len, NULL);
	if (called(m, PUTS, start, rc))
		atomic_store(&e->acknowledged, count);
}

int rack_verify(unsigned count)
{
	uint8_t *value = malloc(VALUE_MAX);
	struct gkv *h = NULL;
	int lost = 0, rc = -ENOMEM;
	char why[640];
	uint64_t found;

	if (value && count <= ledger_bytes / sizeof(*ledger))
		rc = gkv_open(atomic_load(&member[0].session), NULL, &h, why, sizeof(why));
	for (unsigned i = 0; i < count && (rc == 0 || rc == -ENOENT); i++) {
		rc = read_count(h, i, value, &found);
		if (rc == 0 || rc == -ENOENT)
			lost += !may_be(i, found, atomic_load(&ledger[i].acknowledged));
	}
	gkv_close(h);
	free(value);
	return rc && rc != -ENOENT ? rc : lost;
}

/* One attempt; what was opened stays for the next one. */
static int open_one(struct member *m, char why[640])
{
	struct gkv_session *s = atomic_load(&m->session);
	int rc = 0;

	atomic_fetch_add(&m->attempts, 1);
	if (!s) {
		rc = gkv_session_open(&opt.session, &s, why, 640);
		if (rc == 0)
			atomic_store(&m->session, s);
	}
	for (unsigned i = 0; i < opt.handles && rc == 0; i++) {
		if (!m->handle[i])
			rc = gkv_open(s, NULL, &m->handle[i], why, 640);
	}
	return rc;
}

/* Until the next turn after that of @start_ns, at a pace that may change meanwhile. */
static void rest(uint64_t start_ns)
{
	uint64_t us, now;

	while ((us = atomic_load(&pause_us)) && !atomic_load(&closing)) {
		now = time_now_ns();
		if (us != RACK_REST && now >= start_ns + us * 1000)
			return;
		us = us == RACK_REST ? now + NAP_NS : start_ns + us * 1000;
		time_sleep(us - now < NAP_NS ? us - now : NAP_NS);
	}
}

static void *live(void *arg)
{
	struct member *m = arg;
	uint8_t *value = malloc(VALUE_MAX);
	char why[640];
	int rc = -EAGAIN;

	sleep_until(opens_ns);
	while (rc && value && !atomic_load(&closing)) {
		rc = open_one(m, why);
		if (rc == 0)
			break;
		fprintf(stderr, "session of %u: %s\n", m->number, why);
		sleep_until(time_now_ns() + AGAIN_NS);
	}
	while (rc == 0 && !atomic_load(&closing)) {
		uint64_t start = time_now_ns();

		for (unsigned i = 0; i < opt.handles && atomic_load(&pause_us) != RACK_REST; i++)
			turn(m, i, value);
		rest(start);
	}
	free(value);
	return NULL;
}

static int map_ledger(void)
{
	const size_t wanted = (opt.first + opt.sessions * opt.handles) * sizeof(*ledger);
	int fd = open(opt.ledger, O_RDWR | O_CLOEXEC);
	void *map = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (size_t)st.st_size >= wanted)
		map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -EINVAL;
	ledger = map;
	ledger_bytes = (size_t)st.st_size;
	return 0;
}

int rack_open(const struct rack_options *o, uint64_t at_ns, uint32_t pause, unsigned bytes)
{
	int rc;

	if (ledger || o->sessions > MEMBERS_MAX || bytes < sizeof(uint64_t) || bytes > VALUE_MAX)
		return -EINVAL;
	opt = *o;
	opens_ns = at_ns;
	value_len = bytes;
	atomic_store(&pause_us, pause);
	rc = map_ledger();
	for (unsigned i = 0; i < opt.sessions && rc == 0; i++) {
		struct member *m = &member[i];

		m->number = opt.first + i * opt.handles;
		m->handle = calloc(opt.handles, sizeof(*m->handle));
		rc = m->handle ? -pthread_create(&m->thread, NULL, live, m) : -ENOMEM;
		m->started = rc == 0;
	}
	return rc;
}

void rack_pace(uint32_t pause, bool writes)
{
	atomic_store(&reads_only, !writes);
	atomic_store(&pause_us, pause);
}

/* Whether it has beaten for @hold_ns over one connection, and does. */
static bool beats(struct member *m, uint64_t now, uint64_t hold_ns)
{
	struct gkv_session *s = atomic_load(&m->session);
	struct gkv_session_stats stats;

	if (!s)
		return false;
	gkv_session_stats_get(s, &stats);
	if (stats.reconnects != m->reconnects) {
		m->since_ns = 0;
		m->rounds = stats.rounds; /* those of the connection before */
	}
	m->reconnects = stats.reconnects;
	if (stats.rounds != m->rounds) {
		m->grew_ns = now;
		m->since_ns = m->since_ns ? m->since_ns : now;
	}
	m->rounds = stats.rounds;
	return m->since_ns && now - m->since_ns >= hold_ns &&
	       now - m->grew_ns <= (hold_ns > FRESH_NS ? hold_ns : FRESH_NS);
}

unsigned rack_beat(uint64_t ms, uint64_t hold_ms, uint64_t *at_ns)
{
	uint64_t end = time_now_ns() + ms * NS_PER_MS, now = 0;
	unsigned well = 0;

	while (now < end && well < opt.sessions) {
		time_sleep(LOOK_NS);
		now = time_now_ns();
		*at_ns = well = 0;
		for (unsigned i = 0; i < opt.sessions; i++) {
			well += beats(&member[i], now, hold_ms * NS_PER_MS);
			if (member[i].since_ns > *at_ns)
				*at_ns = member[i].since_ns;
		}
	}
	return well;
}

static void add_calls(struct histogram *h, struct calls *c)
{
	for (unsigned i = 0; i < HISTOGRAM_CELLS; i++) {
		uint64_t n = atomic_load_explicit(&c->cell[i], memory_order_relaxed);

		h->cell[i] += n;
		h->count += n;
	}
	if (atomic_load(&c->longest_ns) > h->max_ns)
		h->max_ns = atomic_load(&c->longest_ns);
}

void rack_tell(void)
{
	static const char *const names[KINDS] = { "get", "put" };
	static struct histogram all[KINDS];
	uint64_t attempts = 0, bad = 0, lost = 0, reconnects = 0, rounds = 0, messages = 0;
	unsigned open = 0;
	int error = 0;

	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < opt.sessions; i++) {
		struct member *m = &member[i];
		struct gkv_session_stats stats;

		gkv_session_stats_get(atomic_load(&m->session), &stats);
		open += atomic_load(&m->session) != NULL;
		attempts += atomic_load(&m->attempts);
		bad += atomic_load(&m->bad);
		lost += atomic_load(&m->lost);
		error = atomic_load(&m->error) ? atomic_load(&m->error) : error;
		reconnects += stats.reconnects;
		rounds += stats.rounds;
		messages += stats.messages;
		for (unsigned k = 0; k < KINDS; k++)
			add_calls(&all[k], &m->calls[k]);
	}
	printf("ok open=%u attempts=%" PRIu64 " bad=%" PRIu64 " error=%d lost=%" PRIu64
	       " reconnects=%" PRIu64 " rounds=%" PRIu64 " messages=%" PRIu64,
	       open, attempts, bad, error, lost, reconnects, rounds, messages);
	for (unsigned k = 0; k < KINDS; k++)
		printf(" %ss=%" PRIu64 " %s_p50_us=%.1f %s_p99_us=%.1f %s_p999_us=%.1f"
		       " %s_max_us=%.1f",
		       names[k], all[k].count, names[k], (double)histogram_at(&all[k], 0.5) / 1e3,
		       names[k], (double)histogram_at(&all[k], 0.99) / 1e3, names[k],
		       (double)histogram_at(&all[k], 0.999) / 1e3, names[k],
		       (double)all[k].max_ns / 1e3);
	putchar('\n');
}

void rack_forget(void)
{
	for (unsigned i = 0; i < opt.sessions; i++) {
		for (unsigned k = 0; k < KINDS; k++) {
			struct calls *c = &member[i].calls[k];

			atomic_store(&c->count, 0);
			atomic_store(&c->longest_ns, 0);
			for (unsigned j = 0; j < HISTOGRAM_CELLS; j++)
				atomic_store_explicit(&c->cell[j], 0, memory_order_relaxed);
		}
	}
}

void rack_close(void)
{
	atomic_store(&closing, true);
	for (unsigned i = 0; i < opt.sessions; i++) {
		struct member *m = &member[i];

		if (m->started)
			pthread_join(m->thread, NULL);
		for (unsigned k = 0; m->handle && k < opt.handles; k++)
			gkv_close(m->handle[k]);
		gkv_session_close(atomic_load(&m->session));
		free(m->handle);
	}
	if (ledger)
		munmap(ledger, ledger_bytes);
}
