/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/memory_default.h"

#include <sys/sysinfo.h>

#define MEMORY_DEFAULT_MAX (4ull << 30)

uint64_t memory_default(uint64_t grain_bytes)
{
	struct sysinfo info;
	uint64_t quarter;

	if (sysinfo(&info))
		return MEMORY_DEFAULT_MAX;
	quarter = (uint64_t)info.totalram * info.mem_unit / 4;
	quarter -= quarter % grain_bytes;
	return quarter < MEMORY_DEFAULT_MAX ? quarter : MEMORY_DEFAULT_MAX;
}
