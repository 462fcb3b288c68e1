/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What tools have in common as programs: options, sentences, the head of their JSON. */
#include <stdint.h>

#include <jansson.h>

#include "tools/lib/samples.h"

#define PROGRAM_OPTIONS_MAX 48
#define PROGRAM_LIST_MAX    256

enum program_kind {
	PROGRAM_FLAG, /* bool */
	PROGRAM_NUMBER, /* uint64_t */
	PROGRAM_SIZE, /* uint64_t, bytes, with K, M or G */
	PROGRAM_TEXT, /* const char * */
	PROGRAM_CHOICE, /* const char *, one of @words */
	PROGRAM_LIST, /* char [PROGRAM_LIST_MAX]: what each use gives, between commas */
};

/* An option of the command line; one without a name ends a list. */
struct program_option {
	const char *name;
	char letter; /* 0: it has a long name only */
	enum program_kind kind;
	void *value; /* of the kind's type; left as it is where the option is not given */
	uint64_t min, max; /* of a number or a size */
	const char *words; /* "get|put" */
	const char *argument, *help; /* what --help calls its value, and says of it */
};

/* Words that are no options: what stands after them, or between. */
struct program_words {
	char **word;
	int count;
};

struct program {
	const char *name;
	/* What --help prints, two before the options and two after; only the first is wanted. */
	const char *usage, *about, *notes, *examples;
	const struct program_option *options; /* at most PROGRAM_OPTIONS_MAX, besides -h and -V */
	const char **operand; /* NULL: none is taken; otherwise one, or else what it says already */
	struct program_words *words; /* not NULL: any number are taken, instead */
};

/*
 * program_options - take the command line. Returns 0, or -1: it has said what there is to
 * say, exit with *status.
 */
int program_options(const struct program *p, int argc, char **argv, int *status);

/*
 * program_told - a line on stderr, with the option --json a document (failure.h); @what is left out
 * where @why begins with it. Returns @status.
 */
int program_told(const struct program *p, int status, const char *what, const char *why);

/* program_failed - the same of what failed. Returns the exit status, 3. */
int program_failed(const struct program *p, const char *what, const char *why);

/* program_usage - the same of wrong usage. Returns the exit status, 2. */
int program_usage(const struct program *p, const char *why);

/*
 * program_end - the last word of main(): what was printed must have come out. Returns
 * @status, or 3 with a line on stderr where it has not.
 */
int program_end(const struct program *p, int status);

/* program_json - a document with tool, schema and version; NULL: no memory. */
json_t *program_json(const struct program *p);

/* program_spread - @s as an object: median, min, max. NULL: no memory. */
json_t *program_spread(const struct spread *s);

/* program_print - the document on stdout, @flags as of json_dumpf(); lets go of it. */
void program_print(json_t *doc, size_t flags);
