/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"

#define END_S 60u

static void settle(pid_t parent)
{
	const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127); /* it was faster */
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (sigaction(numbers[i], NULL, &act) == 0 && act.sa_handler != SIG_IGN)
			signal(numbers[i], SIG_DFL);
	}
}

pid_t child_fork(void)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;
	int code;

	/* else the parent's handler might swallow the SIGTERM of child_end() */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	code = errno;
	if (pid == 0)
		settle(parent);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = code;
	return pid;
}

int child_end(pid_t pid)
{
	uint64_t end = time_now_ns() + END_S * NS_PER_S;
	pid_t gone;
	int status;

	kill(pid, SIGTERM);
	kill(pid, SIGCONT); /* one that was stopped takes it then */
	while ((gone = waitpid(pid, &status, WNOHANG)) == 0) {
		if (time_now_ns() > end)
			kill(pid, SIGKILL);
		usleep(2000);
	}
	return gone < 0 ? -errno : status;
}
