/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Processes that do nothing which is recorded, when they are asked to. One fills the part of the
 * index in which the recorded keys lie, and empties it again: segments split and merge under their
 * readers and writers many times a second. The other fills the memory, until writes are refused,
 * with values of all sizes, and empties that: slabs are recut, and what is replaced is short of
 * room.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/handle.h" /* the server's hash */
#include "common/base/hash.h"
#include "tests/linearizability/client/member.h"
#include "tests/linearizability/client/near.h"

#define GROW_KEYS    12000u /* some eight segments of them */
#define BURST	     64u
#define BALLAST_NAME 24u
#define PRESS_MAX    100000u
#define IDLE_US	     2000u

struct ballast {
	const struct member_options *o;
	struct board *board;
	struct gkv_session *session;
	struct gkv *kv;
	uint64_t random;
	char (*name)[BALLAST_NAME];
	uint32_t names;
	uint32_t there; /* of them, the first ones, were written and not deleted */
	struct gkv_item item[BURST];
};

static uint64_t below(struct ballast *b, uint64_t n)
{
	return model_random(&b->random) % n;
}

static void leave(struct ballast *b)
{
	gkv_close(b->kv);
	b->kv = NULL;
	gkv_session_close(b->session);
	b->session = NULL;
}

static bool meet(struct ballast *b)
{
	struct gkv_options options;

	gkv_options_init(&options);
	options.timeout_ms = 5000;
	if (!b->session)
		b->session = member_session(b->o, b->board, &options);
	if (!b->session)
		return false;
	if (b->kv || gkv_open(b->session, NULL, &b->kv, NULL, 0) == 0)
		return true;
	leave(b);
	return false;
}

/* The names of keys that lie near those that are recorded, by the hash of the server of now. */
static bool choose_near(struct ballast *b)
{
	struct world *world;
	uint64_t seed;

	gkv_exists(b->kv, "none", 4, NULL); /* its root page is read by now */
	world = b->kv->reader.world;
	if (!world || !world_has_root(world))
		return false;
	seed = world->hash_seed;
	b->names = 0;
	for (uint32_t i = 0; b->names < GROW_KEYS; i++) {
		char *name = b->name[b->names];
		int len = snprintf(name, BALLAST_NAME, "grow.%u", i);

		b->names += near_is(hash_key(seed, name, (size_t)len));
	}
	return true;
}

/* Records @from to @to are written, or deleted. Returns 0, or the first refusal. */
static int sweep(struct ballast *b, uint32_t from, uint32_t to, bool write, const void *value,
		 size_t len)
{
	while (from < to) {
		uint32_t n = to - from < BURST ? to - from : BURST;
		int rc;

		for (uint32_t i = 0; i < n; i++) {
			const char *name = b->name[from + i];

			b->item[i] = (struct gkv_item){ .key = name,
							.key_len = strlen(name),
							.value = (void *)(uintptr_t)value,
							.len = len };
		}
		rc = write ? gkv_mput(b->kv, b->item, n) : gkv_mdel(b->kv, b->item, n);
		for (uint32_t i = 0; i < n && rc == 0; i++)
			if (b->item[i].status && b->item[i].status != -ENOENT)
				rc = b->item[i].status;
		if (rc)
			return rc;
		from += n;
	}
	return 0;
}

/* Between few and all, again and again. */
static void grow_once(struct ballast *b)
{
	uint32_t full = b->names / 4 + (uint32_t)below(b, b->names * 3 / 4);
	int rc = sweep(b, 0, full, true, "grown", 5);

	if (rc == 0)
		rc = sweep(b, 0, full, false, NULL, 0);
	if (rc && rc != -ENOMEM)
		leave(b);
	if (rc == 0)
		board_count(&b->board->grown, 1);
}

static bool begin(struct ballast *b, const struct member_options *o, struct board *board,
		  uint32_t names)
{
	*b = (struct ballast){ .o = o, .board = board, .random = model_mix(o->seed) };
	b->name = calloc(names, sizeof(*b->name));
	if (!b->name)
		fprintf(stderr, "lin-client: out of memory\n");
	return b->name != NULL;
}

int ballast_grow(const struct member_options *o, struct board *board)
{
	struct ballast b;

	if (!begin(&b, o, board, GROW_KEYS))
		return 3;
	while (!board_asks(&board->stop)) {
		uint64_t session = b.kv ? b.kv->link.session_number : 0;

		if (!board_asks(&board->grow)) {
			usleep(IDLE_US);
			continue;
		}
		if (!meet(&b))
			continue;
		if (b.names == 0 || session != b.kv->link.session_number)
			b.names = choose_near(&b) ? b.names : 0;
		if (b.names)
			grow_once(&b);
	}
	leave(&b);
	free(b.name);
	return 0;
}

/* Sizes from one block of the smallest class to a run of slabs. */
static size_t press_len(struct ballast *b)
{
	static const size_t most[] = { 100, 1000, 16 << 10, 200 << 10, 900 << 10 };

	return 1 + below(b, most[below(b, 5)]);
}

static void press_once(struct ballast *b, void *value)
{
	uint32_t n = 0;
	int rc = 0;

	while (rc == 0 && board_asks(&b->board->press) && n < PRESS_MAX) {
		uint32_t to = n + BURST / 8;
		size_t len = press_len(b);

		memset(value, (int)below(b, 256), len);
		for (uint32_t i = n; i < to; i++)
			snprintf(b->name[i], BALLAST_NAME, "press.%u", i);
		rc = sweep(b, n, to, true, value, len);
		n = to;
	}
	board_count(&b->board->pressed, rc == -ENOMEM);
	while (rc == -ENOMEM && board_asks(&b->board->press) && below(b, 8))
		usleep(IDLE_US);
	sweep(b, 0, n, false, NULL, 0);
	if (rc && rc != -ENOMEM)
		leave(b);
}

int ballast_press(const struct member_options *o, struct board *board)
{
	struct ballast b;
	void *value = calloc(1, 1 << 20);

	if (!value || !begin(&b, o, board, PRESS_MAX + BURST))
		return 3;
	while (!board_asks(&board->stop)) {
		if (!board_asks(&board->press))
			usleep(IDLE_US);
		else if (meet(&b))
			press_once(&b, value);
	}
	leave(&b);
	free(b.name);
	free(value);
	return 0;
}
