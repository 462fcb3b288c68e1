/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* stats: the server's counters, once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/table.h"
#include "common/base/time.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/stats_json.h"
#include "tools/kv-cli/stats_table.h"
#include "tools/kv-cli/text.h"

static bool stats_is_bytes(const char *name)
{
	size_t len = strlen(name);

	return len >= 5 && (strcmp(name + len - 5, "bytes") == 0 || strstr(name, "bytes_"));
}

/* Where the lines of the answer go. */
struct stats_out {
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

static int stats_print(const struct stats_table *t)
{
	static const char *const headings[] = { "counter", ">value", NULL };
	static const char *const class_headings[] = { ">block bytes", ">slabs", ">used", ">free",
						      NULL };
	struct stats_out out = { .counters = table_new(headings),
				 .classes = table_new(class_headings) };

	if (!out.counters || !out.classes)
		return cli_error(CLI_FAILED, "stats: no memory");
	for (size_t i = 0; i < t->count; i++)
		stats_row(&out, t->values[i].name, t->values[i].value);
	table_print(out.counters, stdout);
	if (out.class_rows)
		putchar('\n');
	table_print(out.classes, out.class_rows ? stdout : NULL);
	return cli_flush(stdout, "stdout");
}

int cli_stats(struct cli *cli)
{
	autofree char *text = NULL;
	struct stats_table t = { 0 };
	int rc;

	if (cli->given & CLI_WATCH)
		return cli_watch(cli);
	if (cli_connect(cli))
		return CLI_FAILED;
	rc = gkv_server_stats(cli->handle, &text);
	if (rc)
		return cli_call_failed(cli, rc, "stats", NULL, 0);
	if (stats_table_read(&t, text, time_now_ns()))
		return cli_error(CLI_FAILED, "stats: no memory");
	rc = cli->json ? cli_print_json(stats_json(&t)) : stats_print(&t);
	stats_table_free(&t);
	return rc;
}
