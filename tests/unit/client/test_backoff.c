/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Back-off: steps and their limits, chance, what forgets them. The clock is the test's. */
#include "tests/lib/unit.h"

#include "client/src/base/backoff.h"
#include "common/base/time.h"

#define CLIENTS 50u
#define START	(1000 * NS_PER_S)

static uint64_t seed = 7;

UNIT_TEST(test_first_attempt_is_free)
{
	struct backoff b = { 0 };

	assert_int_equal(backoff_due(&b, START), START);
	backoff_attempted(&b, START, START + 5, 0);
	assert_int_equal(backoff_due(&b, START + 5), START + 5 + BACKOFF_FIRST_MS * NS_PER_MS / 2);
}

UNIT_TEST(test_pauses_double_up_to_a_limit)
{
	struct backoff b = { 0 };
	uint64_t now = START, step = BACKOFF_FIRST_MS * NS_PER_MS;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t pause;

		backoff_attempted(&b, now, now, unit_random(&seed));
		pause = backoff_due(&b, now) - now;
		assert_true(pause >= step / 2 && pause <= step);
		now += pause;
		step = 2 * step < BACKOFF_LAST_MS * NS_PER_MS ? 2 * step
							      : BACKOFF_LAST_MS * NS_PER_MS;
	}
	assert_int_equal(step, BACKOFF_LAST_MS * NS_PER_MS);
}

UNIT_TEST(test_whole_range_of_chance_is_used)
{
	struct backoff low = { 0 }, high = { 0 };
	uint64_t half = BACKOFF_FIRST_MS * NS_PER_MS / 2;

	backoff_attempted(&low, START, START, 0);
	backoff_attempted(&high, START, START, half);
	assert_int_equal(backoff_due(&low, START), START + half);
	assert_int_equal(backoff_due(&high, START), START + 2 * half);
}

UNIT_TEST(test_what_lasted_begins_anew)
{
	struct backoff b = { 0 };
	uint64_t now = START, calm = BACKOFF_CALM_MS * NS_PER_MS;

	for (unsigned i = 0; i < 10; i++) {
		now = backoff_due(&b, now);
		backoff_attempted(&b, now, now, 1);
	}
	assert_true(backoff_due(&b, now) > now);
	assert_int_equal(backoff_due(&b, now + calm), now + calm);
	now += calm;
	backoff_attempted(&b, now, now, 0);
	assert_int_equal(backoff_due(&b, now), now + BACKOFF_FIRST_MS * NS_PER_MS / 2);
	backoff_forget(&b);
	assert_int_equal(backoff_due(&b, now), now);
}

/* An attempt that took longer than the calm time was no success for that. */
UNIT_TEST(test_slow_failures_are_not_forgotten)
{
	struct backoff b = { 0 };
	uint64_t now = START;

	for (unsigned i = 0; i < 10; i++) {
		uint64_t started = backoff_due(&b, now);

		now = started + 2 * BACKOFF_CALM_MS * NS_PER_MS;
		backoff_attempted(&b, started, now, 0);
	}
	assert_int_equal(backoff_due(&b, now), now + BACKOFF_LAST_MS * NS_PER_MS / 2);
}

/* Clients that lost one server at one moment come back apart from each other. */
UNIT_TEST(test_many_do_not_come_in_step)
{
	struct backoff b[CLIENTS] = { 0 };
	unsigned most = 0, attempts = 0, bins[100] = { 0 };

	for (unsigned i = 0; i < CLIENTS; i++) {
		for (uint64_t now = START; now < START + 5 * NS_PER_S;
		     now = backoff_due(&b[i], now)) {
			bins[(now - START) / (50 * NS_PER_MS)]++;
			attempts++;
			backoff_attempted(&b[i], now, now, unit_random(&seed));
		}
	}
	for (unsigned i = 40; i < 100; i++)
		most = bins[i] > most ? bins[i] : most;
	print_message("%u attempts of %u clients in 5 s, %u in the fullest 50 ms after 2 s\n",
		      attempts, CLIENTS, most);
	assert_true(attempts <= CLIENTS * 27); /* 7 up to the last step, then 4 a second */
	assert_true(most <= CLIENTS / 2);
}

int main(void)
{
	print_message("seed %llu\n", (unsigned long long)seed);
	return unit_run(NULL, NULL);
}
