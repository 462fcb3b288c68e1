/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-inspect/tool.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/include/gracekv.h"

const struct command commands[] = {
	{ "root", 0, 0, "", true, false, NULL, cmd_root },
	{ "extents", 0, 0, "", false, false, NULL, cmd_extents },
	{ "directory", 0, 1, " [PREFIX]", false, false, parse_directory, cmd_directory },
	{ "segment", 1, 1, " PREFIX|HASH", false, false, parse_segment, cmd_segment },
	{ "bucket", 1, 1, " HASH|PREFIX:N", false, false, parse_bucket, cmd_bucket },
	{ "key", 1, 1, " KEY", false, false, parse_key, cmd_key },
	{ "block", 1, 1, " EXTENT:OFFSET", false, false, parse_block, cmd_block },
	{ "check", 0, 0, "", true, false, NULL, cmd_check },
	{ "log", 1, 1, " DIR", true, true, NULL, cmd_log },
	{ "snapshot", 1, 1, " DIR|FILE", true, true, NULL, cmd_snapshot },
	{ 0 },
};

int tool_failed(const struct tool *t, int rc)
{
	const char *why = t->in->r->err->text;

	program_failed(t->program, "reading the server", why[0] ? why : gkv_strerror(rc));
	return TOOL_FAILED;
}

int tool_wrong(const struct tool *t, const struct error *err)
{
	return program_usage(t->program, err->text);
}

int tool_no_memory(const struct tool *t)
{
	program_failed(t->program, "decoding", "this process is out of memory");
	return TOOL_FAILED;
}

void tool_left_out(const struct tool *t, uint64_t n)
{
	if (n && !t->json)
		printf("... and %" PRIu64 " more rows (--rows 0 prints all)\n", n);
}
