/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What a scan has found: copied out of the handle's memory, so that other calls may use that, and
 * handed out from here.
 *
 * Expiry. A record may lie here for as long as the application likes. So it is looked at once more
 * when it is handed out, and where its time has come its key is looked up like any get's: the
 * server is asked, which knows, and there may be a newer version. What a look-up has just brought
 * is not looked up once more, or there might be no end to it where the server's clock was set back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/src/call/get.h"
#include "client/src/call/scan.h"

/* Returns 0; 1: not beside what is there already; -ENOMEM. */
static int make_room(struct gkv_cursor *s, size_t bytes)
{
	size_t len = bytes > READER_ARENA_BYTES ? bytes : READER_ARENA_BYTES;
	uint8_t *memory;

	if (s->count == READER_BATCH)
		return 1;
	if (s->used + bytes <= s->memory_len)
		return 0;
	if (s->count)
		return 1;
	memory = malloc(len);
	if (!memory)
		return error_set(&s->h->error, -ENOMEM,
				 "out of memory for a scan's records (%zu bytes)", len);
	free(s->memory);
	s->memory = memory;
	s->memory_len = len;
	return 0;
}

/* Returns 1: it is met for the first time; 0; -ENOMEM. */
static int meet(struct gkv_cursor *s, uint64_t hash, const struct gkv_record *rec)
{
	int rc;

	if (s->seen.count >= SCAN_SEEN_MAX)
		return error_set(&s->h->error, -ENOMEM,
				 "a scan has met %u keys in one place of the index, which changes "
				 "faster than it is read (scan again)",
				 SCAN_SEEN_MAX);
	rc = seen_add(&s->seen, hash, rec->key, rec->key_len);
	return rc < 0 ? error_set(&s->h->error, rc, "out of memory for a scan") : rc;
}

int scan_keep(struct gkv_cursor *s, uint64_t hash, const struct gkv_record *rec, uint64_t asked_ns,
	      bool again)
{
	size_t value_len = rec->value ? rec->meta.value_len : 0;
	size_t bytes = rec->key_len + value_len;
	int rc;

	/* another range's, or of a segment of this one that is finished */
	if (hash < s->pass.at || hash > s->range_last)
		return 0;
	rc = make_room(s, bytes); /* first: what was met is not met again */
	if (rc)
		return rc;
	rc = again ? 1 : meet(s, hash, rec);
	if (rc <= 0)
		return rc;
	memcpy(s->memory + s->used, rec->key, rec->key_len);
	if (value_len)
		memcpy(s->memory + s->used + rec->key_len, rec->value, value_len);
	s->record[s->count++] = (struct scan_record){
		.at = s->used,
		.key_len = (uint32_t)rec->key_len,
		.asked_ns = asked_ns,
		.meta = rec->meta,
	};
	s->used += bytes;
	return 0;
}

int scan_look_up(struct gkv_cursor *s)
{
	int rc = 0;

	while (s->keys) {
		const struct scan_key *k = &s->key[s->keys - 1];
		struct lookup l = { .key = k->bytes, .key_len = k->len };
		uint64_t asked_ns = time_now_ns();

		rc = handle_lookup(s->h, &l, 1);
		if (rc == 0)
			rc = scan_same_life(s); /* it may have connected again */
		if (rc)
			return rc;
		if (l.state == LOOKUP_FOUND) {
			const struct gkv_record rec = {
				.key = l.key,
				.key_len = l.key_len,
				.value = s->keys_only ? NULL : l.value,
				.meta = { l.version, l.expiry_ms, l.value_len, 0 },
			};

			rc = scan_keep(s, l.hash, &rec, asked_ns, k->again);
		}
		if (rc)
			return rc < 0 ? rc : 0; /* once more, when these are handed out */
		if (!k->again)
			scan_mark(&s->pass, k->position);
		s->keys--;
	}
	return 0;
}

/* The server's clock, where it is not known without asking. Returns 0, or why not. */
static int read_clock(struct gkv_cursor *s, uint64_t *now_ms)
{
	struct gkv *h = s->h;
	int rc;

	do {
		rc = scan_ready(s);
		if (rc)
			return rc;
		section_open(h, SECTION_CALL);
		*now_ms = h->reader.ops->clock_ms(h->reader.ctx);
		section_close(h, SECTION_CALL);
	} while (!*now_ms && time_now_ns() < handle_deadline(h));
	if (*now_ms)
		return 0;
	return error_set(&h->error, -ETIMEDOUT,
			 "whether a record has expired could not be found out within %u ms",
			 h->session->settings.timeout_ms);
}

static void put_back(struct gkv_cursor *s, const struct scan_record *r)
{
	struct scan_key *k = &s->key[s->keys++];

	k->again = true;
	k->len = r->key_len;
	memcpy(k->bytes, s->memory + r->at, r->key_len);
}

static bool asked_lately(const struct scan_record *r)
{
	return r->asked_ns && time_now_ns() - r->asked_ns < GKV_EXPIRY_LATE_MS * NS_PER_MS;
}

int scan_take(struct gkv_cursor *s, struct gkv_record *out, size_t max)
{
	uint64_t now_ms = 0;
	size_t n = 0;

	for (; n < max && s->next < s->count; s->next++) {
		const struct scan_record *r = &s->record[s->next];
		int rc;

		if (r->meta.expiry_ms && !now_ms) {
			rc = read_clock(s, &now_ms);
			if (rc)
				return n ? (int)n : rc;
		}
		if (r->meta.expiry_ms && r->meta.expiry_ms <= now_ms && !asked_lately(r)) {
			put_back(s, r);
			continue;
		}
		out[n++] = (struct gkv_record){
			.key = s->memory + r->at,
			.key_len = r->key_len,
			.value = s->keys_only ? NULL : s->memory + r->at + r->key_len,
			.meta = r->meta,
		};
	}
	return (int)n;
}
