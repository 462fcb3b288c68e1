/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "client/src/base/addresses.h"

#include "common/base/time.h"
#include "common/rdma/tcp.h"

int addresses_find(struct addresses *a, const char *host, const char *port, struct error *err)
{
	struct addrinfo *fresh;
	int rc;

	if (a->list && (!a->failed || time_now_ns() - a->asked_ns < ADDRESSES_AGAIN_MS * NS_PER_MS))
		return 0;
	rc = tcp_resolve(host, port, &fresh, err);
	a->asked_ns = time_now_ns(); /* read again, even if in vain: it may have taken long */
	if (rc)
		return a->list ? 0 : rc;
	addresses_drop(a);
	a->list = fresh;
	return 0;
}

void addresses_drop(struct addresses *a)
{
	if (a->list)
		freeaddrinfo(a->list);
	a->list = NULL;
}
