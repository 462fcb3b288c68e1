/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Memory that no device registers. */
#include "server/memory/memory.h"

static inline int take_region(void *ctx, int fd, void *addr, size_t len, struct memory_region *out,
			      struct error *err)
{
	*out = (struct memory_region){ addr, 1, 2 };
	return 0;
}

static inline int drop_region(void *ctx, struct memory_region *region)
{
	return 0;
}
