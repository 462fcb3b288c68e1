/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the machine has. Any thread. */
#include <stdint.h>

/* machine_memory - what the system could give, in bytes; 0: it does not say. */
uint64_t machine_memory(void);

/* machine_numbers - how much of a kernel's @release is its version: 3 of "6.1.0-18-amd64". */
int machine_numbers(const char *release);

/*
 * machine_describe - the processor and how many of its cores are ours, in words; of the kernel the
 * numbers alone, as what stands after them is of one build.
 */
void machine_describe(char text[160]);
