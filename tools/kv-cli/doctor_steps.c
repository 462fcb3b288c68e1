/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor HOST: a connection, step by step, as the library tells of it (gkv_trace). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/plain.h"
#include "common/base/time.h"
#include "tools/kv-cli/doctor.h"
#include "tools/kv-cli/stats_table.h"
#include "tools/kv-cli/text.h"

#define STEP_COLUMNS 29u /* before the words: "  resolve   failed   123.4 ms  " */

/* What is printed under its own name; the rest belongs to the step. */
struct attempt {
	struct cli *cli;
	json_t *steps; /* NULL: no JSON is wanted */
	const char *step; /* that is under way, NULL: none */
	uint64_t since_ns;
	bool failed; /* a step has: what follows is its repetition */
	char failed_step[16];
};

static const struct {
	const char *step, *hint;
} hints[] = {
	{ "resolve", "is the name right? getent hosts NAME shows what the resolver says" },
	{ "tcp", "does kv-server run there, and --listen on that address and port? does a firewall "
		 "drop TCP between here and there?" },
	{ "device", "kv-cli doctor shows the devices that are here, and what is wrong with them" },
	{ "gid", "kv-cli doctor lists the GIDs; the network device needs an IP address" },
	{ "welcome", "is it a kv-server of this version that listens there? its log says why it "
		     "refuses" },
	{ "qp", "kv-cli doctor shows limits of the device and of locked memory" },
	{ "offer", "the server went away: its log says why" },
	{ "answer", "the server could not make its end: its log says why" },
	{ "settle",
	  "both sides need ports of one fabric and GIDs of one type: kv-cli doctor on both "
	  "lists them, --gid-index and --device choose" },
	{ "rtr", "is there a route, and a neighbour entry, to the peer's GID? are both GIDs of one "
		 "type (kv-cli doctor on both sides)?" },
	{ "rts", "--timeout, --retry-cnt and --rnr-retry of both sides; the device's READ depth" },
	{ "route", "ip route get ADDRESS: does the route leave through an RDMA device? is "
		   "/dev/infiniband/rdma_cm there (modprobe rdma_ucm)?" },
	{ "cm", "does the server run with --connect cm, on the same fabric? its log says why it "
		"refuses; --connect tcp is the other way" },
	{ "live", "the server could not bring its end up: its log says why" },
	{ "root",
	  "packets get lost on the way: does a firewall drop UDP port 4791 (RoCE v2)? does "
	  "the path carry the MTU that was settled (try a smaller --mtu on the server)? are "
	  "both on one fabric?" },
	{ "ping", "one-sided reads work, requests do not: is the server stopped, or overloaded?" },
	{ "close", "the server went away" },
};

const char *doctor_step_hint(const char *step)
{
	for (unsigned i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (strcmp(hints[i].step, step) == 0)
			return hints[i].hint;
	}
	return "";
}

static void begin(struct attempt *a, const char *step)
{
	a->step = step;
	a->since_ns = time_now_ns();
	if (a->steps)
		return;
	printf("  %-9s ", step); /* now, so that one sees where it hangs */
	fflush(stdout);
}

static void end(struct attempt *a, bool good, const char *said)
{
	char words[ERROR_TEXT_MAX]; /* names that the user gave may stand in it, of any bytes */
	double ms = (double)(time_now_ns() - a->since_ns) / NS_PER_MS;
	const char *step = a->step;

	if (!step)
		return;
	snprintf(words, sizeof(words), "%s", said);
	plain_text(words);
	a->step = NULL;
	if (!good) {
		a->failed = true;
		snprintf(a->failed_step, sizeof(a->failed_step), "%s", step);
	}
	if (a->steps) {
		json_array_append_new(a->steps,
				      json_pack("{s:s, s:b, s:f, s:s}", "step", step, "ok",
						(int)good, "ms", ms, "words", words));
		return;
	}
	printf("%-6s %7.1f ms  ", good ? "ok" : "failed", ms);
	text_folded(stdout, words, STEP_COLUMNS, STEP_COLUMNS);
	fflush(stdout);
}

/* gkv_trace */
static void hear(void *arg, const char *step, const char *words)
{
	struct attempt *a = arg;

	if (a->failed)
		return;
	if (strcmp(step, "again") == 0) { /* the step before it was the one that failed */
		if (words)
			end(a, false, words);
		return;
	}
	if (words)
		end(a, true, words);
	else
		begin(a, step);
}

/* A call of the library: the step that it left open has failed with its sentence. */
static int failed(struct attempt *a, int rc, const char *why)
{
	if (rc == 0)
		return 0;
	if (!a->failed && !a->step)
		begin(a, "connect"); /* refused before the first step: an option, say */
	end(a, false, why && why[0] ? why : gkv_strerror(rc));
	return rc;
}

bool doctor_memory(const char *statistics, char *words, size_t cap)
{
	char size[TEXT_SIZE_MAX];
	const struct stats_value *away, *node;
	struct stats_table t = { 0 };
	bool found;

	if (stats_table_read(&t, statistics, 0))
		return false;
	away = stats_find(&t, "memory_other_node_bytes");
	node = stats_find(&t, "memory_numa_node");
	found = away && away->value && node;
	if (found)
		snprintf(
			words, cap,
			"%s of the server's memory lie on another NUMA node than its device, which "
			"is at node %" PRIu64 ", so that its READs cross over (free memory or "
			"hugepages of that node, or give kv-server less, and start it again; its "
			"log says what it was told by numactl or a cpuset)",
			text_size_binary(size, away->value), node->value);
	stats_table_free(&t);
	return found;
}

static uint64_t figure(const struct stats_table *t, const char *name)
{
	const struct stats_value *v = stats_find(t, name);

	return v ? v->value : 0;
}

bool doctor_log(const char *statistics, char *words, size_t cap)
{
	struct stats_table t = { 0 };
	char size[TEXT_SIZE_MAX];
	const char *wrong = "";
	bool found;

	if (stats_table_read(&t, statistics, 0))
		return false;
	found = stats_find(&t, "data_life");
	if (figure(&t, "log_refused_space"))
		wrong = "; writes were refused for want of room on its disk, and are where the count "
			"still grows (make room there: stats, log_refused_space)";
	else if (figure(&t, "snapshots_failed"))
		wrong = "; snapshots could not be written, so that its log grows (its log says why)";
	if (found)
		snprintf(words, cap,
			 "writes survive a restart: %s of log, snapshots since the start: %" PRIu64
			 "%s",
			 text_size_binary(size, figure(&t, "log_bytes")), figure(&t, "snapshots"),
			 wrong);
	else
		snprintf(words, cap,
			 "nothing: all records are lost when the %s (--data-dir keeps them)",
			 stats_find(&t, "group_term") ? "last server of the group ends"
						      : "server ends");
	stats_table_free(&t);
	return true;
}

bool doctor_group(const char *statistics, char *words, size_t cap)
{
	struct stats_table t = { 0 };
	char lag[TEXT_SIZE_MAX];
	uint64_t members, in_sync;
	bool found;

	if (stats_table_read(&t, statistics, 0))
		return false;
	found = stats_find(&t, "group_term");
	members = figure(&t, "group_members");
	in_sync = figure(&t, "group_in_sync");
	if (found)
		snprintf(words, cap,
			 "primary in term %" PRIu64 "; %" PRIu64 " of %" PRIu64 " in sync%s; lease "
			 "%" PRIu64 " ms, %" PRIu64 " ms left; the slowest lacks %s of the log%s",
			 figure(&t, "group_term"), in_sync, members,
			 members == 1 ? ", so nobody can take over" : "",
			 figure(&t, "group_lease_ms"), figure(&t, "group_lease_left_us") / 1000,
			 text_size_binary(lag, figure(&t, "group_lag_bytes")),
			 in_sync < members ? " (kv-cluster status says why not all are)" : "");
	stats_table_free(&t);
	return found;
}

/* A server that does not answer this was reached all the same. Of memory only what is wrong. */
static void look_at_figures(struct attempt *a)
{
	char words[ERROR_TEXT_MAX];
	autofree char *statistics = NULL;

	if (gkv_server_stats(a->cli->handle, &statistics))
		return;
	if (doctor_memory(statistics, words, sizeof(words))) {
		begin(a, "memory");
		end(a, true, words);
	}
	if (doctor_log(statistics, words, sizeof(words))) {
		begin(a, "disk");
		end(a, true, words);
	}
	if (doctor_group(statistics, words, sizeof(words))) {
		begin(a, "group");
		end(a, true, words);
	}
}

static int talk(struct attempt *a)
{
	struct cli *cli = a->cli;
	char text[ERROR_TEXT_MAX] = "";
	uint64_t ns = 0;
	int rc;

	rc = failed(a, gkv_session_open(&cli->options, &cli->session, text, sizeof(text)), text);
	if (rc)
		return rc;
	rc = gkv_open(cli->session, NULL, &cli->handle, text, sizeof(text));
	if (rc || a->failed) /* it may have come about in the end: a fault that comes and goes */
		return failed(a, rc ? rc : -EAGAIN, text);
	begin(a, "ping");
	rc = gkv_ping(cli->handle, &ns);
	if (rc || a->failed)
		return failed(a, rc ? rc : -EAGAIN, gkv_error(cli->handle));
	snprintf(text, sizeof(text), "a request by SEND and its reply, %.1f us", (double)ns / 1000);
	end(a, true, text);
	look_at_figures(a);
	begin(a, "close");
	gkv_close(cli->handle);
	gkv_session_close(cli->session);
	cli->handle = NULL;
	cli->session = NULL;
	end(a, true, "queue pair destroyed, session closed");
	return 0;
}

int doctor_server(struct cli *cli)
{
	struct attempt a = { .cli = cli, .steps = cli->json ? json_array() : NULL };
	const char *hint;
	int rc;

	if (cli->json && !a.steps)
		return cli_error(CLI_FAILED, "doctor: no memory");
	cli->options.flags |= GKV_SERVERS_GIVEN;
	cli->options.trace = hear;
	cli->options.trace_arg = &a;
	if (!cli->json)
		printf("Connecting to %s\n", cli->server);
	rc = talk(&a);
	cli->options.trace = NULL;
	hint = rc ? doctor_step_hint(a.failed_step) : "";
	if (rc == -ECONNREFUSED && strcmp(a.failed_step, "welcome") == 0)
		hint = "the server itself says so: kv-cluster -s HOST status shows its group";
	if (cli->json) {
		if (cli_print_json(json_pack("{s:s, s:i, s:s, s:s, s:o, s:b, s:s?, s:s}", "tool",
					     "kv-cli doctor HOST", "schema", DOCTOR_SCHEMA,
					     "version", gkv_version(), "server", cli->server,
					     "steps", a.steps, "ok", rc == 0, "failed_step",
					     rc ? a.failed_step : NULL, "remedy", hint)))
			return CLI_FAILED;
		return rc ? CLI_NO : CLI_OK;
	}
	if (rc && hint[0]) {
		printf("%*s-> ", (int)STEP_COLUMNS, "");
		text_folded(stdout, hint, STEP_COLUMNS + 3, STEP_COLUMNS + 3);
	}
	if (rc)
		printf("\nVerdict: no connection: step %s failed.\n", a.failed_step);
	else
		printf("\nVerdict: the connection works.\n");
	return cli_flush(stdout, "stdout") ? CLI_FAILED : rc ? CLI_NO : CLI_OK;
}
