/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "server/session/reach.h"

#include <string.h>

/* Its place among those that are known, or -1. */
static int find(const struct reach *r, const uint8_t gid[16])
{
	static const uint8_t none[16];

	for (unsigned i = 0; i < REACH_KNOWN && memcmp(gid, none, sizeof(none)) != 0; i++) {
		if (memcmp(r->known[i], gid, sizeof(r->known[i])) == 0)
			return (int)i;
	}
	return -1;
}

uint64_t reach_wait_ns(const struct reach *r, const uint8_t gid[16], bool vouched, uint64_t now_ns)
{
	if (vouched || now_ns >= r->closed_until_ns || find(r, gid) >= 0)
		return 0;
	return r->closed_until_ns - now_ns;
}

void reach_tried(struct reach *r, const uint8_t gid[16], bool led, uint64_t from_ns,
		 uint64_t now_ns)
{
	uint64_t took_ns = now_ns - from_ns;
	int place = find(r, gid);

	if (led) {
		if (place >= 0)
			return;
		memcpy(r->known[r->next], gid, sizeof(r->known[0]));
		r->next = (r->next + 1) % REACH_KNOWN;
		return;
	}
	if (took_ns < REACH_SLOW_NS)
		return;
	if (place >= 0)
		memset(r->known[place], 0, sizeof(r->known[place]));
	r->closed_until_ns = now_ns + REACH_REST * took_ns;
}
