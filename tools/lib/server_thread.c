/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/server_thread.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "server/config/config.h"

static void *serve(void *arg)
{
	struct server_thread *t = arg;
	bool again;

	t->err.code = server_run(&t->server, NULL, NULL, &again, &t->err);
	atomic_store(&t->ended, true);
	return NULL;
}

/* As from a command line, so that defaults are those of kv-server. */
static int settings(struct config *config, uint64_t memory_bytes, uint64_t index_slots,
		    unsigned lease_ms, struct error *err)
{
	char memory[24], slots[24], lease[24], name[] = "kv-server";
	char *argv[] = { name,
			 (char *)"--listen",
			 (char *)"127.0.0.1:0",
			 (char *)"--device",
			 (char *)"soft0",
			 (char *)"--connect",
			 (char *)"tcp",
			 (char *)"--workers",
			 (char *)"1",
			 (char *)"--memory",
			 memory,
			 NULL,
			 NULL,
			 NULL,
			 NULL,
			 NULL };
	int argc = 11;
	enum config_next next;

	snprintf(memory, sizeof(memory), "%" PRIu64, memory_bytes);
	snprintf(slots, sizeof(slots), "%" PRIu64, index_slots);
	if (index_slots) {
		argv[argc++] = (char *)"--index-slots";
		argv[argc++] = slots;
	}
	if (lease_ms) {
		snprintf(lease, sizeof(lease), "%u", lease_ms);
		argv[argc++] = (char *)"--lease";
		argv[argc++] = lease;
	}
	return config_load(config, argc, argv, &next, err);
}

int server_thread_start(struct server_thread *t, uint64_t memory_bytes, uint64_t index_slots,
			struct error *err)
{
	struct config config;
	int rc;

	atomic_init(&t->ended, false);
	t->err = (struct error){ 0 };
	rc = settings(&config, memory_bytes, index_slots, t->lease_ms, err);
	if (rc)
		return rc;
	server_block_signals();
	rc = server_create(&t->server, &config, err);
	if (rc)
		return rc;
	rc = -pthread_create(&t->thread, NULL, serve, t);
	if (rc) {
		server_destroy(&t->server);
		return error_set(err, rc, "starting the server's thread failed: %s",
				 error_name(rc));
	}
	return 0;
}

int server_thread_stop(struct server_thread *t)
{
	if (!atomic_load(&t->ended))
		pthread_kill(t->thread, SIGTERM);
	pthread_join(t->thread, NULL);
	server_destroy(&t->server);
	return t->err.code;
}
