/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * kv-rogue-client: keeps the rules of the exchange, and after it posts what it is told to. One
 * command a line on stdin, one answer a line on stdout: "ok name=value ..." or "err CODE sentence".
 *
 *	kv-rogue-client HOST:PORT DEVICE [ID]	ID: client id, a number; 0: random
 *
 *	hello				(again)
 *	open HANDLE CREDITS RECEIVES	a queue pair with so many receives posted
 *	ready HANDLE			QP_READY, for any number
 *	close HANDLE			QP_CLOSE; its own end stays
 *	send HANDLE NAME=NUMBER...	a request. It is sound but for the fields that are named:
 *					those of struct rpc_request, and: key (0: none, else its
 *					text), value (bytes inside the frame), len (of the frame),
 *					count (how often; sequences grow), step (added to the slot
 *					each time, modulo 64), rkey (1: of the staging memory, 2:
 *					not writable, 3: one that is deregistered), fill (the byte
 *					that fills the staging memory)
 *	reply HANDLE MS			the next reply
 *	read|write HANDLE WHAT OFFSET LENGTH	WHAT: root, table, slot, or the number of an extent
 *	rdma HANDLE read|write ADDR RKEY LENGTH
 *	search HANDLE HEX		all DATA extents, for these bytes: how often they are there
 *	announce HANDLE MS NAME=NUMBER...	WRITE the epoch slot, every 5 ms until MS are over,
 *					the next command comes, or a WRITE fails: what a
 *					housekeeper announces, but for what is named: e (else what
 *					the root says each time), ahead (of e), torn (1: e and its
 *					complement do not fit), generation, beat (stands still
 *					then), h
 *	where				session, addresses and rkeys of root and epoch slot
 *	line MS				wait for the end of the life line
 *	quit
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/parse.h"
#include "common/base/time.h"
#include "common/layout/root.h"
#include "common/layout/wire_rpc.h"
#include "common/rdma/exchange.h"
#include "common/rdma/post.h"
#include "common/rdma/qp.h"
#include "common/rdma/region.h"
#include "common/rdma/tcp.h"

#define WORDS_MAX     24
#define HANDLES_MAX   SESSION_QPS_MAX
#define SENDS_MAX     2048u
#define FRAME_MAX     (64u << 10)
#define STAGING_BYTES (17u << 20)
#define DEADLINE_NS   (8 * NS_PER_S)
#define RECEIVE_WR    (1ull << 32)

struct handle {
	struct rdma_cq cq;
	struct rdma_qp qp;
	unsigned receives;
	int broken; /* the status of the first completion that failed */
};

static struct rdma_device *dev;
static struct exchange_reader reader;
static struct wire_welcome welcome;
static struct handle handles[HANDLES_MAX];
static struct rdma_buffer frames, replies, staging, unwritable, local;
static uint32_t gone_rkey;
static uint64_t client_id[2], next_sequence = 1;
static int line = -1;

static int fail(int code, const char *text)
{
	printf("err %d %s\n", code, text);
	return code;
}

static uint64_t number_of(const char *word)
{
	return strtoull(word, NULL, 0);
}

static struct handle *handle_of(const char *word)
{
	struct handle *h = &handles[number_of(word) % HANDLES_MAX];

	if (h->qp.qp)
		return h;
	fail(-EINVAL, "no such handle is open");
	return NULL;
}

static int say_hello(struct error *err)
{
	struct wire_frame frame = {
		.type = WIRE_HELLO,
		.hello = { .layout_version = LAYOUT_VERSION,
			   .pid = (uint32_t)getpid(),
			   .layout_hash = layout_hash(),
			   .client_id = { client_id[0], client_id[1] },
			   .first_sequence = 1,
			   .name = "rogue" },
	};
	uint64_t deadline = time_now_ns() + DEADLINE_NS;
	int rc = exchange_send(line, &frame, deadline, err);

	if (rc == 0)
		rc = exchange_recv(line, &reader, WIRE_WELCOME, &frame, deadline, err);
	if (rc == 0)
		welcome = frame.welcome;
	return rc;
}

static void cmd_hello(char **word, unsigned words)
{
	struct error err;
	int rc = say_hello(&err);

	rc ? (void)fail(rc, err.text) : (void)puts("ok");
}

static int post_receive(struct handle *h, unsigned i)
{
	struct ibv_sge sge = { (uintptr_t)replies.addr + i * RPC_REPLY_MAX, RPC_REPLY_MAX,
			       replies.region.lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE_WR | i, .sg_list = &sge, .num_sge = 1 };

	return rdma_post_recv(h->qp.qp, &wr);
}

static int make_qp(struct handle *h, unsigned receives, struct error *err)
{
	const struct rdma_qp_config config = {
		.cq = &h->cq,
		.max_send = SENDS_MAX,
		.max_recv = receives ? receives : 1,
		.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int rc = rdma_cq_create(dev, 2 * SENDS_MAX, 0, false, &h->cq, err);

	if (rc == 0)
		rc = rdma_qp_create(dev, &config, &h->qp, err);
	for (unsigned i = 0; rc == 0 && i < receives; i++)
		rc = post_receive(h, i);
	return rc;
}

static int trade(struct wire_frame *frame, enum wire_type want, struct error *err)
{
	uint64_t deadline = time_now_ns() + DEADLINE_NS;
	int rc = exchange_send(line, frame, deadline, err);

	return rc ? rc : exchange_recv(line, &reader, want, frame, deadline, err);
}

static void cmd_open(char **word, unsigned words)
{
	unsigned number = (unsigned)number_of(word[0]);
	struct handle *h = &handles[number % HANDLES_MAX];
	struct wire_frame frame = { .type = WIRE_QP_OPEN };
	struct error err;
	int rc;

	rdma_qp_destroy(&h->qp);
	rdma_cq_destroy(&h->cq);
	h->broken = 0;
	rc = make_qp(h, (unsigned)number_of(word[2]) % SENDS_MAX, &err);
	if (rc == 0) {
		rdma_qp_offer(&h->qp, &frame.qp);
		frame.qp.handle = number;
		frame.qp.credits = (unsigned)number_of(word[1]);
		rc = trade(&frame, WIRE_QP_OPENED, &err);
	}
	if (rc == 0)
		rc = rdma_qp_connect(&h->qp, &frame.qp, &err);
	if (rc == 0)
		printf("ok credits=%u\n", frame.qp.credits);
	else
		fail(rc, err.text);
}

static void cmd_ready(char **word, unsigned words)
{
	struct wire_frame frame = { .type = WIRE_QP_READY,
				    .handle = { .handle = (unsigned)number_of(word[0]) } };
	struct error err;
	int rc = trade(&frame, WIRE_QP_LIVE, &err);

	rc ? (void)fail(rc, err.text) : (void)puts("ok");
}

static void cmd_close(char **word, unsigned words)
{
	struct wire_frame frame = { .type = WIRE_QP_CLOSE,
				    .handle = { .handle = (unsigned)number_of(word[0]) } };
	struct error err;
	int rc = exchange_send(line, &frame, time_now_ns() + DEADLINE_NS, &err);

	rc ? (void)fail(rc, err.text) : (void)puts("ok");
}

/* What cmd_send is told beside the header's fields. */
struct told {
	uint64_t key, value, len, count, step, rkey, fill;
};

static bool tell(struct rpc_request *r, struct told *t, const char *name, uint64_t v)
{
	const struct {
		const char *name;
		void *at;
		size_t size;
	} fields[] = {
#define FIELD(f) { #f, &r->f, sizeof(r->f) }
		FIELD(magic),
		FIELD(op),
		FIELD(flags),
		FIELD(slot),
		FIELD(generation),
		FIELD(sequence),
		FIELD(key_len),
		FIELD(value_len),
		FIELD(value_hash),
		FIELD(staging_addr),
		FIELD(staging_len),
		FIELD(staging_rkey),
		FIELD(ttl_ms),
		FIELD(waited_ms),
		FIELD(condition),
		FIELD(operand),
		FIELD(client_id[0]),
#undef FIELD
		{ "key", &t->key, 8 },
		{ "value", &t->value, 8 },
		{ "len", &t->len, 8 },
		{ "count", &t->count, 8 },
		{ "step", &t->step, 8 },
		{ "rkey", &t->rkey, 8 },
		{ "fill", &t->fill, 8 },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strcmp(name, fields[i].name) == 0) {
			memcpy(fields[i].at, &v, fields[i].size); /* little-endian */
			return true;
		}
	}
	return false;
}

/* First what other fields follow from, then the fields themselves: two passes over the words. */
static int make_request(struct rpc_request *r, struct told *t, char **word, unsigned words)
{
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < words; i++) {
			char name[32] = "", *is = strchr(word[i], '=');

			if (!is || (size_t)(is - word[i]) >= sizeof(name))
				return -EINVAL;
			memcpy(name, word[i], (size_t)(is - word[i]));
			if (!tell(r, t, name, number_of(is + 1)))
				return -EINVAL;
		}
		if (pass)
			break;
		memset(staging.addr, (int)t->fill, r->value_len);
		memset(unwritable.addr, (int)t->fill, r->value_len);
		r->value_hash = hash_bytes(staging.addr, r->value_len);
		r->key_len = t->key ? 8 : 0;
		if (r->flags & RPC_INLINE_VALUE)
			t->value = r->value_len;
		t->len = RPC_REQUEST_BYTES + r->key_len + t->value;
		if (t->rkey == 2)
			r->staging_addr = (uintptr_t)unwritable.addr;
		r->staging_rkey = t->rkey == 1	 ? staging.region.rkey
				  : t->rkey == 2 ? unwritable.region.rkey
						 : gone_rkey;
	}
	return 0;
}

static int poll_one(struct handle *h, struct ibv_wc *wc, uint64_t deadline)
{
	do {
		if (rdma_poll(h->cq.cq, 1, wc) > 0) {
			if (wc->status != IBV_WC_SUCCESS && !h->broken)
				h->broken = (int)wc->status;
			return 0;
		}
		time_relax();
	} while (time_now_ns() < deadline);
	return -ETIMEDOUT;
}

static int post_frame(struct handle *h, const struct rpc_request *r, const struct told *t)
{
	uint64_t offset = (r->sequence % SENDS_MAX) * RPC_REQUEST_MAX;
	unsigned char *to = (unsigned char *)frames.addr + offset;
	struct ibv_sge sge = { (uintptr_t)to, (uint32_t)t->len, frames.region.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	memset(to, 0, RPC_REQUEST_MAX);
	memcpy(to, r, sizeof(*r));
	memcpy(to + sizeof(*r), &t->key, 8);
	memset(to + sizeof(*r) + 8, (int)t->fill, RPC_REQUEST_MAX - sizeof(*r) - 8);
	return rdma_post_send(h->qp.qp, &wr, &bad);
}

static void cmd_send(char **word, unsigned words)
{
	struct rpc_request r = {
		.magic = RPC_REQUEST_MAGIC,
		.op = RPC_PING,
		.client_id = { client_id[0], client_id[1] },
		.generation = welcome.generation,
		.sequence = next_sequence,
		.staging_addr = (uintptr_t)staging.addr,
		.staging_len = STAGING_BYTES,
	};
	struct told t = { .count = 1, .rkey = 1 };
	struct handle *h = handle_of(word[0]);
	uint64_t posted = 0;
	int rc;

	if (!h)
		return;
	rc = make_request(&r, &t, word + 1, words - 1);
	if (rc || t.len > FRAME_MAX) {
		fail(-EINVAL, "a field that there is not");
		return;
	}
	for (; posted < t.count && rc == 0; posted += rc == 0) {
		rc = post_frame(h, &r, &t);
		r.sequence++;
		r.slot = (uint16_t)(t.step ? (r.slot + t.step) % RPC_SLOTS_MAX : r.slot);
	}
	if (r.sequence > next_sequence)
		next_sequence = r.sequence;
	printf("ok posted=%" PRIu64 " code=%d\n", posted, rc);
}

static void cmd_reply(char **word, unsigned words)
{
	struct handle *h = handle_of(word[0]);
	uint64_t deadline = time_now_ns() + number_of(word[1]) * NS_PER_MS;
	const struct rpc_reply *reply;
	const uint8_t *value;
	struct ibv_wc wc;

	while (h && poll_one(h, &wc, deadline) == 0) {
		unsigned i = (unsigned)(wc.wr_id & 0xffff);
		void *at = (char *)replies.addr + i * RPC_REPLY_MAX;

		if (!(wc.wr_id & RECEIVE_WR) || wc.status != IBV_WC_SUCCESS)
			continue;
		if (rpc_reply_decode(at, wc.byte_len, &reply, &value))
			fail(-EBADMSG, "the server sent no reply");
		else
			printf("ok status=%d slot=%u sequence=%" PRIu64 " value_len=%u "
			       "version=%" PRIu64 " expiry_ms=%" PRIu64 " number=%" PRId64
			       " first=%u\n",
			       reply->status, reply->slot, reply->sequence, reply->value_len,
			       reply->version, reply->expiry_ms, reply->number,
			       ((unsigned char *)staging.addr)[0]);
		post_receive(h, i);
		return;
	}
	if (h)
		printf("err %d none; the queue pair's first failure is %d\n", -ETIMEDOUT,
		       h->broken);
}

/* Returns the status of the operation. */
static int rdma(struct handle *h, bool write, uint64_t addr, uint32_t rkey, uint64_t length)
{
	struct ibv_sge sge = { (uintptr_t)local.addr, (uint32_t)length, local.region.lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	}, *bad;
	struct ibv_wc wc;
	int rc;

	if (length > local.len)
		return -EINVAL;
	rc = rdma_post_send(h->qp.qp, &wr, &bad);
	while (rc == 0) {
		rc = poll_one(h, &wc, time_now_ns() + DEADLINE_NS);
		if (rc == 0 && wc.wr_id == 7)
			return (int)wc.status;
	}
	return rc;
}

/* Reads the way a client does: root, extent table, entry. */
static int find(struct handle *h, const char *what, uint64_t *addr, uint32_t *rkey)
{
	const struct root *root = local.addr;
	const struct extent_entry *entry = local.addr;
	int rc = rdma(h, false, welcome.root_addr, welcome.root_rkey, sizeof(*root));

	*addr = welcome.root_addr;
	*rkey = welcome.root_rkey;
	if (rc || strcmp(what, "root") == 0)
		return rc;
	*addr = root->extents.addr;
	*rkey = root->extents.rkey;
	if (strcmp(what, "table") == 0)
		return 0;
	if (strcmp(what, "slot") == 0) {
		*addr = welcome.slot_addr;
		*rkey = welcome.slot_rkey;
		return 0;
	}
	rc = rdma(h, false, *addr + number_of(what) * sizeof(*entry), *rkey, sizeof(*entry));
	*addr = entry->addr;
	*rkey = entry->rkey;
	return rc ? rc : entry->kind ? 0 : -ENOENT;
}

static void access_at(char **word, bool write)
{
	struct handle *h = handle_of(word[0]);
	uint64_t addr;
	uint32_t rkey;
	int rc;

	if (!h)
		return;
	rc = find(h, word[1], &addr, &rkey);
	if (rc) {
		fail(rc, "what to access could not be found");
		return;
	}
	memset(local.addr, 0xee, local.len);
	rc = rdma(h, write, addr + number_of(word[2]), rkey, number_of(word[3]));
	printf("ok wc=%d\n", rc);
}

static void cmd_read(char **word, unsigned words)
{
	access_at(word, false);
}

/* Adds to @hits how often @want stands in the extent at @addr. Returns the status of a READ. */
static int search_extent(struct handle *h, const struct extent_entry *e, const uint8_t *want,
			 size_t len, uint64_t *hits)
{
	uint64_t step = local.len - (len - 1); /* so that each place is whole in one READ */

	for (uint64_t at = 0; at < e->length; at += step) {
		uint64_t left = e->length - at, got = left < local.len ? left : local.len;
		const uint8_t *from = local.addr, *end = from + got;
		int rc = rdma(h, false, e->addr + at, e->rkey, got);

		if (rc)
			return rc;
		while ((from = memmem(from, (size_t)(end - from), want, len))) {
			++*hits;
			from++;
		}
	}
	return 0;
}

static void cmd_search(char **word, unsigned words)
{
	struct handle *h = handle_of(word[0]);
	uint64_t bytes = 0, hits = 0, addr;
	struct extent_entry entry;
	uint8_t want[64];
	size_t len = 0;
	uint32_t rkey;
	int rc = 0;

	while (len < sizeof(want) && sscanf(word[1] + 2 * len, "%2hhx", &want[len]) == 1)
		len++;
	if (!h || len == 0 || word[1][2 * len]) {
		fail(-EINVAL, "up to 64 bytes in hex are wanted");
		return;
	}
	for (unsigned i = 0; i < EXTENTS_MAX && rc == 0; i++) {
		char number[16];

		snprintf(number, sizeof(number), "%u", i);
		rc = find(h, number, &addr, &rkey); /* leaves the entry in `local` */
		if (rc == -ENOENT)
			break;
		memcpy(&entry, local.addr, sizeof(entry));
		if (rc || entry.kind != EXTENT_DATA)
			continue;
		rc = search_extent(h, &entry, want, len, &hits);
		bytes += entry.length;
	}
	if (rc && rc != -ENOENT)
		fail(rc, "a READ failed");
	else
		printf("ok bytes=%" PRIu64 " hits=%" PRIu64 "\n", bytes, hits);
}

static void cmd_write(char **word, unsigned words)
{
	access_at(word, true);
}

static void cmd_rdma(char **word, unsigned words)
{
	struct handle *h = handle_of(word[0]);

	if (h)
		printf("ok wc=%d\n", rdma(h, word[1][0] == 'w', number_of(word[2]),
					  (uint32_t)number_of(word[3]), number_of(word[4])));
}

/* What cmd_announce is told. */
struct announced {
	uint64_t e, ahead, torn, generation, beat, h;
	bool has_e, has_beat, has_h;
};

static bool tell_announced(struct announced *a, const char *word)
{
	const struct {
		const char *name;
		uint64_t *at;
		bool *has;
	} fields[] = {
		{ "e=", &a->e, &a->has_e },	     { "ahead=", &a->ahead, NULL },
		{ "torn=", &a->torn, NULL },	     { "generation=", &a->generation, NULL },
		{ "beat=", &a->beat, &a->has_beat }, { "h=", &a->h, &a->has_h },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t len = strlen(fields[i].name);

		if (strncmp(word, fields[i].name, len) == 0) {
			*fields[i].at = number_of(word + len);
			if (fields[i].has)
				*fields[i].has = true;
			return true;
		}
	}
	return false;
}

/* Once. Returns the status of the READ or the WRITE; @e: what was announced. */
static int announce(struct handle *h, const struct announced *a, uint64_t *e)
{
	static uint64_t beat;
	struct epoch_slot *slot = local.addr;
	int rc = rdma(h, false, welcome.root_addr + offsetof(struct root, epoch), welcome.root_rkey,
		      sizeof(*e));

	if (rc)
		return rc;
	*e = *(const uint64_t *)local.addr;
	if (a->has_e)
		*e = a->e;
	*e += a->ahead;
	atomic_init(&slot->generation, a->generation);
	atomic_init(&slot->e, *e);
	atomic_init(&slot->not_e, a->torn ? *e : ~*e);
	atomic_init(&slot->beat, a->has_beat ? a->beat : ++beat);
	atomic_init(&slot->h, a->has_h ? a->h : *e);
	return rdma(h, true, welcome.slot_addr, welcome.slot_rkey, sizeof(*slot));
}

static void cmd_announce(char **word, unsigned words)
{
	struct handle *h = handle_of(word[0]);
	uint64_t end = time_now_ns() + number_of(word[1]) * NS_PER_MS, e = 0, rounds = 0;
	struct announced a = { .generation = welcome.generation };
	struct pollfd next = { .fd = STDIN_FILENO, .events = POLLIN }; /* main() buffers nothing */
	int wc;

	if (!h)
		return;
	for (unsigned i = 2; i < words; i++) {
		if (!tell_announced(&a, word[i])) {
			fail(-EINVAL, "a field that there is not");
			return;
		}
	}
	do {
		wc = announce(h, &a, &e);
		rounds += wc == 0;
	} while (wc == 0 && time_now_ns() < end && poll(&next, 1, 5) == 0);
	printf("ok wc=%d e=%" PRIu64 " rounds=%" PRIu64 "\n", wc, e, rounds);
}

static void cmd_where(char **word, unsigned words)
{
	printf("ok session=%" PRIu64 " root=%" PRIu64 " root_rkey=%u slot=%" PRIu64
	       " slot_rkey=%u\n",
	       welcome.session, welcome.root_addr, welcome.root_rkey, welcome.slot_addr,
	       welcome.slot_rkey);
}

static void cmd_line(char **word, unsigned words)
{
	uint64_t end = time_now_ns() + number_of(word[0]) * NS_PER_MS;
	struct pollfd p = { .fd = line, .events = POLLIN };
	char said[512] = "";
	struct wire_frame frame;
	struct error err;

	for (;;) {
		int rc = exchange_read(line, &reader, &frame, &err);

		if (rc > 0 && frame.type == WIRE_REFUSE)
			snprintf(said, sizeof(said), "%.500s", frame.refuse.text);
		if (rc < 0) {
			fail(rc, said[0] ? said : "without a word");
			return;
		}
		if (rc == 0 && time_now_ns() >= end) {
			puts("ok");
			return;
		}
		if (rc == 0)
			poll(&p, 1, 10);
	}
}

static const struct {
	const char *name;
	unsigned words, more;
	void (*run)(char **word, unsigned words);
} commands[] = {
	{ "hello", 0, 0, cmd_hello },	{ "open", 3, 0, cmd_open },
	{ "ready", 1, 0, cmd_ready },	{ "send", 1, 20, cmd_send },
	{ "reply", 2, 0, cmd_reply },	{ "read", 4, 0, cmd_read },
	{ "write", 4, 0, cmd_write },	{ "rdma", 5, 0, cmd_rdma },
	{ "where", 0, 0, cmd_where },	{ "line", 1, 0, cmd_line },
	{ "search", 2, 0, cmd_search }, { "announce", 2, 6, cmd_announce },
	{ "close", 1, 0, cmd_close },
};

static bool obey(char *text)
{
	char *word[WORDS_MAX] = { NULL }, *rest = NULL;
	unsigned n = 0;

	for (char *w = strtok_r(text, " \n", &rest); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \n", &rest))
		word[n++] = w;
	if (n == 0)
		return true;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(word[0], commands[i].name) == 0 && n - 1 >= commands[i].words &&
		    n - 1 <= commands[i].words + commands[i].more) {
			commands[i].run(word + 1, n - 1);
			return true;
		}
	}
	if (strcmp(word[0], "quit") == 0)
		return false;
	printf("err %d not a command: %s with %u words\n", -EINVAL, word[0], n - 1);
	return true;
}

static int buffers(struct error *err)
{
	const unsigned all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct rdma_buffer gone = { 0 };
	int rc = rdma_buffer_create(dev, SENDS_MAX * RPC_REQUEST_MAX + FRAME_MAX,
				    IBV_ACCESS_LOCAL_WRITE, "frames", &frames, err);

	if (rc == 0)
		rc = rdma_buffer_create(dev, SENDS_MAX * RPC_REPLY_MAX, IBV_ACCESS_LOCAL_WRITE,
					"replies", &replies, err);
	if (rc == 0)
		rc = rdma_buffer_create(dev, STAGING_BYTES, all, "staging", &staging, err);
	if (rc == 0)
		rc = rdma_buffer_create(dev, STAGING_BYTES, IBV_ACCESS_REMOTE_READ, "unwritable",
					&unwritable, err);
	if (rc == 0)
		rc = rdma_buffer_create(dev, 1u << 20, IBV_ACCESS_LOCAL_WRITE, "local", &local,
					err);
	if (rc == 0)
		rc = rdma_buffer_create(dev, 4096, all, "a region that goes", &gone, err);
	gone_rkey = gone.region.rkey;
	rdma_buffer_destroy(&gone);
	return rc;
}

static int start(const char *address, const char *device, struct error *err)
{
	struct rdma_options options = rdma_options_default();
	char host[256] = "", port[8] = "";
	int rc = parse_host_port("HOST:PORT", address, host, port, err);

	options.device = device;
	if (rc == 0)
		rc = rdma_device_open(&dev, &options, host, err);
	if (rc == 0)
		rc = buffers(err);
	/* last: on a busy machine memory takes longer to register than the server waits for
	 * HELLO */
	if (rc == 0)
		rc = tcp_connect(host, port, time_now_ns() + DEADLINE_NS, &line, err);
	return rc ? rc : say_hello(err);
}

int main(int argc, char **argv)
{
	char *text = NULL;
	size_t cap = 0;
	struct error err;
	int rc;

	if (argc < 3) {
		fputs("kv-rogue-client: HOST:PORT and DEVICE are wanted\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 3 && number_of(argv[3]))
		client_id[0] = client_id[1] = number_of(argv[3]);
	else if (getrandom(client_id, sizeof(client_id), 0) != sizeof(client_id))
		return 3;
	rc = start(argv[1], argv[2], &err);
	if (rc) {
		fail(rc, err.text);
		return 3;
	}
	puts("ok");
	setvbuf(stdin, NULL, _IONBF, 0); /* what has come and was not read shows by poll() */
	while (getline(&text, &cap, stdin) > 0 && obey(text))
		;
	for (unsigned i = 0; i < HANDLES_MAX; i++) {
		rdma_qp_destroy(&handles[i].qp);
		rdma_cq_destroy(&handles[i].cq);
	}
	rdma_buffer_destroy(&frames);
	rdma_buffer_destroy(&replies);
	rdma_buffer_destroy(&staging);
	rdma_buffer_destroy(&unwritable);
	rdma_buffer_destroy(&local);
	rdma_device_close(dev);
	close(line);
	free(text);
	return 0;
}
