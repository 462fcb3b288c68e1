/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * Plots as SVG: lines over a common x and ranges in rows, on logarithmic axes; bars in groups, from
 * zero. One thread.
 */
#include <stdbool.h>
#include <stdio.h>

#define SVG_SERIES_MAX 12u

struct svg_text {
	const char *title, *x, *y; /* plain text: &, < and > are escaped */
	const char *note; /* below the title, smaller; NULL: none */
	const char *const *mark; /* of svg_lines(): what stands at each x; NULL: the number */
};

/* A line, or a bar of each group; values that are not above 0 are left out. */
struct svg_series {
	const char *name;
	const double *y;
	unsigned colour; /* 0: by its place in the list; else that of place colour - 1 */
	bool dashed; /* lines that have a colour: like another one, and dashed */
};

/* A row: a bar from the median to the greatest value, with marks. All above 0, or it is empty. */
struct svg_range {
	const char *name;
	double p50, mean, p99, max;
};

/* svg_lines - @x: @points values above 0, rising; they are the axis's marks. */
void svg_lines(FILE *out, const struct svg_text *text, const double *x, unsigned points,
	       const struct svg_series *series, unsigned count);

/* svg_ranges - text->y is not shown. */
void svg_ranges(FILE *out, const struct svg_text *text, const struct svg_range *range,
		unsigned count);

/* svg_bars - @groups along x, each with a bar of every series, its value written above. */
void svg_bars(FILE *out, const struct svg_text *text, const char *const *group, unsigned groups,
	      const struct svg_series *series, unsigned count);
