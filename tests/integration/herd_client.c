/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Many clients in one process: some sessions, each with some handles, each handle with a thread.
 * One command a line on stdin, one answer on stdout, as kv-test-client.
 *
 *	kv-test-herd HOST:PORT DEVICE SESSIONS HANDLES TIMEOUT_MS LIFELINE_MS
 *			[LEDGER FIRST thread|tick]
 *
 *	run KEY MS	every handle reads KEY for this long, whatever comes: successful reads
 *			and how many not, the longest in us, for how many handles the last one went
 *			well, and how often queue pairs were opened again
 *	quit
 *
 * KEY is taken as it is. With LEDGER, nothing is opened before it is told, and the commands are
 * those of a rack (herd_rack.h), whose first number is FIRST; "tick": without housekeepers.
 *
 *	open AT_NS PAUSE_US BYTES
 *	pace PAUSE_US [0]	0: reads only
 *	beat MS HOLD_MS		beating=, at_ns=
 *	counts			of calls since "forget", and how long they took
 *	forget
 *	verify COUNT		the keys of the ledger's first numbers: how many are lost
 */
#include <errno.h>
#include <gracekv.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/integration/herd_rack.h"

#define THREADS_MAX 128u

struct reader {
	pthread_t thread;
	struct gkv *handle;
	const char *key;
	uint64_t end_ns;
	uint64_t good, bad, longest_us;
	bool well; /* the last read */
	int error; /* of the last one that failed */
};

static struct gkv_session *session[THREADS_MAX];
static struct reader readers[THREADS_MAX];
static unsigned sessions, handles; /* of each */

static void *read_on(void *arg)
{
	struct reader *r = arg;
	char value[1024];
	uint64_t start = time_now_ns(), now;

	r->good = r->bad = r->longest_us = 0;
	for (; start < r->end_ns; start = time_now_ns()) {
		size_t len;
		int rc = gkv_get(r->handle, r->key, strlen(r->key), value, sizeof(value), &len);

		now = time_now_ns();
		if ((now - start) / 1000 > r->longest_us)
			r->longest_us = (now - start) / 1000;
		r->well = rc == 0 || rc == -ENOENT;
		r->good += r->well;
		r->bad += !r->well;
		r->error = r->well ? r->error : rc;
		nanosleep(&(struct timespec){ 0, NS_PER_MS }, NULL);
	}
	return NULL;
}

static void run(const char *key, uint64_t ms)
{
	uint64_t end_ns = time_now_ns() + ms * NS_PER_MS, reconnects = 0;
	struct reader sum = { 0 };
	unsigned well = 0, started = 0;

	for (; started < sessions * handles; started++) {
		readers[started].key = key;
		readers[started].end_ns = end_ns;
		if (pthread_create(&readers[started].thread, NULL, read_on, &readers[started]))
			break;
	}
	for (unsigned i = 0; i < started; i++) {
		const struct reader *r = &readers[i];
		struct gkv_stats stats;

		pthread_join(r->thread, NULL);
		gkv_stats_get(r->handle, &stats);
		reconnects += stats.reconnects;
		sum.good += r->good;
		sum.bad += r->bad;
		sum.longest_us = r->longest_us > sum.longest_us ? r->longest_us : sum.longest_us;
		sum.error = r->error ? r->error : sum.error;
		well += r->well;
	}
	printf("ok good=%" PRIu64 " bad=%" PRIu64 " longest_us=%" PRIu64 " well=%u "
	       "reconnects=%" PRIu64 " error=%d\n",
	       sum.good, sum.bad, sum.longest_us, well, reconnects, sum.error);
}

static int open_one(unsigned number, const struct gkv_options *options)
{
	char text[640];
	int rc = gkv_session_open(options, &session[number], text, sizeof(text));

	for (unsigned i = 0; i < handles && rc == 0; i++)
		rc = gkv_open(session[number], NULL, &readers[number * handles + i].handle, text,
			      sizeof(text));
	if (rc)
		printf("err %d %s\n", rc, text);
	return rc;
}

static void close_all(void)
{
	for (unsigned i = 0; i < sessions * handles; i++)
		gkv_close(readers[i].handle);
	for (unsigned i = 0; i < sessions; i++)
		gkv_session_close(session[i]);
}

/* A command of a rack, and its answer. */
static void rack_do(const struct rack_options *o, const char *line)
{
	uint64_t a, b = 1, at_ns = 0;
	unsigned bytes;
	int rc = 0;

	if (sscanf(line, "open %" SCNu64 " %" SCNu64 " %u", &a, &b, &bytes) == 3) {
		rc = rack_open(o, a, (uint32_t)b, bytes);
	} else if (sscanf(line, "pace %" SCNu64 " %" SCNu64, &a, &b) >= 1) {
		rack_pace((uint32_t)a, b);
	} else if (sscanf(line, "beat %" SCNu64 " %" SCNu64, &a, &b) == 2) {
		bytes = rack_beat(a, b, &at_ns);
		printf("ok beating=%u at_ns=%" PRIu64 "\n", bytes, at_ns);
		return;
	} else if (sscanf(line, "verify %u", &bytes) == 1) {
		rc = rack_verify(bytes);
		if (rc >= 0) {
			printf("ok lost=%d\n", rc);
			return;
		}
	} else if (strcmp(line, "counts\n") == 0) {
		rack_tell();
		return;
	} else if (strcmp(line, "forget\n") == 0) {
		rack_forget();
	} else {
		rc = -EINVAL;
	}
	if (rc)
		printf("err %d %s", rc, line);
	else
		puts("ok");
}

static int rack_main(const struct rack_options *o)
{
	char line[256];

	puts("ok");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0)
		rack_do(o, line);
	rack_close();
	return 0;
}

static int readers_main(const struct gkv_options *options)
{
	char line[256], key[128];
	unsigned ms;
	int rc = 0;

	for (unsigned i = 0; i < sessions && rc == 0; i++)
		rc = open_one(i, options);
	if (rc == 0)
		puts("ok");
	while (rc == 0 && fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0) {
		if (sscanf(line, "run %127s %u", key, &ms) == 2)
			run(key, ms);
		else
			printf("err %d not a command\n", -EINVAL);
	}
	close_all();
	return rc ? 3 : 0;
}

int main(int argc, char **argv)
{
	struct gkv_options options;

	if (argc != 7 && argc != 10)
		return fputs("kv-test-herd: six arguments are wanted, or nine\n", stderr), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	gkv_options_init(&options);
	options.server = argv[1];
	options.device = argv[2];
	sessions = (unsigned)strtoul(argv[3], NULL, 10);
	handles = (unsigned)strtoul(argv[4], NULL, 10);
	options.timeout_ms = (unsigned)strtoul(argv[5], NULL, 10);
	options.lifeline_ms = (unsigned)strtoul(argv[6], NULL, 10);
	if (argc == 10) {
		options.hint_bytes = RACK_HINT_BYTES;
		if (strcmp(argv[9], "tick") == 0)
			options.housekeeper = GKV_HOUSEKEEPER_TICK;
		return rack_main(&(struct rack_options){ options, sessions, handles, argv[7],
							 (unsigned)strtoul(argv[8], NULL, 10) });
	}
	if (sessions > THREADS_MAX || handles > THREADS_MAX || sessions * handles > THREADS_MAX)
		return fputs("kv-test-herd: too many\n", stderr), 2;
	return readers_main(&options);
}
