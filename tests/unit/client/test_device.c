/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The client's device changes under a session: its port moves, or goes down, or all of it fails. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/src/link/device.h"
#include "client/src/link/handle.h"
#include "common/base/time.h"
#include "tests/lib/unit.h"
#include "with_server.h"

#define WAIT_NS (20 * NS_PER_S)

static unsigned port;
static pid_t server;
static struct gkv_session *session;
static struct gkv *kv;

/* @fault: what happens to this process's device, in ms from its opening. */
static int begin(const char *fault)
{
	struct gkv_options o;

	setenv("SOFTRDMA_LINK", "ib", 1); /* the link of a process stays */
	port = 0;
	server = server_start(&port, "64M");
	setenv("SOFTRDMA_FAULT", fault, 1);
	gkv_options_init(&o);
	o.timeout_ms = 20000;
	if (server_session(port, &o, &session) || server_handle(session, &kv))
		return -1;
	return gkv_put(kv, "k", 1, "value", 5, NULL);
}

static int set_up_lid(void **state)
{
	return begin("event=lid_change@1500");
}

static int set_up_port(void **state)
{
	return begin("event=port_err@1500,event=port_active@3000");
}

static int set_up_fatal(void **state)
{
	return begin("event=device_fatal@1500");
}

static int tear_down(void **state)
{
	unsetenv("SOFTRDMA_FAULT");
	gkv_close(kv);
	gkv_session_close(session);
	server_stop(server, SIGKILL);
	return 0;
}

static int get(void)
{
	char value[8];

	return gkv_get(kv, "k", 1, value, sizeof(value), NULL);
}

/* An offer names the LID that the port has now: with the old one the server would find nobody. */
UNIT_TEST(test_a_lid_that_changes, set_up_lid, tear_down)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct ibv_port_attr now;
	const uint16_t before = session->device->rdma->port_attr.lid;

	do {
		assert_int_equal(session->device->rdma->ops->query_port(
					 session->device->rdma->context, 1, &now),
				 0);
		usleep(20000);
	} while (now.lid == before && time_now_ns() < until_ns);
	assert_int_not_equal(now.lid, before);
	kv->link.live = false;
	assert_int_equal(get(), 0);
	assert_int_equal(session->reconnects, 0);
	assert_int_equal(session->device->rdma->port_attr.lid, now.lid);
}

/* While it is down another queue pair is waited for. */
UNIT_TEST(test_a_port_that_goes_down, set_up_port, tear_down)
{
	const uint64_t until_ns = time_now_ns() + WAIT_NS;
	struct ibv_port_attr now;

	do {
		assert_int_equal(session->device->rdma->ops->query_port(
					 session->device->rdma->context, 1, &now),
				 0);
		usleep(5000);
	} while (now.state == IBV_PORT_ACTIVE && time_now_ns() < until_ns);
	kv->link.live = false;
	assert_int_equal(get(), 0);
}

/* All that was made on it is lost; the handle goes on when it was opened again. */
UNIT_TEST(test_a_device_that_fails, set_up_fatal, tear_down)
{
	const struct session_device *before = session->device;
	uint64_t from_ns = time_now_ns();

	unsetenv("SOFTRDMA_FAULT"); /* the next one is well */
	while (session->device == before && time_now_ns() - from_ns < WAIT_NS) {
		assert_int_equal(get(), 0);
		usleep(1000);
	}
	assert_ptr_not_equal(session->device, before);
	assert_int_equal(gkv_put(kv, "k", 1, "other", 5, NULL), 0);
	assert_int_equal(get(), 0);
	assert_int_equal(session->reconnects, 1);
}
