/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/wire_cm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/layout/limits.h"
#include "common/layout/wire_tcp.h"

#define MTU_FIRST 1u /* enum ibv_mtu: 256 bytes */
#define MTU_LAST  5u /* 4096 bytes */
#define ERRNO_MAX 4095

struct wire_cm_header wire_cm_header(enum wire_cm_kind kind)
{
	return (struct wire_cm_header){ .magic = WIRE_CM_MAGIC,
					.version = WIRE_VERSION,
					.kind = (uint16_t)kind };
}

/* Copies @want bytes to @out when they begin as @kind does. */
static int take(const void *bytes, size_t len, enum wire_cm_kind kind, void *out, size_t want,
		struct error *err)
{
	struct wire_cm_header h;

	if (!bytes || len < sizeof(h))
		return error_set(err, -EPROTO,
				 "the peer's CM message carries %zu bytes, at least %zu are due",
				 bytes ? len : 0, sizeof(h));
	memcpy(&h, bytes, sizeof(h));
	if (h.magic != WIRE_CM_MAGIC)
		return error_set(err, -EPROTO,
				 "the peer's CM message is not of GraceKV: it begins with 0x%08x, "
				 "expected 0x%08x (check host and port)",
				 h.magic, WIRE_CM_MAGIC);
	if (h.version != WIRE_VERSION)
		return error_set(err, -EPROTONOSUPPORT,
				 "the peer's CM message has exchange version %u, this side %u "
				 "(install the same GraceKV release on both)",
				 h.version, WIRE_VERSION);
	if (h.kind != kind)
		return error_set(err, -EPROTO,
				 "the peer's CM message is of kind %u where %u was due", h.kind,
				 kind);
	if (len < want)
		return error_set(err, -EPROTO,
				 "the peer's CM message of kind %u has %zu bytes, expected %zu",
				 h.kind, len, want);
	memcpy(out, bytes, want);
	return 0;
}

static int check(uint32_t handle, uint8_t mtu, struct error *err)
{
	if (handle >= SESSION_QPS_MAX)
		return error_set(err, -EPROTO, "queue pair %u of a session, at most %u exist",
				 handle, SESSION_QPS_MAX);
	if (mtu < MTU_FIRST || mtu > MTU_LAST)
		return error_set(err, -EPROTO, "the peer offered MTU code %u, %u to %u exist", mtu,
				 MTU_FIRST, MTU_LAST);
	return 0;
}

int wire_cm_request_decode(const void *bytes, size_t len, struct wire_cm_request *out,
			   struct error *err)
{
	int rc = take(bytes, len, WIRE_CM_REQUEST, out, sizeof(*out), err);

	if (rc)
		return rc;
	if (out->token == 0)
		return error_set(err, -EPROTO, "the peer's CM request names no session");
	return check(out->handle, out->mtu, err);
}

int wire_cm_reply_decode(const void *bytes, size_t len, struct wire_cm_reply *out,
			 struct error *err)
{
	int rc = take(bytes, len, WIRE_CM_REPLY, out, sizeof(*out), err);

	if (rc)
		return rc;
	if ((out->credits < 1 && out->handle != HOUSEKEEPER_QP) || out->credits > RPC_SLOTS_MAX)
		return error_set(err, -EPROTO, "the peer granted %u credits, 1 to %u are possible",
				 out->credits, RPC_SLOTS_MAX);
	return check(out->handle, out->mtu, err);
}

int wire_cm_reject_decode(const void *bytes, size_t len, struct wire_cm_reject *out,
			  struct error *err)
{
	int rc = take(bytes, len, WIRE_CM_REJECT, out, sizeof(*out), err);

	if (rc)
		return rc;
	if (out->code >= 0 || out->code < -ERRNO_MAX)
		return error_set(err, -EPROTO, "the peer rejected with code %d, -1 to -%d exist",
				 out->code, ERRNO_MAX);
	if (wire_text(out->text, sizeof(out->text)))
		return error_set(err, -EPROTO, "the peer rejected with a text that does not end");
	return 0;
}

void wire_cm_reject_make(int code, const char *text, struct wire_cm_reject *out)
{
	static const char more[] = "...";

	memset(out, 0, sizeof(*out));
	out->header = wire_cm_header(WIRE_CM_REJECT);
	out->code = code;
	if (snprintf(out->text, sizeof(out->text), "%s", text) >= (int)sizeof(out->text))
		memcpy(out->text + sizeof(out->text) - sizeof(more), more, sizeof(more));
}
