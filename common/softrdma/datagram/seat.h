/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Between ud.c and seat.c: the socket of a UD queue pair, and receiving from it. */
#include <stdatomic.h>
#include <stdint.h>

#include "common/softrdma/datagram/datagram.h"

struct soft_qp;

struct soft_ud {
	int fd; /* constant while the QP lives */
	_Atomic uint32_t qkey;
	struct datagram datagram; /* lock of the seat */
};

/* soft_ud_receive - receive up to @count messages, as far as there are any. Holds its seat. */
void soft_ud_receive(struct soft_qp *qp, unsigned count);
