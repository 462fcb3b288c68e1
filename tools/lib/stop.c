/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/base/time.h"

#define PATIENCE_NS NS_PER_S

/* relaxed, all of it: they stand for nothing else; lock-free, so that a handler may store them */
static _Atomic int came;
static _Atomic uint64_t first_ns;

static void on_signal(int number)
{
	uint64_t now = time_now_ns(), first = 0;

	if (atomic_compare_exchange_strong_explicit(&first_ns, &first, now, memory_order_relaxed,
						    memory_order_relaxed))
		first = now;
	atomic_store_explicit(&came, number, memory_order_relaxed);
	if (now - first < PATIENCE_NS)
		return;
	signal(number, SIG_DFL);
	raise(number);
}

void stop_listen(void)
{
	const struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	if (signal(SIGHUP, SIG_IGN) != SIG_IGN)
		sigaction(SIGHUP, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int stop_wanted(void)
{
	return atomic_load_explicit(&came, memory_order_relaxed);
}
