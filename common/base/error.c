/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int error_prefix(struct error *err, const char *fmt, ...)
{
	char whole[2 * ERROR_TEXT_MAX];
	va_list ap;
	int n;

	if (!err)
		return -EINVAL;
	va_start(ap, fmt);
	n = vsnprintf(whole, ERROR_TEXT_MAX, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= ERROR_TEXT_MAX)
		return err->code;
	snprintf(whole + n, sizeof(whole) - (size_t)n, ": %s", err->text);
	memcpy(err->text, whole, sizeof(err->text) - 1);
	err->text[sizeof(err->text) - 1] = '\0';
	return err->code;
}

int error_tell(const struct error *err, int rc, char *why, size_t cap)
{
	if (why && cap)
		snprintf(why, cap, "%s", rc ? err->text : "");
	return rc;
}

const char *error_name(int code)
{
	/* negated without overflow: a code may come from anywhere */
	const char *words = strerrordesc_np(code < 0 ? (int)(0u - (unsigned)code) : code);

	return words ? words : "unknown error";
}
