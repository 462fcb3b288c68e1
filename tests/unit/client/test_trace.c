/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The steps of connecting, as gkv_trace tells them, and the step in the sentence of a failure. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/include/gracekv.h"
#include "common/base/time.h"
#include "common/rdma/exchange.h"
#include "tests/lib/unit.h"
#include "with_server.h"

static const char *const all_steps[] = { "resolve", "tcp",   "device", "welcome", "gid",
					 "qp",	    "offer", "answer", "settle",  "rtr",
					 "rts",	    "live",  "root" };
#define STEPS (sizeof(all_steps) / sizeof(all_steps[0]))

/* What was heard: begun and ended steps in their order, " tcp tcp." */
struct heard {
	char order[4096];
	const char *begun;
	unsigned ended;
	char words[8192];
};

static void hear(void *arg, const char *step, const char *words)
{
	struct heard *h = arg;
	size_t used = strlen(h->order), said = strlen(h->words);

	if (words) {
		assert_ptr_equal(step, h->begun); /* each ends before the next begins */
		assert_true(words[0] && !strchr(words, '\n'));
		h->ended++;
		snprintf(h->words + said, sizeof(h->words) - said, "%s: %s\n", step, words);
	}
	h->begun = step;
	snprintf(h->order + used, sizeof(h->order) - used, " %s%s", step, words ? "." : "");
}

static void options(struct gkv_options *o, char address[32], unsigned port, struct heard *h)
{
	snprintf(address, 32, "127.0.0.1:%u", port);
	memset(h, 0, sizeof(*h));
	gkv_options_init(o);
	o->server = address;
	o->device = "soft0";
	o->trace = hear;
	o->trace_arg = h;
}

UNIT_TEST(test_every_step_begins_and_ends_in_order)
{
	char address[32], text[700], want[1024] = "", line[64];
	unsigned port = 0;
	pid_t server = server_start(&port, "64M");
	struct gkv_session *session;
	struct gkv_options o;
	struct heard h;
	struct gkv *kv;

	for (unsigned i = 0; i < STEPS; i++)
		snprintf(want + strlen(want), sizeof(want) - strlen(want), " %s %s.", all_steps[i],
			 all_steps[i]);
	options(&o, address, port, &h);
	assert_int_equal(gkv_session_open(&o, &session, text, sizeof(text)), 0);
	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	assert_string_equal(h.order, want);
	snprintf(line, sizeof(line), "to 127.0.0.1 port %u", port);
	assert_non_null(strstr(h.words, line));
	assert_non_null(strstr(h.words, "device soft0 port 1: as asked for"));
	assert_non_null(strstr(h.words, "magic GKVROOT1"));
	/* nothing is said on the way of a call */
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), 0);
	assert_int_equal(gkv_exists(kv, "k", 1, NULL), 0);
	assert_int_equal(h.ended, STEPS);
	gkv_close(kv);
	gkv_session_close(session);
	assert_int_equal(h.ended, STEPS);
	server_stop(server, SIGKILL);
}

UNIT_TEST(test_a_connection_made_again_says_why)
{
	char address[32], text[700];
	unsigned port = 0;
	pid_t server = server_start(&port, "64M");
	struct gkv_session *session;
	struct gkv_options o;
	struct heard h;
	struct gkv *kv;

	options(&o, address, port, &h);
	assert_int_equal(gkv_session_open(&o, &session, text, sizeof(text)), 0);
	assert_int_equal(gkv_open(session, NULL, &kv, NULL, 0), 0);
	server_stop(server, SIGKILL);
	memset(&h, 0, sizeof(h));
	server = server_start(&port, "64M");
	assert_int_equal(gkv_put(kv, "k", 1, "v", 1, NULL), 0);
	assert_memory_equal(h.order, " again again. resolve ", 22);
	assert_non_null(strstr(h.words, "again: "));
	gkv_close(kv);
	gkv_session_close(session);
	server_stop(server, SIGKILL);
}

/* A listener that takes connections and says nothing. */
static int deaf_listener(unsigned *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

UNIT_TEST(test_a_failure_names_its_step)
{
	char address[32], text[700];
	struct gkv_session *session;
	struct gkv_options o;
	struct heard h;
	uint64_t start_ns, took_ms;
	unsigned port;
	int fd = deaf_listener(&port);

	options(&o, address, port, &h);
	o.timeout_ms = 500;
	start_ns = time_now_ns();
	assert_int_equal(gkv_session_open(&o, &session, text, sizeof(text)), -ETIMEDOUT);
	took_ms = (time_now_ns() - start_ns) / NS_PER_MS;
	assert_true(took_ms >= 490 && took_ms < EXCHANGE_DEADLINE_MS - 500);
	assert_string_equal(h.begun, "welcome");
	assert_int_equal(h.ended, 3);
	assert_non_null(strstr(text, "step welcome"));
	assert_non_null(strstr(text, "did not answer"));
	close(fd);
	options(&o, address, port, &h);
	assert_int_equal(gkv_session_open(&o, &session, text, sizeof(text)), -ECONNREFUSED);
	assert_string_equal(h.begun, "tcp");
	o.device = "nosuch";
	fd = deaf_listener(&port);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	assert_int_equal(gkv_session_open(&o, &session, text, sizeof(text)), -ENODEV);
	assert_string_equal(h.begun, "device");
	close(fd);
}
