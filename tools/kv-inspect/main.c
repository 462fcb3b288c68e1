/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-inspect: the command line, the connection, and what is printed in the end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/src/link/device.h"
#include "common/base/log.h"
#include "common/base/parse.h"
#include "tools/kv-inspect/disk.h"
#include "tools/kv-inspect/live.h"
#include "tools/kv-inspect/reads.h"
#include "tools/kv-inspect/tool.h"
#include "tools/lib/option_rows.h"

#define TIMEOUT_MS_MAX 3600000u
#define ROWS_DEFAULT   1000u
#define BYTES_DEFAULT  64u

static struct {
	const char *server, *device, *connect, *gid_index;
	uint64_t ib_port, timeout_ms, rows, bytes, pkey_index, service_level, traffic_class;
	struct disk_options disk;
	bool json;
	struct program_words words;
} given = { .rows = ROWS_DEFAULT,
	    .bytes = BYTES_DEFAULT,
	    .disk = { .from = UINT64_MAX, .cut = UINT64_MAX } };

#define OPTION_BASE given

static const struct program_option options[] = {
	TEXT("server", 's', "HOST:PORT", server,
	     "the server ($GRACEKV_SERVER, else 127.0.0.1:7471)"),
	TEXT("device", 'd', "NAME", device,
	     "RDMA device ($GRACEKV_DEVICE, else auto: on the network to the server)"),
	TEXT("gid-index", 'x', "N|auto", gid_index, "GID of the device's port, 0 to 255"),
	NUMBER("ib-port", 'i', "N", ib_port, 1, 255, "port of the device"),
	OPTION_PKEY_INDEX("pkey-index", pkey_index),
	OPTION_SERVICE_LEVEL("service-level", 0, service_level),
	OPTION_TRAFFIC_CLASS("traffic-class", traffic_class),
	CHOICE("connect", 'C', "tcp|cm", connect, "tcp|cm",
	       "how the queue pair is connected ($GRACEKV_CONNECT, else tcp)"),
	NUMBER("timeout", 0, "MS", timeout_ms, 1, TIMEOUT_MS_MAX,
	       "of one step, connecting included [5000]"),
	NUMBER("rows", 'n', "N", rows, 0, 1000000000,
	       "rows, or violations, printed at most, 0: all [1000]"),
	NUMBER("bytes", 'b', "N", bytes, 0, VALUE_MAX, "of a value, printed at most [64]"),
	FLAG("verify", 0, disk.verify, "log, snapshot: read all of it and check every checksum"),
	FLAG("records", 0, disk.records, "log: a line for each record"),
	NUMBER("from", 0, "POSITION", disk.from, 0, UINT64_MAX - 1,
	       "log: of the first record that is read"),
	NUMBER("cut", 0, "POSITION", disk.cut, 0, UINT64_MAX - 1,
	       "log: what kv-server --recover-until POSITION would lose"),
	OPTION_JSON(json),
	{ NULL },
};

static const struct program program = {
	.name = "kv-inspect",
	.usage =
		"Usage: kv-inspect [OPTIONS] COMMAND [WORD]\n\n"
		"Look into the memory of a running kv-server, by one-sided READs alone: nothing "
		"is\n"
		"written, no request is sent. Or into a data directory that no server has open.\n\n"
		"Commands:\n"
		"  root                  every field of the root page\n"
		"  extents               the extent table\n"
		"  directory [PREFIX]    its entries; those that name one segment are one row\n"
		"  segment PREFIX|HASH   its buckets, and how full they are\n"
		"  bucket HASH|PREFIX:N  its header and slots\n"
		"  key KEY               the way of a look-up, step by step; exit 1: not found\n"
		"  block EXTENT:OFFSET   a record by its place, verified; exit 1: there is none\n"
		"  check                 all of it; exit 1: something is not as it should be\n\n"
		"  log DIR               the log of a data directory: its segments, where it ends and "
		"why;\n"
		"                        exit 1: it is corrupt\n"
		"  snapshot DIR|FILE     its snapshots; exit 1: one is not complete\n\n"
		"  PREFIX is bits, as 010011, HASH 0x and 16 digits, N 0 to 79, OFFSET bytes.\n\n"
		"Options:\n",
	.notes = "\n"
		 "Exit: 0 good, 1 the answer is no, 2 wrong usage, 3 failed.\n\n"
		 "Example:\n  kv-inspect key greeting && kv-inspect check\n"
		 "  kv-inspect log --verify /var/lib/gracekv\n",
	.options = options,
	.words = &given.words,
};

/* Options of the commands that look at a disk. */
static bool disk_options_given(void)
{
	return given.disk.verify || given.disk.records || given.disk.from != UINT64_MAX ||
	       given.disk.cut != UINT64_MAX;
}

static int wrong(const char *what)
{
	return program_usage(&program, what);
}

static int find_command(const struct command **out)
{
	char why[160];
	int operands = given.words.count - 1;

	if (operands < 0)
		return wrong("a command is wanted (see --help)");
	for (const struct command *c = commands; c->name; c++) {
		if (strcmp(c->name, given.words.word[0]) != 0)
			continue;
		*out = c;
		if (operands >= c->operands_min && operands <= c->operands_max)
			return 0;
		snprintf(why, sizeof(why), "%s: too %s words (kv-inspect %s%s)", c->name,
			 operands < c->operands_min ? "few" : "many", c->name, c->usage);
		return wrong(why);
	}
	snprintf(why, sizeof(why), "'%.40s' is no command (see --help)", given.words.word[0]);
	return wrong(why);
}

/* No server is asked. */
static int on_disk(const struct command *c, struct tool *t)
{
	const struct disk_options *o = &given.disk;

	if (c->run == cmd_snapshot && (o->records || o->from != UINT64_MAX || o->cut != UINT64_MAX))
		return wrong("snapshot: --records, --from and --cut are of log (leave them out)");
	t->disk = o;
	t->doc = program_json(&program);
	if (!t->doc)
		return tool_no_memory(t);
	tool_set(t, "command", json_string(c->name));
	return c->run(t);
}

/* Returns 0 or TOOL_USAGE, as all that the library would refuse for being wrong. */
static int connect_options(struct gkv_options *o)
{
	char host[256] = "", port[8] = "";
	uint64_t number = 0;
	struct error err;

	gkv_options_init(o);
	if (given.server && parse_host_port("--server", given.server, host, port, &err))
		return wrong(err.text);
	if (given.gid_index && strcmp(given.gid_index, "auto") != 0) {
		if (parse_u64("--gid-index", given.gid_index, 0, RDMA_GID_INDEX_MAX, &number, &err))
			return wrong(err.text);
		o->gid_index = (int)number;
	}
	if (given.connect)
		o->connect = strcmp(given.connect, "cm") == 0 ? GKV_CONNECT_CM : GKV_CONNECT_TCP;
	if (given.ib_port)
		o->ib_port = (unsigned)given.ib_port;
	if (given.timeout_ms)
		o->timeout_ms = (unsigned)given.timeout_ms;
	o->pkey_index = (unsigned)given.pkey_index;
	o->service_level = (unsigned)given.service_level;
	o->traffic_class = (unsigned)given.traffic_class;
	o->server = given.server;
	o->flags |= GKV_SERVERS_GIVEN;
	o->device = given.device;
	return 0;
}

static json_t *head(const struct live *l, const char *command)
{
	const struct gkv_session *s = l->session;
	json_t *doc = program_json(&program);

	if (!doc)
		return NULL;
	json_object_set_new(doc, "command", json_string(command));
	json_object_set_new(doc, "server",
			    json_sprintf(strchr(session_server(s)->host, ':') ? "[%s]:%s" : "%s:%s",
					 session_server(s)->host, session_server(s)->port));
	json_object_set_new(doc, "device", json_string(l->h->device->rdma->name));
	json_object_set_new(doc, "software_device", json_boolean(l->h->device->rdma->software));
	return doc;
}

static int run(const struct command *c, struct tool *t, struct live *l)
{
	int rc;

	t->doc = head(l, c->name);
	if (!t->doc)
		return tool_no_memory(t);
	if (!c->unprepared) {
		rc = reads_prepare(t->in, &t->root);
		if (rc)
			return tool_failed(t, rc);
		/* relaxed: a private copy */
		t->now_ms = atomic_load_explicit(&t->root.clock_ms, memory_order_relaxed);
	}
	return c->run(t);
}

int main(int argc, char **argv)
{
	struct tool t = { .program = &program };
	const struct command *command = NULL;
	struct gkv_options o;
	struct error err;
	struct live l;
	int status;

	if (program_options(&program, argc, argv, &status))
		return status;
	log_setup("kv-inspect", LOG_WARN, LOG_TEXT);
	signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write(), with a sentence */
	status = find_command(&command);
	if (status == 0)
		status = connect_options(&o);
	if (status)
		return status;
	t.operand = given.words.word + 1;
	t.operands = given.words.count - 1;
	t.json = given.json;
	t.rows = given.rows;
	t.bytes = given.bytes;
	if (!command->on_disk && disk_options_given())
		return wrong("--verify, --records, --from and --cut are of log and snapshot");
	if (command->parse && command->parse(&t, &err))
		return tool_wrong(&t, &err);
	if (command->on_disk) {
		status = on_disk(command, &t);
	} else {
		status = live_open(&l, &program, &o);
		if (status == 0) {
			t.in = &l.in;
			status = run(command, &t, &l);
		}
		live_close(&l);
	}
	if (t.json && t.doc && (status == TOOL_GOOD || status == TOOL_NO))
		program_print(t.doc, JSON_INDENT(2));
	else
		json_decref(t.doc);
	return program_end(&program, status);
}
