/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The state of the server under stress, seen from its own process. */
#include <stdint.h>

#include "server/store/store.h"
#include "tests/stress/model.h"

struct used_up {
	unsigned slabs, segments; /* that were brought close to their end so far */
};

/*
 * state_use_up - bring free memory close to the end of its incarnations: blocks have @left of them,
 * segments, which are used again less often, one. Over all calls for @store no more than an eighth
 * of its memory and so many segments as would fill a 64th, whatever dies of them and when: the rest
 * has to hold all the keys.
 */
void state_use_up(struct store *store, struct used_up *u, uint64_t left);

/*
 * state_released - when everybody has gone, what was retired comes back, and no segments are in use
 * but the index's; it is wrong where they do not within 20 s. Returns whether all was right.
 */
bool state_released(struct model *m, struct store *store);
