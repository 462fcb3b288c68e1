/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/stress/disturb.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/stress/model.h"

#define WORK_NS_MAX  (8 * NS_PER_MS) /* between two pauses */
#define PAUSE_NS_MAX (4 * NS_PER_MS)

#ifndef sigev_notify_thread_id /* of Linux; older headers of the C library have no name for it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Touched by disturb_start() before the first signal comes: a handler must not allocate it. */
static _Thread_local struct {
	uint64_t random;
	timer_t timer;
} mine;

static int arm(uint64_t ns)
{
	struct itimerspec when = { .it_value = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) } };

	return timer_settime(mine.timer, 0, &when, NULL) ? -errno : 0;
}

/* Only what is safe in a handler: timer_settime() and nanosleep(). */
static void pause_here(int signal)
{
	struct timespec pause = { 0, (long)(model_random(&mine.random) % PAUSE_NS_MAX) };
	int saved = errno;

	(void)signal;
	nanosleep(&pause, NULL);
	arm(1 + model_random(&mine.random) % WORK_NS_MAX);
	errno = saved;
}

int disturb_start(uint64_t seed)
{
	struct sigaction action = { .sa_handler = pause_here, .sa_flags = SA_RESTART };
	struct sigevent event;

	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	mine.random = model_mix(seed);
	if (sigaction(SIGUSR1, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &mine.timer))
		return -errno;
	return arm(NS_PER_MS);
}

void disturb_stop(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	timer_delete(mine.timer);
}
