/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/stress/model.h"

#include <string.h>
#include <sys/mman.h>

#include "common/base/time.h"

#define HEAD_BYTES 16u /* of a value: key, number, and the word that its rest is made of */

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct model *model_create(uint64_t seed, uint32_t keys)
{
	struct model *m = shared(sizeof(*m)); /* zeroed: no key lives */

	if (!m)
		return NULL;
	m->seed = seed;
	m->start_ns = time_now_ns();
	m->keys = keys;
	m->key = shared(keys * sizeof(*m->key));
	m->deeds = shared(MODEL_WRITERS * sizeof(*m->deeds));
	return m->key && m->deeds ? m : NULL;
}

uint32_t model_key(uint32_t k, char text[MODEL_KEY_MAX])
{
	uint32_t len = 8 + (uint32_t)(model_mix(k) & 15); /* at most 23 */

	for (unsigned i = 0; i < 8; i++)
		text[i] = "0123456789abcdef"[k >> (28 - 4 * i) & 15];
	memset(text + 8, '.', len - 8);
	return len;
}

static uint64_t value_word(const struct model *m, uint32_t k, uint32_t number)
{
	return model_mix(m->seed ^ ((uint64_t)k << 32 | number));
}

/* Short ones for the most part; one in 32 to 2 KiB, one in 1024 to 20 KiB. */
uint32_t model_value_len(const struct model *m, uint32_t k, uint32_t number)
{
	uint64_t word = value_word(m, k, number);

	if (m->value_max)
		return m->value_min + (uint32_t)(word >> 16) % (m->value_max - m->value_min + 1);
	if (word % 1024 == 0)
		return 4096 + (uint32_t)(word >> 16) % (MODEL_VALUE_MAX - 4096);
	if (word % 32 == 0)
		return 128 + (uint32_t)(word >> 16) % 1920;
	return HEAD_BYTES + (uint32_t)(word >> 16) % 96;
}

static uint64_t filling(uint64_t word, uint32_t at)
{
	return word * (2 * (uint64_t)at + 1);
}

void model_value(const struct model *m, uint32_t k, uint32_t number, void *value, uint32_t len)
{
	uint64_t word = value_word(m, k, number);
	uint8_t *p = value;

	memcpy(p, &k, 4);
	memcpy(p + 4, &number, 4);
	memcpy(p + 8, &word, 8);
	for (uint32_t at = HEAD_BYTES; at < len; at += 8) {
		uint64_t w = filling(word, at);

		memcpy(p + at, &w, len - at < 8 ? len - at : 8);
	}
}

static bool value_sound(const struct model *m, const uint8_t *p, size_t len, uint32_t k,
			uint32_t number)
{
	uint64_t word = value_word(m, k, number);

	if (len != model_value_len(m, k, number) || memcmp(p + 8, &word, 8))
		return false;
	for (uint32_t at = HEAD_BYTES; at < len; at += 8) {
		uint64_t w = filling(word, at);

		if (memcmp(p + at, &w, len - at < 8 ? len - at : 8))
			return false;
	}
	return true;
}

uint32_t model_next_put(const struct model *m, uint32_t k)
{
	uint32_t done = atomic_load(&m->key[k].done);

	return done % 2 ? done + 2 : done + 1;
}

uint32_t model_next_del(const struct model *m, uint32_t k)
{
	return atomic_load(&m->key[k].done) + 1; /* it lives: of a put */
}

void model_begin(struct model *m, uint32_t k, uint32_t number)
{
	if (number % 2 == 0)
		atomic_store(&m->key[k].deleted, number);
	atomic_store(&m->key[k].begun, number);
}

void model_end(struct model *m, unsigned writer, uint32_t k, uint32_t number, uint64_t place,
	       uint32_t incarnation)
{
	struct deeds *all = &m->deeds[writer];
	uint64_t n = atomic_load_explicit(&all->count, memory_order_relaxed);
	struct deed *d = &all->deed[n % MODEL_DEEDS];

	atomic_store(&m->key[k].done, number);
	/* Relaxed: words for people. */
	atomic_store_explicit(&d->key, k, memory_order_relaxed);
	atomic_store_explicit(&d->number, number, memory_order_relaxed);
	atomic_store_explicit(&d->ns, time_now_ns() - m->start_ns, memory_order_relaxed);
	atomic_store_explicit(&d->place, place, memory_order_relaxed);
	atomic_store_explicit(&d->incarnation, incarnation, memory_order_relaxed);
	atomic_store_explicit(&all->count, n + 1, memory_order_relaxed);
}

bool model_lives(const struct model *m, uint32_t k)
{
	return atomic_load(&m->key[k].done) % 2;
}

uint32_t model_floor(const struct model *m, uint32_t k)
{
	uint32_t seen = atomic_load(&m->key[k].seen), done = atomic_load(&m->key[k].done);

	return seen > done ? seen : done;
}

static void given(struct model *m, uint32_t k, uint32_t number)
{
	uint32_t seen = atomic_load(&m->key[k].seen);

	while (seen < number && !atomic_compare_exchange_weak(&m->key[k].seen, &seen, number))
		;
}

void model_found(struct model *m, uint32_t k, uint32_t floor, const void *value, size_t len)
{
	uint32_t begun = atomic_load(&m->key[k].begun), key, number;

	if (len < HEAD_BYTES) {
		model_wrong(m, WRONG_TORN, k, "a value of %zu bytes", len);
		return;
	}
	memcpy(&key, value, 4);
	memcpy(&number, (const uint8_t *)value + 4, 4);
	if (key != k)
		model_wrong(m, WRONG_FOREIGN, k, "got operation %u of key %u", number, key);
	else if (number % 2 == 0 || !value_sound(m, value, len, k, number))
		model_wrong(m, WRONG_TORN, k, "got %zu bytes that say operation %u", len, number);
	else if (number < floor)
		model_wrong(m, WRONG_STALE, k, "got operation %u, floor %u", number, floor);
	else if (number > begun)
		model_wrong(m, WRONG_EARLY, k, "got operation %u, begun %u", number, begun);
	else
		given(m, k, number);
}

void model_missed(struct model *m, uint32_t k, uint32_t floor)
{
	uint32_t deleted = atomic_load(&m->key[k].deleted);

	if (deleted < floor)
		model_wrong(m, WRONG_MISS, k, "not found, floor %u, last delete %u", floor,
			    deleted);
	else if (deleted <= floor + 1)
		given(m, k, deleted); /* it is the one that was seen */
}

bool model_recognise(struct model *m, const void *value, size_t len, uint32_t *k)
{
	if (len >= HEAD_BYTES) {
		memcpy(k, value, 4);
		if (*k < m->keys)
			return true;
	}
	model_wrong(m, WRONG_TORN, MODEL_NO_KEY, "a scan met a value of %zu bytes that is no key's",
		    len);
	return false;
}
