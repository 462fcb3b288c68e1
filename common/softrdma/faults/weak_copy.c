/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Hardware says nothing of the order in which the bytes of one request are fetched or placed, and
 * PCIe moves them in lines of 64 bytes. So the lines of each piece are copied in an order that the
 * request's fate decides, with pauses between some of them. A line itself, and an aligned 8-byte
 * word at least, is copied as always.
 *
 * The order is i -> (start + i * step) mod lines, with a step that has no divisor in common with
 * the number of lines: a permutation without a table.
 */
#include "common/softrdma/faults/weak_copy.h"

#include "common/base/time.h"
#include "common/softrdma/faults/dice.h"
#include "common/softrdma/faults/fate.h"

#define LINE	    64
#define LINES_MAX   4096 /* of a piece; longer ones have longer lines */
#define PAUSE_IN    16 /* one line in so many is followed by a pause */
#define SLEEP_IN    4096 /* or by a sleep */
#define PAUSE_SPINS 500
#define SLEEP_NS    50000

static void pause_perhaps(struct soft_dice *dice)
{
	if (dice_one_in(dice, SLEEP_IN))
		time_sleep(SLEEP_NS);
	if (!dice_one_in(dice, PAUSE_IN))
		return;
	for (uint64_t spins = dice_below(dice, PAUSE_SPINS); spins; spins--)
		time_relax();
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* A step through @lines that comes to each of them. */
static uint64_t step_draw(struct soft_dice *dice, uint64_t lines)
{
	uint64_t step = dice_below(dice, lines) | 1;

	while (divisor(step, lines) != 1)
		step++;
	return step;
}

/* One piece of local memory, against the range of @remote of the same length. */
static int weak_piece(struct soft_qp *qp, const struct soft_remote *remote,
		      const struct iovec *piece, struct soft_dice *dice, soft_copy_fn copy)
{
	uint64_t line = LINE, first, lines, start = 0, step = 1;

	while (remote->length / line > LINES_MAX)
		line *= 2;
	first = remote->addr / line;
	lines = (remote->addr + remote->length + line - 1) / line - first;
	if (soft_weak & WEAK_LINES) {
		start = dice_below(dice, lines);
		step = step_draw(dice, lines);
	}
	for (uint64_t i = 0; i < lines; i++) {
		uint64_t from = (first + (start + i * step) % lines) * line, to = from + line;
		struct soft_local near = { .pieces = 1 };
		struct soft_remote far = *remote;
		int rc;

		if (from < remote->addr)
			from = remote->addr;
		if (to > remote->addr + remote->length)
			to = remote->addr + remote->length;
		far.addr = from;
		far.length = to - from;
		if (far.mapped)
			far.mapped += from - remote->addr;
		near.piece[0].iov_base = (unsigned char *)piece->iov_base + (from - remote->addr);
		near.piece[0].iov_len = (size_t)far.length;
		rc = copy(qp, &far, &near);
		if (rc != IBV_WC_SUCCESS)
			return rc;
		if (soft_weak & WEAK_DELAY)
			pause_perhaps(dice);
	}
	return IBV_WC_SUCCESS;
}

int soft_weak_copy(struct soft_qp *qp, const struct soft_remote *remote, struct soft_local *local,
		   soft_copy_fn copy)
{
	struct soft_dice dice = { .state = qp->shuffle };
	struct soft_remote rest = *remote;
	struct iovec near[SHARED_SGES];
	unsigned n = soft_local_rest(local, remote->length, near);

	for (unsigned i = 0; i < n; i++) {
		int rc;

		rest.length = near[i].iov_len;
		rc = weak_piece(qp, &rest, &near[i], &dice, copy);
		if (rc != IBV_WC_SUCCESS)
			return rc;
		rest.addr += near[i].iov_len;
		if (rest.mapped)
			rest.mapped += near[i].iov_len;
	}
	soft_local_advance(local, remote->length);
	return IBV_WC_SUCCESS;
}
