/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/softrdma/shared/ids.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/softrdma/shared/shared.h"

int soft_ids_init(struct ids *ids, uint32_t first, uint32_t end, uint32_t hold)
{
	memset(ids, 0, sizeof(*ids));
	ids->fresh = first;
	ids->end = end;
	ids->hold = hold;
	ids->slots = end - first;
	ids->freed = malloc(ids->slots * sizeof(*ids->freed));
	return ids->freed ? 0 : -ENOMEM;
}

void soft_ids_destroy(struct ids *ids)
{
	free(ids->freed);
	ids->freed = NULL;
}

uint32_t soft_ids_take(struct ids *ids)
{
	uint32_t index = SHARED_NONE;

	lock_take(&ids->lock);
	if (ids->fresh < ids->end && ids->count < ids->hold) {
		index = ids->fresh++;
	} else if (ids->count > 0) {
		index = ids->freed[ids->head];
		ids->head = (ids->head + 1) % ids->slots;
		ids->count--;
	}
	lock_drop(&ids->lock);
	return index;
}

void soft_ids_give(struct ids *ids, uint32_t index)
{
	lock_take(&ids->lock);
	assert(ids->count < ids->slots);
	ids->freed[(ids->head + ids->count++) % ids->slots] = index;
	lock_drop(&ids->lock);
}
