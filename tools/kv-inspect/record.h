/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* A decoded block (decode_block()) for people. One thread. */
#include <jansson.h>

/* record_value - the first bytes of its value, and how many there are more. */
void record_value(const json_t *block);
