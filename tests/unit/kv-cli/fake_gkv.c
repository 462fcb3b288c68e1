/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/kv-cli/fake_gkv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/gracekv.h"

#define FAKE_MAX   4096
#define FAKE_DEPTH 64

struct fake_record {
	char *key, *value;
	size_t key_len;
	struct gkv_meta meta;
};

struct fake_faults fake_faults;
struct gkv_write_options fake_options;
uint64_t fake_clock_ms;
unsigned fake_sessions, fake_batches, fake_submitted, fake_repeats;
static struct gkv_request fake_flight[FAKE_DEPTH];
static struct gkv_completion fake_done[FAKE_DEPTH];
static unsigned fake_flying, fake_handles;
static struct fake_record fake_records[FAKE_MAX];
static size_t fake_used;
static uint64_t fake_version;
static struct gkv_stats fake_stats;
static char *fake_view;
static const char *fake_error = "";

static struct fake_record *fake_find(const void *key, size_t len)
{
	for (size_t i = 0; i < fake_used; i++) {
		if (fake_records[i].key_len == len && memcmp(fake_records[i].key, key, len) == 0)
			return &fake_records[i];
	}
	return NULL;
}

static void *fake_copy(const void *data, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		abort();
	if (len)
		memcpy(copy, data, len);
	return copy;
}

void fake_clear(void)
{
	for (size_t i = 0; i < fake_used; i++) {
		free(fake_records[i].key);
		free(fake_records[i].value);
	}
	fake_used = 0;
	free(fake_view);
	fake_view = NULL;
	fake_error = "";
	fake_version = 0;
	fake_sessions = fake_handles = fake_batches = fake_submitted = fake_repeats = 0;
	fake_flying = 0;
	fake_clock_ms = FAKE_CLOCK_MS;
	fake_faults = (struct fake_faults){ 0 };
}

size_t fake_count(void)
{
	return fake_used;
}

void gkv_options_init(struct gkv_options *options)
{
	*options = (struct gkv_options){ .gid_index = -1 };
}

int gkv_session_open(const struct gkv_options *options, struct gkv_session **out, char *why,
		     size_t cap)
{
	*out = NULL;
	if (fake_faults.unreachable) {
		snprintf(why, cap, "nobody listens there (start kv-server)");
		return -ECONNREFUSED;
	}
	fake_sessions++;
	*out = (struct gkv_session *)&fake_version;
	return 0;
}

void gkv_session_close(struct gkv_session *session)
{
}

const char *gkv_session_describe(const struct gkv_session *session)
{
	return "device fake0";
}

int gkv_open(struct gkv_session *session, const struct gkv_handle_options *options,
	     struct gkv **out, char *why, size_t cap)
{
	*out = NULL;
	if (fake_faults.handles && fake_handles >= fake_faults.handles)
		return -EUSERS;
	fake_handles++;
	*out = (struct gkv *)&fake_stats;
	return 0;
}

void gkv_close(struct gkv *handle)
{
	fake_handles -= handle != NULL;
}

static bool fake_is(const char *name, const void *key, size_t len)
{
	return name && strlen(name) == len && memcmp(name, key, len) == 0;
}

int gkv_get_view(struct gkv *handle, const void *key, size_t key_len, const void **value,
		 struct gkv_meta *meta)
{
	struct fake_record *r = fake_find(key, key_len);

	fake_stats.gets++;
	fake_stats.reads += 2;
	if (!r || fake_is(fake_faults.lose, key, key_len))
		return -ENOENT;
	free(fake_view);
	fake_view = fake_copy(r->value, r->meta.value_len);
	if (fake_is(fake_faults.corrupt, key, key_len) && r->meta.value_len)
		fake_view[r->meta.value_len - 1] ^= 1;
	*value = fake_view;
	if (meta)
		*meta = r->meta;
	return 0;
}

int gkv_exists(struct gkv *handle, const void *key, size_t key_len, struct gkv_meta *meta)
{
	struct fake_record *r = fake_find(key, key_len);

	if (r && meta)
		*meta = r->meta;
	return r ? 0 : -ENOENT;
}

/* Does the condition hold? */
static int fake_condition(const struct fake_record *r, const struct gkv_write_options *options)
{
	switch (options->condition) {
	case GKV_IF_ABSENT:
		return r ? -EEXIST : 0;
	case GKV_IF_PRESENT:
		return r ? 0 : -ENOENT;
	case GKV_IF_VERSION:
		return !r ? -ENOENT : r->meta.version != options->version ? -EEXIST : 0;
	}
	return 0;
}

int gkv_put_with(struct gkv *handle, const void *key, size_t key_len, const void *value,
		 size_t value_len, const struct gkv_write_options *options, struct gkv_meta *meta)
{
	struct fake_record *r = fake_find(key, key_len);
	const bool keep = r && options->flags & GKV_KEEP_EXPIRY;
	const uint64_t expiry_ms = keep		     ? r->meta.expiry_ms
				   : options->ttl_ms ? fake_clock_ms + options->ttl_ms
						     : 0;
	int rc = fake_condition(r, options);

	fake_options = *options;
	if (rc == -EEXIST)
		*meta = r->meta;
	if (rc == 0)
		rc = gkv_put(handle, key, key_len, value, value_len, NULL);
	if (rc)
		return rc;
	r = fake_find(key, key_len);
	r->meta.expiry_ms = expiry_ms;
	*meta = r->meta;
	return 0;
}

int gkv_append(struct gkv *handle, const void *key, size_t key_len, const void *value,
	       size_t value_len, const struct gkv_write_options *options, struct gkv_meta *meta)
{
	const struct fake_record *r = fake_find(key, key_len);
	struct gkv_write_options keep = *options;
	char whole[4096];
	size_t len = r ? r->meta.value_len : 0;

	if (len + value_len > sizeof(whole))
		return -EFBIG;
	if (len)
		memcpy(whole, r->value, len);
	memcpy(whole + len, value, value_len);
	keep.flags = GKV_KEEP_EXPIRY;
	return gkv_put_with(handle, key, key_len, whole, len + value_len, &keep, meta);
}

int gkv_getdel(struct gkv *handle, const void *key, size_t key_len, void *value, size_t cap,
	       struct gkv_meta *meta)
{
	const void *view;
	int rc = gkv_get_view(handle, key, key_len, &view, meta);

	if (rc)
		return rc;
	memcpy(value, view, meta->value_len);
	return gkv_del(handle, key, key_len);
}

int gkv_incr_with(struct gkv *handle, const void *key, size_t key_len, int64_t delta,
		  const struct gkv_write_options *options, int64_t *sum, struct gkv_meta *meta)
{
	fake_options = *options;
	struct fake_record *r = fake_find(key, key_len);
	char text[32], *end = text;

	snprintf(text, sizeof(text), "%.*s", r ? (int)r->meta.value_len : 1, r ? r->value : "0");
	if (__builtin_add_overflow(strtoll(text, &end, 10), delta, sum))
		return -ERANGE;
	if (*end)
		return -EDOM;
	snprintf(text, sizeof(text), "%lld", (long long)*sum);
	return gkv_put(handle, key, key_len, text, strlen(text), NULL);
}

int gkv_touch(struct gkv *handle, const void *key, size_t key_len, uint64_t ttl_ms,
	      struct gkv_meta *meta)
{
	struct fake_record *r = fake_find(key, key_len);

	if (!r)
		return -ENOENT;
	r->meta.version = ++fake_version;
	r->meta.expiry_ms = ttl_ms ? fake_clock_ms + ttl_ms : 0;
	*meta = r->meta;
	return 0;
}

int gkv_del_if(struct gkv *handle, const void *key, size_t key_len, uint64_t version)
{
	const struct gkv_write_options options = { .condition = GKV_IF_VERSION,
						   .version = version };
	struct fake_record *r = fake_find(key, key_len);
	int rc = fake_condition(r, &options);

	if (rc == -EEXIST && fake_faults.vanish)
		gkv_del(handle, key, key_len);
	return rc ? rc : gkv_del(handle, key, key_len);
}

int gkv_put(struct gkv *handle, const void *key, size_t key_len, const void *value,
	    size_t value_len, uint64_t *version)
{
	struct fake_record *r = fake_find(key, key_len);

	if ((fake_faults.fail_put && --fake_faults.fail_put == 0) || fake_used == FAKE_MAX) {
		fake_faults.fail_put = fake_faults.fail_more > 0;
		fake_faults.fail_more -= fake_faults.fail_more > 0;
		fake_error = "the store is full (start kv-server with more --memory)";
		return -ENOMEM;
	}
	if (!r) {
		r = &fake_records[fake_used++];
		r->key = fake_copy(key, key_len);
		r->key_len = key_len;
	} else {
		free(r->value);
	}
	r->value = fake_copy(value, value_len);
	r->meta = (struct gkv_meta){ .version = ++fake_version, .value_len = (uint32_t)value_len };
	if (version)
		*version = fake_version;
	return 0;
}

/* It is put at once, and told later; two in flight with one key may be put in either order. */
int gkv_submit(struct gkv *handle, const struct gkv_request *requests, size_t count)
{
	const struct gkv_request *q = requests;
	struct gkv_completion *done = &fake_done[fake_flying];

	if (fake_flying == FAKE_DEPTH)
		return -EAGAIN;
	for (unsigned i = 0; i < fake_flying; i++)
		fake_repeats += fake_flight[i].key_len == q->key_len &&
				memcmp(fake_flight[i].key, q->key, q->key_len) == 0;
	*done = (struct gkv_completion){ .user = q->user, .op = q->op };
	done->status = gkv_put_with(handle, q->key, q->key_len, q->value, q->len, &q->options,
				    &done->meta);
	fake_flight[fake_flying++] = *q;
	fake_submitted++;
	return 1;
}

/* One at a time, the newest and the oldest in turn, and a look in vain before each. */
int gkv_poll(struct gkv *handle, struct gkv_completion *out, size_t max)
{
	static unsigned looks;
	const unsigned turn = looks++ % 4;
	unsigned at;

	if (turn % 2 == 0 || !fake_flying || !max)
		return 0;
	at = turn == 1 ? fake_flying - 1 : 0;
	*out = fake_done[at];
	fake_flying--;
	memmove(&fake_done[at], &fake_done[at + 1], (fake_flying - at) * sizeof(fake_done[0]));
	memmove(&fake_flight[at], &fake_flight[at + 1],
		(fake_flying - at) * sizeof(fake_flight[0]));
	return 1;
}

size_t gkv_pending(const struct gkv *handle)
{
	return fake_flying;
}

int gkv_fd(struct gkv *handle)
{
	return STDIN_FILENO; /* any: gkv_arm() lets nobody sleep */
}

int gkv_arm(struct gkv *handle)
{
	return -EAGAIN;
}

int gkv_mput(struct gkv *handle, struct gkv_item *items, size_t count)
{
	fake_batches++;
	for (size_t i = 0; i < count; i++)
		items[i].status =
			gkv_put_with(handle, items[i].key, items[i].key_len, items[i].value,
				     items[i].len, &items[i].options, &items[i].meta);
	return 0;
}

int gkv_del(struct gkv *handle, const void *key, size_t key_len)
{
	struct fake_record *r = fake_find(key, key_len);

	if (!r)
		return -ENOENT;
	free(r->key);
	free(r->value);
	*r = fake_records[--fake_used];
	return 0;
}

int gkv_mget(struct gkv *handle, struct gkv_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct fake_record *r = fake_find(items[i].key, items[i].key_len);

		items[i].status = r ? 0 : -ENOENT;
		if (!r)
			continue;
		items[i].len = r->meta.value_len;
		if (items[i].len > items[i].cap)
			items[i].status = -EMSGSIZE;
		else
			memcpy(items[i].value, r->value, items[i].len);
	}
	return 0;
}

int gkv_scan(struct gkv *handle, const struct gkv_scan_options *o, gkv_visit visit, void *arg)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < fake_used; i++) {
		const struct fake_record *r = &fake_records[i];

		if (!o || !o->prefix_len ||
		    (o->prefix_len <= r->key_len && memcmp(r->key, o->prefix, o->prefix_len) == 0))
			rc = visit(arg, r->key, r->key_len,
				   o && o->flags & GKV_SCAN_KEYS ? NULL : r->value, &r->meta);
	}
	return rc;
}

int gkv_ping(struct gkv *handle, uint64_t *ns)
{
	*ns = 12300;
	return 0;
}

int gkv_clock(struct gkv *handle, uint64_t *ms)
{
	free(fake_view); /* as any call: a view is over */
	fake_view = NULL;
	if (fake_faults.no_clock) {
		fake_error = "the clock stands still (wind it up)";
		return -ETIMEDOUT;
	}
	*ms = fake_clock_ms;
	return 0;
}

int gkv_server_stats(struct gkv *handle, char **text)
{
	const char *answer = "records 2\ndata_bytes 4194304\n";

	if (fake_faults.statistics) {
		answer = fake_faults.statistics[0];
		fake_faults.statistics += fake_faults.statistics[1] != NULL;
	}
	if (!answer[0]) {
		fake_error = "nobody listens there any more (start kv-server)";
		return -ECONNREFUSED;
	}
	*text = strdup(answer);
	return *text ? 0 : -ENOMEM;
}

int gkv_save(struct gkv *handle, uint64_t *number)
{
	if (fake_faults.save < 0) {
		fake_error = "it keeps nothing (start it with --data-dir)";
		return (int)fake_faults.save;
	}
	*number = (uint64_t)fake_faults.save;
	return 0;
}

void gkv_stats_get(const struct gkv *handle, struct gkv_stats *out)
{
	*out = fake_stats;
}

const char *gkv_strerror(int code)
{
	return strerror(-code);
}

const char *gkv_error(const struct gkv *handle)
{
	return fake_error;
}

const char *gkv_version(void)
{
	return "0.1.0";
}
