/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * modify_qp against a table of its own, written down from qp_state_table of the kernel's
 * drivers/infiniband/core/verbs.c: every pair of states of every service, with each attribute
 * missing and each too many; and the range of every attribute.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ends.h"

#define BITS	  26
#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

static const struct {
	const char *name;
	int bit;
} names[] = {
	{ "cur", IBV_QP_CUR_STATE },
	{ "sqd_event", IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ "access", IBV_QP_ACCESS_FLAGS },
	{ "pkey", IBV_QP_PKEY_INDEX },
	{ "port", IBV_QP_PORT },
	{ "qkey", IBV_QP_QKEY },
	{ "av", IBV_QP_AV },
	{ "mtu", IBV_QP_PATH_MTU },
	{ "timeout", IBV_QP_TIMEOUT },
	{ "retry", IBV_QP_RETRY_CNT },
	{ "rnr", IBV_QP_RNR_RETRY },
	{ "rq_psn", IBV_QP_RQ_PSN },
	{ "rd", IBV_QP_MAX_QP_RD_ATOMIC },
	{ "alt", IBV_QP_ALT_PATH },
	{ "rnr_timer", IBV_QP_MIN_RNR_TIMER },
	{ "sq_psn", IBV_QP_SQ_PSN },
	{ "dest_rd", IBV_QP_MAX_DEST_RD_ATOMIC },
	{ "mig", IBV_QP_PATH_MIG_STATE },
	{ "dest", IBV_QP_DEST_QPN },
};

static const struct row {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	const char *required, *optional;
} rows[] = {
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, "pkey port access", "" },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, "", "pkey port access" },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, "av mtu dest rq_psn dest_rd rnr_timer",
	  "alt access pkey" },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, "timeout retry rnr sq_psn rd",
	  "cur alt access rnr_timer mig" },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, "", "cur access alt mig rnr_timer" },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, "", "sqd_event" },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, "", "cur alt access rnr_timer mig" },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, "",
	  "port av timeout retry rnr rd dest_rd alt access pkey rnr_timer mig" },

	{ IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, "pkey port access", "" },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_INIT, "", "pkey port access" },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, "av mtu dest rq_psn", "alt access pkey" },
	{ IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, "sq_psn", "cur alt access mig" },
	{ IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, "", "cur access alt mig" },
	{ IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_SQD, "", "sqd_event" },
	{ IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_RTS, "", "cur alt access mig" },
	{ IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, "", "av alt access pkey mig" },
	{ IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS, "", "cur access" },

	{ IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, "pkey port qkey", "" },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, "", "pkey port qkey" },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, "", "pkey qkey" },
	{ IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, "sq_psn", "cur qkey" },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, "", "cur qkey" },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, "", "sqd_event" },
	{ IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, "", "cur qkey" },
	{ IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD, "", "pkey qkey" },
	{ IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, "", "cur qkey" },
};

static int mask_of(const char *words)
{
	char copy[128], *save, *word;
	int mask = 0;

	snprintf(copy, sizeof(copy), "%s", words);
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		unsigned i = 0;

		while (strcmp(names[i].name, word) != 0)
			assert_true(++i < sizeof(names) / sizeof(names[0]));
		mask |= names[i].bit;
	}
	return mask;
}

/* NULL: no such transition. */
static const struct row *row_of(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const struct row plain = { .required = "", .optional = "" };

	/* to RESET from all, to ERR from all but RESET */
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return &plain;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].type == type && rows[i].from == from && rows[i].to == to)
			return &rows[i];
	}
	return NULL;
}

/* Values that are all valid in @from. */
static struct ibv_qp_attr good_attr(struct end *end, enum ibv_qp_state from)
{
	struct ibv_qp_attr attr = { .cur_qp_state = from,
				    .path_mtu = IBV_MTU_1024,
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ,
				    .dest_qp_num = end->qp->qp_num,
				    .ah_attr = { .is_global = 1, .port_num = 1 },
				    .alt_ah_attr = { .is_global = 1, .port_num = 1 },
				    .qkey = END_QKEY,
				    .port_num = 1,
				    .alt_port_num = 1,
				    .timeout = 14,
				    .max_rd_atomic = 1,
				    .max_dest_rd_atomic = 1 };

	assert_ok(softrdma_query_gid(end->context, 1, 0, &attr.ah_attr.grh.dgid));
	attr.alt_ah_attr.grh.dgid = attr.ah_attr.grh.dgid;
	return attr;
}

static int go(struct end *end, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = good_attr(end, from);

	attr.qp_state = to;
	return softrdma_modify_qp(end->qp, &attr, mask);
}

static void send_bad(struct end *end)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem, .length = 8, .lkey = 0x12345678 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	if (end->ah)
		wr.wr.ud.ah = end->ah;
	assert_ok(ibv_post_send(end->qp, &wr, &bad));
}

/* Bring it to @to from the start, by the shortest way. */
static void bring(struct end *end, enum ibv_qp_state to)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	enum ibv_qp_state at = IBV_QPS_RESET;

	assert_ok(end_to(end, IBV_QPS_RESET));
	for (unsigned i = 0; i < 3 && at != to; i++) {
		if (to == IBV_QPS_ERR && at == IBV_QPS_INIT)
			break;
		assert_ok(
			go(end, at, way[i],
			   IBV_QP_STATE | mask_of(row_of(end->qp->qp_type, at, way[i])->required)));
		at = way[i];
	}
	if (to == IBV_QPS_SQD || to == IBV_QPS_ERR)
		assert_ok(end_to(end, to));
	if (to == IBV_QPS_SQE)
		send_bad(end);
	assert_int_equal(end_state(end), to);
}

static void attempt(struct end *end, enum ibv_qp_state from, enum ibv_qp_state to, int mask,
		    int expected)
{
	int rc = go(end, from, to, IBV_QP_STATE | mask);

	if (rc != expected)
		fail_msg("type %d, %d to %d, mask %#x: %d, not %d", end->qp->qp_type, from, to,
			 mask, rc, expected);
	assert_int_equal(end_state(end), rc ? from : to);
	if (rc == 0)
		bring(end, from);
}

static void walk_pair(struct end *end, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const struct row *row = row_of(end->qp->qp_type, from, to);
	int required = row ? mask_of(row->required) : 0;
	int optional = row ? mask_of(row->optional) : 0;

	attempt(end, from, to, required, row ? 0 : EINVAL);
	attempt(end, from, to, required | (optional & ~MIGRATION), row ? 0 : EINVAL);
	for (unsigned i = 0; i < BITS; i++) {
		int bit = 1 << i, expected = EINVAL;

		if (bit == IBV_QP_STATE)
			continue;
		if (optional & bit)
			expected = bit & MIGRATION ? EOPNOTSUPP : 0;
		attempt(end, from, to, required ^ bit, expected);
	}
}

static void walk(enum ibv_qp_type type)
{
	struct end_options options = { .type = type };
	struct end end;

	end_open(&end, &options);
	for (enum ibv_qp_state from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
		if (from == IBV_QPS_SQE && type == IBV_QPT_RC)
			continue; /* it never gets there */
		bring(&end, from);
		for (enum ibv_qp_state to = IBV_QPS_RESET; to <= IBV_QPS_ERR + 2; to++)
			walk_pair(&end, from, to);
	}
	end_close(&end);
}

UNIT_TEST(test_walk)
{
	walk(IBV_QPT_RC);
	walk(IBV_QPT_UC);
	walk(IBV_QPT_UD);
}

/* Without IBV_QP_STATE the state stays, where it may. */
UNIT_TEST(test_stay)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct end end;

	end_open(&end, &options);
	bring(&end, IBV_QPS_RTS);
	assert_ok(go(&end, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_QKEY));
	assert_int_equal(end_state(&end), IBV_QPS_RTS);
	bring(&end, IBV_QPS_RTR);
	assert_int_equal(go(&end, IBV_QPS_RTR, IBV_QPS_ERR, IBV_QP_QKEY), EINVAL);
	end_close(&end);
}

struct range {
	enum ibv_qp_state from, to;
	int bit;
	size_t offset, size;
	uint32_t good[4], bad[4];
	unsigned goods, bads; /* how many */
};

#define FIELD(name) offsetof(struct ibv_qp_attr, name), sizeof(((struct ibv_qp_attr *)NULL)->name)

#define IN_INIT IBV_QPS_INIT, IBV_QPS_INIT
#define TO_RTR	IBV_QPS_INIT, IBV_QPS_RTR
#define TO_RTS	IBV_QPS_RTR, IBV_QPS_RTS

static const struct range ranges[] = {
	{ IN_INIT, IBV_QP_PKEY_INDEX, FIELD(pkey_index), { 0 }, { 1 }, 1, 1 },
	{ IN_INIT, IBV_QP_PORT, FIELD(port_num), { 1 }, { 0, 2, 255 }, 1, 3 },
	{ IN_INIT,
	  IBV_QP_ACCESS_FLAGS,
	  FIELD(qp_access_flags),
	  { 0, 15 },
	  { IBV_ACCESS_MW_BIND, 1u << 31 },
	  2,
	  2 },
	{ TO_RTR,
	  IBV_QP_PATH_MTU,
	  FIELD(path_mtu),
	  { IBV_MTU_256, IBV_MTU_4096 },
	  { 0, IBV_MTU_4096 + 1 },
	  2,
	  2 },
	{ TO_RTR,
	  IBV_QP_DEST_QPN,
	  FIELD(dest_qp_num),
	  { 0xffffff },
	  { 0x1000000, UINT32_MAX },
	  1,
	  2 },
	{ TO_RTR,
	  IBV_QP_MAX_DEST_RD_ATOMIC,
	  FIELD(max_dest_rd_atomic),
	  { 0, 16 },
	  { 17, 255 },
	  2,
	  2 },
	{ TO_RTR, IBV_QP_MIN_RNR_TIMER, FIELD(min_rnr_timer), { 0, 31 }, { 32, 255 }, 2, 2 },
	{ TO_RTS, IBV_QP_TIMEOUT, FIELD(timeout), { 0, 31 }, { 32, 255 }, 2, 2 },
	{ TO_RTS, IBV_QP_RETRY_CNT, FIELD(retry_cnt), { 0, 7 }, { 8, 255 }, 2, 2 },
	{ TO_RTS, IBV_QP_RNR_RETRY, FIELD(rnr_retry), { 0, 7 }, { 8, 255 }, 2, 2 },
	{ TO_RTS, IBV_QP_MAX_QP_RD_ATOMIC, FIELD(max_rd_atomic), { 0, 16 }, { 17, 255 }, 2, 2 },
	{ IBV_QPS_RTS,
	  IBV_QPS_RTS,
	  IBV_QP_CUR_STATE,
	  FIELD(cur_qp_state),
	  { IBV_QPS_RTS },
	  { IBV_QPS_RESET, IBV_QPS_SQD, IBV_QPS_SQE },
	  1,
	  3 },
};

static int range_try(struct end *end, const struct range *range, uint32_t value)
{
	struct ibv_qp_attr attr = good_attr(end, range->from);

	bring(end, range->from);
	attr.qp_state = range->to;
	memcpy((char *)&attr + range->offset, &value, range->size);
	return softrdma_modify_qp(
		end->qp, &attr,
		IBV_QP_STATE | range->bit |
			mask_of(row_of(IBV_QPT_RC, range->from, range->to)->required));
}

UNIT_TEST(test_ranges)
{
	struct end_options options = { .type = IBV_QPT_RC };
	struct end end;

	end_open(&end, &options);
	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		const struct range *range = &ranges[i];

		for (unsigned k = 0; k < range->goods; k++)
			assert_ok(range_try(&end, range, range->good[k]));
		for (unsigned k = 0; k < range->bads; k++) {
			assert_int_equal(range_try(&end, range, range->bad[k]), EINVAL);
			assert_int_equal(end_state(&end), range->from);
		}
	}
	end_close(&end);
}

/* What modify sets is what query tells, and a failed modify sets nothing. */
UNIT_TEST(test_stored)
{
	struct end_options options = { .type = IBV_QPT_UD };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct end end;

	end_open(&end, &options);
	bring(&end, IBV_QPS_RTS);
	attr.qkey = 0x80000001;
	assert_ok(softrdma_modify_qp(end.qp, &attr, IBV_QP_QKEY));
	assert_ok(softrdma_query_qp(end.qp, &attr, IBV_QP_QKEY, &init));
	assert_int_equal(attr.qkey, 0x80000001);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
	attr.qkey = 7;
	attr.cur_qp_state = IBV_QPS_SQD;
	assert_int_equal(softrdma_modify_qp(end.qp, &attr, IBV_QP_QKEY | IBV_QP_CUR_STATE), EINVAL);
	assert_ok(softrdma_query_qp(end.qp, &attr, IBV_QP_QKEY, &init));
	assert_int_equal(attr.qkey, 0x80000001);
	end_close(&end);
}
