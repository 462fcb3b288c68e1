/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* For tests of SOFTRDMA_WEAK and SOFTRDMA_FAULT: a device opened under them. */
#include "ends.h"

struct weakness {
	const char *weak, *fault; /* values of the variables; NULL: not set */
	uint8_t timeout, retry_cnt, rnr_retry; /* of the QPs */
	bool mapped;
};

/* weakness_open - two ends of this process, connected, of which @a is to post. */
void weakness_open(const struct weakness *weakness, struct end *a, struct end *b);
void weakness_close(struct end *a, struct end *b);

/* Requests of @a, on its memory at 0 and @b's at 0. */
int weak_read(struct end *a, struct end *b, uint64_t wr_id, uint32_t length, unsigned flags);
int weak_write(struct end *a, struct end *b, uint64_t wr_id, size_t from, uint32_t length,
	       unsigned flags);

/* The 8 bytes at @offset, as others see them. */
uint64_t word_get(const struct end *end, size_t offset);
void word_put(struct end *end, size_t offset, uint64_t value);
