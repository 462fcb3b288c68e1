/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/warm_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "tools/lib/progress.h"

#define LOADERS 4u /* their requests come to the server's workers together */
#define PIECE	4096u /* keys that a loader takes at once */
#define GROUP	64u /* keys of one gkv_mget() */

void warm_key(const struct warm_keys *k, uint64_t i, char key[WARM_KEY_LEN])
{
	if (k->key_len == sizeof(i)) {
		memcpy(key, &i, sizeof(i));
		return;
	}
	memcpy(key, "key:", 4);
	for (unsigned d = WARM_KEY_LEN; d > 4; i /= 10)
		key[--d] = (char)('0' + i % 10);
}

void warm_value(const struct warm_keys *k, uint64_t i, char value[WARM_VALUE_MAX])
{
	uint64_t word = ~i;

	for (uint32_t at = 0; at < k->value_len; at += sizeof(word))
		memcpy(value + at, &word,
		       k->value_len - at < sizeof(word) ? k->value_len - at : sizeof(word));
}

struct load {
	struct gkv_session *session;
	const struct warm_keys *k;
	_Atomic uint64_t next;
	pthread_mutex_t lock; /* protects err */
	struct error err;
};

static void load_failed(struct load *l, int rc, const char *why)
{
	pthread_mutex_lock(&l->lock);
	if (!l->err.code)
		error_set(&l->err, rc, "%s", why);
	pthread_mutex_unlock(&l->lock);
	atomic_store(&l->next, l->k->count); /* the others end as well */
}

static void *loader(void *arg)
{
	struct load *l = arg;
	char key[WARM_KEY_LEN], value[WARM_VALUE_MAX];
	struct gkv *kv;
	char why[640];
	uint64_t from;
	int rc = gkv_open(l->session, NULL, &kv, why, sizeof(why));

	if (rc) {
		load_failed(l, rc, why);
		return NULL;
	}
	while (rc == 0 && (from = atomic_fetch_add(&l->next, PIECE)) < l->k->count) {
		for (uint64_t i = from; i < from + PIECE && i < l->k->count && rc == 0; i++) {
			warm_key(l->k, i, key);
			warm_value(l->k, i, value);
			rc = gkv_put(kv, key, l->k->key_len, value, l->k->value_len, NULL);
		}
	}
	if (rc)
		load_failed(l, rc, gkv_error(kv));
	gkv_close(kv);
	return NULL;
}

int warm_load(struct gkv_session *session, const struct warm_keys *k, uint64_t first, char *why,
	      size_t cap)
{
	struct load l = { .session = session, .k = k, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread[LOADERS];
	unsigned n = 0;
	uint64_t at;

	atomic_init(&l.next, first);
	while (n < LOADERS && pthread_create(&thread[n], NULL, loader, &l) == 0)
		n++;
	if (n == 0)
		error_set(&l.err, -EAGAIN, "no thread could be created");
	while (n && (at = atomic_load(&l.next)) < k->count) {
		progress_show("loading", at - first, k->count - first);
		usleep(50000);
	}
	while (n > 0)
		pthread_join(thread[--n], NULL);
	progress_clear();
	snprintf(why, cap, "%s", l.err.code ? l.err.text : "");
	return l.err.code;
}

static int read_group(struct gkv *kv, const struct warm_keys *k, uint64_t first, unsigned n,
		      char *why, size_t cap)
{
	char key[GROUP][WARM_KEY_LEN], value[GROUP][WARM_VALUE_MAX], wanted[WARM_VALUE_MAX];
	struct gkv_item item[GROUP] = { 0 };
	int rc;

	for (unsigned i = 0; i < n; i++) {
		warm_key(k, first + i, key[i]);
		item[i].key = key[i];
		item[i].key_len = k->key_len;
		item[i].value = value[i];
		item[i].cap = sizeof(value[i]);
	}
	rc = gkv_mget(kv, item, n);
	if (rc) {
		snprintf(why, cap, "%s", gkv_error(kv));
		return rc;
	}
	for (unsigned i = 0; i < n; i++) {
		warm_value(k, first + i, wanted);
		if (item[i].status || item[i].len != k->value_len ||
		    memcmp(value[i], wanted, k->value_len) != 0) {
			snprintf(why, cap, "key %" PRIu64 " is not what was written: %s", first + i,
				 gkv_strerror(item[i].status));
			return -EBADMSG;
		}
	}
	return 0;
}

int warm_read_all(struct gkv *kv, const struct warm_keys *k, char *why, size_t cap)
{
	int rc = 0;

	for (uint64_t i = 0; i < k->count && rc == 0; i += GROUP) {
		if (i % (GROUP * 1024) == 0)
			progress_show("reading all", i, k->count);
		rc = read_group(kv, k, i, k->count - i < GROUP ? (unsigned)(k->count - i) : GROUP,
				why, cap);
	}
	progress_clear();
	return rc;
}
