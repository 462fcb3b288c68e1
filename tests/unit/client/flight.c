/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "flight.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "with_server.h"

struct slot slot[DEPTH];
unsigned key_of[KEYS];

static int start(unsigned housekeeper, unsigned timeout_ms)
{
	const struct gkv_handle_options ho = { .depth = DEPTH };
	struct gkv_options o;

	memset(slot, 0, sizeof(slot)); /* of a test that failed */
	port = 0;
	server = server_start(&port, "128M");
	gkv_options_init(&o);
	o.timeout_ms = timeout_ms;
	o.housekeeper = housekeeper;
	if (server_session(port, &o, &session))
		return -1;
	return gkv_open(session, &ho, &kv, NULL, 0);
}

int set_up(void **state)
{
	return start(GKV_HOUSEKEEPER_THREAD, WAIT_MS);
}

int set_up_tick(void **state)
{
	return start(GKV_HOUSEKEEPER_TICK, WAIT_MS);
}

size_t fill(unsigned i, unsigned life, uint8_t *value)
{
	size_t len = i % 50 == 7 ? LARGE + i : i % 9 == 3 ? 9000 + i : i % 200;

	for (size_t j = 0; j < len; j++)
		value[j] = (uint8_t)(i * 31 + j * 7 + life);
	return len;
}

struct gkv_request request(unsigned op, unsigned key, unsigned at)
{
	slot[at].key = key_of[key] = key;
	slot[at].busy = true;
	return (struct gkv_request){
		.op = op,
		.key = &key_of[key],
		.key_len = sizeof(unsigned),
		.value = slot[at].value,
		.len = sizeof(slot[at].value),
		.user = &slot[at],
	};
}

size_t slot_of(const struct gkv_completion *c)
{
	return (size_t)((struct slot *)c->user - slot);
}

struct gkv_completion wait_one(void)
{
	struct gkv_completion c;

	assert_int_equal(gkv_wait(kv, &c, 1, WAIT_MS), 1);
	assert_true(slot_of(&c) < DEPTH);
	slot[slot_of(&c)].busy = false;
	return c;
}

unsigned free_slot(void)
{
	for (unsigned i = 0; i < DEPTH; i++) {
		if (!slot[i].busy)
			return i;
	}
	return DEPTH;
}

void expect_life(const struct gkv_completion *c, unsigned life)
{
	static uint8_t want[LARGE + KEYS];
	const struct slot *s = &slot[slot_of(c)];
	size_t len = fill(s->key, life, want);

	assert_int_equal(c->status, 0);
	assert_int_equal(c->len, len);
	assert_int_equal(c->meta.value_len, len);
	assert_memory_equal(s->value, want, len);
}

void all_keys(unsigned op, unsigned life)
{
	unsigned next = 0, done = 0;

	while (done < KEYS) {
		unsigned at = free_slot();

		if (next < KEYS && at < DEPTH) {
			struct gkv_request q = request(op, next++, at);

			if (op == GKV_OP_PUT)
				q.len = fill(next - 1, life, q.value);
			assert_int_equal(gkv_submit(kv, &q, 1), 1);
			continue;
		}
		struct gkv_completion c = wait_one();

		if (op == GKV_OP_GET)
			expect_life(&c, life);
		else
			assert_int_equal(c.status, 0);
		done++;
	}
	assert_int_equal(gkv_pending(kv), 0);
}
