/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * When it is known what became of a proposal.
 *
 * A proposal is a transaction: "if the key is still at revision m, it becomes t+1". Its own reply
 * says what became of it. Where there is none, it may have been executed, or may be on its way yet,
 * and a read that still shows t says nothing: the transaction may come after the read. Only a key
 * that has moved on from m tells: then the transaction has been executed, and the key was t+1 with
 * its writer and nonce, or it will fail, since m is gone.
 *
 * If what stands then is of term t+1, it says itself whose it is. If it is of a later one, ours may
 * have stood for a moment. That makes no difference: whoever finds a later configuration acts by
 * that one, whatever became of his own.
 */
#include "server/group/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/mutant.h"
#include "common/base/random.h"
#include "server/group/names.h"

struct group_registry {
	struct etcd *etcd;
	char key[GROUP_KEY_BYTES];
	uint64_t term; /* the highest that was taken, */
	uint64_t nonce; /* its nonce, */
	int64_t modified; /* and its revision */
	/* The last proposal. */
	int64_t from; /* what it is to replace */
	uint64_t proposed_term, proposed_writer, proposed_nonce;
};

int group_registry_open(struct group_registry **out, const struct etcd_config *etcd,
			const char *cluster, const char *group, struct error *err)
{
	char what[sizeof("group/") + GROUP_NAME_CHARS];
	struct group_registry *r;
	int rc = group_name_check("cluster", cluster, err);

	if (!rc)
		rc = group_name_check("group", group, err);
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(err, -ENOMEM, "there is no memory for the group's registry");
	snprintf(what, sizeof(what), "group/%s", group);
	group_key(cluster, what, r->key);
	rc = etcd_open(&r->etcd, etcd, err);
	if (rc) {
		free(r);
		return rc;
	}
	*out = r;
	return 0;
}

void group_registry_close(struct group_registry *r)
{
	if (!r)
		return;
	etcd_close(r->etcd);
	free(r);
}

const char *group_registry_key(const struct group_registry *r)
{
	return r->key;
}

void group_registry_wake(struct group_registry *r)
{
	etcd_wake(r->etcd);
}

/* What was seen once stands, or something later does. */
static bool is_lost(const struct group_registry *r, const struct group_known *k)
{
	if (!r->term || MUTANT(believe_older))
		return false;
	return !k->modified || k->config.term < r->term || k->modified < r->modified ||
	       (k->config.term == r->term && k->config.nonce != r->nonce);
}

int group_registry_take(struct group_registry *r, const struct etcd_value *v,
			struct group_known *out, struct error *err)
{
	int rc = 0;

	*out = (struct group_known){ .modified = v->modified };
	if (v->modified)
		rc = group_config_decode(v->bytes, v->len, &out->config, err);
	if (rc)
		return rc;
	if (is_lost(r, out))
		return error_set(err, -ESTALE,
				 "etcd has the group's configuration of term %llu, older than term "
				 "%llu, which this server knows (was etcd restored from a back-up? "
				 "Stop all servers of the cluster before that, start one, and say "
				 "kv-cluster force)",
				 (unsigned long long)out->config.term, (unsigned long long)r->term);
	if (v->modified) {
		r->term = out->config.term;
		r->nonce = out->config.nonce;
		r->modified = v->modified;
	}
	return 0;
}

int group_registry_read(struct group_registry *r, struct group_known *out, struct error *err)
{
	struct etcd_value v;
	int rc = etcd_get(r->etcd, r->key, &v, err);

	if (!rc)
		rc = group_registry_take(r, &v, out, err);
	etcd_value_free(&v);
	return rc;
}

static bool is_ours(const struct group_registry *r, const struct group_known *k)
{
	return k->modified && k->config.term == r->proposed_term &&
	       ((k->config.writer == r->proposed_writer && k->config.nonce == r->proposed_nonce) ||
		MUTANT(any_nonce));
}

int group_registry_settle(struct group_registry *r, struct group_known *now, struct error *err)
{
	struct etcd_value v;
	int rc = etcd_get(r->etcd, r->key, &v, err);

	if (rc) {
		etcd_value_free(&v);
		return -EINPROGRESS;
	}
	rc = group_registry_take(r, &v, now, err);
	etcd_value_free(&v);
	if (rc) /* nobody of us has written that, but it stands in place of @from */
		return rc;
	if (is_ours(r, now))
		return 0;
	if (now->modified == r->from && !MUTANT(read_proves))
		return error_set(err, -EINPROGRESS,
				 "etcd has not said whether it has changed the group's "
				 "configuration, and may do so yet");
	return error_set(err, -EAGAIN,
			 "the group's configuration is of term %llu now, by another server",
			 (unsigned long long)now->config.term);
}

int group_registry_propose(struct group_registry *r, const struct group_known *from,
			   const struct group_config *to, struct group_known *now,
			   struct error *err)
{
	struct group_config proposed = *to;
	struct etcd_change change = { .key = r->key, .modified = from->modified };
	autofree char *text = NULL;
	int rc = random_fill(&proposed.nonce, sizeof(proposed.nonce), err);

	if (rc)
		return rc;
	text = group_config_encode(&proposed);
	if (!text)
		return error_set(err, -ENOMEM, "there is no memory for the group's configuration");
	r->from = from->modified;
	r->proposed_term = proposed.term;
	r->proposed_writer = proposed.writer;
	r->proposed_nonce = proposed.nonce;
	change.bytes = text;
	change.len = strlen(text);
	rc = etcd_change(r->etcd, &change, 1, &now->modified, err);
	if (rc == -EAGAIN || rc == -EINPROGRESS)
		return group_registry_settle(r, now, err);
	if (rc)
		return rc;
	now->config = proposed;
	r->term = proposed.term;
	r->nonce = proposed.nonce;
	r->modified = now->modified;
	return 0;
}
