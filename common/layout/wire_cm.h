/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What travels as private data of the RDMA CM's own messages, where a queue pair is connected by it
 * (common/rdma/cm.h): addresses, PSN, path MTU and READ depths are the CM's, the rest is here.
 *
 *	client                                server
 *	REQ  struct wire_cm_request     ->
 *	                                <-    REP  struct wire_cm_reply, or
 *	                                <-    REJ  struct wire_cm_reject
 *	RTU  (nothing of ours)          ->
 *
 * The CM pads private data with zeros to a length of its own, so a decoder takes what is longer and
 * looks at its own bytes only. All three begin alike:
 *     0  magic    4 B  "GKVC"
 *     4  version  2 B  WIRE_VERSION
 *     6  kind     2 B  enum wire_cm_kind
 */
#include <assert.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/fields.h"

#define WIRE_CM_MAGIC 0x43564b47u

/* What each message has room for (IBTA 12.6; the REQ's after 36 bytes of the address). */
#define WIRE_CM_REQUEST_MAX 56u
#define WIRE_CM_REPLY_MAX   196u
#define WIRE_CM_REJECT_MAX  148u

enum wire_cm_kind { WIRE_CM_REQUEST = 1, WIRE_CM_REPLY = 2, WIRE_CM_REJECT = 3 };

struct wire_cm_header {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;
};

LAYOUT(struct wire_cm_header, 8, magic, 0, version, 4, kind, 6);

/*
 * REQ, 32 B
 *     0  header 8   8 token 8 (cm_token of the session's WELCOME)   16 handle 4 (number of the
 *    20  credits 4 (asked for)   24 mtu 1 (enum ibv_mtu)   25 reserved 7     client's handle)
 */
struct wire_cm_request {
	struct wire_cm_header header;
	uint64_t token;
	uint32_t handle;
	uint32_t credits;
	uint8_t mtu;
	uint8_t reserved[7];
};

LAYOUT(struct wire_cm_request, 32, header, 0, token, 8, handle, 16, credits, 20, mtu, 24, reserved,
       25);
static_assert(sizeof(struct wire_cm_request) <= WIRE_CM_REQUEST_MAX, "wire_cm_request");

/*
 * REP, 24 B
 *     0  header 8   8 handle 4   12 credits 4 (granted)   16 mtu 1 (settled on)   17 reserved 7
 */
struct wire_cm_reply {
	struct wire_cm_header header;
	uint32_t handle;
	uint32_t credits;
	uint8_t mtu;
	uint8_t reserved[7];
};

LAYOUT(struct wire_cm_reply, 24, header, 0, handle, 8, credits, 12, mtu, 16, reserved, 17);
static_assert(sizeof(struct wire_cm_reply) <= WIRE_CM_REPLY_MAX, "wire_cm_reply");

/* REJ, 148 B:  0 header 8   8 code 4 (negative errno)   12 text 136 (NUL-terminated) */
struct wire_cm_reject {
	struct wire_cm_header header;
	int32_t code;
	char text[136];
};

LAYOUT(struct wire_cm_reject, WIRE_CM_REJECT_MAX, header, 0, code, 8, text, 12);

/* wire_cm_header - the beginning of a message of ours. */
struct wire_cm_header wire_cm_header(enum wire_cm_kind kind);

/*
 * The decoders: @len bytes from a peer, untrusted, any alignment; @bytes may be NULL where @len is
 * 0. Each fills @out with what it checked and returns 0; -EPROTO: too short, another protocol or
 * kind, a number that cannot be, a text that does not end; -EPROTONOSUPPORT: another version.
 * @err names both sides' values.
 */

/* token is not 0, handle below SESSION_QPS_MAX, mtu 1 to 5. Any credits: the server grants. */
int wire_cm_request_decode(const void *bytes, size_t len, struct wire_cm_request *out,
			   struct error *err);

/* handle below SESSION_QPS_MAX, credits 1 to RPC_SLOTS_MAX (HOUSEKEEPER_QP: 0 too), mtu 1 to 5. */
int wire_cm_reply_decode(const void *bytes, size_t len, struct wire_cm_reply *out,
			 struct error *err);

/* code -1 to -4095; what is no printable ASCII in the text becomes '?'. */
int wire_cm_reject_decode(const void *bytes, size_t len, struct wire_cm_reject *out,
			  struct error *err);

/* wire_cm_reject_make - @text is cut, with an ellipsis, where it is longer than fits. */
void wire_cm_reject_make(int code, const char *text, struct wire_cm_reject *out);
