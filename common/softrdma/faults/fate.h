/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What is to happen to a request, for tests: SOFTRDMA_WEAK makes soft0 as unkind as hardware may
 * be, SOFTRDMA_FAULT lets requests fail. docs/SOFTRDMA.md has their grammar.
 *
 * A fate is drawn when its request is posted, from the dice of its QP. The dice of the n-th QP of
 * a process since it opened the device follow from the seed and n alone, so that a program that
 * creates the same QPs and posts the same requests gets the same fates, whatever the timing.
 */
#include <stdbool.h>
#include <stdint.h>

struct soft_qp;
struct ibv_send_wr;

struct soft_fate {
	uint64_t begins_ns; /* not executed before that time */
	uint64_t shows_ns; /* once executed: not completed before that time */
	uint32_t defer_ns; /* from execution to completion, at least */
	uint32_t shuffle; /* seed for the order of the lines of its copies */
	uint8_t drops; /* so many times it, or its answer, is lost */
	uint8_t lost; /* of them have happened */
	uint8_t rnrs; /* so many times its peer claims to have no receive */
	uint8_t rnr_seen; /* of them have happened */
	bool answer_lost; /* a READ whose answer is lost is executed and sent again */
	bool twice; /* a READ that is executed again before it completes */
	bool breaks; /* the QP fails at it */
};

/* WEAK_*: features of SOFTRDMA_WEAK. */
enum {
	WEAK_COMPLETIONS = 1, /* late completions */
	WEAK_REORDER = 2, /* READs and atomics late, later requests before them */
	WEAK_TWICE = 4, /* READs executed again */
	WEAK_LINES = 8, /* lines of 64 bytes copied in any order */
	WEAK_DELAY = 16, /* pauses inside copies */
	WEAK_LATE = 32, /* WRITEs and SENDs executed late, so that their buffers are read late */
	WEAK_ALL = 63,
};

/* Both constant while the device is open. */
extern bool soft_fates; /* requests have fates: the slow way through fated.c */
extern unsigned soft_weak; /* WEAK_* */

/*
 * soft_fates_start - read the environment, with the first open context. Returns 0, or -EINVAL for a
 * value that means nothing, which was told on stderr.
 */
int soft_fates_start(void);

/* soft_fates_qp - @qp is new: its dice. */
void soft_fates_qp(struct soft_qp *qp);

/* soft_fate_draw - the fate of the next request of @qp. Holds qp->sq. */
void soft_fate_draw(struct soft_qp *qp, const struct ibv_send_wr *wr, struct soft_fate *fate);
