/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/link/trace.h"

#include <stdarg.h>
#include <stdio.h>

void trace_begin(struct gkv_session *s, const char *step)
{
	/* relaxed: under the lock; for others it is a word in a sentence */
	atomic_store_explicit(&s->step, step, memory_order_relaxed);
	if (s->settings.trace && !s->hushed)
		s->settings.trace(s->settings.trace_arg, step, NULL);
}

void trace_end(struct gkv_session *s)
{
	atomic_store_explicit(&s->step, NULL, memory_order_relaxed); /* as above */
}

const char *trace_step(const struct gkv_session *s)
{
	return atomic_load_explicit(&s->step, memory_order_relaxed);
}

void trace_done(struct gkv_session *s, const char *fmt, ...)
{
	char words[ERROR_TEXT_MAX];
	va_list ap;

	if (!s->settings.trace || s->hushed)
		return;
	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	s->settings.trace(s->settings.trace_arg, trace_step(s), words);
}

int trace_failed(const struct gkv_session *s, struct error *err)
{
	return error_prefix(err, "connecting to the server at %s:%s, step %s",
			    session_server(s)->host, session_server(s)->port, trace_step(s));
}
