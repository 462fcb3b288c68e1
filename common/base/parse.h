/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Text from people into numbers, with a sentence for what does not fit. Any thread. */
#include <stdint.h>

#include "common/base/error.h"

/*
 * parse_size - "4096", "64K", "512M", "512MiB", "4G", "1T": powers of two, case-insensitive.
 * "512MB" is refused: elsewhere it is a power of ten.
 * @what: the option's name, for the sentence. Returns 0, -EINVAL or -ERANGE.
 */
int parse_size(const char *what, const char *text, uint64_t *out, struct error *err);

/* parse_u64 - a decimal number in [min, max]. Returns 0, -EINVAL or -ERANGE. */
int parse_u64(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	      struct error *err);

/*
 * parse_duration - "30s", "250ms", "5m", "2h", "1d", "1.5s", ".5": to the millisecond.
 * @unit: of a number without one, "s" or "ms". @min_ms to @max_ms is taken.
 * Returns 0, -EINVAL or -ERANGE.
 */
int parse_duration(const char *what, const char *text, const char *unit, uint64_t min_ms,
		   uint64_t max_ms, uint64_t *ms, struct error *err);

/*
 * parse_host_port - "HOST:PORT", "[IPv6]:PORT", "HOST", ":PORT" or "PORT".
 * @host: receives the host, at most 255 bytes, @port its decimal text, at most 5.
 * What is missing is left as it was. Returns 0 or -EINVAL.
 */
int parse_host_port(const char *what, const char *text, char host[256], char port[8],
		    struct error *err);
