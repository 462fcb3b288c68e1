/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* kv-cluster: the command line. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tools/kv-cluster/cluster.h"
#include "tools/lib/option_rows.h"

static struct {
	const char *server, *group, *confirm;
	uint64_t timeout_ms, interval_ms;
	bool yes, stopped, json;
	struct program_words words;
} given = { .group = "", .interval_ms = 1000 };

#define OPTION_BASE given

static const struct program_option options[] = {
	TEXT("server", 's', "HOST:PORT,...", server,
	     "servers of the group, any of them ($GRACEKV_SERVER, else 127.0.0.1:7471); the others "
	     "are found by what it says"),
	TEXT("group", 'g', "NAME", group, "refuse servers of any other group"),
	NUMBER("timeout", 0, "MS", timeout_ms, 1, 3600000,
	       "for a server to answer [1000], or a change to be done [15000]"),
	NUMBER("interval", 'n', "MS", interval_ms, 10, 3600000, "watch: between two looks [1000]"),
	FLAG("yes", 'y', yes, "remove: also where one server is left that has all records"),
	TEXT("confirm", 0, "GROUP", confirm, "force: the group's name, typed"),
	FLAG("stopped", 0, stopped, "force: the group's other members are stopped"),
	OPTION_JSON(json),
	{ NULL },
};

static const struct program program = {
	.name = "kv-cluster",
	.usage =
		"Usage: kv-cluster [OPTIONS] COMMAND [NODE]\n\n"
		"Look at a group of servers that are one store, and change it.\n\n"
		"Commands:\n"
		"  status         who is primary, who is in sync, how far the others are; exit 1: no\n"
		"                 primary answers clients\n"
		"  watch          the same, then a line for each change, until it is interrupted\n"
		"  switch [NODE]  the primary gives way to NODE, or to the backup that has most;\n"
		"                 clients follow, and wait meanwhile\n"
		"  remove NODE    take a backup out; it ends, and comes back if you start it\n"
		"  force NODE     all other members are gone for good: NODE goes on with what it has\n\n"
		"Options:\n",
	.notes = "\nExit: 0 good, 1 no, 2 wrong usage, 3 failed.\n\n"
		 "Example:\n  kv-cluster status\n  kv-cluster switch b\n",
	.options = options,
	.words = &given.words,
};

static const struct {
	const char *name;
	int operands_min, operands_max;
	int (*run)(const struct cluster *c);
} commands[] = {
	{ "status", 0, 0, cmd_status }, { "watch", 0, 0, cmd_watch },
	{ "switch", 0, 1, cmd_switch }, { "remove", 1, 1, cmd_remove },
	{ "force", 1, 1, cmd_force },
};

static int wrong(const char *what)
{
	return program_usage(&program, what);
}

static int run(const struct cluster *c)
{
	const char *name = given.words.count ? given.words.word[0] : NULL;
	const int operands = given.words.count - 1;
	char why[160];

	if (!name)
		return wrong("a command is wanted: status, watch, switch, remove or force");
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (operands >= commands[i].operands_min && operands <= commands[i].operands_max)
			return commands[i].run(c);
		snprintf(why, sizeof(why), "%s: %s (see --help)", name,
			 operands < commands[i].operands_min ? "which NODE?" : "too many words");
		return wrong(why);
	}
	snprintf(why, sizeof(why), "'%.40s' is no command: status, watch, switch, remove or force",
		 name);
	return wrong(why);
}

int main(int argc, char **argv)
{
	const char *environment = getenv("GRACEKV_SERVER");
	struct cluster c = { .program = &program };
	int status;

	if (program_options(&program, argc, argv, &status))
		return status;
	log_setup("kv-cluster", LOG_WARN, LOG_TEXT);
	signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write(), with a sentence */
	c.servers = given.server		    ? given.server
		    : environment && environment[0] ? environment
						    : "127.0.0.1:7471";
	c.group = given.group;
	c.timeout_ms = given.timeout_ms;
	c.interval_ms = given.interval_ms;
	c.node = given.words.count > 1 ? given.words.word[1] : "";
	c.confirm = given.confirm;
	c.yes = given.yes;
	c.stopped = given.stopped;
	c.json = given.json;
	return program_end(&program, run(&c));
}
