/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A word for each of two servers, which the other one WRITEs: beats one way, their answers the
 * other. It has a queue pair of its own, so a beat waits for no batch of the log, and its thread
 * for no other. pulse.c has the argument. One thread at a time.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/rdma/device.h"
#include "server/replica/ends.h"

struct pulse;

/*
 * pulse_open - @dev: a device of its own, whose protection domain reaches nothing but rings and
 * pulses; it outlives the pulse. Returns 0 and what the other end must know, or a negative errno
 * with @err.
 * pulse_connect - with what the other end has offered: untrusted.
 * pulse_close - the other end loses its rights to the word. Where they cannot be taken away the
 * memory stays.
 */
int pulse_open(struct pulse **out, const struct rdma_device *dev, struct replica_pulse_offer *offer,
	       struct error *err);
int pulse_connect(struct pulse *p, const struct replica_pulse_offer *other, struct error *err);
void pulse_close(struct pulse *p);

/*
 * pulse_say - WRITE @n, which is greater than what was said before, to the other end. False: what
 * was said before is still on its way, or the queue pair is broken: nothing was sent. Never sleeps.
 * pulse_may_say - pulse_say() would send it now. Never sleeps.
 * pulse_heard - what the other end has said last; 0: nothing.
 * pulse_is_broken - nothing that is said arrives any more.
 */
bool pulse_say(struct pulse *p, uint64_t n);
bool pulse_may_say(struct pulse *p);
uint64_t pulse_heard(const struct pulse *p);
bool pulse_is_broken(struct pulse *p);
