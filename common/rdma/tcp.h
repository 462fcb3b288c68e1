/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* TCP sockets for the exchange: IPv4 and IPv6, keepalive and TCP_USER_TIMEOUT by the kernel. */
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/*
 * tcp_listen - @port "0" takes a free one. @bound: receives "HOST:PORT" as bound, 280 bytes.
 * Returns 0 or a negative errno; @fd does not block.
 */
int tcp_listen(const char *host, const char *port, int *fd, char *bound, struct error *err);

/*
 * tcp_connect - try every address of @host until @deadline_ns. @fd does not block.
 * Returns 0, -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, ...; @err says what to look at.
 */
int tcp_connect(const char *host, const char *port, uint64_t deadline_ns, int *fd,
		struct error *err);

/*
 * tcp_connect() in two: tcp_resolve() gives the addresses of @host, to be freed with
 * freeaddrinfo(), -EHOSTUNREACH: there are none. Only the resolver's own time-outs bound it; it is
 * not asked about an address in digits. tcp_resolve_digits() never asks it: 1: @host is a name.
 * tcp_connect_list() tries them in their order. What failed is said of each.
 */
int tcp_resolve(const char *host, const char *port, struct addrinfo **list, struct error *err);
int tcp_resolve_digits(const char *host, const char *port, struct addrinfo **list,
		       struct error *err);
int tcp_connect_list(const struct addrinfo *list, const char *host, const char *port,
		     uint64_t deadline_ns, int *fd, struct error *err);

/* tcp_list_words - "10.0.0.5, fd00::5". What does not fit is cut. */
void tcp_list_words(const struct addrinfo *list, char *text, size_t cap);

/* tcp_lifeline - a dead peer or path shows within @timeout_ms: keepalive, user timeout, nodelay. */
int tcp_lifeline(int fd, unsigned timeout_ms);

/* tcp_local_address - the local address of a connected socket, as text. @text: 64 bytes. */
void tcp_local_address(int fd, char *text);

/* tcp_peer_address - of the other end, likewise. */
void tcp_peer_address(int fd, char *text);

/* tcp_ends - "10.0.0.9 port 40112 to 10.0.0.5 port 7471": both ends of a connected socket. */
void tcp_ends(int fd, char *text, size_t cap);

/* tcp_local_port - the local port of a socket; 0: it has none. */
unsigned tcp_local_port(int fd);
