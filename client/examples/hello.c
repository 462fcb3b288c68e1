/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Connect, write a record, read it back one-sided. */
#include <gracekv.h>
#include <stdio.h>

int main(void)
{
	struct gkv_session *session;
	struct gkv *kv;
	char why[256], value[64];
	size_t len;
	int rc;

	rc = gkv_session_open(&session, NULL, why, sizeof(why)); /* 127.0.0.1:7471 */
	if (rc) {
		fprintf(stderr, "hello: %s\n", why);
		return 3;
	}
	rc = gkv_open(session, &kv);
	if (rc) {
		fprintf(stderr, "hello: %s\n", gkv_session_error(session));
		gkv_session_close(session);
		return 3;
	}
	rc = gkv_put(kv, "greeting", 8, "hello, fabric", 13, NULL);
	if (rc == 0) /* two READs; the server's CPU does nothing */
		rc = gkv_get(kv, "greeting", 8, value, sizeof(value), &len);
	if (rc == 0)
		printf("%.*s\n", (int)len, value);
	else
		fprintf(stderr, "hello: %s\n", gkv_error(kv));
	gkv_close(kv);
	gkv_session_close(session);
	return rc ? 3 : 0;
}
