/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the tests of the public API's contract share. They know gracekv.h, and nothing behind it. */
#include <sys/types.h>

#include "client/include/gracekv.h"

/* What a call may take on top of its timeout_ms on a machine that has much else to do. */
#define API_SLACK_MS 10000u
/* What calls of api_open_brief()'s sessions may take. */
#define API_BRIEF_MS 400u

extern struct gkv_session *api_session;
extern struct gkv *api_kv;
extern unsigned api_port;
extern pid_t api_server;

/* api_set_up, api_tear_down - a kv-server, a session and a handle of their own; for cmocka. */
int api_set_up(void **state);
int api_tear_down(void **state);

/* api_options - those of the tests' sessions: the server above, on soft0. */
void api_options(struct gkv_options *o);

/* api_open_brief - a session whose calls end after API_BRIEF_MS, and a handle on it that has
 * written and read. On a machine with much else to do one attempt can be late: others follow. */
void api_open_brief(struct gkv_session **s, struct gkv **kv);

/* api_works - a write and a read of @kv go well. */
void api_works(struct gkv *kv);

/* A call on a handle, with arguments that are right. */
struct api_call {
	const char *name;
	int (*run)(struct gkv *kv);
	int writes; /* its outcome may be unknown */
};

/* All calls on a handle that can fail; one without a name ends them. */
extern const struct api_call api_calls[];

/* api_stain - leave another sentence in gkv_error(), so that an old one is not taken for new. */
void api_stain(struct gkv *kv);

/* api_refused - @call returned @rc: it is @want, its sentence has @word, and the handle works. */
void api_refused(int rc, const char *call, int want, const char *word);

#define REFUSED(call, want, word)                     \
	do {                                          \
		api_stain(api_kv);                    \
		api_refused(call, #call, want, word); \
	} while (0)

/* api_gone - whether @rc is documented for a server that cannot be reached. */
int api_gone(int rc, const struct api_call *call);
