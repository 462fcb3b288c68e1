/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A key that is followed, and transactions, at a real etcd: stopped, killed and compacted. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mutant.h"
#include "common/base/time.h"
#include "server/etcd/etcd_internal.h"
#include "server/etcd/follow.h"
#include "tests/lib/folder.h"
#include "tests/lib/own_process.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/fake.h"
#include "tests/unit/etcd/real.h"

#define KEY	   "/gracekv/test/group/1"
#define TIMEOUT_MS 20000u /* enough for what is answered, however busy the machine is */
#define SILENCE_MS 1500u /* of a follower */
#define PATIENCE_S 60u

UNIT_GROUP(folder_make, folder_remove);

static struct error err;

/* What a follower has told. */
struct heard {
	pthread_mutex_t lock;
	unsigned told, silent, back;
	int64_t modified;
	bool there, fell;
	char text[64];
};

static void told(void *ctx, const struct etcd_value *v)
{
	struct heard *h = ctx;

	pthread_mutex_lock(&h->lock);
	h->told++;
	h->fell |= v->modified <= h->modified && v->modified;
	h->modified = v->modified;
	h->there = v->bytes;
	snprintf(h->text, sizeof(h->text), "%s", v->bytes ? v->bytes : "");
	pthread_mutex_unlock(&h->lock);
}

static void heard(void *ctx, const char *why)
{
	struct heard *h = ctx;

	pthread_mutex_lock(&h->lock);
	if (why)
		h->silent++;
	else
		h->back++;
	pthread_mutex_unlock(&h->lock);
}

/* Wait until @what is at least @least. */
static void await(struct heard *h, const unsigned *what, unsigned least)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_S * NS_PER_S;

	for (bool there = false; !there; time_sleep(5 * NS_PER_MS)) {
		assert_true(time_now_ns() < until_ns);
		pthread_mutex_lock(&h->lock);
		there = *what >= least;
		pthread_mutex_unlock(&h->lock);
	}
}

static void await_text(struct heard *h, const char *text)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_S * NS_PER_S;

	for (bool there = false; !there; time_sleep(5 * NS_PER_MS)) {
		assert_true(time_now_ns() < until_ns);
		pthread_mutex_lock(&h->lock);
		there = strcmp(h->text, text) == 0;
		pthread_mutex_unlock(&h->lock);
	}
}

static struct etcd_config config_of(const char *endpoints)
{
	return (struct etcd_config){ .endpoints = endpoints, .timeout_ms = TIMEOUT_MS };
}

static struct etcd *open_at(const char *endpoints)
{
	const struct etcd_config config = config_of(endpoints);
	struct etcd *e;

	assert_ok(etcd_open(&e, &config, &err));
	return e;
}

static struct etcd_follow *follow(const char *endpoints, struct heard *h)
{
	const struct etcd_config config = { .endpoints = endpoints, .timeout_ms = SILENCE_MS };
	const struct etcd_follow_config follow_config = {
		.etcd = &config, .key = KEY, .told = told, .heard = heard, .ctx = h
	};
	struct etcd_follow *f;

	*h = (struct heard){ .lock = PTHREAD_MUTEX_INITIALIZER };
	assert_ok(etcd_follow_start(&f, &follow_config, &err));
	return f;
}

static int try_to_set(struct etcd *e, const char *text, int64_t *modified)
{
	struct etcd_change c = { .key = KEY, .bytes = text, .len = strlen(text) };
	struct etcd_value v;
	int rc = etcd_get(e, KEY, &v, &err);

	if (rc)
		return rc;
	c.modified = v.modified;
	etcd_value_free(&v);
	return etcd_change(e, &c, 1, modified, &err);
}

/* Set the key, whatever it was. An etcd that has just begun elects itself first, and its gateway
 * may not reach it for a moment; where it has not said whether it did, it is asked again. */
static int64_t set(struct etcd *e, const char *text)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_S * NS_PER_S;
	int64_t modified = 0;
	int rc;

	do
		rc = try_to_set(e, text, &modified);
	while (rc && rc != -EACCES && time_now_ns() < until_ns);
	if (rc)
		fail_msg("%s: %s", text, err.text);
	return modified;
}

static void ask(struct etcd *e, const char *path, json_t *body)
{
	json_t *answer;

	if (call(e, path, body, false, &answer, &err))
		fail_msg("%s: %s", path, err.text);
	json_decref(answer);
}

UNIT_TEST(transactions)
{
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	struct etcd_change c[2] = { { .key = KEY, .bytes = "one", .len = 3 },
				    { .key = "/gracekv/test/lives", .bytes = "\0\xff", .len = 2 } };
	int64_t first, second;
	struct etcd_value v;

	assert_ok(etcd_change(e, c, 2, &first, &err));
	assert_int_equal(etcd_change(e, c, 2, &second, &err), -EAGAIN);
	assert_ok(etcd_get(e, c[1].key, &v, &err));
	assert_int_equal(v.len, 2);
	assert_memory_equal(v.bytes, "\0\xff", 2);
	assert_int_equal(v.modified, first);
	etcd_value_free(&v);
	c[0].modified = first;
	c[0].bytes = "two";
	c[1].modified = first + 7; /* not so: nothing is done */
	assert_int_equal(etcd_change(e, c, 2, &second, &err), -EAGAIN);
	c[1].modified = first;
	c[1].bytes = NULL; /* compared only */
	assert_ok(etcd_change(e, c, 2, &second, &err));
	assert_true(second > first);
	assert_ok(etcd_get(e, c[1].key, &v, &err));
	assert_int_equal(v.modified, first);
	etcd_value_free(&v);
	etcd_close(e);
	real_end(r);
}

UNIT_TEST(a_key_is_followed)
{
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	struct heard h;
	struct etcd_follow *f = follow(real_url(r), &h);

	await(&h, &h.told, 1);
	assert_false(h.there);
	for (unsigned i = 0; i < 50; i++) {
		char text[16];

		snprintf(text, sizeof(text), "value %u", i);
		set(e, text);
		if (i % 10 == 0)
			await_text(&h, text);
	}
	await_text(&h, "value 49");
	ask(e, "/v3/kv/deleterange", json_pack("{so}", "key", base64_json(KEY, strlen(KEY))));
	await_text(&h, "");
	etcd_follow_stop(f);
	assert_false(h.there);
	assert_false(h.fell);
	etcd_close(e);
	real_end(r);
}

/* Stopped, it says nothing; killed, the connection is over. Both are told, and both end. */
UNIT_TEST(etcd_goes_and_comes)
{
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	struct heard h;
	struct etcd_follow *f = follow(real_url(r), &h);

	set(e, "before");
	await_text(&h, "before");
	real_signal(r, SIGSTOP);
	await(&h, &h.silent, 1);
	real_signal(r, SIGCONT);
	await(&h, &h.back, 1);
	set(e, "between");
	await_text(&h, "between");
	real_signal(r, SIGKILL);
	await(&h, &h.silent, 2);
	real_restart(r);
	await(&h, &h.back, 2);
	set(e, "after");
	await_text(&h, "after");
	etcd_follow_stop(f);
	assert_false(h.fell);
	etcd_close(e);
	real_end(r);
}

/* What a watch asks for was compacted: it is cancelled, and the key is read. */
UNIT_TEST(a_watch_of_what_was_compacted)
{
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	const int64_t first = set(e, "one");
	char revision[24];

	snprintf(revision, sizeof(revision), "%lld", (long long)set(e, "two"));
	set(e, "three");
	ask(e, "/v3/kv/compaction", json_pack("{ss}", "revision", revision));
	assert_ok(etcd_watch(e, KEY, first - 1, &err));
	assert_int_equal(etcd_watch_wait(e, TIMEOUT_MS, &err), -ECONNRESET);
	assert_non_null(strstr(err.text, "compacted"));
	etcd_close(e);
	real_end(r);
}

/* Changed, many times, while the follower is not there to be told, and compacted. */
UNIT_TEST(compacted_meanwhile)
{
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	struct heard h;
	struct etcd_follow *f = follow(real_url(r), &h);

	await(&h, &h.told, 1);
	for (unsigned round = 0; round < 5; round++) {
		char revision[24], text[16];

		snprintf(text, sizeof(text), "round %u", round);
		set(e, "passing");
		snprintf(revision, sizeof(revision), "%lld", (long long)set(e, text));
		ask(e, "/v3/kv/compaction", json_pack("{ss}", "revision", revision));
		await_text(&h, text);
	}
	etcd_follow_stop(f);
	assert_false(h.fell);
	etcd_close(e);
	real_end(r);
}

/* The endpoint that it follows at is stopped, another one answers: here one that relays nothing. */
UNIT_TEST(another_endpoint_goes_on)
{
	const struct fake_answer a[] = {
		{ "/range", FAKE_REPLY, 200, "{\"header\":{\"revision\":\"1\"}}" },
		{ .way = FAKE_HANG },
	};
	struct fake *first = fake_start(a, 2);
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	char urls[200];
	struct heard h;
	struct etcd_follow *f;

	snprintf(urls, sizeof(urls), "%s,%s", fake_url(first), real_url(r));
	f = follow(urls, &h);
	await(&h, &h.told, 1);
	set(e, "seen");
	await_text(&h, "seen");
	set(e, "seen again");
	await_text(&h, "seen again");
	etcd_follow_stop(f);
	etcd_close(e);
	real_end(r);
	fake_stop(first);
}

UNIT_TEST(a_password)
{
	struct real *r = real_start("http", NULL);
	struct etcd *e = open_at(real_url(r));
	struct etcd_config config = config_of(real_url(r));
	struct etcd *by_root, *by_nobody;
	struct etcd_value v;

	set(e, "secret");
	ask(e, "/v3/auth/user/add", json_pack("{ss ss}", "name", "root", "password", "pw"));
	ask(e, "/v3/auth/role/add", json_pack("{ss}", "name", "root"));
	ask(e, "/v3/auth/user/grant", json_pack("{ss ss}", "user", "root", "role", "root"));
	ask(e, "/v3/auth/user/add", json_pack("{ss ss}", "name", "nobody", "password", "pw"));
	ask(e, "/v3/auth/enable", json_object());
	assert_int_equal(etcd_get(e, KEY, &v, &err), -EACCES);
	assert_non_null(strstr(err.text, "user"));
	config.user = "root";
	config.password = "pw";
	assert_ok(etcd_open(&by_root, &config, &err));
	assert_int_not_equal(set(by_root, "read"), 0);
	/* Its tokens are of its life: a new one asks for the password again. */
	real_restart(r);
	assert_int_not_equal(set(by_root, "read again"), 0);
	config.user = "nobody";
	assert_ok(etcd_open(&by_nobody, &config, &err));
	assert_int_equal(etcd_get(by_nobody, KEY, &v, &err), -EACCES);
	assert_non_null(strstr(err.text, "permission denied"));
	etcd_close(by_nobody);
	config.password = "wrong";
	assert_ok(etcd_open(&by_nobody, &config, &err));
	assert_int_equal(etcd_get(by_nobody, KEY, &v, &err), -EACCES);
	etcd_close(by_nobody);
	etcd_close(by_root);
	etcd_close(e);
	real_end(r);
}

UNIT_TEST(tls)
{
	char make[900], cert[300], key[300];
	struct etcd_config config;
	struct etcd *e;
	struct etcd_value v;
	struct real *r;

	snprintf(cert, sizeof(cert), "%s/cert.pem", folder);
	snprintf(key, sizeof(key), "%s/key.pem", folder);
	snprintf(
		make, sizeof(make),
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
		"-subj /CN=etcd -addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>/dev/null",
		key, cert);
	assert_ok(system(make));
	r = real_start("https",
		       (const char *[]){ "--cert-file", cert, "--key-file", key,
					 "--client-cert-auth", "--trusted-ca-file", cert, NULL });
	config = config_of(real_url(r));
	assert_ok(etcd_open(&e, &config, &err)); /* it is signed by nobody whom we know */
	assert_int_equal(etcd_get(e, KEY, &v, &err), -EACCES);
	etcd_close(e);
	config.ca = cert;
	config.cert = cert;
	config.key = key;
	assert_ok(etcd_open(&e, &config, &err));
	set(e, "over TLS");
	etcd_close(e);
	config.cert = config.key = NULL; /* it wants one of ours */
	assert_ok(etcd_open(&e, &config, &err));
	assert_int_not_equal(etcd_get(e, KEY, &v, &err), 0);
	etcd_close(e);
	real_end(r);
}

/* Whatever it waits for, it stops at once, and leaves nothing. */
UNIT_TEST(stopped_at_any_moment)
{
	const struct fake_answer hang = { .way = FAKE_HANG };
	struct fake *silent = fake_start(&hang, 1);
	struct real *r = real_start("http", NULL);
	const char *const urls[] = { fake_nobody(), fake_url(silent), real_url(r) };
	unsigned before = own_descriptors();

	for (unsigned i = 0; i < 30; i++) {
		const uint64_t began = time_now_ns();
		struct heard h;
		struct etcd_follow *f = follow(urls[i % 3], &h);

		time_sleep(i * 3 * NS_PER_MS);
		etcd_follow_stop(f);
		assert_true(time_now_ns() - began < 20 * NS_PER_S);
	}
	assert_int_equal(own_descriptors(), before);
	assert_true(own_threads_end("gkv-etcd"));
	real_end(r);
	fake_stop(silent);
}
