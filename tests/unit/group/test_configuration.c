/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What a configuration may be, what may become of it, and what etcd may give wrong. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/group/configuration.h"
#include "tests/lib/unit.h"

static struct error err;

UNIT_GROUP(unit_seed, NULL);

static struct group_member node(const char *name, uint64_t life)
{
	struct group_member m = { .life = life };

	snprintf(m.node, sizeof(m.node), "%s", name);
	snprintf(m.address, sizeof(m.address), "%s.example:7471", name);
	return m;
}

/* a is primary, b in sync, c learns. */
static struct group_config three(void)
{
	struct group_config c = {
		.lease_ms = 300, .rho_ppm = 10000, .min_in_sync = 1, .nonce = 77
	};
	const struct group_member a = node("a", 1), b = node("b", 2), other = node("c", UINT64_MAX);

	group_found(&c, &a);
	assert_ok(group_add(&c, 1, &b, &err));
	assert_ok(group_promote(&c, 1, 2, &err));
	assert_ok(group_add(&c, 1, &other, &err));
	assert_int_equal(c.term, 4);
	return c;
}

/* As it was: what is refused changes nothing. */
#define refused(c, call, code)                                     \
	do {                                                       \
		const struct group_config before_ = *(c);          \
		assert_int_equal(call, code);                      \
		assert_memory_equal(c, &before_, sizeof(before_)); \
	} while (0)

static void same_members(const struct group_member *a, const struct group_member *b, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(a[i].life, b[i].life);
		assert_string_equal(a[i].node, b[i].node);
		assert_string_equal(a[i].address, b[i].address);
	}
}

static void same(const struct group_config *a, const struct group_config *b)
{
	assert_int_equal(a->term, b->term);
	assert_int_equal(a->primary, b->primary);
	assert_int_equal(a->lease_ms, b->lease_ms);
	assert_int_equal(a->rho_ppm, b->rho_ppm);
	assert_int_equal(a->min_in_sync, b->min_in_sync);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->writer, b->writer);
	assert_int_equal(a->nonce, b->nonce);
	assert_string_equal(a->why, b->why);
	same_members(a->member, b->member, a->count);
	for (unsigned i = 0; i < a->count; i++)
		assert_int_equal(a->member[i].in_sync, b->member[i].in_sync);
	assert_int_equal(a->before_count, b->before_count);
	same_members(a->before, b->before, a->before_count);
}

UNIT_TEST(written_and_read)
{
	struct group_config c = three();
	struct group_config got;
	char *text;

	assert_ok(group_take_over(&c, 2, "a does not answer", &err));
	assert_int_equal(c.before_count, 1);
	text = group_config_encode(&c);
	assert_ok(group_config_decode(text, strlen(text), &got, &err));
	same(&c, &got);
	free(text);
}

UNIT_TEST(terms_grow)
{
	struct group_config c = three();

	assert_ok(group_take_over(&c, 2, "a does not answer", &err));
	assert_int_equal(c.term, 5);
	assert_ok(group_promote(&c, 2, UINT64_MAX, &err));
	assert_int_equal(c.term, 6);
	assert_ok(group_switch(&c, 2, UINT64_MAX, &err));
	assert_int_equal(c.term, 7);
	assert_null(group_find(&c, 2)); /* it gave way, and comes back in another life */
	assert_int_equal(c.count, 1);
	{
		const struct group_member b = node("b", 12);

		assert_ok(group_add(&c, UINT64_MAX, &b, &err));
	}
	assert_ok(group_remove(&c, UINT64_MAX, 12, "b does not answer", &err));
	assert_int_equal(c.term, 9);
	assert_int_equal(c.count, 1);
}

UNIT_TEST(a_person_says_what_there_is)
{
	struct group_config c = three();
	const struct group_member b = node("b", 12);

	group_force(&c, &b);
	assert_int_equal(c.term, 5);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.primary, 12);
	assert_int_equal(group_in_sync(&c), 1);
}

UNIT_TEST(who_takes_over)
{
	struct group_config c = three();

	refused(&c, group_take_over(&c, 1, "", &err), -EPERM); /* the primary */
	refused(&c, group_take_over(&c, UINT64_MAX, "", &err), -EPERM); /* it learns */
	refused(&c, group_take_over(&c, 9, "", &err), -EPERM); /* nobody */
	assert_ok(group_take_over(&c, 2, "", &err));
	assert_int_equal(c.primary, 2);
	assert_int_equal(c.writer, 2);
	assert_null(group_find(&c, 1));
	assert_false(group_find(&c, UINT64_MAX)->in_sync);
}

/* A node that was started again has lost what it had, whatever the configuration says. */
UNIT_TEST(another_life)
{
	struct group_config c = three();
	const struct group_member a = node("a", 11), b = node("b", 12);

	refused(&c, group_add(&c, 1, &a, &err), -EBUSY);
	assert_ok(group_add(&c, 1, &b, &err));
	assert_null(group_find(&c, 2));
	assert_false(group_find(&c, 12)->in_sync);
	assert_int_equal(group_in_sync(&c), 1);
	assert_int_equal(c.count, 3);
	assert_int_equal(c.term, 5);
}

UNIT_TEST(who_comes_back)
{
	struct group_config c = three();
	const struct group_member a = node("a", 11), b = node("b", 12);

	refused(&c, group_return(&c, 1, &b, &err), -EPERM); /* another node */
	refused(&c, group_return(&c, 2, &b, &err), -EPERM); /* in sync, and not the primary */
	assert_ok(group_return(&c, 1, &a, &err));
	assert_int_equal(c.term, 5);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.primary, 11);
}

/* b takes over, then d, and both die before they answer: in their next lives they give back. */
UNIT_TEST(who_gives_back)
{
	struct group_config c = three();
	const struct group_member d = node("d", 4), a = node("a", 11), b = node("b", 12),
				  again = node("d", 14);

	assert_ok(group_add(&c, 1, &d, &err));
	assert_ok(group_promote(&c, 1, 4, &err));
	refused(&c, group_give_back(&c, &a, &err), -EPERM); /* to nobody */
	assert_ok(group_take_over(&c, 2, "", &err));
	refused(&c, group_give_back(&c, &a, &err), -EPERM); /* not the primary's */
	assert_ok(group_take_over(&c, 4, "", &err));
	assert_int_equal(c.before_count, 2);
	assert_ok(group_give_back(&c, &again, &err));
	assert_int_equal(c.primary, 2);
	assert_int_equal(c.writer, 14);
	assert_null(group_find(&c, 4));
	assert_ok(group_give_back(&c, &b, &err));
	assert_int_equal(c.primary, 1);
	assert_true(group_find(&c, 1)->in_sync);
	assert_false(group_find(&c, UINT64_MAX)->in_sync); /* c learns, as before */
	assert_int_equal(c.count, 2);
	assert_int_equal(c.before_count, 0);
	refused(&c, group_give_back(&c, &a, &err), -EPERM);
	refused(&c, group_again(&c, &b, &err), -EPERM);
	assert_ok(group_again(&c, &a, &err));
	assert_int_equal(c.primary, 1); /* as before, but for the term */
	assert_ok(group_return(&c, 1, &a, &err));
	assert_int_equal(c.term, 12);
}

/* Whoever answers, comes back alone, or is wanted by a person, gives back to nobody. */
UNIT_TEST(who_keeps_it)
{
	struct group_config c = three();
	const struct group_member b = node("b", 12);

	assert_ok(group_take_over(&c, 2, "", &err));
	group_answers(&c);
	refused(&c, group_give_back(&c, &b, &err), -EPERM);
	c = three();
	assert_ok(group_switch(&c, 1, 2, &err));
	assert_int_equal(c.before_count, 1);
	assert_ok(group_return(&c, 2, &b, &err));
	assert_int_equal(c.before_count, 0);
	c = three();
	assert_ok(group_take_over(&c, 2, "", &err));
	group_force(&c, &b);
	assert_int_equal(c.before_count, 0);
}

/* As many as there is room for: the oldest goes. */
UNIT_TEST(very_many_who_do_not_answer)
{
	struct group_config c = three();

	for (uint64_t life = 20; life < 20 + 2ull * GROUP_MEMBERS_MAX; life++) {
		const struct group_member m = node((char[]){ (char)(life + 'a'), 0 }, life);

		assert_ok(group_add(&c, 1, &m, &err));
		assert_ok(group_promote(&c, 1, life, &err));
		assert_ok(group_take_over(&c, life, "", &err));
	}
	assert_int_equal(c.before_count, GROUP_MEMBERS_MAX);
	assert_int_equal(c.before[0].life, 20 + 2ull * GROUP_MEMBERS_MAX - 2);
}

UNIT_TEST(what_is_refused)
{
	struct group_config c = three();

	refused(&c, group_remove(&c, 1, 1, "", &err), -EINVAL);
	refused(&c, group_remove(&c, 1, 9, "", &err), -EINVAL);
	refused(&c, group_promote(&c, 1, 2, &err), -EINVAL);
	refused(&c, group_promote(&c, 1, 9, &err), -EINVAL);
	refused(&c, group_switch(&c, 2, 1, &err), -EPERM);
	refused(&c, group_switch(&c, 1, UINT64_MAX, &err), -EPERM);
	refused(&c, group_switch(&c, 1, 1, &err), -EPERM);
	for (unsigned i = 0; i < GROUP_MEMBERS_MAX - 3; i++) {
		const struct group_member m = node((char[]){ (char)('d' + i), 0 }, 100 + i);

		assert_ok(group_add(&c, 1, &m, &err));
	}
	{
		const struct group_member m = node("z", 1000), again = node("d", 1001);

		refused(&c, group_add(&c, 1, &m, &err), -ENOSPC);
		assert_ok(group_add(&c, 1, &again, &err));
	}
}

static char *edited(const char *from, const char *to)
{
	const struct group_config c = three();
	char *text = group_config_encode(&c), *at = strstr(text, from), *out = NULL;

	if (!at)
		fail_msg("%s is not in %s", from, text);
	assert_true(asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
	free(text);
	return out;
}

UNIT_TEST(what_is_none)
{
	static const char *const edits[][2] = {
		{ "\"term\":4", "\"term\":0" },
		{ "\"term\":4", "\"term\":-4" },
		{ "\"term\":4", "\"term\":4.5" },
		{ "\"term\":4", "\"term\":99999999999999999999" },
		{ "\"term\":4", "\"term\":\"4\"" },
		{ "\"term\":4", "\"term\":4,\"term\":5" },
		{ "\"format\":2", "\"format\":0" },
		{ "\"format\":2", "\"format\":null" },
		{ "\"lease_ms\":300", "\"lease_ms\":1" },
		{ "\"lease_ms\":300", "\"lease_ms\":99999999" },
		{ "\"rho_ppm\":10000", "\"rho_ppm\":500001" },
		{ "\"rho_ppm\":10000", "\"rho\":10000" },
		{ "\"min_in_sync\":1", "\"min_in_sync\":0" },
		{ "\"min_in_sync\":1", "\"min_in_sync\":9" },
		{ "\"primary\":\"0000000000000001\"", "\"primary\":\"0000000000000009\"" },
		{ "\"primary\":\"0000000000000001\"", "\"primary\":\"ffffffffffffffff\"" },
		{ "\"primary\":\"0000000000000001\"", "\"primary\":1" },
		{ "\"primary\":\"0000000000000001\"", "\"primary\":\"1\"" },
		{ "\"primary\":\"0000000000000001\"", "\"primary\":\"000000000000000g\"" },
		{ "\"life\":\"0000000000000002\"", "\"life\":\"0000000000000001\"" },
		{ "\"life\":\"0000000000000002\"", "\"life\":\"0000000000000000\"" },
		{ "\"node\":\"b\"", "\"node\":\"a\"" },
		{ "\"node\":\"b\"", "\"node\":\"\"" },
		{ "\"node\":\"b\"", "\"node\":\"b\\u0000c\"" },
		{ "\"node\":\"b\"", "\"node\":\"b\\nerror: all is lost\"" },
		{ "\"address\":\"b.example:7471\"", "\"address\":\"b.example\"" },
		{ "\"address\":\"b.example:7471\"", "\"address\":7471" },
		{ "\"in_sync\":true", "\"in_sync\":1" },
		{ "\"members\":[", "\"members\":[7," },
		{ "\"members\":[", "\"members\":{}, \"others\":[" },
		{ "\"writer\":\"0000000000000001\"", "\"writer\":\"0000000000000000\"" },
		{ "\"before\":[]", "\"before\":{}" },
		{ "\"before\":[]", "\"before\":[7]" },
		{ "\"before\":[]",
		  "\"before\":[{\"node\":\"\",\"life\":\"0000000000000009\",\"address\":\"x:1\"}]" },
		{ "\"before\":[]",
		  "\"before\":[{\"node\":\"x\",\"life\":\"0000000000000000\",\"address\":\"x:1\"}]" },
	};
	struct group_config got;

	for (unsigned i = 0; i < sizeof(edits) / sizeof(*edits); i++) {
		char *text = edited(edits[i][0], edits[i][1]);

		if (group_config_decode(text, strlen(text), &got, &err) != -EPROTO)
			fail_msg("taken: %s", text);
		assert_non_null(strstr(err.text, "look at who else"));
		free(text);
	}
}

/* Why it was changed is for people: it does not command their terminals. */
UNIT_TEST(words_of_a_peer)
{
	char *text = edited("\"why\":\"c learns\"", "\"why\":\"c\\u001b[2J\\nlearns\"");
	struct group_config got;

	assert_ok(group_config_decode(text, strlen(text), &got, &err));
	assert_string_equal(got.why, "c?[2J?learns");
	free(text);
}

static void of_another_version(const char *format, const char *word)
{
	char *text = edited("\"format\":2", format);
	struct group_config got;

	assert_int_equal(group_config_decode(text, strlen(text), &got, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, word));
	free(text);
}

UNIT_TEST(another_version)
{
	of_another_version("\"format\":3", "later");
	of_another_version("\"format\":1", "earlier");
}

/* Bytes of chance in one that is right: nothing but a configuration comes of it. */
UNIT_TEST(chance)
{
	const struct group_config c = three();
	char *text = group_config_encode(&c);
	const size_t len = strlen(text);
	struct group_config got;

	for (unsigned round = 0; round < 200000; round++) {
		char *bad = malloc(len); /* so that reading too far is seen */
		size_t bad_len = round % 4 ? len : unit_random(&unit_state) % (len + 1);

		memcpy(bad, text, len);
		for (unsigned i = (unsigned)(unit_random(&unit_state) % 3); i < 3; i++)
			bad[unit_random(&unit_state) % len] = (char)unit_random(&unit_state);
		if (!group_config_decode(bad, bad_len, &got, &err)) {
			char *again = group_config_encode(&got);
			struct group_config twice;

			assert_non_null(group_find(&got, got.primary));
			assert_ok(group_config_decode(again, strlen(again), &twice, &err));
			same(&got, &twice);
			free(again);
		}
		free(bad);
	}
	free(text);
}
