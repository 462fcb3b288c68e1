/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Options that are words, and what options say together. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/gracekv.h"
#include "common/base/parse.h"
#include "tools/lib/words.h"
#include "tools/kv-bw-lat/options.h"

#define ALL_FIRST	 2u
#define ALL_LAST	 (8u << 20)
#define WORD_MAX	 24u
#define PORT_DEFAULT	 "7471"
#define ITERATIONS	 1000u /* of -U, which wants a number */
#define SECONDS		 1.0
#define ROUNDS		 10u /* of --raw */
#define ROUND_OPS	 500u /* of a queue pair, at least, in rounds that were not asked for */
#define RATE_OPS_MAX	 1e12 /* of a run */
#define RATE_SECONDS_MAX 86400 /* likewise, as of -D */

static int take_size(struct perf_options *o, const char *word, struct error *err)
{
	uint64_t size;
	int rc = parse_size("--size", word, &size, err);

	if (rc)
		return rc;
	if (size < 1 || size > GKV_VALUE_MAX)
		return error_set(err, -ERANGE,
				 "--size: %s is out of range (a value has 1 to %u bytes)", word,
				 GKV_VALUE_MAX);
	if (o->sizes == PERF_SIZES_MAX)
		return error_set(err, -E2BIG, "--size: more than %u sizes (give fewer)",
				 PERF_SIZES_MAX);
	o->size[o->sizes++] = size;
	return 0;
}

int perf_take_sizes(struct perf_options *o, const char *text, bool all, struct error *err)
{
	char word[WORD_MAX];
	int rc;

	o->sizes = 0;
	for (uint64_t size = ALL_FIRST; all && size <= ALL_LAST; size *= 2)
		o->size[o->sizes++] = size;
	if (all)
		return 0;
	while ((rc = words_next("--size", &text, word, sizeof(word), err)) > 0) {
		rc = take_size(o, word, err);
		if (rc)
			break;
	}
	return rc;
}

int perf_take_op(struct perf_options *o, const char *text, struct error *err)
{
	uint64_t group;

	o->group = 1;
	if (strcmp(text, "get") == 0) {
		o->op = PERF_GET;
	} else if (strcmp(text, "put") == 0) {
		o->op = PERF_PUT;
	} else if (strncmp(text, "mixed:", 6) == 0) {
		o->op = PERF_MIXED;
		return words_number("--op mixed", text + 6, 0, 1, &o->get_share, err);
	} else if (strncmp(text, "mget:", 5) == 0 && o->latency) {
		int rc = parse_u64("--op mget", text + 5, 1, PERF_GROUP_MAX, &group, err);

		o->op = PERF_MGET;
		o->group = rc ? 1 : (unsigned)group;
		return rc;
	} else {
		return error_set(err, -EINVAL, "--op: '%.40s' is none of get, put, mixed:R%s", text,
				 o->latency	  ? ", mget:N"
				 : text[0] == 'm' ? " (mget is kv-lat's: see -l)"
						  : "");
	}
	return 0;
}

int perf_take_dist(struct perf_options *o, const char *text, struct error *err)
{
	o->theta = 0;
	if (strcmp(text, "uniform") == 0)
		return 0;
	if (strncmp(text, "zipf:", 5) == 0)
		return words_number("--dist zipf", text + 5, 0.0001, 0.9999, &o->theta, err);
	return error_set(err, -EINVAL, "--dist: '%.40s' is none of uniform, zipf:S", text);
}

int perf_take_server(struct perf_options *o, const char *what, uint64_t port, struct error *err)
{
	int rc;

	o->host[0] = o->port[0] = 0;
	rc = parse_host_port(what, o->server, o->host, o->port, err);
	if (rc)
		return rc;
	if (!o->host[0])
		return error_set(err, -EINVAL, "%s: '%.40s' names no host (give HOST:PORT)", what,
				 o->server);
	if (o->port[0] && port != PERF_UNSET && (uint64_t)atoi(o->port) != port)
		return error_set(err, -EINVAL, "the port is %s in HOST:PORT and %u by -p", o->port,
				 (unsigned)port);
	if (!o->port[0] && port != PERF_UNSET)
		snprintf(o->port, sizeof(o->port), "%u", (unsigned)port % 65536);
	else if (!o->port[0])
		strcpy(o->port, PORT_DEFAULT);
	snprintf(o->address, sizeof(o->address), strchr(o->host, ':') ? "[%s]:%s" : "%s:%s",
		 o->host, o->port);
	return 0;
}

static int check_name(const struct perf_options *o, struct error *err)
{
	size_t len = o->name ? strlen(o->name) : 1;

	if (len < 1 || len > PERF_NAME_MAX)
		return error_set(err, -EINVAL, "--name has %zu bytes, it may have 1 to %u", len,
				 PERF_NAME_MAX);
	if (o->keep && !o->name)
		return error_set(err, -EINVAL, "--keep wants a --name by which they are found");
	return 0;
}

static int check_flight(const struct perf_options *o, struct error *err)
{
	if (o->threads > o->qps)
		return error_set(err, -EINVAL,
				 "%u threads have %u queue pairs: each thread wants one (give -q)",
				 (unsigned)o->threads, (unsigned)o->qps);
	if (o->post_list > o->depth)
		return error_set(err, -EINVAL,
				 "-l %u is more than -t %u, all that may be in flight",
				 (unsigned)o->post_list, (unsigned)o->depth);
	if (o->moderation > o->depth)
		return error_set(err, -EINVAL,
				 "-Q %u is more than -t %u, all that may be in flight",
				 (unsigned)o->moderation, (unsigned)o->depth);
	return 0;
}

/* What would be taken and do nothing. */
static int check_idle(const struct perf_options *o, struct error *err)
{
	if (o->moderation > 1 && o->rate > 0)
		return error_set(err, -EINVAL,
				 "-Q and --rate do not go together: an open loop waits for no "
				 "completions");
	if (o->events && o->op == PERF_MGET)
		return error_set(err, -EINVAL, "-e is for --op get, put and mixed");
	if (o->no_hints && o->hint_bytes)
		return error_set(err, -EINVAL, "--no-hints and --hints do not go together");
	if (o->no_hints && o->op == PERF_PUT)
		return error_set(err, -EINVAL, "--no-hints is for GETs");
	return 0;
}

/* An open loop of @all operations. */
static int check_rate(const struct perf_options *o, double all, struct error *err)
{
	if (!(o->rate > 0))
		return 0;
	if (all < 1)
		return error_set(err, -EINVAL,
				 "--rate: in -D %g seconds not one operation is due (give more)",
				 o->seconds);
	if (all > RATE_OPS_MAX)
		return error_set(err, -EINVAL, "--rate: %.3g operations are too many for a run",
				 all);
	if (all / o->rate > RATE_SECONDS_MAX)
		return error_set(
			err, -EINVAL,
			"--rate: %.3g operations take %.3g s so, more than a day (give less of -n, or more)",
			all, all / o->rate);
	return 0;
}

static int check_together(const struct perf_options *o, struct error *err)
{
	double all = (double)o->iterations * (double)o->qps;

	if (o->raw_checksum && o->op != PERF_GET)
		return error_set(err, -EINVAL, "--raw-checksum is for --op get");
	if (o->raw && o->op == PERF_MIXED)
		return error_set(err, -EINVAL,
				 "--raw: a mix has no floor of its own (run it with --op get, and "
				 "with --op put)");
	if (o->raw && o->op == PERF_MGET)
		return error_set(err, -EINVAL, "--raw is for --op get and put");
	if (o->raw && o->rate > 0)
		return error_set(err, -EINVAL,
				 "--raw and --rate do not go together: the device alone has no "
				 "rate to keep");
	if (o->mtu != PERF_UNSET && (o->mtu & (o->mtu - 1)))
		return error_set(err, -EINVAL, "--mtu: %u is none of 256, 512, 1024, 2048, 4096",
				 (unsigned)o->mtu);
	if (o->unsorted && o->seconds > 0)
		return error_set(err, -EINVAL,
				 "-U wants -n: memory for all of them is made before");
	if (o->unsorted && all > PERF_KEPT_MAX)
		return error_set(err, -EINVAL, "-U keeps %u latencies at most (give a smaller -n)",
				 PERF_KEPT_MAX);
	return check_rate(o, o->seconds > 0 ? o->rate * o->seconds : all, err);
}

/* Rounds of --raw are short, so that both sides meet the same disturbances, and not too short to
 * fill what is in flight. */
static uint64_t rounds_default(const struct perf_options *o)
{
	uint64_t n = o->raw ? ROUNDS : 1;

	if (o->raw && o->seconds == 0 && o->iterations < ROUNDS * ROUND_OPS)
		n = o->iterations / ROUND_OPS;
	return n ? n : 1;
}

int perf_settle(struct perf_options *o, struct error *err)
{
	int rc;

	if (o->iterations && o->seconds > 0)
		return error_set(err, -EINVAL, "-n and -D do not go together (give one of them)");
	if (!o->iterations && o->seconds == 0 && o->unsorted)
		o->iterations = ITERATIONS;
	else if (!o->iterations && o->seconds == 0)
		o->seconds = SECONDS;
	o->raw |= o->raw_checksum;
	rc = check_name(o, err);
	if (rc == 0)
		rc = check_flight(o, err);
	if (rc == 0)
		rc = check_together(o, err);
	if (rc == 0)
		rc = check_idle(o, err);
	if (!o->rounds)
		o->rounds = rounds_default(o);
	if (rc == 0 && o->seconds == 0 && o->rounds > o->iterations)
		rc = error_set(err, -EINVAL, "--rounds: %u are more than -n %u operations",
			       (unsigned)o->rounds, (unsigned)o->iterations);
	return rc;
}

const char *perf_op_name(const struct perf_options *o, char text[32])
{
	static const char *const names[] = { "get", "put", "mixed", "mget" };

	if (o->op == PERF_MIXED)
		snprintf(text, 32, "mixed:%g", o->get_share);
	else if (o->op == PERF_MGET)
		snprintf(text, 32, "mget:%u", o->group);
	else
		snprintf(text, 32, "%s", names[o->op]);
	return text;
}
