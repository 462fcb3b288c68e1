/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "common/rdma/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/cleanup.h"
#include "common/base/time.h"

#define PROBES_MAX 127 /* TCP_KEEPCNT */

/* @flags: of getaddrinfo(). Returns 0, or -EHOSTUNREACH; *code: what getaddrinfo() said. */
static int ask(const char *host, const char *port, int flags, struct addrinfo **list, int *code,
	       struct error *err)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags | AI_NUMERICSERV,
	};
	int rc = getaddrinfo(host[0] ? host : NULL, port, &hints, list);

	*code = rc;
	if (rc)
		return error_set(err, -EHOSTUNREACH, "'%s' port %s: %s (check the name)", host,
				 port, rc == EAI_SYSTEM ? error_name(errno) : gai_strerror(rc));
	return 0;
}

static int resolve(const char *host, const char *port, bool passive, struct addrinfo **list,
		   struct error *err)
{
	const int flags = passive ? AI_PASSIVE : 0;
	int code, rc = ask(host, port, flags | AI_NUMERICHOST, list, &code, err);

	if (code == EAI_NONAME) /* no address in digits: only now may somebody be asked */
		rc = ask(host, port, flags, list, &code, err);
	return rc;
}

static void address_words(const struct sockaddr *sa, socklen_t len, char *host, size_t host_cap,
			  char *port, size_t port_cap)
{
	if (getnameinfo(sa, len, host, (socklen_t)host_cap, port, (socklen_t)port_cap,
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(host, host_cap, "?");
		snprintf(port, port_cap, "?");
	}
}

static int listen_on(const struct addrinfo *ai, int *out)
{
	autoclose int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 128))
		return -errno;
	*out = cleanup_take_fd(&fd);
	return 0;
}

int tcp_listen(const char *host, const char *port, int *fd, char *bound, struct error *err)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct addrinfo *list, *i;
	char words[256], number[16];
	int rc = resolve(host, port, true, &list, err);

	if (rc)
		return rc;
	for (i = list; i; i = i->ai_next) {
		rc = listen_on(i, fd);
		if (rc == 0)
			break;
	}
	freeaddrinfo(list);
	if (rc)
		return error_set(err, rc, "listening on %s:%s failed: %s (%s)", host, port,
				 error_name(rc),
				 rc == -EADDRINUSE ? "is another kv-server running? choose another "
						     "port, or 0 for a free one"
						   : "choose another address with --listen");
	getsockname(*fd, (struct sockaddr *)&sa, &len);
	address_words((struct sockaddr *)&sa, len, words, sizeof(words), number, sizeof(number));
	snprintf(bound, 280, strchr(words, ':') ? "[%s]:%s" : "%s:%s", words, number);
	return 0;
}

static int connect_to(const struct addrinfo *ai, uint64_t deadline_ns, int *out)
{
	autoclose int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(int);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int code = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) && errno != EINPROGRESS)
		return -errno;
	for (;;) {
		uint64_t now = time_now_ns();
		int rc = now >= deadline_ns
				 ? 0
				 : poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1);

		if (rc == 0)
			return -ETIMEDOUT;
		if (rc > 0)
			break;
		if (errno != EINTR)
			return -errno;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) || code)
		return code ? -code : -errno;
	*out = cleanup_take_fd(&fd);
	return 0;
}

int tcp_resolve_digits(const char *host, const char *port, struct addrinfo **list,
		       struct error *err)
{
	int code, rc = ask(host, port, AI_NUMERICHOST, list, &code, err);

	return code == EAI_NONAME ? 1 : rc;
}

int tcp_resolve(const char *host, const char *port, struct addrinfo **list, struct error *err)
{
	return resolve(host, port, false, list, err);
}

/* "<address>", and after it ": <why>" where there is a reason, after what stands in @text. */
static void add_words(char *text, size_t cap, const struct addrinfo *ai, const char *why)
{
	char host[256], port[16];
	size_t used = strlen(text);

	address_words(ai->ai_addr, ai->ai_addrlen, host, sizeof(host), port, sizeof(port));
	snprintf(text + used, cap - used, "%s%s%s%s", used ? ", " : "", host, why ? ": " : "",
		 why ? why : "");
}

void tcp_list_words(const struct addrinfo *list, char *text, size_t cap)
{
	text[0] = '\0';
	for (; list; list = list->ai_next)
		add_words(text, cap, list, NULL);
}

int tcp_connect_list(const struct addrinfo *list, const char *host, const char *port,
		     uint64_t deadline_ns, int *fd, struct error *err)
{
	char tried[ERROR_TEXT_MAX / 2] = "";
	unsigned left = 0, many;
	int rc = -EHOSTUNREACH;

	for (const struct addrinfo *i = list; i; i = i->ai_next)
		left++;
	many = left > 1;
	for (const struct addrinfo *i = list; i; i = i->ai_next, left--) {
		uint64_t now = time_now_ns();
		uint64_t share = now < deadline_ns ? (deadline_ns - now) / left : 0;

		rc = connect_to(i, now + share, fd);
		if (rc == 0)
			return 0;
		add_words(tried, sizeof(tried), i, error_name(rc));
	}
	return error_set(err, rc, "connecting to %s:%s failed: %s (%s)", host, port,
			 many ? tried : error_name(rc),
			 rc == -ECONNREFUSED ? "is kv-server running there?"
			 : rc == -EMFILE     ? "raise the limit of open files with ulimit -n"
					     : "check address, route and firewall");
}

int tcp_connect(const char *host, const char *port, uint64_t deadline_ns, int *fd,
		struct error *err)
{
	struct addrinfo *list;
	int rc = resolve(host, port, false, &list, err);

	if (rc)
		return rc;
	rc = tcp_connect_list(list, host, port, deadline_ns, fd, err);
	freeaddrinfo(list);
	return rc;
}

int tcp_lifeline(int fd, unsigned timeout_ms)
{
	int on = 1, idle = 1, seconds = (int)(timeout_ms / 1000);
	int interval = 1 + seconds / PROBES_MAX;
	int probes = seconds > interval ? (seconds - 1) / interval : 1;
	unsigned user_timeout = timeout_ms;

	if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout)))
		return -errno;
	return 0;
}

void tcp_local_address(int fd, char *text)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char port[16];

	text[0] = '\0';
	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
		address_words((struct sockaddr *)&sa, len, text, 64, port, sizeof(port));
}

void tcp_peer_address(int fd, char *text)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char port[16];

	text[0] = '\0';
	if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0)
		address_words((struct sockaddr *)&sa, len, text, 64, port, sizeof(port));
}

void tcp_ends(int fd, char *text, size_t cap)
{
	struct sockaddr_storage near, far;
	socklen_t near_len = sizeof(near), far_len = sizeof(far);
	char host[2][64], port[2][16];

	snprintf(text, cap, "?");
	if (getsockname(fd, (struct sockaddr *)&near, &near_len) ||
	    getpeername(fd, (struct sockaddr *)&far, &far_len))
		return;
	address_words((struct sockaddr *)&near, near_len, host[0], sizeof(host[0]), port[0],
		      sizeof(port[0]));
	address_words((struct sockaddr *)&far, far_len, host[1], sizeof(host[1]), port[1],
		      sizeof(port[1]));
	snprintf(text, cap, "%s port %s to %s port %s", host[0], port[0], host[1], port[1]);
}

unsigned tcp_local_port(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	memset(&sa, 0, sizeof(sa));
	if (getsockname(fd, (struct sockaddr *)&sa, &len))
		return 0;
	return ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
					      : ((struct sockaddr_in *)&sa)->sin_port);
}
