/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/prompt.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "tools/kv-cli/caught.h"
#include "tools/kv-cli/history.h"
#include "tools/kv-cli/shell.h"

struct prompt {
	EditLine *edit;
	History *history;
	char text[320]; /* "HOST:PORT> " */
	struct caught caught; /* while a line is awaited */
	char *line; /* what prompt_read() returned last */
	mbstate_t half; /* of a character whose bytes have not all come */
};

/* Handled while a line is awaited: blocked but in ppoll(), so that none comes unseen. */
static const int prompt_signals[] = {
	SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT
};

#define PROMPT_SIGNALS (sizeof(prompt_signals) / sizeof(prompt_signals[0]))

FILE *prompt_screen(void)
{
	return isatty(STDOUT_FILENO) ? stdout : stderr;
}

static char *prompt_text(EditLine *edit)
{
	struct prompt *p;

	el_get(edit, EL_CLIENTDATA, &p);
	return p->text;
}

/* The terminal is the shell's while we are stopped, and of any shape when we go on. */
static void stop_and_go_on(EditLine *edit)
{
	el_set(edit, EL_PREP_TERM, 0);
	raise(SIGSTOP);
}

static void look_at_signals(EditLine *edit)
{
	if (caught_take(SIGTSTP))
		stop_and_go_on(edit);
	if (caught_take(SIGWINCH))
		el_resize(edit);
	if (caught_take(SIGCONT)) {
		el_set(edit, EL_PREP_TERM, 0);
		el_set(edit, EL_PREP_TERM, 1);
		el_set(edit, EL_REFRESH);
	}
}

/* Returns 1 and a byte, 0 at the end, -1 where a signal ends the wait. */
static int next_byte(EditLine *edit, const struct prompt *p, char *byte)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	for (;;) {
		ssize_t n;

		if (ppoll(&input, 1, NULL, &p->caught.outside) < 0 && errno != EINTR)
			return -1;
		look_at_signals(edit);
		if (caught_any(&p->caught)) /* one that look_at_signals() has left */
			return -1;
		if (!input.revents)
			continue;
		n = read(STDIN_FILENO, byte, 1);
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return n > 0 ? 1 : 0; /* a terminal that is gone is the end */
	}
}

/* libedit's way to a character. */
static int next_character(EditLine *edit, wchar_t *character)
{
	struct prompt *p;

	el_get(edit, EL_CLIENTDATA, &p);
	for (;;) {
		char byte;
		int rc = next_byte(edit, p, &byte);
		size_t n;

		if (rc <= 0)
			return rc;
		n = mbrtowc(character, &byte, 1, &p->half);
		if (n == (size_t)-1)
			memset(&p->half, 0, sizeof(p->half)); /* no character: dropped */
		else if (n != (size_t)-2)
			return 1;
	}
}

/* Names that begin with @len bytes at @text, one each call; @i begins at 0. */
static const char *next_name(const char *text, size_t len, size_t *i)
{
	size_t commands = 0;
	const char *name;

	while (cli_commands[commands].name)
		commands++;
	for (;;) {
		name = *i < commands ? cli_commands[*i].name : shell_builtins[*i - commands];
		if (!name)
			return NULL;
		(*i)++;
		if (strncmp(name, text, len) == 0)
			return name;
	}
}

/* Is it the place of a command's name: the first word, or the one after help? */
static bool at_name(const char *line, const char *word)
{
	while (line < word && *line == ' ')
		line++;
	if (strncmp(line, "help ", 5) == 0) {
		line += 5;
		while (line < word && *line == ' ')
			line++;
	}
	return line == word;
}

static void print_names(const char *text, size_t len)
{
	const char *name;
	size_t i = 0;

	fputc('\n', prompt_screen());
	while ((name = next_name(text, len, &i)))
		fprintf(prompt_screen(), "%s  ", name);
	fputc('\n', prompt_screen());
	fflush(prompt_screen());
}

/* Tab: what all names that fit have in common, or else a list of them. */
static unsigned char complete(EditLine *edit, int key)
{
	const LineInfo *line = el_line(edit);
	const char *word = line->cursor, *name, *first = NULL;
	size_t len, common = 0, i = 0, found = 0;
	char rest[64];

	while (word > line->buffer && word[-1] != ' ')
		word--;
	if (!at_name(line->buffer, word))
		return CC_ERROR;
	len = (size_t)(line->cursor - word);
	while ((name = next_name(word, len, &i))) {
		if (found++ == 0) {
			first = name;
			common = strlen(name);
		}
		while (strncmp(first, name, common) != 0)
			common--;
	}
	if (!found)
		return CC_ERROR;
	if (found > 1 && common == len) {
		print_names(word, len);
		return CC_REDISPLAY;
	}
	snprintf(rest, sizeof(rest), "%.*s%s", (int)(common - len), first + len,
		 found == 1 ? " " : "");
	return el_insertstr(edit, rest) ? CC_ERROR : CC_REFRESH;
}

/* Text is UTF-8 on any terminal of today, also where the locale does not say so. */
static void use_utf8(void)
{
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

int prompt_open(struct prompt **out, const char *name)
{
	struct prompt *p = calloc(1, sizeof(*p));
	HistEvent event;

	if (!p)
		return -ENOMEM;
	use_utf8();
	snprintf(p->text, sizeof(p->text), "%s> ", name);
	p->history = history_init();
	p->edit = el_init("kv-cli", stdin, prompt_screen(), stderr);
	if (!p->history || !p->edit) {
		prompt_close(p);
		return -ENOMEM;
	}
	history(p->history, &event, H_SETSIZE, (int)HISTORY_LINES);
	history(p->history, &event, H_SETUNIQUE, 1);
	el_set(p->edit, EL_CLIENTDATA, p);
	el_set(p->edit, EL_PROMPT, prompt_text);
	el_set(p->edit, EL_GETCFN, next_character);
	el_set(p->edit, EL_HIST, history, p->history);
	el_set(p->edit, EL_EDITOR, "emacs");
	/* wide, as el_set() would make copies that nobody frees */
	el_wset(p->edit, EL_ADDFN, L"kv-complete", L"Complete the name of a command", complete);
	el_set(p->edit, EL_BIND, "^I", "kv-complete", NULL);
	el_set(p->edit, EL_BIND, "^W", "ed-delete-prev-word", NULL);
	el_source(p->edit, NULL);
	*out = p;
	return 0;
}

/* What the wait for a line ended with: el_gets() tells no reason. */
static int why_ended(struct prompt *p)
{
	static const int deadly[] = { SIGTERM, SIGHUP, SIGQUIT };
	bool interrupted = caught_take(SIGINT);

	fputs(interrupted ? "^C\n" : "\n", prompt_screen());
	fflush(prompt_screen());
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++) {
		if (caught_take(deadly[i]))
			return -deadly[i];
	}
	return interrupted ? -EINTR : 0;
}

int prompt_read(struct prompt *p, const char **line, size_t *len)
{
	const char *text;
	int count = 0, rc = 1;

	caught_begin(&p->caught, prompt_signals, PROMPT_SIGNALS, 0);
	/* before the prompt is seen: what is typed then is read as keys, ^D and ^C too */
	el_set(p->edit, EL_PREP_TERM, 1);
	text = el_gets(p->edit, &count);
	if (!text || count <= 0 || caught_any(&p->caught))
		rc = why_ended(p);
	caught_end(&p->caught);
	if (rc != 1)
		return rc;
	free(p->line);
	*len = strcspn(text, "\n");
	*line = p->line = strndup(text, *len);
	return p->line ? 1 : -EINTR;
}

void prompt_remember(void *arg, const char *line)
{
	struct prompt *p = arg;
	HistEvent event;

	if (line[0] && line[0] != ' ')
		history(p->history, &event, H_ENTER, line);
}

void prompt_close(struct prompt *p)
{
	if (p->edit)
		el_end(p->edit);
	if (p->history)
		history_end(p->history);
	free(p->line);
	free(p);
}
