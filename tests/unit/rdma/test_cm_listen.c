/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The passive side of the CM against a librdmacm that the test acts. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/unit/rdma/fake_rdmacm.h"

static const struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr = { 0x0100000a } };
static struct cm_listener *listener;
static struct rdma_cm_id *listen_id;

static void begin(void)
{
	struct error err;

	fake_reset();
	assert_int_equal(cm_listen(&listener, (const struct sockaddr *)&here, &err), 0);
	listen_id = fake.newest;
	assert_string_equal(cm_listener_route(listener)->device, "fake0");
	assert_true(cm_listener_fd(listener) >= 0);
}

static void end(void)
{
	cm_unlisten(listener);
	assert_int_equal(fake.ids, 0);
	assert_int_equal(fake.channels, 0);
	assert_int_equal(fake.unacknowledged, 0);
}

static struct cm *requested(const void *data, uint8_t len, struct cm_event *event)
{
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_CONNECT_REQUEST,
				       .data = data,
				       .data_len = len,
				       .initiator_depth = 3,
				       .responder_resources = 200,
				       .id = listen_id });
	assert_int_equal(cm_next(listener, event), 0);
	assert_int_equal(event->kind, CM_REQUEST);
	assert_int_equal(fake.unacknowledged, 0); /* at once */
	assert_int_equal(event->data_len, len);
	assert_memory_equal(event->data, data, len);
	return event->cm;
}

UNIT_TEST(a_request_is_accepted)
{
	const struct wire_cm_reply reply = { .header = wire_cm_header(WIRE_CM_REPLY),
					     .credits = 4,
					     .mtu = IBV_MTU_1024 };
	struct cm_event event;
	struct rdma_qp qp;
	struct error err;
	struct cm *cm;

	begin();
	fake_qp(&qp);
	cm = requested("hello", 5, &event);
	assert_string_equal(cm->route.device, "fake0");
	assert_int_equal(cm_qp_connect(cm, &qp, IBV_MTU_1024, &err), 0);
	assert_int_equal(qp.rd_initiator, 3); /* ours is 12 */
	assert_int_equal(qp.rd_responder, 16); /* asked for were 200 */
	assert_int_equal(cm_accept(cm, &qp, &reply, &err), 0);
	assert_int_equal(fake.accepts, 1);
	assert_int_equal(fake.param.initiator_depth, 3);
	assert_int_equal(fake.param.responder_resources, 16);
	assert_memory_equal(fake.private_data, &reply, sizeof(reply));
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ESTABLISHED, .id = cm->id });
	assert_int_equal(cm_next(listener, &event), 0);
	assert_int_equal(event.kind, CM_ESTABLISHED);
	assert_ptr_equal(event.cm, cm);
	assert_int_equal(cm_next(listener, &event), -EAGAIN);
	cm_destroy(cm);
	end();
}

UNIT_TEST(a_request_is_rejected_in_words)
{
	const struct wire_cm_reject *why = (void *)fake.private_data;
	struct cm_event event;

	begin();
	cm_reject(requested("", 0, &event), -EUSERS, "no room for more");
	assert_int_equal(fake.rejects, 1);
	assert_int_equal(why->code, -EUSERS);
	assert_string_equal(why->text, "no room for more");
	end();
}

UNIT_TEST(an_event_that_cannot_be_taken_is_not_none)
{
	static const struct {
		int code, want;
	} cases[] = {
		{ EAGAIN, -EAGAIN }, { EINTR, -EAGAIN }, { ENOMEM, -ENOMEM },
		{ EIO, -EIO },	     { 0, -EIO },
	};
	struct cm_event event;

	begin();
	fake.fails = "rdma_get_cm_event";
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.fails_with = cases[i].code;
		assert_int_equal(cm_next(listener, &event), cases[i].want);
	}
	end();
}

UNIT_TEST(events_have_meanings)
{
	static const struct {
		enum rdma_cm_event_type type;
		enum cm_event_kind kind;
	} cases[] = {
		{ RDMA_CM_EVENT_DISCONNECTED, CM_CLOSED },
		{ RDMA_CM_EVENT_UNREACHABLE, CM_CLOSED },
		{ RDMA_CM_EVENT_CONNECT_ERROR, CM_CLOSED },
		{ RDMA_CM_EVENT_REJECTED, CM_CLOSED },
		{ RDMA_CM_EVENT_DEVICE_REMOVAL, CM_FATAL },
		{ RDMA_CM_EVENT_TIMEWAIT_EXIT, CM_NOTHING },
		{ RDMA_CM_EVENT_ADDR_CHANGE, CM_NOTHING },
		{ RDMA_CM_EVENT_MULTICAST_ERROR, CM_NOTHING },
	};
	struct cm_event event;
	struct cm *cm;

	begin();
	cm = requested("", 0, &event);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_push((struct fake_event){ .type = cases[i].type, .id = cm->id });
		assert_int_equal(cm_next(listener, &event), 0);
		assert_int_equal(event.kind, cases[i].kind);
		assert_ptr_equal(event.cm, cm);
		assert_non_null(event.text);
	}
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_DEVICE_REMOVAL, .id = listen_id });
	assert_int_equal(cm_next(listener, &event), 0);
	assert_int_equal(event.kind, CM_FATAL);
	assert_null(event.cm); /* the listener's own */
	cm_destroy(cm);
	end();
}

UNIT_TEST(listening_fails_in_words)
{
	static const struct {
		const char *call;
		int with;
		const char *word;
	} cases[] = {
		{ "rdma_create_event_channel", ENOENT, "modprobe rdma_ucm" },
		{ "rdma_create_id", ENOMEM, "rdma_create_id" },
		{ "rdma_bind_addr", EADDRINUSE, "another kv-server" },
		{ "rdma_bind_addr", ENODEV, "rdma link" },
		{ "rdma_bind_addr", EADDRNOTAVAIL, "10.0.0.1" },
		{ "rdma_listen", EADDRINUSE, "rdma_listen" },
	};
	struct error err;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_reset();
		fake.fails = cases[i].call;
		fake.fails_with = cases[i].with;
		assert_int_equal(cm_listen(&listener, (const struct sockaddr *)&here, &err),
				 -cases[i].with);
		assert_non_null(strstr(err.text, cases[i].word));
		assert_int_equal(fake.ids + fake.channels, 0);
	}
	fake_reset();
	fake.device = NULL; /* a wildcard address */
	assert_int_equal(cm_listen(&listener, (const struct sockaddr *)&here, &err), 0);
	assert_string_equal(cm_listener_route(listener)->device, "");
	end();
}
