/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The log read record by record: shown, counted, or weighed for a cut. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/disk.h"
#include "tools/kv-inspect/show.h"

static const struct show_field columns[] = {
	{ "position", ">position", SHOW_PLAIN, NULL },
	{ "what", "what", SHOW_PLAIN, NULL },
	{ "version", ">version", SHOW_PLAIN, NULL },
	{ "value_bytes", ">value", SHOW_SIZE, NULL },
	{ "expiry", "expires", SHOW_IF, NULL },
	{ "client", "client", SHOW_IF, NULL },
	{ "sequence", ">sequence", SHOW_IF, NULL },
	{ "key", "key", SHOW_BYTES, NULL },
	{ 0 },
};

struct walk {
	struct tool *t;
	json_t *rows; /* NULL: records are not shown */
	uint64_t left_out;
	uint64_t records, bytes; /* from --from on */
	uint64_t cut, lost, lost_bytes; /* records that a cut would lose */
	uint64_t cut_at; /* where the first of them begins */
	uint64_t *key; /* hashes of their keys, a number of them that is lost_keys */
	size_t keys, room;
};

static const char *kind_name(uint8_t kind)
{
	static const char *const names[] = { "?", "PUT", "DEL", "CLIENT", "FORGET" };

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : names[0];
}

static json_t *row_of(const struct log_record *r)
{
	json_t *o = json_object();
	char client[40];

	json_object_set_new(o, "position", decode_number(r->position));
	json_object_set_new(o, "bytes", json_integer(r->length));
	json_object_set_new(o, "what", json_string(kind_name(r->kind)));
	json_object_set_new(o, "version", decode_number(r->version));
	if (r->client[0] || r->client[1]) {
		snprintf(client, sizeof(client), "%016" PRIx64 "%016" PRIx64, r->client[0],
			 r->client[1]);
		json_object_set_new(o, "client", json_string(client));
		json_object_set_new(o, "sequence", decode_number(r->sequence));
		json_object_set_new(o, "number", json_integer(r->number));
	}
	if (r->kind == LOG_PUT)
		json_object_set_new(o, "value_bytes", json_integer(r->value_len));
	if (r->kind == LOG_PUT && r->expiry_ms)
		json_object_set_new(o, "expiry", disk_time(r->expiry_ms));
	if (r->key_len && text_json_set(o, "key", r->data, r->key_len)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int lose(struct walk *w, const struct log_record *r)
{
	if (r->position + r->length <= w->cut)
		return 0;
	if (!w->lost++)
		w->cut_at = r->position;
	w->lost_bytes += r->length;
	if (r->kind != LOG_PUT && r->kind != LOG_DEL)
		return 0;
	if (w->keys == w->room) {
		size_t room = w->room ? 2 * w->room : 1024;
		uint64_t *key = realloc(w->key, room * sizeof(*key));

		if (!key)
			return -ENOMEM;
		w->key = key;
		w->room = room;
	}
	w->key[w->keys++] = hash_bytes(r->data, r->key_len);
	return 0;
}

static int each(void *ctx, const struct log_record *r)
{
	struct walk *w = ctx;

	w->records++;
	w->bytes += r->length;
	if (w->rows && (!w->t->rows || json_array_size(w->rows) < w->t->rows)) {
		if (json_array_append_new(w->rows, row_of(r)))
			return -ENOMEM;
	} else if (w->rows) {
		w->left_out++;
	}
	return w->cut == UINT64_MAX ? 0 : lose(w, r);
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t distinct(struct walk *w)
{
	uint64_t n = 0;

	if (w->keys)
		qsort(w->key, w->keys, sizeof(*w->key), by_hash);
	for (size_t i = 0; i < w->keys; i++)
		n += !i || w->key[i] != w->key[i - 1];
	return n;
}

/* @whole: false: nobody can tell what stands behind the place that is wrong. */
static void say_cut(struct tool *t, struct walk *w, bool whole)
{
	uint64_t keys = distinct(w);
	char size[TEXT_SIZE_MAX];

	tool_set(t, "cut",
		 json_pack("{s:o, s:o, s:o, s:o, s:o}", "position", decode_number(w->cut),
			   "lost_records", decode_number(w->lost), "lost_bytes",
			   decode_number(w->lost_bytes), "lost_keys", decode_number(keys),
			   "first_lost", w->lost ? decode_number(w->cut_at) : json_null()));
	if (t->json)
		return;
	if (!whole)
		printf("What stands behind the place that is wrong would be lost in any case.\n");
	if (!w->lost) {
		printf("A cut at %" PRIu64 " would lose nothing%s.\n", w->cut,
		       whole ? "" : " else");
		return;
	}
	printf("A cut at %" PRIu64 " would lose %" PRIu64
	       " records, %s, the last writes of %" PRIu64
	       " keys among them; the first begins\nat %" PRIu64 ".\n",
	       w->cut, w->lost, text_size_binary(size, w->lost_bytes), keys, w->cut_at);
}

/* Where reading begins: a cut weighs all that is behind it, whatever is shown. */
static uint64_t start(const struct tool *t, const struct log_survey *s)
{
	const struct disk_options *o = t->disk;

	return o->from != UINT64_MAX && o->from > s->first ? o->from : s->first;
}

int disk_records(struct tool *t, const struct disk *d, const struct log_survey *s, bool whole)
{
	struct walk w = { .t = t, .cut = t->disk->cut };
	const struct log_reader reader = { .each = each, .ctx = &w };
	struct error err = { 0 };
	char size[TEXT_SIZE_MAX];
	int rc;

	if (t->disk->records)
		w.rows = json_array();
	rc = log_read(s, &d->io, start(t, s), s->end, &reader, &err);
	if (w.rows)
		tool_set(t, "record", w.rows);
	if (w.rows && !t->json) {
		putchar('\n');
		show_rows(w.rows, columns);
		tool_left_out(t, w.left_out);
	}
	tool_set(t, "read",
		 json_pack("{s:o, s:o, s:b}", "records", decode_number(w.records), "bytes",
			   decode_number(w.bytes), "good", rc == 0));
	if (rc == -ENOMEM && !err.text[0]) {
		free(w.key);
		return tool_no_memory(t);
	}
	if (!t->json)
		printf("\n%" PRIu64 " records, %s, were read and their checksums are right%s\n",
		       w.records, text_size_binary(size, w.bytes), rc ? ", up to there:" : ".");
	if (w.cut != UINT64_MAX)
		say_cut(t, &w, whole && rc == 0);
	free(w.key);
	return rc ? disk_failed(t, "reading the log", rc, &err) : TOOL_GOOD;
}
