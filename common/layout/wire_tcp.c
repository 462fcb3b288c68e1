/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/layout/wire_tcp.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/base/plain.h"

/* Payload length of each type; -1: unknown. */
static int payload_bytes(unsigned type)
{
	switch (type) {
	case WIRE_HELLO:
		return sizeof(struct wire_hello);
	case WIRE_WELCOME:
		return sizeof(struct wire_welcome);
	case WIRE_SERVER:
		return sizeof(struct wire_server);
	case WIRE_REFUSE:
		return sizeof(struct wire_refuse);
	case WIRE_QP_OPEN:
	case WIRE_QP_OPENED:
		return sizeof(struct wire_qp);
	case WIRE_QP_READY:
	case WIRE_QP_LIVE:
	case WIRE_QP_CLOSE:
	case WIRE_QP_LOST:
		return sizeof(struct wire_handle);
	case WIRE_BYE:
		return 0;
	case WIRE_PEER_HELLO:
		return sizeof(struct wire_peer_hello);
	case WIRE_PEER_JOINED:
		return sizeof(struct wire_peer_joined);
	case WIRE_PEER_OFFER:
		return sizeof(struct wire_peer_offer);
	case WIRE_PEER_ANSWER:
		return sizeof(struct wire_peer_answer);
	case WIRE_PEER_READY:
	case WIRE_PEER_BEGIN:
	case WIRE_PEER_WALK:
	case WIRE_PEER_CAUGHT_UP:
		return sizeof(struct wire_peer_place);
	case WIRE_PEER_CLIENTS:
		return sizeof(struct wire_peer_clients);
	case WIRE_GROUP_ASK:
		return sizeof(struct wire_group_ask);
	case WIRE_GROUP_STATUS:
		return sizeof(struct wire_group_status);
	case WIRE_GROUP_MEMBER:
		return sizeof(struct wire_group_member);
	case WIRE_GROUP_DONE:
		return sizeof(struct wire_group_done);
	}
	return -1;
}

int wire_header_check(const struct wire_header *h, struct error *err)
{
	if (h->magic != WIRE_MAGIC)
		return error_set(err, -EPROTO,
				 "the peer does not speak GraceKV: its first bytes are 0x%08x, "
				 "expected 0x%08x (check host and port)",
				 h->magic, WIRE_MAGIC);
	if (h->version != WIRE_VERSION && h->type != WIRE_REFUSE)
		return error_set(err, -EPROTONOSUPPORT,
				 "the peer speaks exchange version %u, this side %u (install the "
				 "same GraceKV release on both)",
				 h->version, WIRE_VERSION);
	if (h->length > WIRE_PAYLOAD_MAX)
		return error_set(err, -EPROTO,
				 "the peer announced a frame of %u bytes, at most %u are allowed",
				 h->length, WIRE_PAYLOAD_MAX);
	return 0;
}

int wire_text(char *text, size_t cap)
{
	if (!memchr(text, 0, cap))
		return -EPROTO;
	plain_text(text);
	return 0;
}

#define TEXT(type, member, field)                                         \
	{                                                                 \
		type, offsetof(struct wire_frame, member.field),          \
			sizeof(((struct wire_frame *)NULL)->member.field) \
	}

static const struct {
	enum wire_type type;
	size_t at, cap;
} texts[] = {
	TEXT(WIRE_HELLO, hello, name),
	TEXT(WIRE_WELCOME, welcome, device),
	TEXT(WIRE_SERVER, server, address),
	TEXT(WIRE_REFUSE, refuse, text),
	TEXT(WIRE_PEER_HELLO, peer_hello, group),
	TEXT(WIRE_PEER_HELLO, peer_hello, node),
	TEXT(WIRE_PEER_HELLO, peer_hello, address),
	TEXT(WIRE_GROUP_ASK, group_ask, group),
	TEXT(WIRE_GROUP_ASK, group_ask, node),
	TEXT(WIRE_GROUP_STATUS, group_status, cluster),
	TEXT(WIRE_GROUP_STATUS, group_status, group),
	TEXT(WIRE_GROUP_STATUS, group_status, node),
	TEXT(WIRE_GROUP_STATUS, group_status, address),
	TEXT(WIRE_GROUP_STATUS, group_status, why),
	TEXT(WIRE_GROUP_STATUS, group_status, waits),
	TEXT(WIRE_GROUP_MEMBER, group_member, node),
	TEXT(WIRE_GROUP_MEMBER, group_member, address),
	TEXT(WIRE_GROUP_MEMBER, group_member, why),
	TEXT(WIRE_GROUP_DONE, group_done, why),
};

static int check_texts(struct wire_frame *f)
{
	int rc = 0;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]) && rc == 0; i++)
		if (texts[i].type == f->type)
			rc = wire_text((char *)f + texts[i].at, texts[i].cap);
	return rc;
}

int wire_decode(const void *bytes, size_t len, struct wire_frame *out, struct error *err)
{
	struct wire_header h;
	int want, rc;

	if (len < sizeof(h))
		return error_set(err, -EPROTO, "the peer sent %zu bytes, a frame has at least %zu",
				 len, sizeof(h));
	memcpy(&h, bytes, sizeof(h));
	rc = wire_header_check(&h, err);
	if (rc)
		return rc;
	want = payload_bytes(h.type);
	if (want < 0)
		return error_set(err, -EPROTO, "the peer sent a frame of unknown type %u", h.type);
	if (h.length != (uint32_t)want || len != sizeof(h) + h.length)
		return error_set(err, -EPROTO,
				 "the peer sent a frame of type %u with %u bytes, expected %d",
				 h.type, h.length, want);
	memset(out, 0, sizeof(*out));
	out->type = (enum wire_type)h.type;
	memcpy(&out->peer_clients, (const char *)bytes + sizeof(h), h.length);
	if (check_texts(out))
		rc = error_set(err, -EPROTO, "the peer sent a text that does not end");
	else if (out->type == WIRE_PEER_CLIENTS && out->peer_clients.count > WIRE_PEER_ITEMS)
		rc = error_set(err, -EPROTO, "the peer sent %u clients in a frame for %u",
			       out->peer_clients.count, WIRE_PEER_ITEMS);
	if (rc)
		memset(out, 0, sizeof(*out)); /* nothing of it is to be believed */
	return rc;
}

size_t wire_encode(const struct wire_frame *frame, void *out)
{
	struct wire_header h = {
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.type = (uint16_t)frame->type,
		.length = (uint32_t)payload_bytes(frame->type),
	};

	memcpy(out, &h, sizeof(h));
	memcpy((char *)out + sizeof(h), &frame->peer_clients, h.length);
	return sizeof(h) + h.length;
}
