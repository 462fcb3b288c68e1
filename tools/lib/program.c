/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/program.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/descriptors.h"
#include "common/base/nearest.h"
#include "common/base/parse.h"
#include "common/layout/version.h"
#include "tools/lib/failure.h"

#define JSON_SCHEMA  1
#define HELP_INDENT  30 /* where the words of an option begin */
#define HELP_COLUMNS 96
#define LONG_ONLY    256 /* what getopt_long() returns for options without a letter: from here on */

int program_told(const struct program *p, int status, const char *what, const char *why)
{
	const struct failure f = { .program = p->name, .code = status };

	if (strncmp(why, what, strlen(what)) == 0) /* "connecting to HOST failed: ..." */
		failure_print(&f, "%s", why);
	else
		failure_print(&f, "%s: %s", what, why);
	return status;
}

int program_failed(const struct program *p, const char *what, const char *why)
{
	return program_told(p, 3, what, why);
}

int program_usage(const struct program *p, const char *why)
{
	return program_told(p, 2, "usage", why);
}

int program_end(const struct program *p, int status)
{
	int cut = ferror(stdout), code = 0;

	if (fflush(stdout))
		code = errno;
	if (!cut && !code)
		return status;
	return program_failed(p, "writing to stdout",
			      code ? error_name(code) : "what was printed is cut off");
}

/* Whether @text is one of @words, which stand between bars. */
static bool one_of(const char *words, const char *text)
{
	size_t len = strlen(text);

	for (const char *w = words; w; w = strchr(w, '|')) {
		w += *w == '|';
		if (len && strcspn(w, "|") == len && strncmp(w, text, len) == 0)
			return true;
	}
	return false;
}

static int append(char list[PROGRAM_LIST_MAX], const char *flag, const char *text,
		  struct error *err)
{
	size_t len = strlen(list);

	if (len + strlen(text) + 2 > PROGRAM_LIST_MAX)
		return error_set(err, -E2BIG, "%s: the list is too long", flag);
	snprintf(list + len, PROGRAM_LIST_MAX - len, "%s%s", len ? "," : "", text);
	return 0;
}

static int take(const struct program_option *o, const char *text, struct error *err)
{
	char flag[40];
	uint64_t size;
	int rc;

	snprintf(flag, sizeof(flag), "--%s", o->name);
	switch (o->kind) {
	case PROGRAM_FLAG:
		*(bool *)o->value = true;
		if (strcmp(o->name, "json") == 0)
			failure_as_json(true);
		return 0;
	case PROGRAM_NUMBER:
		return parse_u64(flag, text, o->min, o->max, o->value, err);
	case PROGRAM_SIZE:
		rc = parse_size(flag, text, &size, err);
		if (rc == 0 && (size < o->min || size > o->max))
			rc = error_set(err, -ERANGE,
				       "%s: %s is out of range (give %" PRIu64 " to %" PRIu64
				       " bytes)",
				       flag, text, o->min, o->max);
		if (rc == 0)
			*(uint64_t *)o->value = size;
		return rc;
	case PROGRAM_CHOICE:
		if (!one_of(o->words, text))
			return error_set(err, -EINVAL, "%s is one of %s, not %.40s", flag, o->words,
					 text);
		/* fall through */
	case PROGRAM_TEXT:
		*(const char **)o->value = text;
		return 0;
	case PROGRAM_LIST:
		return append(o->value, flag, text, err);
	}
	return -EINVAL;
}

/* @text between words, from column @indent on. */
static void help_words(const char *text, unsigned indent)
{
	unsigned at = indent;

	while (*text) {
		unsigned len = (unsigned)strcspn(text, " ");
		bool first = at == indent;

		if (!first && at + 1 + len > HELP_COLUMNS) {
			printf("\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		printf("%s%.*s", first ? "" : " ", (int)len, text);
		at += len + !first;
		text += len + (text[len] == ' ');
	}
	putchar('\n');
}

static void help_row(const struct program_option *o)
{
	char letter[8] = "    ";
	int at;

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	at = printf("  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
		    o->argument ? o->argument : "");
	printf("%*s", at < HELP_INDENT ? HELP_INDENT - at : 1, "");
	help_words(o->help, at < HELP_INDENT ? HELP_INDENT : (unsigned)at + 1);
}

static void print_help(const struct program *p)
{
	static const struct program_option both[] = {
		{ .name = "help", .letter = 'h', .help = "this text" },
		{ .name = "version", .letter = 'V', .help = "versions" },
	};

	printf("%s%s", p->usage, p->about ? p->about : "");
	for (const struct program_option *o = p->options; o->name; o++)
		help_row(o);
	help_row(&both[0]);
	help_row(&both[1]);
	printf("%s%s", p->notes ? p->notes : "", p->examples ? p->examples : "");
}

/* @letter: '?', or ':' of an option without its value. */
static int unknown(const struct program *p, int letter, const char *word, struct error *err)
{
	const char *alone = (const char[]){ '-', (char)optopt, 0 }; /* of a cluster of letters */
	struct nearest near = { 0 };
	char spelt[64];

	if (optopt > 0 && optopt < LONG_ONLY)
		word = alone;
	if (letter == ':')
		return error_set(err, -EINVAL, "%.80s wants a value (see %s --help)", word,
				 p->name);
	if (word != alone) {
		snprintf(spelt, sizeof(spelt), "%.*s", (int)strcspn(word, "="), word);
		near = nearest_to(spelt + strspn(spelt, "-"));
		for (const struct program_option *o = p->options; o->name; o++)
			nearest_try(&near, o->name);
	}
	if (near.name)
		return error_set(err, -EINVAL,
				 "%.80s is no option (did you mean --%s? See %s --help)", word,
				 near.name, p->name);
	return error_set(err, -EINVAL, "%.80s is no option (see %s --help)", word, p->name);
}

/* For getopt_long(): @letters has 2 * PROGRAM_OPTIONS_MAX + 3 bytes. */
static void for_getopt(const struct program_option *options, struct option *out, char *letters)
{
	unsigned n = 0;

	for (; options[n].name; n++) {
		int argument = options[n].kind == PROGRAM_FLAG ? no_argument : required_argument;

		assert(n < PROGRAM_OPTIONS_MAX);
		out[n] = (struct option){ options[n].name, argument, NULL, (int)(LONG_ONLY + n) };
		if (!options[n].letter)
			continue;
		out[n].val = options[n].letter;
		*letters++ = options[n].letter;
		if (argument == required_argument)
			*letters++ = ':';
	}
	out[n++] = (struct option){ "help", no_argument, NULL, 'h' };
	out[n++] = (struct option){ "version", no_argument, NULL, 'V' };
	out[n] = (struct option){ 0 };
	strcpy(letters, "hV");
}

/* Returns 0; 1: exit with *status; a negative errno with @err. */
static int option(const struct program *p, int letter, int *status, struct error *err)
{
	if (letter == 'h')
		print_help(p);
	else if (letter == 'V')
		version_print(stdout, p->name, GRACEKV_VERSION);
	*status = 0;
	if (letter == 'h' || letter == 'V')
		return 1;
	if (letter >= LONG_ONLY)
		return take(&p->options[letter - LONG_ONLY], optarg, err);
	for (const struct program_option *o = p->options; o->name; o++) {
		if (o->letter == letter)
			return take(o, optarg, err);
	}
	return -EINVAL;
}

/* 0: none. */
static char json_letter(const struct program *p)
{
	const struct program_option *o = p->options;

	while (o->name && strcmp(o->name, "json") != 0)
		o++;
	return o->letter;
}

int program_options(const struct program *p, int argc, char **argv, int *status)
{
	struct option options[PROGRAM_OPTIONS_MAX + 3];
	char letters[2 * PROGRAM_OPTIONS_MAX + 4];
	struct error err = { 0 };
	int c, rc = 0;

	if (descriptors_fill()) {
		*status = 3;
		return -1;
	}
	failure_as_json(failure_json_given(argc, argv, json_letter(p)));
	letters[0] = ':'; /* an option without its value is told from one that is unknown */
	for_getopt(p->options, options, letters + 1);
	opterr = 0;
	while (rc == 0 && (c = getopt_long(argc, argv, letters, options, NULL)) != -1)
		rc = c == '?' || c == ':' ? unknown(p, c, argv[optind - 1], &err)
					  : option(p, c, status, &err);
	if (rc > 0) {
		*status = program_end(p, *status);
		return -1;
	}
	if (rc == 0 && p->words) {
		*p->words = (struct program_words){ argv + optind, argc - optind };
		return 0;
	}
	if (rc == 0 && p->operand && optind + 1 == argc)
		*p->operand = argv[optind++];
	if (rc == 0 && optind == argc && (!p->operand || *p->operand))
		return 0;
	*status = program_usage(
		p, rc ? err.text
		   : p->operand
			   ? "one argument is taken, HOST:PORT, or $GRACEKV_SERVER (see --help)"
			   : "no arguments are taken (see --help)");
	return -1;
}

json_t *program_json(const struct program *p)
{
	return json_pack("{s:s, s:i, s:s}", "tool", p->name, "schema", JSON_SCHEMA, "version",
			 GRACEKV_VERSION);
}

json_t *program_spread(const struct spread *s)
{
	return json_pack("{s:f, s:f, s:f}", "median", s->median, "min", s->min, "max", s->max);
}

void program_print(json_t *doc, size_t flags)
{
	json_dumpf(doc, stdout, flags | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(doc);
}
