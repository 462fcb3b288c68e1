/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Read, then watch from the revision of that read on, until the watch tells something or ends; then
 * read again. A read every READ_EVERY_MS besides finds an endpoint that is stopped or cut off: its
 * watch says nothing, which is what a watch of a key that nobody changes says, too. The read goes
 * to another endpoint then, and the watch after it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "server/etcd/etcd_internal.h"
#include "server/etcd/follow.h"

#define READ_EVERY_MS 2000u
#define PAUSE_MIN_MS  50u
#define PAUSE_MAX_MS  1000u

struct etcd_follow {
	struct etcd_follow_config config;
	struct etcd *etcd;
	char *key;
	pthread_t thread;
	bool told, silent; /* of the thread: something was told; etcd does not answer */
	int64_t modified; /* what was told last */
};

static void hear(struct etcd_follow *f, const char *why)
{
	if (f->silent != !!why && f->config.heard)
		f->config.heard(f->config.ctx, why);
	f->silent = why;
}

/* Read it, and tell what is new. */
static int look(struct etcd_follow *f, int64_t *revision, struct error *err)
{
	struct etcd_value v;
	int rc = etcd_get(f->etcd, f->key, &v, err);

	if (rc) {
		if (rc != -ECANCELED)
			hear(f, err->text);
	} else {
		hear(f, NULL);
		*revision = v.revision;
		if (!f->told || v.modified != f->modified) {
			f->told = true;
			f->modified = v.modified;
			f->config.told(f->config.ctx, &v);
		}
	}
	etcd_value_free(&v);
	return rc;
}

/* Watch until a read fails. */
static int watch(struct etcd_follow *f, int64_t revision, struct error *err)
{
	const char *at = etcd_endpoint(f->etcd);
	int rc = etcd_watch(f->etcd, f->key, revision, err);

	while (!rc) {
		rc = etcd_watch_wait(f->etcd, READ_EVERY_MS, err);
		if (rc >= 0)
			rc = look(f, &revision, err);
		if (!rc && at != etcd_endpoint(f->etcd))
			break; /* it answers no more, another one does */
	}
	etcd_unwatch(f->etcd);
	return rc;
}

static void *run(void *arg)
{
	struct etcd_follow *f = arg;
	struct error err;
	unsigned pause_ms = PAUSE_MIN_MS;
	int64_t revision;

	for (;;) {
		int rc = look(f, &revision, &err);

		if (!rc) {
			const uint64_t began = time_now_ns();

			rc = watch(f, revision, &err);
			if (time_now_ns() - began > PAUSE_MAX_MS * NS_PER_MS)
				pause_ms = PAUSE_MIN_MS;
		}
		if (rc != -ECANCELED)
			rc = http_rest(f->etcd, pause_ms);
		if (rc == -ECANCELED)
			return NULL;
		pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
	}
}

static void forget(struct etcd_follow *f)
{
	etcd_close(f->etcd);
	free(f->key);
	free(f);
}

int etcd_follow_start(struct etcd_follow **out, const struct etcd_follow_config *config,
		      struct error *err)
{
	struct etcd_follow *f = calloc(1, sizeof(*f));
	int rc;

	if (!f || !(f->key = strdup(config->key))) {
		free(f);
		return error_set(err, -ENOMEM, "there is no memory for following a key of etcd's");
	}
	f->config = *config;
	f->config.etcd = NULL;
	rc = etcd_open(&f->etcd, config->etcd, err);
	if (!rc) {
		rc = -pthread_create(&f->thread, NULL, run, f);
		if (rc)
			error_set(err, rc,
				  "starting the thread that follows etcd failed: %s (raise the "
				  "limit of threads)",
				  error_name(rc));
	}
	if (rc) {
		forget(f);
		return rc;
	}
	pthread_setname_np(f->thread, "gkv-etcd");
	*out = f;
	return 0;
}

void etcd_follow_stop(struct etcd_follow *f)
{
	if (!f)
		return;
	etcd_wake(f->etcd);
	pthread_join(f->thread, NULL);
	forget(f);
}
