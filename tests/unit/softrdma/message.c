/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "message.h"

#include <endian.h>

struct message message_to(const struct end *from, const struct end *to)
{
	return (struct message){ .ah = from->ah,
				 .qpn = to->qp->qp_num,
				 .qkey = END_QKEY,
				 .length = 8,
				 .flags = IBV_SEND_SIGNALED,
				 .opcode = IBV_WR_SEND };
}

void message_send(struct end *end, const struct message *message, enum ibv_wc_status status)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem,
			       .length = message->length,
			       .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 0x77,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = message->opcode,
				  .send_flags = message->flags,
				  .imm_data = htobe32(0xfeed),
				  .wr.ud = { .ah = message->ah,
					     .remote_qpn = message->qpn,
					     .remote_qkey = message->qkey } },
			   *bad;

	assert_ok(ibv_post_send(end->qp, &wr, &bad));
	end_expect(end->send_cq, 0x77, status);
}

void message_next(struct end *a, struct end *b, uint64_t wr_id)
{
	struct message last = message_to(a, b);
	struct ibv_wc wc;

	last.length = 3;
	message_send(a, &last, IBV_WC_SUCCESS);
	end_wait(b->recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.byte_len, GRH + 3);
}
