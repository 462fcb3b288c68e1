/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/lib/svg.h"

#include <math.h>
#include <stdbool.h>

#define WIDTH	  760.0
#define HEIGHT	  430.0
#define LEFT	  84.0
#define RIGHT	  (WIDTH - 130.0)
#define TOP	  46.0
#define BOTTOM	  (HEIGHT - 58.0)
#define ROW	  34.0
#define LEGEND	  22.0
#define GRID	  "#d8d8d8"
#define GRID_FINE "#f0f0f0"
#define INK	  "#222222"

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

static void words(FILE *out, double x, double y, const char *anchor, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	escaped(out, text);
	fputs("</text>\n", out);
}

static void line(FILE *out, double x1, double y1, double x2, double y2, const char *stroke)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1,
		y1, x2, y2, stroke);
}

/* 1500 is 1.5k. */
static void number(char text[16], double v)
{
	static const char unit[] = " kMGT";
	unsigned u = 0;

	for (; v >= 999.5 && u + 1 < sizeof(unit) - 1; u++)
		v /= 1000;
	snprintf(text, 16, u ? "%.3g%c" : "%.3g", v, unit[u]);
}

static void open_svg(FILE *out, double height, const struct svg_text *text)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" INK
		"\">\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n",
		WIDTH, height, WIDTH, height, WIDTH, height);
	fprintf(out, "<g font-size=\"15\">\n");
	words(out, LEFT, 26, "start", text->title);
	fprintf(out, "</g>\n");
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
			const char *stroke = i == 1 ? GRID : GRID_FINE;

			if (along_x)
				line(out, at, from, at, to, stroke);
			else
				line(out, from, at, to, at, stroke);
		}
		number(text, d);
		if (along_x)
			words(out, place(a, d), to + 18, "middle", text);
		else
			words(out, from - 8, place(a, d) + 4, "end", text);
	}
}

static void one_line(FILE *out, const struct axis *ax, const struct axis *ay, const double *x,
		     unsigned points, const struct svg_series *s, unsigned n)
{
	fprintf(out,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
		"points=\"",
		colour[n], dash[n]);
	for (unsigned i = 0; i < points; i++) {
		if (s->y[i] > 0)
			fprintf(out, "%.1f,%.1f ", place(ax, x[i]), place(ay, s->y[i]));
	}
	fputs("\"/>\n", out);
	for (unsigned i = 0; i < points; i++) {
		if (s->y[i] > 0)
			fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
				place(ax, x[i]), place(ay, s->y[i]), colour[n]);
	}
	fprintf(out,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
		RIGHT + 14, TOP + 8 + LEGEND * n, RIGHT + 44, TOP + 8 + LEGEND * n, colour[n],
		dash[n]);
	words(out, RIGHT + 52, TOP + 12 + LEGEND * n, "start", s->name);
}

void svg_lines(FILE *out, const struct svg_text *text, const double *x, unsigned points,
	       const struct svg_series *series, unsigned count)
{
	struct axis ax = { x[0] / 1.3, x[points - 1] * 1.3, LEFT, RIGHT }, ay;
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
	ay = decades(least, most, BOTTOM, TOP);
	open_svg(out, HEIGHT, text);
	fprintf(out, "<g transform=\"translate(22 %.0f) rotate(-90)\">\n", (TOP + BOTTOM) / 2);
	words(out, 0, 0, "middle", text->y);
	fputs("</g>\n", out);
	words(out, (LEFT + RIGHT) / 2, HEIGHT - 14, "middle", text->x);
	decade_grid(out, &ay, false, LEFT, RIGHT);
	for (unsigned i = 0; i < points; i++) {
		number(label, x[i]);
		line(out, place(&ax, x[i]), TOP, place(&ax, x[i]), BOTTOM, GRID);
		words(out, place(&ax, x[i]), BOTTOM + 18, "middle", label);
	}
	for (unsigned s = 0; s < count && s < SVG_SERIES_MAX; s++)
		one_line(out, &ax, &ay, x, points, &series[s], s);
	fputs("</svg>\n", out);
}

static void one_range(FILE *out, const struct axis *ax, const struct svg_range *r, double y)
{
	double p50 = place(ax, r->p50), p99 = place(ax, r->p99), max = place(ax, r->max);

	line(out, p50, y, max, y, INK);
	line(out, max, y - 6, max, y + 6, INK);
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
	double height = TOP + ROW * count + 84, least = 0, most = 0;
	double bottom = TOP + ROW * count;
	struct axis ax;

	for (unsigned i = 0; i < count; i++) {
		double low = range[i].mean < range[i].p50 ? range[i].mean : range[i].p50;

		if (!shown(&range[i]))
			continue;
		if (least == 0 || low < least)
			least = low;
		most = range[i].max > most ? range[i].max : most;
	}
	ax = decades(least, most, LEFT, RIGHT);
	open_svg(out, height, text);
	decade_grid(out, &ax, true, TOP, bottom);
	for (unsigned i = 0; i < count; i++) {
		double y = TOP + ROW * (i + 0.5);

		words(out, LEFT - 10, y + 4, "end", range[i].name);
		if (shown(&range[i]))
			one_range(out, &ax, &range[i], y);
	}
	words(out, (LEFT + RIGHT) / 2, bottom + 40, "middle", text->x);
	words(out, (LEFT + RIGHT) / 2, bottom + 68, "middle",
	      "bar: median to 99th percentile; line: to the longest; circle: mean");
	fputs("</svg>\n", out);
}
