/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * What each kind of record does.
 *
 * Clients are few and their items small, so this thread keeps their table itself. A reply is
 * remembered before its write is in the store; nobody is answered from either before
 * replay_flush().
 *
 * WHILE IT LEARNS the table of clients, which was read from the primary after all below the log's
 * first record was published, comes before that record, as a snapshot's does (clients/durable.c has
 * the argument): the log then goes over it, and no client comes back as it was before. Records of
 * the walk come at any time (apply.c).
 */
#include "server/replay/replay.h"

#include <errno.h>
#include <stdlib.h>

struct replay {
	struct apply *apply;
	struct clients *clients;
	uint64_t version;
};

int replay_open(struct replay **out, const struct apply_config *config, struct clients *clients,
		struct error *err)
{
	struct replay *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return error_set(err, -ENOMEM, "out of memory for what replays records");
	r->clients = clients;
	rc = apply_start(&r->apply, config, err);
	if (rc) {
		free(r);
		return rc;
	}
	*out = r;
	return 0;
}

int replay_record(struct replay *r, const struct apply_record *record)
{
	if (record->version > r->version)
		r->version = record->version;
	return apply_give(r->apply, record);
}

int replay_client(struct replay *r, const struct snapshot_client *s)
{
	const struct client_reply reply = {
		.sequence = s->sequence,
		.version = s->version,
		.expiry_ms = s->expiry_ms,
		.number = s->number,
		.value_len = s->value_len,
		.status = s->status,
	};
	int rc;

	rc = clients_restore(r->clients, s->client, s->first_sequence, false);
	if (rc == 0 && s->sequence)
		rc = clients_restore_reply(r->clients, s->client, s->handle, s->slot, &reply);
	return rc;
}

static int remember(struct replay *r, const struct log_record *l)
{
	const struct client_reply reply = {
		.sequence = l->sequence,
		.version = l->version,
		.expiry_ms = l->expiry_ms,
		.number = l->number,
		.value_len = l->value_len,
	};

	if (!l->client[0] && !l->client[1])
		return 0;
	return clients_restore_reply(r->clients, l->client, l->handle, l->slot, &reply);
}

static int log_write(struct replay *r, const struct log_record *l)
{
	const struct apply_record record = {
		.key = l->data,
		.key_len = l->key_len,
		.value = l->data + l->key_len,
		.value_len = l->value_len,
		.version = l->version,
		.expiry_ms = l->expiry_ms,
		.body = l->body,
		.has_body = true,
		.is_del = l->kind == LOG_DEL,
	};
	int rc = replay_record(r, &record);

	return rc ? rc : remember(r, l);
}

int replay_log(struct replay *r, const struct log_record *l)
{
	switch ((enum log_kind)l->kind) {
	case LOG_PUT:
	case LOG_DEL:
		return log_write(r, l);
	case LOG_CLIENT:
		return clients_restore(r->clients, l->client, l->version, true);
	case LOG_FORGET:
		clients_restore_forget(r->clients, l->client);
		return 0;
	}
	return -EINVAL;
}

int replay_flush(struct replay *r)
{
	return apply_flush(r->apply);
}

void replay_learned(struct replay *r)
{
	apply_learned(r->apply);
}

uint64_t replay_version(const struct replay *r)
{
	return r->version;
}

int replay_close(struct replay *r)
{
	int rc;

	if (!r)
		return 0;
	rc = apply_end(r->apply);
	free(r);
	return rc;
}
