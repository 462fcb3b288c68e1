/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * SOFTRDMA_LINK: an InfiniBand port, and that the two links do not reach each other. A process has
 * one link for its life, so that each test runs in children; this process never opens the device.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

#include "common/softrdma/objects/ah.h"

#define CHILD_S 60

/* Inside a child a failed check is the end of it. */
#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what); \
			_exit(1);                                                  \
		}                                                                  \
	} while (0)

struct child {
	pid_t pid;
	int to, from; /* pipes */
};

typedef void (*child_fn)(int from, int to);

static struct child child_start(const char *link, child_fn run)
{
	struct child child;
	int to[2], from[2];

	assert_ok(pipe(to));
	assert_ok(pipe(from));
	fflush(NULL);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		alarm(CHILD_S);
		close(to[1]);
		close(from[0]);
		if (link)
			setenv("SOFTRDMA_LINK", link, 1);
		else
			unsetenv("SOFTRDMA_LINK");
		run(to[0], from[1]);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child.to = to[1];
	child.from = from[0];
	return child;
}

static void child_end(struct child *child)
{
	int status;

	close(child->to);
	close(child->from);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_int_equal(status, 0);
}

static void alone(const char *link, child_fn run)
{
	struct child child = child_start(link, run);

	child_end(&child);
}

static void ib_port(int from, int to)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_gid_entry entry, table[1];
	struct ibv_port_attr port;
	struct ibv_device_attr dev;
	union ibv_gid gid;

	(void)from;
	(void)to;
	CHECK(softrdma_query_port(context, 1, &port) == 0);
	CHECK(port.link_layer == IBV_LINK_LAYER_INFINIBAND);
	CHECK(port.lid == 1 && port.lmc == 0 && port.sm_lid == 1);
	CHECK(port.gid_tbl_len == 1 && port.flags == 0);
	CHECK(!(port.port_cap_flags & IBV_PORT_IP_BASED_GIDS));
	CHECK(softrdma_query_gid(context, 1, 0, &gid) == 0);
	CHECK(softrdma_query_gid(context, 1, 1, &gid) == -1);
	CHECK(gid.raw[0] == 0xfe && gid.raw[1] == 0x80 && gid.raw[15] == 2);
	CHECK(softrdma_query_gid_ex(context, 1, 0, &entry, 0) == 0);
	CHECK(entry.gid_type == IBV_GID_TYPE_IB && entry.ndev_ifindex == 0);
	CHECK(softrdma_query_gid_ex(context, 1, 1, &entry, 0) == ENODATA);
	CHECK(softrdma_query_gid_table(context, table, 1, 0, sizeof(entry)) == 1);
	CHECK(softrdma_query_device(context, &dev) == 0);
	CHECK(dev.node_guid != 0 && dev.node_guid != gid.global.interface_id);
	CHECK(softrdma_close_device(context) == 0);
}

static void ib_paths(int from, int to)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_pd *pd = softrdma_alloc_pd(context);
	struct ibv_wc wc = { .slid = 1, .sl = 4 };
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 1 }, bad;
	struct ibv_ah *ah;

	(void)from;
	(void)to;
	ah = softrdma_create_ah(pd, &attr);
	CHECK(ah && softrdma_destroy_ah(ah) == 0);
	bad = attr;
	bad.dlid = 0;
	CHECK(!softrdma_create_ah(pd, &bad) && errno == EINVAL);
	bad.dlid = 2;
	CHECK(!softrdma_create_ah(pd, &bad) && errno == EINVAL);
	/* a GRH may be there, and is looked at then */
	attr.is_global = 1;
	CHECK(!softrdma_create_ah(pd, &attr) && errno == EINVAL);
	CHECK(softrdma_query_gid(context, 1, 0, &attr.grh.dgid) == 0);
	ah = softrdma_create_ah(pd, &attr);
	CHECK(ah && softrdma_destroy_ah(ah) == 0);
	bad = attr;
	bad.grh.sgid_index = 1;
	CHECK(!softrdma_create_ah(pd, &bad) && errno == EINVAL);
	bad = attr;
	bad.dlid = 0; /* the GRH alone leads nowhere */
	CHECK(!softrdma_create_ah(pd, &bad) && errno == EINVAL);
	/* the way back without a GRH */
	ah = softrdma_create_ah_from_wc(pd, &wc, NULL, 1);
	CHECK(ah && soft_ah(ah)->attr.dlid == 1 && !soft_ah(ah)->attr.is_global);
	CHECK(soft_ah(ah)->attr.sl == 4);
	CHECK(softrdma_destroy_ah(ah) == 0);
	wc.slid = 0;
	CHECK(!softrdma_create_ah_from_wc(pd, &wc, NULL, 1));
	CHECK(softrdma_dealloc_pd(pd) == 0);
	CHECK(softrdma_close_device(context) == 0);
}

UNIT_TEST(test_ib)
{
	alone("ib", ib_port);
	alone("ib", ib_paths);
}

static void is_ethernet(int from, int to)
{
	struct ibv_context *context = softrdma_open_device(softrdma_device());
	struct ibv_port_attr port;

	(void)from;
	(void)to;
	CHECK(softrdma_query_port(context, 1, &port) == 0);
	CHECK(port.link_layer == IBV_LINK_LAYER_ETHERNET && port.gid_tbl_len == 4);
	CHECK(softrdma_close_device(context) == 0);
}

/* The sentence goes to stderr, which is the pipe here. */
static void is_ethernet_aloud(int from, int to)
{
	dup2(to, STDERR_FILENO);
	is_ethernet(from, to);
}

static void ib_port_aloud(int from, int to)
{
	dup2(to, STDERR_FILENO);
	ib_port(from, to);
}

static void silent(const char *link, child_fn run)
{
	struct child child = child_start(link, run);
	char text[256];

	assert_ok(read(child.from, text, sizeof(text)));
	child_end(&child);
}

UNIT_TEST(test_other_words)
{
	struct child child;
	char text[256] = "";

	alone("", is_ethernet);
	alone("roce", is_ethernet);
	child = child_start("infiniband", is_ethernet_aloud);
	assert_true(read(child.from, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "SOFTRDMA_LINK=infiniband is ignored"));
	child_end(&child);
	silent(NULL, is_ethernet_aloud);
	silent("ib", ib_port_aloud);
}

/* What the two ends of a connection tell each other. */
struct greeting {
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint32_t qpn;
};

static void fill_rtr(struct ibv_qp_attr *attr, uint32_t dest)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTR;
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = dest;
	attr->max_dest_rd_atomic = 1;
	attr->ah_attr.port_num = 1;
}

/*
 * Greet, and connect to the answering peer: first with its address, which must be refused, with GRH
 * and without; then with an address of our own link, and its QP number.
 */
static void stranger(int from, int to)
{
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct end_options options = { .mapped = false };
	struct greeting mine, his;
	struct ibv_qp_attr attr;
	struct end end;
	struct ibv_wc wc;
	char done = 1;

	end_open(&end, &options);
	CHECK(softrdma_query_port(end.context, 1, &mine.port) == 0);
	CHECK(softrdma_query_gid(end.context, 1, 0, &mine.gid) == 0);
	mine.qpn = end.qp->qp_num;
	CHECK(write(to, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(from, &his, sizeof(his)) == sizeof(his));
	CHECK(his.port.link_layer != mine.port.link_layer);
	CHECK(end_init(&end) == 0);
	fill_rtr(&attr, his.qpn);
	attr.ah_attr.dlid = his.port.lid;
	CHECK(softrdma_modify_qp(end.qp, &attr, rtr) == EINVAL);
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.dgid = his.gid;
	CHECK(softrdma_modify_qp(end.qp, &attr, rtr) == EINVAL);
	fill_rtr(&attr, his.qpn);
	attr.ah_attr = end_path(end.context);
	CHECK(softrdma_modify_qp(end.qp, &attr, rtr) == 0);
	CHECK(end_rts(&end) == 0);
	CHECK(write(to, &done, 1) == 1); /* both are there now */
	CHECK(read(from, &done, 1) == 1);
	CHECK(end_recv(&end, 1, 0, 64) == 0);
	CHECK(end_send(&end, 2, 0, 8, IBV_SEND_SIGNALED) == 0);
	for (int i = 0; i < 5000; i++) {
		if (ibv_poll_cq(end.send_cq, 1, &wc))
			break;
		usleep(1000);
		CHECK(i < 4999);
	}
	CHECK(wc.wr_id == 2 && wc.status == IBV_WC_RETRY_EXC_ERR);
	CHECK(write(to, &done, 1) == 1); /* neither goes before both have tried */
	CHECK(read(from, &done, 1) == 1);
	end_close(&end);
}

/* Datagrams, to the number of his QP by a path of our own link: lost, as to nobody. */
static void stranger_ud(int from, int to)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct greeting mine = { .qpn = 0 }, his;
	struct end end;
	char done = 1;

	end_open(&end, &options);
	mine.qpn = end.qp->qp_num;
	CHECK(write(to, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(from, &his, sizeof(his)) == sizeof(his));
	end_connect(&end, his.qpn);
	CHECK(end_recv(&end, 1, 0, 64) == 0);
	CHECK(write(to, &done, 1) == 1); /* both are there now */
	CHECK(read(from, &done, 1) == 1);
	CHECK(end_send(&end, 2, 0, 8, IBV_SEND_SIGNALED) == 0);
	end_expect(end.send_cq, 2, IBV_WC_SUCCESS);
	CHECK(write(to, &done, 1) == 1); /* both have sent */
	CHECK(read(from, &done, 1) == 1);
	end_quiet(end.recv_cq);
	end_close(&end);
}

static void relay(struct child *a, struct child *b, size_t size)
{
	char bytes[256];

	assert_true(size <= sizeof(bytes));
	assert_int_equal(read(a->from, bytes, size), size);
	assert_int_equal(write(b->to, bytes, size), size);
}

static void apart(child_fn run)
{
	struct child ib = child_start("ib", run), roce = child_start("roce", run);

	for (unsigned i = 0; i < 3; i++) {
		size_t size = i ? 1 : sizeof(struct greeting);

		relay(&ib, &roce, size);
		relay(&roce, &ib, size);
	}
	child_end(&ib);
	child_end(&roce);
}

UNIT_TEST(test_apart)
{
	apart(stranger);
	apart(stranger_ud);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
