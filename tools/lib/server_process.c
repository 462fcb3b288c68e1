/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/server_process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/lib/child.h"

#define ARGUMENTS_MAX 24u

static void run(const struct server_options *o, int out)
{
	char listen[280];
	const char *args[ARGUMENTS_MAX + 1] = { o->binary,  "--listen",	   listen,    "--memory",
						o->memory,  "--device",	   o->device, "--connect",
						o->connect, "--log-level", "warn" };
	unsigned n = 0, more = 0;

	snprintf(listen, sizeof(listen), strchr(o->host, ':') ? "[%s]:0" : "%s:0", o->host);
	dup2(out, STDOUT_FILENO);
	while (args[n])
		n++;
	while (o->more && o->more[more] && n < ARGUMENTS_MAX)
		args[n++] = o->more[more++];
	execv(o->binary, (char *const *)args);
	_exit(127);
}

int server_process_start(struct server_process *p, const struct server_options *o,
			 struct error *err)
{
	char line[512];
	int fds[2];
	FILE *in;
	int fields = 0;

	if (pipe(fds))
		return error_set(err, -errno, "pipe failed: %s", error_name(errno));
	p->pid = child_fork();
	if (p->pid == 0)
		run(o, fds[1]);
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
			 o->binary);
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

/* The first number of schedstat is the time spent on a CPU, in ns. */
static int64_t thread_cpu_ns(pid_t pid, const char *thread)
{
	char path[300];
	int64_t ns = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, thread);
	f = fopen(path, "r");
	if (!f)
		return 0; /* it has just ended */
	if (fscanf(f, "%" SCNd64, &ns) != 1)
		ns = 0;
	fclose(f);
	return ns;
}

int64_t server_process_cpu_ns(pid_t pid)
{
	struct dirent *entry;
	int64_t sum = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			sum += thread_cpu_ns(pid, entry->d_name);
	}
	closedir(dir);
	return sum;
}
