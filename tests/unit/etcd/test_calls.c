/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What the calls make of endpoints that answer well, badly, late, or not at all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/time.h"
#include "server/etcd/etcd.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/fake.h"

#define HEADER "\"header\":{\"revision\":\"12\"}"
#define FOUND \
	"{" HEADER ",\"kvs\":[{\"key\":\"aw==\",\"value\":\"dmFsdWU=\",\"mod_revision\":\"9\"}]}"
#define DONE "{" HEADER ",\"succeeded\":true}"

#define TIMEOUT_MS 6000u /* enough for what is answered, however busy the machine is */

static struct error err;

static struct etcd *open_with(const char *endpoints, const char *user)
{
	const struct etcd_config config = { .endpoints = endpoints,
					    .user = user,
					    .password = user ? "secret" : NULL,
					    .timeout_ms = TIMEOUT_MS };
	struct etcd *e = NULL;

	assert_ok(etcd_open(&e, &config, &err));
	return e;
}

static int get_at(const char *endpoints, struct etcd_value *v)
{
	struct etcd *e = open_with(endpoints, NULL);
	int rc = etcd_get(e, "k", v, &err);

	etcd_close(e);
	return rc;
}

static int change_at(const char *endpoints)
{
	const struct etcd_change c = { .key = "k", .modified = 9, .bytes = "x", .len = 1 };
	struct etcd *e = open_with(endpoints, NULL);
	int64_t modified = 0;
	int rc = etcd_change(e, &c, 1, &modified, &err);

	if (!rc)
		assert_int_equal(modified, 12);
	etcd_close(e);
	return rc;
}

/* @answer, and what a get and a change return with it. */
static void both(struct fake_answer answer, int get, int change)
{
	struct etcd_value v;
	struct fake *f = fake_start(&answer, 1);

	assert_int_equal(get_at(fake_url(f), &v), get);
	etcd_value_free(&v);
	assert_int_equal(change_at(fake_url(f)), change);
	assert_in_range(fake_requests(f), 2, 2);
	fake_stop(f);
}

UNIT_TEST(a_value)
{
	const struct fake_answer a = { "POST /v3/kv/range ", FAKE_REPLY, 200, FOUND };
	struct fake *f = fake_start(&a, 1);
	struct etcd_value v;

	assert_ok(get_at(fake_url(f), &v));
	assert_string_equal(v.bytes, "value");
	assert_int_equal(v.len, 5);
	assert_int_equal(v.modified, 9);
	assert_int_equal(v.revision, 12);
	assert_non_null(strstr(fake_request(f), "{\"key\":\"aw==\"}"));
	etcd_value_free(&v);
	fake_stop(f);
}

UNIT_TEST(no_such_key)
{
	const struct fake_answer a = { NULL, FAKE_REPLY, 200, "{" HEADER "}" };
	struct fake *f = fake_start(&a, 1);
	struct etcd_value v;

	assert_ok(get_at(fake_url(f), &v));
	assert_null(v.bytes);
	assert_int_equal(v.modified, 0);
	fake_stop(f);
}

UNIT_TEST(an_empty_value)
{
	const struct fake_answer a = { NULL, FAKE_REPLY, 200,
				       "{" HEADER ",\"kvs\":[{\"mod_revision\":\"9\"}]}" };
	struct fake *f = fake_start(&a, 1);
	struct etcd_value v;

	assert_ok(get_at(fake_url(f), &v));
	assert_non_null(v.bytes);
	assert_int_equal(v.len, 0);
	etcd_value_free(&v);
	fake_stop(f);
}

UNIT_TEST(a_transaction)
{
	const struct fake_answer a = { "POST /v3/kv/txn ", FAKE_REPLY, 200, DONE };
	struct fake *f = fake_start(&a, 1);

	assert_ok(change_at(fake_url(f)));
	assert_non_null(strstr(fake_request(f), "\"mod_revision\":\"9\""));
	assert_non_null(strstr(fake_request(f), "\"value\":\"eA==\""));
	fake_stop(f);
}

UNIT_TEST(a_key_that_was_changed)
{
	const struct fake_answer a = { NULL, FAKE_REPLY, 200, "{" HEADER "}" };
	struct fake *f = fake_start(&a, 1);

	assert_int_equal(change_at(fake_url(f)), -EAGAIN);
	fake_stop(f);
}

/* What is no answer of etcd's: a read fails, a transaction may have been executed. */
UNIT_TEST(answers_that_are_none)
{
	static const char *const bodies[] = {
		"",
		"<html>hello</html>",
		"[]",
		"{}",
		"{\"header\":{\"revision\":12}}",
		"{\"header\":{\"revision\":\"-12\"}}",
		"{\"header\":{\"revision\":\"99999999999999999999\"}}",
		"{\"header\":{\"revision\":\"12",
		"{\"header\":\"revision\"}",
	};

	for (unsigned i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
		both((struct fake_answer){ NULL, FAKE_REPLY, 200, bodies[i] }, -EPROTO,
		     -EINPROGRESS);
}

UNIT_TEST(values_that_are_none)
{
	static const char *const kvs[] = {
		"{\"value\":\"dmFsdWU=\"}",
		"{\"value\":\"dmFsdWU\",\"mod_revision\":\"9\"}",
		"{\"value\":\"d?Fs\",\"mod_revision\":\"9\"}",
		"{\"value\":7,\"mod_revision\":\"0\"}",
		"7",
	};

	for (unsigned i = 0; i < sizeof(kvs) / sizeof(*kvs); i++) {
		char body[160];
		const struct fake_answer a = { NULL, FAKE_REPLY, 200, body };
		struct fake *f;
		struct etcd_value v;

		snprintf(body, sizeof(body), "{" HEADER ",\"kvs\":[%s]}", kvs[i]);
		f = fake_start(&a, 1);
		assert_int_equal(get_at(fake_url(f), &v), -EPROTO);
		etcd_value_free(&v);
		fake_stop(f);
	}
}

UNIT_TEST(what_fails_for_good)
{
	both((struct fake_answer){ NULL, FAKE_REPLY, 400, "{\"message\":\"bad\"}" }, -EINVAL,
	     -EINVAL);
	both((struct fake_answer){ NULL, FAKE_REPLY, 403, "{\"error\":\"permission denied\"}" },
	     -EACCES, -EACCES);
	assert_non_null(strstr(err.text, "permission denied"));
	both((struct fake_answer){ NULL, FAKE_REPLY, 429, "{\"error\":\"space exceeded\"}" },
	     -ENOSPC, -ENOSPC);
	both((struct fake_answer){ NULL, FAKE_REPLY, 404, "no page" }, -EPROTO, -EPROTO);
}

UNIT_TEST(what_may_have_been_done)
{
	both((struct fake_answer){ NULL, FAKE_REPLY, 503, "{\"error\":\"request timed out\"}" },
	     -EREMOTEIO, -EINPROGRESS);
	both((struct fake_answer){ .way = FAKE_CLOSE }, -EPROTO, -EINPROGRESS);
	both((struct fake_answer){ .way = FAKE_HANG }, -ETIMEDOUT, -EINPROGRESS);
	both((struct fake_answer){ NULL, FAKE_BYTES, 0, "SSH-2.0-server\r\n" }, -EPROTO,
	     -EINPROGRESS);
	both((struct fake_answer){ NULL, FAKE_BYTES, 0,
				   "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n" DONE },
	     -EPROTO, -EINPROGRESS);
}

UNIT_TEST(nobody_there)
{
	struct etcd_value v;

	assert_int_equal(get_at(fake_nobody(), &v), -EHOSTUNREACH);
	assert_non_null(strstr(err.text, "look whether it runs"));
	assert_int_equal(change_at(fake_nobody()), -EHOSTUNREACH);
}

/* The first ones fail; a read is answered by the last one, and goes there first from then on. */
UNIT_TEST(another_endpoint)
{
	const struct fake_answer hang = { .way = FAKE_HANG },
				 found = { NULL, FAKE_REPLY, 200, FOUND };
	struct fake *f[2] = { fake_start(&hang, 1), fake_start(&found, 1) };
	char urls[256];
	struct etcd *e;
	struct etcd_value v;

	snprintf(urls, sizeof(urls), "%s/,%s, %s", fake_nobody(), fake_url(f[0]), fake_url(f[1]));
	e = open_with(urls, NULL);
	assert_ok(etcd_get(e, "k", &v, &err));
	etcd_value_free(&v);
	assert_ok(etcd_get(e, "k", &v, &err));
	etcd_value_free(&v);
	assert_string_equal(etcd_endpoint(e), fake_url(f[1]));
	assert_int_equal(fake_requests(f[0]), 1);
	etcd_close(e);
	for (unsigned i = 0; i < 2; i++)
		fake_stop(f[i]);
}

/* A transaction goes past those where nobody is; not past one that may have got it. */
UNIT_TEST(a_transaction_is_sent_once)
{
	const struct fake_answer closes = { .way = FAKE_CLOSE },
				 done = { NULL, FAKE_REPLY, 200, DONE };
	struct fake *f[2] = { fake_start(&closes, 1), fake_start(&done, 1) };
	char urls[256];

	snprintf(urls, sizeof(urls), "%s,%s", fake_nobody(), fake_url(f[1]));
	assert_ok(change_at(urls));
	snprintf(urls, sizeof(urls), "%s,%s", fake_url(f[0]), fake_url(f[1]));
	assert_int_equal(change_at(urls), -EINPROGRESS);
	assert_int_equal(fake_requests(f[1]), 1);
	for (unsigned i = 0; i < 2; i++)
		fake_stop(f[i]);
}

/* Nor twice to one: a connection that was kept, and is dead, would be tried again by curl. */
UNIT_TEST(a_transaction_is_sent_once_over_a_kept_connection)
{
	const struct fake_answer a[] = { { "/range", FAKE_REPLY, 200, FOUND },
					 { .path = "/txn", .way = FAKE_CLOSE },
					 { NULL, FAKE_REPLY, 200, DONE } };
	const struct etcd_change c = { .key = "k", .modified = 9, .bytes = "x", .len = 1 };
	struct fake *f = fake_start(a, 3);
	struct etcd *e = open_with(fake_url(f), NULL);
	struct etcd_value v;
	int64_t modified;

	assert_ok(etcd_get(e, "k", &v, &err));
	etcd_value_free(&v);
	assert_int_equal(etcd_change(e, &c, 1, &modified, &err), -EINPROGRESS);
	assert_int_equal(fake_requests(f), 2);
	etcd_close(e);
	fake_stop(f);
}

UNIT_TEST(calls_end_in_time)
{
	const struct fake_answer hang = { .way = FAKE_HANG };
	struct fake *f[3] = { fake_start(&hang, 1), fake_start(&hang, 1), fake_start(&hang, 1) };
	const uint64_t began = time_now_ns();
	char urls[256];
	struct etcd_value v;

	snprintf(urls, sizeof(urls), "%s,%s,%s", fake_url(f[0]), fake_url(f[1]), fake_url(f[2]));
	assert_int_equal(get_at(urls, &v), -ETIMEDOUT);
	assert_true(time_now_ns() - began >= TIMEOUT_MS * NS_PER_MS / 2);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(fake_requests(f[i]), 1);
		fake_stop(f[i]);
	}
}

UNIT_TEST(a_user)
{
	const struct fake_answer a[] = {
		{ "/authenticate", FAKE_REPLY, 200, "{\"token\":\"t.1\"}" },
		{ "Authorization: t.1", FAKE_REPLY, 200, FOUND },
		{ "Authorization: t.1", FAKE_REPLY, 401, "{}" },
		{ "/authenticate", FAKE_REPLY, 200, "{\"token\":\"t.2\"}" },
		{ "Authorization: t.2", FAKE_REPLY, 200, FOUND }
	};
	struct fake *f = fake_start(a, 5);
	struct etcd *e = open_with(fake_url(f), "me");
	struct etcd_value v;

	for (unsigned i = 0; i < 2; i++) {
		assert_ok(etcd_get(e, "k", &v, &err));
		etcd_value_free(&v);
	}
	assert_int_equal(fake_requests(f), 5);
	etcd_close(e);
	fake_stop(f);
}

UNIT_TEST(a_user_that_is_refused)
{
	const struct fake_answer a = { "/authenticate", FAKE_REPLY, 400,
				       "{\"error\":\"authentication failed, invalid user ID or "
				       "password\",\"code\":3}" };
	struct fake *f = fake_start(&a, 1);
	struct etcd *e = open_with(fake_url(f), "me");
	struct etcd_value v;

	assert_int_equal(etcd_get(e, "k", &v, &err), -EACCES);
	assert_non_null(strstr(err.text, "invalid user ID or password"));
	etcd_close(e);
	fake_stop(f);
}

UNIT_TEST(endpoints_that_are_none)
{
	static const char *const bad[] = {
		"",	      " , ",	  "ftp://a", "http:///", "http://a:123456", "http://a/path",
		"http://a?b", "etcd.sock"
	};
	struct etcd_config config = { .timeout_ms = TIMEOUT_MS };
	struct etcd *e;
	char many[17 * 10 + 1] = "";

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		config.endpoints = bad[i];
		err.text[0] = 0;
		assert_int_equal(etcd_open(&e, &config, &err), -EINVAL);
		assert_non_null(strstr(err.text, "http://HOST:2379"));
	}
	for (unsigned i = 0; i < 17; i++)
		strcat(many, "http://a,");
	config.endpoints = many;
	assert_int_equal(etcd_open(&e, &config, &err), -EINVAL);
	config.endpoints = "http://a";
	config.ca = "/nowhere/ca.pem";
	assert_int_equal(etcd_open(&e, &config, &err), -ENOENT);
}

/* An answer that never ends takes no more memory than it may. */
UNIT_TEST(an_answer_that_is_too_long)
{
	static char body[5 << 20];
	const struct fake_answer a = { NULL, FAKE_REPLY, 200, body };
	struct fake *f = fake_start(&a, 1);
	struct etcd_value v;

	memset(body, ' ', sizeof(body) - 1);
	assert_int_equal(get_at(fake_url(f), &v), -EPROTO);
	fake_stop(f);
}
