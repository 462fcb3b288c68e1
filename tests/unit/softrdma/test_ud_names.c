/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The sockets of UD queue pairs: names, and descriptors. */
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/softrdma/datagram/datagram.h"
#include "common/softrdma/shared/shared.h"
#include "message.h"
#include "tests/lib/own_process.h"

static const struct end_options ud = { .type = IBV_QPT_UD };

/* Numbers: each has a socket, nobody else can have it, it is free again afterwards. */
UNIT_TEST(test_names)
{
	unsigned before;
	uint32_t qpn;
	struct end a;
	int fd;

	end_open(&a, &ud);
	qpn = a.qp->qp_num;
	assert_int_equal(soft_datagram_open(qpn), -EADDRINUSE);
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = NULL;
	fd = soft_datagram_open(qpn);
	assert_true(fd >= 0);
	close(fd);
	before = own_descriptors();
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
						 .send_cq = a.send_cq,
						 .recv_cq = a.recv_cq };
		struct ibv_qp *qp = softrdma_create_qp(a.pd, &init);

		assert_non_null(qp);
		assert_int_equal(own_descriptors(), before + 1);
		assert_ok(softrdma_destroy_qp(qp));
	}
	assert_int_equal(own_descriptors(), before);
	end_close(&a);
}

static uint32_t generation(uint32_t qpn)
{
	return qpn / SHARED_QPS % QPN_GENERATIONS;
}

/* A number that a stranger has is not used; where he has all of them, there is no queue pair. */
UNIT_TEST(test_taken)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };
	int fds[QPN_GENERATIONS];
	uint32_t next;
	struct end a;

	end_open(&a, &ud);
	init.send_cq = a.send_cq;
	init.recv_cq = a.recv_cq;
	/* the next place, in its first life too */
	next = a.qp->qp_num + 1;
	fds[0] = soft_datagram_open(next);
	assert_true(fds[0] >= 0);
	assert_ok(softrdma_destroy_qp(a.qp));
	a.qp = softrdma_create_qp(a.pd, &init);
	assert_non_null(a.qp);
	assert_int_equal(qpn_index(a.qp->qp_num), qpn_index(next));
	assert_int_equal(generation(a.qp->qp_num), (generation(next) + 1) % QPN_GENERATIONS);
	close(fds[0]);
	assert_ok(softrdma_destroy_qp(a.qp));
	for (uint32_t i = 0; i < QPN_GENERATIONS; i++) {
		fds[i] = soft_datagram_open(
			qpn_make(qpn_slot(next), generation(next) + i, qpn_index(next) + 1));
		assert_true(fds[i] >= 0);
	}
	a.qp = softrdma_create_qp(a.pd, &init);
	assert_null(a.qp);
	assert_int_equal(errno, EADDRINUSE);
	for (uint32_t i = 0; i < QPN_GENERATIONS; i++)
		close(fds[i]);
	end_close(&a);
}

/* However often a QP was in RESET, the next one in its place has another number. */
UNIT_TEST(test_number_after_resets)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };

	for (unsigned resets = 0; resets <= QPN_GENERATIONS; resets++) {
		uint32_t qpn;
		struct end a;

		end_open(&a, &ud);
		init.send_cq = a.send_cq;
		init.recv_cq = a.recv_cq;
		qpn = a.qp->qp_num;
		for (unsigned i = 0; i < resets; i++)
			assert_ok(end_to(&a, IBV_QPS_RESET));
		do {
			assert_ok(softrdma_destroy_qp(a.qp));
			a.qp = softrdma_create_qp(a.pd, &init);
			assert_non_null(a.qp);
		} while (qpn_index(a.qp->qp_num) != qpn_index(qpn));
		assert_int_not_equal(a.qp->qp_num, qpn);
		end_close(&a);
	}
}

/* No descriptors left: no datagrams, but the rest as before, and nothing is lost by trying. */
UNIT_TEST(test_none_left)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };
	struct rlimit limit, none;
	struct ibv_qp *qp;
	struct end a;

	end_open(&a, &ud);
	init.send_cq = a.send_cq;
	init.recv_cq = a.recv_cq;
	assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 3;
	assert_ok(setrlimit(RLIMIT_NOFILE, &none));
	for (unsigned i = 0; i < 2 * SHARED_QPS; i++) {
		assert_null(softrdma_create_qp(a.pd, &init));
		assert_int_equal(errno, EMFILE);
	}
	init.qp_type = IBV_QPT_RC;
	qp = softrdma_create_qp(a.pd, &init);
	assert_non_null(qp);
	assert_ok(softrdma_destroy_qp(qp));
	assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
	init.qp_type = IBV_QPT_UD;
	qp = softrdma_create_qp(a.pd, &init);
	assert_non_null(qp);
	assert_ok(softrdma_destroy_qp(qp));
	end_close(&a);
}
