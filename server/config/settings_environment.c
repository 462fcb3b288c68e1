/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The settings of the environment, and variables that are none. */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/nearest.h"
#include "server/config/settings_internal.h"

#define PREFIX	     "GRACEKV_"
#define PREFIX_LEN   (sizeof(PREFIX) - 1)
#define VARIABLE_MAX 64

/* A variable's name, of the setting @name. */
static const char *variable_of(const char *name, char out[VARIABLE_MAX])
{
	size_t n = PREFIX_LEN;

	strcpy(out, PREFIX);
	for (; *name && n + 1 < VARIABLE_MAX; name++)
		out[n++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
	out[n] = '\0';
	return out;
}

/* An empty variable is one that is not set, as for clients. */
static const char *value_of(const char *name)
{
	const char *text = getenv(name);

	return text && text[0] ? text : NULL;
}

int settings_from_environment(struct setting_values *v)
{
	const char *text = value_of(PREFIX "CONFIG");
	char name[VARIABLE_MAX];
	int rc = 0;

	if (text && !v->config_file)
		rc = settings_give_file(v, text);
	for (unsigned i = 0; i < SETTINGS_COUNT && rc == 0; i++) {
		text = value_of(variable_of(settings[i].name, name));
		if (text)
			rc = settings_give(v, i, text, name);
	}
	return rc;
}

/* Variables of clients, tests and mutants may stand in the same environment. */
static void check(const char *name)
{
	static const char *const others[] = { PREFIX "CONFIG", PREFIX "SERVER",
					      PREFIX "CHECK_THREADS", PREFIX "MUTANT" };
	struct nearest near = nearest_to(name + PREFIX_LEN);
	char own[SETTINGS_COUNT][VARIABLE_MAX];

	if (strncmp(name, PREFIX "TEST_", strlen(PREFIX "TEST_")) == 0)
		return;
	for (unsigned i = 0; i < SETTINGS_COUNT; i++)
		nearest_try(&near, variable_of(settings[i].name, own[i]) + PREFIX_LEN);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		nearest_try(&near, others[i] + PREFIX_LEN);
	if (!near.name)
		log_warn("config", "%s is ignored: kv-server has no such setting (see --help)",
			 name);
	else if (strcmp(near.name, name + PREFIX_LEN) != 0)
		log_warn("config",
			 "%s is ignored: kv-server has no such setting (did you mean " PREFIX
			 "%s?)",
			 name, near.name);
}

void settings_check_environment(void)
{
	for (char **entry = environ; *entry; entry++) {
		char name[VARIABLE_MAX];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
		if (strncmp(name, PREFIX, PREFIX_LEN) == 0)
			check(name);
	}
}
