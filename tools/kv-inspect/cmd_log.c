/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* log: segments of a data directory, where they end and why, and what a cut would lose. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/kv-cli/text.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/disk.h"
#include "tools/kv-inspect/show.h"

static const struct show_field columns[] = {
	{ "name", "segment", SHOW_PLAIN, NULL },
	{ "life", ">life", SHOW_PLAIN, NULL },
	{ "first", ">first", SHOW_PLAIN, NULL },
	{ "behind", ">behind", SHOW_PLAIN, NULL },
	{ "batches", ">batches", SHOW_PLAIN, NULL },
	{ "records", ">records", SHOW_PLAIN, NULL },
	{ "bytes", ">file", SHOW_SIZE, NULL },
	{ "durable", ">durable before", SHOW_PLAIN, NULL },
	{ "begun", "begun", SHOW_PLAIN, NULL },
	{ 0 },
};

static json_t *segment(const struct log_segment_info *s)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", s->name,
			 "life", decode_number(s->life), "first", decode_number(s->first), "behind",
			 decode_number(s->behind), "batches", decode_number(s->batches), "records",
			 decode_number(s->records), "bytes", decode_number(s->bytes), "durable",
			 decode_number(s->durable), "begun", disk_time(s->clock_ms), "identity",
			 decode_word(s->identity));
}

static json_t *segments(const struct log_survey *s)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < s->segments; i++)
		json_array_append_new(list, segment(&s->segment[i]));
	return list;
}

/* From the positions that are there to why there are no more. */
static void say_end(const struct log_survey *s, bool corrupt)
{
	char size[TEXT_SIZE_MAX];

	if (!s->segments) {
		puts("There is no log: nothing was written yet.");
		return;
	}
	if (corrupt) {
		printf("\nIt is corrupt. Positions %" PRIu64 " to %" PRIu64
		       " of it were found to be whole, by headers at least.\n",
		       s->first, s->end);
		return;
	}
	printf("\nPositions %" PRIu64 " to %" PRIu64 ": %s of records.", s->first, s->end,
	       text_size_binary(size, s->end - s->first));
	if (s->durable < s->end)
		printf(" All below %" PRIu64 " was durable; a server writes what follows again\n"
		       "before it goes by it.\n",
		       s->durable);
	else
		puts(" All of it was durable.");
	if (s->end_why)
		printf("It ends at byte %" PRIu64 " of %s: %s. That was never acknowledged as "
		       "durable, and is no fault.\n",
		       s->end_offset, s->end_name, s->end_why);
}

/* @rc: 0, or how far it was looked at. */
static int tell(struct tool *t, const struct disk *d, const struct log_survey *s, int rc)
{
	json_t *list = segments(s);
	bool reads = t->disk->records || t->disk->verify || t->disk->cut != UINT64_MAX;

	tool_set(t, "segment", list);
	tool_set(t, "first", decode_number(s->first));
	tool_set(t, "end", decode_number(s->end));
	tool_set(t, "durable", decode_number(s->durable));
	tool_set(t, "end_why", decode_text(s->end_why));
	if (s->end_why) {
		tool_set(t, "end_name", json_string(s->end_name));
		tool_set(t, "end_offset", decode_number(s->end_offset));
	}
	if (!t->json) {
		show_rows(list, columns);
		say_end(s, rc != 0);
	}
	return reads && s->end > s->first ? disk_records(t, d, s, rc == 0) : TOOL_GOOD;
}

int cmd_log(struct tool *t)
{
	struct log_survey s;
	struct error err;
	struct disk d;
	int code = disk_open(&d, t, t->operand[0]), rc, told;

	if (!d.io.ctx)
		return code;
	if (!t->json)
		disk_head(t);
	rc = log_survey_look(&s, &d.io, d.store, &err);
	if (rc)
		code = disk_failed(t, "the log", rc, &err);
	told = tell(t, &d, &s, rc);
	if (code == TOOL_GOOD)
		code = told;
	log_survey_free(&s);
	disk_close(&d);
	return code;
}
