/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Sections on a handle: as the library's own calls have them (client/src/call/get.c). */
#include "tools/kv-inspect/live.h"

#include <time.h>

#include "client/src/call/open.h"
#include "client/src/link/handle.h"
#include "tools/lib/stop.h"

static int begin(void *ctx)
{
	struct gkv *h = ctx;
	int rc = handle_begin(h);

	if (rc)
		return rc;
	rc = handle_ready(h);
	if (rc)
		return handle_end(h, rc);
	section_open(h, SECTION_CALL); /* the pin, and a full fence: READs come after it */
	return 0;
}

static void end(void *ctx)
{
	struct gkv *h = ctx;

	section_close(h, SECTION_CALL);
	handle_end(h, 0);
}

static void pause_between(void *ctx, unsigned ms)
{
	const struct timespec t = { ms / 1000, (long)(ms % 1000) * (long)NS_PER_MS };

	(void)ctx;
	nanosleep(&t, NULL);
}

static bool stopped(void *ctx)
{
	(void)ctx;
	return stop_wanted() != 0;
}

static const struct inspect_ops live_ops = {
	.begin = begin,
	.end = end,
	.pause = pause_between,
	.stopped = stopped,
};

int live_open(struct live *l, const struct program *p, struct gkv_options *options)
{
	char why[ERROR_TEXT_MAX];
	struct error err;

	*l = (struct live){ 0 };
	options->name = p->name;
	options->hint_bytes = 0;
	if (gkv_session_open(options, &l->session, why, sizeof(why)))
		return program_failed(p, "connecting", why);
	if (handle_open_unread(l->session, &l->h, &err))
		return program_failed(p, "connecting", err.text);
	l->in = (struct inspect){ .r = &l->h->reader, .ops = &live_ops, .ctx = l->h };
	return 0;
}

void live_close(struct live *l)
{
	gkv_close(l->h);
	gkv_session_close(l->session);
}
