/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Frames of the TCP exchange, and of the life line that it becomes.
 *
 *	client                                server
 *	HELLO  (versions, layout, id)   ->
 *	                                <-    WELCOME (session, root, epoch slot), or REFUSE
 *	for each queue pair:
 *	QP_OPEN (its attributes; INIT)  ->
 *	                                <-    QP_OPENED (the server's; RTR, RTS), or REFUSE
 *	QP_READY (RTR, RTS done)        ->
 *	                                <-    QP_LIVE: both sides know
 *	...
 *	QP_CLOSE (about to be destroyed) ->   no answer
 *	                                <-    QP_LOST: the server's end broke; open it again. Also
 *	                                      between any two frames of an exchange
 *	BYE                             ->    or the connection just ends
 *	                                <-    BYE: the server shuts down
 *	                                <-    REFUSE, and the end: a queue pair broke the protocol
 *
 * Every frame: a 16 B header, then a payload of the size that its type has.
 *     0  magic    4 B  "GKVX"
 *     4  version  2 B  WIRE_VERSION
 *     6  type     2 B  enum wire_type
 *     8  length   4 B  of the payload, at most WIRE_PAYLOAD_MAX
 *    12  reserved 4 B  zero
 *
 * The header and REFUSE keep their shape in every version, so that any two versions can tell
 * each other that they do not fit.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define WIRE_MAGIC	 0x58564b47u
#define WIRE_VERSION	 5u
#define WIRE_PAYLOAD_MAX 1024u

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_WELCOME = 2,
	WIRE_REFUSE = 3,
	WIRE_QP_OPEN = 4,
	WIRE_QP_OPENED = 5,
	WIRE_QP_READY = 6,
	WIRE_QP_LIVE = 7,
	WIRE_BYE = 8,
	WIRE_QP_CLOSE = 9,
	WIRE_QP_LOST = 10,
};

struct wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t length;
	uint32_t reserved;
};

static_assert(sizeof(struct wire_header) == 16, "wire_header");
static_assert(offsetof(struct wire_header, magic) == 0, "wire_header.magic");
static_assert(offsetof(struct wire_header, version) == 4, "wire_header.version");
static_assert(offsetof(struct wire_header, type) == 6, "wire_header.type");
static_assert(offsetof(struct wire_header, length) == 8, "wire_header.length");
static_assert(offsetof(struct wire_header, reserved) == 12, "wire_header.reserved");

/*
 * HELLO, 128 B
 *     0  layout_version 4   4 pid 4   8 layout_hash 8   16 client_id 16
 *    32  first_sequence 8  requests below it were issued in an earlier session
 *    40  server_incarnation 8  of the last server met, 0: none   48 name 64 (NUL-terminated)
 *   112  reserved 16
 */
struct wire_hello {
	uint32_t layout_version;
	uint32_t pid;
	uint64_t layout_hash;
	uint64_t client_id[2];
	uint64_t first_sequence;
	uint64_t server_incarnation;
	char name[64];
	uint64_t reserved[2];
};

static_assert(sizeof(struct wire_hello) == 128, "wire_hello");
static_assert(offsetof(struct wire_hello, layout_version) == 0, "wire_hello.layout_version");
static_assert(offsetof(struct wire_hello, pid) == 4, "wire_hello.pid");
static_assert(offsetof(struct wire_hello, layout_hash) == 8, "wire_hello.layout_hash");
static_assert(offsetof(struct wire_hello, client_id) == 16, "wire_hello.client_id");
static_assert(offsetof(struct wire_hello, first_sequence) == 32, "wire_hello.first_sequence");
static_assert(offsetof(struct wire_hello, server_incarnation) == 40, "wire_hello.incarnation");
static_assert(offsetof(struct wire_hello, name) == 48, "wire_hello.name");
static_assert(offsetof(struct wire_hello, reserved) == 112, "wire_hello.reserved");

/*
 * WELCOME, 192 B
 *     0  session 8   8 generation 8   16 epoch 8   24 server_incarnation 8
 *    32  root_addr 8   40 slot_addr 8   48 root_rkey 4   52 slot_rkey 4
 *    56  lease_ms 4   60 eager_max 4   64 key_max 4   68 value_max 4   72 qps_max 4
 *    76  credits_max 4   80 resumed 4 (1: the client id was known)   84 pid 4
 *    88  device 64 (NUL-terminated)
 *   152  cm_token 8 (random; names the session in CM requests: wire_cm.h)
 *   160  cm_port 4 (where the RDMA CM is served; 0: this server serves none)   164 reserved 28
 */
struct wire_welcome {
	uint64_t session;
	uint64_t generation;
	uint64_t epoch;
	uint64_t server_incarnation;
	uint64_t root_addr;
	uint64_t slot_addr;
	uint32_t root_rkey;
	uint32_t slot_rkey;
	uint32_t lease_ms;
	uint32_t eager_max;
	uint32_t key_max;
	uint32_t value_max;
	uint32_t qps_max;
	uint32_t credits_max;
	uint32_t resumed;
	uint32_t pid;
	char device[64];
	uint64_t cm_token;
	uint32_t cm_port;
	uint32_t reserved[7];
};

static_assert(sizeof(struct wire_welcome) == 192, "wire_welcome");
static_assert(offsetof(struct wire_welcome, session) == 0, "wire_welcome.session");
static_assert(offsetof(struct wire_welcome, generation) == 8, "wire_welcome.generation");
static_assert(offsetof(struct wire_welcome, epoch) == 16, "wire_welcome.epoch");
static_assert(offsetof(struct wire_welcome, server_incarnation) == 24, "wire_welcome.incarnation");
static_assert(offsetof(struct wire_welcome, root_addr) == 32, "wire_welcome.root_addr");
static_assert(offsetof(struct wire_welcome, slot_addr) == 40, "wire_welcome.slot_addr");
static_assert(offsetof(struct wire_welcome, root_rkey) == 48, "wire_welcome.root_rkey");
static_assert(offsetof(struct wire_welcome, slot_rkey) == 52, "wire_welcome.slot_rkey");
static_assert(offsetof(struct wire_welcome, lease_ms) == 56, "wire_welcome.lease_ms");
static_assert(offsetof(struct wire_welcome, eager_max) == 60, "wire_welcome.eager_max");
static_assert(offsetof(struct wire_welcome, key_max) == 64, "wire_welcome.key_max");
static_assert(offsetof(struct wire_welcome, value_max) == 68, "wire_welcome.value_max");
static_assert(offsetof(struct wire_welcome, qps_max) == 72, "wire_welcome.qps_max");
static_assert(offsetof(struct wire_welcome, credits_max) == 76, "wire_welcome.credits_max");
static_assert(offsetof(struct wire_welcome, resumed) == 80, "wire_welcome.resumed");
static_assert(offsetof(struct wire_welcome, pid) == 84, "wire_welcome.pid");
static_assert(offsetof(struct wire_welcome, device) == 88, "wire_welcome.device");
static_assert(offsetof(struct wire_welcome, cm_token) == 152, "wire_welcome.cm_token");
static_assert(offsetof(struct wire_welcome, cm_port) == 160, "wire_welcome.cm_port");
static_assert(offsetof(struct wire_welcome, reserved) == 164, "wire_welcome.reserved");

/*
 * REFUSE, 512 B:  0 code 4 (negative errno)   4 reserved 4   8 text 504 (NUL-terminated).
 * The text names both sides' values and what to do.
 */
struct wire_refuse {
	int32_t code;
	uint32_t reserved;
	char text[504];
};

static_assert(sizeof(struct wire_refuse) == 512, "wire_refuse");
static_assert(offsetof(struct wire_refuse, code) == 0, "wire_refuse.code");
static_assert(offsetof(struct wire_refuse, reserved) == 4, "wire_refuse.reserved");
static_assert(offsetof(struct wire_refuse, text) == 8, "wire_refuse.text");

/*
 * QP_OPEN and QP_OPENED, 64 B: what one side offers for a queue pair.
 *     0  gid 16   16 qpn 4   20 psn 4   24 lid 2   26 link_layer 1 (IBV_LINK_LAYER_*)
 *    27  mtu 1 (enum ibv_mtu)   28 rd_initiator 1   29 rd_responder 1   30 ib_port 1
 *    31  has_gid 1 (1: gid and gid_type are set)   32 handle 4 (number of the client's handle)
 *    36  credits 4 (asked for, granted; HOUSEKEEPER_QP: 0, it carries no requests)   40 gid_type 1
 *        (enum ibv_gid_type)   41 reserved 23
 */
struct wire_qp {
	uint8_t gid[16];
	uint32_t qpn;
	uint32_t psn;
	uint16_t lid;
	uint8_t link_layer;
	uint8_t mtu;
	uint8_t rd_initiator;
	uint8_t rd_responder;
	uint8_t ib_port;
	uint8_t has_gid;
	uint32_t handle;
	uint32_t credits;
	uint8_t gid_type;
	uint8_t reserved[23];
};

static_assert(sizeof(struct wire_qp) == 64, "wire_qp");
static_assert(offsetof(struct wire_qp, gid) == 0, "wire_qp.gid");
static_assert(offsetof(struct wire_qp, qpn) == 16, "wire_qp.qpn");
static_assert(offsetof(struct wire_qp, psn) == 20, "wire_qp.psn");
static_assert(offsetof(struct wire_qp, lid) == 24, "wire_qp.lid");
static_assert(offsetof(struct wire_qp, link_layer) == 26, "wire_qp.link_layer");
static_assert(offsetof(struct wire_qp, mtu) == 27, "wire_qp.mtu");
static_assert(offsetof(struct wire_qp, rd_initiator) == 28, "wire_qp.rd_initiator");
static_assert(offsetof(struct wire_qp, rd_responder) == 29, "wire_qp.rd_responder");
static_assert(offsetof(struct wire_qp, ib_port) == 30, "wire_qp.ib_port");
static_assert(offsetof(struct wire_qp, has_gid) == 31, "wire_qp.has_gid");
static_assert(offsetof(struct wire_qp, handle) == 32, "wire_qp.handle");
static_assert(offsetof(struct wire_qp, credits) == 36, "wire_qp.credits");
static_assert(offsetof(struct wire_qp, gid_type) == 40, "wire_qp.gid_type");
static_assert(offsetof(struct wire_qp, reserved) == 41, "wire_qp.reserved");

/*
 * QP_READY, QP_LIVE, QP_CLOSE and QP_LOST, 8 B: which queue pair.
 *     0  handle 4    4 qpn 4 (of the client's end; QP_LOST only, else 0)
 */
struct wire_handle {
	uint32_t handle;
	uint32_t qpn;
};

static_assert(sizeof(struct wire_handle) == 8, "wire_handle");
static_assert(offsetof(struct wire_handle, handle) == 0, "wire_handle.handle");
static_assert(offsetof(struct wire_handle, qpn) == 4, "wire_handle.qpn");

/*
 * A decoded frame. Text fields are NUL-terminated within their arrays, and printable ASCII: what
 * else a peer put there is '?'.
 */
struct wire_frame {
	enum wire_type type;
	union {
		struct wire_hello hello;
		struct wire_welcome welcome;
		struct wire_refuse refuse;
		struct wire_qp qp;
		struct wire_handle handle;
	};
};

/*
 * wire_header_check - judge the first 16 bytes from a peer.
 * Returns 0; -EPROTO: another protocol or a payload over WIRE_PAYLOAD_MAX; -EPROTONOSUPPORT:
 * another version. @err names both sides' values.
 */
int wire_header_check(const struct wire_header *h, struct error *err);

/*
 * wire_text - a text of a peer, in @cap bytes: it goes into logs and to terminals, so what is no
 * printable ASCII becomes '?'. Returns 0, or -EPROTO: it does not end.
 */
int wire_text(char *text, size_t cap);

/*
 * wire_decode - a whole frame, header and payload, of @len bytes, untrusted, any alignment. Its
 * text has gone through wire_text().
 * Returns 0, or as wire_header_check(); -EPROTO also where the type is unknown, the length is
 * not that of the type, or a text is not terminated.
 */
int wire_decode(const void *bytes, size_t len, struct wire_frame *out, struct error *err);

/* wire_encode - into @out, at least 16 + WIRE_PAYLOAD_MAX bytes. Returns the frame's length. */
size_t wire_encode(const struct wire_frame *frame, void *out);
