/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Plots: what a legend shows is what is drawn. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/unit.h"
#include "tools/lib/svg.h"

static const double rates[] = { 3, 0 }, others[] = { 2, 1 };
static const struct svg_series series[] = { { .name = "ours & mine", .y = rates },
					    { .name = "theirs", .y = others } };
static const struct svg_text words = { .title = "title", .x = "x", .y = "y" };

/* What a plot is as text; to be freed. */
static char *plot(bool bars)
{
	static const char *const group[] = { "A", "B" };
	static const double x[] = { 1, 10 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	if (bars)
		svg_bars(out, &words, group, 2, series, 2);
	else
		svg_lines(out, &words, x, 2, series, 2);
	assert_int_equal(fclose(out), 0);
	return text;
}

static unsigned count(const char *text, const char *of)
{
	unsigned n = 0;

	for (; (text = strstr(text, of)); text += strlen(of))
		n++;
	return n;
}

/* The paper; a box of the legend for each series; a bar for each of three values above 0. */
UNIT_TEST(bars_have_boxes_in_their_legend)
{
	char *text = plot(true);

	assert_int_equal(count(text, "<rect"), 1 + 2 + 3);
	assert_int_equal(count(text, "stroke-dasharray"), 0);
	assert_int_equal(count(text, ">ours &amp; mine<"), 1);
	free(text);
}

UNIT_TEST(lines_have_pieces_of_lines)
{
	char *text = plot(false);

	assert_int_equal(count(text, "<rect"), 1);
	assert_int_equal(count(text, "stroke-dasharray"), 2 + 2);
	assert_int_equal(count(text, "<circle"), 3);
	free(text);
}
