/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/performance/soft_end.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/softrdma/softrdma.h"

#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define TIMEOUT 18 /* a second, */
#define RETRIES 7 /* so often */

int soft_end_open(struct soft_end *end, struct error *err)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 4 * SOFT_LIST,
						  .max_recv_wr = SOFT_LIST,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	memset(end, 0, sizeof(*end));
	end->context = softrdma_open_device(softrdma_device());
	if (!end->context)
		return error_set(err, -errno, "opening soft0: %s", error_name(errno));
	end->pd = softrdma_alloc_pd(end->context);
	end->cq = softrdma_create_cq(end->context, 8 * SOFT_LIST, NULL, NULL, 0);
	end->buffer = aligned_alloc(4096, 4096);
	if (end->pd && end->buffer)
		end->mr = softrdma_reg_mr(end->pd, end->buffer, SOFT_LIST * SOFT_BLOCK, ACCESS);
	init.send_cq = init.recv_cq = end->cq;
	if (end->cq && end->mr)
		end->qp = softrdma_create_qp(end->pd, &init);
	if (end->qp)
		return 0;
	return error_set(err, -errno, "making a queue pair: %s", error_name(errno));
}

void soft_end_close(struct soft_end *end)
{
	if (end->qp)
		softrdma_destroy_qp(end->qp);
	if (end->mr)
		softrdma_dereg_mr(end->mr);
	if (end->cq)
		softrdma_destroy_cq(end->cq);
	if (end->pd)
		softrdma_dealloc_pd(end->pd);
	if (end->context)
		softrdma_close_device(end->context);
	free(end->buffer);
	memset(end, 0, sizeof(*end));
}

int soft_end_connect(struct soft_end *end, uint32_t qpn, struct error *err)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = ACCESS,
				    .path_mtu = IBV_MTU_4096,
				    .dest_qp_num = qpn,
				    .max_dest_rd_atomic = 16,
				    .max_rd_atomic = 16,
				    .min_rnr_timer = 1,
				    .timeout = TIMEOUT,
				    .retry_cnt = RETRIES,
				    .rnr_retry = 7,
				    .ah_attr = { .is_global = 1, .port_num = 1 } };
	int rc;

	softrdma_query_gid(end->context, 1, 0, &attr.ah_attr.grh.dgid);
	rc = softrdma_modify_qp(end->qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	if (rc == 0)
		rc = softrdma_modify_qp(end->qp, &attr,
					IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	if (rc == 0)
		rc = softrdma_modify_qp(end->qp, &attr,
					IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
						IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC);
	return rc ? error_set(err, -rc, "connecting a queue pair: %s", error_name(rc)) : 0;
}

int soft_end_wait(struct soft_end *end)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(end->cq, 1, &wc)) == 0)
		;
	return n == 1 && wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

int soft_post_receive(struct soft_end *end, unsigned block)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->buffer + block * SOFT_BLOCK,
			       .length = SOFT_BLOCK,
			       .lkey = end->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

int soft_post_message(struct soft_end *end, unsigned block)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->buffer + block * SOFT_BLOCK,
			       .length = SOFT_BLOCK,
			       .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	return ibv_post_send(end->qp, &wr, &bad);
}

/* The other process. */

/* Both areas, each byte written, and registered. */
static int areas_open(struct soft_end *end, size_t size, struct soft_hello *hello)
{
	int fd = memfd_create("soft-bench", MFD_CLOEXEC);
	struct ibv_mr *mapped_mr, *private_mr;
	void *mapped, *private;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED || private == MAP_FAILED)
		return -errno;
	memset(mapped, 1, size);
	memset(private, 2, size);
	mapped_mr = softrdma_reg_mr(end->pd, mapped, size, ACCESS);
	private_mr = softrdma_reg_mr(end->pd, private, size, ACCESS);
	if (!mapped_mr || !private_mr)
		return -errno;
	*hello = (struct soft_hello){ .qpn = end->qp->qp_num,
				      .mapped_rkey = mapped_mr->rkey,
				      .private_rkey = private_mr->rkey,
				      .mapped = (uintptr_t)mapped,
				      .private = (uintptr_t) private,
				      .mapped_fd = fd };
	return 0;
}

/* Answer @count messages. Requests and receives complete to the same queue. */
static int echo(struct soft_end *end, uint64_t count)
{
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		struct ibv_wc wc = { .opcode = IBV_WC_SEND };

		while (rc == 0 && wc.opcode != IBV_WC_RECV) {
			rc = ibv_poll_cq(end->cq, 1, &wc);
			rc = rc < 0 || (rc == 1 && wc.status != IBV_WC_SUCCESS) ? -EIO : 0;
		}
		if (rc == 0)
			rc = soft_post_receive(end, 0);
		if (rc == 0)
			rc = soft_post_message(end, 1);
	}
	return rc;
}

int soft_other_main(int socket, size_t size)
{
	struct soft_hello hello, peer;
	struct soft_end end;
	struct error err = { 0 };
	uint64_t count;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rc = soft_end_open(&end, &err);
	if (rc == 0)
		rc = areas_open(&end, size, &hello);
	if (rc == 0 && (write(socket, &hello, sizeof(hello)) != sizeof(hello) ||
			read(socket, &peer, sizeof(peer)) != sizeof(peer)))
		rc = -EPIPE;
	if (rc == 0)
		rc = soft_end_connect(&end, peer.qpn, &err);
	if (rc == 0)
		rc = soft_post_receive(&end, 0);
	count = 0; /* says that all is well, here and after each order */
	while (rc == 0 && write(socket, &count, sizeof(count)) == sizeof(count)) {
		if (read(socket, &count, sizeof(count)) != sizeof(count) || !count)
			return 0;
		rc = echo(&end, count);
	}
	if (rc)
		fprintf(stderr, "soft-bench: the other process: %s\n",
			err.text[0] ? err.text : strerror(rc < 0 ? -rc : rc));
	return 1;
}

static void other_execute(int socket, size_t size)
{
	char fd[16], bytes[32];

	snprintf(fd, sizeof(fd), "%d", socket);
	snprintf(bytes, sizeof(bytes), "%zu", size);
	fcntl(socket, F_SETFD, 0);
	execl("/proc/self/exe", "soft-bench", "--other", fd, bytes, (char *)NULL);
	_exit(127);
}

int soft_other_ready(const struct soft_other *other)
{
	uint64_t zero;

	return read(other->socket, &zero, sizeof(zero)) == sizeof(zero) ? 0 : -EPIPE;
}

int soft_other_start(struct soft_other *other, struct soft_end *end, size_t size, struct error *err)
{
	struct soft_hello own = { .qpn = end->qp->qp_num };
	char path[64];
	int pair[2], fd, rc;

	other->size = size;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, -errno, "socketpair failed: %s", error_name(errno));
	other->pid = fork();
	if (other->pid == 0)
		other_execute(pair[1], size);
	close(pair[1]);
	other->socket = pair[0];
	if (read(pair[0], &other->hello, sizeof(other->hello)) != sizeof(other->hello))
		return error_set(err, -EPIPE, "the other process did not start");
	/* The file itself, for copies without the device. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)other->pid, other->hello.mapped_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, -errno, "opening %s: %s", path, error_name(errno));
	other->mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (other->mapped == MAP_FAILED)
		return error_set(err, -errno, "mapping %zu bytes: %s", size, error_name(errno));
	rc = soft_end_connect(end, other->hello.qpn, err);
	if (rc)
		return rc;
	if (write(pair[0], &own, sizeof(own)) != sizeof(own) || soft_other_ready(other))
		return error_set(err, -EPIPE, "the other process has ended");
	return 0;
}

int soft_other_echo(struct soft_other *other, uint64_t count)
{
	return write(other->socket, &count, sizeof(count)) == sizeof(count) ? 0 : -EPIPE;
}

int soft_other_stop(struct soft_other *other)
{
	int status;

	if (other->pid <= 0)
		return 0;
	close(other->socket); /* it reads the end, and ends */
	if (waitpid(other->pid, &status, 0) < 0)
		return -errno;
	other->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}
