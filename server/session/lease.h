/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Who is fenced (DESIGN 5.5). The control thread. */
#include "server/session/session.h"

/* lease_period_ms - how often lease_look() is to be called for leases of @lease_ms. */
unsigned lease_period_ms(unsigned lease_ms);

/*
 * lease_look - fence every session whose beat has stood still for a lease, that announces what
 * cannot be, or that holds back memory which somebody wants for longer than a lease. Sessions may
 * have been freed when it returns: all->departures tells.
 */
void lease_look(struct sessions *all);
