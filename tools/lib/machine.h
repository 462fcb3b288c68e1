/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the machine has. Any thread. */
#include <stdint.h>

/* machine_memory - what the system could give, in bytes; 0: it does not say. */
uint64_t machine_memory(void);

/* machine_describe - the processor and how many of its cores are ours, in words. */
void machine_describe(char text[160]);
