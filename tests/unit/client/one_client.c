/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "one_client.h"

#include <signal.h>

#include "with_server.h"

unsigned port;
pid_t server;
struct gkv_session *session;
struct gkv *kv;

struct gkv_options patient(void)
{
	struct gkv_options o;

	gkv_options_init(&o);
	o.timeout_ms = 20000;
	return o;
}

int one_client(const char *memory, struct gkv_options o)
{
	port = 0; /* another might have taken the last one's */
	server = server_start(&port, memory);
	return server_session(port, &o, &session) || server_handle(session, &kv) ? -1 : 0;
}

static int end(int signal)
{
	gkv_close(kv);
	gkv_session_close(session);
	return server_stop(server, signal);
}

int tear_down(void **state)
{
	end(SIGKILL);
	return 0;
}

int tear_down_in_order(void **state)
{
	return end(SIGTERM);
}
