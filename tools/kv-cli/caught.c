/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/caught.h"

#define NUMBERS 65 /* of signals */

static volatile sig_atomic_t came[NUMBERS];

static void on_signal(int number)
{
	came[number] = 1;
}

void caught_begin(struct caught *c, const int *numbers, size_t count, int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	c->numbers = numbers;
	c->count = count;
	sigprocmask(SIG_BLOCK, NULL, &c->outside);
	caught_hold(c);
	for (size_t i = 0; i < count; i++) {
		came[numbers[i]] = 0;
		sigaction(numbers[i], &action, &c->before[i]);
	}
}

void caught_let(const struct caught *c)
{
	sigprocmask(SIG_SETMASK, &c->outside, NULL);
}

void caught_hold(const struct caught *c)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < c->count; i++)
		sigaddset(&set, c->numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

bool caught_take(int number)
{
	bool it = came[number];

	came[number] = 0;
	return it;
}

bool caught_any(const struct caught *c)
{
	for (size_t i = 0; i < c->count; i++) {
		if (came[c->numbers[i]])
			return true;
	}
	return false;
}

void caught_end(const struct caught *c)
{
	for (size_t i = 0; i < c->count; i++)
		sigaction(c->numbers[i], &c->before[i], NULL);
	sigprocmask(SIG_SETMASK, &c->outside, NULL);
}
