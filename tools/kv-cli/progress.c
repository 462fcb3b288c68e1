/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/kv-cli/text.h"

#define PROGRESS_NS    (100 * NS_PER_MS)
#define PROGRESS_WIDTH 24 /* of the bar, in cells */

void progress_start(struct progress *p, const char *verb, uint64_t total)
{
	*p = (struct progress){ .verb = verb, .total = total, .on = isatty(STDERR_FILENO) == 1 };
	p->start_ns = time_now_ns();
	p->next_ns = p->start_ns + PROGRESS_NS;
}

double progress_seconds(const struct progress *p)
{
	uint64_t ns = time_now_ns() - p->start_ns;

	return (double)(ns ? ns : 1) / (double)NS_PER_S;
}

void progress_show(struct progress *p, uint64_t position, uint64_t records, uint64_t bytes)
{
	char bar[PROGRESS_WIDTH + 1], size[TEXT_SIZE_MAX];
	double seconds;

	/* a clock for each record would be the larger part of a short get's cost */
	if (!p->on || (records & 63) || time_now_ns() < p->next_ns)
		return;
	p->next_ns = time_now_ns() + PROGRESS_NS;
	p->shown = true;
	seconds = progress_seconds(p);
	fprintf(stderr, "\r\033[K%s ", p->verb);
	if (p->total) {
		double part = (double)position / (double)p->total;
		int full = (int)(part * PROGRESS_WIDTH);

		for (int i = 0; i < PROGRESS_WIDTH; i++)
			bar[i] = i < full ? '#' : '.';
		bar[PROGRESS_WIDTH] = '\0';
		fprintf(stderr, "[%s] %3.0f%%  ", bar, 100 * part);
	}
	fprintf(stderr, "%" PRIu64 " records, %s, %.0f/s", records, text_size(size, bytes),
		(double)records / seconds);
	fflush(stderr);
}

void progress_clear(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
