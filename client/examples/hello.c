/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Connect, write a record, read it back one-sided. */
#include <gracekv.h>
#include <stdio.h>

/* Words for the code, and the sentence of what happened. */
static int failed(const struct gkv *kv, const char *what, int rc)
{
	fprintf(stderr, "hello: %s: %s: %s\n", what, gkv_strerror(rc), gkv_error(kv));
	return 3;
}

static int hello(struct gkv *kv)
{
	char value[64];
	size_t len;
	int rc;

	rc = gkv_put(kv, "greeting", 8, "hello, fabric", 13, NULL);
	if (rc) /* 0: from now on every look-up finds it */
		return failed(kv, "put", rc);
	rc = gkv_get(kv, "greeting", 8, value, sizeof(value), &len);
	if (rc) /* two READs, or one; the server's CPU does nothing */
		return failed(kv, "get", rc);
	printf("%.*s\n", (int)len, value);
	return 0;
}

int main(void)
{
	struct gkv_session *session; /* one for the process */
	struct gkv *kv; /* a handle: one for each thread */
	char why[256];
	int status;

	/* NULL: $GRACEKV_SERVER, else 127.0.0.1:7471 */
	if (gkv_session_open(&session, NULL, why, sizeof(why))) {
		fprintf(stderr, "hello: %s\n", why);
		return 3;
	}
	if (gkv_open(session, &kv)) {
		fprintf(stderr, "hello: %s\n", gkv_session_error(session));
		gkv_session_close(session);
		return 3;
	}
	status = hello(kv);
	gkv_close(kv);
	gkv_session_close(session);
	return status;
}
