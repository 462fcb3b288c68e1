/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Times and numbers as people write them. @now_ms is the server's clock, by which records expire
 * (cli_clock()). Any thread.
 */
#include <stdint.h>

#include "common/base/error.h"

/* units_i64 - a decimal number with or without a sign. Returns 0, -EINVAL or -ERANGE. */
int units_i64(const char *what, const char *text, int64_t *out, struct error *err);

/* units_left_ms - from @now_ms until @expiry_ms; 0 where it is over. */
uint64_t units_left_ms(uint64_t expiry_ms, uint64_t now_ms);

#define UNITS_LEFT_MAX 32

/* units_left - the same in seconds, "12.345"; "never" for 0. Returns @out. */
const char *units_left(char out[UNITS_LEFT_MAX], uint64_t expiry_ms, uint64_t now_ms);

#define UNITS_TIME_MAX 48

/* units_time - "2026-01-31T23:59:59.123Z"; "never" for 0. Returns @out. */
const char *units_time(char out[UNITS_TIME_MAX], uint64_t expiry_ms);
