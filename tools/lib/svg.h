/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Two plots as SVG, logarithmic axes: lines over a common x, and ranges in rows. One thread. */
#include <stdio.h>

#define SVG_SERIES_MAX 12u

struct svg_text {
	const char *title, *x, *y; /* plain text: &, < and > are escaped */
};

/* A line; points that are not above 0 are left out. */
struct svg_series {
	const char *name;
	const double *y;
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
