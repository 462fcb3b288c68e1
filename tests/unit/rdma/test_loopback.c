/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The loopback READ, and addresses that are tried one after the other. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/time.h"
#include "common/rdma/loopback.h"
#include "common/rdma/qp.h"
#include "common/rdma/survey.h"
#include "common/rdma/tcp.h"
#include "common/softrdma/softrdma.h"

UNIT_TEST(soft0_reads_itself_and_leaves_nothing)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;
	struct error err = { 0 };

	o.device = "soft0";
	assert_int_equal(rdma_device_open(&dev, &o, NULL, &err), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rdma_loopback_read(dev, 2000, &err), 0);
	/* EBUSY, and so a leak of the context, where an object was left */
	assert_int_equal(dev->ops->dealloc_pd(dev->pd), 0);
	assert_int_equal(dev->ops->close_device(dev->context), 0);
	free(dev);
}

/* A device whose completions never come. */
static int poll_nothing(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	return 0;
}

/* One that completes without having moved a byte. */
static int poll_success(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	return 1;
}

static int post_nothing(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return 0;
}

static int with_operations(int (*poll)(struct ibv_cq *, int, struct ibv_wc *), struct error *err)
{
	struct rdma_options o = rdma_options_default();
	struct rdma_device *dev;
	int rc;

	o.device = "soft0";
	assert_int_equal(rdma_device_open(&dev, &o, NULL, err), 0);
	dev->context->ops.post_send = post_nothing;
	dev->context->ops.poll_cq = poll;
	rc = rdma_loopback_read(dev, 200, err);
	assert_int_equal(dev->ops->dealloc_pd(dev->pd), 0);
	assert_int_equal(dev->ops->close_device(dev->context), 0);
	free(dev);
	return rc;
}

UNIT_TEST(a_device_that_does_not_move_bytes_is_found_out)
{
	struct error err = { 0 };
	uint64_t start = time_now_ns();

	assert_int_equal(with_operations(poll_nothing, &err), -ETIMEDOUT);
	assert_true(time_now_ns() - start >= 200 * NS_PER_MS);
	assert_non_null(strstr(err.text, "4791"));
	assert_int_equal(with_operations(poll_success, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "other bytes"));
}

static struct ibv_mr *register_nothing(struct ibv_pd *pd, void *addr, size_t len, unsigned access)
{
	errno = ENOMEM;
	return NULL;
}

/* In the caller's words, as it is the caller that has more memory than may be locked. */
UNIT_TEST(what_helps_where_memory_is_not_registered)
{
	const char *const spares[] = { NULL, "keep less" };
	struct rdma_options o = rdma_options_default();
	struct rdma_provider no_memory;
	struct rdma_device *dev;
	struct error err = { 0 };

	o.device = "soft0";
	for (unsigned i = 0; i < 2; i++) {
		o.spare = spares[i];
		assert_int_equal(rdma_device_open(&dev, &o, NULL, &err), 0);
		no_memory = *dev->ops;
		no_memory.reg_mr = register_nothing;
		dev->ops = &no_memory;
		assert_int_equal(rdma_loopback_read(dev, 200, &err), -ENOMEM);
		assert_non_null(strstr(err.text, "RLIMIT_MEMLOCK is "));
		assert_null(strstr(err.text, "--memory"));
		if (i)
			assert_non_null(strstr(err.text, "limits.conf, or keep less"));
		else
			assert_non_null(strstr(err.text, "limits.conf"));
		assert_int_equal(dev->ops->dealloc_pd(dev->pd), 0);
		assert_int_equal(dev->ops->close_device(dev->context), 0);
		free(dev);
	}
}

static struct rdma_provider stuck;

static int destroy_nothing(struct ibv_qp *qp)
{
	return EBUSY;
}

static int modify_nothing(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return EIO;
}

/* It goes on to be there, so memory may be used again only where it is out of work. */
UNIT_TEST(a_queue_pair_that_cannot_be_destroyed_is_reset)
{
	struct rdma_options o = rdma_options_default();
	struct error err = { 0 };

	o.device = "soft0";
	for (unsigned i = 0; i < 2; i++) {
		const struct rdma_provider *real;
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;
		struct rdma_device *dev;
		struct rdma_cq cq;
		struct rdma_qp qp;
		struct ibv_qp *left;

		assert_int_equal(rdma_device_open(&dev, &o, NULL, &err), 0);
		assert_int_equal(rdma_cq_create(dev, 8, 0, false, &cq, &err), 0);
		assert_ok(rdma_qp_create(
			dev, &(struct rdma_qp_config){ .cq = &cq, .max_send = 2, .max_recv = 1 },
			&qp, &err));
		left = qp.qp;
		real = dev->ops;
		stuck = *real;
		stuck.destroy_qp = destroy_nothing;
		if (i)
			stuck.modify_qp = modify_nothing;
		dev->ops = &stuck;
		assert_int_equal(rdma_qp_destroy(&qp), i ? -EBUSY : 0);
		assert_null(qp.qp);
		assert_int_equal(softrdma_query_qp(left, &attr, IBV_QP_STATE, &init), 0);
		assert_int_equal(attr.qp_state, i ? IBV_QPS_INIT : IBV_QPS_RESET);
		assert_int_equal(real->destroy_qp(left), 0);
		dev->ops = real;
		rdma_cq_destroy(&cq);
		rdma_device_close(dev);
	}
}

UNIT_TEST(a_survey_has_soft0_and_its_gids)
{
	struct rdma_options o = rdma_options_default();
	struct survey *s;
	struct error err = { 0 };
	const struct survey_device *d;
	unsigned taken = 0;

	assert_int_equal(survey_take(&s, "soft0", &o, NULL, &err), 0);
	assert_int_equal(s->count, 1);
	d = &s->devices[0];
	assert_true(d->software && d->port_count == 1 && d->error.code == 0);
	assert_int_equal(d->ports[0].gid_count, 4);
	for (unsigned i = 0; i < 4; i++)
		taken += d->ports[0].gids[i].taken;
	assert_int_equal(taken, 1);
	assert_string_equal(d->ports[0].gids[3].netdev, "lo");
	survey_free(s);
	assert_int_equal(survey_take(&s, "nosuch", &o, NULL, &err), -ENODEV);
	assert_non_null(strstr(err.text, "soft0"));
	survey_free(NULL);
}

UNIT_TEST(every_address_says_why_it_failed)
{
	struct addrinfo *one, *two;
	struct error err = { 0 };
	char text[64];
	int fd;

	assert_int_equal(tcp_resolve("127.0.0.1", "1", &one, &err), 0);
	assert_int_equal(tcp_resolve("127.0.0.2", "1", &two, &err), 0);
	one->ai_next = two;
	tcp_list_words(one, text, sizeof(text));
	assert_string_equal(text, "127.0.0.1, 127.0.0.2");
	tcp_list_words(one, text, 5);
	assert_string_equal(text, "127.");
	assert_int_equal(tcp_connect_list(one, "both", "1", time_now_ns() + NS_PER_S, &fd, &err),
			 -ECONNREFUSED);
	assert_non_null(strstr(err.text, "127.0.0.1: Connection refused, 127.0.0.2: Connection"));
	one->ai_next = NULL;
	freeaddrinfo(one);
	freeaddrinfo(two);
}
