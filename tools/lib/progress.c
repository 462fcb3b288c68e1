/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void progress_show(const char *what, uint64_t done, uint64_t all)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%-60.60s %3" PRIu64 " %%", what,
			(uint64_t)(all ? 100 * done / all : 100));
}

void progress_clear(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%66s\r", "");
}
