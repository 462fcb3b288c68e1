/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Free indices of a table, first freed, first given out again, and that late. Any thread. */
#include <stdint.h>

#include "common/softrdma/shared/lock.h"

struct ids {
	struct lock lock; /* protects the rest */
	uint32_t fresh, end; /* never used: [fresh, end) */
	uint32_t hold; /* use fresh ones first while fewer than this are freed */
	uint32_t *freed; /* a ring of `slots` */
	uint32_t slots, head, count;
};

/* soft_ids_init - indices in [first, end). Returns 0 or -ENOMEM. */
int soft_ids_init(struct ids *ids, uint32_t first, uint32_t end, uint32_t hold);
void soft_ids_destroy(struct ids *ids);

/* soft_ids_take - returns an index, or SHARED_NONE. */
uint32_t soft_ids_take(struct ids *ids);
void soft_ids_give(struct ids *ids, uint32_t index);
