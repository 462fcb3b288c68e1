/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tests/unit/etcd/real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

#define OPTIONS_MAX 32u
#define PATIENCE_S  60u
#define PORT_FIRST  20000u
#define PORTS	    10000u

struct real {
	pid_t pid;
	unsigned port, peer_port;
	char url[64], peer_url[64], dir[256], cluster[96];
	const char *argv[OPTIONS_MAX];
};

/* A port below those that the kernel gives to connections, by its default: nobody's connection
 * takes it between two lives. */
static unsigned free_port(void)
{
	for (;;) {
		uint16_t port;

		assert_int_equal(getrandom(&port, sizeof(port), 0), sizeof(port));
		port = (uint16_t)(PORT_FIRST + port % PORTS);
		struct sockaddr_in at = { .sin_family = AF_INET,
					  .sin_port = htons(port),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int rc;

		assert_true(fd >= 0);
		rc = bind(fd, (struct sockaddr *)&at, sizeof(at));

		assert_true(rc == 0 || errno == EADDRINUSE);
		close(fd);
		if (rc == 0)
			return port;
	}
}

static bool listens(unsigned port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = connect(fd, (struct sockaddr *)&at, sizeof(at));

	close(fd);
	return rc == 0;
}

/* Killed, it keeps its port and its lock until the kernel has done with it. */
static void end(struct real *r)
{
	if (r->pid > 0) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
	}
}

/* It opens its ports when it has joined itself. */
void real_restart(struct real *r)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_S * NS_PER_S;

	end(r);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		char log[300];
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(log, sizeof(log), "%s/etcd.log", folder);
		fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		execvp("etcd", (char *const *)r->argv);
		_exit(127);
	}
	while (!listens(r->port)) {
		int status;

		if (waitpid(r->pid, &status, WNOHANG) == r->pid)
			fail_msg("etcd has ended, with status %d (is etcd-server installed?)",
				 WEXITSTATUS(status));
		assert_true(time_now_ns() < until_ns);
		time_sleep(20 * NS_PER_MS);
	}
}

struct real *real_start(const char *scheme, const char *const *more)
{
	static unsigned started; /* a port may come again, and what was written there must not */
	struct real *r = calloc(1, sizeof(*r));
	unsigned n;

	assert_non_null(r);
	r->port = free_port();
	do
		r->peer_port = free_port();
	while (r->peer_port == r->port);
	snprintf(r->url, sizeof(r->url), "%s://127.0.0.1:%u", scheme, r->port);
	snprintf(r->peer_url, sizeof(r->peer_url), "http://127.0.0.1:%u", r->peer_port);
	snprintf(r->dir, sizeof(r->dir), "%s/etcd-%u", folder, ++started);
	snprintf(r->cluster, sizeof(r->cluster), "default=%s", r->peer_url);
	const char *const options[] = {
		"etcd",	     "--data-dir",
		r->dir,	     "--listen-client-urls",
		r->url,	     "--advertise-client-urls",
		r->url,	     "--listen-peer-urls",
		r->peer_url, "--initial-advertise-peer-urls",
		r->peer_url, "--initial-cluster",
		r->cluster,
	};

	memcpy(r->argv, options, sizeof(options));
	n = sizeof(options) / sizeof(*options);
	while (more && *more && n < OPTIONS_MAX - 1)
		r->argv[n++] = *more++;
	real_restart(r);
	return r;
}

void real_signal(const struct real *r, int signal)
{
	int status = 0;

	assert_ok(kill(r->pid, signal));
	if (signal != SIGSTOP)
		return;
	/* Its threads stop one by one, and until then it may answer. */
	assert_int_equal(waitpid(r->pid, &status, WUNTRACED), r->pid);
	assert_true(WIFSTOPPED(status));
}

void real_end(struct real *r)
{
	end(r);
	free(r);
}

const char *real_url(const struct real *r)
{
	return r->url;
}
