/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Random numbers of the kernel. Nothing else in client, server and common draws any, so that a test
 * can choose them. Any thread.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* The kernel's call. A test replaces it before other threads begin. */
struct random_table {
	ssize_t (*draw)(void *out, size_t len, unsigned flags); /* getrandom() */
};

extern struct random_table random_table __attribute__((visibility("hidden")));

/* random_fill - @len bytes, at most 256. Returns 0, or -EIO with @err, which may be NULL. */
int random_fill(void *out, size_t len, struct error *err);

/* random_chance - a number for what only should differ. It never waits and never fails. */
uint64_t random_chance(void);
