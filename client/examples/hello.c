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
	struct gkv *kv; /* a connection for one thread; others open handles of their own */
	char why[256];
	int status;

	/* NULL: $GRACEKV_SERVER, else 127.0.0.1:7471; and the defaults */
	if (gkv_connect(NULL, NULL, &kv, why, sizeof(why))) {
		fprintf(stderr, "hello: %s\n", why);
		return 3;
	}
	status = hello(kv);
	gkv_disconnect(kv);
	return status;
}
