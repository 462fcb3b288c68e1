/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/stats_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"

/* Values that only grow while a server runs; and those whose names begin like that. */
static const char *const counters[] = {
	"pulled_bytes",	 "pushed_bytes",     "records_expired", "index_splits",
	"index_merges",	 "index_doublings",  "index_halvings",	"blocks_retired",
	"blocks_freed",	 "grace_periods",    "worker_wakeups",	"deferred_refused",
	"receives_lost", "queue_pairs_lost",
};

static const char *const counter_prefixes[] = { "rpc_", "client_", "connections_",
						"sessions_resumed", "sessions_fenced_" };

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

json_t *stats_json(const struct stats_table *t)
{
	json_t *object = json_object();

	for (size_t i = 0; object && i < t->count; i++) {
		uint64_t value = t->values[i].value;
		/* JSON of this library has no larger integers */
		json_t *number = value <= INT64_MAX ? json_integer((json_int_t)value)
						    : json_real((double)value);

		if (json_object_set_new(object, t->values[i].name, number)) {
			json_decref(object);
			object = NULL;
		}
	}
	return object;
}

static int set_rate(json_t *object, const char *name, double rate)
{
	return json_object_set_new(object, name, rate < 0 ? json_null() : json_real(rate));
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
			object, "reads_per_get",
			stats_ratio(stats_find(t, "client_reads"), stats_find(t, "client_gets")));
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = set_session(object, t, &sessions[i]);
	if (rc == 0)
		return object;
	json_decref(object);
	return NULL;
}
