/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-cm-client HOST:PORT - a client of the RDMA CM that does what a test says: a session over TCP,
 * then requests of the CM with fields and lengths of the test's choice. It has no queue pair: it
 * names one that is not there. One command a line on stdin, one answer on stdout: "ok name=value
 * ..." or "err CODE sentence".
 *
 *	request NAME=NUMBER ...	a request, good but for what is named: token handle credits mtu
 *				magic version kind; length cuts the private data; depth is of READs,
 *				both ways. What is accepted stays half-open until the process ends.
 *	noise LENGTH		a request with so many random bytes
 *	establish		confirm the last request
 *	leave			disconnect the last request, and wait for the server's confirmation
 */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/layout/wire_cm.h"
#include "common/rdma/exchange.h"
#include "common/rdma/tcp.h"

#define DEADLINE_NS (20 * NS_PER_S)
#define RESOLVE_MS  10000
#define WORDS_MAX   12

static struct wire_welcome welcome;
static struct sockaddr_storage server;
static struct rdma_cm_id *last;
static uint32_t qpn; /* random at first: the CM remembers a number for a while */

static int failed(const char *what)
{
	int rc = errno ? -errno : -EIO;

	printf("err %d %s failed: %s\n", rc, what, error_name(rc));
	return rc;
}

static int hello(const char *address, struct error *err)
{
	struct wire_frame frame = { .type = WIRE_HELLO };
	uint64_t deadline_ns = time_now_ns() + DEADLINE_NS;
	struct exchange_reader reader = { 0 };
	char host[256] = "", port[8] = "";
	socklen_t len = sizeof(server);
	int rc = parse_host_port("HOST:PORT", address, host, port, err), line;

	frame.hello.layout_version = LAYOUT_VERSION;
	frame.hello.layout_hash = layout_hash();
	frame.hello.first_sequence = 1;
	strcpy(frame.hello.name, "kv-cm-client");
	if (getrandom(frame.hello.client_id, 16, 0) != 16 ||
	    getrandom(&qpn, sizeof(qpn), 0) != sizeof(qpn))
		return error_set(err, -EIO, "getrandom failed");
	if (rc == 0)
		rc = tcp_connect(host, port, deadline_ns, &line, err);
	if (rc == 0)
		rc = exchange_send(line, &frame, deadline_ns, err);
	if (rc == 0)
		rc = exchange_recv(line, &reader, WIRE_WELCOME, &frame, deadline_ns, err);
	if (rc)
		return rc;
	welcome = frame.welcome;
	getpeername(line, (struct sockaddr *)&server, &len); /* it stays open: the life line */
	if (server.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&server)->sin6_port = htons((uint16_t)welcome.cm_port);
	else
		((struct sockaddr_in *)&server)->sin_port = htons((uint16_t)welcome.cm_port);
	return 0;
}

/* The number after NAME= among the words, or @otherwise. */
static uint64_t field(char **word, const char *name, uint64_t otherwise)
{
	size_t len = strlen(name);

	for (; *word; word++) {
		if (strncmp(*word, name, len) == 0 && (*word)[len] == '=')
			return strtoull(*word + len + 1, NULL, 0);
	}
	return otherwise;
}

/* The server's answer is in id->event until the id's next call. */
static void tell_answer(const struct rdma_cm_id *id)
{
	const struct rdma_conn_param *param = &id->event->param.conn;
	struct wire_cm_reject why;
	struct wire_cm_reply reply;
	struct error err;
	int rc;

	if (id->event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		rc = wire_cm_reply_decode(param->private_data, param->private_data_len, &reply,
					  &err);
		if (rc)
			printf("err %d %s\n", rc, err.text);
		else
			printf("ok handle=%u credits=%u mtu=%u depth=%u\n", reply.handle,
			       reply.credits, 128u << reply.mtu, param->initiator_depth);
	} else if (wire_cm_reject_decode(param->private_data, param->private_data_len, &why,
					 NULL) == 0) {
		printf("err %d %s\n", why.code, why.text);
	} else {
		printf("err %d event %s status %d without words\n", -EPROTO,
		       rdma_event_str(id->event->event), id->event->status);
	}
}

static void ask(const void *data, size_t len, uint8_t depth)
{
	struct rdma_conn_param param = { .private_data = data,
					 .private_data_len = (uint8_t)len,
					 .initiator_depth = depth,
					 .responder_resources = depth,
					 .qp_num = ++qpn & 0xffffff };
	struct rdma_cm_id *id;

	errno = 0;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		failed("rdma_create_id");
		return;
	}
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&server, RESOLVE_MS) ||
	    rdma_resolve_route(id, RESOLVE_MS)) {
		failed("resolving");
		rdma_destroy_id(id);
		return;
	}
	rdma_connect(id, &param); /* its own channel: it waits for the answer */
	if (!id->event) {
		failed("rdma_connect");
		return;
	}
	tell_answer(id);
	if (id->event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		last = id; /* kept, as the ones before */
	else
		rdma_destroy_id(id);
}

static void cmd_request(char **word)
{
	struct wire_cm_request r = { .header = wire_cm_header(WIRE_CM_REQUEST) };

	r.header.magic = (uint32_t)field(word, "magic", r.header.magic);
	r.header.version = (uint16_t)field(word, "version", r.header.version);
	r.header.kind = (uint16_t)field(word, "kind", r.header.kind);
	r.token = field(word, "token", welcome.cm_token);
	r.handle = (uint32_t)field(word, "handle", 0);
	r.credits = (uint32_t)field(word, "credits", 8);
	r.mtu = (uint8_t)field(word, "mtu", 3);
	ask(&r, field(word, "length", sizeof(r)), (uint8_t)field(word, "depth", 4));
}

static void cmd_noise(char **word)
{
	uint8_t bytes[WIRE_CM_REQUEST_MAX];
	size_t len = word[0] ? strtoull(word[0], NULL, 0) : 0;

	if (len > sizeof(bytes) || getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		printf("err %d at most %zu bytes\n", -EINVAL, sizeof(bytes));
	else
		ask(bytes, len, 4);
}

static void cmd_establish(char **word)
{
	errno = 0;
	if (!last || rdma_establish(last))
		failed("rdma_establish");
	else
		puts("ok");
}

static void cmd_leave(char **word)
{
	errno = 0;
	if (!last || rdma_disconnect(last) || last->event->event != RDMA_CM_EVENT_DISCONNECTED)
		failed("rdma_disconnect");
	else
		puts("ok");
}

static const struct {
	const char *name;
	void (*run)(char **word);
} commands[] = {
	{ "request", cmd_request },
	{ "noise", cmd_noise },
	{ "establish", cmd_establish },
	{ "leave", cmd_leave },
};

static void obey(char *text)
{
	char *word[WORDS_MAX + 1] = { NULL }, *rest = NULL;
	unsigned n = 0;

	for (char *w = strtok_r(text, " \n", &rest); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \n", &rest))
		word[n++] = w;
	for (size_t i = 0; n && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(word[0], commands[i].name) == 0) {
			commands[i].run(word + 1);
			return;
		}
	}
	printf("err %d not a command\n", -EINVAL);
}

int main(int argc, char **argv)
{
	struct error err = { 0 };
	char *text = NULL;
	size_t cap = 0;

	if (argc != 2)
		return fputs("kv-cm-client: HOST:PORT is wanted\n", stderr), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (hello(argv[1], &err)) {
		printf("err %d %s\n", err.code, err.text);
		return 3;
	}
	printf("ok port=%u token=%d\n", welcome.cm_port, welcome.cm_token != 0);
	while (getline(&text, &cap, stdin) > 0)
		obey(text);
	free(text);
	return 0;
}
