/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Sessions whose lease is over (lease.h) are fenced. The control thread. */
#include "server/session/session.h"

/* fence_period_ms - how often fence_look() is to be called for leases of @lease_ms. */
unsigned fence_period_ms(unsigned lease_ms);

/*
 * fence_look - fence every session whose beat has stood still for a lease, that announces what
 * cannot be, or that holds back memory which somebody wants for longer than a lease. Sessions may
 * have been freed when it returns: all->departures tells.
 */
void fence_look(struct sessions *all);
