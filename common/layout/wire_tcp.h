/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Frames of the TCP exchange, and of the life line that it becomes.
 *
 *	client                                server
 *	HELLO  (versions, layout, id)   ->
 *	                                <-    SERVER, for each member of a group: none without one
 *	                                <-    WELCOME (session, root, epoch slot), or REFUSE
 *	for each queue pair:
 *	QP_OPEN (its attributes; INIT)  ->
 *	                                <-    QP_OPENED (the server's; RTR, RTS), or REFUSE
 *	QP_READY (RTR, RTS done)        ->
 *	                                <-    QP_LIVE: both sides know
 *	...
 *	QP_CLOSE (about to be destroyed, or not waited for) ->   no answer
 *	                                <-    QP_LOST: the server's end broke; open it again. Also
 *	                                      between any two frames of an exchange
 *	BYE                             ->    or the connection just ends
 *	                                <-    BYE: the server shuts down
 *	                                <-    REFUSE, and the end: a queue pair broke the protocol
 *
 * An answer may come when nobody waits for it any more. So each attempt at a queue pair has a
 * number, the ask: QP_OPEN and QP_READY say it, what answers them repeats it, and a client drops
 * what is about another attempt than the one under way. A REFUSE with ask 0 answers none of them:
 * it is about the session.
 *
 * Members of a group say other things on the same port (wire_peer.h), and so does kv-cluster
 * (wire_group.h). Their first frames are PEER_HELLO and GROUP_ASK, in place of the HELLO.
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
#include <stdint.h>

#include "common/base/error.h"
#include "common/layout/fields.h"
#include "common/layout/wire_group.h"
#include "common/layout/wire_peer.h"
#include "common/layout/wire_qp.h"

#define WIRE_MAGIC	 0x58564b47u
#define WIRE_VERSION	 7u
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
	WIRE_SERVER = 11,
	WIRE_PEER_HELLO = 32,
	WIRE_PEER_JOINED = 33,
	WIRE_PEER_OFFER = 34,
	WIRE_PEER_ANSWER = 35,
	WIRE_PEER_READY = 36,
	WIRE_PEER_BEGIN = 37,
	WIRE_PEER_CLIENTS = 38,
	WIRE_PEER_WALK = 39,
	WIRE_PEER_CAUGHT_UP = 40,
	WIRE_GROUP_ASK = 64,
	WIRE_GROUP_STATUS = 65,
	WIRE_GROUP_MEMBER = 66,
	WIRE_GROUP_DONE = 67,
};

struct wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t length;
	uint32_t reserved;
};

LAYOUT(struct wire_header, 16, magic, 0, version, 4, type, 6, length, 8, reserved, 12);

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

LAYOUT(struct wire_hello, 128, layout_version, 0, pid, 4, layout_hash, 8, client_id, 16,
       first_sequence, 32, server_incarnation, 40, name, 48, reserved, 112);

/*
 * WELCOME, 192 B
 *     0  session 8   8 generation 8   16 epoch 8   24 server_incarnation 8
 *    32  root_addr 8   40 slot_addr 8   48 root_rkey 4   52 slot_rkey 4
 *    56  lease_ms 4   60 eager_max 4   64 key_max 4   68 value_max 4   72 qps_max 4
 *    76  credits_max 4   80 resumed 4 (1: the client id was known)   84 pid 4
 *    88  device 64 (NUL-terminated)
 *   152  cm_token 8 (random; names the session in CM requests: wire_cm.h)
 *   160  cm_port 4 (where the RDMA CM is served; 0: this server serves none)
 *   164  group_lease_ms 4 (of its group: lease_word.h; 0: it belongs to none)   168 rho_ppm 4 (with
 *        it: rates of two clocks differ by so much at most)   172 reserved 20
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
	uint32_t group_lease_ms;
	uint32_t rho_ppm;
	uint32_t reserved[5];
};

LAYOUT(struct wire_welcome, 192, session, 0, generation, 8, epoch, 16, server_incarnation, 24,
       root_addr, 32, slot_addr, 40, root_rkey, 48, slot_rkey, 52, lease_ms, 56, eager_max, 60,
       key_max, 64, value_max, 68, qps_max, 72, credits_max, 76, resumed, 80, pid, 84, device, 88,
       cm_token, 152, cm_port, 160, group_lease_ms, 164, rho_ppm, 168, reserved, 172);

/* SERVER, 288 B:  0 address 280 ("HOST:PORT", NUL-terminated)   280 reserved 8. Primary first. */
struct wire_server {
	char address[280];
	uint64_t reserved;
};

LAYOUT(struct wire_server, 288, address, 0, reserved, 280);

/*
 * REFUSE, 512 B:  0 code 4 (negative errno)   4 ask 4   8 text 504 (NUL-terminated).
 * The text names both sides' values and what to do.
 */
struct wire_refuse {
	int32_t code;
	uint32_t ask;
	char text[504];
};

LAYOUT(struct wire_refuse, 512, code, 0, ask, 4, text, 8);

/*
 * QP_READY, QP_LIVE, QP_CLOSE and QP_LOST, 8 B: which queue pair.
 *     0  handle 4    4 number 4 (QP_READY, QP_LIVE: the ask; QP_LOST: qpn of the client's end; 0)
 */
struct wire_handle {
	uint32_t handle;
	uint32_t number;
};

LAYOUT(struct wire_handle, 8, handle, 0, number, 4);

/*
 * A decoded frame. Text fields are NUL-terminated within their arrays, and printable ASCII: what
 * else a peer put there is '?'.
 */
struct wire_frame {
	enum wire_type type;
	union {
		struct wire_hello hello;
		struct wire_welcome welcome;
		struct wire_server server;
		struct wire_refuse refuse;
		struct wire_qp qp;
		struct wire_handle handle;
		struct wire_peer_hello peer_hello;
		struct wire_peer_joined peer_joined;
		struct wire_peer_offer peer_offer;
		struct wire_peer_answer peer_answer;
		struct wire_peer_place peer_place;
		struct wire_peer_clients peer_clients;
		struct wire_group_ask group_ask;
		struct wire_group_status group_status;
		struct wire_group_member group_member;
		struct wire_group_done group_done;
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
