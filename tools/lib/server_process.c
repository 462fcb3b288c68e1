/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/server_process.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tools/lib/child.h"

#define ARGUMENTS_MAX 24u

/* The kv-server that was built or installed with this program. */
static const char *find_server(char path[PATH_MAX + 32])
{
	char self[PATH_MAX] = "";
	const char *folder;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return "kv-server";
	folder = dirname(self);
	snprintf(path, PATH_MAX + 32, "%s/kv-server", folder);
	if (access(path, X_OK))
		snprintf(path, PATH_MAX + 32, "%s/../../bin/kv-server", folder);
	return path;
}

static void run(const struct server_options *o, const char *binary, int out)
{
	char listen[280];
	const char *args[ARGUMENTS_MAX + 1] = { binary,	    "--listen",	   listen,    "--memory",
						o->memory,  "--device",	   o->device, "--connect",
						o->connect, "--log-level", "warn" };
	unsigned n = 0, more = 0;

	snprintf(listen, sizeof(listen), strchr(o->host, ':') ? "[%s]:0" : "%s:0", o->host);
	dup2(out, STDOUT_FILENO);
	while (args[n])
		n++;
	while (o->more && o->more[more] && n < ARGUMENTS_MAX)
		args[n++] = o->more[more++];
	execv(binary, (char *const *)args);
	_exit(127);
}

int server_process_start(struct server_process *p, const struct server_options *o,
			 struct error *err)
{
	char line[512], found[PATH_MAX + 32];
	const char *binary = o->binary ? o->binary : find_server(found);
	int fds[2];
	FILE *in;
	int fields = 0;

	if (pipe(fds))
		return error_set(err, -errno, "pipe failed: %s", error_name(errno));
	p->pid = child_fork();
	if (p->pid == 0)
		run(o, binary, fds[1]);
	close(fds[1]);
	in = fdopen(fds[0], "r");
	if (in && fgets(line, sizeof(line), in))
		fields = sscanf(line, "kv-server ready tcp=%279s device=%63s", p->address,
				p->device);
	if (in)
		fclose(in);
	if (fields == 2)
		return 0;
	server_process_stop(p);
	return error_set(err, -EIO, "%s did not become ready (is the path right? see --help)",
			 binary);
}

int server_process_stop(struct server_process *p)
{
	int status;

	if (p->pid <= 0)
		return 0;
	status = child_end(p->pid);
	p->pid = 0;
	if (status < 0)
		return status;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

int64_t server_process_cpu_ns(pid_t pid)
{
	struct timespec ts;
	clockid_t clock;
	int rc = clock_getcpuclockid(pid, &clock);

	if (rc || clock_gettime(clock, &ts))
		return rc ? -rc : -errno;
	return (int64_t)ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec;
}
