/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/api/api.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "tests/unit/api/api_more.h"
#include "tests/unit/client/with_server.h"

#define STAIN "the place for the view is NULL"

struct gkv_session *api_session;
struct gkv *api_kv;
unsigned api_port;
pid_t api_server;

static char address[32];

void api_options(struct gkv_options *o)
{
	snprintf(address, sizeof(address), "127.0.0.1:%u", api_port);
	gkv_options_init(o);
	o->server = address;
	o->device = "soft0";
	o->timeout_ms = 20000;
}

int api_set_up(void **state)
{
	struct gkv_options o;

	api_port = 0;
	api_server = server_start(&api_port, "128M");
	api_options(&o);
	return server_session(api_port, &o, &api_session) || server_handle(api_session, &api_kv);
}

int api_tear_down(void **state)
{
	gkv_close(api_kv);
	gkv_session_close(api_session);
	server_stop(api_server, SIGKILL);
	return 0;
}

/* One attempt to open, write and read. What it has opened is closed where it fails. */
static int begin(struct gkv_options *o, struct gkv_session **s, struct gkv **kv)
{
	uint64_t value = 0;
	int rc = server_session(api_port, o, s);

	if (rc)
		return rc;
	*kv = NULL;
	rc = server_handle(*s, kv);
	if (!rc)
		rc = gkv_put(*kv, "brief", 5, &value, sizeof(value), NULL);
	if (!rc)
		rc = gkv_get(*kv, "brief", 5, &value, sizeof(value), NULL);
	if (rc) {
		if (*kv)
			printf("%s: %s\n", gkv_strerror(rc), gkv_error(*kv));
		gkv_close(*kv);
		gkv_session_close(*s);
	}
	return rc;
}

void api_open_brief(struct gkv_session **s, struct gkv **kv)
{
	const uint64_t until = time_now_ns() + API_SLACK_MS * NS_PER_MS;
	struct gkv_options o;
	int rc;

	api_options(&o);
	o.timeout_ms = API_BRIEF_MS;
	do
		rc = begin(&o, s, kv);
	while (rc == -ETIMEDOUT && time_now_ns() < until);
	assert_int_equal(rc, 0);
}

void api_works(struct gkv *kv)
{
	static uint64_t number;
	uint64_t value = 0;
	size_t len = 0;

	number++;
	assert_int_equal(gkv_put(kv, "works", 5, &number, sizeof(number), NULL), 0);
	assert_int_equal(gkv_get(kv, "works", 5, &value, sizeof(value), &len), 0);
	assert_int_equal(len, sizeof(value));
	assert_int_equal(value, number);
}

void api_stain(struct gkv *kv)
{
	assert_int_equal(gkv_get_view(kv, "k", 1, NULL, NULL), -EINVAL);
	assert_string_equal(gkv_error(kv), STAIN);
}

void api_refused(int rc, const char *call, int want, const char *word)
{
	const char *text = gkv_error(api_kv);

	if (rc != want || !strstr(text, word) || strlen(text) < 10)
		fail_msg("%s is %d (%s), not %d: %s", call, rc, gkv_strerror(rc), want, text);
	if (strcmp(text, STAIN) == 0)
		fail_msg("%s has left the sentence of an earlier call", call);
	api_works(api_kv);
}

int api_gone(int rc, const struct api_call *call)
{
	return rc == -ECONNREFUSED || rc == -EHOSTUNREACH || rc == -ECONNRESET || rc == -EPROTO ||
	       rc == -ETIMEDOUT || (call->writes && rc == -EREMOTEIO);
}

static int get(struct gkv *kv)
{
	char value[16];
	int rc = gkv_get(kv, "call", 4, value, sizeof(value), NULL);

	return rc == -ENOENT ? 0 : rc;
}

static int get_view(struct gkv *kv)
{
	const void *view;
	int rc = gkv_get_view(kv, "call", 4, &view, NULL);

	return rc == -ENOENT ? 0 : rc;
}

static int exists(struct gkv *kv)
{
	int rc = gkv_exists(kv, "call", 4, NULL);

	return rc == -ENOENT ? 0 : rc;
}

static int put(struct gkv *kv)
{
	return gkv_put(kv, "call", 4, "7", 1, NULL);
}

static int put_with(struct gkv *kv)
{
	const struct gkv_write_options options = { .ttl_ms = 3600000 };

	return gkv_put_with(kv, "call", 4, "7", 1, &options, NULL);
}

static int cas(struct gkv *kv)
{
	uint64_t version = 1;
	int rc = gkv_cas(kv, "no such", 7, &version, "7", 1);

	return rc == -ENOENT ? 0 : rc;
}

static int del(struct gkv *kv)
{
	int rc = gkv_del(kv, "no such", 7);

	return rc == -ENOENT ? 0 : rc;
}

static int del_if(struct gkv *kv)
{
	int rc = gkv_del_if(kv, "no such", 7, 1);

	return rc == -ENOENT ? 0 : rc;
}

static int incr(struct gkv *kv)
{
	return gkv_incr(kv, "number", 6, 1, NULL);
}

static int incr_with(struct gkv *kv)
{
	return gkv_incr_with(kv, "number", 6, 1, NULL, NULL, NULL);
}

static int append(struct gkv *kv)
{
	return gkv_append(kv, "appended", 8, "7", 1, NULL, NULL);
}

static int getdel(struct gkv *kv)
{
	int rc = gkv_getdel(kv, "no such", 7, NULL, 0, NULL);

	return rc == -ENOENT ? 0 : rc;
}

static int touch(struct gkv *kv)
{
	int rc = gkv_touch(kv, "no such", 7, 1000, NULL);

	return rc == -ENOENT ? 0 : rc;
}

static int mget(struct gkv *kv)
{
	struct gkv_item item = { .key = "call", .key_len = 4 };
	int rc = gkv_mget(kv, &item, 1);

	/* it ended early, and does not say so */
	if (kv && rc && rc != -EPERM && rc != -EBUSY && rc != -EDEADLK && item.status != -ECANCELED)
		return 1;
	return rc;
}

static int nothing(void *arg, const void *key, size_t key_len, const void *value,
		   const struct gkv_meta *meta)
{
	return 0;
}

static int scan(struct gkv *kv)
{
	return gkv_scan(kv, NULL, nothing, NULL);
}

static int ping(struct gkv *kv)
{
	return gkv_ping(kv, NULL);
}

static int clock_of(struct gkv *kv)
{
	uint64_t ms;

	return gkv_clock(kv, &ms);
}

static int server_stats(struct gkv *kv)
{
	char *text = NULL;
	int rc = gkv_server_stats(kv, &text);

	free(text);
	return rc;
}

/* Of a server without a data directory. */
static int save(struct gkv *kv)
{
	int rc = gkv_save(kv, NULL);

	return rc == -EOPNOTSUPP ? 0 : rc;
}

const struct api_call api_calls[] = {
	{ "gkv_get", get, 0 },
	{ "gkv_get_view", get_view, 0 },
	{ "gkv_exists", exists, 0 },
	{ "gkv_put", put, 1 },
	{ "gkv_put_with", put_with, 1 },
	{ "gkv_cas", cas, 1 },
	{ "gkv_del", del, 1 },
	{ "gkv_del_if", del_if, 1 },
	{ "gkv_append", append, 1 },
	{ "gkv_getdel", getdel, 0 },
	{ "gkv_incr", incr, 1 },
	{ "gkv_incr_with", incr_with, 1 },
	{ "gkv_touch", touch, 1 },
	{ "gkv_mget", mget, 0 },
	{ "gkv_mput", api_mput, 1 },
	{ "gkv_mdel", api_mdel, 1 },
	{ "gkv_scan", scan, 0 },
	{ "gkv_scan_open", api_scan_chunks, 0 },
	{ "gkv_ping", ping, 0 },
	{ "gkv_clock", clock_of, 0 },
	{ "gkv_server_stats", server_stats, 0 },
	{ "gkv_save", save, 0 },
	{ NULL },
};
