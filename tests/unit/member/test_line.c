/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * Both ends of the line between a member and its primary: rings, flow words and beats on soft0,
 * frames over a pair of sockets. Then each with another end that breaks off, refuses, or lies. A
 * thread of the test is the primary, the test itself the member.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/rdma/device.h"
#include "server/log/log.h"
#include "server/member/admit.h"
#include "server/member/join.h"
#include "tests/lib/own_process.h"
#include "tests/lib/unit.h"

#define TERM	    7u
#define LIFE	    99u
#define CLIENTS	    30u /* three frames */
#define ITEMS_MAX   7u /* that a walk over them gives together */
#define RING_BYTES  ((RING_BYTES_MIN + 4095) & ~4095ull)
#define PATIENCE_NS (20 * NS_PER_S)
#define SOON_NS	    (200 * NS_PER_MS)

/* Where one end stops to do as it should. */
enum lie { NONE, SILENT, REFUSES, CLOSES, WRONG_FRAME, WRONG_TERM, ODD_WORD, SMALL_RING };

static struct error err;
static struct rdma_device *primary_dev, *member_dev;

static struct primary {
	struct mirror *mirror;
	struct log *log;
	struct admitted line;
	enum lie lie;
	_Atomic uint64_t published; /* position */
	pthread_t thread;
	int rc;
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

static uint64_t soon(void)
{
	return time_now_ns() + PATIENCE_NS;
}

static struct admit_config admission(void)
{
	return (struct admit_config){
		.dev = primary_dev,
		.mirror = primary.mirror,
		.as = { .term = TERM, .primary = LIFE, .lease_ms = 300, .rho_ppm = 10000 },
	};
}

static uint64_t get_published(void *ctx)
{
	(void)ctx;
	return atomic_load(&primary.published);
}

/* As a walk over the table gives them: some of them together. */
static int walk_clients(void *ctx,
			int (*each)(void *each_ctx, const struct snapshot_client *items,
				    unsigned count),
			void *each_ctx)
{
	struct snapshot_client items[ITEMS_MAX] = { 0 };
	unsigned next = 1;
	int rc = 0;

	(void)ctx;
	while (rc == 0 && next <= CLIENTS) {
		unsigned count = 0;

		for (; count < ITEMS_MAX && next <= CLIENTS; count++)
			items[count].client[0] = next++;
		rc = each(each_ctx, items, count);
	}
	return rc;
}

/* Its part, as it should be. */
static int lead(const struct wire_peer_hello *hello)
{
	const struct admit_table table = { NULL, get_published, walk_clients };
	const struct admit_config c = admission();
	int rc;

	if (hello->layout_hash != layout_hash() || strcmp(hello->node, "n2:1") != 0)
		return -EBADMSG;
	rc = admit_connect(&primary.line, primary.line.fd, &c, soon(), &primary.err);
	if (rc == 0)
		rc = admit_begin(&primary.line, &c, soon(), &primary.err);
	return rc ? rc : admit_clients(&primary.line, &c, &table, PATIENCE_NS, &primary.err);
}

/* What a primary answers that lies: the first two of its frames. */
static int lie(void)
{
	const int fd = primary.line.fd;
	struct wire_frame f = { .type = WIRE_PEER_WALK };
	int rc;

	if (primary.lie == REFUSES)
		return exchange_refuse(fd, 0, -EXDEV, "the group is another one");
	if (primary.lie == CLOSES)
		return shutdown(fd, SHUT_RDWR);
	if (primary.lie != WRONG_FRAME)
		f.type = WIRE_PEER_JOINED;
	f.peer_joined.term = TERM;
	rc = exchange_send(fd, &f, soon(), &primary.err);
	if (rc == 0)
		rc = exchange_recv(fd, &primary.line.reader, WIRE_PEER_OFFER, &f, soon(),
				   &primary.err);
	if (rc)
		return rc;
	f.peer_answer = (struct wire_peer_answer){ .flow_qp = f.peer_offer.ring_qp,
						   .pulse_qp = f.peer_offer.pulse_qp,
						   .pulse_addr = primary.lie == ODD_WORD };
	f.type = WIRE_PEER_ANSWER;
	rc = exchange_send(fd, &f, soon(), &primary.err);
	f = (struct wire_frame){ .type = WIRE_PEER_BEGIN, .peer_place = { .term = TERM + 1 } };
	return rc ? rc : exchange_send(fd, &f, soon(), &primary.err);
}

static void *run_primary(void *arg)
{
	struct wire_frame f;

	(void)arg;
	primary.rc = exchange_recv(primary.line.fd, &primary.line.reader, WIRE_PEER_HELLO, &f,
				   soon(), &primary.err);
	if (primary.rc == 0 && primary.lie != SILENT)
		primary.rc = primary.lie == NONE ? lead(&f.peer_hello) : lie();
	return NULL;
}

static uint64_t clock_ms(void *ctx)
{
	(void)ctx;
	return 4;
}

/* Returns the member's end. */
static int start_primary(enum lie lie)
{
	struct log_config config = { .clock_ms = clock_ms };
	int ends[2];

	assert_ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
	primary = (struct primary){ .line.fd = ends[0], .lie = lie, .published = UINT64_MAX };
	assert_ok(mirror_open(&primary.mirror, primary_dev, TERM, 0, &err));
	config.mirror = mirror_table(primary.mirror);
	assert_ok(log_open(&primary.log, &config, &err));
	return ends[1];
}

static void run(void)
{
	assert_ok(pthread_create(&primary.thread, NULL, run_primary, NULL));
}

static void end_primary(void)
{
	const struct admit_config c = admission();

	admit_end(&primary.line, &c);
	mirror_remove(primary.mirror, 0);
	assert_ok(log_close(primary.log));
	mirror_close(primary.mirror);
}

/* One record more. */
static void write_on(void)
{
	const struct log_entry e = { .kind = LOG_FORGET, .client = { 1, 2 } };
	struct log_place at;

	assert_ok(log_append_begin(primary.log, 0, 0, &at));
	log_append_end(primary.log, &at, &e);
	log_kick(primary.log);
	while (log_committed(primary.log) < at.end)
		time_give_way();
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
	const unsigned *fails_at = ctx;

	if (item->client[0] != ++clients)
		return -EBADMSG;
	return clients == *fails_at ? -EINVAL : 0;
}

static void await_beat(struct pulse *from, const struct pulse *to)
{
	const uint64_t until_ns = soon();

	while (!pulse_say(from, 1) || pulse_heard(to) != 1)
		assert_true(time_now_ns() < until_ns);
}

static int await_word(uint64_t *applied)
{
	const uint64_t until_ns = soon();
	int rc;

	while ((rc = admit_heard(&primary.line, applied, &err)) == 0)
		assert_true(time_now_ns() < until_ns);
	return rc;
}

static void take_one(struct joined *j, uint64_t position)
{
	const uint64_t until_ns = soon();
	const struct ring_receiver *r;

	while (!(r = backup_take(j->backup)) || !r->batch.records)
		assert_true(time_now_ns() < until_ns);
	assert_int_equal(r->batch.position, position);
}

UNIT_TEST(it_gets_log_clients_and_beats)
{
	const struct join_config c = config();
	const int fd = start_primary(NONE);
	unsigned never = 0;
	uint64_t applied;
	struct joined j;

	write_on();
	atomic_store(&primary.published, 0);
	run();
	assert_ok(join_begin(&j, fd, &c, soon(), &err));
	assert_int_equal(j.as.primary, LIFE);
	assert_int_equal(j.begins, LOG_RECORD_BYTES);
	/* What was written before it began is not published: it may not look for it yet. */
	struct pollfd silent = { .fd = fd, .events = POLLIN };
	assert_int_equal(poll(&silent, 1, (int)(SOON_NS / NS_PER_MS)), 0);
	atomic_store(&primary.published, LOG_RECORD_BYTES);
	clients = 0;
	assert_ok(join_clients(&j, take_client, &never, PATIENCE_NS, &err));
	assert_int_equal(clients, CLIENTS);
	pthread_join(primary.thread, NULL);
	assert_ok(primary.rc);
	write_on();
	take_one(&j, LOG_RECORD_BYTES);
	assert_int_equal(admit_heard(&primary.line, &applied, &err), 0);
	assert_ok(join_caught_up(&j, 2 * LOG_RECORD_BYTES, soon(), &err));
	assert_int_equal(await_word(&applied), 1);
	assert_int_equal(applied, 2 * LOG_RECORD_BYTES);
	await_beat(primary.line.pulse, j.pulse);
	await_beat(j.pulse, primary.line.pulse);
	join_end(&j);
	assert_int_equal(await_word(&applied), -ECONNRESET);
	end_primary();
}

/* What it cannot take makes it unfit, and the primary hears why. */
UNIT_TEST(a_client_that_cannot_be)
{
	const struct join_config c = config();
	const int fd = start_primary(NONE);
	unsigned far = 20;
	uint64_t applied;
	struct joined j;

	run();
	clients = 0;
	assert_ok(join_begin(&j, fd, &c, soon(), &err));
	assert_int_equal(join_clients(&j, take_client, &far, PATIENCE_NS, &err), -EINVAL);
	join_unfit(&j, &err);
	pthread_join(primary.thread, NULL);
	assert_int_equal(await_word(&applied), -EINVAL);
	assert_non_null(strstr(err.text, "client"));
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

		run();
		assert_int_equal(join_begin(&j, fd, &c, time_now_ns() + ns, &err), cases[i].code);
		if (!strstr(err.text, cases[i].word))
			fail_msg("%s", err.text);
		assert_int_equal(j.fd, -1);
		pthread_join(primary.thread, NULL);
		end_primary();
	}
	assert_int_equal(own_descriptors(), before);
}

/* A member plays its part over @fd, up to where it lies. */
static void join_as_liar(int fd, enum lie lie)
{
	static const struct ring_batch nothing;
	struct wire_peer_offer offer = { .ring_addr = (uintptr_t)&nothing,
					 .ring_bytes = RING_BYTES,
					 .ring_key = 1,
					 .ring_term = lie == WRONG_TERM ? TERM - 1 : TERM };
	struct wire_frame f = { .type = WIRE_PEER_HELLO };
	struct exchange_reader reader = { 0 };

	f.peer_hello = config().who;
	f.peer_hello.layout_hash = layout_hash();
	assert_ok(exchange_send(fd, &f, soon(), &err));
	if (lie == CLOSES)
		shutdown(fd, SHUT_RDWR);
	if (lie == SILENT || lie == CLOSES)
		return;
	assert_ok(exchange_recv(fd, &reader, WIRE_PEER_JOINED, &f, soon(), &err));
	if (lie == SMALL_RING)
		offer.ring_bytes = 4096;
	f = (struct wire_frame){ .type = lie == WRONG_FRAME ? WIRE_PEER_READY : WIRE_PEER_OFFER };
	if (f.type == WIRE_PEER_OFFER)
		f.peer_offer = offer;
	if (lie == REFUSES)
		exchange_refuse(fd, 0, -ENOMEM, "no memory for a ring");
	else
		assert_ok(exchange_send(fd, &f, soon(), &err));
}

/* What the primary says of each; its place is free again. */
UNIT_TEST(members_that_fail)
{
	static const struct {
		enum lie lie;
		int code;
		const char *word;
	} cases[] = {
		{ REFUSES, -ENOMEM, "no memory for a ring" },
		{ CLOSES, -ECONNRESET, "" },
		{ WRONG_FRAME, -EPROTO, "" },
		{ WRONG_TERM, -EPROTO, "for term 6" },
		{ SMALL_RING, -EPROTO, "ring of 4096 bytes" },
	};
	const unsigned before = own_descriptors();

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = start_primary(NONE);

		run();
		join_as_liar(fd, cases[i].lie);
		pthread_join(primary.thread, NULL);
		assert_int_equal(primary.rc, cases[i].code);
		if (!strstr(primary.err.text, cases[i].word))
			fail_msg("%s", primary.err.text);
		end_primary();
		close(fd);
	}
	assert_int_equal(own_descriptors(), before);
}
