/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* block: one record, by its place. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/operands.h"
#include "tools/kv-inspect/reads.h"
#include "tools/kv-inspect/record.h"
#include "tools/kv-inspect/show.h"
#include "tools/kv-inspect/tool.h"

static const struct show_field lines[] = {
	{ "address", "address", SHOW_PLAIN, "of the block" },
	{ "state", "state", SHOW_PLAIN, "live: readers take it" },
	{ "incarnation", "incarnation", SHOW_PLAIN, "lives of this address" },
	{ "version", "version", SHOW_PLAIN, "number of the write in the server's log" },
	{ "key_hash", "key hash", SHOW_PLAIN, "XXH3 of the key under the root's seed" },
	{ "hash_good", "  of the key", SHOW_GOOD, "computed again" },
	{ "expiry", "expires", SHOW_PLAIN, "by the server's clock" },
	{ "expires_in_s", "  in seconds", SHOW_PLAIN, "from the root's clock on" },
	{ "key_bytes", "key length", SHOW_PLAIN, "bytes" },
	{ "value_bytes", "value length", SHOW_PLAIN, "bytes" },
	{ "flags", "flags", SHOW_PLAIN, "always 0" },
	{ "checksum", "checksum", SHOW_PLAIN, "over all but the state" },
	{ "checksum_good", "  verified", SHOW_GOOD, "computed again" },
	{ "key", "key", SHOW_BYTES, "escaped" },
	{ 0 },
};

struct block_look {
	unsigned extent;
	uint32_t offset;
	struct extent_entry entry;
	const char *fault; /* nothing can be READ there; text */
	char text[JUDGE_TEXT];
	uint64_t addr;
	struct block *b; /* a copy of len bytes */
	uint32_t len;
};

int parse_block(struct tool *t, struct error *err)
{
	unsigned extent;
	uint32_t offset;

	return operand_place(t->operand[0], &extent, &offset, err);
}

static const char *judge_place(struct block_look *l)
{
	const char *fault = judge_extent(&l->entry, l->text);

	if (fault)
		return fault;
	if (!l->entry.kind)
		return "there is no such extent (extents lists them)";
	if (l->entry.kind != EXTENT_DATA) {
		snprintf(l->text, JUDGE_TEXT,
			 "the extent is one of kind %s, blocks are in those of kind data",
			 decode_kind(l->entry.kind));
		return l->text;
	}
	if (l->offset >= l->entry.length || l->entry.length - l->offset < OFFSET_UNIT) {
		snprintf(l->text, JUDGE_TEXT,
			 "the extent ends at 0x%" PRIx64 " (%" PRIu64 " bytes)", l->entry.length,
			 l->entry.length);
		return l->text;
	}
	return NULL;
}

/* How much there is to READ, by lengths that nobody has verified; never beyond the extent. */
static uint32_t wanted(const struct block *b, uint64_t room)
{
	uint64_t bytes = block_bytes(b->key_len, 0) + (uint64_t)b->value_len;

	if (b->key_len < KEY_MIN || b->key_len > KEY_MAX || b->value_len > VALUE_MAX)
		return BLOCK_HEADER_BYTES;
	return (uint32_t)(bytes < room ? bytes : room);
}

static int look_at_block(struct inspect *in, void *arg)
{
	struct block_look *l = arg;
	const struct block *seen;
	const void *from;
	uint32_t len;
	int rc = reads_extent(in, l->extent, &l->entry);

	if (rc)
		return rc;
	l->fault = judge_place(l);
	if (l->fault) /* or an entry that is just being written */
		return l->entry.checksum && !extent_entry_sound(&l->entry) ? INSPECT_AGAIN : 0;
	l->addr = l->entry.addr + l->offset;
	rc = reads_arena(in, l->addr, l->entry.rkey, OFFSET_UNIT, &from);
	if (rc)
		return rc;
	seen = from;
	len = wanted(seen, l->entry.length - l->offset);
	rc = reads_arena(in, l->addr, l->entry.rkey, len, &from);
	if (rc)
		return rc;
	free(l->b);
	l->b = malloc(len);
	if (!l->b)
		return inspect_failed(in, -ENOMEM, "out of memory for a block of %u bytes", len);
	memcpy(l->b, from, len);
	l->len = len;
	/* another record stands there than a moment ago? */
	return len == BLOCK_HEADER_BYTES || wanted(l->b, l->entry.length - l->offset) == len
		       ? 0
		       : INSPECT_AGAIN;
}

static int show_block(struct tool *t, const struct block_look *l)
{
	struct judged j = judge_block(l->b, l->len, t->in->r->world->hash_seed);
	json_t *o = decode_block(l->b, l->len, &j, t->now_ms,
				 (uint32_t)(t->bytes < VALUE_MAX ? t->bytes : VALUE_MAX));
	bool record = j.checksum_good && j.hash_good;

	if (!o)
		return tool_no_memory(t);
	json_object_set_new(o, "address", decode_hex(l->addr));
	json_object_set_new(o, "extent", json_integer(l->extent));
	json_object_set_new(o, "offset", decode_hex(l->offset));
	if (!t->json) {
		show_lines(o, lines);
		record_value(o);
		printf("\n%s%s\n", record ? "a record" : "no record begins there: ",
		       !record		       ? j.fault
		       : j.state == BLOCK_LIVE ? ", live"
					       : ", obsolete");
	}
	tool_set(t, "block", o);
	return record ? TOOL_GOOD : TOOL_NO;
}

int cmd_block(struct tool *t)
{
	struct block_look l = { 0 };
	int rc;

	operand_place(t->operand[0], &l.extent, &l.offset, NULL);
	rc = inspect_settle(t->in, look_at_block, &l);
	if (rc < 0)
		rc = tool_failed(t, rc);
	else if (l.fault)
		rc = program_failed(t->program, t->operand[0], l.fault);
	else
		rc = show_block(t, &l);
	free(l.b);
	return rc;
}
