/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * A member joins a primary, which a thread of the test plays: rings, flow words and beats on soft0,
 * frames over a pair of sockets. And primaries that break off, refuse, or lie.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/device.h"
#include "server/member/join.h"
#include "server/replica/mirror.h"
#include "tests/lib/own_process.h"
#include "tests/lib/unit.h"

#define TERM	    7u
#define LIFE	    99u
#define CLIENTS	    30u /* three frames */
#define RING_BYTES  ((RING_BYTES_MIN + 4095) & ~4095ull)
#define PATIENCE_NS (20 * NS_PER_S)
#define SOON_NS	    (200 * NS_PER_MS)

/* Where the primary stops to do as it should. */
enum lie { NONE, SILENT, REFUSES, CLOSES, WRONG_FRAME, WRONG_TERM, ODD_WORD, FAR_CLIENT };

static struct error err;
static struct rdma_device *primary_dev, *member_dev;

static struct primary {
	int fd;
	struct exchange_reader reader;
	struct mirror *mirror;
	struct pulse *pulse;
	enum lie lie;
	pthread_t thread;
	bool runs; /* the thread */
	uint64_t caught_up;
	struct error err;
} primary;

static int open_devices(void **state)
{
	struct rdma_options o = rdma_options_default();

	(void)state;
	o.device = "soft0";
	assert_ok(rdma_device_open(&primary_dev, &o, NULL, &err));
	assert_ok(rdma_device_open(&member_dev, &o, NULL, &err));
	return 0;
}

static int close_devices(void **state)
{
	(void)state;
	rdma_device_close(member_dev);
	rdma_device_close(primary_dev);
	return 0;
}

UNIT_GROUP(open_devices, close_devices);

static int hear(enum wire_type want, struct wire_frame *out)
{
	return exchange_recv(primary.fd, &primary.reader, want, out, time_now_ns() + PATIENCE_NS,
			     &primary.err);
}

static int say(const struct wire_frame *f)
{
	return exchange_send(primary.fd, f, time_now_ns() + PATIENCE_NS, &primary.err);
}

static int welcome(void)
{
	const struct wire_frame joined = {
		.type = primary.lie == WRONG_FRAME ? WIRE_PEER_WALK : WIRE_PEER_JOINED,
		.peer_joined = { .term = TERM, .primary = LIFE, .lease_ms = 300, .rho_ppm = 10000 }
	};
	struct wire_frame f;
	int rc = hear(WIRE_PEER_HELLO, &f);

	if (rc)
		return rc;
	if (f.peer_hello.layout_hash != layout_hash() || strcmp(f.peer_hello.node, "n2:1") != 0)
		return -EBADMSG;
	if (primary.lie == REFUSES)
		return exchange_refuse(primary.fd, 0, -EXDEV, "the group is another one");
	if (primary.lie == CLOSES || primary.lie == SILENT)
		return -ECANCELED;
	return say(&joined);
}

static int answer(const struct wire_peer_offer *o)
{
	const struct replica_ring_offer ring = { .qp = o->ring_qp,
						 .addr = o->ring_addr,
						 .bytes = o->ring_bytes,
						 .key = o->ring_key,
						 .ring_term = o->ring_term,
						 .rkey = o->ring_rkey };
	const struct replica_pulse_offer theirs = { o->pulse_qp, o->pulse_addr, o->pulse_rkey };
	struct replica_pulse_offer ours;
	struct replica_flow_offer flow;
	struct wire_frame f = { .type = WIRE_PEER_ANSWER };
	int rc = mirror_add(primary.mirror, 0, &ring, &flow, &primary.err);

	if (rc == 0)
		rc = pulse_open(&primary.pulse, primary_dev, &ours, &primary.err);
	if (rc == 0)
		rc = pulse_connect(primary.pulse, &theirs, &primary.err);
	if (rc)
		return rc;
	f.peer_answer = (struct wire_peer_answer){ .flow_qp = flow.qp,
						   .pulse_qp = ours.qp,
						   .flow_addr = flow.addr,
						   .pulse_addr = ours.addr,
						   .flow_rkey = flow.rkey,
						   .pulse_rkey = ours.rkey };
	if (primary.lie == ODD_WORD)
		f.peer_answer.pulse_addr++;
	return say(&f);
}

/* One batch of one record, in the ring before it begins. */
static int send_batch(void)
{
	struct log_record r = { .length = LOG_RECORD_BYTES,
				.kind = LOG_FORGET,
				.client = { 1, 2 } };
	const struct ring_say batch = {
		.committed = r.length, .term = TERM, .bytes = r.length, .records = 1
	};

	return mirror_resend(primary.mirror, 0, &batch, &r, time_now_ns() + PATIENCE_NS,
			     &primary.err);
}

static int send_clients(void)
{
	for (unsigned at = 0; at < CLIENTS;) {
		struct wire_frame f = { .type = WIRE_PEER_CLIENTS };
		struct wire_peer_clients *c = &f.peer_clients;
		int rc;

		for (; at < CLIENTS && c->count < WIRE_PEER_ITEMS; at++)
			c->item[c->count++] = (struct snapshot_client){ .client = { at + 1, 1 } };
		c->last = at == CLIENTS;
		rc = say(&f);
		if (rc)
			return rc;
	}
	return 0;
}

static int lead_on(void)
{
	struct wire_frame f;
	int rc = welcome();

	if (rc == 0)
		rc = hear(WIRE_PEER_OFFER, &f);
	if (rc == 0)
		rc = answer(&f.peer_offer);
	if (rc == 0)
		rc = hear(WIRE_PEER_READY, &f);
	if (rc == 0)
		rc = send_batch();
	f = (struct wire_frame){ .type = WIRE_PEER_BEGIN,
				 .peer_place = { TERM + (primary.lie == WRONG_TERM), 0 } };
	if (rc == 0)
		rc = say(&f);
	if (rc == 0)
		rc = send_clients();
	f.type = WIRE_PEER_WALK;
	if (rc == 0)
		rc = say(&f);
	if (rc == 0)
		rc = hear(WIRE_PEER_CAUGHT_UP, &f);
	if (rc == 0)
		primary.caught_up = f.peer_place.position;
	return rc;
}

static void *lead(void *arg)
{
	(void)arg;
	lead_on();
	if (primary.lie == CLOSES)
		shutdown(primary.fd, SHUT_RDWR);
	return NULL;
}

static int start_primary(enum lie lie)
{
	int ends[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
	primary = (struct primary){ .fd = ends[0], .lie = lie };
	assert_ok(mirror_open(&primary.mirror, primary_dev, TERM, 0, &err));
	assert_ok(pthread_create(&primary.thread, NULL, lead, NULL));
	primary.runs = true;
	return ends[1];
}

/* It has done what it does. */
static void await_primary(void)
{
	if (primary.runs)
		pthread_join(primary.thread, NULL);
	primary.runs = false;
}

static void end_primary(void)
{
	await_primary();
	pulse_close(primary.pulse);
	mirror_cut(primary.mirror, 0);
	mirror_close(primary.mirror);
	close(primary.fd);
}

static struct join_config config(void)
{
	struct join_config c = { .dev = member_dev, .ring_bytes = RING_BYTES };

	c.who.life = 5;
	strcpy(c.who.group, "g");
	strcpy(c.who.node, "n2:1");
	strcpy(c.who.address, "n2:1");
	return c;
}

static unsigned clients;

static int take_client(void *ctx, const struct snapshot_client *item)
{
	const enum lie *lie = ctx;

	if (item->client[0] != ++clients)
		return -EBADMSG;
	return *lie == FAR_CLIENT && clients == 20 ? -EINVAL : 0;
}

static void await_beat(struct joined *j)
{
	const uint64_t until_ns = time_now_ns() + PATIENCE_NS;

	while (!pulse_say(primary.pulse, 1) || pulse_heard(j->pulse) != 1)
		assert_true(time_now_ns() < until_ns);
	while (!pulse_say(j->pulse, 1) || pulse_heard(primary.pulse) != 1)
		assert_true(time_now_ns() < until_ns);
}

UNIT_TEST(it_gets_log_clients_and_beats)
{
	const struct join_config c = config();
	enum lie lie = NONE;
	struct joined j;

	clients = 0;
	assert_ok(join_begin(&j, start_primary(NONE), &c, time_now_ns() + PATIENCE_NS, &err));
	assert_int_equal(j.as.primary, LIFE);
	assert_int_equal(j.begins, 0);
	assert_ok(join_clients(&j, take_client, &lie, PATIENCE_NS, &err));
	assert_int_equal(clients, CLIENTS);
	assert_non_null(backup_take(j.backup)); /* it stood there before BEGIN was said */
	assert_ok(join_caught_up(&j, LOG_RECORD_BYTES, time_now_ns() + PATIENCE_NS, &err));
	await_primary();
	assert_int_equal(primary.caught_up, LOG_RECORD_BYTES);
	await_beat(&j);
	join_end(&j);
	end_primary();
}

/* What the member says of each; nothing of it is left. */
UNIT_TEST(primaries_that_fail)
{
	static const struct {
		enum lie lie;
		int code;
		const char *word;
	} cases[] = {
		{ SILENT, -ETIMEDOUT, "in time" },
		{ REFUSES, -EXDEV, "another one" },
		{ CLOSES, -ECONNRESET, "" },
		{ WRONG_FRAME, -EPROTO, "" },
		{ WRONG_TERM, -EPROTO, "dialled again" },
		{ ODD_WORD, -EPROTO, "not aligned" },
	};
	const struct join_config c = config();
	const unsigned before = own_descriptors();

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint64_t ns = cases[i].lie == SILENT ? SOON_NS : PATIENCE_NS;
		int fd = start_primary(cases[i].lie);
		struct joined j;

		assert_int_equal(join_begin(&j, fd, &c, time_now_ns() + ns, &err), cases[i].code);
		if (!strstr(err.text, cases[i].word))
			fail_msg("%s", err.text);
		assert_int_equal(j.fd, -1);
		end_primary();
	}
	assert_int_equal(own_descriptors(), before);
}

/* What it cannot take makes it unfit, and the primary hears why. */
UNIT_TEST(a_client_that_cannot_be)
{
	const struct join_config c = config();
	enum lie lie = FAR_CLIENT;
	struct joined j;

	clients = 0;
	assert_ok(join_begin(&j, start_primary(NONE), &c, time_now_ns() + PATIENCE_NS, &err));
	assert_int_equal(join_clients(&j, take_client, &lie, PATIENCE_NS, &err), -EINVAL);
	join_unfit(&j, &err);
	await_primary();
	assert_int_equal(primary.err.code, -EINVAL);
	assert_non_null(strstr(primary.err.text, "client"));
	join_end(&j);
	end_primary();
}
