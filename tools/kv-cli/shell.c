/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/shell.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/kv-cli/history.h"
#include "tools/kv-cli/line_reader.h"
#include "tools/kv-cli/prompt.h"
#include "tools/kv-cli/words.h"
#include "tools/lib/failure.h"

#define SHELL_QUIT (-1) /* no exit code: the line was quit or exit */

const char *const shell_builtins[] = { "quit", "exit", NULL };

static int shell_command(struct cli *shell, int argc, char **argv)
{
	struct cli line;
	int code;

	if (strcasecmp(argv[1], "quit") == 0 || strcasecmp(argv[1], "exit") == 0)
		return argc == 2 ? SHELL_QUIT
				 : cli_error(CLI_USAGE, "%s: takes no words (usage: %s)", argv[1],
					     argv[1]);
	code = cli_parse_line(&line, shell, argc, argv);
	if (code == 0)
		code = cli_dispatch(&line);
	cli_end(&line);
	failure_as_json(shell->json);
	return code;
}

/* Returns enum cli_exit or SHELL_QUIT. */
static int shell_line(struct cli *shell, const char *text, size_t len)
{
	struct words w;
	struct error err;
	int rc, code = CLI_OK;

	if (len > SHELL_LINE_MAX)
		return cli_error(CLI_USAGE,
				 "the line has more than %u bytes (load and put KEY - take long "
				 "values)",
				 SHELL_LINE_MAX);
	rc = words_split(&w, text, len, &err);
	if (rc)
		return cli_error(rc == -ENOMEM ? CLI_FAILED : CLI_USAGE, "%s", err.text);
	if (w.count > 1)
		code = shell_command(shell, w.count, w.word);
	words_free(&w);
	return code;
}

/* End as others do whom this signal ends. */
static void shell_die(int number)
{
	fflush(stdout);
	cli_unwatch_signals();
	raise(number);
}

/* Lines of stdin, until one fails; that an answer is no does not end it. */
static int shell_script(struct cli *shell)
{
	struct line_reader reader;
	struct line line;
	int rc, code = CLI_OK;

	if (line_reader_init(&reader, STDIN_FILENO, SHELL_LINE_MAX))
		return cli_error(CLI_FAILED, "reading commands: no memory");
	while (code <= CLI_NO && (rc = line_reader_next(&reader, &line)) != 0) {
		int one, number;

		cli_at_line(reader.number);
		if (rc < 0 && rc != -E2BIG)
			one = cli_error(CLI_FAILED, "reading commands: %s", error_name(rc));
		else
			one = shell_line(shell, rc < 0 ? "" : line.text,
					 rc < 0 ? SHELL_LINE_MAX + 1 : line.len);
		number = cli_stopped();
		if (number)
			shell_die(number);
		cli_unwatch_signals(); /* a command may have watched them */
		if (one == SHELL_QUIT)
			break;
		code = one > code ? one : code;
	}
	cli_at_line(0);
	line_reader_free(&reader);
	return code;
}

/* Say that the lines of this session are the last ones to know of them. */
static void shell_history(struct history_file *file, struct prompt *p)
{
	struct error err;

	if (history_open(file, prompt_remember, p, &err))
		cli_error(0, "%s; lines are kept until the end of this session", err.text);
}

/* The lines of one person. Returns 0, or the signal that ended it. */
static int shell_prompt_lines(struct cli *shell, struct prompt *p, struct history_file *file)
{
	const char *line;
	size_t len;
	int rc, number, code = CLI_OK;

	while (code != SHELL_QUIT && (rc = prompt_read(p, &line, &len)) != 0) {
		if (rc == -EINTR) /* ^C */
			continue;
		if (rc < 0)
			return -rc;
		if (len < SHELL_LINE_MAX) {
			prompt_remember(p, line);
			history_keep(file, line);
		}
		cli_watch_signals(); /* one ^C is the command's, a second one ends kv-cli */
		code = shell_line(shell, line, len);
		number = cli_stopped();
		cli_unwatch_signals();
		if (number == SIGTERM)
			return number;
		if (cli_pipe_closed())
			break;
	}
	return 0;
}

static int shell_prompt(struct cli *shell)
{
	struct history_file file;
	struct prompt *p;
	int number;

	if (cli_connect(shell))
		return CLI_FAILED;
	if (prompt_open(&p, shell->server))
		return cli_error(CLI_FAILED, "starting the prompt: no memory");
	fprintf(prompt_screen(), "Connected to %s. help lists the commands, ^D ends.\n",
		shell->server);
	shell_history(&file, p);
	number = shell_prompt_lines(shell, p, &file);
	history_close(&file);
	prompt_close(p);
	if (number)
		shell_die(number);
	return CLI_OK;
}

int shell_run(struct cli *cli)
{
	/* libedit wants a terminal to write to as well */
	bool seen = isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);

	return seen && isatty(STDIN_FILENO) ? shell_prompt(cli) : shell_script(cli);
}
