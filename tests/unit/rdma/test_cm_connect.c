/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The active side of the CM against a librdmacm that the test acts: the good way, with the
 * attributes that a queue pair gets; each way to fail, with its sentence; time-outs; the life line.
 * Whatever happens, nothing of librdmacm is left over.
 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/unit/rdma/fake_rdmacm.h"

static const struct sockaddr_in server = { .sin_family = AF_INET,
					   .sin_port = 0x1234,
					   .sin_addr = { 0x0100007f } };

static struct cm_wait soon(unsigned ms)
{
	return (struct cm_wait){ .deadline_ns = time_now_ns() + ms * NS_PER_MS, .lifeline = -1 };
}

static int resolve(struct cm **out, struct error *err)
{
	const struct cm_wait wait = soon(5000);

	return cm_resolve(out, (const struct sockaddr *)&server, &wait, err);
}

static void nothing_is_left(void)
{
	assert_int_equal(fake.ids, 0);
	assert_int_equal(fake.channels, 0);
	assert_int_equal(fake.unacknowledged, 0);
}

static struct wire_cm_request request(void)
{
	return (struct wire_cm_request){ .header = wire_cm_header(WIRE_CM_REQUEST),
					 .token = 5,
					 .handle = 2,
					 .credits = 8,
					 .mtu = IBV_MTU_4096 };
}

static struct wire_cm_reply reply(uint8_t mtu)
{
	return (struct wire_cm_reply){
		.header = wire_cm_header(WIRE_CM_REPLY), .handle = 2, .credits = 8, .mtu = mtu
	};
}

/* Connect, with what the server answers. @out may be NULL. */
static int connect_with(struct fake_event answer, struct rdma_qp *out, struct error *err)
{
	const struct wire_cm_request ask = request();
	const struct cm_wait wait = soon(5000);
	struct wire_cm_reply got;
	struct rdma_qp qp;
	struct cm *cm;
	int rc;

	fake_qp(&qp);
	assert_int_equal(resolve(&cm, err), 0);
	fake_push(answer);
	rc = cm_connect(cm, &qp, &ask, &got, &wait, err);
	if (rc == 0)
		rc = cm_establish(cm, err);
	cm_destroy(cm);
	nothing_is_left();
	if (out)
		*out = qp;
	return rc;
}

static struct fake_event accepted(const struct wire_cm_reply *r)
{
	return (struct fake_event){ .type = RDMA_CM_EVENT_CONNECT_RESPONSE,
				    .data = r,
				    .data_len = sizeof(*r),
				    .initiator_depth = 5,
				    .responder_resources = 7 };
}

UNIT_TEST(connected)
{
	struct wire_cm_reply r = reply(IBV_MTU_1024);
	struct rdma_qp qp;
	struct error err;

	fake_reset();
	fake.extra_bits = 0xf << 21; /* kernels have had bits of their own there */
	assert_int_equal(connect_with(accepted(&r), &qp, &err), 0);
	assert_int_equal(fake.establishes, 1);
	assert_int_equal(fake.param.qp_num, 0x1234);
	assert_int_equal(fake.param.initiator_depth, 12);
	assert_int_equal(fake.param.responder_resources, 16);
	assert_int_equal(fake.param.retry_count, 7);
	assert_int_equal(fake.param.rnr_retry_count, 6);
	assert_int_equal(fake.param.srq, 0);
	assert_int_equal(((struct wire_cm_request *)fake.private_data)->token, 5);
	assert_int_equal(fake.modifies, 3);
	assert_int_equal(fake.attr[0].qp_state, IBV_QPS_INIT);
	assert_int_equal(fake.attr[0].qp_access_flags,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_int_equal(fake.mask[0],
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(fake.attr[1].qp_state, IBV_QPS_RTR);
	assert_int_equal(fake.mask[1], IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(fake.attr[1].path_mtu, IBV_MTU_1024); /* 4096 ours, 2048 the path's */
	assert_int_equal(fake.attr[1].max_dest_rd_atomic, 7);
	assert_int_equal(fake.attr[1].min_rnr_timer, 22);
	assert_int_equal(fake.attr[1].rq_psn, 0x111); /* the CM's */
	assert_int_equal(fake.attr[1].ah_attr.grh.sgid_index, 7);
	assert_int_equal(fake.attr[2].qp_state, IBV_QPS_RTS);
	assert_int_equal(fake.mask[2], IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					       IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(fake.attr[2].timeout, 14);
	assert_int_equal(fake.attr[2].retry_cnt, 7);
	assert_int_equal(fake.attr[2].rnr_retry, 6);
	assert_int_equal(fake.attr[2].max_rd_atomic, 5);
	assert_int_equal(fake.attr[2].sq_psn, 0x222);
	assert_int_equal(qp.mtu, IBV_MTU_1024);
	assert_int_equal(qp.source.gid_index, 7);
	assert_int_equal(qp.source.gid.raw[15], 9);
}

/* The path's service level and traffic class, unless a person has said something else. */
UNIT_TEST(what_packets_carry)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .ah_attr = { .sl = 4, .grh = { .traffic_class = 32 } } };
	struct rdma_device dev;
	struct rdma_qp qp;

	fake_qp(&qp);
	dev = *qp.dev;
	qp.dev = &dev;
	cm_qp_attr(&qp, &attr, IBV_QP_STATE | IBV_QP_AV);
	assert_int_equal(attr.ah_attr.sl, 4);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 32);
	dev.options.service_level = 6;
	dev.options.traffic_class = 104;
	cm_qp_attr(&qp, &attr, IBV_QP_STATE | IBV_QP_AV);
	assert_int_equal(attr.ah_attr.sl, 6);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 32); /* without a GRH there is none */
	attr.ah_attr.is_global = 1;
	cm_qp_attr(&qp, &attr, IBV_QP_STATE | IBV_QP_AV);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 104);
}

UNIT_TEST(the_smallest_mtu_of_three)
{
	static const int mtus[][3] = { /* the path's, the server's, what comes of 4096 here */
				       { IBV_MTU_256, IBV_MTU_4096, IBV_MTU_256 },
				       { IBV_MTU_4096, IBV_MTU_512, IBV_MTU_512 },
				       { IBV_MTU_4096, IBV_MTU_4096, IBV_MTU_4096 }
	};

	for (unsigned i = 0; i < 3; i++) {
		struct wire_cm_reply r = reply((uint8_t)mtus[i][1]);
		struct rdma_qp qp;
		struct error err;

		fake_reset();
		fake.mtu = mtus[i][0];
		assert_int_equal(connect_with(accepted(&r), &qp, &err), 0);
		assert_int_equal(fake.attr[1].path_mtu, mtus[i][2]);
	}
}

static void refused(struct fake_event answer, int code, const char *word)
{
	struct error err = { 0 };

	fake_reset();
	assert_int_equal(connect_with(answer, NULL, &err), code);
	assert_non_null(strstr(err.text, word));
	assert_int_equal(fake.establishes, 0);
}

UNIT_TEST(answers_that_are_none)
{
	struct wire_cm_reply r = reply(IBV_MTU_1024);
	struct fake_event e = accepted(&r);
	struct wire_cm_reject why;

	e.data_len = sizeof(r) - 1;
	refused(e, -EPROTO, "23 bytes");
	e.data = NULL;
	e.data_len = 0;
	refused(e, -EPROTO, "0 bytes");
	e = accepted(&r);
	e.initiator_depth = 0;
	refused(e, -EPROTO, "READ depth");
	e = accepted(&r);
	e.responder_resources = 0;
	refused(e, -EPROTO, "READ depth");
	r.mtu = 9;
	refused(accepted(&r), -EPROTO, "MTU");
	wire_cm_reject_make(-EUSERS, "the worker is full", &why);
	refused((struct fake_event){ RDMA_CM_EVENT_REJECTED, 28, &why, sizeof(why), 0, 0, NULL },
		-EUSERS, "the worker is full");
	refused((struct fake_event){ .type = RDMA_CM_EVENT_REJECTED, .status = 8 }, -ECONNREFUSED,
		"--connect cm");
	refused((struct fake_event){ .type = RDMA_CM_EVENT_REJECTED, .status = 10 }, -ECONNRESET,
		"earlier");
	refused((struct fake_event){ .type = RDMA_CM_EVENT_REJECTED, .status = 24 }, -ECONNREFUSED,
		"reason 24");
	refused((struct fake_event){ .type = RDMA_CM_EVENT_UNREACHABLE, .status = -ETIMEDOUT },
		-ETIMEDOUT, "did not answer");
	refused((struct fake_event){ .type = RDMA_CM_EVENT_CONNECT_ERROR }, -ECONNRESET, "ended");
	refused((struct fake_event){ .type = RDMA_CM_EVENT_DEVICE_REMOVAL }, -ENODEV, "fake0");
}

UNIT_TEST(a_failed_step_is_named)
{
	static const char *const steps[] = { "INIT", "RTR", "RTS" };
	struct wire_cm_reply r = reply(IBV_MTU_1024);
	struct error err;

	for (int i = 0; i < 3; i++) {
		fake_reset();
		fake.modify_fails_at = i;
		assert_int_equal(connect_with(accepted(&r), NULL, &err), -EINVAL);
		assert_non_null(strstr(err.text, steps[i]));
	}
	fake_reset();
	fake.fails = "rdma_init_qp_attr";
	fake.fails_with = EIO;
	assert_int_equal(connect_with(accepted(&r), NULL, &err), -EIO);
	fake_reset();
	fake.fails = "rdma_connect";
	fake.fails_with = EBUSY;
	assert_int_equal(connect_with(accepted(&r), NULL, &err), -EBUSY);
	fake_reset();
	fake.fails = "rdma_establish";
	fake.fails_with = ENODEV;
	assert_int_equal(connect_with(accepted(&r), NULL, &err), -ENODEV);
	assert_non_null(strstr(err.text, "rdma_establish"));
}

UNIT_TEST(no_way_there)
{
	static const struct {
		const char *call;
		int with, code;
		const char *word;
	} cases[] = {
		{ "rdma_create_event_channel", ENODEV, -ENODEV, "soft0" },
		{ "rdma_create_event_channel", ENOENT, -ENOENT, "container" },
		{ "rdma_create_event_channel", EACCES, -EACCES, "modprobe rdma_ucm" },
		{ "rdma_create_event_channel", EPERM, -EACCES, "/dev/infiniband/rdma_cm" },
		{ "rdma_create_event_channel", EMFILE, -EMFILE, "Too many open files" },
		{ "rdma_create_id", ENOMEM, -ENOMEM, "rdma_create_id" },
		{ "rdma_resolve_addr", ENODEV, -ENODEV, "no RDMA device" },
		{ "rdma_resolve_addr", ENETUNREACH, -ENETUNREACH, "route" },
		{ "rdma_resolve_route", EHOSTUNREACH, -EHOSTUNREACH, "route" },
		{ "rdma_get_cm_event", EIO, -EIO, "rdma_get_cm_event" },
	};
	struct error err;
	struct cm *cm;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_reset();
		fake.fails = cases[i].call;
		fake.fails_with = cases[i].with;
		assert_int_equal(resolve(&cm, &err), cases[i].code);
		assert_non_null(strstr(err.text, cases[i].word));
		nothing_is_left();
	}
	fake_reset();
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ADDR_ERROR, .status = -ENODEV });
	assert_int_equal(resolve(&cm, &err), -ENODEV);
	assert_non_null(strstr(err.text, "127.0.0.1"));
	fake_reset();
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ADDR_RESOLVED });
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ROUTE_ERROR, .status = -ETIMEDOUT });
	assert_int_equal(resolve(&cm, &err), -ETIMEDOUT);
	fake_reset();
	fake.device = NULL;
	assert_int_equal(resolve(&cm, &err), -ENODEV);
	nothing_is_left();
}

UNIT_TEST(a_silent_server_ends_at_the_deadline)
{
	const struct wire_cm_request ask = request();
	struct wire_cm_reply got;
	struct cm_wait wait;
	struct rdma_qp qp;
	struct error err;
	struct cm *cm;

	fake_reset();
	fake_qp(&qp);
	assert_int_equal(resolve(&cm, &err), 0);
	wait = soon(50);
	assert_int_equal(cm_connect(cm, &qp, &ask, &got, &wait, &err), -ETIMEDOUT);
	assert_true(time_now_ns() >= wait.deadline_ns);
	assert_non_null(strstr(err.text, "too long"));
	cm_destroy(cm);
	nothing_is_left();
}

UNIT_TEST(the_life_line_ends_a_wait)
{
	const struct wire_cm_request ask = request();
	struct cm_wait wait = soon(60000);
	struct wire_cm_reply got;
	struct rdma_qp qp;
	struct error err;
	struct cm *cm;
	int line[2];

	fake_reset();
	fake_qp(&qp);
	assert_int_equal(pipe(line), 0);
	assert_int_equal(resolve(&cm, &err), 0);
	wait.lifeline = line[0];
	close(line[1]); /* the server has gone */
	assert_int_equal(cm_connect(cm, &qp, &ask, &got, &wait, &err), -ECONNRESET);
	cm_destroy(cm);
	close(line[0]);
	nothing_is_left();
}

UNIT_TEST(leaving_waits_for_the_peer)
{
	struct error err;
	struct cm *cm;

	fake_reset();
	assert_int_equal(resolve(&cm, &err), 0);
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_ADDR_CHANGE });
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_DISCONNECTED });
	fake_push((struct fake_event){ .type = RDMA_CM_EVENT_TIMEWAIT_EXIT });
	cm_leave(cm, time_now_ns() + 60 * NS_PER_S);
	assert_int_equal(fake.disconnects, 1);
	assert_int_equal(fake_pending(), 1); /* up to the confirmation, and no further */
	cm_leave(cm, time_now_ns() + 20 * NS_PER_MS); /* nobody answers: it ends nevertheless */
	fake.fails = "rdma_disconnect";
	fake.fails_with = EINVAL;
	cm_leave(cm, time_now_ns() + 60 * NS_PER_S);
	cm_destroy(cm);
	nothing_is_left();
}
