/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The server's statistics as a table: each look at them is one text, of lines "NAME VALUE", and is
 * compared with the look before. What comes is not trusted: lines of another form are counted, and
 * otherwise left out. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATS_NAME_MAX	 64u /* with its end */
#define STATS_LINES_MAX	 8192u /* of a look; what is beyond is left out */
#define STATS_FIELDS_MAX 8u

#define STATS_UNKNOWN (-1.0) /* a rate that is not known */

struct stats_value {
	char name[STATS_NAME_MAX]; /* letters, digits, _ . and - */
	uint64_t value;
	uint64_t before; /* at the look before; where compared */
	bool compared; /* it was there before, and not more */
};

struct stats_table {
	struct stats_value *values; /* in the order of the text */
	struct stats_value **sorted; /* the same, by name */
	size_t count;
	unsigned malformed; /* lines that are no NAME VALUE */
	uint64_t at_ns; /* when it was looked at; 0: never */
	bool lost; /* the look before is of no use */
	double seconds; /* since the look before; 0: nothing is compared */
};

/*
 * stats_table_read - take a look's @text, of the time @at_ns (CLOCK_MONOTONIC). The time between
 * two looks is told by the server's uptime_ms where both have it. Where that went back, or the pid
 * is another one, it is another server: nothing is compared then.
 * Returns 0 or -ENOMEM, then the table is empty.
 */
int stats_table_read(struct stats_table *t, const char *text, uint64_t at_ns);

/* stats_table_lose - the next look is not compared with this one. */
void stats_table_lose(struct stats_table *t);

/* stats_table_free - it is zeroed then, and may be used again. */
void stats_table_free(struct stats_table *t);

/* stats_find - a value by its name; NULL: there is none. Valid until the next look. */
const struct stats_value *stats_find(const struct stats_table *t, const char *name);

/* stats_rate_of - per second, or STATS_UNKNOWN; @v may be NULL. */
double stats_rate_of(const struct stats_table *t, const struct stats_value *v);

/* stats_rate - the same by name. */
double stats_rate(const struct stats_table *t, const char *name);

/* stats_ratio - how much @over grew for one of @under; STATS_UNKNOWN, also where @under did not. */
double stats_ratio(const struct stats_value *over, const struct stats_value *under);

/* What lines "PREFIX_NUMBER_FIELD" say of one number. */
struct stats_row {
	uint64_t number;
	const struct stats_value *field[STATS_FIELDS_MAX]; /* NULL: there is none */
};

/*
 * stats_rows - a row for each number, in the order of the text.
 * @prefix: "session_". @fields: at most STATS_FIELDS_MAX, NULL-terminated; lines with others make
 * no row. @rows: to be freed with free(); valid until the next look. Returns 0 or -ENOMEM.
 */
int stats_rows(const struct stats_table *t, const char *prefix, const char *const *fields,
	       struct stats_row **rows, size_t *count);
