/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* stats and ping: questions about the server. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/cleanup.h"
#include "common/base/table.h"
#include "common/base/time.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/text.h"

#define PING_COUNT    5u
#define PING_PAUSE_MS 200u

static bool stats_is_bytes(const char *name)
{
	size_t len = strlen(name);

	return len >= 5 && (strcmp(name + len - 5, "bytes") == 0 || strstr(name, "bytes_"));
}

/* Where the lines of the answer go. */
struct stats_out {
	json_t *object; /* or: */
	struct table *counters;
	struct table *classes; /* blocks by size: a row of three counters each */
	unsigned class_rows;
};

static void stats_row(struct stats_out *out, const char *name, uint64_t value)
{
	char size[TEXT_SIZE_MAX], what[16];
	unsigned bytes;

	if (sscanf(name, "class_%u_%15s", &bytes, what) == 2) {
		if (strcmp(what, "slabs") == 0) {
			table_cell(out->classes, "%u", bytes);
			out->class_rows++;
		}
		table_cell(out->classes, "%" PRIu64, value);
		return;
	}
	table_cell(out->counters, "%s", name);
	if (stats_is_bytes(name))
		table_cell(out->counters, "%s", text_size_binary(size, value));
	else
		table_cell(out->counters, "%" PRIu64, value);
}

/* One line "name value". Returns 0 or -ENOMEM. */
static int stats_line(char *line, struct stats_out *out)
{
	char *space = strchr(line, ' ');
	uint64_t value;

	if (!space)
		return 0;
	*space = '\0';
	value = strtoull(space + 1, NULL, 10);
	if (!out->object) {
		stats_row(out, line, value);
		return 0;
	}
	return json_object_set_new(out->object, line, json_integer((json_int_t)value)) ? -ENOMEM
										       : 0;
}

int cli_stats(struct cli *cli)
{
	static const char *const headings[] = { "counter", ">value", NULL };
	static const char *const class_headings[] = { ">block bytes", ">slabs", ">used", ">free",
						      NULL };
	autofree char *text = NULL;
	struct stats_out out = { 0 };
	char *next, *line;
	int rc;

	if (cli_connect(cli))
		return CLI_FAILED;
	rc = gkv_server_stats(cli->handle, &text);
	if (rc)
		return cli_call_failed(cli, rc, "stats", NULL, 0);
	if (cli->json) {
		out.object = json_object();
	} else {
		out.counters = table_new(headings);
		out.classes = table_new(class_headings);
	}
	if (cli->json ? !out.object : !out.counters || !out.classes)
		return cli_error(CLI_FAILED, "stats: no memory");
	next = text;
	while (rc == 0 && (line = strsep(&next, "\n")))
		rc = stats_line(line, &out);
	if (rc) {
		json_decref(out.object);
		return cli_error(CLI_FAILED, "stats: no memory");
	}
	if (out.object)
		return cli_print_json(out.object);
	table_print(out.counters, stdout);
	if (out.class_rows)
		putchar('\n');
	table_print(out.classes, out.class_rows ? stdout : NULL);
	return cli_flush(stdout, "stdout");
}

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
