/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What a long piece of work has come to, on stderr where that is a terminal. */
#include <stdint.h>

/* progress_show - @done of @all; @what in few words. */
void progress_show(const char *what, uint64_t done, uint64_t all);
void progress_clear(void);
