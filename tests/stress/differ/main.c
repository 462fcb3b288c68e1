/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* differ: random operations on a kv-server of its own, against a model in memory. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/time.h"
#include "tests/stress/differ/differ.h"
#include "tests/unit/client/with_server.h"

#define LIFE_LEAST_MS 1500u
#define LIFE_MOST_MS  5000u
#define SHORT_PART    6u /* of the lives; they last SHORT_MS at most */
#define SHORT_MS      300u
#define WITHOUT_TWINS 200u /* operations of a new life, at most */
#define ENOUGH	      30000u /* operations; fewer need not meet everything */

static int die(const char *what, const char *why)
{
	fprintf(stderr, "differ: %s: %s\n", what, why);
	return 3;
}

static int create(struct differ *d)
{
	char weak[24];

	if (!d->o.seed && getrandom(&d->o.seed, sizeof(d->o.seed), 0) != sizeof(d->o.seed))
		return die("getrandom", strerror(errno));
	d->random = d->o.seed;
	snprintf(weak, sizeof(weak), "%" PRIu64, d->o.weak);
	if (d->o.weak)
		setenv("SOFTRDMA_WEAK", weak, 1);
	else
		unsetenv("SOFTRDMA_WEAK");
	d->keys = calloc(d->o.keys, sizeof(*d->keys));
	d->record = calloc(d->o.keys, sizeof(*d->record));
	d->other = calloc(d->o.keys, sizeof(*d->other));
	d->past = calloc(d->o.keys, sizeof(*d->past));
	d->out = malloc(DIFFER_VALUE_MAX);
	d->want = malloc(DIFFER_VALUE_MAX);
	d->room = malloc((size_t)DIFFER_VALUE_MAX * (DIFFER_BATCH + 1));
	if (!d->keys || !d->record || !d->out || !d->want || !d->room || !d->other || !d->past)
		return die("memory", strerror(ENOMEM));
	keys_create(d);
	return stall_start() ? die("watching the cores", "no thread") : 0;
}

static const struct op *choose(struct differ *d)
{
	const struct op *op;
	uint64_t all = 0, at;

	for (op = ops; op->name; op++)
		all += op->weight;
	for (op = ops, at = below(d, all); at >= op->weight; op++)
		at -= op->weight;
	return op;
}

/* Most are long enough for everything; in short ones operations in flight meet nobody. */
static uint64_t choose_life_ms(struct differ *d)
{
	return below(d, SHORT_PART) ? LIFE_LEAST_MS + below(d, LIFE_MOST_MS - LIFE_LEAST_MS)
				    : below(d, SHORT_MS);
}

/* One life of the server. */
static void live(struct differ *d, uint64_t end_ns)
{
	uint64_t without = below(d, 2) ? below(d, WITHOUT_TWINS) : 0;

	while (time_now_ns() < end_ns) {
		struct end *end = end_choose(d);

		if (!d->twins && without-- == 0)
			server_twins(d, end);
		else
			act(d, choose(d), end);
	}
}

static int report(const struct differ *d)
{
	static const char *const names[METS] = { "found",	 "none",
						 "cut",		 "exists",
						 "expired",	 "no number",
						 "out of range", "landed",
						 "cancelled",	 "direct",
						 "broken",	 "left in flight",
						 "walks",	 "written meanwhile",
						 "orphans",	 "unknown" };
	int rc = 0;

	printf("differ: %" PRIu64 " operations, %" PRIu64 " lives of the server, %" PRIu64
	       " sessions, %" PRIu64 " READs, %" PRIu64 " gets by hints, %" PRIu64
	       " hints in vain, %" PRIu64 " views, %" PRIu64 " answers in doubt, %" PRIu64
	       " ms late at most;",
	       d->deeds, d->lives, d->sessions, d->reads, d->hint_hits, d->hint_stale, d->views,
	       d->in_doubt, d->late_ms);
	for (unsigned i = 0; i < METS; i++)
		printf(" %s %" PRIu64, names[i], d->met[i]);
	printf("\n");
	for (unsigned i = 0; i < (d->lives > 2 ? METS : METS_EVER) && d->deeds >= ENOUGH; i++)
		rc |= !d->met[i];
	if (d->deeds >= ENOUGH && d->o.seconds * 1000 >= 2 * LIFE_MOST_MS &&
	    (!d->hint_hits || !d->hint_stale || d->lives < 2 || !d->views))
		rc = 1;
	if (rc)
		printf("WRONG state: it has not met all that it is for\n");
	return rc;
}

int main(int argc, char **argv)
{
	static struct differ d;
	uint64_t end_ns;
	int status;

	if (differ_options_take(&d.o, argc, argv, &status))
		return status;
	setvbuf(stdout, NULL, _IOLBF, 0);
	status = create(&d);
	if (status)
		return status;
	printf("differ --seed %" PRIu64 " --keys %" PRIu64 " --weak %" PRIu64 "\n", d.o.seed,
	       d.o.keys, d.o.weak);
	server_program(KV_SERVER);
	end_ns = time_now_ns() + d.o.seconds * NS_PER_S;
	while (time_now_ns() < end_ns) {
		uint64_t life_ms = choose_life_ms(&d), life_ns;

		server_renew(&d);
		life_ns = time_now_ns() + life_ms * NS_PER_MS;
		live(&d, life_ns < end_ns ? life_ns : end_ns);
	}
	links_close(&d);
	status = server_stop(d.server, SIGTERM);
	if (status)
		printf("WRONG state: the server ended with status 0x%x\n", (unsigned)status);
	return report(&d) || status;
}
