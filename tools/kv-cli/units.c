/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/include/gracekv.h"

#define DIGITS "0123456789"

/* The three digits behind the point, as a number; text behind them must be zeros. */
static int units_fraction(const char *digits, size_t len, uint64_t *ms)
{
	*ms = 0;
	for (size_t i = 0; i < 3; i++)
		*ms = *ms * 10 + (i < len ? (uint64_t)(digits[i] - '0') : 0);
	return len > 3 && strspn(digits + 3, "0") < len - 3 ? -ERANGE : 0;
}

/* DIGITS[.DIGITS]; the first may be missing. */
static bool units_decimal(const char *text, size_t *whole, size_t *fraction)
{
	*whole = strspn(text, DIGITS);
	*fraction = 0;
	text += *whole;
	if (*text == '.') {
		*fraction = strspn(text + 1, DIGITS);
		text += 1 + *fraction;
		return *fraction && !*text;
	}
	return *whole && !*text;
}

int units_seconds(const char *what, const char *text, uint64_t min_ms, uint64_t *ms,
		  struct error *err)
{
	size_t whole, fraction;
	uint64_t seconds, rest = 0;

	if (!units_decimal(text, &whole, &fraction))
		return error_set(err, -EINVAL,
				 "%s: '%.40s' is no number of seconds (give 5, or 0.5)", what,
				 text);
	errno = 0;
	seconds = whole ? strtoull(text, NULL, 10) : 0;
	if (errno || seconds > GKV_TTL_MAX / 1000)
		return error_set(err, -ERANGE, "%s: %.40s is too long (give at most %llu seconds)",
				 what, text, GKV_TTL_MAX / 1000);
	if (fraction && units_fraction(text + whole + 1, fraction, &rest))
		return error_set(err, -ERANGE,
				 "%s: %.40s is finer than a millisecond (give three decimals at "
				 "most)",
				 what, text);
	*ms = seconds * 1000 + rest;
	if (*ms > GKV_TTL_MAX)
		return error_set(err, -ERANGE, "%s: %.40s is too long (give at most %llu seconds)",
				 what, text, GKV_TTL_MAX / 1000);
	if (*ms < min_ms)
		return error_set(err, -ERANGE, "%s: %.40s is too short (give %g or more)", what,
				 text, (double)min_ms / 1000);
	return 0;
}

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
