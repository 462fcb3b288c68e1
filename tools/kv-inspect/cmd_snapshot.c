/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* snapshot: which there are in a data directory, and whether they are whole. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/log/snapshot.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/disk.h"
#include "tools/kv-inspect/show.h"

#define SNAPSHOTS_MAX 256u

static const struct show_field columns[] = {
	{ "name", "snapshot", SHOW_PLAIN, NULL },      { "life", ">life", SHOW_PLAIN, NULL },
	{ "start", ">replay from", SHOW_PLAIN, NULL }, { "end", ">log reaches", SHOW_PLAIN, NULL },
	{ "records", ">records", SHOW_PLAIN, NULL },   { "clients", ">replies", SHOW_PLAIN, NULL },
	{ "bytes", ">file", SHOW_SIZE, NULL },	       { "taken", "taken", SHOW_PLAIN, NULL },
	{ "state", "state", SHOW_PLAIN, NULL },	       { 0 },
};

/* What a whole reading has found. */
struct counts {
	uint64_t records, clients;
};

static int record(void *ctx, const struct snapshot_record *r)
{
	(void)r;
	((struct counts *)ctx)->records++;
	return 0;
}

static int client(void *ctx, const struct snapshot_client *c)
{
	(void)c;
	((struct counts *)ctx)->clients++;
	return 0;
}

static json_t *row_of(const struct snapshot_info *s)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:s, s:o}", "name", s->name,
			 "life", decode_number(s->head.life), "start", decode_number(s->head.start),
			 "end", decode_number(s->foot.end), "records",
			 decode_number(s->foot.records), "clients", decode_number(s->foot.clients),
			 "bytes", decode_number(s->bytes), "taken", disk_time(s->head.clock_ms),
			 "complete", s->why == NULL, "state", s->why ? s->why : "complete",
			 "offset", s->why ? decode_number(s->offset) : json_null());
}

/* Every chunk. Returns enum tool_exit; @row is told. */
static int verify(struct tool *t, const struct disk *d, const struct snapshot_info *s, json_t *row)
{
	struct counts found = { 0 };
	const struct snapshot_reader reader = { .record = record, .client = client, .ctx = &found };
	struct error err;
	int rc = snapshot_read(&d->io, s, &reader, &err);

	json_object_set_new(row, "verified", json_boolean(rc == 0));
	if (rc)
		return disk_failed(t, "reading the snapshot", rc, &err);
	json_object_set_new(row, "state", json_string("complete, verified"));
	return TOOL_GOOD;
}

/* DIR, or DIR/snapshot/NAME: then @name is "snapshot/NAME". */
static int split(struct tool *t, char *path, size_t cap, const char **name)
{
	static char file[64];
	char *slash, *folder;
	struct stat st;

	*name = NULL;
	snprintf(path, cap, "%s", t->operand[0]);
	if (stat(path, &st) || S_ISDIR(st.st_mode))
		return TOOL_GOOD; /* whoever opens it says what is wrong */
	slash = strrchr(path, '/');
	snprintf(file, sizeof(file), "snapshot/%.54s", slash ? slash + 1 : path);
	*name = file;
	if (!slash) { /* in the working folder, whatever that is called */
		snprintf(path, cap, "..");
		return TOOL_GOOD;
	}
	*slash = '\0';
	slash = strrchr(path, '/');
	folder = slash ? slash + 1 : path;
	if (strcmp(folder, "snapshot") != 0)
		return program_told(t->program, TOOL_USAGE, t->operand[0],
				    "it stands in no folder that is called snapshot (give a data "
				    "directory, or a file of its folder snapshot/)");
	snprintf(folder, cap - (size_t)(folder - path), ".");
	return TOOL_GOOD;
}

static int tell(struct tool *t, const struct disk *d, const struct snapshot_info *list, int count,
		const char *name)
{
	json_t *rows = json_array();
	int code = TOOL_GOOD, one;

	for (int i = 0; i < count; i++) {
		json_t *row;

		if (name && strcmp(name, list[i].name) != 0)
			continue;
		row = row_of(&list[i]);
		json_array_append_new(rows, row);
		one = list[i].why ? TOOL_NO : TOOL_GOOD;
		if (t->disk->verify && !list[i].why)
			one = verify(t, d, &list[i], row);
		code = one > code ? one : code;
	}
	if (!t->json && json_array_size(rows))
		show_rows(rows, columns);
	else if (!t->json)
		puts("There is no snapshot: recovery reads the log from its beginning.");
	if (name && !json_array_size(rows))
		code = TOOL_NO;
	tool_set(t, "snapshot", rows);
	return code;
}

int cmd_snapshot(struct tool *t)
{
	static struct snapshot_info list[SNAPSHOTS_MAX];
	char path[4096];
	const char *name;
	struct error err;
	struct disk d;
	int code = split(t, path, sizeof(path), &name), count, told;

	if (code)
		return code;
	code = disk_open(&d, t, path);
	if (!d.io.ctx)
		return code;
	if (!t->json)
		disk_head(t);
	count = snapshot_list(&d.io, list, SNAPSHOTS_MAX, &err);
	told = count < 0 ? disk_failed(t, "the snapshots", count, &err)
			 : tell(t, &d, list, count, name);
	disk_close(&d);
	return told ? told : code;
}
