/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Operations in flight, on a server of the test's own: keys, what they have, their places. */
#include <stdbool.h>
#include <stdint.h>

#include "one_client.h"

#define KEYS	500u
#define DEPTH	32u
#define LARGE	(100u << 10)
#define WAIT_MS 20000u /* for what takes milliseconds on an idle machine */

struct slot {
	unsigned key;
	bool busy;
	uint8_t value[LARGE + KEYS];
};

extern struct slot slot[DEPTH]; /* of the operations in flight: user is the place */
extern unsigned key_of[KEYS];

/* set_up - kv is a handle of depth DEPTH, with the library's thread; set_up_tick - without. */
int set_up(void **state);
int set_up_tick(void **state);

/* fill - what key @i has in the life @life: its length and bytes are the key's own. */
size_t fill(unsigned i, unsigned life, uint8_t *value);

/* request - one, whose value lies in the place @at. */
struct gkv_request request(unsigned op, unsigned key, unsigned at);

/* slot_of - its place. */
size_t slot_of(const struct gkv_completion *c);

/* wait_one - its completion; the place is free then. */
struct gkv_completion wait_one(void);

/* free_slot - a place; DEPTH: there is none. */
unsigned free_slot(void);

void expect_life(const struct gkv_completion *c, unsigned life);

/* all_keys - every key once, with as many in flight as there is room for. */
void all_keys(unsigned op, unsigned life);
