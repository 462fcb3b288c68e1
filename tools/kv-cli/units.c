/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIGITS "0123456789"

int units_i64(const char *what, const char *text, int64_t *out, struct error *err)
{
	const char *digits = text + (*text == '-' || *text == '+');
	size_t len = strspn(digits, DIGITS);

	if (len == 0 || digits[len])
		return error_set(err, -EINVAL, "%s: '%.40s' is not a number", what, text);
	errno = 0;
	*out = strtoll(text, NULL, 10);
	if (errno)
		return error_set(err, -ERANGE,
				 "%s: %.40s is out of range (give %" PRId64 " to %" PRId64 ")",
				 what, text, INT64_MIN, INT64_MAX);
	return 0;
}

uint64_t units_left_ms(uint64_t expiry_ms, uint64_t now_ms)
{
	return expiry_ms > now_ms ? expiry_ms - now_ms : 0;
}

const char *units_left(char out[UNITS_LEFT_MAX], uint64_t expiry_ms, uint64_t now_ms)
{
	uint64_t left = units_left_ms(expiry_ms, now_ms);

	if (expiry_ms)
		snprintf(out, UNITS_LEFT_MAX, "%" PRIu64 ".%03" PRIu64, left / 1000, left % 1000);
	else
		strcpy(out, "never");
	return out;
}

const char *units_time(char out[UNITS_TIME_MAX], uint64_t expiry_ms)
{
	time_t seconds = (time_t)(expiry_ms / 1000);
	struct tm utc;
	size_t len;

	strcpy(out, "never");
	if (!expiry_ms || !gmtime_r(&seconds, &utc))
		return out;
	len = strftime(out, UNITS_TIME_MAX - 8, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(out + len, UNITS_TIME_MAX - len, ".%03uZ", (unsigned)(expiry_ms % 1000));
	return out;
}
