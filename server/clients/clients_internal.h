/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the files of the table share. */
#include "server/clients/clients.h"

/* A search tree of entries by id (tsearch), and its size. */
struct clients {
	pthread_mutex_t lock;
	void *tree;
	unsigned count;
	struct client_entry *oldest; /* scratch of the walk in give_way() */
	struct log *log; /* that hears whom the table forgets, or NULL. Under lock */
};

int clients_compare(const void *a, const void *b);

/*
 * All must hold the table's lock. clients_find - the client, or NULL. clients_add - it is not
 * there: a new one, for which another may give way; -ENOMEM, -EUSERS. clients_drop - forget it.
 */
struct client_entry *clients_find(struct clients *c, const uint64_t id[2]);
int clients_add(struct clients *c, const uint64_t id[2], uint64_t first_sequence,
		struct client_entry **out);
void clients_drop(struct clients *c, struct client_entry *e);
