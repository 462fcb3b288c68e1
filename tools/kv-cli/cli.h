/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * What the commands of kv-cli share: the parsed command line, the connection, errors in one line.
 * One thread.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/include/gracekv.h"
#include "common/base/error.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1, /* the answer is no: not found, a comparison failed, bad records skipped */
	CLI_USAGE = 2,
	CLI_FAILED = 3,
};

struct cli;

/* Options of commands, for struct command.allowed. */
enum cli_option {
	CLI_META = 1 << 0,
	CLI_FORMAT = 1 << 1,
	CLI_VERIFY = 1 << 2,
	CLI_SKIP_BAD = 1 << 3,
	CLI_OUTPUT = 1 << 4,
	CLI_COUNT = 1 << 5,
	CLI_TTL = 1 << 6,
	CLI_IF_ABSENT = 1 << 7,
	CLI_IF_VERSION = 1 << 8,
	CLI_WATCH = 1 << 9,
	CLI_INTERVAL = 1 << 10,
	CLI_PREFIX = 1 << 11,
	CLI_KEEP_TTL = 1 << 12,
	CLI_ADDRESS = 1 << 13,
	CLI_NO_WAIT = 1 << 14,
};

struct command {
	const char *name;
	const char *usage; /* the operands and options, as --help shows them */
	const char *summary; /* one line */
	const char *details; /* lines for --help of the command, or "" */
	const char *example;
	unsigned allowed; /* enum cli_option */
	int operands_min, operands_max; /* -1: no limit */
	bool negative; /* an operand like -5 is a number, no option */
	int (*run)(struct cli *cli); /* returns enum cli_exit */
};

struct cli {
	struct gkv_options options;
	char server[1024]; /* "HOST:PORT,..." in full, for options.server and for messages */
	bool server_given; /* by --server, not by the environment */
	bool json, verbose, help, version;
	unsigned given; /* enum cli_option */
	const char *format, *output, *prefix, *address;
	uint64_t count, ttl_ms, if_version, interval_ms;
	const struct command *command; /* NULL: none was given */
	const char **operands; /* without the command */
	int operand_count;
	int literal_from; /* operands from this one on stood after "--" */
	struct gkv_session *session; /* NULL until cli_connect() */
	struct gkv *handle;
	struct cli *shell; /* this is a line of it, and uses its connection; NULL: no line */
};

/* cli_parse - fills @cli. Returns 0, or CLI_USAGE after it printed why. */
int cli_parse(struct cli *cli, int argc, char **argv);

/*
 * cli_parse_line - the same for a line of @shell, which goes on with its connection and options.
 * @argv[0] is not looked at.
 */
int cli_parse_line(struct cli *cli, struct cli *shell, int argc, char **argv);

/* cli_find - a command by its name, in any case; or NULL. */
const struct command *cli_find(const char *name);

/*
 * cli_command_of - the same, with an error where there is none, which says what was meant, perhaps,
 * and that @list lists the commands. Returns 0 or CLI_USAGE.
 */
int cli_command_of(const char *word, const char *list, const struct command **command);

/*
 * cli_server - take "HOST[:PORT]" as the server. @what: names it in the sentence.
 * Returns 0, or CLI_USAGE after it printed why.
 */
int cli_server(struct cli *cli, const char *what, const char *text);

/* cli_run - the whole program but for the state of its descriptors. Returns enum cli_exit. */
int cli_run(int argc, char **argv);

/* cli_dispatch - the command, or what --help or --version print. Returns enum cli_exit. */
int cli_dispatch(struct cli *cli);

/* cli_end - close what was opened, free what was parsed. */
void cli_end(struct cli *cli);

/*
 * cli_connect - open session and handle; a line has those of its shell, which are opened once.
 * Returns 0, or CLI_FAILED after it printed why.
 */
int cli_connect(struct cli *cli);

/* cli_at_line - errors say from now on that they are of this line of a script; 0: of none. */
void cli_at_line(uint64_t number);

/*
 * cli_error - print "kv-cli: <text>" on one line to stderr and return @exit_code. The text is
 * "what failed: why (what to do)": tools/lib/failure.h.
 */
int cli_error(int exit_code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * cli_call_failed - the same for a call of the library: "<what>[ KEY]: <why>".
 * @key may be NULL. Returns CLI_FAILED.
 */
int cli_call_failed(const struct cli *cli, int rc, const char *what, const void *key,
		    size_t key_len);

/*
 * cli_clock - the server's wall clock, ms since 1970. What a view shows is gone after it.
 * Returns 0, or CLI_FAILED after it printed why.
 */
int cli_clock(const struct cli *cli, uint64_t *now_ms);

/* cli_key - the operand as a key. Returns 0, or CLI_USAGE after it printed why. */
int cli_key(const struct cli *cli, const char *operand, size_t *len);

/*
 * cli_stdin - may the operand "-" stand for stdin? Not where the commands come from there.
 * @instead: what to do then. Returns 0, or CLI_USAGE after it printed why.
 */
int cli_stdin(const struct cli *cli, const char *operand, const char *instead);

/* cli_write - bytes; a failure is kept for cli_flush(). */
void cli_write(FILE *out, const void *data, size_t len);

/*
 * cli_pipe_closed - stdout is a pipe that nobody reads any more, as behind head(1). That is no
 * error to tell of: main() ends kv-cli by SIGPIPE then, as it ends cat(1). False where the caller
 * ignores SIGPIPE (cli_heeds_pipes): then it is an error as any other.
 */
bool cli_pipe_closed(void);
extern bool cli_heeds_pipes;

/* cli_flush - push out what was written. Returns 0, or CLI_FAILED after it printed why, or where
 * the pipe is closed. */
int cli_flush(FILE *out, const char *name);

/* cli_print_json - print a document to stdout and drop it. Returns 0 or CLI_FAILED. */
int cli_print_json(json_t *document);

/* cli_print_json_line - the same on one line, for one document after the other. */
int cli_print_json_line(json_t *document);

/* cli_watch_signals - SIGINT and SIGTERM only set what cli_stopped() returns, once each. */
void cli_watch_signals(void);

/* cli_unwatch_signals - they do again what they did before, and cli_stopped() starts over. */
void cli_unwatch_signals(void);

/* cli_stopped - the number of the signal that came, or 0. */
int cli_stopped(void);

/* The commands. */
extern const struct command cli_commands[]; /* ends with a NULL name */

/* cli_help - general, or of one command. */
void cli_help(const struct command *command, FILE *out);
/* cli_help_lines - of the commands that lines of a prompt or script may have. */
void cli_help_lines(FILE *out);
void cli_version(FILE *out);

int cli_get(struct cli *cli);
int cli_put(struct cli *cli);
int cli_cas(struct cli *cli);
int cli_append(struct cli *cli);
int cli_del(struct cli *cli);
int cli_getdel(struct cli *cli);
int cli_incr(struct cli *cli);
int cli_ttl(struct cli *cli);
int cli_touch(struct cli *cli);
int cli_exists(struct cli *cli);
int cli_mget(struct cli *cli);
int cli_load(struct cli *cli);
int cli_verify(struct cli *cli);
int cli_dump(struct cli *cli);
int cli_keys(struct cli *cli);
int cli_count(struct cli *cli);
int cli_stats(struct cli *cli);
int cli_watch(struct cli *cli); /* stats --watch */
int cli_ping(struct cli *cli);
int cli_save(struct cli *cli);
int cli_doctor(struct cli *cli);
int cli_help_command(struct cli *cli);
