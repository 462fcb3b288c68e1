/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* ping: how long a question takes. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "common/base/time.h"
#include "tools/kv-cli/cli.h"

#define PING_COUNT    5u
#define PING_PAUSE_MS 200u

struct ping {
	uint64_t sent, answered, min_ns, max_ns, sum_ns;
};

static int ping_once(struct cli *cli, struct ping *p, json_t *times)
{
	uint64_t ns;
	int rc = gkv_ping(cli->handle, &ns);

	p->sent++;
	if (rc)
		return cli_call_failed(cli, rc, "ping", NULL, 0);
	if (!p->answered || ns < p->min_ns)
		p->min_ns = ns;
	if (ns > p->max_ns)
		p->max_ns = ns;
	p->sum_ns += ns;
	p->answered++;
	if (times && json_array_append_new(times, json_real((double)ns / 1000)))
		return cli_error(CLI_FAILED, "ping: no memory");
	if (!times)
		printf("reply from %s: seq=%" PRIu64 " time=%.1f us\n", cli->server, p->sent - 1,
		       (double)ns / 1000);
	return times ? 0 : cli_flush(stdout, "stdout");
}

static int ping_summary(const struct cli *cli, const struct ping *p, json_t *times)
{
	double min = (double)p->min_ns / 1000, max = (double)p->max_ns / 1000;
	double avg = p->answered ? (double)p->sum_ns / (double)p->answered / 1000 : 0;

	if (cli->json)
		return cli_print_json(json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:o}", "server",
						cli->server, "sent", (json_int_t)p->sent,
						"answered", (json_int_t)p->answered, "min_us", min,
						"avg_us", avg, "max_us", max, "times_us", times));
	printf("%" PRIu64 " sent, %" PRIu64 " answered, min/avg/max %.1f/%.1f/%.1f us\n", p->sent,
	       p->answered, min, avg, max);
	return cli_flush(stdout, "stdout");
}

int cli_ping(struct cli *cli)
{
	uint64_t count = cli->given & CLI_COUNT ? cli->count : PING_COUNT;
	json_t *times = cli->json ? json_array() : NULL;
	struct ping p = { 0 };
	int code;

	if (cli->json && !times)
		return cli_error(CLI_FAILED, "ping: no memory");
	code = cli_connect(cli);
	cli_watch_signals();
	for (uint64_t i = 0; code == 0 && i < count && !cli_stopped(); i++) {
		struct timespec pause = { .tv_nsec = (long)(PING_PAUSE_MS * NS_PER_MS) };

		if (i)
			nanosleep(&pause, NULL);
		code = ping_once(cli, &p, times);
	}
	if (code) {
		json_decref(times);
		return code;
	}
	return ping_summary(cli, &p, times);
}
