/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the benchmarks have in common as programs: options, sentences, the head of their JSON. */
#include <stdint.h>

#include <jansson.h>

#define BENCH_OPTIONS_MAX 20

enum bench_kind {
	BENCH_FLAG, /* bool */
	BENCH_NUMBER, /* uint64_t */
	BENCH_SIZE, /* uint64_t, bytes, with K, M or G */
	BENCH_TEXT, /* const char * */
	BENCH_CHOICE, /* const char *, one of @words */
};

/* An option of the command line; one without a name ends a list. */
struct bench_option {
	const char *name;
	char letter;
	enum bench_kind kind;
	void *value; /* of the kind's type; left as it is where the option is not given */
	uint64_t min, max; /* of a number or a size */
	const char *words; /* "get|put" */
};

struct bench_program {
	const char *name;
	const char *usage; /* what --help prints */
	const struct bench_option *options; /* at most BENCH_OPTIONS_MAX, besides -h and -V */
	const char **operand; /* NULL: none is taken; otherwise one is wanted */
};

/*
 * bench_program_options - take the command line. Returns 0, or -1: it has said what there is to
 * say, exit with *status.
 */
int bench_program_options(const struct bench_program *p, int argc, char **argv, int *status);

/* bench_program_failed - a line on stderr. Returns the exit status, 3. */
int bench_program_failed(const struct bench_program *p, const char *what, const char *why);

/*
 * bench_program_end - the last word of main(): what was printed must have come out. Returns
 * @status, or 3 with a line on stderr where it has not.
 */
int bench_program_end(const struct bench_program *p, int status);

/* bench_program_json - a document with tool, schema and version; NULL: no memory. */
json_t *bench_program_json(const struct bench_program *p);

/* bench_program_print - the document on stdout, @flags as of json_dumpf(); lets go of it. */
void bench_program_print(json_t *doc, size_t flags);
