/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * key: the way of a look-up (client/src/know/lookup.c), step by step. One section for each attempt;
 * what does not fit, or is OBSOLETE, is looked at again from the directory on, as a look-up does.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/layout/slot.h"
#include "tools/kv-cli/text.h"
#include "tools/kv-inspect/decode.h"
#include "tools/kv-inspect/reads.h"
#include "tools/kv-inspect/record.h"
#include "tools/kv-inspect/show.h"
#include "tools/kv-inspect/tool.h"

struct key_look {
	const struct tool *t;
	const char *key;
	uint32_t key_len;
	uint64_t hash;
	json_t *steps; /* of the last attempt */
	json_t *found; /* the record; NULL: none was found */
	unsigned attempts;
	/* Of the attempt under way. */
	struct segment_look s;
	struct bucket bucket;
};

int parse_key(struct tool *t, struct error *err)
{
	size_t len = strlen(t->operand[0]);

	if (len >= KEY_MIN && len <= KEY_MAX)
		return 0;
	return error_set(err, -EINVAL, "the key has %zu bytes (keys have %u to %u)", len, KEY_MIN,
			 KEY_MAX);
}

static void step(struct key_look *k, const char *name, json_t *facts, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* @facts: an object, ours from now on; or NULL. */
static void step(struct key_look *k, const char *name, json_t *facts, const char *fmt, ...)
{
	json_t *o = facts ? facts : json_object();
	char words[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(words, sizeof(words), fmt, args);
	va_end(args);
	json_object_set_new(o, "step", json_string(name));
	json_object_set_new(o, "words", json_string(words));
	json_array_append_new(k->steps, o);
}

static void begin_attempt(struct key_look *k)
{
	json_decref(k->steps);
	json_decref(k->found);
	k->found = NULL;
	k->steps = json_array();
	k->attempts++;
	step(k, "hash",
	     json_pack("{s:o, s:o, s:i, s:o}", "hash", decode_word(k->hash), "seed",
		       decode_word(k->t->in->r->world->hash_seed), "bucket",
		       (int)hash_bucket(k->hash), "fingerprint",
		       json_sprintf("0x%06x", slot_fingerprint_of_hash(k->hash))),
	     "0x%016" PRIx64 ": bucket %u, fingerprint 0x%06x", k->hash, hash_bucket(k->hash),
	     slot_fingerprint_of_hash(k->hash));
}

/* The directory's entry. Returns 0; 1: it leads nowhere; or why not. */
static int by_directory(struct inspect *in, struct key_look *k)
{
	const struct dir_cache *d = in->r->dir;
	struct segment_look *s = &k->s;
	uint64_t entry = directory_entry_of(d, k->hash);
	char prefix[DECODE_PREFIX], text[JUDGE_TEXT];
	const char *fault = judge_entry(entry, d->depth, text);
	int rc = segment_place(in->r, entry, &s->addr, &s->rkey);
	json_t *o = decode_entry(entry);

	if (rc && rc != -ENOENT) {
		json_decref(o);
		return rc;
	}
	if (rc && !fault)
		fault = "it leads to no place that a segment can have";
	s->entry = entry;
	s->hash = k->hash;
	decode_prefix(prefix, hash_prefix(k->hash, d->depth), d->depth);
	json_object_set_new(o, "index", decode_number(hash_prefix(k->hash, d->depth)));
	json_object_set_new(o, "directory_depth", json_integer(d->depth));
	json_object_set_new(o, "fault", decode_text(fault));
	step(k, "directory", o,
	     "entry %u (bits %s) of %u: segment %u of extent %u, local depth %u, incarnation %u%s%s",
	     hash_prefix(k->hash, d->depth), prefix, 1u << d->depth, directory_entry_segment(entry),
	     directory_entry_extent(entry), directory_entry_depth(entry),
	     directory_entry_incarnation(entry), fault ? ": " : "", fault ? fault : "");
	return fault ? 1 : 0;
}

/* What does not fit may be old: READ the entry again. */
static int stale(struct inspect *in, struct key_look *k)
{
	int rc = directory_refresh(in->r, k->hash);

	return rc ? rc : INSPECT_AGAIN;
}

static const char *verdict_words(enum block_verdict v)
{
	switch (v) {
	case BLOCK_OK:
		return "the record";
	case BLOCK_GONE:
		return "not live: look again";
	case BLOCK_OTHER_KEY:
		return "another key's record, of the same fingerprint";
	case BLOCK_BAD:
		return "not sound: look again";
	}
	return "?";
}

static json_t *block_step(struct key_look *k, unsigned i, uint64_t slot, const struct placed *p,
			  const struct block *b, enum block_verdict verdict)
{
	const struct tool *t = k->t;
	struct judged j = judge_block(b, p->bytes, t->in->r->world->hash_seed);
	json_t *o = decode_block(b, p->bytes, &j, t->now_ms,
				 (uint32_t)(t->bytes < VALUE_MAX ? t->bytes : VALUE_MAX));
	bool same = j.bytes && b->key_len == k->key_len && memcmp(b->data, k->key, k->key_len) == 0;

	json_object_set_new(o, "slot", decode_slot(slot, p));
	json_object_set_new(o, "slot_number", json_integer(i));
	json_object_set_new(o, "key_equal", json_boolean(same));
	json_object_set_new(o, "verdict", json_string(verdict_words(verdict)));
	step(k, "block", o,
	     "slot %u: %u bytes at %u:0x%x (0x%" PRIx64 "): state %s, incarnation %u, key %s, "
	     "checksum %s: %s",
	     i, p->bytes, slot_extent(slot), slot_offset(slot), p->addr, judge_state(j.state),
	     j.incarnation, same ? "equal" : "not equal", j.checksum_good ? "good" : "BAD",
	     verdict_words(verdict));
	return o;
}

/* A slot with the fingerprint. Returns 0: go on; 1: it is the record; or INSPECT_AGAIN... */
static int by_slot(struct inspect *in, struct key_look *k, unsigned i, bool *found)
{
	uint64_t slot = reads_slot(&k->bucket, i);
	enum block_verdict verdict;
	struct placed p;
	const void *b;
	json_t *o;
	int rc = reads_place(in, slot, &p);

	if (rc)
		return rc;
	if (p.fault) {
		step(k, "block", decode_slot(slot, &p), "slot %u: %s", i, p.fault);
		return INSPECT_AGAIN;
	}
	rc = reads_arena(in, p.addr, p.rkey, p.bytes, &b);
	if (rc)
		return rc;
	verdict = block_verify(b, p.bytes, k->key, k->key_len, k->hash, 0);
	o = block_step(k, i, slot, &p, b, verdict);
	if (verdict == BLOCK_OK) {
		k->found = json_incref(o);
		*found = true;
	}
	return verdict == BLOCK_GONE || verdict == BLOCK_BAD ? INSPECT_AGAIN : 0;
}

static int read_bucket(struct inspect *in, struct key_look *k, unsigned number)
{
	return reads_bytes(in, k->s.addr + (uint64_t)number * BUCKET_BYTES, k->s.rkey, &k->bucket,
			   BUCKET_BYTES);
}

static unsigned matches(const struct bucket *b, uint64_t hash, uint32_t *mask)
{
	*mask = 0;
	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t slot = reads_slot(b, i);

		if (slot && slot_fingerprint(slot) == slot_fingerprint_of_hash(hash))
			*mask |= 1u << i;
	}
	return (unsigned)__builtin_popcount(*mask);
}

/* The chain. @number: of its next bucket; changes to the one after it, 0: there is none. */
static int by_bucket(struct inspect *in, struct key_look *k, unsigned *number, bool *found)
{
	char text[JUDGE_TEXT];
	const char *fault;
	unsigned n, next;
	uint32_t mask;
	json_t *o;
	int rc = read_bucket(in, k, *number);

	if (rc)
		return rc;
	fault = judge_header(reads_header(&k->bucket), k->s.entry, k->hash, text);
	n = matches(&k->bucket, k->hash, &mask);
	next = bucket_header_overflow(reads_header(&k->bucket));
	o = decode_header(reads_header(&k->bucket));
	json_object_set_new(o, "bucket", json_integer(*number));
	json_object_set_new(o, "address", decode_hex(k->s.addr + (uint64_t)*number * BUCKET_BYTES));
	json_object_set_new(o, "used", json_integer(reads_used(&k->bucket)));
	json_object_set_new(o, "matches", json_integer(n));
	json_object_set_new(o, "fault", decode_text(fault));
	step(k, *number < SEGMENT_BUCKETS ? "bucket" : "overflow", o,
	     "bucket %u at 0x%" PRIx64 ": %s; %u of %u slots used, %u with the fingerprint",
	     *number, k->s.addr + (uint64_t)*number * BUCKET_BYTES,
	     fault ? fault : "its header fits the entry", reads_used(&k->bucket), BUCKET_SLOTS, n);
	if (fault)
		return stale(in, k);
	for (unsigned i = 0; i < BUCKET_SLOTS && rc == 0 && !*found; i++) {
		if (mask >> i & 1)
			rc = by_slot(in, k, i, found);
	}
	*number = next ? SEGMENT_BUCKETS + next - 1 : 0;
	return rc;
}

static int look_up(struct inspect *in, void *arg)
{
	struct key_look *k = arg;
	unsigned number = hash_bucket(k->hash);
	bool found = false;
	int rc = reader_prepare(in->r);

	if (rc)
		return rc;
	begin_attempt(k);
	rc = by_directory(in, k);
	if (rc > 0)
		return stale(in, k);
	if (rc == 0)
		rc = by_bucket(in, k, &number, &found);
	for (unsigned chain = 1; rc == 0 && !found && number && chain <= SEGMENT_OVERFLOW; chain++)
		rc = by_bucket(in, k, &number, &found);
	return rc;
}

static void print_steps(const struct key_look *k)
{
	for (size_t i = 0; i < json_array_size(k->steps); i++) {
		const json_t *o = json_array_get(k->steps, i);

		printf("%2zu  %-10s %s\n", i + 1, json_string_value(json_object_get(o, "step")),
		       json_string_value(json_object_get(o, "words")));
	}
}

static void print_result(const struct key_look *k, const char *result)
{
	char expiry[SHOW_MAX], version[SHOW_MAX];

	if (!k->found) {
		printf("\n%s: %s\n", result,
		       strcmp(result, "absent") == 0
			       ? "no slot of the chain leads to the key"
			       : "it changed, or was not sound, at each attempt; a look-up asks the "
				 "server then");
		return;
	}
	printf("\n%s: version %s, value of %" JSON_INTEGER_FORMAT " bytes, expires: %s\n", result,
	       show_text(k->found, "version", SHOW_PLAIN, version),
	       json_integer_value(json_object_get(k->found, "value_bytes")),
	       show_text(k->found, "expiry", SHOW_PLAIN, expiry));
	if (strcmp(result, "expired") == 0)
		printf("its time has come: a look-up asks the server, which deletes it\n");
	record_value(k->found);
}

int cmd_key(struct tool *t)
{
	struct key_look k = { .t = t, .key = t->operand[0] };
	char shown[TEXT_KEY_MAX];
	const char *result;
	int rc;

	k.key_len = (uint32_t)strlen(k.key);
	k.hash = hash_key(t->in->r->world->hash_seed, k.key, k.key_len);
	rc = inspect_settle(t->in, look_up, &k);
	if (rc < 0) {
		json_decref(k.steps);
		json_decref(k.found);
		return tool_failed(t, rc);
	}
	result = rc						     ? "unsettled"
		 : !k.found					     ? "absent"
		 : json_is_true(json_object_get(k.found, "expired")) ? "expired"
								     : "found";
	if (!t->json) {
		printf("key %s, attempt %u\n\n", text_key(shown, k.key, k.key_len), k.attempts);
		print_steps(&k);
		print_result(&k, result);
	}
	text_json_set(t->doc, "key", k.key, k.key_len);
	tool_set(t, "result", json_string(result));
	tool_set(t, "attempts", json_integer(k.attempts));
	tool_set(t, "steps", k.steps);
	tool_set(t, "record", k.found ? k.found : json_null());
	return strcmp(result, "found") == 0 ? TOOL_GOOD : TOOL_NO;
}
