/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include <math.h>
#include <string.h>

#include "tools/lib/svg_parts.h"

#define HEIGHT	   440.0
#define BOTTOM	   (HEIGHT - 58.0)
#define ROW	   34.0
#define LEGEND_MIN 130.0
#define SAMPLE	   38.0 /* of a line, in the legend */
#define BOX	   12.0 /* of a bar, likewise */
#define LETTER	   7.0 /* how wide one is, about */

/* Told apart by eyes that see few colours too; dashes help where lines lie on each other. */
static const char *const colour[SVG_SERIES_MAX] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
						    "#e69f00", "#56b4e9", "#000000", "#888888",
						    "#7a5195", "#a05d2c", "#3f7f00", "#c00000" };
static const char *const dash[SVG_SERIES_MAX] = {
	"none", "7 3", "2 3", "9 3 2 3", "none", "7 3", "2 3", "none", "9 3", "4 2", "1 2", "none"
};

/* Values from @from to @to, both above 0, over pixels. */
struct axis {
	double from, to, start, end;
};

static double place(const struct axis *a, double v)
{
	return a->start + (a->end - a->start) * log(v / a->from) / log(a->to / a->from);
}

static void escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else
			fputc(*text, out);
	}
}

void svg_words(FILE *out, double x, double y, const char *anchor, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	escaped(out, text);
	fputs("</text>\n", out);
}

void svg_words_up(FILE *out, double x, double y, const char *anchor, const char *text)
{
	fprintf(out, "<g transform=\"translate(%.1f %.1f) rotate(-90)\">\n", x, y);
	svg_words(out, 0, 0, anchor, text);
	fputs("</g>\n", out);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2, const char *stroke)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1,
		y1, x2, y2, stroke);
}

void svg_number(char text[16], double v)
{
	static const char unit[] = " kMGT";
	unsigned u = 0;

	for (; v >= 999.5 && u + 1 < sizeof(unit) - 1; u++)
		v /= 1000;
	snprintf(text, 16, u ? "%.3g%c" : "%.3g", v, unit[u]);
}

static const char *dashes(const struct svg_series *s, unsigned place)
{
	if (s->colour)
		return s->dashed ? "6 4" : "none";
	return dash[place % SVG_SERIES_MAX];
}

const char *svg_colour(const struct svg_series *s, unsigned place)
{
	return colour[(s->colour ? s->colour - 1 : place) % SVG_SERIES_MAX];
}

/* As what it stands for looks: a box for bars, else a piece of the line. */
static void legend(FILE *out, const struct svg_series *s, unsigned place, bool bars)
{
	double y = SVG_TOP + 8 + SVG_LEGEND * place;

	if (bars) {
		fprintf(out,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
			SVG_RIGHT + 14, y - BOX / 2, BOX, BOX, svg_colour(s, place));
		svg_words(out, SVG_RIGHT + 22 + BOX, y + 4, "start", s->name);
		return;
	}
	fprintf(out,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"%d\" stroke-dasharray=\"%s\"/>\n",
		SVG_RIGHT + 14, y, SVG_RIGHT + 6 + SAMPLE, y, svg_colour(s, place), 3,
		dashes(s, place));
	svg_words(out, SVG_RIGHT + 14 + SAMPLE, y + 4, "start", s->name);
}

void svg_open(FILE *out, double height, const struct svg_text *text,
	      const struct svg_series *series, unsigned count, bool bars)
{
	double beside = LEGEND_MIN;

	for (unsigned i = 0; i < count; i++) {
		double wants = 26 + SAMPLE + LETTER * (double)strlen(series[i].name);

		beside = wants > beside ? wants : beside;
	}
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\" "
		"fill=\"" SVG_INK "\">\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n",
		SVG_RIGHT + beside, height, SVG_RIGHT + beside, height, SVG_RIGHT + beside, height);
	fprintf(out, "<g font-size=\"15\">\n");
	svg_words(out, SVG_LEFT, 24, "start", text->title);
	fprintf(out, "</g>\n");
	if (text->note) {
		fprintf(out, "<g font-size=\"11\">\n");
		svg_words(out, SVG_LEFT, 42, "start", text->note);
		fprintf(out, "</g>\n");
	}
	for (unsigned i = 0; i < count; i++)
		legend(out, &series[i], i, bars);
}

void svg_axes(FILE *out, const struct svg_text *text, double bottom)
{
	svg_words_up(out, 22, (SVG_TOP + bottom) / 2, "middle", text->y);
	svg_words(out, (SVG_LEFT + SVG_RIGHT) / 2, bottom + 44, "middle", text->x);
}

/* Whole decades around the values; at least one. */
static struct axis decades(double least, double most, double start, double end)
{
	struct axis a = { 1, 10, start, end };

	if (!(least > 0))
		return a;
	a.from = pow(10, floor(log10(least)));
	a.to = pow(10, ceil(log10(most)));
	if (a.to < 10 * a.from)
		a.to = 10 * a.from;
	return a;
}

/* Lines across at 1 to 9 of each decade, numbers at 1. @x: the axis lies along x. */
static void decade_grid(FILE *out, const struct axis *a, bool along_x, double from, double to)
{
	char text[16];

	for (double d = a->from; d <= a->to * 1.001; d *= 10) {
		for (unsigned i = 1; i < 10 && d * i <= a->to * 1.001; i++) {
			double at = place(a, d * i);
			const char *stroke = i == 1 ? SVG_GRID : SVG_FINE;

			if (along_x)
				svg_line(out, at, from, at, to, stroke);
			else
				svg_line(out, from, at, to, at, stroke);
		}
		svg_number(text, d);
		if (along_x)
			svg_words(out, place(a, d), to + 18, "middle", text);
		else
			svg_words(out, from - 8, place(a, d) + 4, "end", text);
	}
}

static void one_line(FILE *out, const struct axis *ax, const struct axis *ay, const double *x,
		     unsigned points, const struct svg_series *s, unsigned n)
{
	fprintf(out,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
		"points=\"",
		svg_colour(s, n), dashes(s, n));
	for (unsigned i = 0; i < points; i++) {
		if (s->y[i] > 0)
			fprintf(out, "%.1f,%.1f ", place(ax, x[i]), place(ay, s->y[i]));
	}
	fputs("\"/>\n", out);
	for (unsigned i = 0; i < points; i++) {
		if (s->y[i] > 0)
			fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
				place(ax, x[i]), place(ay, s->y[i]), svg_colour(s, n));
	}
}

void svg_lines(FILE *out, const struct svg_text *text, const double *x, unsigned points,
	       const struct svg_series *series, unsigned count)
{
	struct axis ax = { x[0] / 1.3, x[points - 1] * 1.3, SVG_LEFT, SVG_RIGHT }, ay;
	double least = 0, most = 0;
	char label[16];

	for (unsigned s = 0; s < count; s++) {
		for (unsigned i = 0; i < points; i++) {
			double y = series[s].y[i];

			if (y > 0 && (least == 0 || y < least))
				least = y;
			most = y > most ? y : most;
		}
	}
	ay = decades(least, most, BOTTOM, SVG_TOP);
	if (count > SVG_SERIES_MAX)
		count = SVG_SERIES_MAX;
	svg_open(out, HEIGHT, text, series, count, false);
	svg_axes(out, text, BOTTOM);
	decade_grid(out, &ay, false, SVG_LEFT, SVG_RIGHT);
	for (unsigned i = 0; i < points; i++) {
		svg_number(label, x[i]);
		svg_line(out, place(&ax, x[i]), SVG_TOP, place(&ax, x[i]), BOTTOM, SVG_GRID);
		svg_words(out, place(&ax, x[i]), BOTTOM + 18, "middle",
			  text->mark ? text->mark[i] : label);
	}
	for (unsigned s = 0; s < count; s++)
		one_line(out, &ax, &ay, x, points, &series[s], s);
	fputs("</svg>\n", out);
}

static void one_range(FILE *out, const struct axis *ax, const struct svg_range *r, double y)
{
	double p50 = place(ax, r->p50), p99 = place(ax, r->p99), max = place(ax, r->max);

	svg_line(out, p50, y, max, y, SVG_INK);
	svg_line(out, max, y - 6, max, y + 6, SVG_INK);
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"12\" fill=\"%s\"/>\n",
		p50, y - 6, p99 - p50 > 1 ? p99 - p50 : 1, colour[0]);
	fprintf(out,
		"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"white\" stroke=\"%s\" "
		"stroke-width=\"2\"/>\n",
		place(ax, r->mean), y, colour[1]);
}

static bool shown(const struct svg_range *r)
{
	return r->p50 > 0 && r->mean > 0 && r->p99 > 0 && r->max > 0;
}

void svg_ranges(FILE *out, const struct svg_text *text, const struct svg_range *range,
		unsigned count)
{
	double height = SVG_TOP + ROW * count + 84, least = 0, most = 0;
	double bottom = SVG_TOP + ROW * count;
	struct axis ax;

	for (unsigned i = 0; i < count; i++) {
		double low = range[i].mean < range[i].p50 ? range[i].mean : range[i].p50;

		if (!shown(&range[i]))
			continue;
		if (least == 0 || low < least)
			least = low;
		most = range[i].max > most ? range[i].max : most;
	}
	ax = decades(least, most, SVG_LEFT, SVG_RIGHT);
	svg_open(out, height, text, NULL, 0, false);
	decade_grid(out, &ax, true, SVG_TOP, bottom);
	for (unsigned i = 0; i < count; i++) {
		double y = SVG_TOP + ROW * (i + 0.5);

		svg_words(out, SVG_LEFT - 10, y + 4, "end", range[i].name);
		if (shown(&range[i]))
			one_range(out, &ax, &range[i], y);
	}
	svg_words(out, (SVG_LEFT + SVG_RIGHT) / 2, bottom + 40, "middle", text->x);
	svg_words(out, (SVG_LEFT + SVG_RIGHT) / 2, bottom + 68, "middle",
		  "bar: median to 99th percentile; line: to the longest; circle: mean");
	fputs("</svg>\n", out);
}
