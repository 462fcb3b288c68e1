/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What servers that do not know each other agree on. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/layout/meta_format.h"
#include "server/etcd/etcd_internal.h"
#include "server/group/cluster.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/fake.h"
#include "tests/unit/etcd/real.h"

#define TIMEOUT_MS 20000u
#define SERVERS	   4u
#define LIVES	   8u /* that each of them draws */

UNIT_GROUP(folder_make, folder_remove);

static struct etcd *open_at(const char *url)
{
	const struct etcd_config config = { .endpoints = url, .timeout_ms = TIMEOUT_MS };
	struct error err;
	struct etcd *e;

	assert_ok(etcd_open(&e, &config, &err));
	return e;
}

struct server {
	const char *url;
	pthread_t thread;
	struct cluster_facts own, facts;
	uint64_t life[LIVES];
	int rc;
};

static void *begin(void *arg)
{
	struct server *s = arg;
	struct etcd *e = open_at(s->url);
	struct error err;

	do
		s->rc = cluster_join(e, "shop", &s->own, &s->facts, &err);
	while (s->rc == -ETIMEDOUT); /* it has just been started */
	for (unsigned i = 0; i < LIVES && !s->rc; i++)
		s->rc = cluster_draw_life(e, "shop", 0, &s->life[i], &err);
	if (s->rc)
		fprintf(stderr, "%s\n", err.text);
	etcd_close(e);
	return NULL;
}

UNIT_TEST(all_begin_at_once)
{
	bool drawn[SERVERS * LIVES + 1] = { false };
	struct server server[SERVERS];
	struct real *real = real_start("http", NULL);

	for (unsigned i = 0; i < SERVERS; i++) {
		server[i] = (struct server){ .url = real_url(real),
					     .own = { { i, 1000 + i }, 2000 + i } };
		assert_ok(pthread_create(&server[i].thread, NULL, begin, &server[i]));
	}
	for (unsigned i = 0; i < SERVERS; i++)
		pthread_join(server[i].thread, NULL);
	for (unsigned i = 0; i < SERVERS; i++) {
		const struct cluster_facts *f = &server[i].facts;

		assert_ok(server[i].rc);
		assert_memory_equal(f, &server[0].facts, sizeof(*f));
		assert_true(f->id[0] < SERVERS && f->id[1] == 1000 + f->id[0]);
		assert_int_equal(f->hash_seed, 2000 + f->id[0]);
		for (unsigned k = 0; k < LIVES; k++) {
			const uint64_t life = server[i].life[k];

			assert_true(life && life <= SERVERS * LIVES && !drawn[life]);
			assert_true(!k || life > server[i].life[k - 1]);
			drawn[life] = true;
		}
	}
	real_end(real);
}

UNIT_TEST(lives_above_what_is_known)
{
	struct real *real = real_start("http", NULL);
	struct etcd *e = open_at(real_url(real));
	struct error err;
	uint64_t life;
	int rc;

	do
		rc = cluster_draw_life(e, "shop", 40, &life, &err);
	while (rc == -ETIMEDOUT);
	assert_ok(rc);
	assert_int_equal(life, 41);
	assert_ok(cluster_draw_life(e, "shop", 7, &life, &err));
	assert_int_equal(life, 42);
	assert_ok(cluster_draw_life(e, "other", 0, &life, &err));
	assert_int_equal(life, 1);
	assert_ok(cluster_draw_life(e, "shop", LIFE_MAX - 1, &life, &err));
	assert_int_equal(life, LIFE_MAX);
	assert_int_equal(cluster_draw_life(e, "shop", 0, &life, &err), -EOVERFLOW);
	assert_int_equal(cluster_draw_life(e, "a shop", 0, &life, &err), -EINVAL);
	etcd_close(e);
	real_end(real);
}

/* What etcd answers to a read. To be freed. */
static char *answer_of(const char *text)
{
	json_t *value = base64_json(text, strlen(text));
	char *answer = NULL;

	assert_true(asprintf(&answer,
			     "{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"value\":\"%s\","
			     "\"mod_revision\":\"7\"}]}",
			     json_string_value(value)) > 0);
	json_decref(value);
	return answer;
}

#define NO_KEY "{\"header\":{\"revision\":\"7\"}}"
#define DONE   "{\"header\":{\"revision\":\"8\"},\"succeeded\":true}"

/* Nobody knows what became of a transaction, and others go on. */
UNIT_TEST(a_reply_is_lost)
{
	char *five = answer_of("{\"format\":1,\"life\":5}");
	char *nine = answer_of("{\"format\":1,\"life\":9}");
	char *facts = answer_of("{\"format\":1,\"hash_seed\":\"000000000000000a\",\"id\":"
				"{\"high\":\"000000000000000b\",\"low\":\"000000000000000c\"}}");
	const struct fake_answer lives[] = { { "/range", FAKE_REPLY, 200, five },
					     { .path = "/txn", .way = FAKE_CLOSE },
					     { "/range", FAKE_REPLY, 200, nine },
					     { "/txn", FAKE_REPLY, 200, DONE } };
	const struct fake_answer cluster[] = { { "/range", FAKE_REPLY, 200, NO_KEY },
					       { .path = "/txn", .way = FAKE_CLOSE },
					       { "/range", FAKE_REPLY, 200, facts } };
	const struct cluster_facts own = { { 1, 2 }, 3 };
	struct fake *f = fake_start(lives, 4);
	struct etcd *e = open_at(fake_url(f));
	struct cluster_facts found;
	struct error err;
	uint64_t life;

	assert_ok(cluster_draw_life(e, "shop", 0, &life, &err));
	assert_int_equal(life, 10);
	etcd_close(e);
	fake_stop(f);
	f = fake_start(cluster, 3);
	e = open_at(fake_url(f));
	assert_ok(cluster_join(e, "shop", &own, &found, &err));
	assert_int_equal(found.id[0], 0xb);
	assert_int_equal(found.id[1], 0xc);
	assert_int_equal(found.hash_seed, 0xa);
	etcd_close(e);
	fake_stop(f);
	free(five);
	free(nine);
	free(facts);
}

UNIT_TEST(what_no_server_writes)
{
	static const struct {
		const char *text;
		int rc;
	} bad[] = { { "", -EPROTO },
		    { "17", -EPROTO },
		    { "{\"format\":1}", -EPROTO },
		    { "{\"format\":2,\"life\":1}", -ENOTSUP },
		    { "{\"format\":1,\"life\":-1}", -EPROTO },
		    { "{\"format\":1,\"life\":1048577}", -EPROTO },
		    { "{\"format\":1,\"life\":\"1\"}", -EPROTO },
		    { "{\"format\":1,\"hash_seed\":\"a\",\"id\":{}}", -EPROTO } };
	const struct cluster_facts own = { { 1, 2 }, 3 };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char *text = answer_of(bad[i].text);
		const struct fake_answer a = { "/range", FAKE_REPLY, 200, text };
		struct fake *f = fake_start(&a, 1);
		struct etcd *e = open_at(fake_url(f));
		struct cluster_facts found;
		struct error err = { .text = "" };
		uint64_t life;

		assert_int_equal(cluster_draw_life(e, "shop", 0, &life, &err), bad[i].rc);
		assert_non_null(strstr(err.text, "/gracekv/shop/lives"));
		assert_int_equal(cluster_join(e, "shop", &own, &found, &err), bad[i].rc);
		assert_non_null(strstr(err.text, "/gracekv/shop/cluster"));
		etcd_close(e);
		fake_stop(f);
		free(text);
	}
}
