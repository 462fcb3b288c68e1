/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
#include "tests/stress/torture/home.h"

/*
 * run_all - let everybody work for the time that was asked for, then see that all memory comes back
 * and that what was to be met was met. Returns 0 or a negative errno.
 */
int run_all(struct home *h);
