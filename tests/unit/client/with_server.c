/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "with_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

#define READY_MS 20000

static const char *program;
static int held = -1; /* the socket of hold() */

void server_program(const char *path)
{
	program = path;
	if (!path || access(path, X_OK)) {
		printf("skipped: there is no kv-server at %s\n", path ? path : "(no argument)");
		exit(77);
	}
}

/* Unit tests get the program as their argument. */
void unit_begin(const char *argument)
{
	server_program(argument);
}

/*
 * A port that the kernel gives to nobody else while the server of this test is gone: a client that
 * comes back would find the server of another test there. The socket is bound and does not listen;
 * as both sides set SO_REUSEADDR, kv-server may listen beside it (socket(7)). It is held until the
 * next one is.
 */
static unsigned hold(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int one = 1, rc;

	if (held >= 0)
		close(held);
	held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(held >= 0);
	rc = setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert(rc == 0);
	rc = bind(held, (const void *)&at, len);
	assert(rc == 0);
	rc = getsockname(held, (void *)&at, &len);
	assert(rc == 0);
	return ntohs(at.sin_port);
}

static void child(unsigned port, const char *memory, int out)
{
	char listen[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	unsetenv("SOFTRDMA_FAULT"); /* faults asked for are those of the test program */
	snprintf(listen, sizeof(listen), "127.0.0.1:%u", port);
	dup2(out, STDOUT_FILENO);
	execl(program, program, "--listen", listen, "--device", "soft0", "--memory", memory,
	      "--log-level", "error", (char *)NULL);
	_exit(127);
}

pid_t server_start(unsigned *port, const char *memory)
{
	char line[512] = "";
	size_t have = 0;
	int out[2], rc;
	pid_t pid;

	if (*port == 0)
		*port = hold();
	rc = pipe(out);
	assert(rc == 0);
	pid = fork();
	assert(pid >= 0);
	if (pid == 0)
		child(*port, memory, out[1]);
	close(out[1]);
	while (!strchr(line, '\n')) {
		struct pollfd p = { .fd = out[0], .events = POLLIN };
		ssize_t n = poll(&p, 1, READY_MS) > 0
				    ? read(out[0], line + have, sizeof(line) - 1 - have)
				    : -1;

		assert(n > 0); /* or kv-server ended, or did not get ready */
		have += (size_t)n;
	}
	rc = sscanf(line, "kv-server ready tcp=127.0.0.1:%u ", port);
	assert(rc == 1);
	close(out[0]);
	return pid;
}

int server_stop(pid_t pid, int signal)
{
	int status = 0;

	kill(pid, signal);
	waitpid(pid, &status, 0);
	return status;
}

void server_pause(pid_t pid)
{
	int status = 0;
	pid_t got;

	kill(pid, SIGSTOP);
	got = waitpid(pid, &status, WUNTRACED);
	assert(got == pid && WIFSTOPPED(status));
}

int server_session(unsigned port, struct gkv_options *o, struct gkv_session **out)
{
	char address[32], text[700] = "";
	int rc;

	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	o->server = address;
	o->device = "soft0";
	rc = gkv_session_open(o, out, text, sizeof(text));
	if (rc)
		printf("%s: %s\n", gkv_strerror(rc), text);
	return rc;
}

int server_handle(struct gkv_session *session, struct gkv **out)
{
	char why[640];
	int rc = gkv_open(session, NULL, out, why, sizeof(why));

	if (rc)
		printf("%s: %s\n", gkv_strerror(rc), why);
	return rc;
}
