/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The commands of kv-inspect, and what they share. One thread. */
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "common/layout/root.h"
#include "tools/kv-inspect/inspect.h"
#include "tools/lib/program.h"

enum tool_exit {
	TOOL_GOOD = 0,
	TOOL_NO = 1, /* something is not as it should be, or the key is not there */
	TOOL_USAGE = 2,
	TOOL_FAILED = 3,
};

struct disk_options;

struct tool {
	const struct program *program;
	struct inspect *in;
	char *const *operand; /* operands after the command */
	int operands;
	bool json;
	uint64_t rows; /* printed at most */
	uint64_t bytes; /* of a value, printed at most */
	const struct disk_options *disk;
	json_t *doc; /* what --json prints: its head, to begin with */
	struct root root; /* as it was at the start; not for root and check */
	uint64_t now_ms; /* the server's clock of then; 0: not known */
};

struct command {
	const char *name;
	int operands_min, operands_max;
	const char *usage; /* the operands */
	bool unprepared; /* the root may be unsound */
	bool on_disk; /* it looks at a data directory: no server is asked */
	int (*parse)(struct tool *t, struct error *err); /* operands; NULL: in run */
	int (*run)(struct tool *t); /* returns enum tool_exit */
};

extern const struct command commands[]; /* ends with a NULL name */

/* tool_failed - a READ or the connection: a line on stderr. Returns TOOL_FAILED. */
int tool_failed(const struct tool *t, int rc);

/* tool_wrong - an operand: likewise. Returns TOOL_USAGE. */
int tool_wrong(const struct tool *t, const struct error *err);

/* tool_no_memory - likewise. Returns TOOL_FAILED. */
int tool_no_memory(const struct tool *t);

/* tool_left_out - a line that says that so many rows are not printed; nothing where @n is 0. */
void tool_left_out(const struct tool *t, uint64_t n);

/* tool_set - a field of the document. */
static inline void tool_set(struct tool *t, const char *name, json_t *value)
{
	json_object_set_new(t->doc, name, value);
}

int cmd_root(struct tool *t);
int cmd_extents(struct tool *t);
int cmd_directory(struct tool *t);
int cmd_segment(struct tool *t);
int cmd_bucket(struct tool *t);
int cmd_key(struct tool *t);
int cmd_block(struct tool *t);
int cmd_check(struct tool *t);
int cmd_log(struct tool *t);
int cmd_snapshot(struct tool *t);

/* Whether the operands are good, before anything is connected: 0 or -EINVAL. */
int parse_directory(struct tool *t, struct error *err);
int parse_segment(struct tool *t, struct error *err);
int parse_bucket(struct tool *t, struct error *err);
int parse_key(struct tool *t, struct error *err);
int parse_block(struct tool *t, struct error *err);
