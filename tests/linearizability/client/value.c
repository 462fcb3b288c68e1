/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/linearizability/client/value.h"

#include <stdio.h>
#include <string.h>

#include "tests/linearizability/client/history.h"
#include "tests/stress/model.h"

#define PROCESS_SHIFT 40
#define THREAD_SHIFT  34
#define NUMBER_MAX    20u /* characters */
#define NUMBER_LIMIT  (1ll << 61)
#define TAIL_BYTES    16u
#define APPENDED_MASK 0x1fffffffffffffffull

uint64_t value_bytes(uint32_t process, uint32_t thread, uint64_t sequence)
{
	return HISTORY_BYTES | (uint64_t)process << PROCESS_SHIFT |
	       (uint64_t)thread << THREAD_SHIFT | sequence;
}

/* Most are small, some go by staging memory (from 8 KiB on), a few fill slabs quickly. */
static size_t length_of(uint64_t id)
{
	uint64_t r = model_mix(id), most;

	switch (r % 64) {
	case 0:
		most = 128 << 10;
		break;
	case 1 ... 4:
		most = 16 << 10;
		break;
	case 5 ... 16:
		most = 2 << 10;
		break;
	default:
		most = 200;
	}
	return 16 + (r >> 8) % (most - 15);
}

static uint64_t word(uint64_t id, size_t i)
{
	return i ? (id + i) * 0x9e3779b97f4a7c15ull : id;
}

size_t value_write(uint64_t id, void *to)
{
	size_t len;

	if (id >> 62 != HISTORY_BYTES >> 62)
		return (size_t)snprintf(to, NUMBER_MAX + 1, "%lld", (long long)id);
	len = length_of(id);
	for (size_t i = 0; i * 8 < len; i++) {
		uint64_t w = word(id, i);
		size_t left = len - i * 8;

		memcpy((char *)to + i * 8, &w, left < 8 ? left : 8);
	}
	return len;
}

static uint64_t read_number(const char *value, size_t len)
{
	char text[NUMBER_MAX + 1], again[NUMBER_MAX + 1];
	long long n;

	if (len == 0 || len > NUMBER_MAX)
		return HISTORY_GARBAGE;
	memcpy(text, value, len);
	text[len] = 0;
	if (sscanf(text, "%lld", &n) != 1 || n <= -NUMBER_LIMIT || n >= NUMBER_LIMIT)
		return HISTORY_GARBAGE;
	snprintf(again, sizeof(again), "%lld", n);
	return strcmp(text, again) == 0 ? (uint64_t)n : HISTORY_GARBAGE;
}

size_t value_tail(uint64_t id, void *to)
{
	const uint64_t words[2] = { id, model_mix(id) };

	memcpy(to, words, TAIL_BYTES);
	return TAIL_BYTES;
}

/* The number of a tail that stands at @at, 0: there is none. */
static uint64_t read_tail(const char *at)
{
	uint64_t words[2];

	memcpy(words, at, TAIL_BYTES);
	return words[1] == model_mix(words[0]) ? words[0] : 0;
}

static uint64_t value_fold(uint64_t value, uint64_t tail)
{
	return HISTORY_APPENDED | (model_mix(model_mix(value) ^ tail) & APPENDED_MASK);
}

static uint64_t read_first(const void *value, size_t len)
{
	uint64_t id;

	if (len < 16)
		return read_number(value, len);
	memcpy(&id, value, sizeof(id));
	if (id >> 62 != HISTORY_BYTES >> 62)
		return read_number(value, len);
	if (len != length_of(id))
		return HISTORY_GARBAGE;
	for (size_t i = 1; i * 8 < len; i++) {
		uint64_t w = word(id, i);
		size_t left = len - i * 8;

		if (memcmp((const char *)value + i * 8, &w, left < 8 ? left : 8))
			return HISTORY_GARBAGE;
	}
	return id;
}

uint64_t value_read(const void *value, size_t len)
{
	const char *text = value;
	size_t first = len, at;
	uint64_t id;

	while (first >= TAIL_BYTES && read_tail(text + first - TAIL_BYTES))
		first -= TAIL_BYTES;
	at = first || !len ? first : TAIL_BYTES; /* nothing was there before the first append */
	id = first || !len ? read_first(value, first) : read_tail(text);
	for (; id != HISTORY_GARBAGE && at < len; at += TAIL_BYTES)
		id = value_fold(id, read_tail(text + at));
	return id;
}
