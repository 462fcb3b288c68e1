/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cluster/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "common/rdma/tcp.h"

/* One question under way. */
struct question {
	int fd;
	struct exchange_reader reader;
	uint64_t deadline_ns;
};

static int put(struct question *q, const char *server, enum wire_group_what what, const char *group,
	       const char *node, uint64_t timeout_ms, struct error *err)
{
	struct wire_frame f = { .type = WIRE_GROUP_ASK, .group_ask = { .what = what } };
	char host[256] = "127.0.0.1", port[8] = "7471";
	int rc = parse_host_port("the server", server, host, port, err);

	snprintf(f.group_ask.group, sizeof(f.group_ask.group), "%s", group);
	snprintf(f.group_ask.node, sizeof(f.group_ask.node), "%s", node);
	*q = (struct question){ .fd = -1, .deadline_ns = time_now_ns() + timeout_ms * NS_PER_MS };
	if (rc == 0)
		rc = tcp_connect(host, port, q->deadline_ns, &q->fd, err);
	if (rc == 0)
		rc = exchange_send(q->fd, &f, q->deadline_ns, err);
	return rc;
}

static int hear(struct question *q, enum wire_type want, struct wire_frame *out, struct error *err)
{
	return exchange_recv(q->fd, &q->reader, want, out, q->deadline_ns, err);
}

static void end(struct question *q)
{
	if (q->fd >= 0)
		close(q->fd);
}

static int hear_status(struct question *q, struct view *out)
{
	struct wire_frame f;
	int rc = hear(q, WIRE_GROUP_STATUS, &f, &out->err);

	if (rc)
		return rc;
	out->status = f.group_status;
	if (f.group_status.members > WIRE_GROUP_MEMBERS_MAX)
		return error_set(&out->err, -EPROTO,
				 "it says that its group has %u members, more than there may be",
				 f.group_status.members);
	if (f.group_status.role >= WIRE_GROUP_ROLES)
		return error_set(&out->err, -EPROTO, "it has role %u, which is none",
				 f.group_status.role);
	for (uint32_t i = 0; i < f.group_status.members && rc == 0; i++) {
		struct wire_frame member;

		rc = hear(q, WIRE_GROUP_MEMBER, &member, &out->err);
		out->member[i] = member.group_member;
	}
	return rc;
}

void ask_status(struct view *out, const char *group, uint64_t timeout_ms)
{
	struct question q;
	int rc;

	out->err = (struct error){ 0 };
	rc = put(&q, out->server, WIRE_GROUP_ASK_STATUS, group, "", timeout_ms, &out->err);
	if (rc == 0)
		rc = hear_status(&q, out);
	out->err.code = rc;
	end(&q);
}

int ask_change(const char *server, enum wire_group_what what, const char *group, const char *node,
	       uint64_t timeout_ms, struct wire_group_done *out, struct error *err)
{
	struct wire_frame f;
	struct question q;
	int rc = put(&q, server, what, group, node, timeout_ms, err);

	if (rc == 0)
		rc = hear(&q, WIRE_GROUP_DONE, &f, err);
	if (rc == 0)
		*out = f.group_done;
	end(&q);
	return rc;
}
