/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Errors in words. A function that can fail for a reason that a person must act on takes a
 * `struct error *`, returns a negative errno, and has written one sentence into it:
 * what failed, on what, why, and what to do next.
 */
#include <stddef.h>

#define ERROR_TEXT_MAX 640

struct error {
	int code; /* 0, or a negative errno */
	char text[ERROR_TEXT_MAX]; /* a sentence without a newline */
};

/*
 * error_set - write a sentence into @err and return @code.
 * @err: may be NULL: then nothing is written.
 * @code: negative errno.
 * Text beyond ERROR_TEXT_MAX - 1 bytes is cut.
 */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * error_prefix - put "<prefix>: " before the sentence that stands in @err.
 * Returns err->code, or -EINVAL where @err is NULL.
 */
int error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * error_tell - what a public call that failed with @rc says to its caller: the sentence of @err, or
 * "" where @rc is 0, cut to @cap bytes at @why, which may be NULL. Returns @rc.
 */
int error_tell(const struct error *err, int rc, char *why, size_t cap);

/* error_name - the words of strerror() for a negative or positive errno, thread-safe, static. */
const char *error_name(int code);
