/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* How far recovery is: a line that changes on a terminal, and a line of the log now and then. */
#include <stdbool.h>
#include <stdint.h>

struct progress {
	uint64_t begun_ns, told_ns, shown_ns;
	uint64_t bytes, total, records;
	unsigned looks; /* calls since the clock was read */
	bool terminal, shown;
};

/* progress_begin - of @total bytes. progress_add - a record more, of @bytes. progress_end - the
 * line on the terminal goes. One thread. */
void progress_begin(struct progress *p, uint64_t total);
void progress_add(struct progress *p, uint64_t bytes);
void progress_end(struct progress *p);
