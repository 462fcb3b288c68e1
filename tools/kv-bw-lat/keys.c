/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The records of one size: NAME.SIZE.NUMBER. What is not there is put, and deleted at the end;
 * what somebody else has put under such a name stays.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/block.h"
#include "common/layout/size_code.h"
#include "tools/lib/progress.h"
#include "tools/kv-bw-lat/perf.h"

#define BATCH	    64u
#define BATCH_BYTES (1u << 20) /* of the values of one call, but for one that is longer */
#define ROOM_PART   4u /* this part of the free memory may be taken */
#define AGE_WAIT    (2 * NS_PER_S)
#define KEY_TEXT    96u

static int failed(struct perf *p, int rc, const char *what)
{
	const char *why = gkv_error(p->loader);

	return error_set(&p->error, rc, "%s: %s", what, why[0] ? why : gkv_strerror(rc));
}

/* As many as fit beside what is there already. */
static int choose_count(struct perf *p)
{
	struct perf_keys *k = &p->keys;
	uint64_t most;
	int rc = perf_tell(p, p->loader, MEASURE_LOOK);

	if (rc)
		return rc;
	most = p->server.memory_free / ROOM_PART / k->block_bytes;
	k->asked = p->o.keys;
	k->count = p->o.keys < most ? p->o.keys : most ? most : 1;
	return 0;
}

static int make_text(struct perf *p)
{
	struct perf_keys *k = &p->keys;
	unsigned digits = 1;
	char text[KEY_TEXT];

	while ((p->o.keys - 1) >> 4 * digits)
		digits++;
	k->key_len = (uint32_t)snprintf(text, sizeof(text), "%s.%" PRIu64 ".%0*" PRIx64, p->name,
					k->size, (int)digits, (uint64_t)0);
	k->block_bytes = size_code_bytes(size_code_for(block_bytes(k->key_len, (uint32_t)k->size)));
	if (choose_count(p))
		return p->error.code;
	k->text = malloc(k->count * k->key_len + 1);
	k->made = calloc(k->count, 1);
	k->place = p->o.raw ? calloc(k->count, sizeof(*k->place)) : NULL;
	k->bucket = p->o.raw && perf_cold(&p->o) ? calloc(k->count, sizeof(*k->bucket)) : NULL;
	k->value = malloc(k->size);
	if (!k->text || !k->made || !k->value || (p->o.raw && !k->place) ||
	    (p->o.raw && perf_cold(&p->o) && !k->bucket))
		return error_set(&p->error, -ENOMEM, "no memory for %" PRIu64 " keys", k->count);
	memset(k->value, 'v', k->size);
	for (uint64_t i = 0; i < k->count; i++)
		snprintf(k->text + i * k->key_len, k->key_len + 1, "%s.%" PRIu64 ".%0*" PRIx64,
			 p->name, k->size, (int)digits, i);
	return 0;
}

/* One that is there: in the length wanted, or put so. */
static int take_over(struct perf *p, uint64_t i)
{
	struct perf_keys *k = &p->keys;
	struct gkv_meta meta;
	int rc = gkv_exists(p->loader, perf_key(p, i), k->key_len, &meta);

	if (rc == -ENOENT || (rc == 0 && meta.value_len != k->size))
		rc = gkv_put(p->loader, perf_key(p, i), k->key_len, k->value, k->size, NULL);
	return rc ? failed(p, rc, "loading") : 0;
}

static int load_some(struct perf *p, uint64_t from, unsigned count)
{
	struct gkv_item item[BATCH];
	struct perf_keys *k = &p->keys;
	int rc;

	for (unsigned i = 0; i < count; i++)
		item[i] = (struct gkv_item){
			.key = perf_key(p, from + i),
			.key_len = k->key_len,
			.value = k->value,
			.len = k->size,
			.options = { .condition = GKV_IF_ABSENT },
		};
	rc = gkv_mput(p->loader, item, count);
	for (unsigned i = 0; i < count; i++) /* or perhaps */
		k->made[from + i] = item[i].status != -EEXIST && item[i].status != -ECANCELED;
	if (rc)
		return failed(p, rc, "loading");
	for (unsigned i = 0; i < count && rc == 0; i++) {
		if (item[i].status == -EEXIST)
			rc = take_over(p, from + i);
		else if (item[i].status)
			rc = failed(p, item[i].status, "loading");
	}
	return rc;
}

/* Hints may be remembered and used on a queue pair from its first round of the housekeeper on. */
static int wait_for_hints(struct perf *p, struct gkv *h)
{
	uint64_t until = time_now_ns() + AGE_WAIT;

	while (h->reader.hints && !handle_age(h) && time_now_ns() < until) {
		int rc = gkv_ping(h, NULL);

		if (rc)
			return error_set(&p->error, rc, "warming up: %s", gkv_error(h));
	}
	return 0;
}

int perf_keys_load(struct perf *p, uint64_t size)
{
	/* each call has the session's time-out */
	const unsigned batch = size * BATCH <= BATCH_BYTES ? BATCH
			       : size < BATCH_BYTES	   ? (unsigned)(BATCH_BYTES / size)
							   : 1;
	struct perf_keys *k = &p->keys;
	int rc;

	*k = (struct perf_keys){ .size = size };
	rc = make_text(p);
	if (rc == 0)
		rc = wait_for_hints(p, p->loader);
	for (uint64_t i = 0; i < k->count && rc == 0 && !stop_wanted(); i += batch) {
		progress_show("loading", i, k->count);
		rc = load_some(p, i, k->count - i < batch ? (unsigned)(k->count - i) : batch);
	}
	for (unsigned i = 0; i < p->opened && rc == 0; i++)
		rc = wait_for_hints(p, p->handle[i].kv);
	if (rc == 0)
		rc = perf_keys_find(p);
	progress_clear();
	return rc;
}

static int delete_some(struct perf *p, uint64_t *from)
{
	struct gkv_item item[BATCH];
	struct perf_keys *k = &p->keys;
	unsigned n = 0;
	int rc;

	for (; n < BATCH && *from < k->count; (*from)++) {
		if (k->made[*from])
			item[n++] = (struct gkv_item){
				.key = perf_key(p, *from),
				.key_len = k->key_len,
			};
	}
	rc = n ? gkv_mdel(p->loader, item, n) : 0;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = item[i].status == -ENOENT ? 0 : item[i].status;
	return rc;
}

/*
 * Whether the server is reached still, or again, after a run that ended with @rc: -EREMOTEIO is of
 * one that may have restarted, and has some of the records.
 */
static bool reached(const struct perf *p, int rc)
{
	return rc == 0 || rc == -EREMOTEIO || handle_current(p->loader);
}

int perf_keys_unload(struct perf *p, int rc)
{
	struct perf_keys *k = &p->keys;
	bool wanted = k->value && !p->o.keep;
	uint64_t from = 0;

	rc = wanted && !reached(p, rc) ? -ENOTCONN : 0;
	while (wanted && from < k->count && rc == 0)
		rc = delete_some(p, &from);
	if (rc)
		failed(p, rc, "deleting the records");
	free(k->text);
	free(k->made);
	free(k->place);
	free(k->bucket);
	free(k->value);
	*k = (struct perf_keys){ 0 };
	return rc;
}
