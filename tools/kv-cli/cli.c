/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/kv-cli/shell.h"
#include "tools/kv-cli/text.h"

int cli_clock(const struct cli *cli, uint64_t *now_ms)
{
	int rc = gkv_clock(cli->handle, now_ms);

	return rc ? cli_call_failed(cli, rc, "reading the server's clock", NULL, 0) : 0;
}

int cli_key(const struct cli *cli, const char *operand, size_t *len)
{
	char shown[TEXT_KEY_MAX];

	*len = strlen(operand);
	if (*len == 0)
		return cli_error(CLI_USAGE, "%s: the key is empty (keys have 1 to %u bytes)",
				 cli->command->name, GKV_KEY_MAX);
	if (*len > GKV_KEY_MAX)
		return cli_error(CLI_USAGE, "%s %s: the key has %zu bytes (keys have 1 to %u)",
				 cli->command->name, text_key(shown, operand, *len), *len,
				 GKV_KEY_MAX);
	return 0;
}

static int write_errno; /* of the first write that failed */
bool cli_heeds_pipes;

/* Asked of the pipe: stdio may have lost the errno of the write that found it so. */
static bool pipe_broken(void)
{
	struct pollfd fd = { .fd = STDOUT_FILENO };

	return poll(&fd, 1, 0) == 1 && (fd.revents & POLLERR);
}

bool cli_pipe_closed(void)
{
	return cli_heeds_pipes && pipe_broken();
}

void cli_write(FILE *out, const void *data, size_t len)
{
	if (fwrite(data, 1, len, out) != len && !write_errno)
		write_errno = errno;
}

int cli_flush(FILE *out, const char *name)
{
	int bad = ferror(out);
	int flushed = fflush(out);

	if (!flushed && !bad)
		return 0;
	if (flushed && !write_errno)
		write_errno = errno;
	if (out == stdout && cli_pipe_closed())
		return CLI_FAILED;
	if (out == stdout && !write_errno && pipe_broken())
		write_errno = EPIPE;
	return cli_error(CLI_FAILED, "writing to %s: %s (what was written is cut off)", name,
			 write_errno ? error_name(write_errno) : "an earlier write failed");
}

static int print_json(json_t *document, size_t flags)
{
	int rc;

	if (!document)
		return cli_error(CLI_FAILED, "printing JSON: no memory");
	errno = 0;
	rc = json_dumpf(document, stdout, flags | JSON_REAL_PRECISION(9));
	json_decref(document);
	if (rc == 0)
		fputc('\n', stdout);
	else if (!ferror(stdout))
		return cli_error(CLI_FAILED, "printing JSON: no memory");
	return cli_flush(stdout, "stdout");
}

int cli_print_json(json_t *document)
{
	return print_json(document, JSON_INDENT(2));
}

int cli_print_json_line(json_t *document)
{
	return print_json(document, JSON_COMPACT);
}

int cli_stdin(const struct cli *cli, const char *operand, const char *instead)
{
	if (!cli->shell || strcmp(operand, "-") != 0)
		return 0;
	return cli_error(CLI_USAGE, "%s -: stdin is where the commands come from (%s)",
			 cli->command->name, instead);
}

int cli_connect(struct cli *cli)
{
	char text[ERROR_TEXT_MAX] = "";
	int rc;

	if (cli->shell) {
		rc = cli->shell->handle ? 0 : cli_connect(cli->shell);
		cli->session = cli->shell->session;
		cli->handle = cli->shell->handle;
		return rc;
	}
	rc = gkv_session_open(&cli->options, &cli->session, text, sizeof(text));
	if (rc)
		return text[0] ? cli_error(CLI_FAILED, "%s", text)
			       : cli_error(CLI_FAILED, "connecting to %s: %s", cli->server,
					   gkv_strerror(rc));
	if (cli->verbose)
		fprintf(stderr, "kv-cli: %s\n", gkv_session_describe(cli->session));
	rc = gkv_open(cli->session, NULL, &cli->handle, text, sizeof(text));
	if (rc)
		return cli_error(CLI_FAILED, "opening a handle: %s", text);
	return 0;
}

static _Atomic int cli_stop;

static bool cli_echoed; /* the terminal shows ^C, and stays behind it */

static void cli_on_signal(int number)
{
	if (number == SIGINT && cli_echoed && write(STDERR_FILENO, "\n", 1) != 1)
		cli_echoed = false;
	/* relaxed: a flag that stands for nothing else; lock-free, so a handler may store it */
	atomic_store_explicit(&cli_stop, number, memory_order_relaxed);
}

static bool cli_watching;
static struct sigaction cli_before[2]; /* of SIGINT and SIGTERM */

void cli_watch_signals(void)
{
	/* once: a second signal ends the program whatever it waits for */
	struct sigaction action = { .sa_handler = cli_on_signal,
				    .sa_flags = SA_RESTART | (int)SA_RESETHAND };

	cli_echoed = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	sigaction(SIGINT, &action, cli_watching ? NULL : &cli_before[0]);
	sigaction(SIGTERM, &action, cli_watching ? NULL : &cli_before[1]);
	cli_watching = true;
}

void cli_unwatch_signals(void)
{
	if (!cli_watching)
		return;
	sigaction(SIGINT, &cli_before[0], NULL);
	sigaction(SIGTERM, &cli_before[1], NULL);
	cli_watching = false;
	atomic_store_explicit(&cli_stop, 0, memory_order_relaxed); /* as in cli_on_signal() */
}

int cli_stopped(void)
{
	return atomic_load_explicit(&cli_stop, memory_order_relaxed); /* as in cli_on_signal() */
}

int cli_dispatch(struct cli *cli)
{
	if (cli->version || cli->help) {
		if (cli->version)
			cli_version(stdout);
		else
			cli_help(cli->command, stdout);
		return cli_flush(stdout, "stdout");
	}
	return cli->command ? cli->command->run(cli) : shell_run(cli);
}

void cli_end(struct cli *cli)
{
	if (!cli->shell || cli->session != cli->shell->session) {
		gkv_close(cli->handle);
		gkv_session_close(cli->session);
	}
	free(cli->operands);
}

int cli_run(int argc, char **argv)
{
	struct cli cli;
	int code = cli_parse(&cli, argc, argv);

	if (code == 0)
		code = cli_dispatch(&cli);
	cli_end(&cli);
	return code;
}
