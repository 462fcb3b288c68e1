/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/loopback.h"

#include <errno.h>
#include <string.h>

#include "common/base/random.h"
#include "common/base/time.h"
#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"

#define FIRST_POLLS 1000u /* then it sleeps between polls */
#define PAUSE_NS    100000L

struct loopback {
	const struct rdma_device *dev;
	struct rdma_buffer buffer; /* the bytes to READ, and after them where they go */
	struct rdma_cq cq;
	struct rdma_qp from, to;
};

static int set_up(struct loopback *l, struct error *err)
{
	struct rdma_qp_config config = {
		.cq = &l->cq,
		.max_send = 2,
		.max_recv = 1,
		.remote_access = IBV_ACCESS_REMOTE_READ,
	};
	struct wire_qp offer[2];
	int rc;

	rc = rdma_buffer_create(l->dev, 2 * LOOPBACK_BYTES,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, "a test page",
				&l->buffer, err);
	if (rc == 0)
		rc = rdma_cq_create(l->dev, 8, 0, false, &l->cq, err);
	if (rc == 0)
		rc = rdma_qp_create(l->dev, &config, &l->from, err);
	if (rc == 0)
		rc = rdma_qp_create(l->dev, &config, &l->to, err);
	if (rc)
		return rc;
	rdma_qp_offer(&l->from, &offer[0]);
	rdma_qp_offer(&l->to, &offer[1]);
	rc = rdma_qp_connect(&l->to, &offer[0], err);
	return rc ? rc : rdma_qp_connect(&l->from, &offer[1], err);
}

static int post(struct loopback *l, struct error *err)
{
	uint8_t *source = l->buffer.addr;
	struct ibv_sge sge = {
		.addr = (uintptr_t)(source + LOOPBACK_BYTES),
		.length = LOOPBACK_BYTES,
		.lkey = l->buffer.region.lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)source, .rkey = l->buffer.region.rkey },
	};
	struct ibv_send_wr *bad;
	int rc = random_fill(source, LOOPBACK_BYTES, err);

	if (rc)
		return rc;
	rc = rdma_post_send(l->from.qp, &wr, &bad);
	if (rc)
		return error_set(err, rc, "posting a READ on %s failed: %s", l->dev->name,
				 error_name(rc));
	return 0;
}

/* Until the completion or the deadline. */
static int wait_for(struct loopback *l, unsigned timeout_ms, struct error *err)
{
	uint64_t deadline_ns = time_now_ns() + timeout_ms * NS_PER_MS;
	struct ibv_wc wc;

	for (unsigned polls = 0;; polls++) {
		int n = rdma_poll(l->cq.cq, 1, &wc);

		if (n < 0)
			return error_set(err, n, "polling a completion queue of %s failed: %s",
					 l->dev->name, error_name(n));
		if (n > 0)
			break;
		if (time_now_ns() >= deadline_ns)
			return error_set(
				err, -ETIMEDOUT,
				"a READ from %s to itself had no completion within %u ms (does a "
				"firewall drop UDP port 4791? is its network device up? another "
				"--gid-index?)",
				l->dev->name, timeout_ms);
		if (polls >= FIRST_POLLS)
			time_sleep(PAUSE_NS);
	}
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	return error_set(err, -EIO, "a READ from %s to itself ended with '%s' (%s)", l->dev->name,
			 ibv_wc_status_str(wc.status),
			 wc.status == IBV_WC_RETRY_EXC_ERR
				 ? "its packets do not come back: does a firewall drop UDP port "
				   "4791? is its network device up? another --gid-index?"
			 : wc.status == IBV_WC_REM_ACCESS_ERR
				 ? "the device refuses a key that it has just given: driver or "
				   "firmware"
				 : "dmesg and the device's driver may say more");
}

static int compare(const struct loopback *l, struct error *err)
{
	const uint8_t *source = l->buffer.addr;

	for (unsigned i = 0; i < LOOPBACK_BYTES; i++) {
		if (source[i] != source[LOOPBACK_BYTES + i])
			return error_set(
				err, -EBADMSG,
				"a READ from %s to itself brought other bytes, from byte "
				"%u on (do not use this device; driver, firmware or memory "
				"is broken)",
				l->dev->name, i);
	}
	return 0;
}

int rdma_loopback_read(const struct rdma_device *dev, unsigned timeout_ms, struct error *err)
{
	struct loopback l = { .dev = dev };
	int rc = set_up(&l, err);

	if (rc == 0)
		rc = post(&l, err);
	if (rc == 0)
		rc = wait_for(&l, timeout_ms, err);
	if (rc == 0)
		rc = compare(&l, err);
	rdma_qp_destroy(&l.from); /* first: after it nothing names the buffer */
	rdma_qp_destroy(&l.to);
	rdma_cq_destroy(&l.cq);
	rdma_buffer_destroy(&l.buffer);
	return rc;
}
