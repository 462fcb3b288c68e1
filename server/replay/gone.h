/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Keys that were deleted, and up to which version: what would otherwise leave nothing behind. One
 * thread.
 */
#include <stdbool.h>
#include <stdint.h>

struct gone {
	void *tree; /* NULL: nothing is */
};

/*
 * gone_add - @key had gone at @version. Returns 0 or -ENOMEM.
 * gone_since - whether @version of @key, or a later one, had gone.
 * gone_free - all is forgotten.
 */
int gone_add(struct gone *g, const void *key, uint32_t key_len, uint64_t version);
bool gone_since(const struct gone *g, const void *key, uint32_t key_len, uint64_t version);
void gone_free(struct gone *g);
