/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The control thread and an RDMA CM whose events cannot be taken, or that goes away. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "common/base/time.h"
#include "server/session/control.h"
#include "tests/lib/no_device.h"

#define WATCH_MS 500u

/* Of librdmacm: a listener, and its events. */
static struct {
	_Atomic unsigned asked;
	_Atomic int fails; /* errno; 0: the device goes away */
	struct rdma_event_channel channel;
	struct rdma_cm_id id;
} cm;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	uint64_t one = 1;

	cm.channel.fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(write(cm.channel.fd, &one, sizeof(one)), sizeof(one)); /* for good */
	return &cm.channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	*id = &cm.id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *at)
{
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	static struct rdma_cm_event removal = { .event = RDMA_CM_EVENT_DEVICE_REMOVAL };

	atomic_fetch_add(&cm.asked, 1);
	removal.id = &cm.id;
	*out = &removal;
	errno = cm.fails;
	return errno ? -1 : 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return 0;
}

struct run {
	struct sessions all;
	int listen_fd, rc;
	struct error err;
};

static void *run_control(void *arg)
{
	struct run *r = arg;

	r->rc = control_run(&r->all, r->listen_fd, NULL, &r->err);
	return NULL;
}

UNIT_TEST(a_cm_that_fails_is_asked_once_a_tick)
{
	const struct sockaddr at = { .sa_family = AF_INET };
	struct ibv_context context = { .async_fd = eventfd(0, EFD_CLOEXEC) };
	struct rdma_device dev = { .context = &context, .name = "fake0" };
	struct root *root = aligned_alloc(4096, 4096);
	const struct store_config config = {
		.bytes_max = 16 << 20,
		.server_incarnation = 1,
		.hooks = { take_region, drop_region, NULL },
		.limit_ms = 1000,
	};
	struct store store;
	struct run r = { .all = { .dev = &dev, .root = root, .store = &store, .lease_ms = 8000 } };
	struct error err;
	pthread_t thread;
	uint64_t from_ns, ticks;
	unsigned asked;

	assert_non_null(root);
	memset(root, 0, 4096);
	assert_int_equal(store_create(&store, &config, &err), 0);
	cm.fails = ENOMEM;
	assert_int_equal(sessions_init(&r.all), 0);
	assert_int_equal(cm_listen(&r.all.cm, &at, &err), 0);
	r.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(listen(r.listen_fd, 1), 0);
	assert_int_equal(pairs_start(&r.all, &err), 0);
	from_ns = time_now_ns();
	assert_int_equal(pthread_create(&thread, NULL, run_control, &r), 0);
	usleep(WATCH_MS * 1000);
	asked = cm.asked;
	ticks = (time_now_ns() - from_ns) / (CLOCK_PERIOD_MS * NS_PER_MS);
	assert_in_range(asked, 1, ticks + 2);
	cm.fails = 0; /* ... and it is heard again */
	pthread_join(thread, NULL);
	assert_int_equal(r.rc, -EIO);
	assert_non_null(strstr(r.err.text, "goes away"));
	pairs_stop(&r.all);
	cm_unlisten(r.all.cm);
	sessions_destroy(&r.all);
	store_destroy(&store);
	close(r.listen_fd);
	close(context.async_fd);
	free(root);
}

int main(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL); /* as the server does */
	alarm(60); /* ends what is never heard again */
	return unit_run(NULL, NULL);
}
