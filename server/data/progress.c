/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/data/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/time.h"

#define TELL_NS	    (5 * NS_PER_S) /* between two lines of the log */
#define SHOW_NS	    (NS_PER_S / 5) /* between two looks of the terminal */
#define LOOK	    256u /* records between two looks at the clock */
#define LOOK_BYTES  (64u << 10)
#define BYTES_OF_GB 1e9

static void words(const struct progress *p, char *out, size_t cap)
{
	snprintf(out, cap, "recovering: %.1f of %.1f GB, %" PRIu64 " records",
		 (double)p->bytes / BYTES_OF_GB, (double)p->total / BYTES_OF_GB, p->records);
}

void progress_begin(struct progress *p, uint64_t total)
{
	*p = (struct progress){ .total = total, .terminal = isatty(STDERR_FILENO) };
	p->begun_ns = p->told_ns = p->shown_ns = time_now_ns();
}

static void look(struct progress *p)
{
	uint64_t now = time_now_ns();
	char text[128];

	if (p->terminal && now - p->shown_ns >= SHOW_NS) {
		words(p, text, sizeof(text));
		p->shown = dprintf(STDERR_FILENO, "\r%s\033[K", text) > 0;
		p->shown_ns = now;
	}
	if (!p->terminal && now - p->told_ns >= TELL_NS) {
		words(p, text, sizeof(text));
		log_info("data", "%s", text);
		p->told_ns = now;
	}
}

void progress_add(struct progress *p, uint64_t bytes)
{
	p->bytes += bytes;
	p->records++;
	if (++p->looks < LOOK && bytes < LOOK_BYTES)
		return;
	p->looks = 0;
	look(p);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		dprintf(STDERR_FILENO, "\r\033[K");
	p->shown = false;
}
