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

pid_t child_fork(void)
{
	sigset_t both, before;
	pid_t pid;

	sigemptyset(&both);
	sigaddset(&both, SIGINT);
	sigaddset(&both, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &both, &before);
	pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

void child_settle(pid_t parent)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127); /* it was faster */
}

int child_end(pid_t pid)
{
	uint64_t end = time_now_ns() + END_S * NS_PER_S;
	pid_t gone;
	int status;

	kill(pid, SIGTERM);
	while ((gone = waitpid(pid, &status, WNOHANG)) == 0) {
		if (time_now_ns() > end)
			kill(pid, SIGKILL);
		usleep(2000);
	}
	return gone < 0 ? -errno : status;
}
