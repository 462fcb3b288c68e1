/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * grace-bench: what grace periods across the wire cost clients that behave, when others do not.
 *
 * Clients are processes of the public library (only the one that holds a section open looks
 * inside); they are forked before this process opens a device, and told what to do through shared
 * memory. The server is a process of its own.
 *
 * Four measurements, each beside what it is compared with, in turns:
 *	stop	one of several clients gets SIGSTOP in the middle of its work (grace_stop.c)
 *	cap	two clients hold sections open while others overwrite (grace_cap.c)
 *	idle	a client with ten handles that does nothing (grace_rest.c)
 *	cost	GETs with a housekeeper at work and with one at rest (grace_rest.c)
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/time.h"
#include "tests/performance/grace_bench.h"
#include "tools/lib/store.h"
#include "tools/lib/option_rows.h"

#define BEGIN_S 30u /* for a client to begin with an order; connecting included */

static struct grace_bench bench = { .o = { .memory = "256M",
					   .device = "auto",
					   .host = "127.0.0.1",
					   .connect = "tcp",
					   .workers = 4,
					   .keys = 100000,
					   .value_len = 64,
					   .puts = 5,
					   .rounds = 9,
					   .lease_ms = 1000,
					   .slice_ms = 50,
					   .idle_s = 10 } };

#define OPTION_BASE bench.o

static const struct program_option options[] = {
	OPTION_BINARY(binary),
	TEXT("memory", 'M', "SIZE", memory, "its memory [256M]"),
	OPTION_DEVICE(device),
	OPTION_CONNECT(connect),
	OPTION_LISTEN(host),
	NUMBER("workers", 'w', "N", workers, 2, GRACE_WORKERS_MAX, "clients at work, 2 to 14 [4]"),
	NUMBER("keys", 'k', "N", keys, 1, 100000000, "records [100000]"),
	NUMBER("value", 'v', "BYTES", value_len, 0, 65536, "their length [64]"),
	NUMBER("puts", 'p', "PERCENT", puts, 0, 100,
	       "of the workers' operations; the rest are GETs [5]"),
	NUMBER("rounds", 'r', "N", rounds, 1, GRACE_ROUNDS_MAX,
	       "alternating rounds of each kind, 1 to 99 [9]"),
	NUMBER("lease", 'L', "MS", lease_ms, 100, 60000, "its lease, from 100 [1000]"),
	NUMBER("slice", 'T', "MS", slice_ms, 5, 10000, "for which a rate is taken, from 5 [50]"),
	SIZE("deferred-max", 'D', deferred_bytes, 1 << 20, 1ull << 40,
	     "that may be deferred [the server's: a quarter of memory]"),
	NUMBER("idle", 'i', "SECONDS", idle_s, 1, 600, "that the idle client is watched [10]"),
	OPTION_JSON(json),
	OPTION_CHECK(check),
	{ NULL },
};

const struct program grace_program = {
	.name = "grace-bench",
	.usage = "Usage: grace-bench [OPTIONS]\n\n"
		 "What clients that are stopped, stuck or idle cost the others: rates beside a "
		 "stopped\n"
		 "client against rates without, the time until it is fenced, deferred bytes under\n"
		 "stuck sections, messages of an idle client and of a GET. Starts a kv-server and "
		 "its\n"
		 "clients as processes; wants two idle cores.\n\n",
	.notes = "\n"
		 "Example:\n  grace-bench --device soft0 --check\n",
	.options = options,
};

static int die(const char *what, const char *why)
{
	return program_failed(&grace_program, what, why);
}

void grace_key(uint64_t i, char key[GRACE_KEY_LEN + 1])
{
	snprintf(key, GRACE_KEY_LEN + 1, "key-%012" PRIu64, (uint64_t)(i % 1000000000000ull));
}

/* A client that has ended has said why. */
static int wait_for(struct grace_bench *b, unsigned i, const _Atomic uint32_t *word,
		    uint64_t seconds)
{
	const struct timespec nap = { 0, NS_PER_MS / 2 };
	uint64_t end = time_now_ns() + seconds * NS_PER_S;
	int status;

	/* acquire: pairs with the client's release, for its results */
	while (atomic_load_explicit(word, memory_order_acquire) !=
	       atomic_load_explicit(&b->shared->client[i].order, memory_order_relaxed)) {
		if (waitpid(b->pid[i], &status, WNOHANG) == b->pid[i]) {
			b->pid[i] = 0;
			return die("a client", "it has ended");
		}
		if (time_now_ns() > end)
			return die("a client", "it does not do what it is told");
		nanosleep(&nap, NULL);
	}
	return 0;
}

static void give_order(struct grace_bench *b, unsigned i, enum grace_order what)
{
	struct grace_client *c = &b->shared->client[i];
	uint32_t number = atomic_load_explicit(&c->order, memory_order_relaxed) >> 3;

	/* relaxed: it asks for nothing but itself, and the futex orders */
	atomic_store_explicit(&c->order, (number + 1) << 3 | what, memory_order_relaxed);
	syscall(SYS_futex, &c->order, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int grace_order(struct grace_bench *b, unsigned i, enum grace_order what)
{
	give_order(b, i, what);
	return wait_for(b, i, &b->shared->client[i].doing, BEGIN_S);
}

int grace_results(struct grace_bench *b, unsigned i, uint64_t seconds)
{
	return wait_for(b, i, &b->shared->client[i].done, seconds);
}

int grace_stats(struct grace_bench *b, const char *const *names, uint64_t *values, unsigned count)
{
	char *text;

	if (gkv_server_stats(b->kv, &text))
		return die("statistics", gkv_error(b->kv));
	for (unsigned i = 0; i < count; i++) {
		size_t len = strlen(names[i]);

		values[i] = 0;
		for (const char *p = text; p; p = strchr(p, '\n')) {
			p += *p == '\n';
			if (strncmp(p, names[i], len) == 0 && p[len] == ' ')
				values[i] = strtoull(p + len, NULL, 10);
		}
	}
	free(text);
	return 0;
}

uint64_t grace_errors(const struct grace_bench *b)
{
	uint64_t errors = 0;

	for (unsigned i = 0; i < b->clients; i++)
		errors += atomic_load(&b->shared->client[i].errors);
	return errors;
}

static int fork_clients(struct grace_bench *b)
{
	pid_t parent = getpid();

	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->shared == MAP_FAILED)
		return die("memory", error_name(errno));
	b->shared->o = b->o;
	for (; b->clients < b->o.workers + GRACE_STUCK; b->clients++) {
		unsigned number = b->clients;

		b->pid[number] = fork();
		if (b->pid[number] < 0) {
			b->pid[number] = 0;
			return die("fork", error_name(errno));
		}
		if (b->pid[number] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(3);
			grace_client(b->shared, number);
		}
	}
	return 0;
}

/* Those that have not ended; their calls end in time. Returns 0 where all ended well. */
static int end_clients(struct grace_bench *b)
{
	int status, rc = 0;

	for (unsigned i = 0; i < b->clients; i++) {
		if (b->pid[i] <= 0)
			continue;
		kill(b->pid[i], SIGCONT);
		give_order(b, i, GRACE_END);
	}
	for (unsigned i = 0; i < b->clients; i++) {
		if (b->pid[i] > 0 && (waitpid(b->pid[i], &status, 0) != b->pid[i] || status))
			rc = 3;
	}
	return rc;
}

static int start_server(struct grace_bench *b)
{
	char lease[24], deferred[24];
	const char *more[] = { "--lease", lease, "--deferred-max", deferred, "--log-level",
			       "error",	  NULL };
	struct server_options o = { b->o.binary, b->o.host,    b->o.memory,
				    b->o.device, b->o.connect, more };
	struct error err;

	snprintf(lease, sizeof(lease), "%" PRIu64, b->o.lease_ms);
	snprintf(deferred, sizeof(deferred), "%" PRIu64, b->o.deferred_bytes);
	if (server_process_start(&b->server, &o, &err))
		return die("starting kv-server", err.text);
	snprintf(b->shared->server, sizeof(b->shared->server), "%s", b->server.address);
	return 0;
}

static int fill(struct grace_bench *b)
{
	char *value = calloc(1, b->o.value_len + 1), key[GRACE_KEY_LEN + 1];
	int rc = value ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < b->o.keys && rc == 0; i++) {
		grace_key(i, key);
		rc = gkv_put(b->kv, key, GRACE_KEY_LEN, value, b->o.value_len, NULL);
	}
	free(value);
	return rc ? die("filling the store", gkv_error(b->kv)) : 0;
}

static int measure(struct grace_bench *b)
{
	int rc = grace_connect(b->shared, GKV_HOUSEKEEPER_THREAD, &b->session, &b->kv);

	if (rc == 0)
		rc = fill(b);
	if (rc == 0)
		rc = grace_measure_stop(b);
	if (rc == 0)
		rc = grace_measure_cap(b);
	if (rc == 0)
		rc = grace_measure_rest(b);
	return rc ? rc : grace_report(b);
}

/* All slices are kept: a round lasts two leases (grace_stop.c). */
static bool slices_fit(const struct grace_bench *b)
{
	uint64_t one = (2 * b->o.lease_ms + b->o.slice_ms - 1) / b->o.slice_ms;

	return one <= GRACE_SLICES_ONE && one * b->o.rounds <= GRACE_SLICES_MAX;
}

int main(int argc, char **argv)
{
	struct grace_bench *b = &bench;
	int status, ended;

	if (program_options(&grace_program, argc, argv, &status))
		return status;
	if (!slices_fit(b))
		return program_usage(
			&grace_program,
			"two leases have at most 4096 slices, all rounds 65536 (give a longer "
			"--slice)");
	signal(SIGPIPE, SIG_IGN);
	status = fork_clients(b);
	if (status == 0)
		status = start_server(b);
	if (status == 0)
		status = measure(b);
	ended = end_clients(b); /* while there is a server to take leave of */
	bench_store_close(b->session, b->kv);
	if (status == 0 && ended)
		status = die("a client", "it did not end in order");
	if (server_process_stop(&b->server) && status == 0)
		status = die("kv-server", "it did not stop in order");
	return program_end(&grace_program, status);
}
