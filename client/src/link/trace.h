/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Steps of connecting, told to the application (gkv_trace) and named in errors. Under the
 * session's lock, where nothing else is said, and never on the data path.
 */
#include "client/src/link/session.h"

/* trace_begin - @step: static, one of those that gkv_trace lists. */
void trace_begin(struct gkv_session *s, const char *step);

/* trace_end - nobody connects any more. */
void trace_end(struct gkv_session *s);

/* trace_step - the step that connecting has reached, or NULL. Any thread, no lock. */
const char *trace_step(const struct gkv_session *s);

/* trace_done - the step that was begun last went well; nothing is put into words for nobody. */
void trace_done(struct gkv_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* trace_failed - put the step that was begun last before the sentence. Returns err->code. */
int trace_failed(const struct gkv_session *s, struct error *err);
