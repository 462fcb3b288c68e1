/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Fields of JSON objects that etcd keeps. Each json_take_*() returns whether the field was one. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* json_hex - a number that was drawn, in 16 digits, which JSON cannot round. To be owned. */
json_t *json_hex(uint64_t n);
bool json_take_hex(const json_t *object, const char *name, uint64_t *out);
bool json_take_number(const json_t *object, const char *name, uint64_t max, uint64_t *out);
bool json_take_text(const json_t *object, const char *name, char *out, size_t cap);
