/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The state of the server under stress, seen from its own process. */
#include <stdint.h>

#include "server/store/store.h"
#include "tests/stress/model.h"

/*
 * state_use_up - bring free memory close to the end of its incarnations: blocks have @left of them,
 * segments, which are used again less often, one. Not all memory, or the store would be full.
 */
void state_use_up(struct store *store, uint64_t left);

/*
 * state_released - when everybody has gone, what was retired comes back, and no segments are in use
 * but the index's; it is wrong where they do not within 20 s. Returns whether all was right.
 */
bool state_released(struct model *m, struct store *store);
