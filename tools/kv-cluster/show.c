/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* An overview as a table, and as JSON: the same rows. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/kv-cli/text.h"
#include "tools/kv-cluster/overview.h"

/* A server: of the configuration, or one that has answered, or was to; never neither. */
struct row {
	const struct wire_group_member *m; /* NULL: the configuration does not have it */
	const struct view *v; /* NULL, or err.code: it has not answered */
};

static unsigned rows_of(const struct overview *o, struct row out[SERVERS_MAX * 2])
{
	bool shown[SERVERS_MAX] = { false };
	unsigned count = 0;

	for (uint32_t i = 0; o->newest && i < o->newest->status.members; i++) {
		struct row *r = &out[count++];

		*r = (struct row){ .m = &o->newest->member[i] };
		for (unsigned j = 0; j < o->count; j++) {
			const struct view *v = &o->view[j];

			if (v->err.code ? strcmp(v->server, r->m->address) != 0
					: v->status.life != r->m->life)
				continue;
			r->v = v;
			shown[j] = true;
		}
	}
	for (unsigned j = 0; j < o->count; j++)
		if (!shown[j])
			out[count++] = (struct row){ .v = &o->view[j] };
	return count;
}

static const char *node_of(const struct row *r)
{
	if (r->m)
		return r->m->node;
	return r->v->err.code ? "?" : r->v->status.node;
}

static const char *address_of(const struct row *r)
{
	if (r->m)
		return r->m->address;
	return r->v->err.code ? r->v->server : r->v->status.address;
}

/* Bytes of the primary's log that it has not applied. False: nobody knows. */
static bool lag_of(const struct overview *o, const struct row *r, uint64_t *out)
{
	if (!o->primary || !r->m || r->m->life == o->primary->status.life ||
	    r->m->stage < WIRE_GROUP_WALKS || r->m->stage > WIRE_GROUP_IN_SYNC)
		return false;
	*out = o->primary->status.position > r->m->applied
		       ? o->primary->status.position - r->m->applied
		       : 0;
	return true;
}

/* What there is to say of it; "" where nothing is. */
static const char *note_of(const struct overview *o, const struct row *r)
{
	static const char *const stage[WIRE_GROUP_STAGES] = {
		[WIRE_GROUP_AWAITED] = "has not come to the primary yet",
		[WIRE_GROUP_CONNECTS] = "connects, and gets the table of clients",
		[WIRE_GROUP_WALKS] = "reads the primary's records",
		[WIRE_GROUP_CATCHES_UP] = "has read all, and waits to be put in sync",
	};

	if (r->v && r->v->err.code)
		return r->v->err.text;
	if (r->m && r->m->stage == WIRE_GROUP_CUT)
		return r->m->why;
	if (r->m && r->m->stage < WIRE_GROUP_STAGES && stage[r->m->stage])
		return stage[r->m->stage];
	if (r->v && r->v->status.waits[0])
		return r->v->status.waits;
	if (r->v && !r->m && o->newest)
		return "is not in the configuration";
	return "";
}

static const char *in_sync_of(const struct row *r)
{
	if (!r->m)
		return "-";
	return r->m->in_sync ? "yes" : "no";
}

static void head(const struct overview *o)
{
	const struct wire_group_status *s = &o->newest->status;
	unsigned in_sync = 0;

	for (uint32_t i = 0; i < s->members; i++)
		in_sync += o->newest->member[i].in_sync == 1;
	printf("cluster %s, group %s, term %" PRIu64 ": %s\n", s->cluster, s->group, s->term,
	       s->why);
	printf("%u of %u in sync, writes want %u; lease %u ms", in_sync, s->members, s->min_in_sync,
	       s->lease_ms);
	if (o->primary)
		printf(", %" PRIu64 " ms left; %u session%s\n\n",
		       o->primary->status.lease_left_us / 1000, o->primary->status.sessions,
		       o->primary->status.sessions == 1 ? "" : "s");
	else
		printf("; NO PRIMARY ANSWERS CLIENTS\n\n");
}

static int wider(int width, const char *text)
{
	return (int)strlen(text) > width ? (int)strlen(text) : width;
}

void overview_print(const struct overview *o)
{
	struct row row[SERVERS_MAX * 2];
	const unsigned count = rows_of(o, row);
	int node = 4, address = 7;

	if (o->newest)
		head(o);
	for (unsigned i = 0; i < count; i++) {
		node = wider(node, node_of(&row[i]));
		address = wider(address, address_of(&row[i]));
	}
	printf("%-*s  %-*s  %-10s  %-7s  %9s  %9s  %s\n", node, "NODE", address, "ADDRESS", "ROLE",
	       "IN SYNC", "BEHIND", "PROMISED", "NOTE");
	for (unsigned i = 0; i < count; i++) {
		const struct row *r = &row[i];
		char behind[TEXT_SIZE_MAX] = "-", promised[24] = "-";
		uint64_t lag;

		if (lag_of(o, r, &lag))
			text_size(behind, lag);
		if (o->primary && r->m && r->m->granted_left_us)
			snprintf(promised, sizeof(promised), "%" PRIu64 " ms",
				 r->m->granted_left_us / 1000);
		printf("%-*s  %-*s  %-10s  %-7s  %9s  %9s%s%s\n", node, node_of(r), address,
		       address_of(r), overview_role(o, r->m, r->v), in_sync_of(r), behind, promised,
		       note_of(o, r)[0] ? "  " : "", note_of(o, r));
	}
}

static json_t *row_json(const struct overview *o, const struct row *r)
{
	json_t *out = json_pack("{s:s, s:s, s:s, s:b, s:b, s:s}", "node", node_of(r), "address",
				address_of(r), "role", overview_role(o, r->m, r->v), "in_sync",
				r->m && r->m->in_sync, "answers", r->v && !r->v->err.code, "note",
				note_of(o, r));
	uint64_t lag;

	if (!out)
		return NULL;
	if (lag_of(o, r, &lag))
		json_object_set_new(out, "behind_bytes", json_integer((json_int_t)lag));
	if (r->m && r->m->granted_left_us)
		json_object_set_new(out, "promised_us",
				    json_integer((json_int_t)r->m->granted_left_us));
	if (r->v && !r->v->err.code)
		json_object_set_new(out, "sessions", json_integer(r->v->status.sessions));
	return out;
}

static int head_json(const struct overview *o, json_t *doc)
{
	const struct wire_group_status *s = &o->newest->status;
	json_t *of = json_pack("{s:s, s:s, s:I, s:s, s:i, s:i, s:i}", "cluster", s->cluster,
			       "group", s->group, "term", (json_int_t)s->term, "why", s->why,
			       "lease_ms", (int)s->lease_ms, "rho_ppm", (int)s->rho_ppm,
			       "min_in_sync", (int)s->min_in_sync);

	if (!of || json_object_update_new(doc, of))
		return -ENOMEM;
	json_object_set_new(doc, "primary",
			    o->primary ? json_string(o->primary->status.node) : json_null());
	if (o->primary)
		json_object_set_new(doc, "lease_left_us",
				    json_integer((json_int_t)o->primary->status.lease_left_us));
	return 0;
}

int overview_json(const struct overview *o, json_t *doc)
{
	struct row row[SERVERS_MAX * 2];
	const unsigned count = rows_of(o, row);
	json_t *servers = json_array();
	int rc = servers ? 0 : -ENOMEM;

	if (rc == 0 && o->newest)
		rc = head_json(o, doc);
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = json_array_append_new(servers, row_json(o, &row[i])) ? -ENOMEM : 0;
	if (rc == 0)
		rc = json_object_set(doc, "servers", servers) ? -ENOMEM : 0;
	json_decref(servers);
	return rc;
}
