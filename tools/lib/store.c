/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/store.h"

int bench_store_open(const struct program *p, struct gkv_options *options,
		     struct gkv_session **session, struct gkv **kv)
{
	char why[640];

	*kv = NULL;
	options->name = p->name;
	if (gkv_session_open(options, session, why, sizeof(why)) ||
	    gkv_open(*session, NULL, kv, why, sizeof(why)))
		return program_failed(p, "connecting", why);
	return 0;
}

void bench_store_close(struct gkv_session *session, struct gkv *kv)
{
	gkv_close(kv);
	gkv_session_close(session);
}
