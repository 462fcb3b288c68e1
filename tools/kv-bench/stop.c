/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-bench/stop.h"

#include <signal.h>
#include <stdatomic.h>

static atomic_bool wanted;

static void on_signal(int number)
{
	(void)number;
	atomic_store_explicit(&wanted, true, memory_order_relaxed);
}

void stop_listen(void)
{
	struct sigaction act = { .sa_handler = on_signal,
				 .sa_flags = (int)SA_RESETHAND | SA_RESTART };

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	if (signal(SIGHUP, SIG_IGN) != SIG_IGN) /* else it is nohup's */
		sigaction(SIGHUP, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool stop_wanted(void)
{
	return atomic_load_explicit(&wanted, memory_order_relaxed);
}
