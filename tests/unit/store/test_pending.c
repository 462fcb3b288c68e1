/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Writes that are decided and not published: against a model that has a published state and a queue
 * for each key; and what has expired, what is refused, and what may be deferred meanwhile.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "server/reclaim/qsbr.h"
#include "tests/lib/no_device.h"
#include "tests/unit/store/pending.h"

#define SEED	      6u
#define FEW	      8u /* keys, of two locks */
#define MANY	      20000u /* keys: the index splits and merges */
#define QUEUE	      12u /* of a key, at most */
#define VALUE_MAX_LEN 40u

static struct store store;
static struct store_worker worker;
static uint64_t seed;

static int open_store(uint64_t deferred_max)
{
	const struct store_config config = {
		.bytes_max = 256 << 20,
		.server_incarnation = 5,
		.hash_seed = SEED,
		.hooks = { take_region, drop_region, NULL },
		.deferred_max = deferred_max,
	};
	struct error err;

	qsbr_register();
	if (store_create(&store, &config, &err) || store_worker_create(&worker, &store, 8))
		return -1;
	fake_log_open(&store);
	return 0;
}

static int setup(void **state)
{
	return open_store(0);
}

static int setup_small(void **state)
{
	return open_store(1 << 20);
}

static int teardown(void **state)
{
	assert_int_equal(fake_log_wrong, 0);
	store_worker_destroy(&worker);
	qsbr_unregister();
	store_destroy(&store);
	return 0;
}

/* The model. */
struct record {
	bool there;
	uint64_t version, expiry_ms;
	char value[VALUE_MAX_LEN];
};

struct key {
	char name[16];
	struct record published;
	unsigned count;
	struct change {
		struct record after;
		struct pending_write *write;
	} queue[QUEUE];
};

static struct key *keys;
static uint64_t now_ms;

static const struct record *newest(const struct key *k)
{
	return k->count ? &k->queue[k->count - 1].after : &k->published;
}

static bool alive(const struct record *r)
{
	return r->there && !(r->expiry_ms && r->expiry_ms <= now_ms);
}

static int model_terms(const struct store_terms *t, const struct record *r)
{
	switch (t->condition) {
	case STORE_ALWAYS:
		return 0;
	case STORE_IF_ABSENT:
		return alive(r) ? -EEXIST : 0;
	case STORE_IF_PRESENT:
		return alive(r) ? 0 : -ENOENT;
	case STORE_IF_VERSION:
		return !alive(r) ? -ENOENT : r->version == t->version ? 0 : -EEXIST;
	}
	return -EINVAL;
}

/* What the write makes of the key's newest state. */
static int model(const struct pending_ask *ask, const struct record *r, struct record *after)
{
	int rc = model_terms(&ask->terms, r);
	bool keeps = alive(r) && (ask->op == PENDING_INCR || ask->op == PENDING_APPEND ||
				  (ask->op == PENDING_PUT && ask->terms.keep));
	const char *base = alive(r) ? r->value : "";
	long long number;

	*after = (struct record){ .there = true };
	after->expiry_ms = keeps ? r->expiry_ms : ask->expiry_ms;
	if (rc)
		return rc;
	if ((ask->op == PENDING_DEL || ask->op == PENDING_TOUCH) && !alive(r))
		return -ENOENT;
	switch (ask->op) {
	case PENDING_PUT:
		snprintf(after->value, VALUE_MAX_LEN, "%s", ask->value);
		break;
	case PENDING_DEL:
		*after = (struct record){ 0 };
		break;
	case PENDING_TOUCH:
		snprintf(after->value, VALUE_MAX_LEN, "%s", base);
		break;
	case PENDING_APPEND:
		snprintf(after->value, VALUE_MAX_LEN, "%s%s", base, ask->value);
		break;
	case PENDING_INCR:
		number = strtoll(base, NULL, 10);
		snprintf(after->value, VALUE_MAX_LEN, "%lld", number);
		if (alive(r) && strcmp(base, after->value) != 0)
			return -EDOM;
		snprintf(after->value, VALUE_MAX_LEN, "%lld", number + (long long)ask->delta);
		break;
	}
	return 0;
}

/* What a reader finds is what is published, and nothing else. */
static void check_key(struct key *k)
{
	struct store_result r;
	int rc = store_get(&worker, k->name, (uint32_t)strlen(k->name), now_ms, false, &r);

	if (!k->published.there) {
		assert_int_equal(rc, -ENOENT);
	} else if (!alive(&k->published)) {
		/* is not called absent for it, as long as something is pending */
		assert_int_equal(rc, k->count ? -EBUSY : -ENOENT);
		k->published.there = rc == -EBUSY;
	} else {
		assert_ok(rc);
		assert_int_equal(r.version, k->published.version);
		assert_int_equal(r.expiry_ms, k->published.expiry_ms);
		assert_int_equal(r.value_len, strlen(k->published.value));
		assert_memory_equal(r.block->data + strlen(k->name), k->published.value,
				    r.value_len);
		assert_int_equal(block_verify(r.block, block_bytes(r.block->key_len, r.value_len),
					      k->name, (uint32_t)strlen(k->name), r.block->key_hash,
					      r.incarnation),
				 BLOCK_OK);
	}
}

static void decide(struct key *k, const struct pending_ask *ask)
{
	struct pending_write *x = malloc(sizeof(*x));
	uint64_t awaits = k->count ? newest(k)->version : 0;
	struct record after;
	int want = model(ask, newest(k), &after), rc = pending_decide(&worker, ask, x);

	assert_int_equal(rc, want);
	/* It was deleted, to be called absent, or to be written from nothing. */
	if (!k->count && !alive(&k->published) &&
	    (rc == -ENOENT || (ask->op != PENDING_PUT && ask->op != PENDING_DEL)))
		k->published.there = false;
	if (rc) {
		assert_int_equal(x->decision.awaits, awaits);
		if (awaits)
			assert_true(store_is_pending(&store, x->decision.awaits_hash, awaits));
		if (rc == -EEXIST)
			assert_int_equal(x->result.version, newest(k)->version);
		free(x);
		return;
	}
	assert_true(x->result.version > newest(k)->version);
	after.version = x->result.version;
	k->queue[k->count++] = (struct change){ after, x };
}

/* Publish the key's write @i: the first one may go, the others may not. */
static void publish(struct key *k, unsigned i)
{
	struct pending_write *x = k->queue[i].write;

	assert_true(store_is_pending(&store, x->pending.hash, x->pending.version));
	assert_int_equal(store_publish(&worker, &x->pending), i ? -EAGAIN : 0);
	if (i)
		return;
	assert_false(store_is_pending(&store, x->pending.hash, x->pending.version));
	k->published = k->queue[0].after;
	memmove(k->queue, k->queue + 1, --k->count * sizeof(k->queue[0]));
	free(x);
	check_key(k);
}

static void decide_any(struct key *k, unsigned dels)
{
	static const char *const values[] = { "1", "22", "-7", "words", "", "longer words" };
	uint64_t r = unit_random(&seed);
	struct pending_ask ask = {
		.op = r % 100 < dels ? PENDING_DEL : (enum pending_op[]){
			PENDING_PUT, PENDING_PUT, PENDING_INCR, PENDING_TOUCH, PENDING_APPEND,
		}[r / 100 % 5],
		.key = k->name,
		.value = values[r / 500 % 6],
		.delta = (int64_t)(r / 3000 % 5),
		.expiry_ms = r / 15000 % 3 ? 0 : now_ms + r / 45000 % 20,
		.terms = { .condition = (enum store_condition)(r / 1000000 % 4),
			   .version = newest(k)->version - (r / 4000000 % 4 == 0),
			   .keep = r / 16000000 % 2,
			   .now_ms = now_ms },
	};

	if (ask.op == PENDING_DEL && ask.terms.condition != STORE_IF_VERSION)
		ask.terms.condition = STORE_ALWAYS;
	if (ask.op == PENDING_TOUCH)
		ask.terms.condition = STORE_IF_PRESENT;
	if (ask.op == PENDING_APPEND && strlen(newest(k)->value) + 15 > VALUE_MAX_LEN)
		ask.op = PENDING_PUT;
	if (k->count < QUEUE)
		decide(k, &ask);
}

static void model_begin(unsigned count)
{
	seed = (uint64_t)time_now_ns();
	print_message("seed %llu\n", (unsigned long long)seed);
	keys = calloc(count, sizeof(*keys));
	now_ms = 1000;
}

static void publish_all(struct key *k)
{
	while (k->count) {
		publish(k, k->count - 1);
		if (k->count)
			publish(k, 0);
	}
}

static void check_stats(unsigned count)
{
	struct index_stats stats;
	uint64_t there = 0, bytes = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct record *r = &keys[i].published;

		there += r->there;
		if (r->there)
			bytes += block_bytes((uint32_t)strlen(keys[i].name),
					     (uint32_t)strlen(r->value));
	}
	index_stats_get(store.index, &stats);
	assert_int_equal(stats.records, there);
	assert_int_equal(stats.record_bytes, bytes);
}

UNIT_TEST(writes_of_few_keys_are_judged_against_the_newest, setup, teardown)
{
	unsigned found = 0, lock[2] = { 1, 2 };

	model_begin(FEW);
	for (unsigned n = 0; found < FEW; n++) { /* half of them under one lock, half of another */
		char name[16];

		snprintf(name, sizeof(name), "key%u", n);
		if (index_lock_number(store.index, hash_key(SEED, name, strlen(name))) ==
		    lock[found % 2])
			strcpy(keys[found++].name, name);
	}
	for (unsigned i = 0; i < 200000; i++) {
		struct key *k = &keys[unit_random(&seed) % FEW];
		uint64_t what = unit_random(&seed) % 8;

		if (what < 4)
			decide_any(k, 25);
		else if (what < 7 && k->count)
			publish(k, (unsigned)(unit_random(&seed) % 2 * (k->count - 1)));
		else
			check_key(k);
		now_ms += unit_random(&seed) % 16 == 0;
		if (i % 1000 == 0)
			check_stats(FEW);
		qsbr_quiescent();
	}
	for (unsigned i = 0; i < FEW; i++)
		publish_all(&keys[i]);
	check_stats(FEW);
	free(keys);
}

/* Inserts and deletions that wait while segments are split and merged around them. */
UNIT_TEST(pending_writes_move_with_splits_and_merges, setup, teardown)
{
	struct index_stats stats;

	model_begin(MANY);
	for (unsigned i = 0, n = 0; i < MANY; n++) { /* all begin in one segment */
		char name[16];

		snprintf(name, sizeof(name), "key%u", n);
		if (hash_key(SEED, name, strlen(name)) >> 58 == 0)
			strcpy(keys[i++].name, name);
	}
	for (unsigned phase = 0; phase < 6; phase++) {
		for (unsigned i = 0; i < 3 * MANY; i++) {
			decide_any(&keys[unit_random(&seed) % MANY], phase % 2 ? 97 : 3);
			if (unit_random(&seed) % 3) {
				struct key *k = &keys[unit_random(&seed) % MANY];

				if (k->count)
					publish(k, 0);
				else
					check_key(k);
			}
			now_ms += i % 64 == 0;
			qsbr_quiescent();
		}
		for (unsigned i = 0; i < MANY; i++) {
			if (phase % 2)
				publish_all(&keys[i]);
			check_key(&keys[i]);
			qsbr_quiescent();
		}
		check_stats(MANY);
	}
	index_stats_get(store.index, &stats);
	print_message("%llu splits, %llu merges\n", (unsigned long long)stats.splits,
		      (unsigned long long)stats.merges);
	assert_true(stats.splits > 0 && stats.merges > 0);
	free(keys);
}

UNIT_TEST(an_append_that_the_log_refuses_changes_nothing, setup, teardown)
{
	static const int error[] = { -EBUSY, -ENOSPC, -EIO };
	struct pending_write x, y;
	struct pending_ask ask = { .op = PENDING_PUT, .key = "key", .value = "one" };
	struct store_result r;

	for (unsigned i = 0; i < 3; i++) {
		fake_log_error = error[i];
		assert_int_equal(pending_decide(&worker, &ask, &x), error[i]);
		assert_int_equal(x.decision.refused, error[i]);
		assert_int_equal(store_get(&worker, "key", 3, 0, false, &r), -ENOENT);
		fake_log_error = 0;
	}
	assert_ok(pending_decide(&worker, &ask, &x));
	ask.op = PENDING_DEL;
	fake_log_error = -ENOSPC;
	assert_int_equal(pending_decide(&worker, &ask, &y), -ENOSPC);
	assert_int_equal(y.decision.awaits, 0);
	fake_log_error = 0;
	assert_ok(store_publish(&worker, &x.pending));
	assert_ok(store_get(&worker, "key", 3, 0, false, &r));
	assert_int_equal(r.version, x.result.version);
}

/* Bytes that pending writes will retire are reserved: no two reserve the same. */
UNIT_TEST(pending_writes_stay_within_what_may_be_deferred, setup_small, teardown)
{
	static struct pending_write x[200];
	static char value[8000];
	struct pending_ask ask = { .op = PENDING_PUT, .value = value };
	char name[16];
	unsigned n = 0;

	memset(value, 'v', sizeof(value) - 1);
	ask.key = name;
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "key%u", i);
		assert_ok(pending_decide(&worker, &ask, &x[i]));
		assert_ok(store_publish(&worker, &x[i].pending));
	}
	for (; n < 200; n++) {
		snprintf(name, sizeof(name), "key%u", n);
		if (pending_decide(&worker, &ask, &x[n]))
			break;
	}
	assert_int_equal(x[n].rc, -EBUSY);
	print_message("%u pending\n", n);
	assert_in_range(n, (1 << 20) / 2 / 8192, (1 << 20) / 8192);
	for (unsigned i = 0; i < n; i++)
		assert_ok(store_publish(&worker, &x[i].pending));
}

/* A record that has expired stays while something of its key is pending; the sweeper comes back. */
UNIT_TEST(the_sweeper_leaves_what_is_pending, setup, teardown)
{
	uint64_t expiry_ms = store_now_ns(&store) / NS_PER_MS + 50;
	struct pending_write put, touch;
	struct pending_ask ask = {
		.op = PENDING_PUT,
		.key = "key",
		.value = "one",
		.expiry_ms = expiry_ms,
	};
	struct store_result r;
	struct index_stats stats;

	assert_ok(pending_decide(&worker, &ask, &put));
	assert_ok(store_publish(&worker, &put.pending));
	ask.op = PENDING_TOUCH;
	ask.expiry_ms += 100;
	assert_ok(pending_decide(&worker, &ask, &touch));
	while (store_now_ns(&store) / NS_PER_MS < expiry_ms + 50) {
		store_sweep(&worker, time_now_ns());
		qsbr_quiescent();
	}
	assert_int_equal(store_get(&worker, "key", 3, expiry_ms, false, &r), -EBUSY);
	assert_ok(store_publish(&worker, &touch.pending));
	assert_ok(store_get(&worker, "key", 3, expiry_ms, false, &r));
	do {
		store_sweep(&worker, time_now_ns());
		qsbr_quiescent();
		index_stats_get(store.index, &stats);
	} while (stats.records);
	assert_true(store_now_ns(&store) / NS_PER_MS >= ask.expiry_ms);
}

UNIT_TEST(the_clock_of_expiry_never_goes_back, setup, teardown)
{
	uint64_t ms = store_now_ns(&store) / NS_PER_MS + 3600000;

	store_clock_raise(&store, ms);
	store_clock_raise(&store, ms - 5);
	assert_int_equal(store_now_ns(&store), ms * NS_PER_MS);
}
