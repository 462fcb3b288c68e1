/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * SOFTRDMA_FAULT, for tests: a list of what shall fail or be slow. Calls by number, requests at
 * random under a seed. docs/SOFTRDMA.md has the grammar.
 */
#include <stdbool.h>
#include <stdint.h>

struct ibv_context;

/* Calls. FAULT_RTR is a modify_qp to RTR, and counts as a FAULT_MODIFY_QP too. */
enum fault_point {
	FAULT_ALLOC_PD,
	FAULT_REG_MR,
	FAULT_DEREG_MR,
	FAULT_CREATE_CQ,
	FAULT_CREATE_QP,
	FAULT_MODIFY_QP,
	FAULT_RTR,
	FAULT_DESTROY_QP,
	FAULT_POINTS
};

/* What fates are made of; constant while the device is open. */
struct soft_fault_rates {
	uint64_t seed;
	uint64_t drop_in; /* one in so many requests is lost; 0: none */
	uint64_t rnr_in; /* one in so many finds no receive */
	uint64_t break_at; /* each QP fails at that request; 0: none */
	uint64_t delay_ns; /* requests wait up to that */
};

extern struct soft_fault_rates soft_fault_rates;

/* soft_fault_start - read the environment. Returns 0 or -EINVAL after a word on stderr. */
int soft_fault_start(void);

/* soft_fault_gate - may faults of calls and events happen now? See while=FILE. */
bool soft_fault_gate(void);

/*
 * soft_fault - count a call at @point and take the time that it shall take. Returns 0, or the errno
 * to fail with: EIO where the context was lost in IBV_EVENT_DEVICE_FATAL, which leaves the calls
 * that take objects away. Any thread, without locks.
 */
int soft_fault(const struct ibv_context *context, enum fault_point point);

/*
 * soft_fault_lasting - the same for a call that takes an object away. What has failed once fails
 * ever after: @failed belongs to the object, 0 at first.
 */
int soft_fault_lasting(const struct ibv_context *context, enum fault_point point, int *failed);
