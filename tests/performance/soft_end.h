/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* One end of a connection on soft0, and the process at the other end, for soft-bench. */
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

enum { SOFT_LIST = 16, SOFT_BLOCK = 64 };

struct soft_end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of buffer */
	unsigned char *buffer; /* SOFT_LIST blocks */
};

/* What one end tells the other. */
struct soft_hello {
	uint32_t qpn;
	uint32_t mapped_rkey, private_rkey;
	uint64_t mapped, private; /* addresses of areas of the same size */
	int mapped_fd; /* of the sender */
};

/* The other process. */
struct soft_other {
	pid_t pid;
	int socket;
	struct soft_hello hello;
	unsigned char *mapped; /* its mapped area, mapped by us with no device between */
	size_t size;
};

/* soft_end_open - a queue pair and a buffer. Returns 0 or a negative errno with @err. */
int soft_end_open(struct soft_end *end, struct error *err);
void soft_end_close(struct soft_end *end);

/* soft_end_connect - to RTS. Returns 0 or a negative errno with @err. */
int soft_end_connect(struct soft_end *end, uint32_t qpn, struct error *err);

/* soft_end_wait - poll until one request is done. Returns 0, or -EIO where it failed. */
int soft_end_wait(struct soft_end *end);

/*
 * soft_other_start - execute this program again, as the other process, with two areas of @size
 * bytes, and connect @end to it. It dies with us. Returns 0 or a negative errno with @err.
 */
int soft_other_start(struct soft_other *other, struct soft_end *end, size_t size,
		     struct error *err);

/* soft_other_echo - have it answer @count SENDs, each with one, from when this returns. */
int soft_other_echo(struct soft_other *other, uint64_t count);

/* soft_other_ready - wait until it has done so. Returns 0 or a negative errno. */
int soft_other_ready(const struct soft_other *other);

/* soft_other_stop - end it. Returns its exit status, or a negative errno. */
int soft_other_stop(struct soft_other *other);

/* soft_other_main - be the other process. Returns its exit status. */
int soft_other_main(int socket, size_t size);

/* soft_post_receive - one block of the buffer. Returns 0 or a positive errno. */
int soft_post_receive(struct soft_end *end, unsigned block);

/* soft_post_message - SEND one block. Returns 0 or a positive errno. */
int soft_post_message(struct soft_end *end, unsigned block);
