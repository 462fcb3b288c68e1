/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Keys and records by number. A key is "user" and the digits of a hash of its number, one to one,
 * as YCSB's with hashed insert order. A record is one value that holds all its fields; its words
 * are made of its number and of a version that each write has another of, so that a record of
 * another key, of a wrong length, or with parts of two versions is found.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_KEY_MAX 24u

/* record_digits - @v as decimal text, not terminated. Returns how long, at most 20. */
unsigned record_digits(char *to, uint64_t v);

/* record_key - not terminated. Returns its length. */
unsigned record_key(uint64_t number, char key[RECORD_KEY_MAX]);

/* record_fill - @len bytes. */
void record_fill(char *to, size_t len, uint64_t number, uint64_t version);

/*
 * record_right - whether that is what record_fill() wrote of this number, in any version: its
 * beginning, its end, and some words between, of small records all.
 */
bool record_right(const char *data, size_t len, uint64_t number);
