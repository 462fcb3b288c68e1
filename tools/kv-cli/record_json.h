/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the commands on records answer with --json, and their answer "not found". One thread. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kv-cli/cli.h"

/* record_json - {"key": ..., "found": ...}, or NULL. */
json_t *record_json(const char *key, size_t key_len, bool found);

/*
 * record_json_version - {"key": ..., "version": ...}, or NULL.
 * @found: what "found" says after the key; NULL: there is no such field.
 */
json_t *record_json_version(const char *key, size_t key_len, const bool *found, uint64_t version);

/*
 * record_json_expiry - add "expiry_ms", 0 for never, and "ttl_ms", what is left of it at
 * @now_ms, or null. Returns 0 or -ENOMEM.
 */
int record_json_expiry(json_t *object, uint64_t expiry_ms, uint64_t now_ms);

/*
 * record_missing - the answer is no: on stdout with --json, else on stderr.
 * Returns CLI_NO, or CLI_FAILED.
 */
int record_missing(const struct cli *cli, const char *key, size_t key_len);
