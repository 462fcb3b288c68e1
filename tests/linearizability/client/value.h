/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* The values that clients write, each told as one number (history.h). Any thread. */
#include <stddef.h>
#include <stdint.h>

#define VALUE_BYTES_MAX (192u << 10) /* bytes, with what is appended */

/* value_bytes - the number of the @sequence-th value of a thread that is bytes. */
uint64_t value_bytes(uint32_t process, uint32_t thread, uint64_t sequence);

/*
 * value_write - the value that @id tells, into @to of VALUE_BYTES_MAX bytes. Bytes are 16 to
 * 128 KiB, each following from the number, the length too; a number is decimal text. Returns its
 * length.
 */
size_t value_write(uint64_t id, void *to);

/* value_tail - what is appended, of the number @id, into @to. Returns its length. */
size_t value_tail(uint64_t id, void *to);

/* value_read - the number of a value, HISTORY_GARBAGE where it is none, to its last byte. */
uint64_t value_read(const void *value, size_t len);
