/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Proposals whose outcome is known late, or never; and an etcd that has forgotten. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/random.h"
#include "common/base/time.h"
#include "server/etcd/etcd_internal.h"
#include "server/group/registry.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"
#include "tests/unit/etcd/fake.h"
#include "tests/unit/etcd/real.h"

#define TIMEOUT_MS 20000u /* enough for what is answered, however busy the machine is */
#define SILENCE_MS 1000u
#define PATIENCE_S 60u

UNIT_GROUP(folder_make, folder_remove);

static struct error err;

static struct group_registry *open_for(const char *url, unsigned timeout_ms)
{
	const struct etcd_config config = { .endpoints = url, .timeout_ms = timeout_ms };
	struct group_registry *r;

	assert_ok(group_registry_open(&r, &config, "test", "1", &err));
	return r;
}

static struct group_registry *open_at(const char *url)
{
	return open_for(url, TIMEOUT_MS);
}

static struct group_config founded(uint64_t life)
{
	struct group_config c = { .lease_ms = 300, .min_in_sync = 1, .nonce = 5 };
	const struct group_member m = { .life = life, .node = "a", .address = "a:1" };

	group_found(&c, &m);
	return c;
}

/* The next one of @c: another member learns. */
static struct group_config next_of(const struct group_config *c, uint64_t writer, const char *node)
{
	struct group_config next = *c;
	struct group_member m = { .life = 100 + c->term, .address = "b:1" };

	snprintf(m.node, sizeof(m.node), "%s", node);
	assert_ok(group_add(&next, writer, &m, &err));
	return next;
}

/* What etcd answers to a read where @c stands. To be freed. */
static char *answer_of(const struct group_config *c, int64_t modified)
{
	char *text = group_config_encode(c), *answer = NULL;
	json_t *value = base64_json(text, strlen(text));

	assert_true(asprintf(&answer,
			     "{\"header\":{\"revision\":\"%lld\"},\"kvs\":[{\"value\":\"%s\","
			     "\"mod_revision\":\"%lld\"}]}",
			     (long long)modified, json_string_value(value),
			     (long long)modified) > 0);
	json_decref(value);
	free(text);
	return answer;
}

/* Random numbers that are known: what a proposal draws. */
static uint64_t drawn;

static ssize_t draw(void *out, size_t len, unsigned flags)
{
	(void)flags;
	drawn += 1000;
	memset(out, 0, len);
	memcpy(out, &drawn, len < sizeof(drawn) ? len : sizeof(drawn));
	return (ssize_t)len;
}

UNIT_TEST(proposed_and_read)
{
	struct real *e = real_start("http", NULL);
	struct group_registry *r = open_at(real_url(e)), *other = open_at(real_url(e));
	struct group_known none, now, seen;
	struct group_config c = founded(1), next;

	while (group_registry_read(r, &none, &err) == -ETIMEDOUT)
		;
	assert_int_equal(none.modified, 0);
	assert_ok(group_registry_propose(r, &none, &c, &now, &err));
	assert_true(now.modified > 0 && now.config.nonce);
	assert_ok(group_registry_read(other, &seen, &err));
	assert_int_equal(seen.modified, now.modified);
	assert_int_equal(seen.config.nonce, now.config.nonce);
	/* Two found the group, or change it: one of them does. */
	c = founded(2);
	assert_int_equal(group_registry_propose(other, &none, &c, &seen, &err), -EAGAIN);
	assert_int_equal(seen.config.primary, 1);
	next = next_of(&now.config, 1, "b");
	assert_ok(group_registry_propose(r, &now, &next, &seen, &err));
	next = next_of(&now.config, 2, "c");
	assert_int_equal(group_registry_propose(other, &now, &next, &seen, &err), -EAGAIN);
	assert_int_equal(seen.config.term, 2);
	assert_non_null(group_find_node(&seen.config, "b"));
	group_registry_close(other);
	group_registry_close(r);
	real_end(e);
}

/* Etcd is killed and comes back with less, or with nothing. */
UNIT_TEST(restored_from_a_back_up)
{
	struct real *e = real_start("http", NULL);
	struct group_registry *r = open_at(real_url(e)), *fresh;
	const struct etcd_config config = { .endpoints = real_url(e), .timeout_ms = TIMEOUT_MS };
	struct group_known none, first, now;
	struct group_config c = founded(1);
	struct etcd_change back = { .key = group_registry_key(r) };
	struct etcd *etcd;
	int64_t modified;

	while (group_registry_read(r, &none, &err) == -ETIMEDOUT)
		;
	assert_ok(group_registry_propose(r, &none, &c, &first, &err));
	c = next_of(&first.config, 1, "b");
	assert_ok(group_registry_propose(r, &first, &c, &now, &err));
	assert_ok(etcd_open(&etcd, &config, &err));
	back.modified = now.modified;
	back.bytes = group_config_encode(&first.config);
	back.len = strlen(back.bytes);
	assert_ok(etcd_change(etcd, &back, 1, &modified, &err));
	assert_int_equal(group_registry_read(r, &now, &err), -ESTALE);
	assert_non_null(strstr(err.text, "restored from a back-up"));
	fresh = open_at(real_url(e)); /* who knows no better */
	assert_ok(group_registry_read(fresh, &now, &err));
	group_registry_close(fresh);
	etcd_close(etcd);
	free((void *)back.bytes);
	group_registry_close(r);
	real_end(e);
}

/* The reply is lost; reads show t, and t+1 at last, of one or the other. */
static void reply_lost(bool ours)
{
	const struct group_config c = founded(1);
	struct group_config next = next_of(&c, 1, "b"), stands;
	char *before = answer_of(&c, 7), *after = NULL;
	struct fake_answer a[] = { { "/range", FAKE_REPLY, 200, before },
				   { .path = "/txn", .way = FAKE_CLOSE },
				   { "/range", FAKE_REPLY, 200, before },
				   { "/range", FAKE_REPLY, 503, "{\"error\":\"no leader\"}" },
				   { "/range", FAKE_REPLY, 200, "<html>a proxy</html>" },
				   { "/range", FAKE_REPLY, 200, before },
				   { "/range", FAKE_REPLY, 200, NULL } };
	struct fake *f = fake_start(a, 7);
	struct group_registry *r = open_at(fake_url(f));
	struct group_known known, now;
	uint64_t nonce;

	random_table.draw = draw;
	assert_ok(group_registry_read(r, &known, &err));
	assert_int_equal(group_registry_propose(r, &known, &next, &now, &err), -EINPROGRESS);
	nonce = drawn;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(group_registry_settle(r, &now, &err), -EINPROGRESS);
	stands = next;
	stands.nonce = ours ? nonce : 4711;
	after = answer_of(&stands, 9);
	a[6].body = after;
	assert_int_equal(group_registry_settle(r, &now, &err), ours ? 0 : -EAGAIN);
	assert_int_equal(now.modified, 9);
	group_registry_close(r);
	fake_stop(f);
	free(before);
	free(after);
}

UNIT_TEST(a_reply_is_lost_and_it_was_done)
{
	reply_lost(true);
}

UNIT_TEST(a_reply_is_lost_and_another_one_was_faster)
{
	reply_lost(false);
}

/* Stopped between the proposal and its reply: it is done later, or not at all; which is found out,
 * and a second proposal in place of the same one ends it. */
UNIT_TEST(etcd_is_stopped)
{
	struct real *e = real_start("http", NULL);
	struct group_registry *r = open_at(real_url(e)), *hasty;
	struct group_known from, now;
	struct group_config c = founded(1);
	const uint64_t until_ns = time_now_ns() + PATIENCE_S * NS_PER_S;
	int rc;

	while (group_registry_read(r, &from, &err) == -ETIMEDOUT)
		;
	assert_ok(group_registry_propose(r, &from, &c, &now, &err));
	from = now;
	c = next_of(&from.config, 1, "b");
	hasty = open_for(real_url(e), SILENCE_MS);
	real_signal(e, SIGSTOP);
	assert_int_equal(group_registry_propose(hasty, &from, &c, &now, &err), -EINPROGRESS);
	assert_int_equal(group_registry_settle(hasty, &now, &err), -EINPROGRESS);
	real_signal(e, SIGCONT);
	group_registry_close(hasty);
	c = next_of(&from.config, 1, "c");
	do
		rc = group_registry_propose(r, &from, &c, &now, &err);
	while (rc == -EINPROGRESS && time_now_ns() < until_ns);
	/* The first one came after all, or the second one has ended it. */
	assert_true(rc == 0 || rc == -EAGAIN);
	assert_int_equal(now.config.term, 2);
	assert_non_null(group_find_node(&now.config, rc ? "b" : "c"));
	group_registry_close(r);
	real_end(e);
}

UNIT_TEST(names)
{
	static const char *const bad[] = { "", "a/b", "a b", "\xc3\xa4",
					   "01234567890123456789012345678901234567890123456789"
					   "012345678901234" };
	const struct etcd_config config = { .endpoints = "http://a", .timeout_ms = TIMEOUT_MS };
	struct group_registry *r;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(group_registry_open(&r, &config, bad[i], "1", &err), -EINVAL);
		assert_int_equal(group_registry_open(&r, &config, "1", bad[i], &err), -EINVAL);
	}
	assert_ok(group_registry_open(&r, &config, "my-cluster", "eu_1", &err));
	assert_string_equal(group_registry_key(r), "/gracekv/my-cluster/group/eu_1");
	group_registry_close(r);
}
