/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/redis_process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define REPLY_S	  60
#define GROUP	  512u /* SETs on their way at once */
#define SET_BYTES 96u /* of a SET, besides the value */
#define OK	  "+OK\r\n"

int redis_start(struct redis_process *r, struct error *err)
{
	struct timeval patience = { .tv_sec = REPLY_S };
	int rc;

	*r = (struct redis_process){ .fd = -1 };
	rc = peer_start_redis(&r->server, false, err);
	if (rc == 0)
		rc = peer_program_version("redis-benchmark", "--version", r->benchmark_version,
					  sizeof(r->benchmark_version), err);
	if (rc == 0) {
		r->fd = peer_connect(r->server.socket, 0);
		if (r->fd < 0)
			rc = error_set(err, r->fd, "connecting to redis-server failed: %s",
				       error_name(r->fd));
	}
	if (rc) {
		redis_stop(r);
		return rc;
	}
	setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(r->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return 0;
}

void redis_stop(struct redis_process *r)
{
	if (r->server.pid > 0 && r->fd >= 0)
		close(r->fd);
	peer_stop(&r->server);
	*r = (struct redis_process){ .fd = -1 };
}

/* All of @len bytes, there or back. */
static int send_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

		if (n <= 0)
			return -EIO;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static int receive_all(int fd, char *bytes, size_t len)
{
	while (len) {
		ssize_t n = recv(fd, bytes, len, 0);

		if (n <= 0)
			return -EIO;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static int load_group(struct redis_process *r, uint64_t first, unsigned n, uint32_t value_len,
		      char *bytes)
{
	char replies[GROUP * (sizeof(OK) - 1)];
	size_t len = 0;
	int rc;

	for (unsigned i = 0; i < n; i++) {
		len += (size_t)sprintf(bytes + len,
				       "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012" PRIu64 "\r\n$%u\r\n",
				       first + i, value_len);
		memset(bytes + len, 'x', value_len);
		memcpy(bytes + len + value_len, "\r\n", 2);
		len += value_len + 2;
	}
	rc = send_all(r->fd, bytes, len);
	if (rc == 0)
		rc = receive_all(r->fd, replies, n * (sizeof(OK) - 1));
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = memcmp(replies + i * (sizeof(OK) - 1), OK, sizeof(OK) - 1) ? -EPROTO : 0;
	return rc;
}

int redis_load(struct redis_process *r, uint64_t keys, uint32_t value_len, struct error *err)
{
	char *bytes = malloc(GROUP * (SET_BYTES + value_len));
	int rc = bytes ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < keys && rc == 0; i += GROUP)
		rc = load_group(r, i, keys - i < GROUP ? (unsigned)(keys - i) : GROUP, value_len,
				bytes);
	free(bytes);
	return rc ? error_set(err, rc, "loading redis-server failed (has it enough memory?)") : 0;
}

/* How many GETs have found their key, and have not. */
static int hits_of(struct redis_process *r, uint64_t *hits, uint64_t *misses)
{
	static const char ask[] = "INFO stats\r\n";
	const char *at, *other;
	char text[16384];
	unsigned long len;
	size_t n = 0;

	if (send_all(r->fd, ask, sizeof(ask) - 1))
		return -EIO;
	do {
		if (n >= sizeof(text) - 1 || receive_all(r->fd, text + n, 1))
			return -EIO;
	} while (text[n++] != '\n');
	text[n] = 0;
	len = text[0] == '$' ? strtoul(text + 1, NULL, 10) + 2 : sizeof(text);
	if (len >= sizeof(text) || receive_all(r->fd, text, len))
		return -EPROTO;
	text[len] = 0;
	at = strstr(text, "keyspace_hits:");
	other = strstr(text, "keyspace_misses:");
	if (!at || !other)
		return -EPROTO;
	*hits = strtoull(strchr(at, ':') + 1, NULL, 10);
	*misses = strtoull(strchr(other, ':') + 1, NULL, 10);
	return 0;
}

/* A head, then "GET","12345.67","..." */
static double rate_of(const char *csv)
{
	const char *row = strstr(csv, "\"GET\",\"");

	return row ? strtod(row + strlen("\"GET\",\""), NULL) : 0;
}

int redis_gets(struct redis_process *r, uint64_t keys, uint32_t value_len, unsigned clients,
	       unsigned pipeline, uint64_t count, double *per_s, struct error *err)
{
	char text[5][24], out[4096];
	char *const args[] = {
		(char *)"redis-benchmark",
		(char *)"-s",
		r->server.socket,
		(char *)"-t",
		(char *)"get",
		(char *)"--csv",
		(char *)"-r",
		text[0],
		(char *)"-d",
		text[1],
		(char *)"-c",
		text[2],
		(char *)"-P",
		text[3],
		(char *)"-n",
		text[4],
		NULL,
	};
	uint64_t hits[2], misses[2];
	int rc;

	snprintf(text[0], sizeof(text[0]), "%" PRIu64, keys);
	snprintf(text[1], sizeof(text[1]), "%u", value_len ? value_len : 1);
	snprintf(text[2], sizeof(text[2]), "%u", clients);
	snprintf(text[3], sizeof(text[3]), "%u", pipeline);
	snprintf(text[4], sizeof(text[4]), "%" PRIu64, count);
	rc = hits_of(r, &hits[0], &misses[0]);
	if (rc == 0) {
		rc = peer_program_output(args, out, sizeof(out), err);
		if (rc)
			return rc;
		rc = hits_of(r, &hits[1], &misses[1]);
	}
	if (rc)
		return error_set(err, rc, "redis-server does not tell its statistics");
	*per_s = rate_of(out);
	if (hits[1] - hits[0] < count || misses[1] != misses[0])
		return error_set(err, -EBADMSG,
				 "of %" PRIu64 " GETs %" PRIu64 " have found a key, %" PRIu64
				 " none",
				 count, hits[1] - hits[0], misses[1] - misses[0]);
	return *per_s > 0 ? 0
			  : error_set(err, -EPROTO, "redis-benchmark printed no rate: %.200s", out);
}
