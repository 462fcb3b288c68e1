/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/stats_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

/* Values that only grow while a server runs; and those whose names begin like that. */
static const char *const counters[] = {
	"pulled_bytes",	 "pushed_bytes",     "records_expired", "index_splits",
	"index_merges",	 "index_doublings",  "index_halvings",	"blocks_retired",
	"blocks_freed",	 "grace_periods",    "worker_wakeups",	"deferred_refused",
	"receives_lost", "queue_pairs_lost", "log_position",	"log_committed",
	"log_durable",	 "log_batches",	     "log_records",	"log_syncs",
	"snapshots",	 "snapshots_failed",
};

static const char *const counter_prefixes[] = {
	"rpc_", "client_", "connections_", "log_refused_", "sessions_resumed", "sessions_fenced_"
};

static bool is_counter(const char *name)
{
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		if (strcmp(name, counters[i]) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(counter_prefixes) / sizeof(counter_prefixes[0]); i++) {
		if (strncmp(name, counter_prefixes[i], strlen(counter_prefixes[i])) == 0)
			return true;
	}
	return false;
}

/* The group of a name, by its beginning: the first that fits. */
static const struct {
	const char *begins, *group;
} groups[] = {
	{ "pid", "process" },
	{ "uptime_", "process" },
	{ "worker", "process" },
	{ "epoch", "process" },
	{ "version", "process" },
	{ "data_life", "process" },
	{ "lines_", "process" },
	{ "sessions", "sessions" },
	{ "queue_pairs", "sessions" },
	{ "handshakes_", "sessions" },
	{ "connections_", "sessions" },
	{ "client_", "client" },
	{ "rpc_", "rpc" },
	{ "protocol_", "rpc" },
	{ "receives_", "rpc" },
	{ "pulled_", "rpc" },
	{ "pushed_", "rpc" },
	{ "records", "records" },
	{ "index_", "index" },
	{ "blocks_", "reclaim" },
	{ "deferred_", "reclaim" },
	{ "grace_", "reclaim" },
	{ "memory_", "memory" },
	{ "log_", "log" },
	{ "recovery_", "recovery" },
	{ "group_", "group" },
	{ "snapshot", "snapshot" },
	{ "", "other" }, /* a newer server's */
};

/* Names BEGINS_NUMBER_KEY: a list of objects, one for each number. */
static const struct {
	const char *begins, *list, *number;
} lists[] = {
	{ "class_", "classes", "size" },
	{ "session_", "each_session", "session" },
};

/* Where a value goes. */
struct home {
	json_t *object; /* NULL: no memory */
	const char *key;
};

/* The part @name of @doc, made where it is missing. NULL: no memory. */
static json_t *part(json_t *doc, const char *name, json_t *(*make)(void))
{
	json_t *found = json_object_get(doc, name);

	if (!found && json_object_set_new(doc, name, make()) == 0)
		found = json_object_get(doc, name);
	return found;
}

/* The last object of the list if it has this number, or else a new one. NULL: no memory. */
static json_t *element(json_t *list, const char *name, json_int_t number)
{
	json_t *last = json_array_get(list, json_array_size(list) - 1);

	if (last && json_integer_value(json_object_get(last, name)) == number)
		return last;
	if (json_array_append_new(list, json_pack("{s:I}", name, number)))
		return NULL;
	return json_array_get(list, json_array_size(list) - 1);
}

/* key NULL: the name has no number. */
static struct home home_in_list(json_t *doc, const char *name)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		size_t len = strlen(lists[i].begins);
		char *end;
		long long number;

		if (strncmp(name, lists[i].begins, len) != 0)
			continue;
		number = strtoll(name + len, &end, 10);
		if (end > name + len && *end == '_')
			return (struct home){ element(part(doc, lists[i].list, json_array),
						      lists[i].number, number),
					      end + 1 };
	}
	return (struct home){ 0 };
}

/* The key is the name without its group: rpc_gets is gets there. */
static struct home home_in_group(json_t *doc, const char *name)
{
	size_t i = 0, len;

	while (strncmp(name, groups[i].begins, strlen(groups[i].begins)) != 0)
		i++;
	len = strlen(groups[i].group);
	if (strncmp(name, groups[i].group, len) == 0 && name[len] == '_')
		name += len + 1;
	return (struct home){ part(doc, groups[i].group, json_object), name };
}

/* Put @value into @doc, which owns it then. Returns 0 or -1: no memory, and @value is freed. */
static int place(json_t *doc, const char *name, json_t *value)
{
	struct home home = home_in_list(doc, name);

	if (!home.key)
		home = home_in_group(doc, name);
	return json_object_set_new(home.object, home.key, value);
}

json_t *stats_json(const struct stats_table *t)
{
	json_t *doc = json_object();

	for (size_t i = 0; doc && i < t->count; i++) {
		uint64_t value = t->values[i].value;
		/* JSON of this library has no larger integers */
		json_t *number = value <= INT64_MAX ? json_integer((json_int_t)value)
						    : json_real((double)value);

		if (place(doc, t->values[i].name, number)) {
			json_decref(doc);
			doc = NULL;
		}
	}
	return doc;
}

static int set_rate(json_t *object, const char *name, double rate)
{
	return place(object, name, rate < 0 ? json_null() : json_real(rate));
}

static int set_session(json_t *object, const struct stats_table *t, const struct stats_row *s)
{
	char name[STATS_NAME_MAX];
	int rc = 0;

	for (unsigned i = 0; i < 3 && rc == 0; i++) {
		if (s->field[i])
			rc = set_rate(object, s->field[i]->name, stats_rate_of(t, s->field[i]));
	}
	if (rc || !s->field[0] || !s->field[1])
		return rc;
	snprintf(name, sizeof(name), "session_%" PRIu64 "_reads_per_get", s->number);
	return set_rate(object, name, stats_ratio(s->field[1], s->field[0]));
}

json_t *stats_json_rates(const struct stats_table *t)
{
	static const char *const fields[] = { "gets", "reads", "retries", NULL };
	autofree struct stats_row *sessions = NULL;
	json_t *object = json_object();
	size_t count = 0;
	int rc = object ? stats_rows(t, "session_", fields, &sessions, &count) : -ENOMEM;

	for (size_t i = 0; i < t->count && rc == 0; i++) {
		if (is_counter(t->values[i].name))
			rc = set_rate(object, t->values[i].name, stats_rate_of(t, &t->values[i]));
	}
	if (rc == 0 && stats_find(t, "client_gets"))
		rc = set_rate(
			object, "client_reads_per_get",
			stats_ratio(stats_find(t, "client_reads"), stats_find(t, "client_gets")));
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = set_session(object, t, &sessions[i]);
	if (rc == 0)
		return object;
	json_decref(object);
	return NULL;
}
