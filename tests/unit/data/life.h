/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * A server's life on a data directory, without RPC: store, clients, one door, on a disk in memory.
 * Keys and values are numbers. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "server/data/data.h"
#include "server/write/write.h"
#include "tests/lib/sim_disk.h"

#define LIFE_GENERATION 7u
#define LIFE_SLOTS	4u /* of the one client's queue pair 0 */

struct life {
	struct sim_disk *disk;
	struct data *data;
	struct store store;
	struct store_worker worker;
	struct clients *clients;
	struct client_entry *client;
	struct write_door door;
	const struct write_door *doors[1];
	uint64_t sequence[LIFE_SLOTS];
	bool log_failed;
	bool serves;
	/* The last answer. */
	bool answered, repeated;
	struct client_reply said;
};

struct life_config {
	struct sim_disk *disk;
	enum log_sync sync;
	uint64_t memory; /* 0: 64 MiB */
	uint64_t recover_until; /* 0: all */
	uint64_t snapshot_bytes;
	unsigned threads; /* 0: 2 */
	bool serve; /* with the thread of snapshots */
};

/* life_disk - a new one, whose files are short. */
struct sim_disk *life_disk(void);

/* life_begin - returns what data_open() or data_recover() does; nothing is left where it fails. */
int life_begin(struct life *l, const struct life_config *config, struct error *err);

/* life_end - a clean stop; the disk stays. life_kill - as kill -9: returns what is on the disk at
 * this moment, and tears @l down without touching that. */
void life_end(struct life *l);
struct sim_disk *life_kill(struct life *l);

/*
 * life_put, life_put_long (a value of @bytes), life_del, life_incr - apply it and wait for its
 * answer. @slot: request slot. Returns its status. life_put_begin - does not wait: @w must stay
 * until life_await(), before which nothing else is written. life_again - a request of @slot, sent
 * once more.
 */
int life_put(struct life *l, uint64_t key, uint64_t value, unsigned slot);
int life_put_long(struct life *l, uint64_t key, uint64_t value, uint32_t bytes, unsigned slot);
void life_put_begin(struct life *l, struct write *w, uint64_t key, uint64_t value, unsigned slot);
int life_await(struct life *l);
int life_del(struct life *l, uint64_t key, unsigned slot);
int life_incr(struct life *l, uint64_t key, unsigned slot);
int life_again(struct life *l, enum write_op op, uint64_t key, uint64_t sequence, unsigned slot);

/* life_get - the value that readers find; false: there is none. @version may be NULL. */
bool life_get(struct life *l, uint64_t key, uint64_t *value, uint64_t *version);

/* life_value - the same; UINT64_MAX: there is none. */
uint64_t life_value(struct life *l, uint64_t key);
