/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* Bars in groups, on an axis that begins at zero: their lengths may be compared. */
#include <math.h>

#include "tools/lib/svg_parts.h"

#define HEIGHT 460.0
#define BOTTOM (HEIGHT - 58.0)
#define ABOVE  52.0 /* room for the value of the highest bar */
#define STEPS  5u

/*
 * A round step, so that STEPS of them or fewer come to @most: 1, 2, 2.5 or 5 times a power of
 * ten.
 */
static double round_step(double most)
{
	static const double times[] = { 1, 2, 2.5, 5, 10 };
	double power = pow(10, floor(log10(most / STEPS)));
	unsigned i = 0;

	while (i < 4 && power * times[i] * STEPS < most)
		i++;
	return power * times[i];
}

static double highest(const struct svg_series *series, unsigned count, unsigned groups)
{
	double most = 0;

	for (unsigned s = 0; s < count; s++) {
		for (unsigned g = 0; g < groups; g++)
			most = series[s].y[g] > most ? series[s].y[g] : most;
	}
	return most > 0 ? most : 1;
}

static void one_bar(FILE *out, double x, double width, double share, double v, const char *colour)
{
	double top = BOTTOM - share * (BOTTOM - SVG_TOP - ABOVE);
	char text[16];

	svg_number(text, v);
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
		x, top, width, BOTTOM - top, colour);
	fputs("<g font-size=\"11\">\n", out);
	svg_words_up(out, x + width / 2 + 4, top - 5, "start", text);
	fputs("</g>\n", out);
}

void svg_bars(FILE *out, const struct svg_text *text, const char *const *group, unsigned groups,
	      const struct svg_series *series, unsigned count)
{
	double highest_bar = highest(series, count, groups), step = round_step(highest_bar);
	unsigned steps = (unsigned)ceil(highest_bar / step - 1e-9);
	double most = step * steps;
	double wide = (SVG_RIGHT - SVG_LEFT) / groups, bar = wide * 0.86 / count;
	char label[16];

	bar = bar > 40 ? 40 : bar;
	svg_open(out, HEIGHT, text, series, count, true);
	svg_axes(out, text, BOTTOM);
	for (unsigned i = 0; i <= steps; i++) {
		double y = BOTTOM - i * (BOTTOM - SVG_TOP - ABOVE) / steps;

		svg_number(label, step * i);
		svg_line(out, SVG_LEFT, y, SVG_RIGHT, y, SVG_GRID);
		svg_words(out, SVG_LEFT - 8, y + 4, "end", label);
	}
	for (unsigned g = 0; g < groups; g++) {
		double from = SVG_LEFT + wide * g + (wide - bar * count) / 2;

		svg_words(out, SVG_LEFT + wide * (g + 0.5), BOTTOM + 18, "middle", group[g]);
		for (unsigned s = 0; s < count; s++) {
			if (series[s].y[g] > 0)
				one_bar(out, from + bar * s, bar - 1, series[s].y[g] / most,
					series[s].y[g], svg_colour(&series[s], s));
		}
	}
	fputs("</svg>\n", out);
}
