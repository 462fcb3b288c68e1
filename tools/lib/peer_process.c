/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/peer_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/plain.h"
#include "common/base/time.h"
#include "tools/lib/child.h"

#define START_S	      10u
#define ARGUMENTS_MAX 24u
#define ATTEMPTS      5u /* a free port may be somebody else's when the peer comes to it */
#define MIB	      (1ull << 20)

extern char **environ;

/* Take what comes until it ends, or @end_ns. Returns how many bytes. */
static size_t take_output(int fd, char *out, size_t cap, uint64_t end_ns)
{
	size_t len = 0;

	while (len < cap) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = time_now_ns(), left = end_ns > now ? end_ns - now : 0;
		struct timespec ts = { (time_t)(left / NS_PER_S), (long)(left % NS_PER_S) };
		ssize_t n;

		if (ppoll(&p, 1, end_ns == UINT64_MAX ? NULL : &ts, NULL) <= 0)
			break;
		n = read(fd, out + len, cap - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return len;
}

/* Returns 0, or -ETIMEDOUT: it was still there at @end_ns, and was killed. */
static int wait_for_end(pid_t pid, int *status, uint64_t end_ns)
{
	while (waitpid(pid, status, WNOHANG) == 0) {
		if (time_now_ns() >= end_ns) {
			kill(pid, SIGKILL);
			waitpid(pid, status, 0);
			return -ETIMEDOUT;
		}
		usleep(1000);
	}
	return 0;
}

/* Run a program to its end, and no longer than until @end_ns; @out: the beginning of its stdout. */
static int output_by(char *const *args, char *out, size_t cap, uint64_t end_ns, struct error *err)
{
	posix_spawn_file_actions_t actions;
	int fds[2], rc, status = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return error_set(err, -errno, "pipe failed: %s", error_name(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	rc = posix_spawnp(&pid, args[0], &actions, NULL, args, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	out[rc ? 0 : take_output(fds[0], out, cap - 1, end_ns)] = 0;
	close(fds[0]);
	if (rc)
		return error_set(err, -rc, "%s cannot be run: %s", args[0], error_name(rc));
	if (wait_for_end(pid, &status, end_ns))
		return error_set(err, -ETIMEDOUT, "%s %s does not end within %u s", args[0],
				 args[1], START_S);
	if (!status)
		return 0;
	out[strcspn(out, "\n")] = 0; /* an error is one line */
	plain_text(out);
	return error_set(err, -EIO, "%s %s failed: %.200s", args[0], args[1],
			 out[0] ? out : "it said nothing");
}

int peer_program_version(const char *program, const char *flag, char *out, size_t cap,
			 struct error *err)
{
	char *const args[] = { (char *)program, (char *)flag, NULL };
	int rc = output_by(args, out, cap, time_now_ns() + START_S * NS_PER_S, err);

	out[strcspn(out, "\n")] = 0;
	return rc;
}

int peer_listen(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
	socklen_t len = sizeof(at);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&at, &len)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*port = ntohs(at.sin_port);
	return fd;
}

static int free_port(uint16_t *port)
{
	int fd = peer_listen(port);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int connected(int fd, const void *to, socklen_t len)
{
	int rc;

	if (fd < 0)
		return -errno;
	while (connect(fd, to, len)) {
		if (errno == EINTR)
			continue;
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int peer_connect(const char *path, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons(port) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd, on = 1;

	if (path && *path) {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
		return connected(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), &un, sizeof(un));
	}
	fd = connected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &in, sizeof(in));
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* Returns 0 when it listens; -ECHILD: it has ended at once. */
static int answers(struct peer_process *p, struct error *err)
{
	uint64_t end = time_now_ns() + START_S * NS_PER_S;
	int fd = -1, status;

	while (fd < 0) {
		fd = peer_connect(p->socket, p->port);
		if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
			p->pid = 0;
			if (fd >= 0)
				close(fd); /* somebody else's */
			return error_set(err, -ECHILD, "%s ended at once", p->name);
		}
		if (fd < 0 && time_now_ns() > end)
			return error_set(err, -ETIMEDOUT, "%s does not listen within %u s", p->name,
					 START_S);
		if (fd < 0)
			usleep(5000);
	}
	close(fd);
	return 0;
}

static int start(struct peer_process *p, const char *const *args, struct error *err)
{
	int null, rc;

	p->pid = child_fork();
	if (p->pid == 0) {
		null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		execvp(args[0], (char *const *)args);
		_exit(127);
	}
	if (p->pid > 0)
		return answers(p, err);
	rc = -errno;
	p->pid = 0;
	return error_set(err, rc, "fork failed: %s", error_name(rc));
}

static int own_folder(struct peer_process *p, struct error *err)
{
	snprintf(p->folder, sizeof(p->folder), "/tmp/gracekv-peer-XXXXXX");
	if (!mkdtemp(p->folder)) {
		p->folder[0] = 0;
		return error_set(err, -errno, "no folder can be made in /tmp: %s",
				 error_name(errno));
	}
	snprintf(p->socket, sizeof(p->socket), "%s/socket", p->folder);
	return 0;
}

/* @args names the port that @port holds; another is tried where it was taken. */
static int start_on_port(struct peer_process *p, const char *const *args, char port[8],
			 struct error *err)
{
	int rc = -ECHILD;

	for (unsigned i = 0; i < ATTEMPTS && rc == -ECHILD; i++) {
		rc = free_port(&p->port);
		if (rc)
			return error_set(err, rc, "no port of 127.0.0.1 is free: %s",
					 error_name(rc));
		snprintf(port, 8, "%u", p->port);
		rc = start(p, args, err);
	}
	return rc;
}

int peer_start_redis(struct peer_process *p, struct error *err)
{
	char port[8];
	const char *const args[] = {
		"redis-server", "--port",      port,	  "--bind",	"127.0.0.1", "--unixsocket",
		p->socket,	"--dir",       p->folder, "--save",	"",	     "--appendonly",
		"no",		"--daemonize", "no",	  "--loglevel", "warning",   NULL
	};
	int rc;

	*p = (struct peer_process){ .name = "redis-server" };
	rc = peer_program_version(p->name, "--version", p->version, sizeof(p->version), err);
	if (rc == 0)
		rc = own_folder(p, err);
	if (rc == 0)
		rc = start_on_port(p, args, port, err);
	if (rc)
		peer_stop(p);
	return rc;
}

int peer_start_memcached(struct peer_process *p, uint64_t memory, uint64_t value_max,
			 struct error *err)
{
	char port[8], megabytes[24], item[24];
	/* as another user it would no longer die with us */
	const char *args[ARGUMENTS_MAX] = { "memcached", "-l", "127.0.0.1", "-p", port, "-U",
					    "0",	 "-m", megabytes,   "-M", "-I", item };
	int rc;

	*p = (struct peer_process){ .name = "memcached" };
	rc = peer_program_version(p->name, "-V", p->version, sizeof(p->version), err);
	if (rc)
		return rc;
	snprintf(megabytes, sizeof(megabytes), "%" PRIu64, (uint64_t)(memory / MIB + 1));
	snprintf(item, sizeof(item), "%" PRIu64 "m",
		 (uint64_t)(value_max > MIB / 2 ? 2 * value_max / MIB + 1 : 1));
	if (geteuid() == 0) {
		unsigned n = 0;

		while (args[n])
			n++;
		args[n++] = "-u";
		args[n] = "root";
	}
	rc = start_on_port(p, args, port, err);
	if (rc)
		peer_stop(p);
	return rc;
}

void peer_stop(struct peer_process *p)
{
	if (p->pid > 0)
		child_end(p->pid);
	if (p->folder[0]) {
		unlink(p->socket);
		rmdir(p->folder);
	}
	p->pid = 0;
	p->folder[0] = p->socket[0] = 0;
}
