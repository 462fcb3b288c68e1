/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Runs on a store in memory that answers wrongly where it is told to: what is read wrongly must be
 * found, what is slow must show, and nothing may be lost in between. And on the floor server, over
 * a socket.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "common/base/time.h"
#include "tools/kv-bench/client.h"
#include "tools/kv-bench/floor.h"

#define RECORDS 500u
#define LEN	100u
#define CELLS	4096u /* a power of two, more than records and inserts */

enum fault { HONEST, LOSES_A_WRITE, ANOTHERS, TORN, LONGER, SHORTER, STALLS, FAILS };

static struct {
	enum fault fault;
	uint64_t gets, puts;
	struct {
		char key[RECORD_KEY_MAX];
		size_t key_len; /* 0: free */
		bool there;
		char value[LEN + 1];
	} cell[CELLS];
} store;

static unsigned find(const char *key, size_t len)
{
	unsigned i = 0;

	for (size_t k = 4; k < len; k++)
		i = i * 10 + (unsigned)key[k];
	while (store.cell[i % CELLS].key_len && (store.cell[i % CELLS].key_len != len ||
						 memcmp(store.cell[i % CELLS].key, key, len) != 0))
		i++;
	return i % CELLS;
}

static void get(struct kv_op *op, unsigned i)
{
	bool now = store.gets++ == 20;

	op->status = store.cell[i].there ? 0 : -ENOENT;
	op->data = op->value;
	op->data_len = LEN;
	memcpy(op->value, store.cell[i].value, LEN);
	if (now && store.fault == ANOTHERS)
		record_fill(op->value, LEN, RECORDS + 7, 1);
	if (now && store.fault == TORN)
		memset(op->value + LEN / 2, 0, LEN / 2);
	if (now && store.fault == LONGER)
		op->status = -EMSGSIZE;
	if (now && store.fault == SHORTER)
		op->data_len--;
	if (now && store.fault == STALLS)
		usleep(300000);
	if (now && store.fault == FAILS)
		op->status = -EIO;
}

struct fake {
	unsigned count;
	struct kv_op *op[16];
};

static int fake_open(const struct system *s, unsigned depth, size_t value_max, void **out,
		     struct error *err)
{
	*out = calloc(1, sizeof(struct fake));
	return depth <= 16 && value_max == LEN && *out ? 0 : error_set(err, -EINVAL, "no");
}

static void fake_submit(void *connection, struct kv_op *op)
{
	struct fake *f = connection;
	unsigned i = find(op->key, op->key_len);

	assert_true(f->count < 16);
	f->op[f->count++] = op;
	op->status = 0;
	if (op->verb == KV_GET) {
		get(op, i);
		return;
	}
	if (op->verb == KV_DEL && !store.cell[i].there)
		op->status = -ENOENT;
	if (store.fault == LOSES_A_WRITE && store.puts++ == 30)
		return;
	memcpy(store.cell[i].key, op->key, op->key_len);
	store.cell[i].key_len = op->key_len;
	store.cell[i].there = op->verb == KV_PUT;
	if (op->verb == KV_PUT)
		memcpy(store.cell[i].value, op->value, op->value_len);
}

/* Not in their order, and not all at once. */
static int fake_collect(void *connection, struct kv_op **done, unsigned max, uint64_t until_ns,
			struct error *err)
{
	struct fake *f = connection;
	int n = 0;

	for (unsigned i = 0; i < 2 && f->count && (unsigned)n < max; i++)
		done[n++] = f->op[--f->count];
	return n;
}

static const struct driver fake_driver = { fake_open, fake_submit, fake_collect, free };
static const struct system fake = { .name = "fake", .driver = &fake_driver };
static struct run_result result;
static struct zipf zipf;

static struct run_plan plan(const struct workload *w)
{
	if (!zipf.n)
		zipf_init(&zipf, RECORDS, 0.99);
	return (struct run_plan){ .system = &fake,
				  .workload = w,
				  .distribution = w->distribution,
				  .zipf = &zipf,
				  .records = RECORDS,
				  .inserts = w->share[OP_INSERT] > 0 ? RECORDS : 0,
				  .record_len = LEN,
				  .operations = 3000,
				  .threads = 1,
				  .depth = 1,
				  .seed = 42 };
}

static void fill(void)
{
	struct run_plan p = plan(&workload_load);
	struct error err = { 0 };

	memset(&store, 0, sizeof(store));
	p.records = 0;
	p.inserts = RECORDS;
	p.operations = 0;
	assert_int_equal(run(&p, &result, &err), 0);
	assert_int_equal(result.inserted, RECORDS);
	assert_int_equal(result.latency[OP_INSERT].count, RECORDS);
}

static int run_with(enum fault fault, const char *workload, unsigned depth, struct error *err)
{
	struct run_plan p = plan(workload_find(workload, NULL));

	fill();
	store.fault = fault;
	p.depth = depth;
	return run(&p, &result, err);
}

UNIT_TEST(all_operations_are_done_and_timed)
{
	static const char *const name[] = { "A", "B", "C", "D", "F" };
	struct error err = { 0 };

	for (unsigned i = 0; i < 5; i++) {
		for (unsigned depth = 1; depth <= 16; depth *= 4) {
			uint64_t timed = 0;

			assert_int_equal(run_with(HONEST, name[i], depth, &err), 0);
			assert_int_equal(result.operations, 3000);
			assert_int_equal(result.wrong + result.missing, 0);
			for (unsigned op = 0; op < OPERATIONS; op++)
				timed += result.latency[op].count;
			assert_int_equal(timed, 3000);
			assert_true(result.ns > 0 && result.client_cpu_ns > 0);
			assert_int_equal(result.server_cpu_ns, -1);
		}
	}
}

/* What was inserted goes, and no more than that. */
UNIT_TEST(deletes_take_what_was_inserted)
{
	struct run_plan p = plan(&workload_delete);
	struct error err = { 0 };

	assert_int_equal(run_with(HONEST, "D", 4, &err), 0);
	assert_in_range(result.inserted, 50, 300);
	p.operations = 0;
	p.inserts = result.inserted;
	assert_int_equal(run(&p, &result, &err), 0);
	assert_int_equal(result.operations, p.inserts);
	assert_int_equal(result.missing, 0);
	p.inserts++; /* one more is not there */
	assert_int_equal(run(&p, &result, &err), 0);
	assert_int_equal(result.missing, p.inserts);
}

UNIT_TEST(inserts_end_a_run_when_there_are_twice_as_many)
{
	struct run_plan p = plan(workload_find("D", NULL));
	struct error err = { 0 };

	fill();
	p.operations = 0;
	p.duration_ns = 3600 * NS_PER_S;
	p.inserts = 100;
	assert_int_equal(run(&p, &result, &err), 0);
	assert_int_equal(result.inserted, 100);
}

UNIT_TEST(wrong_records_are_found)
{
	const enum fault faults[] = { ANOTHERS, TORN, LONGER, SHORTER };
	struct error err = { 0 };

	for (unsigned i = 0; i < 4; i++) {
		for (unsigned depth = 1; depth <= 16; depth *= 16) {
			assert_int_equal(run_with(faults[i], "C", depth, &err), 0);
			assert_int_equal(result.wrong, 1);
			assert_int_equal(result.missing, 0);
			assert_int_equal(result.operations, 3000);
			assert_non_null(strstr(result.trouble, "read of fake: record user"));
		}
		assert_int_equal(run_with(faults[i], "F", 4, &err), 0);
		assert_int_equal(result.wrong, 1);
	}
}

/* An insert that was acknowledged and is not there. */
UNIT_TEST(missing_records_are_found)
{
	struct error err = { 0 };

	assert_int_equal(run_with(LOSES_A_WRITE, "D", 1, &err), 0);
	assert_true(result.missing > 0);
	assert_non_null(strstr(result.trouble, "is not there"));
}

UNIT_TEST(a_failure_ends_the_run)
{
	struct error err = { 0 };

	assert_int_equal(run_with(FAILS, "C", 4, &err), -EIO);
	assert_non_null(strstr(err.text, "read of fake failed"));
	assert_true(result.operations < 3000);
}

/* 300 at a millisecond each are late for a stall of 300 ms; in a closed loop it is one. */
UNIT_TEST(a_stall_shows_in_an_open_loop)
{
	struct run_plan p = plan(workload_find("C", NULL));
	struct error err = { 0 };
	uint64_t late;

	fill();
	store.fault = STALLS;
	p.operations = 600;
	p.target = 1000;
	assert_int_equal(run(&p, &result, &err), 0);
	late = result.operations;
	for (unsigned i = 0; i < histogram_cell(50000000); i++)
		late -= result.latency[OP_READ].cell[i];
	assert_in_range(late, 200, 600);
	assert_true(result.ns >= 599000000);
	assert_int_equal(result.operations, 600);
}

/* At its end an open loop tells how many had no turn. */
UNIT_TEST(what_had_no_turn_is_told)
{
	struct run_plan p = plan(workload_find("C", NULL));
	struct error err = { 0 };

	fill();
	store.fault = STALLS;
	p.operations = 0;
	p.duration_ns = 200000000;
	p.target = 1000;
	assert_int_equal(run(&p, &result, &err), 0);
	assert_int_equal(result.operations + result.not_started, 200);
	assert_true(result.not_started >= 150);
}

UNIT_TEST(the_floor_server_answers)
{
	struct peer_process floor;
	struct error err = { 0 };
	struct system s = { .name = "tcp",
			    .driver = &driver_stream,
			    .codec = &codec_frame,
			    .keeps_nothing = true };

	assert_int_equal(floor_start(&floor, &err), 0);
	s.port = floor.port;
	s.pid = floor.pid;
	for (unsigned depth = 1; depth <= 64; depth *= 64) {
		for (size_t len = 1; len <= 1 << 20; len *= 1024) {
			struct run_plan p = plan(workload_find("A", NULL));

			p.system = &s;
			p.threads = 3;
			p.depth = depth;
			p.record_len = len;
			p.operations = 200;
			assert_int_equal(run(&p, &result, &err), 0);
			assert_int_equal(result.operations, 200);
			assert_int_equal(result.wrong, 0);
			assert_true(result.server_cpu_ns > 0);
		}
	}
	peer_stop(&floor);
}

/* Its end is a sentence. */
UNIT_TEST(a_server_that_dies_is_told)
{
	struct run_plan p = plan(workload_find("A", NULL));
	struct peer_process floor;
	struct error err = { 0 };
	struct system s = { .name = "tcp", .driver = &driver_stream, .codec = &codec_frame };

	assert_int_equal(floor_start(&floor, &err), 0);
	s.port = floor.port;
	s.keeps_nothing = true;
	peer_stop(&floor);
	p.system = &s;
	assert_true(run(&p, &result, &err) < 0);
	assert_non_null(strstr(err.text, "connecting to tcp failed"));
}

/* A client closes what it was handed, also where that failed. */
UNIT_TEST(a_connection_that_fails_is_not_handed_out)
{
	static const struct system nowhere[] = {
		{ .name = "ours", .driver = &driver_gracekv },
		{ .name = "theirs", .driver = &driver_stream, .socket = "/none/there" },
	};

	for (unsigned i = 0; i < 2; i++) {
		const struct driver *d = nowhere[i].driver;
		struct error err = { 0 };
		void *connection = NULL;

		assert_true(d->open(&nowhere[i], 1, LEN, &connection, &err) < 0);
		assert_null(connection);
		assert_true(err.code < 0 && err.text[0]);
	}
}
