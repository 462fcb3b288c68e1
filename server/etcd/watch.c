/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The watch: an answer of etcd that never ends, a line for each thing that happened. Whatever a
 * line says but "created", the key is read again. A watch that is cancelled, because what it asked
 * for was compacted or for any other reason, has ended: who watches again reads first, and asks
 * from there on. So nothing of the lines but their kind is believed, and no event can be lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/time.h"
#include "server/etcd/etcd_internal.h"

int etcd_watch(struct etcd *e, const char *key, int64_t revision, struct error *err)
{
	autofree char *text = NULL;
	char from[24];

	etcd_unwatch(e);
	snprintf(from, sizeof(from), "%" PRId64, revision + 1);
	text = json_text(json_pack("{s{so ss}}", "create_request", "key", base64_key(key),
				   "start_revision", from));
	if (!text)
		return error_set(err, -ENOMEM, "there is no memory for a watch of etcd's");
	return http_begin(e, &e->watch, e->at, "/v3/watch", text, 0, err);
}

void etcd_unwatch(struct etcd *e)
{
	http_end(e, &e->watch);
}

static int lost(const struct etcd *e, const char *why, struct error *err)
{
	return error_set(err, -ECONNRESET, "%s has ended its watch: %.*s", etcd_endpoint(e), 160,
			 why);
}

/* One line. Returns as etcd_watch_wait(). */
static int take_line(const struct etcd *e, const char *line, struct error *err)
{
	json_t *j = json_loads(line, 0, NULL);
	const json_t *result = json_object_get(j, "result");
	int rc = 1;

	if (!json_is_object(result))
		rc = lost(e, *line ? line : "it said nothing", err);
	else if (json_is_true(json_object_get(result, "canceled")))
		rc = lost(e,
			  json_object_get(result, "compact_revision")
				  ? "what it was to tell was compacted"
				  : "it was cancelled",
			  err);
	else if (json_is_true(json_object_get(result, "created")) &&
		 !json_object_get(result, "events"))
		rc = 0;
	json_decref(j);
	return rc;
}

/* All whole lines that have come. */
static int take_lines(struct etcd *e, struct error *err)
{
	struct etcd_text *t = &e->watch.text;
	char *end;
	int rc = 0;

	while (rc >= 0 && t->len && (end = memchr(t->bytes, '\n', t->len))) {
		const size_t len = (size_t)(end - t->bytes) + 1;
		int one;

		*end = 0;
		one = take_line(e, t->bytes, err);
		rc = one ? one : rc;
		t->len -= len;
		memmove(t->bytes, t->bytes + len, t->len + 1);
	}
	return rc;
}

int etcd_watch_wait(struct etcd *e, unsigned timeout_ms, struct error *err)
{
	const uint64_t until_ns = time_now_ns() + timeout_ms * NS_PER_MS;
	int rc = 0;

	for (;;) {
		const uint64_t now = time_now_ns();

		if (!e->watch.curl)
			return lost(e, "there is none", err);
		rc = take_lines(e, err);
		if (!rc && e->watch.ended)
			rc = lost(e, e->watch.why[0] ? e->watch.why : "the connection is over",
				  err);
		if (rc || now >= until_ns)
			return rc;
		rc = http_run(e, (unsigned)((until_ns - now) / NS_PER_MS) + 1);
		if (rc)
			return error_set(err, rc, "the watch was ended");
	}
}
