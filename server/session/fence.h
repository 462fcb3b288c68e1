/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Sessions whose lease is over (lease.h) are fenced. The control thread. */
#include "server/session/session.h"

/* fence_found - fence every session that NOTE_FOUND tells of, and say so to the clock thread. */
void fence_found(struct sessions *all);
