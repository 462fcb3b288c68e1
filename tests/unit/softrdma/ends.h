/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For the tests of soft0: one end of a connection, and such an end in another process. */
#include <stdbool.h>
#include <sys/types.h>

#include "common/softrdma/softrdma.h"
#include "tests/lib/unit.h"

#define END_QKEY 0x11223344u
#define END_IOVA 0x12345000000ull
#define END_ALL                                                                      \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct end;

struct end_options {
	enum ibv_qp_type type; /* 0: RC */
	bool mapped; /* memory in a memfd */
	bool channel; /* completion channel on the receive CQ */
	bool sig_all;
	bool private_mr; /* MR without remote access */
	struct ibv_srq *srq;
	struct ibv_context *context; /* share these */
	struct ibv_pd *pd;
	int qp_access; /* 0: END_ALL */
	uint32_t send_wr; /* 0: 64 */
	uint32_t send_sge; /* 0: 4 */
	int cqe; /* 0: 256 */
	bool cq_ex; /* extended CQs, with the standard fields */
	uint32_t cq_flags; /* of those: enum ibv_create_cq_attr_flags */
	bool iova; /* addresses in the MR begin at END_IOVA */
	uint8_t rnr_retry; /* 0 is 0 */
	uint8_t rnr_timer;
	size_t size; /* of the memory; 0: 1 MiB */
	unsigned char *memory; /* that of the caller, instead of some of its own */
	int mr_access; /* 0: END_ALL */
	bool no_rd_atomic; /* neither as initiator nor as responder */
	uint8_t timeout; /* 0: 12 */
	struct ibv_wc (*call)(struct end *end, uint64_t arg); /* what FAR_CALL does */
};

struct end {
	struct end_options options;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* UD, where sends go: this way, to that QP */
	uint32_t dest;
	unsigned char *mem;
	uint64_t base; /* its address in work requests */
	size_t size;
	int fd;
};

/* What the other end must know. */
struct end_info {
	uint32_t qpn, rkey;
	uint64_t addr;
};

void end_open(struct end *end, const struct end_options *options);
void end_close(struct end *end);
struct end_info end_info(const struct end *end);

/* A path from this machine to itself. */
struct ibv_ah_attr end_path(struct ibv_context *context);

/* One transition each. Return what modify_qp returned. Of UD, @dest is where sends go. */
int end_init(struct end *end);
int end_rtr(struct end *end, uint32_t dest);
int end_rts(struct end *end);
void end_connect(struct end *end, uint32_t dest);
int end_to(struct end *end, enum ibv_qp_state state);
enum ibv_qp_state end_state(struct end *end);

/* Post one request on [offset, offset + length) of the end's memory. Returns post's result. */
int end_rdma(struct end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset,
	     uint32_t length, uint64_t remote, uint32_t rkey, unsigned flags);
/* An atomic, signalled; the value before comes to @offset. */
int end_atomic(struct end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t offset,
	       uint64_t remote, uint32_t rkey, uint64_t compare_add, uint64_t swap);
int end_send(struct end *end, uint64_t wr_id, size_t offset, uint32_t length, unsigned flags);
int end_recv(struct end *end, uint64_t wr_id, size_t offset, uint32_t length);

/* Poll for one completion, 5 seconds at most. */
void end_wait(struct ibv_cq *cq, struct ibv_wc *wc);
/* Nothing there, for some time. */
void end_quiet(struct ibv_cq *cq);
/* Wait for a completion of a READ and the like, and check status and id. */
void end_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

/* Two ends in one process, connected to each other. */
void pair_open(struct end *a, struct end *b, const struct end_options *oa,
	       const struct end_options *ob);
void pair_close(struct end *a, struct end *b);

/* An end in a process of its own, which does what it is told. */
struct far {
	pid_t pid;
	int to, from;
	struct end_info info;
};

enum far_op {
	FAR_CONNECT, /* arg: QP number */
	FAR_RECV, /* post a receive of arg bytes at 0; arg is its id too */
	FAR_POLL, /* wait for a receive; its completion comes back */
	FAR_SLEEP, /* the same, asleep on the channel */
	FAR_SEND, /* arg bytes, signalled; its completion comes back */
	FAR_FLOOD, /* arg messages of 64 bytes, numbered in their first 8 */
	FAR_FILL, /* memory with the byte arg */
	FAR_PEEK, /* the byte at arg comes back, in byte_len */
	FAR_DEREG, /* deregister, fill the memory with arg, and see that it stays so */
	FAR_ERROR, /* QP to ERR, then the same */
	FAR_REREG, /* register again; the rkey comes back, in byte_len */
	FAR_CHANGE, /* rereg_mr to what it was, then as DEREG; the rkey comes back, in byte_len */
	FAR_STATE, /* modify to state arg */
	FAR_DESTROY, /* destroy the QP, then the same */
	FAR_FORK, /* have a child that sleeps; its pid comes back, in byte_len */
	FAR_QUERY, /* state comes back, in byte_len */
	FAR_CALL, /* options.call; what it returns comes back */
	FAR_QUIT,
};

/* Before this process opens the device. */
void far_start(struct far *far, const struct end_options *options);
/* Tell it and wait for the answer. */
struct ibv_wc far_do(struct far *far, enum far_op op, uint64_t arg);
/* In two halves. */
void far_ask(struct far *far, enum far_op op, uint64_t arg);
struct ibv_wc far_answer(struct far *far);
void far_stop(struct far *far);
void far_kill(struct far *far);
/* Connect @end and @far. */
void far_connect(struct far *far, struct end *end);

/* An end here and one in another process, connected to each other. */
void far_pair_open(struct far *far, struct end *end, const struct end_options *other,
		   const struct end_options *near);
void far_pair_close(struct far *far, struct end *end);
